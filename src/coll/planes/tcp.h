/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the tcp plane: what its files share. tcp.c owns life and progress, tcp_link.c the sockets,
 * tcp_steps.c the algorithms.
 *
 * An operation is two lists of transfers: what this member sends and what it receives, each in a
 * fixed order that matches the lists of the others. Both lists run at once, each from its front. A
 * transfer may wait for the other list ("needs"): data that is passed on must have come, a buffer
 * that is added to must have been sent. A receive may end in a reduction. The lists are not stored:
 * step functions compute transfer i when it is its turn.
 *
 *      sends     0 1 2 3 ...      send i starts when `needs` receives are complete
 *      receives  0 1 2 3 ...      receive i ends in its reduction when `needs` sends are complete
 *
 * Nothing can deadlock: among all members the transfer with the lowest number in the common order
 * never waits for a later one.
 *
 * On each socket, an operation's first bytes in each direction are a header of 16 bytes: u32
 * operation number, u8 kind, u8 dtype, u16 zero, u64 bytes of the whole operation; little-endian.
 * Members that have lost step fail at once with -EPROTO instead of mixing tensors.
 *
 * When a rank dies, its neighbours give up and close their sockets to others, who must not take
 * them for the dead. So a lost socket is not told at once: for RG_TCP_LAST_WORDS_MS the operation
 * just stands still, and whoever knows better (heartbeats, pidfds, the agent) has the word.
 *
 * Thread rule: a plane's.
 */
#ifndef RG_COLL_PLANES_TCP_H
#define RG_COLL_PLANES_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/net/handshake.h"
#include "coll/planes/plane.h"

enum {
    RG_TCP_HEADER_NBYTES = 16,
    RG_TCP_CHUNK_NBYTES = 256 * 1024,  /* what is passed on at a time in rings and chains */
    RG_TCP_SMALL_NBYTES = 32 * 1024,   /* up to here: trees and recursive doubling */
    RG_TCP_DIALS_MAX = 3,
    RG_TCP_LAST_WORDS_MS = 2000,
};

enum rg_tcp_link_state { RG_TCP_NONE, RG_TCP_DIALLING, RG_TCP_OPEN };

struct rg_tcp_link {
    enum rg_tcp_link_state state;
    int fd; /* -1: none */
    int ndials;
    struct rg_handshake *handshake;          /* while dialling */
    uint64_t sent_op, received_op;   /* the last operation whose header went or came; 0: none */
};

struct rg_tcp_send {
    int peer;
    const char *from;
    size_t nbytes;
    size_t needs; /* receives complete before */
};

struct rg_tcp_recv {
    int peer;
    char *to;
    size_t nbytes;
    size_t needs;     /* sends complete before the reduction */
    char *reduce_to;  /* NULL: the bytes are where they belong */
    const char *with; /* reduce_to = (lower, higher) of `with` and what came */
    bool with_first;  /* `with` is the first operand */
    bool last;        /* scale's post and divisor apply */
};

struct rg_tcp_op {
    bool active;
    uint64_t number;        /* 1, 2, ... */
    struct rg_coll coll;
    size_t esize, total;    /* bytes of an element, of the operation */
    size_t *starts;         /* n + 1 of them: first element of each member's block */
    size_t *recv_starts;    /* alltoallv */
    size_t chunk, nsub;     /* elements at a time; chunks of the largest block */
    const char *base;       /* this member's contribution */
    char *acc;              /* where results grow: out, or work */
    char *work, *scratch;   /* owned */
    size_t work_nbytes, scratch_nbytes;
    char *zeros;            /* owned; what an alltoallv without in sends */
    void (*send_step)(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *ret_send);
    void (*recv_step)(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *ret_recv);
    size_t nsends, nrecvs, sends_done, recvs_done;
    bool scale_at_end;      /* post and divisor are applied to acc when all is done */
    /* The transfers in hand. */
    bool have_send, have_recv;
    struct rg_tcp_send send;
    struct rg_tcp_recv recv;
    bool recv_complete;     /* its bytes are here, its reduction may be to come */
    uint8_t header_in[RG_TCP_HEADER_NBYTES];
    size_t sent, received;  /* bytes, header included */
    int n, me;
};

/* Choose the algorithm and prepare buffers. 0, -EINVAL, -ENOMEM. Does local work (scaling,
 * copies). */
int rg_tcp_op_begin(struct rg_tcp_op *op, const struct rg_coll *coll, int n, int me);
/* What remains when all transfers are done. */
void rg_tcp_op_end(struct rg_tcp_op *op);
/* Reduce what came, as the receive says. */
void rg_tcp_op_reduce(struct rg_tcp_op *op, const struct rg_tcp_recv *recv);
/* Bytes that the header of a transfer between two members carries. */
uint64_t rg_tcp_op_nbytes(const struct rg_tcp_op *op, int from, int to);
void rg_tcp_op_fini(struct rg_tcp_op *op);

struct rg_tcp {
    struct rg_team *team;
    struct rg_group group;
    uint32_t purpose;
    bool dead, waits_for_listener;
    uint64_t lost_ns;          /* when a member's socket was lost, 0: none was */
    struct rg_error lost;
    struct rg_tcp_link *links; /* by member */
    struct rg_tcp_op op;
};

/* The member's rank in the job. */
static inline int rg_tcp_rank(const struct rg_tcp *tcp, int member)
{
    return tcp->group.ranks ? tcp->group.ranks[member] : member;
}

/* Have a socket to this member: the lower rank dials, the higher one finds it in the listener. 1
 * open, 0 not yet, -errno with the rank named. */
int rg_tcp_connect(struct rg_tcp *tcp, int member, bool *ret_moved, struct rg_error *err);
/* "rank 3 on host b: <what>", -ECONNRESET for all ways of losing a socket. */
int rg_tcp_lost(struct rg_tcp *tcp, int member, int r, struct rg_error *err);
void rg_tcp_disconnect(struct rg_tcp_link *link);
/* Until all that was written has been acknowledged, or the deadline. */
void rg_tcp_drain(struct rg_tcp *tcp, uint64_t deadline_ns);

#endif
