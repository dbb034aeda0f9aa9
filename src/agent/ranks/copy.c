/* SPDX-License-Identifier: Apache-2.0 */
/* Between the launcher and the child that makes the ranks' copy of the user's directory
 * (agent/sync): bytes one way and frames the other. Of these the agent itself needs DONE. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "agent/ranks/agent.h"
#include "agent/sync/sync.h"
#include "base/fd.h"
#include "base/process/self.h"
#include "base/process/spawn.h"
#include "wire/sync.h"

#define TIDY_MS 20000 /* then the folder is left to whoever sweeps next */
#define READ_NBYTES 4096
#define SAID_MAX (RG_SYNC_ENTRIES_MAX / 8 + READ_NBYTES)

static void say(struct rg_agent *agent, uint32_t type, const void *data, size_t nbytes)
{
    rg_agent_send(agent, RG_MSG_SYNC_SAID,
                  &(struct rg_msg_sync_said){ type, { (uint8_t *) data, nbytes } });
}

static void say_failed(struct rg_agent *agent, int errnum, const char *text)
{
    rg_autobuf struct rg_buf payload = RG_BUF_INIT;

    rg_codec_encode(rg_sync_failed_fields,
                    &(struct rg_sync_failed){ (uint32_t) errnum, (char *) text }, &payload);
    say(agent, RG_SYNC_FAILED, rg_buf_bytes(&payload), rg_buf_nbytes(&payload));
}

static void close_in(struct rg_copy *copy)
{
    rg_io_stop(&copy->in_io);
    rg_buf_fini(&copy->in);
    if (copy->in_fd >= 0)
        close(rg_steal_fd(&copy->in_fd));
}

static void stop(struct rg_agent *agent)
{
    struct rg_copy *copy = &agent->copy;

    close_in(copy);
    rg_io_stop(&copy->out_io);
    rg_timer_stop(&copy->limit);
    rg_buf_fini(&copy->out);
    if (copy->out_fd >= 0)
        close(rg_steal_fd(&copy->out_fd));
}

/* --- what it says ----------------------------------------------------------------------------- */

/* The lock is ours before the child ends, whose lock it was. */
static int take_over(struct rg_agent *agent, const struct rg_sync_done *done)
{
    struct rg_copy *copy = &agent->copy;
    rg_autofree char *cwd = strdup(done->cwd);

    if (!cwd)
        return -ENOMEM;
    if (*done->folder) {
        copy->folder = strdup(done->folder);
        copy->lock_fd = open(done->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (!copy->folder || copy->lock_fd < 0 || flock(copy->lock_fd, LOCK_SH | LOCK_NB) < 0)
            return -errno;
    }
    setenv("PWD", cwd, 1);
    free(agent->setup.cwd);
    agent->setup.cwd = rg_steal_ptr(&cwd);
    return 0;
}

static void on_done(struct rg_agent *agent, const struct rg_frame *frame)
{
    struct rg_sync_done done = { NULL, NULL };
    int r = rg_codec_decode(rg_sync_done_fields, frame->payload, frame->nbytes, &done);

    if (r == 0) {
        r = take_over(agent, &done);
        rg_codec_clear(rg_sync_done_fields, &done);
    }
    close_in(&agent->copy);
    if (r < 0) {
        say_failed(agent, -r, strerror(-r));
        return;
    }
    agent->copy.awaited = false;
    say(agent, RG_SYNC_DONE, frame->payload, frame->nbytes);
}

static void child_gone(struct rg_agent *agent)
{
    struct rg_copy *copy = &agent->copy;

    stop(agent);
    copy->pid = 0;
    if (copy->awaited && agent->state == RG_AGENT_WAITING)
        say_failed(agent, ECHILD, "the process that was to make the copy has ended");
    agent->advance(agent);
}

static void on_said(void *arg, int events)
{
    struct rg_agent *agent = arg;
    struct rg_copy *copy = &agent->copy;
    uint8_t *room = rg_buf_reserve(&copy->out, READ_NBYTES);
    ssize_t n = room ? read(copy->out_fd, room, READ_NBYTES) : 0;
    struct rg_frame frame;

    (void) events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        child_gone(agent);
        return;
    }
    rg_buf_commit(&copy->out, (size_t) n);
    while (copy->out_fd >= 0 && rg_frame_peek(&copy->out, &frame) && frame.payload) {
        if (frame.type == RG_SYNC_DONE)
            on_done(agent, &frame);
        else
            say(agent, frame.type, frame.payload, frame.nbytes);
        rg_frame_drop(&copy->out, &frame);
    }
    if (rg_buf_nbytes(&copy->out) > SAID_MAX)
        child_gone(agent);
}

/* --- what it is told -------------------------------------------------------------------------- */

/* It may have given up: its last word says why. */
static void on_writable(void *arg, int events)
{
    struct rg_copy *copy = &((struct rg_agent *) arg)->copy;
    ssize_t n = write(copy->in_fd, rg_buf_bytes(&copy->in), rg_buf_nbytes(&copy->in));

    (void) events;
    if (n > 0)
        rg_buf_consume(&copy->in, (size_t) n);
    if ((n < 0 && errno != EAGAIN && errno != EINTR) || !rg_buf_nbytes(&copy->in))
        rg_io_stop(&copy->in_io);
}

int rg_copy_data(struct rg_agent *agent, const struct rg_span *data)
{
    struct rg_copy *copy = &agent->copy;

    if (!agent->setup.sync)
        return -EBADMSG;
    if (copy->in_fd < 0) /* it has failed, and the launcher did not know */
        return 0;
    rg_buf_put(&copy->in, data->data, data->nbytes);
    if (rg_buf_status(&copy->in) < 0)
        return -ENOMEM;
    if (rg_buf_nbytes(&copy->in) > RG_SYNC_WINDOW_MAX + RG_SYNC_FRAME_MAX)
        return -EBADMSG;
    if (!rg_io_active(&copy->in_io))
        rg_io_start(&copy->in_io, agent->loop, copy->in_fd, RG_IO_WRITE, on_writable, agent);
    return 0;
}

/* --- the child -------------------------------------------------------------------------------- */

static int spawn(struct rg_agent *agent, const char *command, char *folder)
{
    struct rg_copy *copy = &agent->copy;
    char *argv[] = { (char *) RG_SELF, (char *) command, folder, NULL };
    int in[2] = { -1, -1 }, out[2] = { -1, -1 };
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_pipe(in);

    r = r < 0 ? r : rg_pipe(out);
    struct rg_spawn spec = { .argv = argv, .fds = { in[0], out[1], 2 }, .new_session = true,
                             .nofile = NULL };
    r = r < 0 ? r : rg_spawn(&spec, &copy->pid, &err);
    rg_cleanup_close(&in[0]);
    rg_cleanup_close(&out[1]);
    copy->in_fd = in[1];
    copy->out_fd = out[0];
    if (r < 0) {
        copy->pid = 0;
        stop(agent);
        return r;
    }
    rg_fd_set_nonblock(copy->in_fd, true);
    rg_fd_set_nonblock(copy->out_fd, true);
    rg_io_start(&copy->out_io, agent->loop, copy->out_fd, RG_IO_READ, on_said, agent);
    return 0;
}

static void forget(struct rg_copy *copy)
{
    free(rg_steal_ptr(&copy->folder));
    if (copy->lock_fd >= 0)
        close(rg_steal_fd(&copy->lock_fd));
}

static void leave(struct rg_agent *agent, bool ranks_gone)
{
    stop(agent);
    if (!ranks_gone)
        return;
    if (agent->copy.folder && !agent->copy.tidies)
        rg_sync_tidy(agent->copy.folder);
    forget(&agent->copy);
}

/* Where ranks will run, which is here but for --cwd. */
static bool lacks_script(const struct rg_agent *agent)
{
    const struct rg_msg_setup *setup = &agent->setup;
    rg_autoclose int fd = *setup->cwd ? open(setup->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    struct stat st;

    return *setup->script && fstatat(*setup->cwd ? fd : AT_FDCWD, setup->script, &st, 0) < 0 &&
           errno == ENOENT;
}

void rg_copy_start(struct rg_agent *agent)
{
    if (lacks_script(agent))
        say(agent, RG_SYNC_LACKS, NULL, 0);
    if (!agent->setup.sync)
        return;
    int r = spawn(agent, "sync", NULL);
    agent->copy.leave = leave;
    agent->copy.awaited = true;
    if (r < 0)
        say_failed(agent, -r, strerror(-r));
}

/* --- the end ---------------------------------------------------------------------------------- */

static void limit_due(void *arg)
{
    struct rg_agent *agent = arg;

    rg_agent_note(agent, "%s: the copy in %s is not removed yet, as that takes long; the next job "
                  "there, or reigen doctor --clean, does so", agent->setup.host,
                  agent->copy.folder ? agent->copy.folder : "/var/tmp");
    kill(agent->copy.pid, SIGKILL);
    child_gone(agent); /* on a disk that does not answer it may not end for long */
}

bool rg_copy_tidied(struct rg_agent *agent)
{
    struct rg_copy *copy = &agent->copy;

    copy->awaited = false;
    close_in(copy); /* what is being made goes */
    if (copy->pid) {
        if (!rg_timer_active(&copy->limit))
            rg_timer_start(&copy->limit, agent->loop, TIDY_MS, 0, limit_due, agent);
        return false;
    }
    if (copy->folder && !copy->tidies) {
        copy->tidies = true;
        if (spawn(agent, "tidy", copy->folder) == 0)
            return rg_copy_tidied(agent);
    }
    forget(copy);
    return true;
}
