/* SPDX-License-Identifier: Apache-2.0 */
/* What the server answers, as fields: jobs, lists, tokens, refusals. Whatever it says may be wrong
 * in any way: what has the wrong type is as what is not there. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "platform/openpai/server/server_internal.h"
#include "platform/common/http/http.h"
#include "platform/common/http/url.h"
#include "platform/openpai/jobfile/pai.h"

#define TASKS_MAX 100000 /* of a job */
#define SAID_MAX 200u    /* of what is no JSON */

/* --- states ----------------------------------------------------------------------------------- */

static const char *const state_names[] = {
    [PAI_UNKNOWN] = "UNKNOWN",   [PAI_WAITING] = "WAITING",     [PAI_RUNNING] = "RUNNING",
    [PAI_STOPPING] = "STOPPING", [PAI_SUCCEEDED] = "SUCCEEDED", [PAI_STOPPED] = "STOPPED",
    [PAI_FAILED] = "FAILED",
};

const char *pai_state_name(enum pai_state state)
{
    return state_names[state];
}

/* PAI_UNKNOWN for any other text. */
static enum pai_state find_state(const char *name)
{
    for (size_t i = 0; i < rg_array_len(state_names); i++) {
        if (strcmp(state_names[i], name) == 0)
            return (enum pai_state) i;
    }
    return PAI_UNKNOWN;
}

/* --- fields ----------------------------------------------------------------------------------- */

/* A text, borrowed; "" where there is none. */
static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* A whole number, which may be written as a text. False: there is none. */
static bool number_of(const json_t *object, const char *key, int64_t min, int64_t max,
                      int64_t *ret_n)
{
    const json_t *value = json_object_get(object, key);
    int64_t n = json_integer_value(value);

    if (json_is_string(value)) {
        if (rg_parse_int(key, json_string_value(value), min, max, &n, NULL) < 0)
            return false;
    } else if (!json_is_integer(value) || n < min || n > max) {
        return false;
    }
    *ret_n = n;
    return true;
}

static int64_t number_or(const json_t *object, const char *key, int64_t min, int64_t max,
                         int64_t other)
{
    int64_t n = other;

    number_of(object, key, min, max, &n);
    return n;
}

/* The exit code under a key; false: there is none yet. */
static bool exit_of(const json_t *object, const char *key, int *ret_code)
{
    int64_t n;

    if (!number_of(object, key, INT32_MIN, INT32_MAX, &n))
        return false;
    *ret_code = (int) n;
    return true;
}

/* Without "user~". */
static const char *bare_name(const char *name, const char *user)
{
    size_t n = strlen(user);

    return n && strncmp(name, user, n) == 0 && name[n] == '~' ? name + n + 1 : name;
}

void pai_blank_controls(char *text, const char *but)
{
    for (unsigned char *p = (unsigned char *) text; *p; p++) {
        bool c1 = p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0; /* U+0080 to U+009F in UTF-8 */
        if (c1)
            *p++ = ' ';
        if (c1 || ((*p < ' ' || *p == 0x7f) && !strchr(but, *p)))
            *p = ' ';
    }
}

/* A text as a terminal may show it; NULL: no memory. */
static char *plain(const char *text)
{
    char *copy = strdup(text);

    if (copy)
        pai_blank_controls(copy, "");
    return copy;
}

static json_t *load_object(const char *text, size_t nbytes)
{
    return json_loadb(text ? text : "", nbytes, 0, NULL);
}

/* --- jobs ------------------------------------------------------------------------------------- */

static void task_fini(struct pai_task *task)
{
    free(task->role);
    free(task->ip);
    json_decref(task->ports);
    free(task->container);
    free(task->log);
    free(task->places);
    free(task->said);
}

void pai_job_fini(struct pai_job *job)
{
    for (size_t i = 0; i < job->ntasks; i++)
        task_fini(&job->tasks[i]);
    free(job->tasks);
    free(job->user);
    free(job->name);
    free(job->cluster);
    free(job->said);
    free(job->trigger_role);
    *job = (struct pai_job){ .ntasks = 0 };
}

static int read_task(const char *role, const json_t *status, struct pai_task *task)
{
    const json_t *ports = json_object_get(status, "containerPorts");

    task->role = plain(role);
    task->index = (int) number_or(status, "taskIndex", 0, INT32_MAX, 0);
    task->state = find_state(text_of(status, "taskState"));
    task->has_exit = exit_of(status, "containerExitCode", &task->exit_code);
    task->retries = (int) number_or(status, "retries", 0, INT32_MAX, 0);
    task->ip = plain(text_of(status, "containerIp"));
    task->ports = json_is_object(ports) ? json_incref((json_t *) ports) : json_object();
    task->container = plain(text_of(status, "containerId"));
    task->log = plain(text_of(status, "containerLog"));
    task->said = plain(text_of(status, "containerExitDiagnostics"));
    return task->role && task->ip && task->ports && task->container && task->log && task->said
               ? 0 : -ENOMEM;
}

static int name_places(const struct pai_job *job, struct pai_task *task)
{
    rg_autobuf struct rg_buf path = RG_BUF_INIT;

    rg_buf_printf(&path, "/api/v2/jobs/");
    rg_http_put_escaped(&path, job->user);
    rg_buf_printf(&path, "~");
    rg_http_put_escaped(&path, job->name);
    rg_buf_printf(&path, "/attempts/%d/taskRoles/", job->retries);
    rg_http_put_escaped(&path, task->role);
    rg_buf_printf(&path, "/taskIndex/%d/attempts/%d/logs", task->index, task->retries);
    task->places = rg_buf_status(&path) < 0 ? NULL : strdup(rg_buf_text(&path));
    return task->places ? 0 : -ENOMEM;
}

/* What role's list has, behind the tasks that there are. */
static int read_role(const char *role, const json_t *statuses, struct pai_job *job)
{
    const json_t *status;
    size_t i, n = json_array_size(statuses);

    if (n > TASKS_MAX - job->ntasks)
        return -EPROTO;
    struct pai_task *tasks = n ? reallocarray(job->tasks, job->ntasks + n, sizeof(*tasks)) : NULL;
    if (n && !tasks)
        return -ENOMEM;
    if (n)
        job->tasks = tasks;
    json_array_foreach(statuses, i, status) {
        struct pai_task *task = &job->tasks[job->ntasks++];
        *task = (struct pai_task){ .index = 0 };
        if (read_task(role, status, task) < 0 || name_places(job, task) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* What a job's own status says, or an entry of a list, which is the same without a cover. */
static int read_status(const char *name, const json_t *status, struct pai_job *job)
{
    const char *user = text_of(status, "username");
    const char *said = text_of(status, "appExitTriggerMessage");

    job->user = plain(user);
    job->name = plain(bare_name(name, user));
    job->state = find_state(text_of(status, "state"));
    job->has_exit = exit_of(status, "appExitCode", &job->exit_code);
    job->retries = (int) number_or(status, "retries", 0, INT32_MAX, 0);
    job->cluster = plain(text_of(status, "virtualCluster"));
    job->said = plain(*said ? said : text_of(status, "appExitDiagnostics"));
    job->trigger_role = plain(text_of(status, "appExitTriggerTaskRoleName"));
    job->trigger_index = (int) number_or(status, "appExitTriggerTaskIndex", 0, INT32_MAX, 0);
    job->created_ms = number_or(status, "createdTime", 0, INT64_MAX, 0);
    job->completed_ms = number_or(status, "completedTime", 0, INT64_MAX, 0);
    return job->user && job->name && job->cluster && job->said && job->trigger_role ? 0 : -ENOMEM;
}

int pai_read_job(const char *text, size_t nbytes, struct pai_job *ret_job)
{
    PAI_AUTO_JSON json_t *answer = load_object(text, nbytes);
    json_t *status = json_object_get(answer, "jobStatus"), *role;
    const char *name = text_of(answer, "name"), *key;

    if (!json_is_object(status) || !*name)
        return -EPROTO;
    int r = read_status(name, status, ret_job);
    json_object_foreach(json_object_get(answer, "taskRoles"), key, role)
        r = r < 0 ? r : read_role(key, json_object_get(role, "taskStatuses"), ret_job);
    return r;
}

static bool is_wanted(const struct pai_job *job, const char *user, const char *name)
{
    return (!user || strcmp(job->user, user) == 0) && (!name || strcmp(job->name, name) == 0);
}

int pai_read_jobs(const char *text, size_t nbytes, const char *user, const char *name,
                  struct pai_jobs *ret_jobs)
{
    PAI_AUTO_JSON json_t *answer = load_object(text, nbytes);
    json_t *list = json_is_array(answer) ? answer : json_object_get(answer, "data"), *entry;
    size_t i, n = json_array_size(list);

    if (!json_is_array(list))
        return -EPROTO;
    ret_jobs->v = calloc(n + 1, sizeof(*ret_jobs->v));
    if (!ret_jobs->v)
        return -ENOMEM;
    json_array_foreach(list, i, entry) {
        struct pai_job *job = &ret_jobs->v[ret_jobs->count];
        int r = *text_of(entry, "name") ? read_status(text_of(entry, "name"), entry, job)
                                        : -EPROTO;
        if (r == 0 && is_wanted(job, user, name))
            ret_jobs->count++;
        else
            pai_job_fini(job);
        if (r < 0)
            return r;
    }
    return 0;
}

char *pai_read_place(const char *url, const char *text, size_t nbytes)
{
    PAI_AUTO_JSON json_t *answer = load_object(text, nbytes);
    const json_t *place;
    const char *uri = "";
    size_t i;

    json_array_foreach(json_object_get(answer, "locations"), i, place) {
        const char *name = text_of(place, "name");
        if (strcmp(name, "all") == 0 || strcmp(name, "user.pai.all") == 0)
            uri = text_of(place, "uri");
    }
    return pai_url_join(url, uri, strlen(uri));
}

/* "40000", "40000,40001" or a number: the first one. */
int pai_task_port(const struct pai_task *task, const char *label)
{
    const json_t *value = json_object_get(task->ports, label);
    const char *text = json_string_value(value);
    char first[8];
    int64_t port = json_integer_value(value);

    if (text) {
        snprintf(first, sizeof(first), "%.*s", (int) strcspn(text, ","), text);
        if (rg_parse_int(label, first, 1, 65535, &port, NULL) < 0)
            return 0;
    }
    return port > 0 && port <= 65535 ? (int) port : 0;
}

int pai_read_login(const char *text, size_t nbytes, char **ret_token, char **ret_user)
{
    PAI_AUTO_JSON json_t *answer = load_object(text, nbytes);
    const char *token = text_of(answer, "token");

    if (!*token || strpbrk(token, " \t\r\n"))
        return -EPROTO;
    char *copy = strdup(token), *user = plain(text_of(answer, "user"));
    if (!copy || !user) {
        pai_wipe(copy);
        free(user);
        return -ENOMEM;
    }
    *ret_token = copy;
    *ret_user = user;
    return 0;
}

/* --- refusals --------------------------------------------------------------------------------- */

static enum pai_refused why_of_status(long status)
{
    static const struct {
        long status;
        enum pai_refused why;
    } known[] = {
        { 400, PAI_INVALID }, { 401, PAI_DENIED }, { 403, PAI_FORBIDDEN }, { 404, PAI_MISSING },
        { 409, PAI_EXISTS },  { 429, PAI_BUSY },   { 502, PAI_AWAY },      { 503, PAI_AWAY },
        { 504, PAI_AWAY },
    };

    for (size_t i = 0; i < rg_array_len(known); i++) {
        if (known[i].status == status)
            return known[i].why;
    }
    return PAI_REFUSED;
}

/* What a code means more than its status does. */
static enum pai_refused why_of(const char *code, long status)
{
    static const struct {
        const char *code;
        enum pai_refused why;
    } known[] = {
        { "IncorrectPasswordError", PAI_DENIED }, { "NoUserError", PAI_DENIED },
        { "NoApiError", PAI_OTHER_VERSION },
    };

    for (size_t i = 0; i < rg_array_len(known); i++) {
        if (strcmp(known[i].code, code) == 0)
            return known[i].why;
    }
    return why_of_status(status);
}

/* The list of what is wrong with a job of version 2, in lines: ".taskRoles: should be object".
 * False: message is none. */
static bool put_faults(const char *message, char *text, size_t room)
{
    PAI_AUTO_JSON json_t *list = json_loads(message, 0, NULL);
    const json_t *fault;
    size_t i, n = 0;

    json_array_foreach(list, i, fault) {
        const char *path = text_of(fault, "dataPath");
        const char *more = text_of(json_object_get(fault, "params"), "additionalProperty");
        if (!*text_of(fault, "message") || n >= room)
            continue;
        n += (size_t) snprintf(text + n, room - n, "%s%s: %s%s%s", n ? "\n" : "",
                               *path ? path : "the file", text_of(fault, "message"),
                               *more ? ": " : "", more);
    }
    pai_blank_controls(text, "\n");
    return n > 0;
}

/* The beginning of what is no JSON; of a page no more than that it is one. */
static void put_foreign(const char *type, const char *text, size_t nbytes, char *to, size_t room)
{
    size_t n = 0;

    if (strcasestr(type, "html") || memmem(text ? text : "", nbytes, "<html", 5)) {
        snprintf(to, room, "a page in HTML");
        return;
    }
    for (size_t i = 0; i < nbytes && i < SAID_MAX && n + 1 < room; i++) {
        if (text[i] == '\n' && n)
            break;
        if (isprint((unsigned char) text[i]))
            to[n++] = text[i];
    }
    to[n] = '\0';
    if (!n)
        snprintf(to, room, "nothing that can be read");
}

void pai_read_refusal(long status, const char *type, const char *text, size_t nbytes,
                      struct pai_refusal *ret_refusal)
{
    PAI_AUTO_JSON json_t *answer = load_object(text, nbytes);
    const char *code = text_of(answer, "code"), *message = text_of(answer, "message");
    struct pai_refusal refusal = { .why = why_of(code, status), .status = (int) status };

    snprintf(refusal.code, sizeof(refusal.code), "%s", code);
    if (status < 300 || (!*message && !*code)) { /* a proxy that is in between may say no JSON */
        if (refusal.why != PAI_AWAY && refusal.why != PAI_BUSY)
            refusal.why = PAI_FOREIGN;
        put_foreign(type, text, nbytes, refusal.text, sizeof(refusal.text));
    } else if (!put_faults(message, refusal.text, sizeof(refusal.text))) {
        snprintf(refusal.text, sizeof(refusal.text), "%s", message);
        pai_blank_controls(refusal.text, "");
    }
    pai_blank_controls(refusal.code, "");
    *ret_refusal = refusal;
}

/* --- the same job? ---------------------------------------------------------------------------- */

/* The secrets of a file in blocks, or all else. They are a block of their own, whose lines are
 * indented. */
static void put_lines(const char *text, size_t nbytes, bool secrets, struct rg_buf *to)
{
    const char *end = text + nbytes, *line = text, *next;
    bool in_them = false;

    for (; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t) (end - line));
        next = newline ? newline + 1 : end;
        in_them = (in_them && strchr(" \t\r\n#", *line)) ||
                  ((size_t) (end - line) > strlen("secrets:") && rg_str_starts(line, "secrets:"));
        if (in_them == secrets)
            rg_buf_put(to, line, (size_t) (next - line));
    }
}

/* Move a tree, in which the order of keys means nothing, out of a job. */
static void move_tree(json_t **tree, json_t *empty, json_t *trees)
{
    json_array_append_new(trees, *tree ? *tree : json_null());
    *tree = empty;
}

/* A file as fields: its trees, and all else as it would be written by us. False: it is none. */
static bool read_plain(const char *text, size_t nbytes, json_t *trees, struct rg_buf *plain)
{
    struct rg_pai job = RG_PAI_INIT;
    struct rg_pai_findings found = RG_PAI_FINDINGS_INIT;
    bool done = rg_pai_read("job", text, nbytes, &job, &found, NULL) == 0 && found.nfatal == 0;

    if (done) {
        move_tree(&job.env, NULL, trees);
        move_tree(&job.extras, NULL, trees);
        move_tree(&job.rest, json_object(), trees);
        for (size_t i = 0; i < job.nroles; i++)
            move_tree(&job.roles[i].rest, json_object(), trees);
        done = rg_pai_write(&job, plain) == 0;
    }
    rg_pai_findings_fini(&found);
    rg_pai_fini(&job);
    return done;
}

bool pai_same_job(const char *ours, size_t nours, const char *theirs, size_t ntheirs)
{
    rg_autobuf struct rg_buf one = RG_BUF_INIT, other = RG_BUF_INIT, open = RG_BUF_INIT;
    PAI_AUTO_JSON json_t *trees = json_array();
    PAI_AUTO_JSON json_t *other_trees = json_array();

    if (nours == ntheirs && memcmp(ours, theirs, nours) == 0)
        return true;
    put_lines(theirs, ntheirs, false, &open);
    if (rg_buf_nbytes(&open) < ntheirs) /* they are hidden there: ours stand for them */
        put_lines(ours, nours, true, &open);
    bool same = trees && other_trees && rg_buf_status(&open) == 0 &&
                read_plain(ours, nours, trees, &one) &&
                read_plain(rg_buf_text(&open), rg_buf_nbytes(&open), other_trees, &other) &&
                json_equal(trees, other_trees) &&
                strcmp(rg_buf_text(&one), rg_buf_text(&other)) == 0;
    rg_buf_wipe(&open);
    return same;
}

void pai_answer_fini(struct pai_answer *answer)
{
    pai_job_fini(&answer->job);
    for (size_t i = 0; i < answer->jobs.count; i++)
        pai_job_fini(&answer->jobs.v[i]);
    free(answer->jobs.v);
    rg_buf_fini(&answer->text);
    *answer = (struct pai_answer){ .was_there = false };
}
