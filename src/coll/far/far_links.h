/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets of the exchange between leaders: one to each leader that this one ever sends to or
 * receives from, which are as many as the doubling has levels.
 *
 * Thread rule: as far.h.
 */
#ifndef RG_COLL_FAR_FAR_LINKS_H
#define RG_COLL_FAR_FAR_LINKS_H

#include <sys/uio.h>

#include "base/buf.h"
#include "coll/far/far_frame.h"
#include "coll/links/links.h"

enum { RG_FAR_BATCH = 32 }; /* frames that leave in one system call */

struct rg_far_link {
    struct rg_socket socket;
    int node;                 /* the other leader's */
    bool wanted;              /* connect, though nothing is to be sent yet */
    bool lost;                /* for good, then and by this -errno: */
    uint64_t lost_ns;
    int cause;
    int nawaited;             /* operations in flight that wait for a frame of this leader */
    /* to be sent: first what the socket did not take, then frames that still are where they were
     * made */
    struct rg_buf out;
    struct iovec iov[2 * RG_FAR_BATCH];
    uint8_t headers[RG_FAR_BATCH][RG_FAR_HEADER_NBYTES];
    int *nunsent[RG_FAR_BATCH]; /* by frame: whoever owns its memory knows by this */
    int nframes, niov;
    /* received */
    uint8_t *in;              /* owned; NULL: not open yet */
    size_t in_from, in_to;
};

void rg_far_link_init(struct rg_far_link *link, int node);
static inline bool rg_far_link_open(const struct rg_far_link *link)
{
    return link->socket.state == RG_SOCKET_OPEN;
}

/* Of all of a leader's. */
struct rg_links rg_far_links_of(const struct rg_team *team);
/* Have a socket, or lose the link. True when something moved. */
bool rg_far_link_connect(struct rg_far_link *link, struct rg_links *links);
/* 0 or -ENOMEM. */
int rg_far_link_adopt(struct rg_far_link *link, const struct rg_links *links, int take_fd);
/* Send a frame with the next flush; until then *nunsent counts it, and the payload stays. */
void rg_far_link_put(struct rg_far_link *link, const struct rg_far_frame *frame,
                     const void *payload, int *nunsent);
/* Afterwards no frame points to an operation's memory. */
void rg_far_link_flush(struct rg_far_link *link);
/* Receive once. How many bytes came. */
size_t rg_far_link_receive(struct rg_far_link *link);
/* The next frame that is here, and its payload, borrowed until the next receive. 1, 0: none is
 * whole, -EPROTO: no frame. */
int rg_far_link_next(struct rg_far_link *link, struct rg_far_frame *ret_frame,
                     const uint8_t **ret_payload);
/* Until all that was to be sent has been acknowledged, or the deadline. */
void rg_far_link_drain(struct rg_far_link *link, struct rg_links *links, uint64_t deadline_ns);
void rg_far_link_fini(struct rg_far_link *link);
/* How it was lost: as rg_links_tell, or -ENOMEM. */
int rg_far_link_tell(const struct rg_far_link *link, const struct rg_team *team,
                     struct rg_error *err);

#endif
