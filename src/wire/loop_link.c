/* SPDX-License-Identifier: Apache-2.0 */
/* The link in an event loop: descriptors, back-pressure, and one callback for its end. */
#include "wire/loop_link.h"

#include <string.h>

#include "base/fd.h"

#define READ_NBYTES (32u << 10)
#define READS_PER_TURN 8        /* then other watchers get their turn */
#define LAST_WORDS_MS 1000      /* after a failed write, for what the peer said before it went */

struct rg_channel {
    struct rg_channel_options options; /* link: only its callbacks are kept */
    struct rg_link *link;
    struct rg_io reader, writer;
    struct rg_timer closer; /* on_close never comes out of a call of the owner */
    struct rg_error cause;  /* what closer will report */
    bool write_failed;
    bool was_congested;
    bool closed;    /* on_close was called */
    bool destroyed; /* by the owner, within a callback */
    int depth;      /* of our frames on the stack */
#ifndef RG_AGENT
    int cut_fd;     /* 1 + write_fd, while the line is cut; else 0 */
#endif
};

static void free_channel(struct rg_channel *channel)
{
    rg_link_destroy(channel->link);
    free(channel);
}

static void close_both(const struct rg_channel_options *options)
{
    if (options->read_fd >= 0)
        close(options->read_fd);
    if (options->write_fd >= 0 && options->write_fd != options->read_fd)
        close(options->write_fd);
}

static void stop_and_close(struct rg_channel *channel)
{
#ifndef RG_AGENT
    if (channel->cut_fd)
        channel->options.write_fd = channel->cut_fd - 1;
    channel->cut_fd = 0;
#endif
    rg_io_stop(&channel->reader);
    rg_io_stop(&channel->writer);
    rg_timer_stop(&channel->closer);
    close_both(&channel->options);
    channel->options.read_fd = channel->options.write_fd = -1;
}

/* Every path from the loop into a callback of the owner goes between enter and leave, so that the
 * owner may destroy the channel in it. */
static void enter(struct rg_channel *channel)
{
    channel->depth++;
}

static void leave(struct rg_channel *channel)
{
    if (--channel->depth == 0 && channel->destroyed)
        free_channel(channel);
}

void rg_channel_destroy(struct rg_channel *channel)
{
    if (!channel || channel->destroyed)
        return;
    stop_and_close(channel);
    channel->destroyed = true;
    if (channel->depth == 0)
        free_channel(channel);
}

static void report_close(struct rg_channel *channel, const struct rg_error *err)
{
    if (channel->closed || channel->destroyed)
        return;
    stop_and_close(channel);
    channel->closed = true;
    channel->options.on_close(channel->options.link.arg, err);
}

static void on_closer(void *arg)
{
    struct rg_channel *channel = arg;
    struct rg_error cause = channel->cause;

    enter(channel);
    report_close(channel, &cause);
    leave(channel);
}

static void close_soon(struct rg_channel *channel, unsigned delay_ms)
{
    if (!channel->closed && !channel->destroyed)
        rg_timer_start(&channel->closer, channel->options.loop, delay_ms, 0, on_closer, channel);
}

static void link_opened(void *arg)
{
    struct rg_channel *channel = arg;

    if (!channel->destroyed && channel->options.link.on_open)
        channel->options.link.on_open(channel->options.link.arg);
}

static void frame_came(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct rg_channel *channel = arg;

    if (!channel->destroyed)
        channel->options.link.on_frame(channel->options.link.arg, type, payload, nbytes);
}

static void on_writable(void *arg, int events);

/* The peer reads no more, but what it wrote before may still be on its way to us: the reader finds
 * the end, or closer does. */
static void fail_writing(struct rg_channel *channel, int errnum)
{
    channel->write_failed = true;
    rg_io_stop(&channel->writer);
    rg_error_set(&channel->cause, errnum, "cannot write to the peer: %s", strerror(errnum));
    close_soon(channel, LAST_WORDS_MS);
}

/* Write as much as the descriptor takes now, and let the loop do the rest. */
static void flush(struct rg_channel *channel)
{
    size_t nbytes;
    const uint8_t *bytes;

    if (channel->options.write_fd < 0 || channel->write_failed)
        return;
    while ((bytes = rg_link_output(channel->link, &nbytes)), nbytes > 0) {
        ssize_t n = write(channel->options.write_fd, bytes, nbytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            fail_writing(channel, errno);
            return;
        }
        if (n < 0)
            break;
        rg_link_sent(channel->link, (size_t) n);
    }
    if (nbytes == 0)
        rg_io_stop(&channel->writer);
    else if (!rg_io_active(&channel->writer))
        rg_io_start(&channel->writer, channel->options.loop, channel->options.write_fd,
                    RG_IO_WRITE, on_writable, channel);
}

static void report_drain(struct rg_channel *channel)
{
    if (!channel->was_congested || rg_link_pending(channel->link) >= RG_LINK_BACKLOG / 2)
        return;
    channel->was_congested = false;
    if (channel->options.on_drain && !channel->write_failed)
        channel->options.on_drain(channel->options.link.arg);
}

static void on_writable(void *arg, int events)
{
    struct rg_channel *channel = arg;

    (void) events;
    enter(channel);
    flush(channel);
    report_drain(channel);
    leave(channel);
}

static void handle_end(struct rg_channel *channel)
{
    struct rg_error err = RG_ERROR_INIT;
    bool was_open = rg_link_open(channel->link);

    if (rg_link_finish(channel->link, &err) == 0) {
        rg_error_set(&err, 0, was_open ? "the peer closed the link"
                                       : "the peer closed the link before it was open");
    }
    report_close(channel, &err);
}

/* Read once. False when there is nothing more for now. */
static bool read_some(struct rg_channel *channel)
{
    uint8_t bytes[READ_NBYTES];
    struct rg_error err = RG_ERROR_INIT;
    ssize_t n = read(channel->options.read_fd, bytes, sizeof(bytes));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n < 0) {
        rg_error_set(&err, errno, "cannot read from the peer: %s", strerror(errno));
        report_close(channel, &err);
    } else if (n == 0) {
        handle_end(channel);
    } else if (rg_link_receive(channel->link, bytes, (size_t) n, &err) < 0) {
        report_close(channel, &err);
    }
    return n == sizeof(bytes);
}

static void on_readable(void *arg, int events)
{
    struct rg_channel *channel = arg;

    (void) events;
    enter(channel);
    for (int i = 0; i < READS_PER_TURN && channel->options.read_fd >= 0; i++) {
        if (!read_some(channel))
            break;
    }
    /* The handshake and on_frame's answers. */
    if (!channel->destroyed && !channel->closed) {
        flush(channel);
        report_drain(channel);
    }
    leave(channel);
}

static int set_up(struct rg_channel *channel)
{
    struct rg_channel_options *o = &channel->options;
    struct rg_link_options link = o->link;

    if (!o->loop || !o->on_close || !link.on_frame || o->read_fd < 0 || o->write_fd < 0)
        return -EINVAL;
    int rc = rg_fd_set_nonblock(o->read_fd, true);

    if (rc == 0)
        rc = rg_fd_set_nonblock(o->write_fd, true);
    if (rc < 0)
        return -EINVAL;
    link.arg = channel;
    link.on_frame = frame_came;
    link.on_open = link_opened;
    rc = rg_link_create(&link, &channel->link);
    o->link.key = NULL;
    o->link.job_id = o->link.role = NULL;
    return rc;
}

int rg_channel_create(const struct rg_channel_options *options, struct rg_channel **ret_channel)
{
    struct rg_channel *channel = calloc(1, sizeof(*channel));
    int rc = -ENOMEM;

    if (channel) {
        channel->options = *options;
        rc = set_up(channel);
    }
    if (rc < 0) {
        close_both(options);
        free(channel);
        return rc;
    }
    rg_io_start(&channel->reader, options->loop, options->read_fd, RG_IO_READ, on_readable,
                channel);
    flush(channel);
    *ret_channel = channel;
    return 0;
}

int rg_channel_send(struct rg_channel *channel, uint16_t type, const void *payload, size_t nbytes)
{
    if (channel->closed || channel->destroyed || channel->write_failed)
        return -ENOTCONN;
    int rc = rg_link_send(channel->link, type, payload, nbytes);

    if (rc < 0)
        return rc;
    /* While frames wait, the loop writes: a try per frame would cost a system call for nothing. */
    if (!rg_io_active(&channel->writer))
        flush(channel);
    if (rg_link_congested(channel->link))
        channel->was_congested = true;
    return 0;
}

bool rg_channel_congested(const struct rg_channel *channel)
{
    return !channel->write_failed && rg_link_congested(channel->link);
}

#ifndef RG_AGENT
void rg_channel_cut(struct rg_channel *channel, bool cut)
{
    struct rg_channel_options *o = &channel->options;

    if (cut == (channel->cut_fd > 0) || channel->closed || channel->destroyed)
        return;
    if (cut) {
        rg_io_stop(&channel->reader);
        rg_io_stop(&channel->writer);
        channel->cut_fd = 1 + o->write_fd;
        o->write_fd = -1;
        return;
    }
    o->write_fd = channel->cut_fd - 1;
    channel->cut_fd = 0;
    rg_io_start(&channel->reader, o->loop, o->read_fd, RG_IO_READ, on_readable, channel);
    enter(channel);
    flush(channel);
    report_drain(channel);
    leave(channel);
}
#endif

bool rg_channel_open(const struct rg_channel *channel)
{
    return !channel->closed && !channel->write_failed && rg_link_open(channel->link);
}
