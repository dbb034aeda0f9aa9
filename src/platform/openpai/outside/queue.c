/* SPDX-License-Identifier: Apache-2.0 */
/* A job is handed to OpenPAI, asked after, and ended there. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "platform/openpai/outside/internal.h"

#define SUBMIT_MS 60000 /* with a look for the job, where the answer is lost */
#define STOP_MS 60000   /* until it has ended */
#define LOOK_MS 500

/* --- where ------------------------------------------------------------------------------------ */

void pai_where_fini(struct pai_where *where)
{
    free(where->text);
    *where = (struct pai_where){ NULL, NULL, NULL, 0 };
}

/* "URL USER VERSION"; USER is "-" where nobody has said it. */
static char *describe_where(const struct pai_server *server, const char *user)
{
    const char *who = user ? user : pai_server_user(server);

    return rg_strf("%s %s %d", pai_server_url(server), *who ? who : "-",
                   pai_server_version(server));
}

static int parse_where(const char *text, struct pai_where *ret_where, struct rg_error *err)
{
    struct pai_where where = { .text = strdup(text ? text : "") };
    char *rest = where.text, *url = strsep(&rest, " "), *user = strsep(&rest, " ");

    if (!where.text)
        return rg_error_memory(err);
    where.url = url && *url ? url : NULL;
    where.user = user && strcmp(user, "-") != 0 ? user : NULL;
    where.version = rest ? atoi(rest) : 0;
    *ret_where = where;
    return 0;
}

/* Who asks may be another one than the job's owner: an administrator, for one. */
int pai_open_submitted(const struct rg_submitted_job *job, struct pai_where *ret_where,
                       struct pai_server **ret_server, struct rg_error *err)
{
    int r = parse_where(job->cluster, ret_where, err);

    if (r < 0)
        return r;
    const struct pai_access access = { .url = ret_where->url, .version = ret_where->version,
                                       .user = getenv("REIGEN_PAI_USER") ? NULL
                                                                         : ret_where->user };
    return pai_server_open(&access, ret_server, err);
}

static int open_server(const struct rg_job *job, struct pai_server **ret_server,
                       struct rg_error *err)
{
    const struct pai_access access = { .url = pai_option(job, "pai-server"),
                                       .user = pai_option(job, "pai-user"),
                                       .version = pai_version_of(job) };

    return pai_server_open(&access, ret_server, err);
}

/* Which version it takes: as it says, unless the user has said it. */
static int find_version(const struct rg_job *job, struct pai_server *server, int *ret_version,
                        struct rg_error *err)
{
    const struct pai_request find = { .verb = PAI_FIND };
    int version = pai_version_of(job), r = 0;

    if (!version) {
        r = pai_ask(server, &find, NULL, NULL, err);
        version = pai_server_version(server);
    }
    *ret_version = version;
    return r;
}

/* --- submit ----------------------------------------------------------------------------------- */

int pai_describe(struct rg_planned *planned, struct rg_buf *text, struct rg_error *err)
{
    PAI_AUTO_SERVER struct pai_server *server = NULL;
    const char *url = pai_option(&planned->job, "pai-server"), *usual = getenv("REIGEN_PAI_SERVER");
    int version = pai_version_of(&planned->job), r = 0;

    if (!version && (url || (usual && *usual))) {
        r = open_server(&planned->job, &server, err);
        r = r < 0 ? r : find_version(&planned->job, server, &version, err);
    }
    return r < 0 ? r : pai_file_put(planned, version ? version : 2, false, text, &planned->notes,
                                    err);
}

static int send_job(const struct rg_planned *planned, struct pai_server *server, int version,
                    struct rg_strv *words, bool *ret_unsure, struct rg_error *err)
{
    struct pai_refusal refusal = { .why = PAI_FINE };
    struct rg_buf text = RG_BUF_INIT;
    int r = pai_file_put(planned, version, true, &text, words, err);
    const struct pai_request request = { .verb = PAI_SUBMIT, .version = version,
                                         .name = pai_option(&planned->job, "name"),
                                         .text = rg_buf_text(&text),
                                         .nbytes = rg_buf_nbytes(&text), .ms = SUBMIT_MS };

    if (r == 0 && (r = pai_ask(server, &request, NULL, &refusal, err)) < 0)
        rg_error_prepend(err, "job %s", request.name);
    *ret_unsure = refusal.why == PAI_UNSURE;
    rg_buf_wipe(&text);
    return r;
}

int pai_submit(const struct rg_job *job, char *const *argv, struct rg_submitted_job *ret_job,
               struct rg_error *err)
{
    RG_AUTO_PLANNED struct rg_planned planned = { .quiet = false };
    PAI_AUTO_SERVER struct pai_server *server = NULL;
    const char *name = pai_option(job, "name");
    bool unsure = false;
    int version = 0, r = rg_planned_read(argv[2], &planned, err);

    unlink(argv[2]); /* the job's file has it */
    if (r == 0 && job->file_text && !(planned.job.file_text = strdup(job->file_text)))
        r = rg_error_memory(err);
    r = r < 0 ? r : open_server(job, &server, err);
    r = r < 0 ? r : find_version(job, server, &version, err);
    r = r < 0 ? r : send_job(&planned, server, version, &ret_job->remarks, &unsure, err);
    if (r < 0 && !unsure)
        return r;
    snprintf(ret_job->id, sizeof(ret_job->id), "%s", name);
    ret_job->cluster = describe_where(server, NULL);
    ret_job->log = rg_strf("reigen logs %s", name);
    return r < 0 ? r : ret_job->cluster && ret_job->log ? 0 : rg_error_memory(err);
}

/* --- a job that is there ---------------------------------------------------------------------- */

/* Look at it once. ret_answer is the caller's, also after an error. */
static int look(struct pai_server *server, const struct pai_where *where, const char *name,
                struct pai_answer *ret_answer, struct pai_refusal *ret_refusal,
                struct rg_error *err)
{
    const struct pai_request request = { .verb = PAI_LOOK, .user = where->user, .name = name };

    return pai_ask(server, &request, ret_answer, ret_refusal, err);
}

/* As pai_host_of counts them: the head is the first one. */
static int name_hosts(const struct pai_job *job, struct rg_strv *hosts)
{
    const struct pai_task *head = pai_head_of(job);
    char name[PAI_HOST_MAX];

    if (head)
        rg_strv_add(hosts, pai_task_name(head, name));
    for (size_t i = 0; i < job->ntasks; i++) {
        if (&job->tasks[i] != head)
            rg_strv_add(hosts, pai_task_name(&job->tasks[i], name));
    }
    return rg_strv_status(hosts);
}

int pai_find(struct rg_submitted_job *job, const char *url, const char *user,
             struct rg_strv *hosts, struct rg_error *err)
{
    PAI_AUTO_SERVER struct pai_server *server = NULL;
    PAI_AUTO_ANSWER struct pai_answer answer = { .was_there = false };
    rg_cleanup(pai_where_fini) struct pai_where where = { .text = NULL };
    const struct pai_access access = { .url = url };
    struct pai_refusal refusal = { .why = PAI_FINE };
    int r = job->cluster ? pai_open_submitted(job, &where, &server, err)
                         : pai_server_open(&access, &server, err);

    if (user)
        where.user = user;
    r = r < 0 ? r : look(server, &where, job->id, &answer, &refusal, err);
    if (r < 0)
        return refusal.why == PAI_MISSING ? -ENOENT : r;
    if (!job->cluster)
        job->cluster = describe_where(server, user);
    if (!job->log)
        job->log = rg_strf("reigen logs %s", job->id);
    if (!job->command)
        job->command = strdup("");
    r = name_hosts(&answer.job, hosts);
    return r == 0 && job->cluster && job->log && job->command ? 0 : rg_error_memory(err);
}

/* --- status ----------------------------------------------------------------------------------- */

/* The addresses of its tasks, each once. */
static void set_nodes(struct rg_submitted_job *job, const struct pai_job *there)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autostrv struct rg_strv known = RG_STRV_INIT;

    for (size_t i = 0; i < there->ntasks; i++) {
        const char *ip = there->tasks[i].ip;
        if (!*ip || rg_strv_has(&known, ip))
            continue;
        rg_buf_printf(&text, "%s%s", known.count ? "," : "", ip);
        rg_strv_add(&known, ip);
    }
    rg_submitted_set(&job->nodes, rg_buf_text(&text));
}

static void take_job(struct rg_submitted_job *job, int version, const struct pai_job *there)
{
    struct rg_error err = RG_ERROR_INIT;
    bool over = pai_state_is_end(there->state);

    job->state = over                            ? RG_SUBMITTED_ENDED
                 : there->state == PAI_WAITING ? RG_SUBMITTED_WAITS
                 : there->state == PAI_UNKNOWN ? RG_SUBMITTED_UNKNOWN : RG_SUBMITTED_RUNS;
    if (over)
        job->exit_code = pai_verdict(version, there, &err);
    rg_submitted_set(&job->word, !over                            ? pai_state_name(there->state)
                         : there->state == PAI_SUCCEEDED ? "COMPLETED"
                         : err.errnum                     ? err.text : "FAILED");
    rg_submitted_set(&job->reason, there->state == PAI_WAITING ? there->said : "");
    rg_submitted_set_elapsed(job, there->created_ms ? there->created_ms / 1000 : time(NULL));
    if (job->state == RG_SUBMITTED_RUNS)
        set_nodes(job, there);
}

/* Jobs of one server are asked after together. */
struct asking {
    struct pai_where where;
    struct pai_server *server;
    bool in_vain; /* whatever it is asked, it would not answer */
    struct rg_error why;
};

static void drop_asking(struct asking *asking)
{
    pai_server_close(asking->server);
    pai_where_fini(&asking->where);
}

static void begin_asking(struct asking *asking, const struct rg_submitted_job *job)
{
    asking->in_vain = pai_open_submitted(job, &asking->where, &asking->server, &asking->why) < 0;
}

/* It is the server that does not answer, or not to us; other refusals are of one job. */
static bool is_in_vain(enum pai_refused why)
{
    return why == PAI_AWAY || why == PAI_LATE || why == PAI_BUSY || why == PAI_UNTRUSTED ||
           why == PAI_UNUSABLE || why == PAI_DENIED;
}

static int ask_one(struct asking *asking, struct rg_submitted_job *job)
{
    PAI_AUTO_ANSWER struct pai_answer answer = { .was_there = false };
    struct pai_refusal refusal = { .why = PAI_FINE };
    int r = asking->in_vain ? -EAGAIN : look(asking->server, &asking->where, job->id, &answer,
                                             &refusal, &asking->why);

    if (r == 0)
        take_job(job, pai_server_version(asking->server), &answer.job);
    else if (refusal.why == PAI_MISSING)
        job->state = RG_SUBMITTED_ENDED; /* it was removed */
    asking->in_vain |= is_in_vain(refusal.why);
    return r == 0 || refusal.why == PAI_MISSING ? 0 : -EAGAIN;
}

static const char *cluster_of(const struct rg_submitted_job *job)
{
    return job->cluster ? job->cluster : "";
}

/* All that are on the first one's server. */
static int ask_server(struct rg_submitted_job *jobs, size_t count, struct rg_error *err)
{
    rg_cleanup(drop_asking) struct asking asking = { .in_vain = false };
    int r = 0;

    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state != RG_SUBMITTED_UNKNOWN ||
            strcmp(cluster_of(&jobs[i]), cluster_of(&jobs[0])) != 0)
            continue;
        if (!asking.server && !asking.in_vain)
            begin_asking(&asking, &jobs[i]);
        if (ask_one(&asking, &jobs[i]) < 0)
            r = -EAGAIN;
        /* It is removed some day, and its code with it. */
        if (jobs[i].state == RG_SUBMITTED_ENDED && jobs[i].exit_code >= 0)
            rg_submitted_end(&jobs[i]);
    }
    if (r < 0 && err && !err->errnum)
        *err = asking.why;
    return r;
}

int pai_status(struct rg_submitted_job *jobs, size_t count, struct rg_error *err)
{
    int status = 0;

    for (size_t i = 0; i < count; i++) {
        bool first = true;
        for (size_t k = 0; first && k < i; k++)
            first = strcmp(cluster_of(&jobs[k]), cluster_of(&jobs[i])) != 0;
        int r = first ? ask_server(&jobs[i], count - i, err) : 0;
        status = r < 0 ? r : status;
    }
    return status;
}

/* --- the end ---------------------------------------------------------------------------------- */

int pai_cancel(struct rg_submitted_job *job, struct rg_error *err)
{
    PAI_AUTO_SERVER struct pai_server *server = NULL;
    rg_cleanup(pai_where_fini) struct pai_where where = { .text = NULL };
    uint64_t deadline_ns = rg_now_ns() + STOP_MS * RG_NS_PER_MS;
    int r = pai_open_submitted(job, &where, &server, err);
    const struct pai_request stop = { .verb = PAI_STOP, .user = where.user, .name = job->id };

    r = r < 0 ? r : pai_ask(server, &stop, NULL, NULL, err);
    while (r == 0) {
        PAI_AUTO_ANSWER struct pai_answer answer = { .was_there = false };
        struct pai_refusal refusal = { .why = PAI_FINE };
        r = look(server, &where, job->id, &answer, &refusal, err);
        if (refusal.why == PAI_MISSING)
            return 0;
        if (r < 0 || pai_state_is_end(answer.job.state))
            return r;
        if (rg_now_ns() > deadline_ns)
            return rg_error_set_exit(err, ETIMEDOUT, RG_EXIT_UNAVAILABLE,
                                     "OpenPAI was told to stop it, and has not within %d s: it is "
                                     "%s", STOP_MS / 1000, pai_state_name(answer.job.state));
        rg_sleep_ms(LOOK_MS);
    }
    return r;
}
