/* SPDX-License-Identifier: Apache-2.0 */
/* A job of protocol v2 as API v1 says it: one image, one line of command for each role, and no
 * templates, so what they name is written in their place. */
#include <stdio.h>
#include <string.h>

#include "platform/openpai/jobfile/pai_internal.h"

/* --- prerequisites ---------------------------------------------------------------------------- */

static const json_t *find(const json_t *list, const char *type, const char *name)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item) {
        const char *its = json_string_value(json_object_get(item, "type")) ?: "";
        const char *called = json_string_value(json_object_get(item, "name")) ?: "";
        if (name && (!type || strcmp(its, type) == 0) && strcmp(called, name) == 0)
            return item;
    }
    return NULL;
}

static int convert_image(struct rg_pai_convert *c)
{
    const json_t *list = json_object_get(c->from->rest, "prerequisites");
    const json_t *first = NULL;

    for (size_t i = 0; i < c->from->nroles; i++) {
        const json_t *item = find(list, "dockerimage", c->from->roles[i].image);
        const char *uri = json_string_value(json_object_get(item, "uri")) ?: "";
        const char *other = json_string_value(json_object_get(first, "uri"));
        if (other && strcmp(other, uri) != 0)
            return rg_pai_refuse(c, "taskRoles.%.80s.dockerImage: API v1 has one image for all "
                                 "roles, and this role has another one", c->from->roles[i].name);
        first = first ? first : item;
    }
    if (json_object_get(first, "auth"))
        rg_pai_word(c, "prerequisites: auth is left out: put it into a file on the storage, and "
                    "name that as authFile");
    const char *uri = json_string_value(json_object_get(first, "uri"));
    if (!uri || !*uri)
        return rg_pai_refuse(c, "prerequisites: the image has no address, which API v1 requires");
    c->to->image = strdup(uri);
    return c->to->image ? 0 : -ENOMEM;
}

/* --- templates -------------------------------------------------------------------------------- */

const json_t *rg_pai_template_value(const struct rg_pai *job, const struct rg_pai_role *role,
                                    const struct rg_pai_template *found)
{
    const json_t *list = json_object_get(job->rest, "prerequisites"), *uri;
    const char *name = json_string_value(json_object_get(role->rest, found->kind));
    int64_t index = 0;
    char digits[8];

    if (strcmp(found->kind, "parameters") == 0)
        return json_object_get(job->env, found->name);
    uri = json_object_get(find(list, found->kind, name), "uri");
    if (strcmp(found->name, "uri") == 0 && json_is_string(uri))
        return uri;
    if (!rg_str_starts(found->name, "uri["))
        return NULL;
    snprintf(digits, sizeof digits, "%.*s", (int) strcspn(found->name + 4, "]"), found->name + 4);
    if (rg_parse_int("", digits, 0, 9999, &index, NULL) < 0)
        return NULL;
    return json_is_string(uri) && index == 0 ? uri : json_array_get(uri, (size_t) index);
}

/* One command more, with values in the place of templates. */
static int put_command(struct rg_pai_convert *c, const struct rg_pai_role *role, const char *text,
                       struct rg_buf *ret_text)
{
    struct rg_pai_template found;

    if (rg_buf_nbytes(ret_text))
        rg_buf_put(ret_text, "\n", 1);
    while (rg_pai_template_next(text, &found)) {
        rg_autofree char *value = rg_pai_value_text(
            rg_pai_template_value(c->from, role, &found));
        if (!value)
            return rg_pai_refuse(c, "taskRoles.%.80s.commands: %.*s: API v1 has no templates, and "
                                 "%s", role->name, found.nbytes < 80 ? (int) found.nbytes : 80,
                                 found.whole,
                                 strcmp(found.kind, "secrets") == 0
                                     ? "a secret is not written into a command, which all can read"
                                     : "this one has no single value to be written in its place");
        rg_buf_put(ret_text, text, (size_t) (found.whole - text));
        rg_buf_put(ret_text, value, strlen(value));
        text = found.whole + found.nbytes;
    }
    rg_buf_put(ret_text, text, strlen(text));
    return 0;
}

/* --- commands --------------------------------------------------------------------------------- */

const json_t *rg_pai_deployed(const struct rg_pai *job, const char *role, const char *which)
{
    const char *name = json_string_value(
        json_object_get(json_object_get(job->rest, "defaults"), "deployment"));
    const json_t *item = find(json_object_get(job->rest, "deployments"), NULL, name);

    return json_object_get(json_object_get(json_object_get(item, "taskRoles"), role), which);
}

static bool has_line(const json_t *list, const char *line)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item) {
        if (strcmp(json_string_value(item) ?: "", line) == 0)
            return true;
    }
    return false;
}

/* Parameters that every role exports first, as the way from v1 writes them, are v1's variables. */
static int convert_env(struct rg_pai_convert *c, struct rg_strv *exports)
{
    const char *name;
    json_t *value;

    json_object_foreach(c->from->env, name, value) {
        rg_autofree char *line = rg_pai_export(name, value);
        bool is_everywhere = line != NULL;
        for (size_t i = 0; is_everywhere && i < c->from->nroles; i++)
            is_everywhere = has_line(rg_pai_deployed(c->from, c->from->roles[i].name,
                                                     "preCommands"), line);
        if (!is_everywhere) {
            rg_pai_word(c, "parameters.%.80s: left out: its value stands in the commands that name "
                        "it", name);
            continue;
        }
        c->to->env = c->to->env ? c->to->env : json_object();
        if (json_object_set_new(c->to->env, name, json_deep_copy(value)) < 0 ||
            rg_strv_add(exports, line) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int put_all(struct rg_pai_convert *c, const struct rg_pai_role *role, const json_t *list,
                   const struct rg_strv *but, struct rg_buf *text)
{
    const json_t *item;
    size_t i;
    int r = 0;

    json_array_foreach(list, i, item) {
        const char *line = json_string_value(item) ?: "";
        if (r == 0 && !rg_strv_has(but, line))
            r = put_command(c, role, line, text);
    }
    return r;
}

/* take_line is the one that is in the way, or "". */
static int refuse_line(struct rg_pai_convert *c, const struct rg_pai_role *role, char *take_line)
{
    rg_autofree char *line = take_line;
    char which[32] = "";

    for (size_t k = 0; *line && k < role->commands.count && !*which; k++) {
        if (strstr(role->commands.v[k], line))
            snprintf(which, sizeof which, "[%zu]", k);
    }
    return rg_pai_refuse(c, "taskRoles.%.80s.commands%s: API v1 takes one line, and %s%.80s%s; put "
                         "them into a script in the image", role->name, which,
                         *line ? "\"" : "these are ", line,
                         *line ? "\" is no whole command" : "not whole commands, one in each line");
}

static int convert_commands(struct rg_pai_convert *c, size_t i, const struct rg_strv *exports)
{
    const struct rg_pai_role *role = &c->from->roles[i];
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char *line;
    int r = put_all(c, role, rg_pai_deployed(c->from, role->name, "preCommands"), exports, &text);

    for (size_t k = 0; r == 0 && k < role->commands.count; k++)
        r = put_command(c, role, role->commands.v[k], &text);
    if (r == 0)
        r = put_all(c, role, rg_pai_deployed(c->from, role->name, "postCommands"), exports, &text);
    if (r < 0)
        return r;
    if (rg_buf_status(&text) < 0)
        return -ENOMEM;
    r = rg_pai_one_line(rg_buf_text(&text), &line);
    if (r == -EINVAL)
        r = refuse_line(c, role, line);
    if (r < 0)
        return r;
    if (strcmp(line, rg_buf_text(&text)) != 0)
        rg_pai_word(c, "taskRoles.%.80s.commands: they become one line, with ; between them, "
                    "without comments", role->name);
    if (rg_pai_rename_in(c, role->name, &line) < 0) {
        free(line);
        return -ENOMEM;
    }
    rg_strv_fini(&c->to->roles[i].commands);
    return rg_strv_take(&c->to->roles[i].commands, line);
}

/* --- roles ------------------------------------------------------------------------------------ */

/* v1's counts of tasks are null, or from 1 to the number of tasks. */
static int64_t count(struct rg_pai_convert *c, const struct rg_pai_role *role, const char *field,
                     int64_t n)
{
    if (n == RG_PAI_NONE || (n >= 1 && n <= role->tasks))
        return n;
    rg_pai_word(c, "taskRoles.%.80s.completion.%s: %lld becomes null, as API v1 counts from 1 to "
                "the number of tasks", role->name, field, (long long) n);
    return RG_PAI_NONE;
}

static bool is_label(const char *label)
{
    return rg_pai_is_of(label, RG_PAI_WORD "._~");
}

static int convert_role(struct rg_pai_convert *c, size_t i, bool *rdma)
{
    struct rg_pai_role *role = &c->to->roles[i];
    json_t *extra = json_object_get(role->rest, "extraContainerOptions"), *value;
    const char *name;

    free(role->image);
    role->image = NULL;
    if (role->shm_mb == RG_PAI_NONE || role->shm_mb > role->memory_mb) {
        int64_t wanted = role->shm_mb == RG_PAI_NONE ? RG_PAI_SHM_V2 : role->shm_mb;
        role->shm_mb = wanted < role->memory_mb ? wanted : role->memory_mb;
        if (role->shm_mb < wanted)
            rg_pai_word(c, "taskRoles.%.80s: shmMB %lld becomes %lld: API v1 takes no more than "
                        "memoryMB", role->name, (long long) wanted, (long long) role->shm_mb);
    }
    role->min_failed = count(c, role, "minFailedInstances", role->min_failed);
    role->min_succeeded = count(c, role, "minSucceededInstances", role->min_succeeded);
    *rdma = json_is_true(json_object_get(extra, "infiniband"));
    json_object_foreach(extra, name, value) {
        if (strcmp(name, "infiniband") != 0)
            rg_pai_word(c, "taskRoles.%.80s.extraContainerOptions.%.80s: left out: API v1 has none",
                        role->name, name);
    }
    json_object_foreach(role->rest, name, value) {
        if (!rg_str_has_word("extraContainerOptions protocolVersion data output script", name))
            rg_pai_word(c, "taskRoles.%.80s.%.80s: left out: API v1 has none", role->name, name);
    }
    return 0;
}

static int convert_rdma(struct rg_pai_convert *c, size_t nrdma)
{
    if (!nrdma || json_is_true(json_object_get(c->to->env, RG_PAI_RDMA)))
        return 0;
    if (nrdma < c->to->nroles)
        rg_pai_word(c, "taskRoles: infiniband is asked for by some roles, and becomes jobEnvs.%s, "
                    "which is for all", RG_PAI_RDMA);
    c->to->env = c->to->env ? c->to->env : json_object();
    return json_object_set_new(c->to->env, RG_PAI_RDMA, json_true()) < 0 ? -ENOMEM : 0;
}

/* --- the rest --------------------------------------------------------------------------------- */

static void tell_lost(struct rg_pai_convert *c)
{
    const json_t *defaults = json_object_get(c->from->rest, "defaults"), *item;
    const json_t *list = json_object_get(c->from->rest, "prerequisites");
    const char *name, *wanted = json_string_value(json_object_get(defaults, "deployment"));
    json_t *value;
    size_t i;

    json_object_foreach(c->from->rest, name, value) {
        if (!rg_str_has_word("prerequisites deployments defaults", name))
            rg_pai_word(c, "%.80s: left out: API v1 has none", name);
    }
    json_object_foreach((json_t *) defaults, name, value) {
        if (strcmp(name, "deployment") != 0)
            rg_pai_word(c, "defaults.%.80s: left out: API v1 has none", name);
    }
    json_array_foreach(list, i, item) {
        const char *type = json_string_value(json_object_get(item, "type")) ?: "";
        name = json_string_value(json_object_get(item, "name")) ?: "";
        bool used = false;
        for (size_t k = 0; k < c->from->nroles; k++)
            used |= find(list, "dockerimage", c->from->roles[k].image) == item;
        if (!used)
            rg_pai_word(c, "prerequisites[%zu]: the %.20s %.80s is left out; where commands name "
                        "it, its address stands in them", i, type, name);
        else if (json_object_get(item, "contributor") || json_object_get(item, "description") ||
                 json_object_get(item, "version"))
            rg_pai_word(c, "prerequisites[%zu]: what describes the image %.80s is left out", i,
                        name);
    }
    json_array_foreach(json_object_get(c->from->rest, "deployments"), i, item) {
        name = json_string_value(json_object_get(item, "name")) ?: "";
        if (!wanted || strcmp(name, wanted) != 0)
            rg_pai_word(c, "deployments[%zu]: left out: it is not the one that defaults names", i);
    }
}

static void tell_plugins(struct rg_pai_convert *c, const json_t *plugins)
{
    const json_t *item;
    size_t i;

    json_array_foreach(plugins, i, item) {
        const char *name = json_string_value(json_object_get(item, "plugin")) ?: "?";
        rg_pai_word(c, "extras: the plugin %.80s is left out%s", name,
                    strcmp(name, "ssh") == 0
                        ? ": API v1 has ssh where the image has a service for it, but waits for "
                          "nobody" : ": API v1 has none");
    }
}

static int convert_extras(struct rg_pai_convert *c)
{
    const char *name;
    json_t *value;

    json_object_foreach(c->from->extras, name, value) {
        if (strcmp(name, RG_PAI_PLUGINS) == 0) {
            tell_plugins(c, value);
        } else if (!is_label(name) || strchr(name, '~')) {
            rg_pai_word(c, "extras.%.80s: left out: a name in extras is [A-Za-z0-9._]+ in API v1",
                        name);
        } else {
            if (strcmp(name, "gangAllocation") == 0 && !json_is_true(value))
                rg_pai_word(c, "extras.gangAllocation: API v1 starts all tasks together, whatever "
                            "it says");
            c->to->extras = c->to->extras ? c->to->extras : json_object();
            if (json_object_set_new(c->to->extras, name, json_deep_copy(value)) < 0)
                return -ENOMEM;
        }
    }
    return 0;
}

int rg_pai_to_v1(struct rg_pai_convert *c)
{
    rg_autostrv struct rg_strv exports = RG_STRV_INIT;
    size_t nrdma = 0;

    c->to->retries = c->from->retries;
    c->to->rest = json_object();
    int r = c->to->rest ? convert_image(c) : -ENOMEM;

    r = r < 0 ? r : convert_env(c, &exports);
    for (size_t i = 0; r == 0 && i < c->to->nroles; i++) {
        bool rdma = false;
        r = convert_role(c, i, &rdma);
        r = r < 0 ? r : convert_commands(c, i, &exports);
        nrdma += rdma;
    }
    if (r < 0)
        return r;
    tell_lost(c);
    r = convert_rdma(c, nrdma);
    return r < 0 ? r : convert_extras(c);
}
