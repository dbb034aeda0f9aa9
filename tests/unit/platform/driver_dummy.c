/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that src/ does not know: this file and one line in a table (drivers_dummy.c) are all
 * of it. It runs real jobs on this computer, by the local driver's functions, has options of its
 * own, and a queue: a job that is submitted to it runs at once, under a shell.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/time.h"
#include "driver_dummy.h"
#include "platform/local/door.h"
#include "job/options/options.h"

#define READ_MS 20
#define CANCEL_MS 60000

/* --- options ---------------------------------------------------------------------------------- */

static int judge_slots(const char *what, const char *value, struct rg_error *err)
{
    int64_t n;

    return rg_parse_int(what, value, 1, RG_JOB_SLOTS_MAX, &n, err);
}

static const struct rg_option options[] = {
    {"dummy-greeting", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "TEXT", NULL, NULL,
     "With --on dummy: what ranks find in DUMMY_GREETING.", .judge = NULL},
    {"dummy-slots", "ds", NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "N", NULL, NULL,
     "With --on dummy: how many slots there are. The default is 2.", .judge = judge_slots},
    {NULL},
};

/* --- a job ------------------------------------------------------------------------------------ */

static int discover(void *held, struct rg_job *job, struct rg_error *err)
{
    const char *slots = rg_env_get(&job->settings, "dummy-slots"),
               *greeting = rg_env_get(&job->settings, "dummy-greeting");

    (void) held;
    if (greeting && rg_env_set(&job->env, "DUMMY_GREETING", greeting) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    if (job->nhosts)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "--on dummy has hosts of its own");
    return rg_job_add_host(job, "localhost", slots ? atoi(slots) : 2, err);
}

static int start(const struct rg_driver_options *o, void **ret_state, struct rg_error *err)
{
    return rg_driver_local.start(o, ret_state, err);
}

static void stop(void *state, int host)
{
    rg_driver_local.stop(state, host);
}

static void destroy(void *state)
{
    rg_driver_local.destroy(state);
}

static bool remark(const struct rg_job *job, char *buf, size_t nbytes)
{
    snprintf(buf, nbytes, "the dummy is free");
    return !job->on && getenv("DUMMY_FREE");
}

/* --- its queue -------------------------------------------------------------------------------- */

/* The shell's process stands where others name their cluster. */
static pid_t shell_of(const struct rg_submitted_job *job)
{
    return job->cluster ? atoi(job->cluster) : -1;
}

static int submit(const struct rg_job *job, char *const *argv, struct rg_submitted_job *ret_job,
                  struct rg_error *err)
{
    static const char script[] =
        "file=$1; export DUMMY_JOB=$2; shift 2; trap : TERM\n"
        "\"$@\" & wait $!; code=$?\n"
        "while kill -0 $! 2>/dev/null; do wait $!; code=$?; done\n"
        "echo \"exit $code\" >>\"$file\"";
    rg_autofree char *dir = rg_submitted_folder(ret_job->platform, err);
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    rg_autofree char *cwd = getcwd(NULL, 0), *file = NULL;
    rg_autoclose int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    pid_t pid;

    (void) job;
    if (!dir || !cwd || n <= 0)
        return -EINVAL;
    program[n] = '\0';
    snprintf(ret_job->id, sizeof(ret_job->id), "d%d", (int) getpid());
    ret_job->log = rg_strf("%s/%s.log", cwd, ret_job->id);
    file = rg_strf("%s/%s", dir, ret_job->id);
    const char *const first[] = { "sh", "-c", script, "sh", file, ret_job->id, program };
    for (size_t i = 0; i < rg_array_len(first); i++)
        rg_strv_add(&words, first[i]);
    rg_strv_add_all(&words, argv);
    rg_autoclose int log = open(ret_job->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        return rg_error_set(err, errno, "%s: %s", ret_job->log, strerror(errno));
    const struct rg_spawn spawn = { .argv = words.v, .fds = { null_fd, log, log },
                                    .new_session = true };
    int r = rg_spawn(&spawn, &pid, err);
    if (r == 0)
        ret_job->cluster = rg_strf("%d", (int) pid);
    return r;
}

static int status(struct rg_submitted_job *jobs, size_t count, struct rg_error *err)
{
    if (getenv("DUMMY_DOWN"))
        return rg_error_set(err, EAGAIN, "it is not at home");
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state != RG_SUBMITTED_UNKNOWN)
            continue;
        bool runs = jobs[i].exit_code < 0 && kill(shell_of(&jobs[i]), 0) == 0;
        jobs[i].state = runs ? RG_SUBMITTED_RUNS : RG_SUBMITTED_ENDED;
        jobs[i].word = strdup(runs ? "BUSY" : "");
        jobs[i].nodes = strdup("localhost");
        jobs[i].elapsed = strdup("a while");
    }
    return 0;
}

static bool has_ended(const char *id)
{
    struct rg_submitted_job now;
    bool ended = rg_submitted_read(&rg_driver_dummy.platform, id, &now) < 0;

    if (!ended) {
        ended = now.exit_code >= 0;
        rg_submitted_fini(&now);
    }
    return ended;
}

/* Not the file as it is, so that a test can tell. */
static int logs(const struct rg_submitted_job *job, bool follow, int fd,
                void (*on_say)(void *arg, const char *text), struct rg_error *err)
{
    rg_autoclose int log = open(job->log, O_RDONLY | O_CLOEXEC);
    char bytes[4096];
    int r = rg_write_all(fd, "dummy's log:\n", 13);

    on_say(NULL, "a remark of the dummy's");
    if (log < 0)
        return rg_error_set(err, errno, "%s: %s", job->log, strerror(errno));
    for (bool over = false; r == 0 && !over;) {
        over = !follow || has_ended(job->id);
        for (ssize_t n; r == 0 && (n = read(log, bytes, sizeof(bytes))) > 0;)
            r = rg_write_all(fd, bytes, (size_t) n);
        if (!over)
            rg_sleep_ms(READ_MS); /* patient: a driver, not a test */
    }
    return r;
}

static int cancel(struct rg_submitted_job *job, struct rg_error *err)
{
    uint64_t deadline_ns = rg_now_ns() + CANCEL_MS * RG_NS_PER_MS;

    kill(-shell_of(job), SIGTERM);
    while (!has_ended(job->id)) {
        if (rg_now_ns() > deadline_ns)
            return rg_error_set(err, ETIMEDOUT, "it does not end");
        rg_sleep_ms(READ_MS); /* patient: a driver, not a test */
    }
    return 0;
}

static const struct rg_queue_ops queue_ops = {
    .submit = submit,
    .status = status,
    .logs = logs,
    .cancel = cancel,
};

const struct rg_driver_ops rg_driver_dummy = {
    .platform = {
        .name = "dummy",
        .title = "the dummy",
        .about = ", of the tests",
        .launchers = "dummy",
        .options = options,
        .variable = "DUMMY_JOB",
        .canceller = "kill",
        .finds_hosts = true,
        .queues = true,
    },
    .discover = discover,
    .start = start,
    .stop = stop,
    .destroy = destroy,
    .remark = remark,
    .queue = &queue_ops,
};
