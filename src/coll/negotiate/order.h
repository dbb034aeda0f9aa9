/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreement between nodes: which operations are complete on all nodes, and in which order they run.
 * One rank of each node takes part, its leader, and only in jobs of several nodes; on one node the
 * last arriving rank appends to the node's log itself.
 *
 *      rg_order_offer        what all ranks of this node have submitted  --+
 *      rg_order_offer_join   all ranks of this node have joined            +--> one stream, equal
 *      rg_order_announce_shutdown                                        --+    at all leaders:
 *
 *      on_decided            all nodes have offered it, or have joined: run it next
 *      on_joined, on_shutdown                                                   in their places
 *
 * An operation that has been decided once has a number, which all leaders know. Then it may go
 * *directly*, if events.direct says so: the leaders exchange data at once, by number and use
 * (far/far.h), and nothing of it comes here, but that each says rg_order_direct when it begins and
 * rg_order_direct_done at the end. The exchange comes to its end nowhere unless every leader has
 * begun it, with what its ranks have submitted or with the zeros of ranks that have joined
 * (rg_order_lend). So there is one outcome: who does not begin a use, as its ranks do something
 * else under this name, offers, and the use is void, for all: on_void. Then it is offered and
 * decided as the first one was.
 *
 *      rg_order_direct   ---------------------------------> the exchange ends: rg_order_direct_done
 *                          \
 *                           a leader offers: on_void -----> rg_order_offer, on_decided
 *
 * After on_shutdown nothing is in flight: before it, the leaders tell each other what they have
 * begun, so that what can end does, and the rest is void.
 *
 * Everything else is out of line: deaths (rg_order_announce_death, on_died), and what leaders ask
 * each other while something is stuck (rg_order_stall_query, rg_order_blocked and their like).
 *
 * How offers come together and decisions go out is this folder's own business (tree_state.h), and
 * so is where they are made. One leader is asked for what concerns all nodes, rg_order_decides says
 * whether it is this one; elsewhere those calls do nothing.
 *
 * A leader whose connection closes is dead. So is one that is silent for config's silence_ms,
 * measured while this process itself was running, unless the kernel sees its process alive
 * (peers.h).
 *
 * Thread rule: under the progress engine's drive lock. Nothing blocks but rg_order_create and
 * rg_order_destroy. Events come from within rg_order_create and rg_order_progress; they may call
 * anything here but these two and rg_order_destroy.
 */
#ifndef RG_COLL_NEGOTIATE_ORDER_H
#define RG_COLL_NEGOTIATE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "coll/ground/types.h"
#include "coll/team/team.h"

struct rg_order;

struct rg_order_events {
    /* Run this next. error: NULL, or why the operation fails on all ranks (it is not run). more:
     * together with the decision after it, which may come later. sig: the agreed signature (needed
     * by nodes all of whose ranks have joined). way: enum rg_direct_way, how the uses that follow
     * go. */
    void (*on_decided)(void *arg, const char *name, const struct rg_signature *sig,
                       const char *error, bool more, uint8_t way);
    /* All ranks have joined; last is the one that did so last. */
    void (*on_joined)(void *arg, int last_rank);
    /* A rank has called reigen_shutdown. Once, at all leaders (the one that announced it too). */
    void (*on_shutdown)(void *arg, int rank);
    /* At the coordinator: how the uses that follow of such an operation are to go, of those that
     * rg_signature_is_direct; enum rg_direct_way. NULL: nothing goes directly. */
    uint8_t (*direct)(void *arg, const struct rg_signature *sig);
    /* A direct use that this leader has begun is void: drop it, and, if `again`, offer it. */
    void (*on_void)(void *arg, uint32_t id, bool again);
    /* The next use of this number is seq; those before are over or void. way: how it goes, enum
     * rg_direct_way; NOT, as one was void: it does not before this comes again. */
    void (*on_expect)(void *arg, uint32_t id, uint32_t seq, uint8_t way);
    /* A rank is dead, or the leader of a silent node. */
    void (*on_died)(void *arg, int rank, const char *text);
    /* Called a few times a second while rg_order_create waits: 0, or -errno and err where that is
     * in vain; *ret_rank, -1 before, is who died. May be NULL. */
    int (*on_waiting)(void *arg, int *ret_rank, struct rg_error *err);
    /* What is pending here? Answer with rg_order_stall_reply. */
    void (*on_stall_query)(void *arg);
    /* Where rg_order_decides: a node has offered this operation; may be NULL. */
    void (*on_offered)(void *arg, int node, const char *name);
    /* Where rg_order_decides: what a node answered, or said unasked (stall_facts.h). */
    void (*on_stall_reply)(void *arg, int node, const char *text);
    void *arg;
};

/* Connect the leaders; collective over all of them. Blocks until deadline_ns. team and config stay
 * borrowed, events is copied. 0; -ETIMEDOUT, -ECONNRESET (a rank died meanwhile), -EACCES (another
 * key) and their like with err, at every leader that was there. */
int rg_order_create(struct rg_team *team, const struct rg_config *config,
                    const struct rg_order_events *events, uint64_t deadline_ns,
                    struct rg_order **ret_order, struct rg_error *err);
/* Say what is still to be said, and that this leader leaves; wait at most timeout_ms for it to
 * arrive. NULL is fine. */
void rg_order_destroy(struct rg_order *order, int timeout_ms);
/* In a forked child: closes descriptors only. Async-signal-safe. */
void rg_order_after_fork(struct rg_order *order);

/* Send and receive what can be now; calls events. True when there was anything to do. */
bool rg_order_progress(struct rg_order *order);
/* The descriptors, with poll's events, that tell when rg_order_progress has something to do: at
 * most max of them; returns how many. */
int rg_order_wait_fds(struct rg_order *order, int *ret_fds, unsigned *ret_events, int max);

/* ---- into the stream */

/* All ranks of this node (that have not joined) have submitted it. error: a mismatch found inside
 * the node, or NULL. 0; -ENOMEM; -EPROTO: it has been offered and is not decided yet; -EAGAIN: as
 * rg_order_direct. */
int rg_order_offer(struct rg_order *order, const char *name, const struct rg_signature *sig,
                   const char *error);
/* All ranks of this node (that have not joined) have submitted it. 1: it goes directly, as use
 * *ret_seq of number *ret_id, and is begun; 0: it is to be offered; -EAGAIN: the use before, to
 * which this node has lent zeros, is not over. */
int rg_order_direct(struct rg_order *order, const char *name, const struct rg_signature *sig,
                    uint32_t *ret_id, uint32_t *ret_seq);
/* Another leader has begun this use, and all ranks of this node have joined: true, and it is begun,
 * with zeros, and *ret_sig says of what. */
bool rg_order_lend(struct rg_order *order, uint32_t id, uint32_t seq, struct rg_signature *ret_sig);
/* What was begun has come to its end. */
void rg_order_direct_done(struct rg_order *order, uint32_t id);
/* What was begun takes long: the leader that decides hears of it, for rg_order_missing. */
void rg_order_direct_waits(struct rg_order *order, uint32_t id, uint32_t seq);
/* All ranks of this node have joined; last_rank of them did so last. 0 or -ENOMEM. */
int rg_order_offer_join(struct rg_order *order, int last_rank);
/* A rank of this node called reigen_shutdown. */
void rg_order_announce_shutdown(struct rg_order *order, int rank);

/* Where rg_order_decides: while it holds, allreduces that have been offered by all are not decided
 * yet, so that more of them come together and run as one. Nothing else waits. */
void rg_order_hold(struct rg_order *order, bool holds);

/* ---- out of line */

/* Tell all leaders that a rank of this node died. */
void rg_order_announce_death(struct rg_order *order, int rank, const char *text);
/* Whether this leader speaks for all nodes: it hears on_offered and on_stall_reply, and the calls
 * that say so do something. It is the same one for as long as the order lives. */
bool rg_order_decides(const struct rg_order *order);
/* The longest round trip of this leader's connections to others, as the kernel has measured it at
 * its least; 0: not known. */
uint64_t rg_order_round_trip_ns(const struct rg_order *order);
/* Where rg_order_decides: ask all other leaders what their nodes wait for; on_stall_reply brings
 * the answers. */
void rg_order_stall_query(struct rg_order *order);
/* Tell the leader that decides what is pending here; nothing where this is the one. */
void rg_order_stall_reply(struct rg_order *order, const char *text);
/* The node next above this one, through whose leader all comes here that it says; -1: none. */
int rg_order_above(const struct rg_order *order, int node);
/* For how long the leader of this node has said nothing, not even that it lives, which it says each
 * second; 0: it is not one of the leaders next above and below this one, or has gone. */
uint64_t rg_order_silent_ns(const struct rg_order *order, int node, uint64_t now_ns);
/* Where rg_order_decides: by node, whether it has neither offered this operation nor joined; how
 * many these are. 0 elsewhere, and when no node has offered it: ret_missing is as it was. */
int rg_order_missing(struct rg_order *order, const char *name, bool *ret_missing);
/* Whether all ranks of this node wait, and submit nothing; the leader that decides hears of a
 * change. */
void rg_order_blocked(struct rg_order *order, bool blocked);
/* Where rg_order_decides: two blocked nodes have each offered an operation of one name, of
 * different kinds, and lack the other's; both since before that time. True and err, which says
 * which. */
bool rg_order_crossed(struct rg_order *order, uint64_t before_ns, struct rg_error *err);

#endif
