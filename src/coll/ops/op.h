/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation, from its submission to its end: what the user gave, what was agreed, and where it
 * stands. Who carries it out is the progress engine (coll/progress).
 *
 *               submit                           all ranks are here           carried out
 *   (new) ---> IN_LINE ---> QUEUED ---> POSTED ------------------> CLAIMED ------------> DONE
 *            while another   while an old slot   inline: found by whoever looks
 *            one has a name  is still being read stream: through the log, by the driver
 *
 * Thread rule: whoever has moved it from POSTED to CLAIMED finishes it; the fields of its
 * submission do not change while it is in flight. Nothing blocks.
 */
#ifndef RG_COLL_OPS_OP_H
#define RG_COLL_OPS_OP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coll/ground/types.h"
#include "coll/reduce/reduce.h"

struct rg_element;  /* ground/element.h */
struct rg_gpu_mark; /* gpu/gpu.h */
struct rg_op;
struct rg_record;  /* node/table.h */
struct rg_set;     /* api/sets.h */
struct rg_watcher; /* notify.h */

enum rg_op_state {
    RG_OP_FREE,
    RG_OP_IN_LINE,
    RG_OP_QUEUED,
    RG_OP_POSTED,
    RG_OP_CLAIMED,
    RG_OP_DONE
};

/* One tensor of an operation. */
struct rg_tensor {
    const void *in;
    void *out;
    size_t count, nbytes; /* of in; count: parts of elements */
    int ndim;
    int64_t shape[REIGEN_NDIM_MAX];
    void *result;         /* allocated by the runtime, in the memory of the others; owned */
    size_t result_nbytes;
    int64_t result_rows;
};

/* Its name, which its record stands for. */
struct rg_op_name {
    _Atomic bool held; /* it is the operation's until somebody has seen its end: rg_op_seen */
    bool dropped;      /* held, and no handle is left to see its end; under the lock, as the next */
    struct rg_op *prev, *next; /* IN_LINE: who wants one before and after it */
};

/* Where all its ins and outs are. Of a device: `ready` is where the submitter's stream had come to,
 * `done` (once DONE) where ours has everything behind it; both owned. */
struct rg_op_buffers {
    uint8_t memory; /* enum rg_memory */
    int device;     /* as in struct rg_coll */
    void *stream;   /* the same; ours, where there is a ready */
    struct rg_gpu_mark *ready, *done;
};

/* Of an inline operation: copied from the record, which may change before this ends. */
struct rg_op_slot {
    uint64_t offset, nbytes;
    int seen; /* ranks below have filled their slots; whoever has claimed it */
    bool bad; /* does not match the other ranks */
};

/* Of an alltoall, by rank; owned. */
struct rg_op_splits {
    int32_t *sent, *received;
    int nreceived;
};

/* Its place among those that the driver looks at (polled.h). */
struct rg_op_polled {
    _Atomic bool listed;
    struct rg_op *prev, *next;
};

struct rg_op {
    _Atomic int state;    /* enum rg_op_state */
    _Atomic int refs;     /* handles, the progress engine while not done, a waiter */
    int root;             /* of a broadcast */
    int status;           /* once DONE: 0, 1 + last rank of a join, or -errno ... */
    char *text;           /* ... and its cause, owned; NULL: none, or out of memory */
    struct rg_record *record;
    struct rg_op_name name;
    int nhandles;         /* left; under the handles' lock */
    uint64_t epoch;
    struct rg_op_slot slot;
    uint8_t kind, reduction;
    const struct rg_element *element; /* NULL: it has no tensors */
    struct rg_op_buffers buffers;
    _Atomic uint8_t mode; /* enum rg_entry_mode */
    bool persistent;      /* of a request: the progress engine holds no reference to it */
    bool waits;           /* the submitter will wait at once: no need to wake a thread for it */
    uint64_t timed_ns;    /* in the timeline since then; 0: it is not */
    struct rg_scale scale;
    uint64_t digest;
    struct rg_signature *sigs; /* n; NULL once announced, unless persistent */
    size_t nbytes;        /* payload */
    int n;
    struct rg_tensor *tensors;
    struct rg_tensor one;
    struct rg_signature one_sig;
    struct rg_op_splits splits;
    struct rg_set *set;         /* the process set it belongs to; NULL: all ranks */
    struct rg_watcher *watchers; /* under the lock */
    struct rg_op_polled polled;
};

static inline bool rg_op_done(const struct rg_op *op)
{
    return atomic_load_explicit(&op->state, memory_order_acquire) == RG_OP_DONE;
}

/* POSTED or QUEUED to CLAIMED; false when somebody else has. */
bool rg_op_claim(struct rg_op *op);
void rg_op_unref(struct rg_op *op);
/* Of an operation that is DONE and has no handle any more: results on a device are given back in
 * the order of the calling thread's stream, whoever drops the last reference. */
void rg_op_drop_results(struct rg_op *op);
/* From now on the record's name is the operation's until somebody has seen its end, so that a rank
 * which uses it again too early is told so whether the others have come or not; or until the next
 * one in line for it takes it over. By who has claimed the record, before the operation is
 * posted. */
void rg_op_hold_name(struct rg_op *op);
/* It is DONE (or was never posted), and its submitter knows: the name is free again, unless it has
 * been taken over. The progress engine is there still; any lock may be held. */
void rg_op_seen(struct rg_op *op);

#endif
