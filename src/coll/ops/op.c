/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an operation, as far as it needs no progress engine. */
#include "coll/ops/op.h"

#include <stdlib.h>

#include "coll/gpu/gpu.h"
#include "coll/node/table.h"

bool rg_op_claim(struct rg_op *op)
{
    int state = RG_OP_POSTED;

    if (atomic_compare_exchange_strong(&op->state, &state, RG_OP_CLAIMED))
        return true;
    return state == RG_OP_QUEUED &&
           atomic_compare_exchange_strong(&op->state, &state, RG_OP_CLAIMED);
}

/* On a device: when the work is done that is on the calling thread's stream now. */
static void free_result(struct rg_op *op, void *result)
{
    int device = op->buffers.device;
    void *stream = rg_gpu_used_device() == device ? rg_gpu_used_stream() : NULL;

    if (!op->buffers.ready) {
        free(result);
        return;
    }
    rg_gpu_mark_await(op->buffers.done, stream, NULL);
    rg_gpu_free(device, stream, result);
}

static void free_results(struct rg_op *op)
{
    for (int i = 0; op->tensors && i < op->n; i++) {
        if (op->tensors[i].result)
            free_result(op, op->tensors[i].result);
        op->tensors[i].result = NULL;
    }
}

void rg_op_drop_results(struct rg_op *op)
{
    if (__builtin_expect(op->buffers.ready != NULL, 0))
        free_results(op);
}

static void op_fini(struct rg_op *op)
{
    free_results(op);
    rg_gpu_mark_unref(op->buffers.ready);
    rg_gpu_mark_unref(op->buffers.done);
    if (op->tensors != &op->one)
        free(op->tensors);
    if (op->sigs != &op->one_sig)
        free(op->sigs);
    free(op->splits.sent);
    free(op->splits.received);
    free(op->text);
}

void rg_op_unref(struct rg_op *op)
{
    if (atomic_fetch_sub(&op->refs, 1) > 1)
        return;
    op_fini(op);
    free(op);
}

void rg_op_hold_name(struct rg_op *op)
{
    for (int i = 0; i < op->record->nmembers; i++)
        rg_record_hold(op->record->members[i], op);
    rg_record_hold(op->record, op);
    atomic_fetch_add(&op->record->unseen, 1);
    atomic_store_explicit(&op->name.held, true, memory_order_relaxed);
}

void rg_op_seen(struct rg_op *op)
{
    struct rg_record *record = op->record;

    if (!atomic_load_explicit(&op->name.held, memory_order_relaxed))
        return;
    /* Several threads may wait for one handle: once it is free the name may be another's. */
    if (!atomic_exchange(&op->name.held, false))
        return;
    for (int i = 0; i < record->nmembers; i++)
        rg_record_seen(record->members[i], op);
    rg_record_seen(record, op);
    atomic_fetch_sub(&record->unseen, 1); /* from here on it may be gone */
}
