/* SPDX-License-Identifier: Apache-2.0 */
/* reigen jobs, and reigen stop: jobs on several hosts or in containers, from another terminal. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fd.h"
#include "base/spawn.h"
#include "base/time.h"
#include "cmd/commands.h"
#include "cmd/exit.h"
#include "cmd/submit.h"
#include "launch/exitcode.h"
#include "launch/registry.h"
#include "spec/hostlist.h"

#define STOP_MS 10000  /* for what comes after the job's own grace */
#define CLEAN_MS 30000 /* for one host */

/* --- jobs ------------------------------------------------------------------------------------ */

static void print_job(const struct rg_registry_job *job, struct rg_buf *text)
{
    int launcher = rg_registry_launcher(job);
    char since[32] = "";
    time_t when = (time_t) job->since_s;
    struct tm tm;

    if (localtime_r(&when, &tm))
        strftime(since, sizeof(since), "%m-%d %H:%M", &tm);
    rg_buf_printf(text, "%-28s %-11s %-9s %5zu  %s\n", job->id, since,
                  launcher > 0 ? "running" : launcher == 0 ? "killed" : "elsewhere",
                  job->hosts.count, job->command ? job->command : "");
}

int rg_cmd_jobs(int argc, char **argv)
{
    rg_cleanup(rg_registry_fini) struct rg_registry registry = { 0 };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    if (argc > 1)
        return rg_fail_usage("jobs", "jobs %s: it takes no arguments", argv[1]);
    if (rg_registry_list(&registry) < 0)
        return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, "jobs");
    if (registry.count == 0)
        return rg_print("No job of yours runs on several hosts or in containers.\n");
    rg_buf_printf(&text, "%-28s %-11s %-9s %5s  %s\n", "JOB", "SINCE", "STATE", "HOSTS", "COMMAND");
    for (size_t i = 0; i < registry.count; i++)
        print_job(&registry.jobs[i], &text);
    return rg_print(rg_buf_text(&text));
}

/* --- stop: what a killed launcher has left --------------------------------------------------- */

/* No agent is needed for it; containers carry the job as a label. */
static char *cleaning_script(const struct rg_registry_job *job)
{
    return rg_strf("for r in docker podman; do command -v $r >/dev/null || continue; "
                   "for c in $($r ps -aq --filter label=reigen.job=%s 2>/dev/null); do "
                   "$r rm -f $c >/dev/null || exit 1; done; done", job->id);
}

static int wait_for(pid_t pid, unsigned timeout_ms)
{
    uint64_t deadline_ns = rg_now_ns() + timeout_ms * RG_NS_PER_MS;
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (rg_now_ns() > deadline_ns) {
            kill(pid, SIGKILL);
            deadline_ns = RG_NEVER_NS;
        }
        rg_sleep_ms(5);
    }
    return rg_status_code(status);
}

static int clean_host(const struct rg_registry_job *job, const char *login, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    rg_autofree char *script = cleaning_script(job);
    const char *at = strchr(login, '@');
    bool here = !at && rg_host_is_local(login);
    int r = script ? 0 : -ENOMEM;
    pid_t pid;

    for (size_t i = 0; r == 0 && !here && i < job->ssh.count; i++)
        r = rg_strv_add(&argv, job->ssh.v[i]);
    static const char *const quiet[] = { "-T", "-oBatchMode=yes", "-oConnectTimeout=10" };
    for (size_t i = 0; r == 0 && !here && i < rg_array_len(quiet); i++)
        r = rg_strv_add(&argv, quiet[i]);
    if (r == 0 && here)
        r = rg_strv_add(&argv, "sh");
    if (r == 0)
        r = rg_strv_add(&argv, here ? "-c" : login);
    /* Whatever the login shell is: sh reads the script. */
    rg_autofree char *remote = script && !here ? rg_strf("sh -c '%s'", script) : NULL;
    if (r == 0)
        r = here || remote ? rg_strv_add(&argv, here ? script : remote) : -ENOMEM;
    if (r < 0)
        return rg_error_set(err, -r, "out of memory");
    struct rg_spawn spawn = { .argv = argv.v, .fds = { -1, 2, 2 } };
    if ((r = rg_spawn(&spawn, &pid, err)) < 0)
        return r;
    int code = wait_for(pid, CLEAN_MS);
    return code == 0 ? 0
                     : rg_error_set_exit(err, EIO, RG_EXIT_UNAVAILABLE,
                                         "job %s: its containers on %s could not be removed (exit "
                                         "code %d); try again when the host can be reached",
                                         job->id, login, code);
}

/* A host that is away must not keep the others' containers alive. */
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

/* As Ctrl-C does, then as a second one does, then without asking. */
static int stop_job(const struct rg_registry_job *job, struct rg_error *err)
{
    const struct { int signo; uint64_t wait_ms; } steps[] = {
        { SIGTERM, job->grace_ms + STOP_MS }, { SIGTERM, STOP_MS }, { SIGKILL, STOP_MS },
    };
    int pid = rg_registry_launcher(job);

    if (pid < 0)
        return rg_error_set_exit(err, EXDEV, RG_EXIT_UNAVAILABLE,
                                 "job %s was started on %.*s: stop it there", job->id,
                                 (int) strcspn(job->launcher, ":"), job->launcher);
    bool crashed = pid == 0;
    for (size_t i = 0; pid > 0 && i < rg_array_len(steps); i++) {
        if (kill(pid, steps[i].signo) < 0 && errno != ESRCH)
            return rg_error_set(err, errno, "job %s: its launcher, process %d: %s", job->id, pid,
                                strerror(errno));
        if (has_ended(job, steps[i].wait_ms))
            break;
        crashed = steps[i + 1 < rg_array_len(steps) ? i + 1 : i].signo == SIGKILL;
    }
    return crashed ? clean_up(job, err) : 0;
}

static int stop_matching(const struct rg_registry *registry, const char *prefix,
                         struct rg_error *err)
{
    int count = 0, r = 0;

    for (size_t i = 0; i < registry->count; i++) {
        const struct rg_registry_job *job = &registry->jobs[i];
        struct rg_error one = RG_ERROR_INIT;
        if (prefix && !rg_str_starts(job->id, prefix))
            continue;
        count++;
        if (stop_job(job, &one) < 0 && r == 0) {
            r = -one.errnum;
            *err = one;
        }
    }
    return r < 0 ? r : count;
}

static int count_matching(const struct rg_registry *registry, const char *prefix)
{
    int count = 0;

    for (size_t i = 0; i < registry->count; i++) {
        if (strcmp(registry->jobs[i].id, prefix) == 0)
            return 1;
        count += rg_str_starts(registry->jobs[i].id, prefix);
    }
    return count;
}

int rg_cmd_stop(int argc, char **argv)
{
    rg_cleanup(rg_registry_fini) struct rg_registry registry = { 0 };
    struct rg_error err = RG_ERROR_INIT;

    if (argc != 2 || (argv[1][0] == '-' && strcmp(argv[1], "--all") != 0) || !argv[1][0])
        return rg_fail_usage("stop", "stop: give a job's id, or its beginning, or --all; reigen "
                                     "jobs lists them");
    const char *prefix = argv[1][0] == '-' ? NULL : argv[1];
    if (prefix && rg_submitted(prefix))
        return rg_submitted_stop(prefix);
    if (rg_registry_list(&registry) < 0)
        return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, "stop");
    int count = prefix ? count_matching(&registry, prefix) : 1;
    if (count == 0)
        return rg_fail_usage("stop", "stop %s: no such job; reigen jobs lists them", prefix);
    if (count > 1)
        return rg_fail_usage("stop", "stop %s: %d jobs begin so; give more of its id", prefix,
                             count);
    return stop_matching(&registry, prefix, &err) < 0 ? rg_fail(&err, "stop") : 0;
}
