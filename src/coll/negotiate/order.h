/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreement between nodes: which operations are complete on all nodes, and in which order they run.
 * Only leaders take part, and only in jobs of several nodes; on one node the last arriving rank
 * appends to the node's log itself.
 *
 * A leader offers what all ranks of its node have submitted; the coordinator (leader of node 0)
 * collects, compares signatures, and when all nodes have offered an operation decides it. Decisions
 * are a stream, equal on all leaders. An operation that was seen before travels as its number (four
 * bytes, or a bit), a new one with name and signature. Small allreduces that are ready together are
 * marked to run fused.
 *
 * The control connections (a star around the coordinator, authenticated by the team's data key)
 * also carry heartbeats (1 s, from the first connection on), deaths, shutdown and stall questions.
 * A closed connection is death. Silence is death after config's silence_ms, measured while this
 * process itself was running; but where the peer's process is seen from here (one host, one pid
 * name space) the kernel is asked instead, and silence is none.
 *
 * Thread rule: under the progress engine's drive lock. Nothing blocks, rg_order_create excepted.
 */
#ifndef RG_COLL_NEGOTIATE_ORDER_H
#define RG_COLL_NEGOTIATE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "coll/team/team.h"
#include "coll/ground/types.h"

struct rg_order;

struct rg_order_events {
    /* Run this next. error: NULL, or why the operation fails on all ranks (it is not run). fused:
     * together with the decision before it. sig: the agreed signature (needed by nodes all of whose
     * ranks have joined). */
    void (*on_decided)(void *arg, const char *name, const struct rg_signature *sig,
                       const char *error, bool fused);
    /* All ranks have joined; last is the one that did so last. */
    void (*on_joined)(void *arg, int last_rank);
    /* a rank, or the leader of a silent node */
    void (*on_died)(void *arg, int rank, const char *text);
    /* that rank has called reigen_shutdown */
    /* Once, at all leaders (the one that announced it too), at the same place among the
     * decisions. */
    void (*on_shutdown)(void *arg, int rank);
    /* Called a few times a second while rg_order_create waits: 0, or -errno and err where that is
     * in vain; *ret_rank, -1 before, is who died. May be NULL. */
    int (*on_waiting)(void *arg, int *ret_rank, struct rg_error *err);
    /* The coordinator asks: what is pending here? Answer with rg_order_stall_reply. */
    void (*on_stall_query)(void *arg);
    /* At the coordinator: a node has offered this operation; may be NULL. */
    void (*on_offered)(void *arg, int node, const char *name);
    /* At the coordinator: what a node answered, or said unasked (stall_facts.h). */
    void (*on_stall_reply)(void *arg, int node, const char *text);
    void *arg;
};

/* Connect the leaders; collective over all leaders. Blocks until deadline_ns. 0 or -errno. */
int rg_order_create(struct rg_team *team, const struct rg_config *config,
                    const struct rg_order_events *events, uint64_t deadline_ns,
                    struct rg_order **ret_order, struct rg_error *err);
/* All ranks of this node (that have not joined) have submitted it. error: a mismatch found inside
 * the node, or NULL. */
int rg_order_offer(struct rg_order *order, const char *name, const struct rg_signature *sig,
                   const char *error);
/* All ranks of this node have joined; last_rank of them did so last. */
int rg_order_offer_join(struct rg_order *order, int last_rank);
/* Tell all leaders: a rank of this node died, or called reigen_shutdown. */
void rg_order_announce_death(struct rg_order *order, int rank, const char *text);
void rg_order_announce_shutdown(struct rg_order *order, int rank);
/* Send and receive what can be now; calls events. 0 or -ECONNRESET. */
int rg_order_progress(struct rg_order *order, bool *ret_moved, struct rg_error *err);
int rg_order_wait_fds(struct rg_order *order, int *ret_fds, unsigned *ret_events, int max);
/* Coordinator: ask all other leaders what their nodes wait for; on_stall_reply brings the
 * answers. */
void rg_order_stall_query(struct rg_order *order);
/* Coordinator: the nodes that have neither offered this operation nor joined, at most max of them;
 * returns how many there are. 0 elsewhere, and when no node has offered it. For stall reports. */
int rg_order_missing(struct rg_order *order, const char *name, int *ret_nodes, int max);
/* Whether all ranks of this node wait, and submit nothing; the coordinator hears of a change. */
void rg_order_blocked(struct rg_order *order, bool blocked);
/* At the coordinator: two blocked nodes have each offered an operation of one name, of different
 * kinds, and lack the other's; both since before that time. True and err, which says which. */
bool rg_order_crossed(struct rg_order *order, uint64_t before_ns, struct rg_error *err);
void rg_order_stall_reply(struct rg_order *order, const char *text);
void rg_order_destroy(struct rg_order *order, int timeout_ms);
void rg_order_after_fork(struct rg_order *order);

#endif
