/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that Slurm runs when it can: squeue says what has become of them, scancel ends one. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "launch/drivers/slurm/slurm.h"
#include "launch/drivers/slurm/slurm_internal.h"

#define LOOK_MS 200 /* between looks at one that is to end */
#define LOOK_MAX_MS 2000
#define CANCEL_MS 60000 /* KillWait is 30 s by default */
#define ANSWER_MAX (256u << 10)

/* --- the queue -------------------------------------------------------------------------------- */

/* What squeue calls a job that is over, which some versions of it show for a while, all of them with
 * --states=all; and one that waits, the latter perhaps for another run of it. */
#define ENDED                                                                               \
    "COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE OUT_OF_MEMORY " \
    "REVOKED"
#define WAITS "PENDING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT"

static void set_text(char **text, const char *value)
{
    free(*text);
    *text = strdup(value ? value : "");
}

/* "12|RUNNING|None|0:10|node[1-2]", a line each; other lines are remarks, or name the cluster. The
 * nodes come last, as nothing else may be long enough to be cut. */
static void take_answer(struct rg_submitted_job *jobs, size_t count, char *text)
{
    for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
        const char *field[5] = { NULL };
        for (size_t i = 0; i < rg_array_len(field); i++)
            field[i] = strsep(&line, "|");
        for (size_t i = 0; field[4] && !line && i < count; i++) {
            struct rg_submitted_job *job = &jobs[i];
            if (strcmp(job->id, field[0]) != 0)
                continue;
            job->state = rg_str_has_word(ENDED, field[1])   ? RG_SUBMITTED_ENDED
                         : rg_str_has_word(WAITS, field[1]) ? RG_SUBMITTED_WAITS
                                                            : RG_SUBMITTED_RUNS;
            if (job->state == RG_SUBMITTED_WAITS)
                job->exit_code = -1; /* which was that of another run */
            set_text(&job->word, field[1]);
            set_text(&job->reason, strcmp(field[2], "None") == 0 ? "" : field[2]);
            set_text(&job->elapsed, field[3]);
            set_text(&job->nodes, field[4]);
        }
    }
}

/* The option for the cluster, in the place that argv has for it; text holds it. */
static void set_cluster(char **place, const struct rg_submitted_job *job, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "--clusters=%s", job->cluster ? job->cluster : "");
    *place = job->cluster ? text : NULL;
}

static int fail_asked(const char *program, int r, const char *said, struct rg_error *err)
{
    return rg_error_set_exit(err, EAGAIN, RG_EXIT_UNAVAILABLE, "%s: %.*s", program,
                             r < 0 ? 100 : (int) strcspn(said, "\n"),
                             r == -ETIMEDOUT ? "it does not answer; sinfo tells more"
                             : r < 0         ? strerror(-r) : said);
}

static bool same_cluster(const struct rg_submitted_job *a, const struct rg_submitted_job *b)
{
    return strcmp(a->cluster ? a->cluster : "", b->cluster ? b->cluster : "") == 0;
}

/* One question for all jobs of a cluster's that nobody has asked after, from the first one on. */
static int ask_cluster(struct rg_submitted_job *jobs, size_t count, struct rg_error *err)
{
    rg_autobuf struct rg_buf ids = RG_BUF_INIT;
    rg_autofree char *answer = malloc(ANSWER_MAX);
    char clusters[128];
    size_t nasked = 0;

    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state != RG_SUBMITTED_UNKNOWN || !same_cluster(&jobs[i], jobs))
            continue;
        jobs[i].state = RG_SUBMITTED_ENDED; /* unless it is listed */
        rg_buf_printf(&ids, "%s%s", nasked++ ? "," : "--jobs=", jobs[i].id);
    }
    char *argv[] = { (char *) "squeue", (char *) "--noheader", (char *) rg_buf_text(&ids),
                     (char *) "--states=all", (char *) "--format=%i|%T|%r|%M|%N", NULL, NULL };
    set_cluster(&argv[5], jobs, clusters, sizeof(clusters));
    int r = answer ? rg_slurm_ask(argv, answer, ANSWER_MAX) : -ENOMEM;
    if (r == 0)
        take_answer(jobs, count, answer);
    if (r == 0 || (r > 0 && nasked == 1 && strstr(answer, "Invalid job id")))
        return 0; /* so long ago that Slurm does not know it, too */
    return fail_asked("squeue", r, answer, err);
}

/* Its cluster did not answer when one of these, before it in the list, was asked after. */
static bool asked_in_vain(const struct rg_submitted_job *jobs, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (jobs[k].state == RG_SUBMITTED_UNKNOWN && same_cluster(&jobs[k], &jobs[i]))
            return true;
    }
    return false;
}

int slurm_status(struct rg_submitted_job *jobs, size_t count, struct rg_error *err)
{
    int r = 0;

    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state != RG_SUBMITTED_UNKNOWN || asked_in_vain(jobs, i) ||
            ask_cluster(&jobs[i], count - i, err) == 0)
            continue;
        r = -EAGAIN;
        for (size_t k = i; k < count; k++) {
            if (jobs[k].exit_code < 0 && !jobs[k].word && same_cluster(&jobs[k], &jobs[i]))
                jobs[k].state = RG_SUBMITTED_UNKNOWN;
        }
    }
    return r;
}

/* --- the end ---------------------------------------------------------------------------------- */

int slurm_cancel(struct rg_submitted_job *job, struct rg_error *err)
{
    char clusters[128], said[512];
    char *argv[] = { (char *) "scancel", job->id, NULL, NULL };
    uint64_t deadline_ns = rg_now_ns() + CANCEL_MS * RG_NS_PER_MS, pause_ms = LOOK_MS;

    set_cluster(&argv[2], job, clusters, sizeof(clusters));
    int r = rg_slurm_ask(argv, said, sizeof(said)), told;
    for (;;) {
        job->state = RG_SUBMITTED_UNKNOWN;
        told = slurm_status(job, 1, err);
        if (told == 0 && job->state == RG_SUBMITTED_ENDED)
            return 0;
        if (r != 0 || rg_now_ns() >= deadline_ns)
            break;
        rg_sleep_ms((unsigned) pause_ms);
        pause_ms = pause_ms * 2 < LOOK_MAX_MS ? pause_ms * 2 : LOOK_MAX_MS;
    }
    if (r != 0)
        return fail_asked("scancel", r, said, err);
    struct rg_error last = told < 0 && err ? *err : (struct rg_error) RG_ERROR_INIT;
    return rg_error_set_exit(err, EAGAIN, RG_EXIT_UNAVAILABLE,
                             "cancelled, but after %d s it is not gone (%s); a node that does not "
                             "answer holds it: sinfo tells more", CANCEL_MS / 1000,
                             told < 0 ? last.text : job->word);
}
