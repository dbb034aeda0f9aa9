/* SPDX-License-Identifier: Apache-2.0 */
/* From one version to another, or to the same with its traps repaired. Nothing is dropped in
 * silence: what changes is a sentence, and what would change the job's meaning is refused. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "platform/openpai/jobfile/pai_internal.h"

#define NAME_MAX_V2 255
#define SHORT_NAME_MAX 60 /* so that a number fits behind it */

/* --- names ------------------------------------------------------------------------------------ */

static bool is_taken(const struct rg_pai *job, const char *name)
{
    for (size_t i = 0; i < job->nroles; i++) {
        if (job->roles[i].name && strcmp(job->roles[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Whether another role has this name from the beginning, and keeps it. */
static bool is_kept(const struct rg_pai *job, const char *name, const struct rg_pai_role *but)
{
    for (size_t i = 0; i < job->nroles; i++) {
        if (&job->roles[i] != but && strcmp(job->roles[i].name, name) == 0)
            return true;
    }
    return false;
}

/* What the role is called in v2: [a-z][a-z0-9]*, and as no other. On the heap, or NULL. */
static char *new_name(const struct rg_pai_convert *c, const struct rg_pai_role *role)
{
    rg_autofree char *brief = rg_pai_short_name(role->name);
    if (brief && strlen(brief) > SHORT_NAME_MAX + 3)
        brief[SHORT_NAME_MAX] = '\0';
    char *name = brief ? rg_strf("%s%s", isalpha((unsigned char) *brief) ? "" : "role", brief)
                       : NULL;

    for (int i = 2; name && (is_taken(c->to, name) || is_kept(c->from, name, role)); i++) {
        free(name);
        name = rg_strf("%s%s%d", isalpha((unsigned char) *brief) ? "" : "role", brief, i);
    }
    return name;
}

static void tell_name(struct rg_pai_convert *c, const struct rg_pai_role *from, const char *name)
{
    if (strcmp(from->name, name) == 0)
        return;
    rg_pai_word(c, "taskRoles: the role %.80s becomes %.80s: so its hosts are %.80s-0 and so on, "
                "and its variables are called so", from->name, name, name);
}

static int rename_commands(struct rg_pai_convert *c)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < c->to->nroles; i++) {
        struct rg_strv *commands = &c->to->roles[i].commands;
        for (size_t k = 0; r == 0 && k < commands->count; k++)
            r = rg_pai_rename_in(c, c->from->roles[i].name, &commands->v[k]);
    }
    return r;
}

/* What a port is called in v2: [a-zA-Z_][a-zA-Z0-9_]*, and as no other. On the heap, or NULL. */
static char *new_label(const struct rg_pai_role *from, const struct rg_pai_role *to,
                       const char *label)
{
    char *name = rg_strf("%s%s", isdigit((unsigned char) *label) ? "_" : "", label);

    for (char *p = name; name && *p; p++)
        *p = isalnum((unsigned char) *p) ? *p : '_';
    for (bool taken = name; taken;) {
        taken = false;
        for (size_t i = 0; i < from->nports && !taken; i++)
            taken = strcmp(from->ports[i].label, name) == 0 ||
                    (i < to->nports && strcmp(to->ports[i].label, name) == 0);
        char *longer = taken ? rg_strf("%s_", name) : NULL;
        if (!taken)
            break;
        free(name);
        name = longer;
        taken = name;
    }
    return name;
}

static int copy_port(struct rg_pai_convert *c, const struct rg_pai_role *from,
                     struct rg_pai_role *to, const struct rg_pai_port *port)
{
    bool keeps = rg_pai_is_port_v2(port->label) || (c->from->version == 1 && c->to->version == 1);
    rg_autofree char *label = keeps ? strdup(port->label) : new_label(from, to, port->label);

    if (!label || !rg_pai_add_port(to, label, port->begin, port->count))
        return -ENOMEM;
    if (!keeps)
        rg_pai_word(c, "taskRoles: the port %.80s of %.80s becomes %.80s, as a name in protocol v2 "
                    "is [a-zA-Z_][a-zA-Z0-9_]*", port->label, from->name, label);
    return 0;
}

/* v1's counts, which no server of v2 looks at. */
static void drop_counts(struct rg_pai_convert *c, struct rg_pai_role *role)
{
    const char *name;
    json_t *value;

    json_object_foreach(json_object_get(role->rest, "completion"), name, value)
        rg_pai_word(c, "taskRoles.%.80s.completion.%.40s: left out: it is a field of API v1, and "
                    "did nothing", role->name, name);
    json_object_del(role->rest, "completion");
}

static int set_name(struct rg_pai_convert *c)
{
    char *name = strdup(c->from->name);
    bool changed = false;

    if (!name)
        return -ENOMEM;
    c->to->name = name;
    for (char *p = name; c->to->version == 2 && *p; p++) {
        changed |= !isalnum((unsigned char) *p) && !strchr("-_", *p);
        *p = isalnum((unsigned char) *p) || *p == '_' ? *p : '-';
    }
    if (c->to->version == 2 && strlen(name) > NAME_MAX_V2) {
        name[NAME_MAX_V2] = '\0';
        changed = true;
    }
    if (changed)
        rg_pai_word(c, "name: %.260s becomes %s, as protocol v2 has no dots, and at most 255 "
                    "characters", c->from->name, name);
    return 0;
}

/* --- roles ------------------------------------------------------------------------------------ */

static int copy_role(struct rg_pai_convert *c, const struct rg_pai_role *from)
{
    char *name = c->to->version == 2 ? new_name(c, from) : strdup(from->name);
    struct rg_pai_role *to = name ? rg_pai_add_role(c->to) : NULL;

    if (!to) {
        free(name);
        return -ENOMEM;
    }
    *to = *from;
    to->name = name;
    to->ports = NULL;
    to->nports = to->ports_capacity = 0;
    to->commands = (struct rg_strv) RG_STRV_INIT;
    to->image = from->image ? strdup(from->image) : NULL;
    to->rest = from->rest ? json_deep_copy(from->rest) : NULL;
    for (size_t i = 0; i < from->nports; i++) {
        if (copy_port(c, from, to, &from->ports[i]) < 0)
            return -ENOMEM;
    }
    for (size_t i = 0; i < from->commands.count; i++)
        rg_strv_add(&to->commands, from->commands.v[i]);
    tell_name(c, from, name);
    drop_counts(c, to);
    return rg_strv_status(&to->commands) < 0 || (from->image && !to->image) ||
                   (from->rest && !to->rest) ? -ENOMEM : 0;
}

/* --- to the same version ---------------------------------------------------------------------- */

static int mend_v1(struct rg_pai_convert *c)
{
    const char *rdma = json_string_value(json_object_get(c->to->env, RG_PAI_RDMA));

    if (rdma && strcmp(rdma, "true") == 0) {
        json_object_set_new(c->to->env, RG_PAI_RDMA, json_true());
        rg_pai_word(c, "jobEnvs.%s: \"true\" becomes true", RG_PAI_RDMA);
    }
    for (size_t i = 0; i < c->to->nroles; i++) {
        char **command = &c->to->roles[i].commands.v[0], *line;
        if (!strpbrk(*command, "\r\n"))
            continue;
        int r = rg_pai_one_line(*command, &line);
        if (r == -EINVAL)
            rg_pai_refuse(c, "taskRoles[%zu].command: API v1 loses its line breaks, and it is not "
                          "made of whole commands, one in each line%s%.80s%s; write it in one "
                          "line, or put it into a script in the image", i,
                          *line ? ", as \"" : "", line, *line ? "\" is none" : "");
        if (r == -EINVAL)
            free(line);
        if (r < 0)
            return r;
        free(*command);
        *command = line;
        rg_pai_word(c, "taskRoles[%zu].command: its lines become one, with ; between them, without "
                    "comments", i);
    }
    return 0;
}

/* What the role of this name is called now; NULL: there is none. */
static const char *renamed(const struct rg_pai_convert *c, const char *name)
{
    for (size_t i = 0; i < c->from->nroles; i++) {
        if (strcmp(c->from->roles[i].name, name) == 0)
            return c->to->roles[i].name;
    }
    return NULL;
}

/* A deployment's commands, which name roles as others do. */
static int rename_hooks(struct rg_pai_convert *c, const char *role, json_t *hooks)
{
    const char *which;
    json_t *list, *item;
    size_t i;
    int r = 0;

    json_object_foreach(hooks, which, list) {
        json_array_foreach(list, i, item) {
            char *text = strdup(json_string_value(item) ?: "");
            r |= !text || rg_pai_rename_in(c, role, &text) < 0 ||
                 json_array_set_new(list, i, json_string(text)) < 0;
            free(text);
        }
    }
    return r;
}

/* A deployment's roles with their new names. */
static int rename_deployed(struct rg_pai_convert *c, json_t *deployment)
{
    json_t *roles = json_object(), *value;
    const char *name;
    int r = 0;

    json_object_foreach(json_object_get(deployment, "taskRoles"), name, value) {
        const char *now = renamed(c, name);
        r |= rename_hooks(c, name, value);
        if (now || !is_taken(c->to, name))
            r |= json_object_set(roles, now ? now : name, value);
        else
            rg_pai_word(c, "deployments: commands of %.80s are left out: there was no such role, "
                        "and now another one is called so", name);
    }
    r |= json_object_set_new(deployment, "taskRoles", roles);
    return r ? -ENOMEM : 0;
}

/* What names roles elsewhere: deployments, and the plugins' lists. */
static int mend_v2(struct rg_pai_convert *c)
{
    json_t *item, *name;
    size_t i, k;
    int r = 0;

    json_array_foreach(json_object_get(c->to->rest, "deployments"), i, item)
        r = r < 0 ? r : rename_deployed(c, item);
    json_array_foreach(json_object_get(c->to->extras, RG_PAI_PLUGINS), i, item) {
        json_t *names = json_object_get(item, "taskroles");
        json_array_foreach(names, k, name) {
            const char *now = renamed(c, json_string_value(name) ?: "");
            if (now)
                r |= json_array_set_new(names, k, json_string(now));
        }
    }
    return r ? -ENOMEM : 0;
}

static int to_same(struct rg_pai_convert *c)
{
    const struct rg_pai *from = c->from;
    struct rg_pai *to = c->to;

    to->retries = from->retries;
    to->image = from->image ? strdup(from->image) : NULL;
    to->gpu_type = from->gpu_type ? strdup(from->gpu_type) : NULL;
    to->env = json_deep_copy(from->env);
    to->extras = json_deep_copy(from->extras);
    to->rest = json_deep_copy(from->rest);
    if ((from->image && !to->image) || (from->gpu_type && !to->gpu_type) ||
        (from->env && !to->env) || (from->extras && !to->extras) || !to->rest)
        return -ENOMEM;
    return to->version == 1 ? mend_v1(c) : mend_v2(c);
}

int rg_pai_convert(const struct rg_pai *job, int version, struct rg_pai *ret_job,
                   struct rg_strv *words, struct rg_error *err)
{
    struct rg_pai_convert c = { job, ret_job, words, err };
    int r;

    ret_job->version = version;
    r = set_name(&c);
    ret_job->cluster = job->cluster ? strdup(job->cluster) : NULL;
    if (job->cluster && !ret_job->cluster)
        r = -ENOMEM;
    if (job->commented)
        rg_pai_word(&c, "comments are left out, as the server's JSON has none");
    for (size_t i = 0; r == 0 && i < job->nroles; i++)
        r = copy_role(&c, &job->roles[i]);
    if (r == 0 && (job->version == version || version == 2))
        r = rename_commands(&c);
    if (r == 0)
        r = job->version == version ? to_same(&c) : version == 1 ? rg_pai_to_v1(&c)
                                                                 : rg_pai_to_v2(&c);
    r = r < 0 ? r : rg_strv_status(words);
    return r == -ENOMEM ? rg_error_memory(err) : r;
}
