/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that Slurm runs when it can: sbatch takes the script that runs one, squeue says what has
 * become of it, scancel ends it. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/time.h"
#include "platform/slurm/door.h"
#include "platform/slurm/internal.h"
#include "launch/host/agentfile.h"
#include "base/exitcode.h"

#define LOOK_MS 200 /* between looks at one that is to end */
#define LOOK_MAX_MS 2000
#define CANCEL_MS 60000 /* KillWait is 30 s by default */
#define ANSWER_MAX (256u << 10)
#define RESTARTS 3 /* of a job whose head is lost, unless --max-restarts says it; as in pods */
#define LONG_RUN_S 3600

/* --- sbatch ----------------------------------------------------------------------------------- */

/* A run that has not put down its end was ended without a word, as those are whose node is lost. It
 * is forever so if the node is lost because of the job; one that has run for long has done its
 * work, and whatever ends it after that is no fault of the job's. */
static void put_limit(const struct rg_job *job, struct rg_buf *script)
{
    int most = job->max_restarts ? job->max_restarts : RESTARTS;

    rg_buf_printf(script,
                  "lost=$(awk '/^exit/ { n = 0; last = 0 }\n"
                  "/^begin/ { n = !last ? 0 : $2 - last < %d ? n + 1 : 1; last = $2 }\n"
                  "END { print n + 0 }' \"$file\")\n"
                  "if [ $lost -gt %d ]; then\n"
                  "    echo \"reigen: $lost runs in a row were ended without a word within an "
                  "hour, as when the node with the job's head is lost. The job begins again %d "
                  "times at most, so it ends with code %d\" >&2\n"
                  "    end %d\n",
                  LONG_RUN_S, most, most, RG_EXIT_HOST_LOST, RG_EXIT_HOST_LOST);
    rg_buf_printf(script,
                  "elif [ $lost -gt 0 ]; then\n"
                  "    echo \"reigen: the run before was ended without a word, as when the node "
                  "with the job's head is lost, so the job begins again: $lost of %d times at "
                  "most\" >&2\n"
                  "fi\n",
                  most);
}

/* The agent has a head in it. The shell stays, to put down how it ended, and hands on what it is
 * told: to end, or a signal of `sbatch --signal=B:USR1@60`. Where its node was cut off, it may come
 * to that when the job has begun anew elsewhere. */
static int make_script(const struct rg_job *job, char *const *argv, const char *dir,
                       struct rg_buf *script, struct rg_error *err)
{
    char path[PATH_MAX];
    int r = rg_agent_file_find(path, err);
    rg_autofree char *program = r == 0 ? realpath(path, NULL) : NULL;

    if (!program)
        return r < 0 ? r : -errno;
    rg_buf_printf(script, "#!/bin/sh\nfile=");
    slurm_put_quoted(script, dir);
    rg_buf_printf(script,
                  "/$SLURM_JOB_ID\necho begin $(date +%%s) >>\"$file\"\n"
                  "count() { n=$(grep -c \"^$1\" \"$file\" 2>/dev/null); echo ${n:-0}; }\n"
                  "begun=$(count begin)\n"
                  "end() { [ $(count begin) -gt $begun ] || echo \"exit $1\" >>\"$file\"; "
                  "exit $1; }\n");
    if (job->elastic.on || job->max_restarts)
        put_limit(job, script);
    slurm_put_quoted(script, program);
    for (; *argv; argv++) {
        rg_buf_printf(script, " ");
        slurm_put_quoted(script, *argv);
    }
    rg_buf_printf(script, " &\n"
                          "for s in TERM USR1 USR2; do trap \"kill -$s $! 2>/dev/null\" $s; done\n"
                          "wait $!; code=$?\n"
                          "while kill -0 $! 2>/dev/null; do wait $!; code=$?; done\n"
                          "end $code\n");
    return rg_buf_status(script);
}

static int make_argv(const struct rg_job *job, const char *cwd, struct rg_strv *argv)
{
    rg_autobuf struct rg_buf output = RG_BUF_INIT;

    rg_strv_add(argv, "sbatch");
    rg_strv_add(argv, "--job-name=reigen");
    if (job->elastic.on || job->max_restarts)
        rg_strv_add(argv, "--requeue"); /* the user's own word for it follows */
    int r = slurm_wish_add(job, argv);
    rg_strv_add(argv, "--parsable");
    for (const char *p = cwd; *p; p++) /* sbatch puts something in the place of %j */
        rg_buf_printf(&output, *p == '%' ? "%%%%" : "%c", *p);
    rg_strv_addf(argv, "--output=%s/reigen-%%j.log", rg_buf_text(&output));
    r = r ? r : rg_buf_status(&output);
    return r < 0 ? r : rg_strv_status(argv);
}

/* The script goes to its standard input; both are files in memory, so that nobody waits for room in
 * a pipe. */
static int run_sbatch(const struct rg_strv *argv, const struct rg_strv *env,
                      const struct rg_buf *script, char *ret_said, size_t nbytes, int *ret_status,
                      struct rg_error *err)
{
    rg_autoclose int in = memfd_create("script", MFD_CLOEXEC);
    rg_autoclose int out = memfd_create("answer", MFD_CLOEXEC);
    int r = in < 0 || out < 0 ? -errno : 0;
    pid_t pid;

    if (r == 0)
        r = rg_write_all(in, rg_buf_bytes(script), rg_buf_nbytes(script));
    if (r == 0 && lseek(in, 0, SEEK_SET) < 0)
        r = -errno;
    if (r < 0)
        return rg_error_set(err, -r, "sbatch: %s", strerror(-r));
    const struct rg_spawn spawn = { .argv = argv->v, .envp = env->v, .fds = { in, out, out } };
    if ((r = rg_spawn(&spawn, &pid, err)) < 0)
        return r == -ENOENT ? slurm_command_missing("sbatch", err) : r;
    while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        ;
    slurm_take_answer(out, ret_said, nbytes);
    return 0;
}

/* "123" or "123;cluster", in a line of its own: others are remarks. */
static bool find_id(const char *said, struct rg_submitted_job *submitted)
{
    bool found = false;

    for (const char *line = said; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t length = strspn(line, "0123456789"), rest = strcspn(line, "\n") - length;
        if (!length || length >= sizeof(submitted->id) || (rest && line[length] != ';'))
            continue;
        snprintf(submitted->id, sizeof(submitted->id), "%.*s", (int) length, line);
        free(submitted->cluster);
        submitted->cluster = rest > 1 ? strndup(line + length + 1, rest - 1) : NULL;
        found = true;
    }
    return found;
}

/* What would be lost without a word, or not be what it seems. */
static int check(const struct rg_job *job, const char *cwd, struct rg_error *err)
{
    for (const char *p = cwd; *p; p++) {
        if ((unsigned char) *p < ' ' || *p == '\\')
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "--submit: the job's output goes to the current directory, "
                                     "in whose name sbatch takes no backslash and no line break: "
                                     "submit it from another one");
    }
    if (access(cwd, W_OK | X_OK) < 0)
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE,
                                 "--submit: the job's output goes to the current directory, %s: "
                                 "%s; submit it from another one", cwd, strerror(errno));
    if (job->share_env.count)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--submit: --share-env %s keeps it out of what Slurm stores, so "
                                 "the job would not have it; let the command read it from a file",
                                 job->share_env.v[0]);
    rg_autostrv struct rg_strv options = RG_STRV_INIT;
    if (rg_job_settings(job, "slurm-option", &options) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    for (size_t i = 0; i < options.count; i++) {
        const char *option = options.v[i];
        if (rg_str_starts(option, "--array") || rg_str_starts(option, "-a"))
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "--submit: --slurm-option=%s: it submits one job, not an "
                                     "array; call it once for each, or write a script for sbatch "
                                     "that calls reigen run --on slurm", option);
    }
    return 0;
}

static int hand_over(const struct rg_job *job, char *const *argv, const char *cwd,
                     struct rg_submitted_job *submitted, struct rg_error *err)
{
    rg_autofree char *dir = rg_submitted_folder(submitted->platform, err);
    rg_autostrv struct rg_strv words = RG_STRV_INIT, env = RG_STRV_INIT;
    rg_autobuf struct rg_buf script = RG_BUF_INIT;
    char said[4096], line[400], how[64];
    int status = 0;

    if (!dir)
        return -EINVAL;
    int r = make_script(job, argv, dir, &script, err);
    if (r < 0 && err->errnum)
        return r;
    if (r == 0)
        r = make_argv(job, cwd, &words);
    if (r == 0)
        r = slurm_command_env(job, &env);
    rg_env_unset(&env, "SLURM_STEPMGR"); /* who looks after this job's steps, not the new one's */
    if (r < 0)
        return rg_error_set(err, -r, "the job's script: %s", strerror(-r));
    r = run_sbatch(&words, &env, &script, said, sizeof(said), &status, err);
    if (r < 0 || (status == 0 && find_id(said, submitted)))
        return r;
    slurm_complaint(said, line, sizeof(line));
    const char *remedy = slurm_remedy(line);
    return rg_error_set_exit(err, EAGAIN, RG_EXIT_UNAVAILABLE,
                             "Slurm did not take the job (sbatch: %s): %s%s%s",
                             rg_status_text(status, how, sizeof(how)), line, *remedy ? "; " : "",
                             remedy);
}

int slurm_submit(const struct rg_job *job, char *const *argv, struct rg_submitted_job *ret_job,
                 struct rg_error *err)
{
    char cwd[PATH_MAX];

    if (!getcwd(cwd, sizeof(cwd)))
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE,
                                 "--submit: the job's output goes to the current directory, which "
                                 "cannot be seen (%s); submit it from another one",
                                 strerror(errno));
    int r = check(job, cwd, err);
    if (r == 0)
        r = hand_over(job, argv, cwd, ret_job, err);
    if (r == 0 && !(ret_job->log = rg_strf("%s/reigen-%s.log", cwd, ret_job->id)))
        r = rg_error_set(err, ENOMEM, "out of memory");
    return r;
}

uint64_t slurm_notice_ms(void)
{
    char *argv[] = { (char *) "scontrol", (char *) "show", (char *) "config", NULL };
    rg_autofree char *text = malloc(SLURM_ANSWER_MAX);

    return text && rg_slurm_ask(argv, text, SLURM_ANSWER_MAX) == 0
               ? rg_job_notice_ms((uint64_t) rg_slurm_kill_wait_s(text)) : 0;
}

/* --- the queue -------------------------------------------------------------------------------- */

/* What squeue calls a job that is over (some versions of it show those for a while, with
 * --states=all do all), and one that waits, perhaps for another run. */
#define ENDED "COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE " \
              "OUT_OF_MEMORY REVOKED"
#define WAITS "PENDING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT"

/* What there is to do about the reason. */
static void set_hint(struct rg_submitted_job *job)
{
    rg_autobuf struct rg_buf hint = RG_BUF_INIT;
    char undo[RG_SUBMITTED_ID_MAX + 16];
    const char *name = job->log ? strrchr(job->log, '/') : NULL;

    snprintf(undo, sizeof(undo), "reigen stop %s", job->id);
    if (job->state == RG_SUBMITTED_WAITS)
        slurm_put_pending(&hint, job->reason, undo);
    else if (strcmp(job->reason, "JobLaunchFailure") == 0 && name)
        rg_buf_printf(&hint, " (its first node could not start it; that must have the directory "
                             "%.*s, where the output goes: submit it from one that all share)",
                      (int) (name - job->log), job->log);
    rg_submitted_set(&job->hint, rg_buf_text(&hint));
}

/* "12|RUNNING|None|2026-11-30T14:05:09|0:10|node[1-2]", a line each; other lines are remarks, or
 * name the cluster. The nodes come last, as nothing else may be long enough to be cut. */
static void take_answer(struct rg_submitted_job *jobs, size_t count, char *text)
{
    for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
        const char *field[6] = { NULL };
        for (size_t i = 0; i < rg_array_len(field); i++)
            field[i] = strsep(&line, "|");
        for (size_t i = 0; field[5] && !line && i < count; i++) {
            struct rg_submitted_job *job = &jobs[i];
            if (strcmp(job->id, field[0]) != 0)
                continue;
            job->state = rg_str_has_word(ENDED, field[1])   ? RG_SUBMITTED_ENDED
                         : rg_str_has_word(WAITS, field[1]) ? RG_SUBMITTED_WAITS
                                                            : RG_SUBMITTED_RUNS;
            if (job->state == RG_SUBMITTED_WAITS)
                job->exit_code = -1; /* which was that of another run */
            rg_submitted_set(&job->word, field[1]);
            rg_submitted_set(&job->reason, strcmp(field[2], "None") == 0 ? "" : field[2]);
            set_hint(job);
            rg_submitted_set(&job->since, field[3]);
            rg_submitted_set(&job->elapsed, field[4]);
            rg_submitted_set(&job->nodes, field[5]);
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
                     (char *) "--states=all", (char *) "--format=%i|%T|%r|%V|%M|%N", NULL, NULL };
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
