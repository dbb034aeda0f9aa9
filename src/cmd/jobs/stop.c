/* SPDX-License-Identifier: Apache-2.0 */
/* reigen stop: jobs of every kind, from another terminal; and what is removed after those whose
 * launcher or agents were killed. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/say.h"
#include "base/time.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "head/signals.h"
#include "cmd/jobs/jobs.h"
#include "launch/host/agentfile.h"
#include "launch/jobs/registry.h"
#include "job/hostlist.h"

#define STOP_MS 10000  /* for what comes after the job's own grace */
#define CLEAN_MS 30000 /* for one host */
#define SAID_MAX 4096  /* of ssh's words there */
#define AGENT_MS 1000  /* for folders on this computer */

/* --- what killed launchers and agents have left ---------------------------------------------- */

/* No agent is needed for it; containers carry the job as a label, by the id of their start. */
static char *cleaning_script(const struct rg_registry_job *job)
{
    rg_autobuf struct rg_buf ids = RG_BUF_INIT;

    rg_buf_printf(&ids, "%s", job->id);
    for (size_t i = 0; i < job->restarts.count; i++)
        rg_buf_printf(&ids, " %s", job->restarts.v[i]);
    if (rg_buf_status(&ids) < 0)
        return NULL;
    return rg_strf("for r in docker podman; do command -v $r >/dev/null || continue; "
                   "for j in %s; do "
                   "for c in $($r ps -aq --filter label=reigen.job=$j 2>/dev/null); do "
                   "$r rm -f $c >/dev/null || exit 1; done; done; done", rg_buf_text(&ids));
}

static int clean_host(const struct rg_registry_job *job, const char *login, struct rg_error *err)
{
    static char *const sh[] = { "sh", "-c", NULL };
    static char *const quiet[] = { "-T", "-oBatchMode=yes", "-oConnectTimeout=10", NULL };
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    rg_autofree char *script = cleaning_script(job);
    bool here = !strchr(login, '@') && rg_host_is_local(login);
    int r = script ? 0 : -ENOMEM;
    char said[SAID_MAX];

    if (r == 0 && here)
        r = rg_strv_add_all(&argv, sh);
    if (r == 0 && !here && job->ssh.count)
        r = rg_strv_add_all(&argv, job->ssh.v);
    if (r == 0 && !here)
        r = rg_strv_add_all(&argv, quiet);
    if (r == 0 && !here)
        r = rg_strv_add(&argv, login);
    /* Whatever the login shell is: sh reads the script. */
    if (r == 0)
        r = rg_strv_addf(&argv, here ? "%s" : "sh -c '%s'", script);
    if (r < 0)
        return rg_error_set(err, -r, "out of memory");
    int code = rg_capture((const char *const *) argv.v, NULL, true, CLEAN_MS, said, sizeof(said));
    rg_say_lines(said);
    if (code == 0)
        return 0;
    return rg_error_set_exit(err, EIO, RG_EXIT_UNAVAILABLE,
                             "job %s: its containers on %s could not be removed (%s %d); try again "
                             "when the host can be reached", job->id, login,
                             code < 0 ? "error" : "exit code", code < 0 ? -code : code);
}

/* Remove the containers that a killed launcher's job has left on its hosts, and its entry. A host
 * that is away must not keep the others' containers alive: 0; -EIO, and the entry stays. */
static int clean_up(const struct rg_registry_job *job, struct rg_error *err)
{
    int r = 0;

    for (size_t i = 0; job->image && i < job->hosts.count; i++) {
        struct rg_error one = RG_ERROR_INIT;
        int result = clean_host(job, job->hosts.v[i], &one);
        if (result < 0 && r == 0) {
            r = result;
            *err = one;
        }
    }
    if (r == 0)
        rg_registry_forget(job);
    return r;
}

/* Agents' folders: the agent knows where they may be. */
static void clean_folders(void)
{
    char path[PATH_MAX];
    pid_t pid;

    if (rg_agent_file_find(path, NULL) < 0)
        return;
    rg_autoclose int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    char *argv[] = { path, (char *) "clean", NULL };
    const struct rg_spawn spawn = { .argv = argv, .fds = { null_fd, null_fd, null_fd } };
    if (null_fd >= 0 && rg_spawn(&spawn, &pid, NULL) == 0)
        rg_spawn_wait(pid, AGENT_MS);
}

size_t rg_jobs_sweep(void)
{
    clean_folders();
    return rg_registry_sweep();
}

int rg_jobs_clean_all(void)
{
    rg_cleanup(rg_registry_fini) struct rg_registry registry = { 0 };
    size_t count = rg_jobs_sweep();
    int code = 0;

    if (rg_registry_list(&registry) < 0)
        return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, "doctor");
    rg_jobs_say_remarks(&registry.remarks);
    for (size_t i = 0; i < registry.count; i++) {
        struct rg_error err = RG_ERROR_INIT;
        if (rg_registry_state(&registry.jobs[i]) != RG_JOB_DEAD)
            continue;
        if (clean_up(&registry.jobs[i], &err) == 0)
            count++;
        else
            code = rg_fail(&err, "doctor");
    }
    rg_say("removed what %zu killed job%s had left", count, count == 1 ? "" : "s");
    return code;
}

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
static int send_signal(int pid, int signo)
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
        if (send_signal(pid, steps[i].signo) < 0 && errno != ESRCH)
            return rg_error_set(err, errno, "job %s: its launcher, process %d: %s", job->id, pid,
                                strerror(errno));
        if (has_ended(job, steps[i].wait_ms))
            break;
        crashed = steps[i + 1 < rg_array_len(steps) ? i + 1 : i].signo == SIGKILL;
    }
    int r = crashed ? clean_up(job, err) : 0;
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

    return driver->queue->cancel(job, &err) < 0 ? rg_jobs_fail_submitted("stop", job, &err)
                                         : say_stopped(job->id);
}

static int stop_one(const char *id, const struct rg_jobs_place *place)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job submitted = { .exit_code = -1 };
    rg_cleanup(rg_registry_job_fini) struct rg_registry_job job = { 0 };
    const struct rg_driver_ops *driver;
    struct rg_error err = RG_ERROR_INIT;

    int code = rg_jobs_find_at("stop", id, place, &submitted, &driver);
    if (code || driver)
        return code ? code : stop_submitted(driver, &submitted);
    code = rg_jobs_find("stop", id, &job);
    if (code)
        return code;
    if (!job.ended) {
        code = stop_job(&job, &err) < 0 ? rg_fail(&err, "stop") : 0;
        rg_jobs_sweep();
        return code;
    }
    rg_say("job %s has ended already", job.id);
    return 0;
}

/* Those that a platform runs, or will, too. */
static int stop_all_submitted(void)
{
    rg_cleanup(rg_submitted_list_fini) struct rg_submitted_list list = { .count = 0 };
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
    struct rg_jobs_place place = { { NULL } };
    bool all = false;
    const struct rg_arg args[] = { { .name = "all", .letter = 'a', .flag = &all },
                                   RG_JOBS_PLACE_ARGS(place), { NULL } };
    int n = rg_args_parse(argc, argv, args, 1);

    if (n < 0)
        return -1 - n;
    if (all == (n == 1))
        return rg_fail_usage("stop", "stop: give a job's id, or its beginning, or --all; reigen "
                                     "jobs lists them");
    if (!all)
        return stop_one(argv[1], &place);
    if (rg_jobs_names_place(&place))
        return rg_fail_usage("stop", "stop --all: it ends the jobs that were started here, "
                                     "wherever they run; leave --namespace, --context, "
                                     "--pai-server and --pai-user out");
    if (rg_registry_list(&registry) < 0)
        return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, "stop");
    rg_jobs_say_remarks(&registry.remarks);
    int code = stop_all(&registry, &err) < 0 ? rg_fail(&err, "stop") : 0;
    int submitted = stop_all_submitted();
    return code ? code : submitted;
}
