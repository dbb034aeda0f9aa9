/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somewhere that bytes go: standard output or standard error. Writing never blocks: what the reader
 * does not take yet is kept, in order, and goes out when the loop says so. The owner watches
 * rg_sink_pending and slows the ranks down.
 *
 * The mode of the description shared with other processes is never changed: pipes and terminals are
 * opened a second time, sockets take MSG_DONTWAIT; where neither works, poll and small writes must
 * do.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_HEAD_SHOW_SINK_H
#define RG_HEAD_SHOW_SINK_H

#include <stddef.h>

#include "base/buf.h"
#include "base/loop.h"

enum rg_sink_how { RG_SINK_BLOCKING, RG_SINK_NONBLOCK, RG_SINK_SOCKET, RG_SINK_POLLED };

struct rg_sink {
    struct rg_loop *loop;
    int fd;          /* written to; owned when how is RG_SINK_NONBLOCK */
    enum rg_sink_how how;
    struct rg_buf pending;
    struct rg_io io;
    int errnum;      /* why it failed, positive; then everything written is dropped */
    /* Called from the loop when pending shrank, and from anywhere when the sink failed. It may not
     * write into this sink. */
    void (*on_change)(void *arg);
    void *arg;
};

/* Prepare to write to fd, which stays the caller's. Cannot fail. */
void rg_sink_init(struct rg_sink *sink, struct rg_loop *loop, int fd, void (*on_change)(void *arg),
                  void *arg);
/* Drop what is pending. */
void rg_sink_fini(struct rg_sink *sink);

/* Write, or keep for later. Out of memory counts as a failed sink (ENOMEM). */
void rg_sink_write(struct rg_sink *sink, const void *data, size_t nbytes);

static inline size_t rg_sink_pending(const struct rg_sink *sink)
{
    return rg_buf_nbytes(&sink->pending);
}

#endif
