/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list in shared memory of operations in the order in which every rank of the node carries them
 * out (the execution log), and of operations that have arrived on the node and wait for the other
 * nodes (the ready ring; its only reader is the leader).
 *
 * Any rank may append; each reader keeps its own position and reads in order. It is a bounded
 * ring in the manner of D. Vyukov's multi-producer queue: a producer takes a position, fills the
 * slot, then publishes the slot's sequence. The ring does not know its readers: an appender
 * passes the position of the slowest, and waits while it would overtake it.
 *
 * Closing fixes the last position: appends after it fail, everything before it is still to be
 * carried out. Thread rule: any thread of any rank; only rg_runlog_append may wait, in the rare
 * case named above.
 */
#ifndef RG_COLL_NODE_RUNLOG_H
#define RG_COLL_NODE_RUNLOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_RUN_MAX 1024       /* items carried out together */
#define RG_RUNLOG_SLOTS 32768 /* a power of two, more than entries and joins can be under way */

enum {
    RG_RUN_FAILED = 1, /* not carried out: the entry holds the text */
    RG_RUN_MORE = 2,   /* carried out together with the item after it */
    RG_RUN_JOINED = 4, /* all ranks of the job have joined; epoch: 1 + the last rank */
    RG_RUN_REDUCE = 8, /* an allreduce, to which ranks that have joined supply zeros */
    RG_RUN_DIRECT = 16, /* the leaders have exchanged it: the result is there */
};

struct rg_run_item {
    uint32_t id;    /* entry */
    uint32_t flags; /* RG_RUN_* */
    uint64_t epoch; /* of the entry */
};

struct rg_run_slot {
    _Atomic uint64_t seq; /* 1 + the position whose item this is */
    struct rg_run_item item;
};

struct rg_runlog {
    _Atomic uint64_t *tail; /* next position, and the closed bit */
    struct rg_run_slot *slots;
};

size_t rg_runlog_nbytes(void);
void rg_runlog_open(struct rg_runlog *ret_log, void *memory);

/* slowest: the lowest position a reader is at, asked again while the ring is full; it returns
 * UINT64_MAX to give up; NULL: it cannot fill up. 0; -ECANCELED when closed or given up. */
int rg_runlog_append(const struct rg_runlog *log, const struct rg_run_item *items, int n,
                     uint64_t (*slowest)(void *arg), void *arg);

/* The item at a position, if it is there. */
bool rg_runlog_read(const struct rg_runlog *log, uint64_t position, struct rg_run_item *ret_item);
/* The position after the last item. */
uint64_t rg_runlog_tail(const struct rg_runlog *log);
void rg_runlog_close(const struct rg_runlog *log);
/* True when closed and nothing is left at or after position. */
bool rg_runlog_ended(const struct rg_runlog *log, uint64_t position);

#endif
