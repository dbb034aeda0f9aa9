/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduces in one or two shots: all leaders send to all others at once. It takes one or two
 * message times among any number of leaders, where the doubling takes log2 n; two shots send the
 * fewest bytes that an allreduce can do with. What each sends in the second shot, it has from all:
 * so here, too, whoever has a result, or a block of it, knows that every leader has begun.
 *
 * Parts are kept until all are there, and are added as the doubling would add them. So the bits do
 * not depend on the way, nor on who is quick.
 */
#include "coll/far/far_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/reduce/reduce.h"

/* Elements of the tensor. */
struct block {
    size_t from, count;
};

/* What a node reduces. */
static struct block block_of(const struct rg_far *far, const struct rg_far_op *op, int node)
{
    size_t n = (size_t) far->n, i = (size_t) node;
    size_t each = op->count / n, more = op->count % n;

    if (op->way == RG_DIRECT_ONE_SHOT)
        return (struct block) { 0, op->count };
    return (struct block) { i * each + (i < more ? i : more), each + (i < more) };
}

static size_t nbytes_of(const struct rg_far_op *op, size_t count)
{
    return count * rg_dtype_nbytes(op->dtype);
}

/* NULL stays NULL: zeros. */
static void *at(const struct rg_far_op *op, const void *tensor, struct block block)
{
    return tensor ? (char *) (uintptr_t) tensor + nbytes_of(op, block.from) : NULL;
}

static uint32_t bit(int node)
{
    return UINT32_C(1) << node;
}

static uint32_t all_others(const struct rg_far *far)
{
    return (uint32_t) ((UINT64_C(1) << far->n) - 1) & ~bit(far->me);
}

static bool waits_for(const struct rg_far_shots *shots, int node)
{
    return (shots->parts_missing | shots->results_missing) & bit(node);
}

/* ------------------------------------------------------------ adding */

struct operand {
    const void *data;
    bool scratch; /* of ours: a sum may go there */
};

static struct operand add(const struct rg_far_op *op, struct operand a, struct operand b,
                          size_t count, void *to)
{
    const struct rg_scale plain = { 1.0, 1.0, 1 };
    const void *sources[2] = { a.data, b.data };

    if (!to)
        to = (void *) (uintptr_t) (a.scratch ? a.data : b.data);
    if (count)
        rg_reduce(op->dtype, op->op, to, sources, 2, count, &plain);
    return (struct operand) { to, true };
}

/* All parts of this node's block, in the order of the doubling, into the result. */
static void add_up(const struct rg_far *far, struct rg_far_op *op)
{
    struct block block = block_of(far, op, far->me);
    struct operand operands[RG_DIRECT_SHOTS_MAX];
    void *out = at(op, op->out, block);
    int npairs = far->doubling.npairs, n = 1 << far->doubling.nsteps;

    for (int i = 0; i < far->n; i++)
        operands[i] = i == far->me ? (struct operand) { at(op, op->in, block), false }
                                   : (struct operand) { op->shots->parts[i]->payload, true };
    for (int i = 0; i < npairs; i++)
        operands[i] = add(op, operands[2 * i], operands[2 * i + 1], block.count, NULL);
    for (int i = npairs; i < n; i++)
        operands[i] = operands[i + npairs];
    for (; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++)
            operands[i] = add(op, operands[2 * i], operands[2 * i + 1], block.count,
                              n == 2 ? out : NULL);
}

/* ------------------------------------------------------------ one operation */

static struct rg_far_shots *new_shots(struct rg_far *far)
{
    struct rg_far_shots *shots = far->spare;

    if (shots)
        far->spare = shots->next;
    else
        shots = malloc(sizeof(*shots));
    if (shots)
        *shots = (struct rg_far_shots) { .parts_missing = all_others(far) };
    return shots;
}

static void free_shots(struct rg_far *far, struct rg_far_op *op)
{
    struct rg_far_shots *shots = op->shots;

    for (int i = 0; i < far->n; i++)
        free(shots->parts[i]);
    shots->next = far->spare;
    far->spare = shots;
    op->shots = NULL;
}

static bool is_two_shots(const struct rg_far_op *op)
{
    return op->way == RG_DIRECT_TWO_SHOT;
}

static void shoot(struct rg_far *far, struct rg_far_op *op, int level)
{
    for (int i = 0; i < far->nlinks; i++) {
        struct rg_far_link *link = &far->links[i];
        bool result = level == RG_FAR_LEVEL_RESULT;
        struct block block = block_of(far, op, result ? far->me : link->node);

        rg_far_put(op, link, level, at(op, result ? op->out : op->in, block),
                   nbytes_of(op, block.count));
    }
}

/* 1: the operation is over. */
static int end(struct rg_far *far, struct rg_far_op *op)
{
    if (op->shots->parts_missing || op->shots->results_missing)
        return 0;
    op->now = op->out;
    free_shots(far, op);
    rg_far_finish(far, op);
    return 1;
}

static void count_off(struct rg_far_shots *shots, struct rg_far_link *link, uint32_t *missing)
{
    *missing &= ~bit(link->node);
    link->nawaited -= !waits_for(shots, link->node);
}

static int accept_part(struct rg_far *far, struct rg_far_op *op, struct rg_far_link *link,
                     struct rg_far_early *take_part)
{
    struct rg_far_shots *shots = op->shots;

    shots->parts[link->node] = take_part;
    count_off(shots, link, &shots->parts_missing);
    if (shots->parts_missing)
        return 0;
    /* All have begun, so it cannot become void any more: `in`, which may be `out`, is needed no
     * more once its parts have left. */
    rg_far_settle(far, op);
    add_up(far, op);
    if (is_two_shots(op))
        shoot(far, op, RG_FAR_LEVEL_RESULT);
    return end(far, op);
}

static int accept_result(struct rg_far *far, struct rg_far_op *op, struct rg_far_link *link,
                       const uint8_t *payload, size_t nbytes)
{
    struct block block = block_of(far, op, link->node);

    rg_far_settle(far, op);
    if (nbytes)
        memcpy(at(op, op->out, block), payload, nbytes);
    count_off(op->shots, link, &op->shots->results_missing);
    return end(far, op);
}

/* Whether such a frame is still waited for. */
static bool fits(const struct rg_far *far, const struct rg_far_op *op,
                 const struct rg_far_link *link, const struct rg_far_frame *frame)
{
    bool part = frame->level == RG_FAR_LEVEL_PART;
    struct block block = block_of(far, op, part ? far->me : link->node);
    uint32_t missing = part ? op->shots->parts_missing : op->shots->results_missing;

    return (part || frame->level == RG_FAR_LEVEL_RESULT) && missing & bit(link->node) &&
           frame->nbytes == nbytes_of(op, block.count);
}

int rg_far_shots_take(struct rg_far *far, struct rg_far_op *op, const struct rg_far_link *link,
                      const struct rg_far_frame *frame, const uint8_t *payload)
{
    struct rg_far_link *from = &far->links[link - far->links];
    struct rg_far_early *part;

    if (!fits(far, op, link, frame))
        return -EPROTO;
    if (frame->level == RG_FAR_LEVEL_RESULT)
        return accept_result(far, op, from, payload, frame->nbytes);
    part = rg_far_copy(frame, link->node, payload);
    return part ? accept_part(far, op, from, part) : -ENOMEM;
}

static struct rg_far_link *link_to(struct rg_far *far, int node)
{
    return &far->links[node < far->me ? node : node - 1];
}

static int accept_early(struct rg_far *far, struct rg_far_op *op, struct rg_far_early *take_early)
{
    struct rg_far_link *link = link_to(far, take_early->node);
    int r = fits(far, op, link, &take_early->frame) ? 0 : -EPROTO;

    if (r == 0 && take_early->frame.level == RG_FAR_LEVEL_PART)
        return accept_part(far, op, link, take_early);
    if (r == 0)
        r = accept_result(far, op, link, take_early->payload, take_early->frame.nbytes);
    free(take_early);
    return r;
}

int rg_far_shots_begin(struct rg_far *far, struct rg_far_op *op)
{
    struct rg_far_early *early;
    int r = 0;

    op->shots = new_shots(far);
    if (!op->shots)
        return -ENOMEM;
    if (is_two_shots(op))
        op->shots->results_missing = op->shots->parts_missing;
    for (int i = 0; i < far->nlinks; i++)
        far->links[i].nawaited++;
    shoot(far, op, RG_FAR_LEVEL_PART);
    while (r == 0 && far->nearly && (early = rg_far_take_early(far, op, -1)) != NULL)
        r = accept_early(far, op, early);
    return r;
}

void rg_far_shots_drop(struct rg_far *far, struct rg_far_op *op)
{
    for (int i = 0; i < far->nlinks; i++)
        far->links[i].nawaited -= waits_for(op->shots, far->links[i].node);
    free_shots(far, op);
}

void rg_far_shots_fini(struct rg_far *far)
{
    struct rg_far_shots *shots;

    while ((shots = far->spare) != NULL) {
        far->spare = shots->next;
        free(shots);
    }
}
