/* SPDX-License-Identifier: Apache-2.0 */
/* A job of API v1 as protocol v2 says it. What v1's server does for every job, such as ssh between
 * the tasks, v2 has to ask for. */
#include <stdio.h>
#include <string.h>

#include "platform/openpai/jobfile/pai_internal.h"

#define IMAGE "default"      /* the prerequisite's name */
#define DEPLOYMENT "default" /* of what sets the variables */

static const char *text_in(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text && *text ? text : NULL;
}

static void tell_lost(struct rg_pai_convert *c)
{
    static const char *const folders[] = { "dataDir", "outputDir", "codeDir" };
    const json_t *rest = c->from->rest;

    if (text_in(rest, "authFile"))
        rg_pai_word(c, "authFile: left out: protocol v2 does not read such a file; write what is "
                    "in it as auth of the prerequisite %s, if the image is not public", IMAGE);
    for (size_t i = 0; i < rg_array_len(folders); i++) {
        if (text_in(rest, folders[i]))
            rg_pai_word(c, "%s: left out: protocol v2 has no such folder; commands that read or "
                        "write there must fetch and keep the files themselves", folders[i]);
    }
    if (c->from->gpu_type && *c->from->gpu_type)
        rg_pai_word(c, "gpuType: left out: protocol v2 does not choose a type of GPU");
    if (json_object_get(rest, "killAllOnCompletedTaskNumber"))
        rg_pai_word(c, "killAllOnCompletedTaskNumber: left out: it is obsolete, and had no effect");
    if (json_is_true(json_object_get(c->from->env, "isDebug")))
        rg_pai_word(c, "jobEnvs.isDebug: the variable stays, but protocol v2 does not keep the "
                    "container of a task that has failed for it");
}

/* --- roles ------------------------------------------------------------------------------------ */

static int convert_commands(struct rg_pai_convert *c, size_t i)
{
    const char *command = c->to->roles[i].commands.v[0];
    struct rg_pai_template found;

    if (rg_pai_template_next(command, &found))
        return rg_pai_refuse(c, "taskRoles[%zu].command: it has %.*s in it, which protocol v2 "
                             "would take for a template; put the command into a script in the "
                             "image", i,
                             found.nbytes < 80 ? (int) found.nbytes : 80, found.whole);
    if (strpbrk(command, "\r\n"))
        rg_pai_word(c, "taskRoles[%zu].command: its lines stay lines; API v1 would have lost the "
                    "breaks", i);
    return 0;
}

static int convert_ports(struct rg_pai_convert *c, size_t i)
{
    const struct rg_pai_role *role = &c->to->roles[i];

    for (size_t k = 0; k < role->nports; k++) {
        for (size_t j = 0; j < k; j++) {
            if (strcmp(role->ports[j].label, role->ports[k].label) == 0)
                return rg_pai_refuse(c, "taskRoles[%zu].portList[%zu].label: another port has the "
                                     "label %.80s, and protocol v2 has one of each", i, k,
                                     role->ports[k].label);
        }
        if (role->ports[k].begin)
            rg_pai_word(c, "taskRoles[%zu].portList[%zu].beginAt: left out: protocol v2 chooses "
                        "the numbers; read them in PAI_PORT_LIST_%.80s_INDEX_%.80s", i, k,
                        role->name, role->ports[k].label);
    }
    return 0;
}

static int convert_role(struct rg_pai_convert *c, size_t i, bool rdma)
{
    struct rg_pai_role *role = &c->to->roles[i];
    int r = convert_commands(c, i);

    if (r == 0)
        r = convert_ports(c, i);
    if (r < 0)
        return r;
    if (role->tasks < 1)
        return rg_pai_refuse(c, "taskRoles[%zu].taskNumber: protocol v2 has no role without tasks; "
                             "take the role out", i);
    role->image = strdup(IMAGE);
    role->rest = rdma ? json_pack("{s:{s:b}}", "extraContainerOptions", "infiniband", 1)
                      : json_object();
    return role->image && role->rest ? 0 : -ENOMEM;
}

/* --- variables -------------------------------------------------------------------------------- */

/* They are parameters, and each role's first commands export them. */
static int convert_env(struct rg_pai_convert *c)
{
    json_t *exports = json_array(), *roles = json_object(), *value;
    const char *name;
    int r = 0;

    c->to->env = json_deep_copy(c->from->env);
    json_object_foreach(c->to->env, name, value) {
        rg_autofree char *line = rg_pai_export(name, value);
        if (line)
            r |= json_array_append_new(exports, json_string(line));
        else
            rg_pai_word(c, "jobEnvs.%.80s: it is a parameter now, but no variable any more: a "
                        "shell takes no such name or value", name);
    }
    for (size_t i = 0; i < c->to->nroles && json_array_size(exports); i++)
        r |= json_object_set_new(roles, c->to->roles[i].name,
                                 json_pack("{s:O}", "preCommands", exports));
    if (json_object_size(roles)) {
        r |= json_object_set_new(c->to->rest, "deployments",
                                 json_pack("[{s:s, s:O}]", "name", DEPLOYMENT, "taskRoles", roles));
        r |= json_object_set_new(c->to->rest, "defaults",
                                 json_pack("{s:s}", "deployment", DEPLOYMENT));
    }
    json_decref(exports);
    json_decref(roles);
    return r || (c->from->env && !c->to->env) ? -ENOMEM : 0;
}

/* --- ssh -------------------------------------------------------------------------------------- */

/* Whether a text has this name and behind it a dash and a digit: a task's host. */
static bool names_host(const char *text, const char *role)
{
    for (size_t n = strlen(role); n && (text = strstr(text, role)); text += n) {
        if (text[n] == '-' && text[n + 1] >= '0' && text[n + 1] <= '9')
            return true;
    }
    return false;
}

static bool uses_ssh(const struct rg_pai *job)
{
    static const char *const words[] = { "ssh", "scp", "mpirun", "mpiexec", "horovodrun",
                                         "deepspeed", "reigen run" };

    for (size_t i = 0; i < job->nroles; i++) {
        const char *command = job->roles[i].commands.v[0];
        struct rg_pai_hope hope;
        bool uses = rg_pai_hope_of(job, i, &hope) || rg_pai_waits(command);
        for (size_t k = 0; k < rg_array_len(words); k++)
            uses |= strstr(command, words[k]) != NULL;
        for (size_t k = 0; k < job->nroles; k++)
            uses |= names_host(command, job->roles[k].name);
        if (uses)
            return true;
    }
    return false;
}

/* The plugin's sshbarrier is true where no command waits by itself, or sleeps first. */
static int convert_ssh(struct rg_pai_convert *c)
{
    json_t *extras = c->to->extras, *parameters;
    int64_t ntasks = 0;
    bool waits = false, sleeps = false;

    for (size_t i = 0; i < c->from->nroles; i++) {
        struct rg_pai_hope hope;
        ntasks += c->from->roles[i].tasks > 1 ? 2 : 1;
        waits |= rg_pai_waits(c->from->roles[i].commands.v[0]);
        sleeps |= rg_pai_hope_of(c->from, i, &hope);
    }
    if (ntasks < 2 || !uses_ssh(c->from) || json_object_get(extras, RG_PAI_PLUGINS))
        return 0;
    extras = extras ? extras : json_object();
    c->to->extras = extras;
    rg_pai_word(c, "extras: the ssh plugin is added%s",
                waits ? "; as a command waits for the others itself, sshbarrier is false"
                : sleeps ? ", for the ssh between the tasks"
                         : ", which lets the commands begin when all tasks can be reached "
                           "(sshbarrier)");
    parameters = json_pack("{s:b, s:b}", "jobssh", 1, "sshbarrier", !waits && !sleeps);
    if (!waits && !sleeps && json_object_set_new(parameters, "sshbarrierTimeout",
                                                 json_integer(RG_PAI_BARRIER_MINUTES)) < 0) {
        json_decref(parameters);
        return -ENOMEM;
    }
    return json_object_set_new(extras, RG_PAI_PLUGINS,
                               json_pack("[{s:s, s:o}]", "plugin", "ssh", "parameters",
                                         parameters)) < 0 ? -ENOMEM : 0;
}

int rg_pai_to_v2(struct rg_pai_convert *c)
{
    const struct rg_pai *from = c->from;
    const json_t *said = json_object_get(from->env, RG_PAI_RDMA);
    const char *text = json_string_value(said);
    bool rdma = json_is_true(said) || (text && strcmp(text, "true") == 0);
    int r = 0;

    c->to->rest = json_pack("{s:[{s:s, s:s, s:s}]}", "prerequisites", "name", IMAGE, "type",
                            "dockerimage", "uri", from->image);
    c->to->extras = json_deep_copy(from->extras);
    if (!c->to->rest || (from->extras && !c->to->extras))
        return -ENOMEM;
    tell_lost(c);
    c->to->retries = from->retries;
    if (from->retries != RG_PAI_NONE && from->retries < 0) {
        rg_pai_word(c, "retryCount: %lld becomes 0: protocol v2 counts failures from 0 on",
                    (long long) from->retries);
        c->to->retries = 0;
    }
    if (text && rdma)
        rg_pai_word(c, "jobEnvs.%s: \"true\" is taken for true", RG_PAI_RDMA);
    for (size_t i = 0; r == 0 && i < c->to->nroles; i++)
        r = convert_role(c, i, rdma);
    r = r < 0 ? r : convert_env(c);
    if (r == 0 && text && rdma && json_object_set_new(c->to->env, RG_PAI_RDMA, json_true()) < 0)
        r = -ENOMEM;
    return r < 0 ? r : convert_ssh(c);
}
