/* SPDX-License-Identifier: Apache-2.0 */
/* What killed launchers and agents have left behind. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/spawn.h"
#include "cmd/common/exit.h"
#include "cmd/jobs/jobs.h"
#include "launch/host/agentfile.h"
#include "base/exitcode.h"
#include "spec/job/hostlist.h"

#define CLEAN_MS 30000 /* for one host */
#define AGENT_MS 1000  /* for folders on this computer */

/* --- containers ------------------------------------------------------------------------------ */

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
    pid_t pid;

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
    struct rg_spawn spawn = { .argv = argv.v, .fds = { -1, 2, 2 } };
    if ((r = rg_spawn(&spawn, &pid, err)) < 0)
        return r;
    int code = rg_status_code(rg_spawn_wait(pid, CLEAN_MS));
    return code == 0 ? 0
                     : rg_error_set_exit(err, EIO, RG_EXIT_UNAVAILABLE,
                                         "job %s: its containers on %s could not be removed (exit "
                                         "code %d); try again when the host can be reached",
                                         job->id, login, code);
}

/* A host that is away must not keep the others' containers alive. */
int rg_jobs_clean_up(const struct rg_registry_job *job, struct rg_error *err)
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

/* --- this computer ---------------------------------------------------------------------------- */

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
    for (size_t i = 0; i < registry.count; i++) {
        struct rg_error err = RG_ERROR_INIT;
        if (rg_registry_state(&registry.jobs[i]) != RG_JOB_DEAD)
            continue;
        if (rg_jobs_clean_up(&registry.jobs[i], &err) == 0)
            count++;
        else
            code = rg_fail(&err, "doctor");
    }
    fprintf(stderr, "reigen: removed what %zu killed job%s had left\n", count,
            count == 1 ? "" : "s");
    return code;
}
