/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who looks on while the progress engine works: the timeline, the stall reporter, the diagnosis
 * (coll/observe). The engine calls an observer and needs nothing of it: without one, every
 * operation comes to the same end.
 *
 * Thread rule: each function says which thread calls it. None may block, but for the stall
 * reporter's reading of a few files.
 */
#ifndef RG_COLL_OPS_OBSERVER_H
#define RG_COLL_OPS_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>

struct rg_op;
struct rg_progress;

struct rg_observer_ops {
    /* ---- operations; by any thread, while rg_shared.timed says that a rank of the node writes a
     * timeline, or for what was begun then (op->timed_ns) */
    /* Announced, but nobody knows yet; may set op->timed_ns. */
    void (*submitted)(struct rg_progress *progress, struct rg_op *op);
    /* It could not be announced: another rank still reads what was there before. */
    void (*queued)(struct rg_progress *progress, struct rg_op *op);
    /* Inline: all ranks are here. */
    void (*arrived)(struct rg_progress *progress, struct rg_op *op);
    /* The program begins to wait for an operation, which may be over already. */
    void (*awaited)(struct rg_progress *progress);
    /* Over; before it is DONE. Takes op->timed_ns away. */
    void (*finished)(struct rg_progress *progress, struct rg_op *op);
    /* The driver begins a run of n operations, NULL where this rank has joined; ... */
    void (*run)(struct rg_progress *progress, struct rg_op *const *ops, int n);
    /* ... and they now do this; a static name. */
    void (*activity)(struct rg_progress *progress, struct rg_op *const *ops, int n,
                     const char *name);
    /* The run's work on a device begins: what `device` is to be given of it later, from malloc;
     * NULL: nothing of it is in the timeline. */
    void *(*on_device)(struct rg_progress *progress, struct rg_op *const *ops, int n);
    /* The driver: when the device was at it, by its own clock. The operations may be long gone. */
    void (*device)(struct rg_progress *progress, const void *about, uint64_t begin_ns,
                   uint64_t end_ns);
    /* Coordinator, under `drive`: a node has offered an operation. */
    void (*offered)(struct rg_progress *progress, int node, const char *name);

    /* ---- waits */
    /* Some times a second, by the communication thread, and when where_asked has changed
     * (coll/node/shared.h). */
    void (*glance)(struct rg_progress *progress);
    /* Once a second, by the communication thread, after a look at what waits (waits.h): the longest
     * wait; reporter: this rank speaks for its node. */
    void (*tick)(struct rg_progress *progress, uint64_t now_ns, uint64_t longest_ms, bool reporter);
    /* Leaders of several nodes, under `drive`: in each round; the coordinator asks what this node
     * waits for; and, at the coordinator, what a node has answered. */
    void (*drive)(struct rg_progress *progress);
    void (*asked)(struct rg_progress *progress);
    void (*heard)(struct rg_progress *progress, int node, const char *text);

    /* Leaders of several nodes, under `drive`: shutdown has waited for others for so long. Whether
     * that was told; else it is asked again. */
    bool (*leaving)(struct rg_progress *progress, uint64_t waited_ns);

    /* Before the progress engine is freed: nobody calls any more. */
    void (*detach)(struct rg_progress *progress);
};

/* The beginning of an observer's own struct, one for each progress engine. */
struct rg_observer {
    const struct rg_observer_ops *ops;
};

/* Look on at a new progress engine; the observer goes with `detach`. 0 or -ENOMEM. */
typedef int rg_observe_fn(struct rg_progress *progress, struct rg_observer **ret_observer);

#endif
