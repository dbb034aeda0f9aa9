/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal or a pipe that is slow must not block the job. */
#include "head/show/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "head/console/terminal.h"

#define WRITE_MAX (256u << 10)
#define POLLED_MAX 256 /* what a terminal that is ready surely takes */

static enum rg_sink_how how_to_write(int fd, int *ret_fd)
{
    struct stat st;

    *ret_fd = fd;
    if (fstat(fd, &st) < 0 || S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
        return RG_SINK_BLOCKING;
    if (S_ISSOCK(st.st_mode))
        return RG_SINK_SOCKET;
    int copy = rg_reopen_nonblock(fd, O_WRONLY);

    if (copy < 0)
        return RG_SINK_POLLED;
    *ret_fd = copy;
    return RG_SINK_NONBLOCK;
}

void rg_sink_init(struct rg_sink *sink, struct rg_loop *loop, int fd, void (*on_change)(void *arg),
                  void *arg)
{
    *sink = (struct rg_sink){ .loop = loop, .on_change = on_change, .arg = arg };
    sink->how = how_to_write(fd, &sink->fd);
}

void rg_sink_fini(struct rg_sink *sink)
{
    rg_io_stop(&sink->io);
    rg_buf_fini(&sink->pending);
    if (sink->how == RG_SINK_NONBLOCK && sink->fd >= 0)
        close(sink->fd);
    sink->fd = -1;
}

static ssize_t write_some(const struct rg_sink *sink, const uint8_t *data, size_t nbytes)
{
    size_t n = nbytes < WRITE_MAX ? nbytes : WRITE_MAX;

    if (sink->how == RG_SINK_SOCKET)
        return send(sink->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sink->how == RG_SINK_POLLED) {
        struct pollfd p = { .fd = sink->fd, .events = POLLOUT };
        if (poll(&p, 1, 0) <= 0) {
            errno = EAGAIN;
            return -1;
        }
        n = n < POLLED_MAX ? n : POLLED_MAX;
    }
    return write(sink->fd, data, n);
}

static void fail(struct rg_sink *sink, int errnum)
{
    if (sink->errnum)
        return;
    sink->errnum = errnum;
    rg_io_stop(&sink->io);
    rg_buf_clear(&sink->pending);
    if (sink->on_change)
        sink->on_change(sink->arg);
}

/* How many bytes went out. */
static size_t write_now(struct rg_sink *sink, const uint8_t *data, size_t nbytes)
{
    size_t done = 0;

    while (done < nbytes) {
        ssize_t n = write_some(sink, data + done, nbytes - done);
        if (n > 0) {
            done += (size_t) n;
        } else if (n < 0 && errno == EAGAIN) {
            break;
        } else if (n == 0 || errno != EINTR) {
            fail(sink, n == 0 ? EIO : errno);
            break;
        }
    }
    return done;
}

static void on_writable(void *arg, int events)
{
    struct rg_sink *sink = arg;

    (void) events;
    size_t done = write_now(sink, rg_buf_bytes(&sink->pending), rg_sink_pending(sink));

    if (sink->errnum)
        return;
    rg_buf_consume(&sink->pending, done);
    if (!rg_sink_pending(sink))
        rg_io_stop(&sink->io);
    if (done && sink->on_change)
        sink->on_change(sink->arg);
}

void rg_sink_write(struct rg_sink *sink, const void *data, size_t nbytes)
{
    size_t done = 0;

    if (sink->errnum || !nbytes)
        return;
    if (!rg_sink_pending(sink))
        done = write_now(sink, data, nbytes);
    if (sink->errnum || done == nbytes)
        return;
    rg_buf_put(&sink->pending, (const uint8_t *) data + done, nbytes - done);
    if (rg_buf_status(&sink->pending) < 0)
        fail(sink, -rg_buf_status(&sink->pending));
    else if (!rg_io_active(&sink->io))
        rg_io_start(&sink->io, sink->loop, sink->fd, RG_IO_WRITE, on_writable, sink);
}
