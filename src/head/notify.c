/* SPDX-License-Identifier: Apache-2.0 */
/* The command runs when nothing of the job is left, in a session of its own: what interrupted the
 * job is not to interrupt the news of it. */
#include "head/notify.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/say.h"
#include "base/time.h"
#include "head/show/events.h"

void rg_notify_take(struct rg_notify *notify, struct rg_job *job)
{
    *notify = (struct rg_notify){ .command = rg_steal_ptr(&job->notify) };
}

void rg_notify_keep(struct rg_notify *notify, const struct rg_verdict *verdict)
{
    if (!notify->command)
        return;
    rg_buf_fini(&notify->verdict);
    rg_event_verdict(&notify->verdict, verdict);
    notify->exit_code = verdict->exit_code;
}

/* The last of the output may be lost after the verdict, or there was no time for one. */
static void settle(struct rg_notify *notify, int exit_code)
{
    if (rg_buf_nbytes(&notify->verdict) && notify->exit_code == exit_code)
        return;
    rg_notify_keep(notify, &(struct rg_verdict){
        .exit_code = exit_code, .ok = exit_code == 0,
        .cause = exit_code ? "how it ended was said on standard error only" : "",
    });
}

/* A file of its own, as nobody may ever read it. -errno, or its descriptor. */
static int open_verdict(const struct rg_buf *verdict)
{
    rg_autoclose int fd = memfd_create("reigen-verdict", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : rg_write_all(fd, rg_buf_bytes(verdict), rg_buf_nbytes(verdict));

    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    return r < 0 ? r : rg_steal_fd(&fd);
}

static void wait_for(pid_t pid)
{
    uint64_t began_ns = rg_now_ns();
    char how[64];
    int status = rg_spawn_wait(pid, RG_NOTIFY_MS);

    if (rg_now_ns() - began_ns >= RG_NOTIFY_MS * RG_NS_PER_MS && WIFSIGNALED(status))
        rg_say("--notify: the command had not ended after %d s, and was killed",
               RG_NOTIFY_MS / 1000);
    else if (status)
        rg_say("--notify: the command failed: %s", rg_status_text(status, how, sizeof(how)));
}

static void run(const struct rg_notify *notify)
{
    char *argv[] = { (char *) "/bin/sh", (char *) "-c", notify->command, NULL };
    struct rg_error err = RG_ERROR_INIT;
    rg_autoclose int fd = open_verdict(&notify->verdict);
    const struct rg_spawn spec = { .argv = argv, .fds = { fd, 2, 2 }, .new_session = true };
    pid_t pid;

    if (fd < 0)
        rg_say("--notify: cannot hand the verdict over: %s", strerror(-fd));
    else if (rg_spawn(&spec, &pid, &err) < 0)
        rg_say("--notify: %s", err.text);
    else
        wait_for(pid);
}

void rg_notify_run(struct rg_notify *notify, int exit_code)
{
    sigset_t ending;

    if (notify->command) {
        sigemptyset(&ending);
        sigaddset(&ending, SIGINT);
        sigaddset(&ending, SIGTERM);
        sigaddset(&ending, SIGHUP);
        sigprocmask(SIG_BLOCK, &ending, NULL);
        settle(notify, exit_code);
        run(notify);
    }
    free(rg_steal_ptr(&notify->command));
    rg_buf_fini(&notify->verdict);
}
