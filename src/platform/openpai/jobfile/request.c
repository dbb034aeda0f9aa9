/* SPDX-License-Identifier: Apache-2.0 */
/* A job of OpenPAI's runs elsewhere when its roles are ours: here its commands, images and rules
 * become what the launcher knows; request_env.c has the variables. */
#include <string.h>

#include "base/exitcode.h"
#include "job/options/apply.h"
#include "job/yaml/manifest.h"
#include "platform/openpai/jobfile/request_internal.h"

#define SHM_MB_MAX (INT64_C(1) << 40) /* what is beyond has no number of bytes */

/* The job's command, for all tasks: the commands of all roles follow, and each task takes its own.
 * Where there is bash it is bash's, as on the platform. */
static const char dispatch[] =
    "shift \"$" RG_ROLE_VARIABLE "\"; "
    "if command -v bash >/dev/null 2>&1; then exec bash -c \"$1\"; fi; exec sh -c \"$1\"";

/* --- is it one -------------------------------------------------------------------------------- */

/* By its fields; a file that is broken, by a word in it. */
static bool is_pai(const char *path, const char *text, size_t nbytes)
{
    static const char *const names[] = { "protocolVersion", "jobName", "taskRoles" };
    struct rg_error ignored = RG_ERROR_INIT;
    json_t *tree = NULL;
    bool is = false;

    if (rg_manifest_read(path, "a job file", text, nbytes, &tree, &ignored) < 0 || !tree)
        for (size_t i = 0; i < rg_array_len(names); i++)
            is |= strstr(text, names[i]) != NULL;
    else if (text[strspn(text, " \t\r\n")] == '{' || text[strspn(text, " \t\r\n")] == '/')
        is = strstr(text, "\"taskRoles\"") != NULL; /* JSON with comments is other YAML */
    for (size_t i = 0; tree && i < rg_array_len(names); i++)
        is |= json_object_get(tree, names[i]) != NULL;
    json_decref(tree);
    return is;
}

static int refuse_errors(const char *path, const struct rg_pai_findings *found,
                         struct rg_error *err)
{
    const struct rg_pai_finding *first = NULL;

    for (size_t i = 0; i < found->count && !first; i++)
        first = found->v[i].is_error && !found->v[i].mends ? &found->v[i] : NULL;
    if (!first)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%.200s has errors; reigen pai check "
                                 "shows them", path);
    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                             "%.200s:%d:%d: %.120s%s%.120s: %.200s; %.120s (reigen pai check "
                             "shows all that is wrong)", path, first->line, first->column,
                             first->path, *first->path ? ": " : "", first->what, first->rule,
                             first->remedy);
}

/* --- commands --------------------------------------------------------------------------------- */

/* Its own platform can do it. */
static int refuse_secret(struct rg_pai_run *run, const struct rg_pai_role *role,
                         const struct rg_pai_template *found)
{
    char **why = &run->request->share.only_there;

    if (!*why)
        *why = rg_strf("%.200s: taskRoles.%.80s: %.*s: a secret is not written into a command, "
                       "which all can read; write \"$NAME\" there, and hand the value on by "
                       "--share-env NAME", run->path, role->name,
                       found->nbytes < 80 ? (int) found->nbytes : 80, found->whole);
    return *why ? 0 : -ENOMEM;
}

static int put_command(struct rg_pai_run *run, const struct rg_pai_role *role, const char *text,
                       struct rg_buf *command)
{
    struct rg_pai_template found;

    if (rg_buf_nbytes(command))
        rg_buf_put(command, "\n", 1);
    while (rg_pai_template_next(text, &found)) {
        rg_autofree char *value = rg_pai_value_text(
            rg_pai_template_value(run->from, role, &found));
        if (strcmp(found.kind, "secrets") == 0 && refuse_secret(run, role, &found) < 0)
            return -ENOMEM;
        rg_buf_put(command, text, (size_t) (found.whole - text));
        if (value)
            rg_buf_put(command, value, strlen(value));
        else
            rg_buf_put(command, found.whole, found.nbytes);
        text = found.whole + found.nbytes;
    }
    rg_buf_put(command, text, strlen(text));
    return 0;
}

static int put_deployed(struct rg_pai_run *run, const struct rg_pai_role *role, const char *which,
                        struct rg_buf *command)
{
    const json_t *item, *list = rg_pai_deployed(run->from, role->name, which);
    size_t i;
    int r = 0;

    json_array_foreach(list, i, item) {
        if (r == 0)
            r = put_command(run, role, json_string_value(item) ?: "", command);
    }
    return r;
}

static int note_sleep(struct rg_pai_run *run, const struct rg_pai_role *role,
                      const struct rg_pai_hope *hope)
{
    return rg_request_note(run->request, "%s: role %s: \"sleep %.*s\" is left out: tasks start "
                           "when all hosts are ready", run->path, role->name, hope->length,
                           hope->number);
}

/* One more word of the job's command: what the role runs. */
static int add_command(struct rg_pai_run *run, const struct rg_pai_role *role)
{
    rg_autobuf struct rg_buf command = RG_BUF_INIT;
    int r = put_deployed(run, role, "preCommands", &command);

    for (size_t i = 0; r == 0 && i < role->commands.count; i++) {
        const char *text = role->commands.v[i];
        struct rg_pai_hope hope;
        if (i == 0 && rg_pai_hope_of(run->from, (size_t) (role - run->from->roles), &hope)) {
            text = hope.rest;
            r = note_sleep(run, role, &hope);
        }
        r = r < 0 ? r : put_command(run, role, text, &command);
    }
    if (r == 0)
        r = put_deployed(run, role, "postCommands", &command);
    if (r < 0)
        return r;
    return rg_buf_status(&command) < 0 ||
                   rg_strv_add(&run->request->job.command, rg_buf_text(&command)) < 0 ? -ENOMEM : 0;
}

/* --- images ----------------------------------------------------------------------------------- */

static const char *image_of(const struct rg_pai *job, const struct rg_pai_role *role)
{
    const json_t *item;
    size_t i;

    if (job->version == 1)
        return job->image;
    json_array_foreach(json_object_get(job->rest, "prerequisites"), i, item) {
        const char *type = json_string_value(json_object_get(item, "type")) ?: "";
        const char *name = json_string_value(json_object_get(item, "name")) ?: "";
        if (strcmp(type, "dockerimage") == 0 && role->image && strcmp(name, role->image) == 0)
            return json_string_value(json_object_get(item, "uri"));
    }
    return NULL;
}

static int take_image(struct rg_pai_run *run)
{
    struct rg_container *container = &run->request->job.container;
    const char *image = image_of(run->from, run->head);
    int r = 0;

    container->image = image && *image ? strdup(image) : NULL;
    if (image && *image && !container->image)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && image && i < run->from->nroles; i++) {
        const char *other = image_of(run->from, &run->from->roles[i]);
        if (other && strcmp(other, image) != 0)
            r = rg_request_note(run->request, "%s: role %s has the image %s, and runs in %s as all "
                                "do; --image names another one", run->path,
                                run->from->roles[i].name, other, image);
    }
    return r;
}

/* --- roles ------------------------------------------------------------------------------------ */

static int number(int64_t n, int most)
{
    return n == RG_PAI_NONE || n < 0 ? 0 : n > most ? most : (int) n;
}

static int refuse_number(struct rg_pai_run *run, const struct rg_pai_role *role, const char *what,
                         int64_t n, int most)
{
    return rg_error_set_exit(run->err, ERANGE, RG_EXIT_USAGE,
                             "%.200s: role %.80s: %lld %s; reigen run takes 1 to %d", run->path,
                             role->name, (long long) n, what, most);
}

/* Every task has these two on the platform. */
static int add_ports(struct rg_pai_run *run, const struct rg_pai_role *from, struct rg_role *role)
{
    int r = rg_role_add_port(role, "http", 0, 1);

    r = r < 0 ? r : rg_role_add_port(role, "ssh", 0, 1);
    for (size_t i = 0; r == 0 && i < from->nports; i++) {
        const struct rg_pai_port *port = &from->ports[i];
        int64_t begin = port->begin > 0 ? port->begin : 0;
        if (port->count < 0 || port->count > RG_ROLE_PORTS_MAX)
            return refuse_number(run, from, "ports", port->count, RG_ROLE_PORTS_MAX);
        if (begin > UINT16_MAX || (begin && begin + port->count - 1 > UINT16_MAX))
            return rg_error_set_exit(run->err, ERANGE, RG_EXIT_USAGE,
                                     "%.200s: role %.80s: %lld ports %.80s from %lld on: the last "
                                     "port there is is %d; make beginAt smaller", run->path,
                                     from->name, (long long) port->count, port->label,
                                     (long long) begin, UINT16_MAX);
        if (strcmp(port->label, "http") != 0 && strcmp(port->label, "ssh") != 0)
            r = rg_role_add_port(role, port->label, (int) begin, (int) port->count);
    }
    return r;
}

static int add_role(struct rg_pai_run *run, const struct rg_pai_role *from)
{
    struct rg_request_share *share = &run->request->share;
    struct rg_container *container = &run->request->job.container;
    int64_t shm = from->shm_mb == RG_PAI_NONE ? RG_PAI_SHM_V2 : from->shm_mb;

    if (from->tasks < 1 || from->tasks > RG_JOB_RANKS_MAX)
        return refuse_number(run, from, "tasks", from->tasks, RG_JOB_RANKS_MAX);
    struct rg_role *role = rg_job_add_role(&run->request->job, from->name);
    if (!role)
        return -ENOMEM;
    role->ntasks = (int) from->tasks;
    role->min_failed = number(from->min_failed, RG_JOB_RANKS_MAX);
    role->min_succeeded = number(from->min_succeeded, RG_JOB_RANKS_MAX);
    share->cpus = from->cpu > share->cpus ? from->cpu : share->cpus;
    share->gpus = from->gpu > share->gpus ? from->gpu : share->gpus;
    share->memory_mb = from->memory_mb > share->memory_mb ? from->memory_mb : share->memory_mb;
    share->rdma |= json_is_true(json_object_get(json_object_get(from->rest,
                                                                "extraContainerOptions"),
                                                "infiniband"));
    shm = shm > SHM_MB_MAX ? SHM_MB_MAX : shm;
    if (shm > 0 && (uint64_t) shm << 20 > container->shm_nbytes)
        container->shm_nbytes = (uint64_t) shm << 20;
    int r = add_ports(run, from, role);
    r = r < 0 ? r : rg_pai_role_env(run, from, role);
    return r < 0 ? r : add_command(run, from);
}

/* The head's host is the first: its role comes first, as mpirun runs there. */
static int add_roles(struct rg_pai_run *run)
{
    const struct rg_pai *from = run->from;
    int64_t ntasks = 0;

    if (from->nroles > RG_JOB_ROLES_MAX)
        return rg_error_set_exit(run->err, ERANGE, RG_EXIT_USAGE, "%.200s: taskRoles: %zu roles; "
                                 "reigen run takes 1 to %d", run->path, from->nroles,
                                 RG_JOB_ROLES_MAX);
    int r = add_role(run, run->head);
    for (size_t i = 0; r == 0 && i < from->nroles; i++) {
        ntasks += from->roles[i].tasks;
        if (&from->roles[i] != run->head)
            r = add_role(run, &from->roles[i]);
    }
    return r == 0 && ntasks > RG_JOB_RANKS_MAX
               ? refuse_number(run, run->head, "tasks in all roles", ntasks, RG_JOB_RANKS_MAX) : r;
}

/* --- the rest --------------------------------------------------------------------------------- */

static int note_left(struct rg_pai_run *run, const struct rg_pai_findings *found)
{
    static const char *const storage[] = { "authFile", "dataDir", "outputDir", "codeDir" };
    const struct rg_pai *from = run->from;
    const json_t *item;
    size_t i;
    int r = 0;

    for (i = 0; r == 0 && i < found->count; i++) {
        if (found->v[i].is_error)
            r = rg_request_note(run->request, "%s:%d:%d: %s: %s; on OpenPAI %s", run->path,
                                found->v[i].line, found->v[i].column, found->v[i].path,
                                found->v[i].rule, found->v[i].remedy);
    }
    for (i = 0; r == 0 && i < rg_array_len(storage); i++) {
        if (*(json_string_value(json_object_get(from->rest, storage[i])) ?: ""))
            r = rg_request_note(run->request, "%s: %s: OpenPAI's storage is not brought here",
                                run->path, storage[i]);
    }
    json_array_foreach(json_object_get(from->rest, "prerequisites"), i, item) {
        const char *type = json_string_value(json_object_get(item, "type")) ?: "";
        if (r == 0 && strcmp(type, "dockerimage") != 0)
            r = rg_request_note(run->request, "%s: prerequisites[%zu]: %s is not brought here",
                                run->path, i, type);
        else if (r == 0 && json_object_get(item, "auth"))
            r = rg_request_note(run->request, "%s: prerequisites[%zu]: auth is left out: log in to "
                                "the registry on the hosts", run->path, i);
    }
    return r;
}

static int fill(struct rg_pai_run *run, const struct rg_pai_findings *found)
{
    static const char *const words[] = { "sh", "-c", dispatch, "sh", NULL };
    struct rg_job *job = &run->request->job;
    int r = rg_strv_add_all(&job->command, (char *const *) words);

    job->max_restarts = number(run->from->retries, RG_JOB_RESTARTS_MAX);
    run->request->share.rdma =
        run->from->version == 1 && json_is_true(json_object_get(run->from->env, RG_PAI_RDMA));
    r = r < 0 ? r : rg_pai_job_env(run);
    r = r < 0 ? r : add_roles(run);
    r = r < 0 ? r : take_image(run);
    return r < 0 ? r : note_left(run, found);
}

/* For a platform that takes the file as it is. */
static int keep_file(struct rg_request *request, const char *path, const char *text, size_t nbytes)
{
    struct rg_job *job = &request->job;
    struct rg_request_share *share = &request->share;

    job->file_name = strdup(path);
    job->file_text = strndup(text, nbytes);
    share->image = job->container.image ? strdup(job->container.image) : NULL;
    share->shm_nbytes = job->container.shm_nbytes;
    share->max_restarts = job->max_restarts;
    share->nenv = job->env.count;
    share->nnotes = request->notes.count;
    return job->file_name && job->file_text && (share->image || !job->container.image)
               ? 0 : -ENOMEM;
}

int rg_pai_request(struct rg_request *request, const char *path, const char *text, size_t nbytes,
                   struct rg_error *err)
{
    rg_cleanup(rg_pai_fini) struct rg_pai job = RG_PAI_INIT;
    rg_cleanup(rg_pai_findings_fini) struct rg_pai_findings found = RG_PAI_FINDINGS_INIT;
    struct rg_pai_run run = { .request = request, .from = &job, .path = path, .err = err };

    if (!is_pai(path, text, nbytes))
        return 0;
    int r = rg_pai_read(path, text, nbytes, &job, &found, err);
    if (r < 0)
        return r;
    if (found.nfatal || !job.nroles)
        return refuse_errors(path, &found, err);
    run.head = &job.roles[rg_pai_head(&job)];
    r = fill(&run, &found);
    r = r < 0 ? r : keep_file(request, path, text, nbytes);
    if (r == -ENOMEM)
        return rg_error_memory(err);
    return r < 0 ? r : 1;
}
