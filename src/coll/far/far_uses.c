/* SPDX-License-Identifier: Apache-2.0 */
/* What doubling and shots have in common: uses of numbers, frames that are kept, frames that go,
 * and the end of an operation. */
#include "coll/far/far_inside.h"

#include <stdlib.h>
#include <string.h>

#include "coll/reduce/reduce.h"

struct rg_far_use *rg_far_use_of(const struct rg_far *far, uint32_t id)
{
    return id < far->uses_capacity ? far->uses[id] : NULL;
}

size_t rg_far_early_nbytes(const struct rg_far_frame *frame)
{
    return sizeof(struct rg_far_early) + frame->nbytes;
}

struct rg_far_early *rg_far_take_out(struct rg_far *far, struct rg_far_early **link)
{
    struct rg_far_early *early = *link;

    *link = early->next;
    far->early_nbytes -= rg_far_early_nbytes(&early->frame);
    far->nearly--;
    return early;
}

struct rg_far_early *rg_far_take_early(struct rg_far *far, const struct rg_far_op *op, int level)
{
    struct rg_far_early **link = &rg_far_use_of(far, op->id)->early;

    while (*link && ((*link)->frame.seq != op->seq ||
                     (level >= 0 && (*link)->frame.level != level)))
        link = &(*link)->next;
    return *link ? rg_far_take_out(far, link) : NULL;
}

struct rg_far_early *rg_far_copy(const struct rg_far_frame *frame, int node, const uint8_t *payload)
{
    struct rg_far_early *early = malloc(rg_far_early_nbytes(frame));

    if (!early)
        return NULL;
    early->next = NULL;
    early->frame = *frame;
    early->node = node;
    if (frame->nbytes)
        memcpy(early->payload, payload, frame->nbytes);
    return early;
}

/* Where nothing was put in, zeros are sent: pages that are never written take no memory. */
static uint8_t zeros[RG_FAR_NBYTES_MAX];

void rg_far_put(struct rg_far_op *op, struct rg_far_link *link, int level, const void *payload,
                size_t nbytes)
{
    struct rg_far_frame frame = { .id = op->id, .seq = op->seq, .nbytes = (uint32_t) nbytes,
                                  .level = (uint8_t) level, .round = op->round };

    rg_far_link_put(link, &frame, payload ? payload : zeros, &op->nunsent);
}

void rg_far_flush(struct rg_far *far)
{
    for (int i = 0; i < far->nlinks; i++)
        if (far->links[i].nframes)
            rg_far_link_flush(&far->links[i]);
}

void rg_far_settle(struct rg_far *far, struct rg_far_op *op)
{
    if (op->nunsent)
        rg_far_flush(far);
}

void rg_far_finish(struct rg_far *far, struct rg_far_op *op)
{
    const struct rg_scale after = { 1.0, op->scale.post, op->scale.divisor };
    struct rg_far_use *use = rg_far_use_of(far, op->id);

    if (op->nbytes && (after.post != 1.0 || after.divisor != 1)) {
        rg_far_settle(far, op);
        rg_reduce(op->dtype, op->op, op->out, &op->now, 1, op->count, &after);
    }
    rg_far_settle(far, op);
    op->active = false;
    far->nops--;
    use->op = NULL;
    use->next = op->seq + 1;
    far->events.on_done(far->events.arg, op);
}
