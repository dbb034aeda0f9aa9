/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of each kind of operation. */
#include "coll/progress/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/gpu/gpu.h"
#include "coll/gpu/spans.h"
#include "coll/ground/config.h"
#include "coll/ground/element.h"
#include "coll/ground/pages.h"
#include "coll/node/signature.h"

#define PACK_MEAN_MAX 2048 /* between nodes, tensors smaller than this on average are packed */

#define COPY_US 20         /* between two looks at a copy to or from a GPU */

#define SPANS_US 5000      /* between two looks at what the timeline is to have of one */
#define SPANS_END_MS 1000  /* for that to be over, at the end */

/* What exec is at, of a tensor. */
enum { STEP_BEGIN = 0, STEP_SIZES, STEP_DATA };

static const struct rg_signature *members_of(const struct rg_view *view,
                                             const struct rg_entry *entry)
{
    if (!entry->members)
        return &entry->sig;
    return (const struct rg_signature *) (const void *) (view->blocks + entry->members);
}

/* The product of the dimensions from this one on. */
static size_t elements(const int64_t *shape, int ndim, int from)
{
    size_t count = 1;

    for (int d = from; d < ndim; d++)
        count *= (size_t) shape[d];
    return count;
}

/* Parts of elements in one row. */
static size_t row_of(const struct rg_op *op, const struct rg_tensor *t)
{
    return elements(t->shape, t->ndim, 1) * op->element->nparts;
}

/* How many tensors item i has, as all ranks count them. */
static int group_of(const struct rg_progress *progress, int i)
{
    const struct rg_run *run = progress->run;
    int group = run->ops[i] ? run->ops[i]->n
                            : progress->view.entries[run->items[i].id].sig.group_size;

    return group > 1 ? group : 1;
}

/* How many it has here: where all ranks of a node have joined, only the sum of a group's elements
 * is known. */
static int tensors_of(const struct rg_progress *progress, int i)
{
    const struct rg_run *run = progress->run;

    return run->ops[i] || progress->view.entries[run->items[i].id].members
               ? group_of(progress, i) : 1;
}

/* Of an allgather, alltoall or reducescatter the caller adds the counts and the result. */
static struct rg_coll coll_of(const struct rg_op *op, const struct rg_tensor *t,
                              enum rg_coll_kind kind)
{
    bool counted = kind == RG_COLL_ALLREDUCE || kind == RG_COLL_BROADCAST;

    return (struct rg_coll){ .kind = kind,
                             .dtype = op->element->dtype,
                             .op = op->reduction,
                             .count = counted ? t->count : 0,
                             .in = t->in,
                             .out = t->out,
                             .scale = op->scale,
                             .memory = op->buffers.memory,
                             .stream = op->buffers.stream,
                             .device = op->buffers.device };
}

/* For a rank that has joined. The entry stays as it is until this rank has done its part. */
static struct rg_coll zeros_of(const struct rg_progress *progress, const struct rg_entry *entry,
                               int t)
{
    const struct rg_signature *sig = &entry->sig, *own = &members_of(&progress->view, entry)[t];

    return (struct rg_coll){ .kind = RG_COLL_ALLREDUCE,
                             .dtype = sig->dtype,
                             .op = sig->op == REIGEN_AVERAGE ? REIGEN_SUM : sig->op,
                             .count = sig->group_size > 1 && !entry->members
                                          ? (size_t) sig->group_count
                                          : elements(own->shape, own->ndim, 0) *
                                                rg_signature_parts(own),
                             .scale = rg_signature_scale(sig, progress->team->size),
                             .memory = sig->memory,
                             .stream = sig->memory == RG_MEMORY_CUDA ? progress->run->lane.stream
                                                                     : NULL,
                             .device = progress->run->lane.device };
}

/* ---- tensors on a GPU */

/* For the timeline: the stream begins with the run, once it is through with what it waits for. */
static void begin_span(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;
    struct rg_lane *lane = &run->lane;
    void *about = progress->observer->ops->on_device(progress, run->ops, run->nitems);

    if (about && !lane->spans)
        rg_gpu_spans_create(lane->device, &lane->spans);
    if (lane->spans && about)
        rg_gpu_spans_begin(lane->spans, lane->stream, about); /* else it is not in the timeline */
    else
        free(about);
}

static void tell_span(void *arg, void *about, uint64_t begin_ns, uint64_t end_ns)
{
    struct rg_progress *progress = arg;

    progress->observer->ops->device(progress, about, begin_ns, end_ns);
}

void rg_run_look(struct rg_progress *progress)
{
    struct rg_gpu_spans *spans = progress->run->lane.spans;

    if (__builtin_expect(rg_gpu_spans_wait(spans), 0))
        rg_gpu_spans_look(spans, tell_span, progress);
}

void rg_run_look_last(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;

    for (int ms = 0; run && ms < SPANS_END_MS && rg_gpu_spans_wait(run->lane.spans); ms++) {
        rg_run_look(progress);
        rg_sleep_ms(1);
    }
}

/* Our stream waits for the submitters'. */
static int follow(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;
    struct rg_lane *lane = &run->lane;
    bool on_device = false;
    int r = 0;

    for (int i = 0; i < run->nitems && r == 0; i++) {
        struct rg_op *op = run->ops[i];

        if (!op || !op->buffers.ready)
            continue;
        if (!lane->stream) {
            lane->device = op->buffers.device;
            r = rg_gpu_stream_create(lane->device, &lane->stream, &run->cause);
        }
        if (r == 0)
            r = rg_gpu_mark_await(op->buffers.ready, lane->stream, &run->cause);
        op->buffers.stream = lane->stream;
        on_device = true;
    }
    if (r == 0 && on_device && __builtin_expect(run->timed, 0))
        begin_span(progress);
    return r;
}

int rg_run_mark(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;
    struct rg_gpu_mark *mark = NULL;
    int r = 0;

    for (int i = 0; i < run->nitems && r == 0; i++) {
        struct rg_op *op = run->ops[i];

        if (!op || !op->buffers.ready)
            continue;
        if (!mark)
            r = rg_gpu_mark(run->lane.device, run->lane.stream, &mark, &run->cause);
        op->buffers.done = rg_gpu_mark_ref(mark);
    }
    rg_gpu_mark_unref(mark);
    if (run->lane.spans)
        rg_gpu_spans_end(run->lane.spans, run->lane.stream);
    return r;
}

/* What exec is about to write: often new memory, which the kernel has yet to give. */
static void prepare_out(const struct rg_progress *progress, const struct rg_coll *coll,
                        size_t nbytes)
{
    if (nbytes >= RG_PAGES_HUGE_MIN && coll->out && coll->out != coll->in &&
        coll->memory == RG_MEMORY_HOST && progress->config->huge_pages)
        rg_pages_want_huge(coll->out, nbytes);
}

/* Memory for a result, where the operation's others are; NULL: there is none. */
static void *new_result(struct rg_run *run, const struct rg_coll *coll, size_t nbytes)
{
    void *at = NULL;

    if (coll->memory == RG_MEMORY_HOST)
        return malloc(nbytes ? nbytes : 1);
    return rg_gpu_alloc(coll->device, coll->stream, nbytes, &at, &run->cause) == 0 ? at : NULL;
}

/* ---- allreduces */

/* 1: exec is at work, 0: it is done already, or -errno. */
static int post_on_device(struct rg_progress *progress, const struct rg_coll *colls, int n)
{
    struct rg_run *run = progress->run;
    int r = 0;

    if (!run->staged)
        r = rg_staged_create(progress->exec, progress->team, &run->staged);
    return r < 0 ? r : rg_staged_post(run->staged, colls, n, &run->cause);
}

static int post_fused(struct rg_progress *progress, const struct rg_coll *colls, int n)
{
    int r;

    if (colls[0].memory != RG_MEMORY_HOST)
        return post_on_device(progress, colls, n);
    r = rg_exec_post_fused(progress->exec, colls, n);
    return r < 0 ? r : 1;
}

static int post(struct rg_progress *progress, const struct rg_coll *coll)
{
    int r;

    if (coll->memory != RG_MEMORY_HOST)
        return post_on_device(progress, coll, 1);
    r = rg_exec_post(progress->exec, coll);
    return r < 0 ? r : 1;
}

unsigned rg_run_poll_us(struct rg_progress *progress)
{
    unsigned us = rg_exec_poll_us(progress->exec);
    bool copies = rg_staged_active(progress->run->staged);

    if (rg_gpu_spans_wait(progress->run->lane.spans) && (us == 0 || us > SPANS_US))
        us = SPANS_US;
    return copies && (us == 0 || us > COPY_US) ? COPY_US : us;
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

        /* Never more than there was room for: members may become known meanwhile. */
        for (int t = 0; k < n && t < tensors_of(progress, i); t++, k++) {
            run->colls[k] = op ? coll_of(op, &op->tensors[t], RG_COLL_ALLREDUCE)
                               : zeros_of(progress, entry, t);
            run->colls[k].repeat = (uint8_t) rg_signature_repeat(&entry->sig);
            run->ncount += run->colls[k].count;
            prepare_out(progress, &run->colls[k],
                        run->colls[k].count * rg_dtype_nbytes(run->colls[k].dtype));
        }
    }
    run->ncolls = n;
    run->nposted = n;
    return 0;
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
    return post_fused(progress, run->colls + from, n);
}

/* Very many small tensors between nodes in one piece: two copies, where each would else go through
 * exec and the kernel as a piece of its own. */
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
    return post(progress, &coll);
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

/* Collect the tensors of an allreduce run and start. */
static int reduce_post(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;
    size_t nbytes, n = 0;
    int r = collect(progress);

    if (r < 0)
        return r;
    for (int i = 0; i < run->nitems; i++)
        n += (size_t) group_of(progress, i);
    if (run->colls[0].op == REIGEN_ADASUM && run->colls[0].memory == RG_MEMORY_HOST)
        return post_adasum(progress);
    nbytes = run->ncount * rg_dtype_nbytes(run->colls[0].dtype);
    if (n == 1)
        return post(progress, &run->colls[0]);
    if (progress->view.nnodes > 1 && nbytes / n <= PACK_MEAN_MAX &&
        run->colls[0].memory == RG_MEMORY_HOST)
        return post_packed(progress, nbytes);
    run->nposted = 0;
    return post_more(progress);
}

/* When exec is done with it. */
static int reduce_next(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;

    if (run->by_adasum) {
        int r = rg_adasum_next(run->adasum);

        if (r != 0)
            return r;
        run->by_adasum = false;
    } else if (run->nposted < run->ncolls) {
        return post_more(progress);
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
    run->step = STEP_SIZES;
    return post(progress, &coll);
}

/* Room for so many rows, unless the caller has some, and what fills it; without memory this rank
 * goes on with the others and drops its result. nall: elements that all ranks move; 0: there is
 * nothing to do. */
static int post_result(struct rg_progress *progress, const struct rg_op *op, struct rg_tensor *t,
                       struct rg_coll *coll, int64_t rows, size_t nall)
{
    struct rg_run *run = progress->run;

    rg_run_activity(progress, "ALLOCATE_OUTPUT");
    t->result_rows = rows;
    t->result_nbytes = (size_t) rows * row_of(op, t) * rg_dtype_nbytes(coll->dtype);
    if (!t->out) {
        t->result = new_result(run, coll, t->result_nbytes);
        if (!t->result)
            run->lacks_memory = true;
    }
    coll->counts = run->counts;
    coll->out = t->out ? t->out : t->result;
    prepare_out(progress, coll, t->result_nbytes);
    run->step = STEP_DATA;
    return nall == 0 ? 0 : post(progress, coll);
}

/* First dimensions, where they may differ, then tensors. */
static int step_allgather(struct rg_progress *progress, struct rg_op *op, struct rg_tensor *t)
{
    struct rg_run *run = progress->run;
    size_t each = row_of(op, t);
    int64_t total = 0;
    struct rg_coll coll = coll_of(op, t, RG_COLL_ALLGATHERV);

    if (run->step == STEP_BEGIN && !t->out) {
        int r = room_for_rows(run, (size_t) progress->team->size);

        return r < 0 ? r : post_int64s(progress, &t->shape[0], 1);
    }
    for (int i = 0; i < progress->team->size; i++) {
        int64_t rows = t->out ? t->shape[0] : run->rows[i];

        run->counts[i] = (size_t) rows * each;
        total += rows;
    }
    return post_result(progress, op, t, &coll, total, (size_t) total * each);
}

/* First how many rows each sends to each, then the rows. */
static int step_alltoall(struct rg_progress *progress, struct rg_op *op, struct rg_tensor *t)
{
    struct rg_run *run = progress->run;
    size_t each = row_of(op, t), size = (size_t) progress->team->size, any = 0;
    size_t me = (size_t) progress->team->rank;
    int64_t total = 0;
    struct rg_coll coll = coll_of(op, t, RG_COLL_ALLTOALLV);

    if (run->step == STEP_BEGIN) {
        int r = room_for_rows(run, size * size + size);

        for (size_t i = 0; r == 0 && i < size; i++)
            run->rows[size * size + i] = op->splits.sent[i];
        return r < 0 ? r : post_int64s(progress, run->rows + size * size, size);
    }
    for (size_t i = 0; i < size; i++) {
        run->counts[i] = (size_t) op->splits.sent[i] * each;
        run->recv_counts[i] = (size_t) run->rows[i * size + me] * each;
        op->splits.received[i] = (int32_t) run->rows[i * size + me];
        total += op->splits.received[i];
    }
    for (size_t i = 0; i < size * size; i++)
        any += (size_t) run->rows[i];
    coll.recv_counts = run->recv_counts;
    coll.total = any * each;
    return post_result(progress, op, t, &coll, total, coll.total);
}

static int step_reducescatter(struct rg_progress *progress, struct rg_op *op, struct rg_tensor *t)
{
    struct rg_run *run = progress->run;
    int64_t rows = t->shape[0], size = progress->team->size, mine = 0;
    const struct rg_signature *sig = &progress->view.entries[run->items[0].id].sig;
    struct rg_coll coll = coll_of(op, t, RG_COLL_REDUCESCATTERV);

    coll.repeat = sig->repeats ? RG_REPEAT_BY_SIZE : RG_REPEAT_NOT;
    for (int64_t i = 0; i < size; i++) {
        int64_t part = rows / size + (i < rows % size);

        run->counts[i] = (size_t) part * row_of(op, t);
        if (i == progress->team->rank)
            mine = part;
    }
    return post_result(progress, op, t, &coll, mine, t->count);
}

static int step_broadcast(struct rg_progress *progress, struct rg_op *op, struct rg_tensor *t)
{
    struct rg_coll coll = coll_of(op, t, RG_COLL_BROADCAST);

    progress->run->step = STEP_DATA;
    coll.root = op->root;
    if (op->root != progress->team->rank)
        coll.in = NULL;
    prepare_out(progress, &coll, t->nbytes);
    return t->count == 0 ? 0 : post(progress, &coll);
}

/* The next step of a tensor that has one; 0: none is left. */
static int step(struct rg_progress *progress, struct rg_op *op)
{
    struct rg_run *run = progress->run;
    int r = 0;

    for (; run->tensor < op->n; run->tensor++, run->step = STEP_BEGIN) {
        struct rg_tensor *t = &op->tensors[run->tensor];

        if (run->step == STEP_DATA)
            continue;
        if (op->kind == REIGEN_ALLGATHER)
            r = step_allgather(progress, op, t);
        else if (op->kind == REIGEN_ALLTOALL)
            r = step_alltoall(progress, op, t);
        else if (op->kind == REIGEN_REDUCESCATTER)
            r = step_reducescatter(progress, op, t);
        else
            r = step_broadcast(progress, op, t);
        if (r != 0)
            return r;
    }
    return 0;
}

int rg_run_next(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;
    int r = run->posted ? 0 : follow(progress);

    if (r < 0)
        return r;
    if (rg_staged_active(run->staged)) {
        r = rg_staged_next(run->staged, &run->cause);
        if (r != 0)
            return r;
    }
    if (run->kind == REIGEN_ALLREDUCE) {
        r = run->posted ? reduce_next(progress) : reduce_post(progress);
        /* Of tensors on a GPU some may be done at once, as they are empty. */
        while (r == 0 && run->colls)
            r = reduce_next(progress);
        return r;
    }
    if (run->kind == REIGEN_BARRIER || !run->ops[0])
        return 0;
    return step(progress, run->ops[0]);
}

int rg_run_create(int size, struct rg_run **ret_run)
{
    struct rg_run *run = calloc(1, sizeof(*run));

    if (!run)
        return -ENOMEM;
    run->counts = calloc(2 * (size_t) size, sizeof(size_t));
    if (!run->counts) {
        free(run);
        return -ENOMEM;
    }
    run->recv_counts = run->counts + size;
    *ret_run = run;
    return 0;
}

void rg_run_destroy(struct rg_run *run)
{
    if (!run)
        return;
    rg_adasum_destroy(run->adasum);
    drop_collected(run);
    rg_staged_destroy(run->staged);
    rg_gpu_spans_destroy(run->lane.spans);
    rg_gpu_stream_destroy(run->lane.device, run->lane.stream);
    free(run->counts);
    free(run->rows);
    free(run);
}
