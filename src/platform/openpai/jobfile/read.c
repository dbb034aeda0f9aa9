/* SPDX-License-Identifier: Apache-2.0 */
/* A job as fields, from a file that was judged, and back. What only one version has and nobody here
 * needs to understand stays as it stood in the file, so that it is not lost on the way. */
#include <string.h>

#include "job/yaml/manifest.h"
#include "platform/openpai/jobfile/pai_internal.h"

/* --- life ------------------------------------------------------------------------------------- */

static void role_fini(struct rg_pai_role *role)
{
    for (size_t i = 0; i < role->nports; i++)
        free(role->ports[i].label);
    free(role->ports);
    free(role->name);
    free(role->image);
    rg_strv_fini(&role->commands);
    json_decref(role->rest);
}

void rg_pai_fini(struct rg_pai *job)
{
    for (size_t i = 0; i < job->nroles; i++)
        role_fini(&job->roles[i]);
    free(job->roles);
    free(job->name);
    free(job->image);
    free(job->cluster);
    free(job->gpu_type);
    json_decref(job->env);
    json_decref(job->extras);
    json_decref(job->rest);
    *job = (struct rg_pai) RG_PAI_INIT;
}

struct rg_pai_role *rg_pai_add_role(struct rg_pai *job)
{
    if (rg_grow(&job->roles, &job->roles_capacity, job->nroles + 1) < 0)
        return NULL;
    struct rg_pai_role *role = &job->roles[job->nroles++];

    *role = (struct rg_pai_role){ .tasks = 1, .cpu = 1, .memory_mb = RG_PAI_MEMORY_V1,
                                  .shm_mb = RG_PAI_NONE, .min_failed = 1,
                                  .min_succeeded = RG_PAI_NONE };
    return role;
}

struct rg_pai_port *rg_pai_add_port(struct rg_pai_role *role, const char *label, int64_t begin,
                                    int64_t count)
{
    char *copy = strdup(label);

    if (!copy || rg_grow(&role->ports, &role->ports_capacity, role->nports + 1) < 0) {
        free(copy);
        return NULL;
    }
    struct rg_pai_port *port = &role->ports[role->nports++];

    *port = (struct rg_pai_port){ copy, begin, count };
    return port;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The text of a member, on the heap, or NULL: there is none. Out of memory shows in *failed. */
static char *text_of(const json_t *object, const char *name, bool *failed)
{
    const char *text = json_string_value(json_object_get(object, name));
    char *copy = text ? strdup(text) : NULL;

    *failed |= text && !copy;
    return copy;
}

/* A copy of an object without these members (NULL-terminated). */
static json_t *without(const json_t *object, const char *const *names)
{
    json_t *copy = json_deep_copy(object);

    for (; copy && *names; names++)
        json_object_del(copy, *names);
    return copy;
}

/* A number that may be null; absent where it is not said. */
static int64_t number_of(const json_t *object, const char *name, int64_t absent)
{
    struct rg_pai_at at = { .value = (json_t *) object };

    return json_object_get(object, name) ? rg_pai_at_int(&at, name, RG_PAI_NONE) : absent;
}

static bool read_role_v1(struct rg_pai_role *role, const json_t *from)
{
    const json_t *port;
    bool failed = false;
    size_t i;

    role->name = text_of(from, "name", &failed);
    role->tasks = number_of(from, "taskNumber", 1);
    role->cpu = number_of(from, "cpuNumber", 1);
    role->memory_mb = number_of(from, "memoryMB", RG_PAI_MEMORY_V1);
    role->shm_mb = number_of(from, "shmMB", RG_PAI_SHM_V1);
    role->gpu = number_of(from, "gpuNumber", 0);
    /* Without tasks, which the server takes, the default would be refused if it were written. */
    role->min_failed = number_of(from, "minFailedTaskCount", role->tasks < 1 ? RG_PAI_NONE : 1);
    role->min_succeeded = number_of(from, "minSucceededTaskCount", RG_PAI_NONE);
    json_array_foreach(json_object_get(from, "portList"), i, port)
        failed |= !rg_pai_add_port(role, json_string_value(json_object_get(port, "label")) ?: "",
                                   number_of(port, "beginAt", 0), number_of(port, "portNumber", 1));
    const char *command = json_string_value(json_object_get(from, "command"));
    return !failed && rg_strv_add(&role->commands, command ?: "") == 0;
}

static bool read_v1(struct rg_pai *job, const json_t *tree)
{
    static const char *const known[] = { "jobName", "image", "virtualCluster", "gpuType",
                                         "retryCount", "jobEnvs", "extras", "taskRoles", NULL };
    const json_t *item;
    bool failed = false;
    size_t i;

    job->name = text_of(tree, "jobName", &failed);
    job->image = text_of(tree, "image", &failed);
    job->cluster = text_of(tree, "virtualCluster", &failed);
    job->gpu_type = text_of(tree, "gpuType", &failed);
    job->retries = number_of(tree, "retryCount", RG_PAI_NONE);
    job->env = json_deep_copy(json_object_get(tree, "jobEnvs"));
    job->extras = json_deep_copy(json_object_get(tree, "extras"));
    job->rest = without(tree, known);
    json_array_foreach(json_object_get(tree, "taskRoles"), i, item) {
        struct rg_pai_role *role = failed ? NULL : rg_pai_add_role(job);
        failed |= !role || !read_role_v1(role, item);
    }
    return !failed && job->rest;
}

/* The server takes null and 0 for not said; frameworkcontroller takes what is below 0 for none. */
static int64_t rule_v2(const json_t *completion, const char *name, int64_t absent)
{
    int64_t n = number_of(completion, name, absent);

    return n == RG_PAI_NONE || n == 0 ? absent : n < 0 ? RG_PAI_NONE : n;
}

/* What is v1's in v2's completion is told of when it goes. */
static bool keep_counts(json_t *rest, const json_t *completion)
{
    const char *name;
    json_t *value, *counts = json_object();
    int r = counts ? 0 : -1;

    json_object_foreach((json_t *) completion, name, value) {
        if (rg_str_has_word(RG_PAI_COUNTS_V1, name))
            r |= json_object_set(counts, name, value);
    }
    if (json_object_size(counts))
        r |= json_object_set(rest, "completion", counts);
    json_decref(counts);
    return r == 0;
}

static bool read_role_v2(struct rg_pai_role *role, const char *name, const json_t *from)
{
    static const char *const known[] = { "instances", "completion", "dockerImage", "commands",
                                         "resourcePerInstance", NULL };
    const json_t *completion = json_object_get(from, "completion");
    const json_t *resource = json_object_get(from, "resourcePerInstance"), *item;
    const char *label;
    bool failed = false;
    size_t i;

    role->name = strdup(name);
    role->image = text_of(from, "dockerImage", &failed);
    role->tasks = number_of(from, "instances", 1);
    role->cpu = number_of(resource, "cpu", 1);
    role->gpu = number_of(resource, "gpu", 0);
    role->memory_mb = number_of(resource, "memoryMB", RG_PAI_MEMORY_V1);
    role->shm_mb = number_of(json_object_get(from, "extraContainerOptions"), "shmMB", RG_PAI_NONE);
    role->min_failed = rule_v2(completion, "minFailedInstances", 1);
    role->min_succeeded = rule_v2(completion, "minSucceededInstances", role->tasks);
    json_object_foreach(json_object_get(resource, "ports"), label, item)
        failed |= !rg_pai_add_port(role, label, 0, rg_pai_int(item, false));
    json_array_foreach(json_object_get(from, "commands"), i, item)
        failed |= rg_strv_add(&role->commands, json_string_value(item)) < 0;
    role->rest = without(from, known);
    failed |= !keep_counts(role->rest, completion);
    json_t *extra = json_object_get(role->rest, "extraContainerOptions");
    if (extra && json_object_del(extra, "shmMB") == 0 && !json_object_size(extra))
        json_object_del(role->rest, "extraContainerOptions");
    return !failed && role->name && role->rest;
}

static bool read_v2(struct rg_pai *job, const json_t *tree)
{
    static const char *const known[] = { "protocolVersion", "name", "type", "parameters", "extras",
                                         "jobRetryCount", "taskRoles", NULL };
    const char *name;
    json_t *item;
    bool failed = false;

    job->name = text_of(tree, "name", &failed);
    job->retries = number_of(tree, "jobRetryCount", RG_PAI_NONE);
    job->env = json_deep_copy(json_object_get(tree, "parameters"));
    job->extras = json_deep_copy(json_object_get(tree, "extras"));
    job->rest = without(tree, known);
    json_t *defaults = json_object_get(job->rest, "default");
    if (defaults && !json_object_get(job->rest, "defaults"))
        failed |= json_object_set(job->rest, "defaults", defaults) < 0;
    json_object_del(job->rest, "default");
    defaults = json_object_get(job->rest, "defaults");
    job->cluster = text_of(defaults, "virtualCluster", &failed);
    if (job->cluster && json_object_del(defaults, "virtualCluster") == 0 &&
        !json_object_size(defaults))
        json_object_del(job->rest, "defaults");
    json_object_foreach(json_object_get(tree, "taskRoles"), name, item) {
        struct rg_pai_role *role = failed ? NULL : rg_pai_add_role(job);
        failed |= !role || !read_role_v2(role, name, item);
    }
    return !failed && job->rest;
}

static int read_tree(struct rg_pai_check *check, struct rg_pai *job, struct rg_error *err)
{
    bool fits = true;

    job->version = check->version;
    job->commented = check->commented;
    if (check->tree) {
        rg_pai_judge_fields(check);
        if (json_is_object(check->tree))
            rg_pai_judge_traps(check);
    }
    if (check->found->failed)
        return rg_error_memory(err);
    if (check->found->nfatal == 0)
        fits = check->version == 1 ? read_v1(job, check->tree) : read_v2(job, check->tree);
    return fits ? 0 : rg_error_memory(err);
}

int rg_pai_read(const char *path, const char *text, size_t nbytes, struct rg_pai *job,
                struct rg_pai_findings *found, struct rg_error *err)
{
    struct rg_pai_check check = { .found = found };
    int r = rg_pai_tree_load(&check, path, text, nbytes, err);

    r = r < 0 ? r : read_tree(&check, job, err);
    rg_pai_tree_fini(&check);
    return r;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put(json_t *object, const char *name, json_t *take_value, bool *failed)
{
    *failed |= json_object_set_new(object, name, take_value) < 0;
}

/* What may be missing. */
static void put_text(json_t *object, const char *name, const char *text, bool *failed)
{
    if (text)
        put(object, name, json_string(text), failed);
}

static void put_copy(json_t *object, const char *name, const json_t *value, bool *failed)
{
    if (value)
        put(object, name, json_deep_copy(value), failed);
}

static void put_number(json_t *object, const char *name, int64_t n, bool *failed)
{
    put(object, name, n == RG_PAI_NONE ? json_null() : json_integer(n), failed);
}

static json_t *role_v1(const struct rg_pai_role *role, bool *failed)
{
    json_t *to = json_object(), *ports = json_array();

    put_text(to, "name", role->name, failed);
    put_number(to, "taskNumber", role->tasks, failed);
    put_number(to, "cpuNumber", role->cpu, failed);
    put_number(to, "memoryMB", role->memory_mb, failed);
    put_number(to, "shmMB", role->shm_mb, failed);
    put_number(to, "gpuNumber", role->gpu, failed);
    for (size_t i = 0; i < role->nports; i++)
        *failed |= json_array_append_new(
                       ports, json_pack("{s:s, s:I, s:I}", "label", role->ports[i].label, "beginAt",
                                        (json_int_t) role->ports[i].begin, "portNumber",
                                        (json_int_t) role->ports[i].count)) < 0;
    if (role->nports)
        put_copy(to, "portList", ports, failed);
    json_decref(ports);
    put_number(to, "minFailedTaskCount", role->min_failed, failed);
    put_number(to, "minSucceededTaskCount", role->min_succeeded, failed);
    put_text(to, "command", role->commands.count ? role->commands.v[0] : "", failed);
    return to;
}

static json_t *tree_v1(const struct rg_pai *job, bool *failed)
{
    json_t *to = json_object(), *roles = json_array();
    const char *name;
    json_t *value;

    put_text(to, "jobName", job->name, failed);
    put_text(to, "image", job->image, failed);
    json_object_foreach(job->rest, name, value)
        put_copy(to, name, value, failed);
    put_text(to, "virtualCluster", job->cluster, failed);
    put_text(to, "gpuType", job->gpu_type, failed);
    if (job->retries != RG_PAI_NONE)
        put_number(to, "retryCount", job->retries, failed);
    for (size_t i = 0; i < job->nroles; i++)
        *failed |= json_array_append_new(roles, role_v1(&job->roles[i], failed)) < 0;
    put(to, "taskRoles", roles, failed);
    put_copy(to, "jobEnvs", job->env, failed);
    put_copy(to, "extras", job->extras, failed);
    return to;
}

/* In v2 null is a rule, too: the server's default. */
static void put_rule_v2(json_t *object, const char *name, int64_t n, bool *failed)
{
    put_number(object, name, n == RG_PAI_NONE ? -1 : n, failed);
}

static json_t *role_v2(const struct rg_pai_role *role, bool *failed)
{
    json_t *to = json_object(), *commands = json_array(), *value;
    json_t *resource = json_object(), *completion = json_object(), *ports = json_object();
    const char *name;

    put_number(to, "instances", role->tasks, failed);
    put_rule_v2(completion, "minFailedInstances", role->min_failed, failed);
    put_rule_v2(completion, "minSucceededInstances", role->min_succeeded, failed);
    json_object_foreach(json_object_get(role->rest, "completion"), name, value)
        put_copy(completion, name, value, failed);
    put(to, "completion", completion, failed);
    put_text(to, "dockerImage", role->image, failed);
    json_object_foreach(role->rest, name, value) {
        if (strcmp(name, "completion") != 0)
            put_copy(to, name, value, failed);
    }
    if (role->shm_mb != RG_PAI_NONE) {
        json_t *extra = json_object_get(to, "extraContainerOptions");
        if (!extra) {
            put(to, "extraContainerOptions", json_object(), failed);
            extra = json_object_get(to, "extraContainerOptions");
        }
        put_number(extra, "shmMB", role->shm_mb, failed);
    }
    put_number(resource, "cpu", role->cpu, failed);
    put_number(resource, "memoryMB", role->memory_mb, failed);
    put_number(resource, "gpu", role->gpu, failed);
    for (size_t i = 0; i < role->nports; i++)
        put_number(ports, role->ports[i].label, role->ports[i].count, failed);
    if (role->nports)
        put_copy(resource, "ports", ports, failed);
    json_decref(ports);
    put(to, "resourcePerInstance", resource, failed);
    for (size_t i = 0; i < role->commands.count; i++)
        *failed |= json_array_append_new(commands, json_string(role->commands.v[i])) < 0;
    put(to, "commands", commands, failed);
    return to;
}

static json_t *tree_v2(const struct rg_pai *job, bool *failed)
{
    static const char *const before[] = { "version", "contributor", "description", "prerequisites",
                                          "secrets" };
    json_t *to = json_object(), *roles = json_object();

    put_number(to, "protocolVersion", 2, failed);
    put_text(to, "name", job->name, failed);
    put_text(to, "type", "job", failed);
    for (size_t i = 0; i < rg_array_len(before); i++)
        put_copy(to, before[i], json_object_get(job->rest, before[i]), failed);
    put_copy(to, "parameters", job->env, failed);
    if (job->retries != RG_PAI_NONE)
        put_number(to, "jobRetryCount", job->retries, failed);
    for (size_t i = 0; i < job->nroles; i++)
        put(roles, job->roles[i].name, role_v2(&job->roles[i], failed), failed);
    put(to, "taskRoles", roles, failed);
    put_copy(to, "deployments", json_object_get(job->rest, "deployments"), failed);
    put_copy(to, "defaults", json_object_get(job->rest, "defaults"), failed);
    if (job->cluster && !json_object_get(to, "defaults"))
        put(to, "defaults", json_object(), failed);
    put_text(json_object_get(to, "defaults"), "virtualCluster", job->cluster, failed);
    put_copy(to, "extras", job->extras, failed);
    return to;
}

int rg_pai_write(const struct rg_pai *job, struct rg_buf *text)
{
    bool failed = false;
    json_t *tree = job->version == 1 ? tree_v1(job, &failed) : tree_v2(job, &failed);
    rg_autofree char *json = NULL;

    if (job->version == 1 && !failed) {
        json = json_dumps(tree, JSON_INDENT(2));
        failed = !json;
        rg_buf_printf(text, "%s\n", json ?: "");
    } else if (!failed) {
        failed = rg_manifest_put(tree, text) < 0;
    }
    json_decref(tree);
    return failed ? -ENOMEM : rg_buf_status(text);
}
