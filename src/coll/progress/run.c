/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of each kind of operation. */
#include "coll/progress/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PACK_MEAN_MAX 2048 /* between nodes, tensors smaller than this on average are packed */

static const struct rg_signature *members_of(const struct rg_view *view,
                                             const struct rg_entry *entry)
{
    if (!entry->members)
        return &entry->sig;
    return (const struct rg_signature *) (const void *) (view->blocks + entry->members);
}

static size_t elements(const struct rg_signature *sig)
{
    size_t count = 1;

    for (int d = 0; d < sig->ndim; d++)
        count *= (size_t) sig->shape[d];
    return count;
}

static struct rg_scale scale_of(const struct rg_signature *sig, int size)
{
    struct rg_scale scale = { sig->prescale, sig->postscale, 1 };

    if (sig->op != REIGEN_AVERAGE)
        return scale;
    if (sig->dtype == REIGEN_FLOAT16 || sig->dtype == REIGEN_FLOAT32 ||
        sig->dtype == REIGEN_FLOAT64 || sig->dtype == REIGEN_BFLOAT16)
        scale.post /= size;
    else
        scale.divisor = size;
    return scale;
}

/* How many tensors item i has. */
static int tensors_of(const struct rg_progress *progress, int i)
{
    const struct rg_run *run = progress->run;
    int group;

    if (run->ops[i])
        return run->ops[i]->n;
    /* Where all ranks of a node have joined, only the sum of a group's elements is known. */
    group = progress->view.entries[run->items[i].id].sig.group_size;
    return group > 1 && progress->view.entries[run->items[i].id].members ? group : 1;
}

/* Of an allgather, alltoall or reducescatter the caller adds the counts and the result. */
static struct rg_coll coll_of(const struct rg_op *op, const struct rg_tensor *t,
                              enum rg_coll_kind kind)
{
    bool counted = kind == RG_COLL_ALLREDUCE || kind == RG_COLL_BROADCAST;

    return (struct rg_coll){ .kind = kind,
                             .dtype = op->dtype,
                             .op = op->reduction,
                             .count = counted ? t->count : 0,
                             .in = t->in,
                             .out = t->out,
                             .scale = op->scale,
                             .memory = op->buffers.memory,
                             .stream = op->buffers.stream };
}

/* For a rank that has joined. The entry stays as it is until this rank has done its part. */
static struct rg_coll zeros_of(const struct rg_progress *progress, const struct rg_entry *entry,
                               int t)
{
    const struct rg_signature *sig = &entry->sig;

    return (struct rg_coll){ .kind = RG_COLL_ALLREDUCE,
                             .dtype = sig->dtype,
                             .op = sig->op == REIGEN_AVERAGE ? REIGEN_SUM : sig->op,
                             .count = sig->group_size > 1 && !entry->members
                                          ? (size_t) sig->group_count
                                          : elements(&members_of(&progress->view, entry)[t]),
                             .scale = scale_of(sig, progress->team->size),
                             .memory = sig->memory };
}

static int collect(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;
    int n = 0, k = 0;

    for (int i = 0; i < run->nitems; i++)
        n += tensors_of(progress, i);
    run->colls = calloc((size_t) n, sizeof(*run->colls));
    if (!run->colls)
        return -ENOMEM;
    run->ncount = 0;
    for (int i = 0; i < run->nitems; i++) {
        const struct rg_entry *entry = &progress->view.entries[run->items[i].id];
        const struct rg_op *op = run->ops[i];

        for (int t = 0; t < tensors_of(progress, i); t++, k++) {
            run->colls[k] = op ? coll_of(op, &op->tensors[t], RG_COLL_ALLREDUCE)
                               : zeros_of(progress, entry, t);
            run->ncount += run->colls[k].count;
        }
    }
    run->ncolls = n;
    run->nposted = n;
    return 0;
}

/* Tensors of the run, as all ranks count them. */
static size_t nominal(const struct rg_progress *progress)
{
    const struct rg_run *run = progress->run;
    size_t n = 0;

    for (int i = 0; i < run->nitems; i++) {
        int group = run->ops[i] ? run->ops[i]->n
                                : progress->view.entries[run->items[i].id].sig.group_size;

        n += group > 1 ? (size_t) group : 1;
    }
    return n;
}

/* On one node: as many of the rest as the fusion threshold allows, at least one, and all that are
 * empty. Between nodes a run goes as one, as a node that has joined may not know its parts. */
static int post_more(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;
    int from = run->nposted, n = 0;
    size_t each = rg_dtype_nbytes(run->colls[0].dtype), nbytes = 0;
    size_t fusion_nbytes = atomic_load(&progress->view.shared->fusion_nbytes);

    do {
        nbytes += run->colls[from + n++].count * each;
    } while (from + n < run->ncolls &&
             (progress->view.nnodes > 1 ||
              nbytes + run->colls[from + n].count * each <= fusion_nbytes));
    run->nposted += n;
    return rg_exec_post_fused(progress->exec, run->colls + from, n);
}

/* Very many small tensors between nodes in one piece: two copies cost less than a call for each. */
static int post_packed(struct rg_progress *progress, size_t nbytes)
{
    struct rg_run *run = progress->run;
    struct rg_coll coll = run->colls[0];
    size_t each = rg_dtype_nbytes(coll.dtype), at = 0;
    bool zeros = run->ops[0] == NULL;

    for (int i = 0; i < run->nitems; i++)
        zeros = zeros && run->ops[i] == NULL;
    coll.count = run->ncount;
    coll.in = coll.out = NULL;
    if (!zeros) {
        rg_run_activity(progress, "MEMCPY_IN_FUSION_BUFFER");
        run->pack = malloc(nbytes + 1);
        if (!run->pack)
            return -ENOMEM;
        for (int k = 0; k < run->ncolls; at += run->colls[k++].count * each) {
            if (run->colls[k].in)
                memcpy(run->pack + at, run->colls[k].in, run->colls[k].count * each);
            else
                memset(run->pack + at, 0, run->colls[k].count * each);
        }
        coll.in = coll.out = run->pack;
    }
    return rg_exec_post(progress->exec, &coll);
}

static void drop_collected(struct rg_run *run)
{
    free(run->pack);
    free(run->colls);
    run->pack = NULL;
    run->colls = NULL;
}

static int post_adasum(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;
    int r = 0;

    if (!run->adasum)
        r = rg_adasum_create(progress->exec, progress->team, &run->adasum);
    if (r == 0)
        r = rg_adasum_post(run->adasum, run->colls, run->ncolls);
    run->by_adasum = r > 0;
    if (r <= 0)
        drop_collected(run);
    return r;
}

int rg_run_reduce_post(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;
    size_t nbytes, n = nominal(progress);
    int r = collect(progress);

    if (r < 0)
        return r;
    if (run->colls[0].op == REIGEN_ADASUM)
        return post_adasum(progress);
    nbytes = run->ncount * rg_dtype_nbytes(run->colls[0].dtype);
    if (n == 1)
        r = rg_exec_post(progress->exec, &run->colls[0]);
    else if (progress->view.nnodes > 1 && nbytes / n <= PACK_MEAN_MAX &&
             run->colls[0].memory == RG_MEMORY_HOST)
        r = post_packed(progress, nbytes);
    else {
        run->nposted = 0;
        r = post_more(progress);
    }
    return r < 0 ? r : 1;
}

int rg_run_reduce_next(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;

    if (run->by_adasum) {
        int r = rg_adasum_next(run->adasum);

        if (r != 0)
            return r;
        run->by_adasum = false;
    } else if (run->nposted < run->ncolls) {
        int r = post_more(progress);

        return r < 0 ? r : 1;
    }
    if (run->pack) {
        size_t each = rg_dtype_nbytes(run->colls[0].dtype), at = 0;

        rg_run_activity(progress, "MEMCPY_OUT_FUSION_BUFFER");
        for (int k = 0; k < run->ncolls; at += run->colls[k++].count * each) {
            if (run->colls[k].out)
                memcpy(run->colls[k].out, run->pack + at, run->colls[k].count * each);
        }
        rg_count(&progress->counters.nfused, (uint64_t) run->ncolls);
    }
    drop_collected(run);
    return 0;
}

static size_t row_elements(const struct rg_tensor *t)
{
    size_t count = 1;

    for (int d = 1; d < t->ndim; d++)
        count *= (size_t) t->shape[d];
    return count;
}

/* Room for what comes; without it this rank goes on with the others and drops its result. */
static void allocate(struct rg_run *run, struct rg_tensor *t, int dtype, int64_t rows, size_t each)
{
    t->result_rows = rows;
    t->result_nbytes = (size_t) rows * each * rg_dtype_nbytes(dtype);
    t->result = malloc(t->result_nbytes ? t->result_nbytes : 1);
    if (!t->result)
        run->lacks_memory = true;
}

static int room_for_rows(struct rg_run *run, size_t n)
{
    int64_t *rows;

    if (n <= run->nrows)
        return 0;
    rows = realloc(run->rows, n * sizeof(*rows));
    if (!rows)
        return -ENOMEM;
    run->rows = rows;
    run->nrows = n;
    return 0;
}

static int post_int64s(struct rg_progress *progress, const int64_t *in, size_t each)
{
    struct rg_run *run = progress->run;
    struct rg_coll coll = { .kind = RG_COLL_ALLGATHERV,
                            .dtype = REIGEN_INT64,
                            .op = REIGEN_SUM,
                            .counts = run->counts,
                            .in = in,
                            .out = run->rows,
                            .scale = { 1.0, 1.0, 1 } };

    for (int r = 0; r < progress->team->size; r++)
        run->counts[r] = each;
    run->step = 1;
    return rg_exec_post(progress->exec, &coll);
}

static int next_tensor(struct rg_run *run)
{
    run->tensor++;
    run->step = 0;
    return 0;
}

/* First dimensions, then tensors. */
static int step_allgather(struct rg_progress *progress, struct rg_op *op, struct rg_tensor *t)
{
    struct rg_run *run = progress->run;
    size_t each = row_elements(t);
    int64_t total = 0;
    struct rg_coll coll = coll_of(op, t, RG_COLL_ALLGATHERV);
    int r;

    if (run->step == 0) {
        r = room_for_rows(run, (size_t) progress->team->size);
        if (r < 0)
            return r;
        r = post_int64s(progress, &t->shape[0], 1);
        return r < 0 ? r : 1;
    }
    if (run->step == 2)
        return next_tensor(run);
    for (int i = 0; i < progress->team->size; i++) {
        run->counts[i] = (size_t) run->rows[i] * each;
        total += run->rows[i];
    }
    rg_run_activity(progress, "ALLOCATE_OUTPUT");
    allocate(run, t, op->dtype, total, each);
    coll.counts = run->counts;
    coll.out = t->result;
    run->step = 2;
    if ((size_t) total * each == 0)
        return next_tensor(run);
    r = rg_exec_post(progress->exec, &coll);
    return r < 0 ? r : 1;
}

static int step_alltoall(struct rg_progress *progress, struct rg_op *op, struct rg_tensor *t)
{
    struct rg_run *run = progress->run;
    size_t each = row_elements(t), size = (size_t) progress->team->size, any = 0;
    size_t me = (size_t) progress->team->rank;
    int64_t total = 0;
    struct rg_coll coll = coll_of(op, t, RG_COLL_ALLTOALLV);
    int r;

    if (run->step == 0) {
        r = room_for_rows(run, size * size + size);
        if (r < 0)
            return r;
        for (size_t i = 0; i < size; i++)
            run->rows[size * size + i] = op->splits.sent[i];
        r = post_int64s(progress, run->rows + size * size, size);
        return r < 0 ? r : 1;
    }
    if (run->step == 2)
        return next_tensor(run);
    for (size_t i = 0; i < size; i++) {
        run->counts[i] = (size_t) op->splits.sent[i] * each;
        run->recv_counts[i] = (size_t) run->rows[i * size + me] * each;
        op->splits.received[i] = (int32_t) run->rows[i * size + me];
        total += op->splits.received[i];
    }
    for (size_t i = 0; i < size * size; i++)
        any += (size_t) run->rows[i];
    rg_run_activity(progress, "ALLOCATE_OUTPUT");
    allocate(run, t, op->dtype, total, each);
    coll.counts = run->counts;
    coll.out = t->result;
    coll.recv_counts = run->recv_counts;
    coll.total = any * each;
    run->step = 2;
    if (any * each == 0)
        return next_tensor(run);
    r = rg_exec_post(progress->exec, &coll);
    return r < 0 ? r : 1;
}

static int step_reducescatter(struct rg_progress *progress, struct rg_op *op, struct rg_tensor *t)
{
    struct rg_run *run = progress->run;
    size_t each = row_elements(t);
    int64_t rows = t->shape[0], size = progress->team->size, mine = 0;
    struct rg_coll coll = coll_of(op, t, RG_COLL_REDUCESCATTERV);
    int r;

    if (run->step == 1)
        return next_tensor(run);
    for (int64_t i = 0; i < size; i++) {
        int64_t part = rows / size + (i < rows % size);

        run->counts[i] = (size_t) part * each;
        if (i == progress->team->rank)
            mine = part;
    }
    rg_run_activity(progress, "ALLOCATE_OUTPUT");
    allocate(run, t, op->dtype, mine, each);
    coll.counts = run->counts;
    coll.out = t->result;
    run->step = 1;
    if (t->count == 0)
        return next_tensor(run);
    r = rg_exec_post(progress->exec, &coll);
    return r < 0 ? r : 1;
}

static int step_broadcast(struct rg_progress *progress, struct rg_op *op, struct rg_tensor *t)
{
    struct rg_run *run = progress->run;
    struct rg_coll coll = coll_of(op, t, RG_COLL_BROADCAST);
    int r;

    if (run->step == 1 || t->count == 0)
        return next_tensor(run);
    run->step = 1;
    coll.root = op->root;
    if (op->root != progress->team->rank)
        coll.in = NULL;
    r = rg_exec_post(progress->exec, &coll);
    return r < 0 ? r : 1;
}

int rg_run_step(struct rg_progress *progress, struct rg_op *op)
{
    struct rg_run *run = progress->run;
    int r = 0;

    while (r == 0 && run->tensor < op->n) {
        struct rg_tensor *t = &op->tensors[run->tensor];

        if (op->kind == REIGEN_ALLGATHER)
            r = step_allgather(progress, op, t);
        else if (op->kind == REIGEN_ALLTOALL)
            r = step_alltoall(progress, op, t);
        else if (op->kind == REIGEN_REDUCESCATTER)
            r = step_reducescatter(progress, op, t);
        else
            r = step_broadcast(progress, op, t);
    }
    return r;
}

int rg_run_create(int size, struct rg_run **ret_run)
{
    struct rg_run *run = calloc(1, sizeof(*run));

    if (!run)
        return -ENOMEM;
    run->counts = calloc((size_t) size, sizeof(size_t));
    run->recv_counts = calloc((size_t) size, sizeof(size_t));
    if (!run->counts || !run->recv_counts) {
        rg_run_destroy(run);
        return -ENOMEM;
    }
    *ret_run = run;
    return 0;
}

void rg_run_destroy(struct rg_run *run)
{
    if (!run)
        return;
    rg_adasum_destroy(run->adasum);
    drop_collected(run);
    free(run->counts);
    free(run->recv_counts);
    free(run->rows);
    free(run);
}
