/* SPDX-License-Identifier: Apache-2.0 */
/* reigen logs: what the ranks of a job wrote, from where the user had it put. Nothing is kept by
 * itself, but of a job that has detached: a job's output may be larger than any disk. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/say.h"
#include "base/time.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"
#include "cmd/jobs/jobs.h"
#include "base/exitcode.h"

#define READ_MS 200 /* between looks at the files */
#define CHUNK 65536
#define LOOK_MS 1000 /* between looks at a job that was submitted, at first */
#define LOOK_MAX_MS 15000
#define REASON_MAX 128

/* A file that is shown. */
struct source {
    char *path;
    char tag[24];  /* in front of each line, or "" */
    bool tagged;   /* lines have their tags, perhaps in colours, already: */
    bool plain;    /* those are left out */
    int rank;      /* only what this rank has written; -1: all */
    int fd;        /* where it is shown: 1 or 2 */
    off_t at;
    off_t end;     /* nothing behind it is shown; -1: there is no such place */
    struct rg_buf line; /* whose end has not come */
};

struct logs {
    struct source *sources;
    size_t count;
    bool found; /* any of the files */
};

static void logs_fini(struct logs *logs)
{
    for (size_t i = 0; i < logs->count; i++) {
        free(logs->sources[i].path);
        rg_buf_fini(&logs->sources[i].line);
    }
    free(logs->sources);
    *logs = (struct logs){ NULL, 0, false };
}

static int add(struct logs *logs, char *take_path, int fd, off_t at, const char *tag)
{
    struct source *more = realloc(logs->sources, (logs->count + 1) * sizeof(*more));

    if (more)
        logs->sources = more;
    if (!more || !take_path) {
        free(take_path);
        return -ENOMEM;
    }
    more[logs->count] = (struct source){ .path = take_path, .fd = fd, .at = at, .rank = -1,
                                         .end = -1, .line = RG_BUF_INIT };
    snprintf(more[logs->count++].tag, sizeof(more->tag), "%s", tag);
    return 0;
}

/* rank: -1: all of them. */
static int add_ranks(struct logs *logs, const struct rg_registry_job *job, const char *dir,
                     int rank)
{
    int first = rank < 0 ? 0 : rank, last = rank < 0 ? job->nranks - 1 : rank, r = 0;
    char tag[24] = "", number[16];
    int width = snprintf(number, sizeof(number), "%d", job->nranks > 0 ? job->nranks - 1 : 0);

    for (int i = first; r == 0 && i <= last; i++) {
        if (job->nranks > 1)
            snprintf(tag, sizeof(tag), "[%d] ", i);
        r = add(logs, rg_strf("%s/rank.%0*d/stdout", dir, width, i), 1, 0, tag);
        if (r == 0)
            r = add(logs, rg_strf("%s/rank.%0*d/stderr", dir, width, i), 2, 0, tag);
    }
    return r;
}

static int add_log(struct logs *logs, const struct rg_registry_job *job, const char *path, int rank)
{
    int r = add(logs, strdup(path), 1, 0, "");

    if (r < 0)
        return r;
    logs->sources[0].tagged = job->tags;
    logs->sources[0].plain = !rg_terminal_colour(1);
    logs->sources[0].rank = job->tags ? rank : -1;
    return 0;
}

/* --- from where, and whither ------------------------------------------------------------------ */

/* What is shown would be written behind what is to be shown, for ever. */
static const char *find_own(const struct logs *logs)
{
    struct stat from, to;

    for (size_t i = 0; i < logs->count; i++) {
        for (int fd = 1; fd <= 2; fd++) {
            if (stat(logs->sources[i].path, &from) == 0 && S_ISREG(from.st_mode) &&
                fstat(fd, &to) == 0 && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
                return logs->sources[i].path;
        }
    }
    return NULL;
}

/* Who does not follow a job sees what there is now, even if what is shown comes back to the file by
 * some other way. */
static void note_ends(struct logs *logs)
{
    struct stat st;

    for (size_t i = 0; i < logs->count; i++) {
        if (stat(logs->sources[i].path, &st) == 0 && S_ISREG(st.st_mode))
            logs->sources[i].end = st.st_size;
    }
}

/* 0, or the exit code: nothing is to be shown. restarts: other ids of the job, or NULL. */
static int check(const struct logs *logs, const char *id, const struct rg_strv *restarts, bool keep)
{
    const char *own = find_own(logs), *within = getenv("REIGEN_JOB_ID");

    if (own)
        return rg_fail_usage("logs", "job %s: its output is in %s, and what this command prints "
                             "goes there, too: input file is output file; send it elsewhere", id,
                             own);
    if (keep && within &&
        (strcmp(within, id) == 0 || (restarts && rg_strv_has(restarts, within))))
        return rg_fail_usage("logs", "logs -f: this command runs in job %s, whose output would "
                             "follow itself; leave -f out", id);
    return 0;
}

/* --- copying ---------------------------------------------------------------------------------- */

static int put_tagged(const struct source *source, const uint8_t *line, size_t nbytes)
{
    rg_autobuf struct rg_buf plain = RG_BUF_INIT;

    if (source->rank >= 0 && rg_jobs_tag_rank(line, nbytes) != source->rank)
        return 0;
    if (!source->plain)
        return rg_write_all(source->fd, line, nbytes);
    rg_jobs_put_plain(&plain, line, nbytes);
    return rg_buf_status(&plain) < 0 ? rg_buf_status(&plain)
                                     : rg_write_all(source->fd, rg_buf_bytes(&plain),
                                                    rg_buf_nbytes(&plain));
}

static int put_line(struct source *source, size_t nbytes)
{
    int r = rg_write_all(source->fd, source->tag, strlen(source->tag));

    if (r == 0 && source->tagged)
        r = put_tagged(source, rg_buf_bytes(&source->line), nbytes);
    else if (r == 0)
        r = rg_write_all(source->fd, rg_buf_bytes(&source->line), nbytes);
    rg_buf_consume(&source->line, nbytes);
    return r;
}

/* Whole lines, so that those of several ranks do not mix. */
static int put_lines(struct source *source)
{
    const uint8_t *end;
    int r = 0;

    if (!*source->tag && !source->tagged)
        return rg_buf_nbytes(&source->line) ? put_line(source, rg_buf_nbytes(&source->line)) : 0;
    while (r == 0 && rg_buf_nbytes(&source->line) &&
           (end = memchr(rg_buf_bytes(&source->line), '\n', rg_buf_nbytes(&source->line))))
        r = put_line(source, (size_t) (end - rg_buf_bytes(&source->line)) + 1);
    if (r == 0 && rg_buf_nbytes(&source->line) > CHUNK)
        r = put_line(source, rg_buf_nbytes(&source->line));
    return r;
}

/* What is new in the file, which may not be there yet. 0 or -errno of writing. */
static int copy_new(struct logs *logs, struct source *source)
{
    rg_autoclose int fd = open(source->path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    ssize_t n = 0;
    int r = 0;

    logs->found |= fd >= 0;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size < source->at)
        source->at = 0; /* a job that is run again has begun it anew */
    if (source->end >= 0 && source->at > source->end)
        source->at = source->end;
    while (r == 0 && fd >= 0) {
        uint8_t *room = rg_buf_reserve(&source->line, CHUNK);
        if (!room)
            return -ENOMEM;
        size_t most = source->end < 0 || source->end - source->at > CHUNK
                          ? CHUNK : (size_t) (source->end - source->at);
        n = pread(fd, room, most, source->at);
        if (n <= 0)
            break;
        rg_buf_commit(&source->line, (size_t) n);
        source->at += n;
        r = put_lines(source);
    }
    return r;
}

static int copy_all(struct logs *logs, bool last)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < logs->count; i++) {
        struct source *source = &logs->sources[i];
        r = copy_new(logs, source);
        if (r == 0 && last && rg_buf_nbytes(&source->line)) {
            r = put_line(source, rg_buf_nbytes(&source->line));
            if (r == 0)
                r = rg_write_all(source->fd, "\n", 1);
        }
    }
    return r;
}

static int show(struct logs *logs, bool (*is_over)(void *arg), void *arg)
{
    int r = 0;

    if (!is_over)
        note_ends(logs);
    for (bool over = false; r == 0 && !over;) {
        over = !is_over || is_over(arg);
        r = copy_all(logs, over);
        if (!over)
            rg_sleep_ms(READ_MS);
    }
    return r;
}

static int fail_lost(int r)
{
    return rg_fail(&(struct rg_error){ -r, RG_EXIT_OUTPUT_LOST, "standard output was lost" },
                   "logs");
}

/* --- of a job that was submitted -------------------------------------------------------------- */

struct submitted {
    const struct rg_driver_ops *driver;
    const struct rg_submitted_job *job;
    uint64_t look_ns, ask_ns, pause_ms;
    char told[REASON_MAX]; /* why it waits, as was said last; "": it does not */
};

/* Who follows it sees why nothing comes: once for each reason. */
static void say_wait(struct submitted *submitted, const struct rg_submitted_job *now)
{
    const char *reason = now->reason ? now->reason : "";

    if (now->state == RG_SUBMITTED_RUNS && *submitted->told)
        rg_say("job %s runs now%s%s", now->id, now->nodes && *now->nodes ? ", on " : "",
               now->nodes ? now->nodes : "");
    if (now->state != RG_SUBMITTED_WAITS) {
        *submitted->told = '\0';
        return;
    }
    if (*submitted->told && strcmp(submitted->told + 1, reason) == 0)
        return;
    snprintf(submitted->told, sizeof(submitted->told), "+%s", reason);
    const char *since = now->since ? now->since : "";

    rg_say("job %s is pending%s%s%s%s%s; its output follows when it runs", now->id,
           *since ? " since " : "", since, *reason ? ": " : "", reason, now->hint ? now->hint : "");
}

/* The job's file knows of its end without a question to the platform, which is asked ever more
 * seldom until then; a job that is put back into the queue has several ends. */
static bool is_submitted_over(void *arg)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job now = { .exit_code = -1 };
    struct submitted *submitted = arg;
    const struct rg_platform *platform = submitted->job->platform;

    if (rg_now_ns() < submitted->look_ns)
        return false;
    submitted->look_ns = rg_now_ns() + LOOK_MS * RG_NS_PER_MS;
    if (rg_submitted_read(platform, submitted->job->id, &now) < 0)
        return true;
    if (now.exit_code < 0 && rg_now_ns() < submitted->ask_ns)
        return false;
    int r = submitted->driver->queue->status(&now, 1, NULL);
    submitted->pause_ms = submitted->pause_ms * 2 < LOOK_MAX_MS ? submitted->pause_ms * 2
                                                                : LOOK_MAX_MS;
    submitted->ask_ns = rg_now_ns() + submitted->pause_ms * RG_NS_PER_MS;
    if (r == 0)
        say_wait(submitted, &now);
    return r == 0 && now.state == RG_SUBMITTED_ENDED;
}

static void on_say(void *arg, const char *text)
{
    (void) arg;
    rg_say("%s", text);
}

static int show_submitted(const struct rg_driver_ops *driver, const struct rg_submitted_job *job,
                          bool keep)
{
    rg_cleanup(logs_fini) struct logs logs = { NULL, 0, false };
    struct submitted submitted = { .driver = driver, .job = job, .pause_ms = LOOK_MS };
    struct rg_error err = RG_ERROR_INIT;

    if (driver->queue->logs)
        return driver->queue->logs(job, keep, 1, on_say, &err) < 0
                   ? rg_jobs_fail_submitted("logs", job, &err) : 0;
    int r = add(&logs, strdup(job->log), 1, 0, ""), code = check(&logs, job->id, NULL, keep);
    if (code)
        return code;
    if (r == 0)
        r = show(&logs, keep ? is_submitted_over : NULL, &submitted);
    if (r < 0)
        return fail_lost(r);
    if (logs.found)
        return 0;
    int cause = access(job->log, R_OK) < 0 ? errno : ENOENT;
    rg_error_set_exit(&err, cause, RG_EXIT_UNAVAILABLE, "job %s has no output%s: %s: %s; reigen "
                      "status %s tells more", job->id, keep ? "" : " yet", job->log,
                      strerror(cause), job->id);
    return rg_fail(&err, "logs");
}

/* --- the command ------------------------------------------------------------------------------ */

static int fail_nowhere(const struct rg_registry_job *job, const char *kind, const char *path)
{
    struct rg_error err = RG_ERROR_INIT;
    const char *verb = job->ended ? "went" : "goes";

    if (strcmp(kind, "terminal") == 0)
        rg_error_set_exit(&err, ENOENT, RG_EXIT_UNAVAILABLE,
                          "job %s: its output %s to the terminal %s and is kept nowhere; start a "
                          "job with --output-dir DIR, and reigen logs shows it", job->id, verb,
                          path);
    else
        rg_error_set_exit(&err, ENOENT, RG_EXIT_UNAVAILABLE,
                          "job %s: its output %s %s and is kept nowhere; start a job with "
                          "--output-dir DIR, and reigen logs shows it", job->id, verb,
                          strcmp(kind, "pipe") == 0 ? "to another program" : "to /dev/null");
    return rg_fail(&err, "logs");
}

static bool is_over(void *arg)
{
    return rg_registry_is_over(arg);
}

static int show_job(const struct rg_registry_job *job, bool keep, int rank)
{
    rg_cleanup(logs_fini) struct logs logs = { NULL, 0, false };
    struct rg_error err = RG_ERROR_INIT;
    char kind[16];
    const char *path = rg_jobs_output(job, kind);
    int r;

    if (strcmp(kind, "dir") == 0)
        r = add_ranks(&logs, job, path, rank);
    else if (strcmp(kind, "log") == 0 && (rank < 0 || job->tags || job->nranks == 1))
        r = add_log(&logs, job, path, rank);
    else if (strcmp(kind, "file") == 0 && rank < 0)
        r = add(&logs, strdup(path), 1, (off_t) job->skip_nbytes, "");
    else if (strcmp(kind, "file") == 0 || strcmp(kind, "log") == 0)
        return rg_fail_usage("logs", "logs --rank: the output of all ranks is in one file, %s",
                             path);
    else
        return fail_nowhere(job, kind, path);
    int code = check(&logs, job->id, &job->restarts, keep);
    if (code)
        return code;
    if (r == 0)
        r = show(&logs, keep ? is_over : NULL, (void *) job);
    if (r < 0)
        return fail_lost(r);
    if (logs.found)
        return 0;
    rg_error_set_exit(&err, ENOENT, RG_EXIT_UNAVAILABLE,
                      "job %s has no output here: %s is not there, or nothing is in it", job->id,
                      path);
    return rg_fail(&err, "logs");
}

int rg_cmd_logs(int argc, char **argv)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job submitted = { .exit_code = -1 };
    rg_cleanup(rg_registry_job_fini) struct rg_registry_job job = { 0 };
    const char *rank_text = NULL;
    struct rg_error err = RG_ERROR_INIT;
    const struct rg_driver_ops *driver;
    struct rg_jobs_place place = { { NULL } };
    bool keep = false;
    int64_t rank = -1;
    const struct rg_arg args[] = { { .name = "follow", .letter = 'f', .flag = &keep },
                                   { .name = "rank", .what = "R", .value = &rank_text },
                                   RG_JOBS_PLACE_ARGS(place), { NULL } };
    int n = rg_args_parse(argc, argv, args, 1);

    if (n < 0)
        return -1 - n;
    if (rank_text && rg_parse_int("--rank", rank_text, 0, RG_JOB_RANKS_MAX - 1, &rank, &err) < 0)
        return rg_fail_usage("logs", "logs %s", err.text);
    rg_autofree char *only = NULL;
    int code = n ? 0 : rg_jobs_find_only("logs", &place, &only);
    const char *id = n ? argv[1] : only;
    if (code)
        return code;
    code = rg_jobs_find_at("logs", id, &place, &submitted, &driver);
    if (code)
        return code;
    if (driver && rank_text)
        return rg_fail_usage("logs", "logs --rank: the output of all ranks of job %s is in one "
                             "file", id);
    if (driver)
        return show_submitted(driver, &submitted, keep);
    code = rg_jobs_find("logs", id, &job);
    if (code)
        return code;
    if (rank >= 0 && job.nranks && rank >= job.nranks)
        return rg_fail_usage("logs", "logs --rank %d: job %s has %d rank%s", (int) rank, job.id,
                             job.nranks, job.nranks == 1 ? "" : "s");
    return show_job(&job, keep, (int) rank);
}
