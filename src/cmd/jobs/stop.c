/* SPDX-License-Identifier: Apache-2.0 */
/* reigen stop: jobs of every kind, from another terminal. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cmd/common/args.h"
#include "cmd/common/exit.h"
#include "cmd/jobs/jobs.h"
#include "cmd/head/signals.h"
#include "base/exitcode.h"
#include "launch/jobs/registry.h"

#define STOP_MS 10000  /* for what comes after the job's own grace */

/* --- stop ------------------------------------------------------------------------------------ */

static bool has_ended(const struct rg_registry_job *job, uint64_t timeout_ms)
{
    uint64_t deadline_ns = rg_now_ns() + timeout_ms * RG_NS_PER_MS;

    while (rg_registry_launcher(job) > 0) {
        if (rg_now_ns() > deadline_ns)
            return false;
        rg_sleep_ms(10);
    }
    return true;
}

/* By the value that comes along the job knows who ends it. The queue for these may be full. */
static int send(int pid, int signo)
{
    const union sigval value = { .sival_int = RG_SIGNALS_STOP };

    if (signo == SIGTERM && sigqueue(pid, signo, value) == 0)
        return 0;
    return kill(pid, signo);
}

/* One line when it is gone. */
static int say_stopped(const char *id)
{
    rg_autofree char *line = rg_strf("stopped %s\n", id);

    return rg_print(line ? line : "stopped\n");
}

/* As Ctrl-C does, then as a second one does, then without asking. */
static int stop_job(const struct rg_registry_job *job, struct rg_error *err)
{
    const struct { int signo; uint64_t wait_ms; } steps[] = {
        { SIGTERM, job->grace_ms + STOP_MS }, { SIGTERM, STOP_MS }, { SIGKILL, STOP_MS },
    };
    int pid = rg_registry_launcher(job);

    if (pid < 0 && job->within)
        return rg_error_set_exit(err, EXDEV, RG_EXIT_UNAVAILABLE,
                                 "job %s was started on %.*s, in %s's job %s: stop it there, or "
                                 "end all of that: %s %s", job->id,
                                 (int) strcspn(job->launcher, ":"), job->launcher,
                                 job->within->title, job->within_id, job->within->canceller,
                                 job->within_id);
    if (pid < 0)
        return rg_error_set_exit(err, EXDEV, RG_EXIT_UNAVAILABLE,
                                 "job %s was started on %.*s: stop it there", job->id,
                                 (int) strcspn(job->launcher, ":"), job->launcher);
    bool crashed = pid == 0;
    for (size_t i = 0; pid > 0 && i < rg_array_len(steps); i++) {
        if (send(pid, steps[i].signo) < 0 && errno != ESRCH)
            return rg_error_set(err, errno, "job %s: its launcher, process %d: %s", job->id, pid,
                                strerror(errno));
        if (has_ended(job, steps[i].wait_ms))
            break;
        crashed = steps[i + 1 < rg_array_len(steps) ? i + 1 : i].signo == SIGKILL;
    }
    int r = crashed ? rg_jobs_clean_up(job, err) : 0;
    if (r == 0)
        say_stopped(job->id);
    return r;
}

static int stop_all(const struct rg_registry *registry, struct rg_error *err)
{
    int r = 0;

    for (size_t i = 0; i < registry->count; i++) {
        struct rg_error one = RG_ERROR_INIT;
        if (stop_job(&registry->jobs[i], &one) < 0 && r == 0) {
            r = -one.errnum;
            *err = one;
        }
    }
    return r;
}

static int stop_submitted(const struct rg_driver_ops *driver, struct rg_submitted_job *job)
{
    struct rg_error err = RG_ERROR_INIT;

    return driver->cancel(job, &err) < 0 ? rg_jobs_fail_submitted("stop", job, &err)
                                         : say_stopped(job->id);
}

static int stop_one(const char *id)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job submitted = { .exit_code = -1 };
    rg_cleanup(rg_registry_job_fini) struct rg_registry_job job = { 0 };
    struct rg_error err = RG_ERROR_INIT;

    const struct rg_driver_ops *driver = rg_jobs_find_submitted(id, &submitted);
    if (driver)
        return stop_submitted(driver, &submitted);
    int code = rg_jobs_find("stop", id, &job);
    if (code)
        return code;
    if (!job.ended) {
        code = stop_job(&job, &err) < 0 ? rg_fail(&err, "stop") : 0;
        rg_jobs_sweep();
        return code;
    }
    fprintf(stderr, "reigen: job %s has ended already\n", job.id);
    return 0;
}

/* Those that a platform runs, or will, too. */
static int stop_all_submitted(void)
{
    rg_cleanup(rg_submitted_list_fini) struct rg_submitted_list list = { NULL, 0 };
    int code = 0;

    if (rg_jobs_list_submitted(&list) < 0)
        return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, "stop");
    for (size_t i = 0; i < list.count; i++) {
        struct rg_submitted_job *job = &list.jobs[i];
        if (job->state == RG_SUBMITTED_ENDED)
            continue;
        int one = stop_submitted(rg_driver_find(job->platform->name), job);
        code = code ? code : one;
    }
    return code;
}

int rg_cmd_stop(int argc, char **argv)
{
    rg_cleanup(rg_registry_fini) struct rg_registry registry = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    bool all = false;
    const struct rg_arg args[] = { { .name = "all", .letter = 'a', .flag = &all }, { NULL } };
    int n = rg_args_parse(argc, argv, args, 1);

    if (n < 0)
        return -1 - n;
    if (all == (n == 1))
        return rg_fail_usage("stop", "stop: give a job's id, or its beginning, or --all; reigen "
                                     "jobs lists them");
    if (!all)
        return stop_one(argv[1]);
    if (rg_registry_list(&registry) < 0)
        return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, "stop");
    int code = stop_all(&registry, &err) < 0 ? rg_fail(&err, "stop") : 0;
    int submitted = stop_all_submitted();
    return code ? code : submitted;
}
