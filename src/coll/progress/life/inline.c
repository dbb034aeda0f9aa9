/* SPDX-License-Identifier: Apache-2.0 */
/* The one-shot path: slots are filled, and looked at. */
#include "coll/progress/life/inline.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/time.h"
#include "coll/far/direct.h"
#include "coll/ground/element.h"
#include "coll/node/signature.h"
#include "coll/progress/life/finish.h"
#include "coll/reduce/reduce.h"

#define SCORE 200
#define TIMED_NBYTES 16384 /* below this a look at the clock costs more than it tells */

static int score(const struct rg_plane_task *task)
{
    int n = task->group->nmembers;
    bool knows = task->kind == RG_COLL_BROADCAST ||
                 (task->kind == RG_COLL_ALLREDUCE && (task->op != REIGEN_ADASUM || n == 1));

    return knows && task->memory == RG_MEMORY_HOST && n <= RG_INLINE_RANKS_MAX &&
                   task->nbytes <= RG_INLINE_MAX ? SCORE : -1;
}

const struct rg_shortcut rg_inline_shortcut = { "one-shot", score };

enum rg_entry_mode rg_inline_choose(void *arg, const struct rg_notice *notice)
{
    struct rg_progress *progress = arg;
    bool between_nodes = progress->view.nnodes > 1;
    const struct rg_signature *sig = &notice->sigs[0];
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE,
                            .dtype = sig->dtype,
                            .op = sig->op == REIGEN_AVERAGE ? REIGEN_SUM : sig->op,
                            .memory = sig->memory,
                            .count = notice->nbytes / rg_dtype_nbytes(sig->dtype) };

    if (sig->kind == REIGEN_BROADCAST)
        coll.kind = RG_COLL_BROADCAST;
    else if (sig->kind != REIGEN_ALLREDUCE && sig->kind != REIGEN_BARRIER)
        return RG_ENTRY_STREAM;
    if (!between_nodes)
        return rg_exec_takes_shortcut(progress->exec, &coll) ? RG_ENTRY_INLINE : RG_ENTRY_STREAM;
    /* Only leaders know by which plane they would go, and the coordinator how long that takes. It
     * grants what is small unless another plane is to carry it. What is larger would fill slots in
     * vain. */
    if (!rg_signature_is_direct(sig) || notice->nbytes > RG_DIRECT_MAX ||
        progress->view.n > RG_INLINE_RANKS_MAX)
        return RG_ENTRY_STREAM;
    return notice->nbytes <= RG_DIRECT_SMALL ? RG_ENTRY_DIRECT : RG_ENTRY_IF_GRANTED;
}

static char *slot_of(const struct rg_progress *progress, const struct rg_op *op, int r)
{
    return rg_view_slot(&progress->view, op->slot.offset, op->slot.nbytes, op->epoch, r);
}

static _Atomic uint64_t *seq_of(const struct rg_progress *progress, const struct rg_op *op, int r)
{
    return (_Atomic uint64_t *) (void *) slot_of(progress, op, r);
}

static size_t header_nbytes(const struct rg_op *op)
{
    return rg_slot_header_nbytes(op->nbytes);
}

void rg_inline_fill(struct rg_progress *progress, struct rg_op *op)
{
    int me = progress->view.me;
    char *at = slot_of(progress, op, me) + header_nbytes(op);

    if (!op->slot.bad && (op->kind == REIGEN_ALLREDUCE ||
                     (op->kind == REIGEN_BROADCAST && op->root == progress->team->rank))) {
        for (int i = 0; i < op->n; i++) {
            if (op->tensors[i].nbytes)
                memcpy(at, op->tensors[i].in, op->tensors[i].nbytes);
            at += op->tensors[i].nbytes;
        }
    }
    atomic_store_explicit(seq_of(progress, op, me), op->epoch, memory_order_release);
}

void rg_inline_post(struct rg_progress *progress, struct rg_op *op)
{
    rg_inline_fill(progress, op);
    rg_bell_ring_all(&progress->team->bells, false);
}

void rg_inline_take(struct rg_progress *progress, struct rg_op *op)
{
    const char *at;

    if (!op || op->kind != REIGEN_ALLREDUCE || !rg_direct_by_slots(&progress->view, op))
        return;
    at = slot_of(progress, op, 0) + header_nbytes(op);
    for (int i = 0; i < op->n; i++) {
        if (op->tensors[i].nbytes)
            memcpy(op->tensors[i].out, at, op->tensors[i].nbytes);
        at += op->tensors[i].nbytes;
    }
}

static void reduce_all(struct rg_progress *progress, const struct rg_op *op, uint64_t absent)
{
    const void *srcs[RG_INLINE_RANKS_MAX];
    size_t at = header_nbytes(op);
    int n = progress->view.n;

    for (int i = 0; i < op->n; i++) {
        const struct rg_tensor *t = &op->tensors[i];

        for (int r = 0; r < n; r++)
            srcs[r] = absent >> r & 1 ? NULL : slot_of(progress, op, r) + at;
        if (t->count)
            rg_reduce(op->element->dtype, op->reduction, t->out, srcs, n, t->count, &op->scale);
        at += t->nbytes;
    }
}

static void broadcast(struct rg_progress *progress, const struct rg_op *op)
{
    const struct rg_tensor *t = &op->tensors[0];

    if (t->nbytes == 0)
        return;
    if (op->root == progress->team->rank) {
        if (t->out && t->out != t->in)
            memcpy(t->out, t->in, t->nbytes);
    } else {
        memcpy(t->out, slot_of(progress, op, op->root) + header_nbytes(op), t->nbytes);
    }
}

static void finish(struct rg_progress *progress, struct rg_op *op, uint64_t absent)
{
    struct rg_entry *entry = op->record->entry;
    uint64_t started = op->nbytes >= TIMED_NBYTES ? rg_now_ns() : 0;

    if (__builtin_expect(op->timed_ns != 0, 0))
        progress->observer->ops->arrived(progress, op);
    if (atomic_load_explicit(&entry->error_epoch[op->epoch & 1], memory_order_acquire) ==
        op->epoch) {
        rg_op_finish(progress, op, -EINVAL, progress->view.errors[op->record->id][op->epoch & 1]);
        return;
    }
    if (absent && op->kind == REIGEN_BROADCAST) {
        rg_op_finish(progress, op, -EINVAL, rg_join_refusal(REIGEN_BROADCAST));
        return;
    }
    if (op->kind == REIGEN_ALLREDUCE)
        reduce_all(progress, op, absent);
    else if (op->kind == REIGEN_BROADCAST)
        broadcast(progress, op);
    if (started)
        rg_count(&progress->counters.busy_ns, rg_now_ns() - started);
    rg_op_finish(progress, op, 0, NULL);
}

/* All ranks but those that have joined without announcing this epoch? A rank's seq is looked at
 * again after its flag, as it fills its slot before it joins. */
static bool arrived_but(struct rg_progress *progress, const struct rg_op *op, uint64_t *ret_absent)
{
    uint64_t absent = 0;
    const struct rg_view *view = &progress->view;

    for (int r = 0; r < view->n; r++) {
        const struct rg_epochs *place = rg_view_place(view, r, op->record->id);

        if (atomic_load(seq_of(progress, op, r)) == op->epoch)
            continue;
        if (!atomic_load(&view->rows[r].joined) && atomic_load(&place->done) < op->epoch)
            return false;
        if (atomic_load(seq_of(progress, op, r)) != op->epoch)
            absent |= UINT64_C(1) << r;
    }
    *ret_absent = absent;
    return true;
}

/* Something is unusual on this node: a death, a shutdown, ranks that have joined. */
static bool look_closer(struct rg_progress *progress, struct rg_op *op)
{
    uint64_t absent = 0;
    const char *text = NULL;
    int status;

    if (arrived_but(progress, op, &absent)) {
        finish(progress, op, absent);
        return true;
    }
    status = rg_progress_abort_cause(progress, &text);
    if (status < 0)
        rg_op_finish(progress, op, status, text);
    return status < 0;
}

/* True when the operation is DONE afterwards; otherwise it is still CLAIMED. By whoever has claimed
 * it: a persistent operation may be started again as soon as it is DONE, so nobody else may
 * look. */
static bool try_claimed(struct rg_progress *progress, struct rg_op *op)
{
    int n = progress->view.n;

    while (op->slot.seen < n &&
           atomic_load_explicit(seq_of(progress, op, op->slot.seen), memory_order_acquire) ==
               op->epoch)
        op->slot.seen++;
    if (op->slot.seen < n) {
        if (atomic_load_explicit(&progress->view.shared->attention, memory_order_relaxed) == 0)
            return false;
        return look_closer(progress, op);
    }
    finish(progress, op, 0);
    return true;
}

bool rg_op_look(struct rg_progress *progress, struct rg_op *op)
{
    for (;;) {
        int state = atomic_load_explicit(&op->state, memory_order_acquire);

        if (state == RG_OP_DONE)
            return true;
        if ((state != RG_OP_POSTED && state != RG_OP_CLAIMED) ||
            atomic_load_explicit(&op->mode, memory_order_relaxed) != RG_ENTRY_INLINE)
            return false;
        if (state == RG_OP_POSTED &&
            atomic_compare_exchange_strong_explicit(&op->state, &state, RG_OP_CLAIMED,
                                                    memory_order_acquire, memory_order_relaxed))
            break;
        /* Another thread looks or reduces: if it finds too little it does not come back. */
        sched_yield();
    }
    if (try_claimed(progress, op))
        return true;
    atomic_store_explicit(&op->state, RG_OP_POSTED, memory_order_release);
    return false;
}
