/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent requests: everything that can be done once is done in reigen_request_create; a start
 * of a small operation then takes no lock, no allocation and no system call.
 */
#include <string.h>

#include "base/time.h"
#include "coll/api/api.h"

struct reigen_request {
    struct rg_op *op;
    struct rg_runtime *rt;
    struct rg_set *set; /* NULL: all ranks; valid while alive() */
    uint64_t generation;
};

/* rt: what this thread is in, or NULL. */
static bool alive(const struct reigen_request *request, const struct rg_runtime *rt)
{
    return rt && rt == request->rt && rt->generation == request->generation;
}

/* Into *ret_engine the request's, held until rg_set_leave(request->set). 0, -ENOTCONN, or -ENOENT
 * when its process set is gone. */
static int enter(const struct reigen_request *request, const struct rg_runtime *rt,
                 struct rg_progress **ret_progress)
{
    struct rg_progress *progress;

    if (!alive(request, rt))
        return rg_api_uninitialised();
    progress = request->set ? rg_set_use(request->set) : request->rt->progress;
    if (!progress)
        return rg_api_failf(ENOENT, "%s: Process set provided does not exist, or has not been "
                                    "registered. (process set %d has been removed)",
                            rg_kind_name(request->op->kind), request->set->id);
    *ret_progress = progress;
    return 0;
}

/* What was in flight in a process set that is being removed ends with it: a moment. */
static void settle(const struct reigen_request *request)
{
    while (!rg_op_done(request->op))
        rg_sleep_ms(1);
}

/* The operation's record, pinned. */
static int find_record(struct rg_progress *progress, const struct rg_call *call, struct rg_op *op,
                       struct rg_error *err)
{
    char key[RG_KEY_MAX];
    int r;

    pthread_mutex_lock(&progress->lock);
    r = rg_call_key(progress, call, key, err);
    if (r == 0 && rg_call_record(progress, call, key, &op->record) < 0)
        r = rg_error_set(err, ENOMEM, "out of memory");
    if (r == 0)
        op->record->pins++;
    pthread_mutex_unlock(&progress->lock);
    return r;
}

REIGEN_API int reigen_request_create(int kind, const char *name, int dtype, const int64_t *shape,
                                     int ndim, const struct reigen_options *options,
                                     struct reigen_request **ret_request)
{
    static const char placeholder; /* buffers are checked at the start */
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_error err = RG_ERROR_INIT;
    const void *in = &placeholder;
    void *out = (void *) &placeholder;
    struct rg_call call = { .kind = kind, .n = 1, .names = &name, .ins = &in, .outs = &out,
                            .dtype = dtype, .shapes = &shape, .ndims = &ndim,
                            .options = options };
    rg_autofree struct reigen_request *request = calloc(1, sizeof(*request));
    struct rg_progress *progress;
    int r;

    if (!rt)
        return rg_api_uninitialised();
    if (kind != REIGEN_ALLREDUCE && kind != REIGEN_BROADCAST)
        return rg_api_failf(EINVAL, "%s cannot be a persistent request", rg_kind_name(kind));
    if (!request)
        return rg_api_failf(ENOMEM, "out of memory");
    progress = rg_api_progress(rt, kind, options, &request->set, &err);
    if (!progress)
        return rg_api_fail(&err);
    call.set = request->set;
    r = rg_call_make(progress, &call, &request->op, &err);
    if (r == 0) {
        request->op->persistent = true;
        atomic_store(&request->op->state, RG_OP_DONE);
        r = find_record(progress, &call, request->op, &err);
        if (r < 0)
            rg_op_unref(request->op);
    }
    rg_set_leave(request->set);
    if (r < 0)
        return rg_api_fail(&err);
    request->rt = rt;
    request->generation = rt->generation;
    *ret_request = rg_steal_ptr(&request);
    return 0;
}

static int in_use(const struct reigen_request *request)
{
    return rg_api_failf(EEXIST, "%s (%s)", rg_name_in_use_text, request->op->record->key);
}

/* As rg_op_hold_name and rg_op_seen; a request has no members, and one thread at a time. */
static inline void hold(struct rg_op *op)
{
    rg_record_hold(op->record, op);
    atomic_store_explicit(&op->name.held, true, memory_order_relaxed);
}

static inline void seen(struct rg_op *op)
{
    if (!atomic_load_explicit(&op->name.held, memory_order_relaxed))
        return;
    atomic_store_explicit(&op->name.held, false, memory_order_relaxed);
    rg_record_seen(op->record, op);
}

/* Where the record is held by another operation, that one has perhaps arrived already. */
static int claim(struct rg_progress *progress, struct rg_op *op)
{
    int r;

    if (rg_record_take(progress, op->record, op))
        return 0;
    pthread_mutex_lock(&progress->lock);
    r = rg_names_claim(progress, op->record, op, false);
    pthread_mutex_unlock(&progress->lock);
    return r;
}

static int start(struct rg_progress *progress, struct reigen_request *request, const void *in,
                 void *out, bool waits)
{
    struct rg_op *op = request->op;
    struct rg_error err = RG_ERROR_INIT;
    int r;

    if (rg_api_device_is(in) || rg_api_device_is(out))
        return rg_api_failf(ENOTSUP, "a persistent request takes tensors of the host's memory "
                                     "only; use reigen_allreduce_async for those on a GPU");
    if (op->nbytes && (!in || !out) &&
        (op->kind == REIGEN_ALLREDUCE || (op->root == progress->team->rank ? !in : !out)))
        return rg_api_failf(EINVAL, "a buffer is NULL");
    if (atomic_load_explicit(&op->name.held, memory_order_relaxed) || !rg_op_done(op) ||
        claim(progress, op) < 0)
        return in_use(request);
    atomic_store_explicit(&op->record->waits, rg_api_waited(request->rt, !waits),
                          memory_order_relaxed);
    hold(op);
    rg_call_renew(progress, op);
    op->one.in = in;
    op->one.out = out;
    op->waits = waits;
    if (op->text) {
        free(op->text);
        op->text = NULL;
    }
    r = rg_op_post(progress, op, &err);
    if (r < 0) {
        op->status = r;
        op->text = strdup(err.text);
        seen(op);
        rg_record_drop(progress, op->record);
        atomic_store(&op->state, RG_OP_DONE);
        return rg_api_fail(&err);
    }
    return 0;
}

REIGEN_API int reigen_request_start(struct reigen_request *request, const void *in, void *out)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_progress *progress;
    int r = enter(request, rt, &progress);

    if (r < 0)
        return r;
    r = start(progress, request, in, out, false);
    rg_set_leave(request->set);
    return r;
}

static int await(struct rg_progress *progress, struct reigen_request *request, int timeout_ms)
{
    struct rg_op *op = request->op;
    int r = rg_progress_wait(progress, op, rg_api_deadline(timeout_ms));

    if (r < 0)
        return r;
    if (timeout_ms)
        rg_api_count_wait(request->rt);
    seen(op);
    return rg_api_outcome(op);
}

REIGEN_API int reigen_request_test(struct reigen_request *request)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_progress *progress;
    int r = enter(request, rt, &progress);

    if (r == -ENOENT && rg_op_done(request->op))
        return 1; /* ended by its set's removal, or before */
    if (r == -ENOTCONN && rg_api_over(0) == -EAGAIN)
        return 0;
    if (r < 0)
        return r;
    r = rg_op_done(request->op);
    if (r)
        seen(request->op);
    else
        rg_progress_wait(progress, request->op, 0);
    rg_set_leave(request->set);
    return r;
}

REIGEN_API int reigen_request_wait(struct reigen_request *request, int timeout_ms)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_progress *progress;
    int r = enter(request, rt, &progress);

    if (r == -ENOENT)
        settle(request); /* its buffers are the caller's again */
    if (r == -ENOTCONN)
        return rg_api_over(rg_api_deadline(timeout_ms));
    if (r < 0)
        return r;
    r = await(progress, request, timeout_ms);
    rg_set_leave(request->set);
    return r;
}

REIGEN_API int reigen_request_run(struct reigen_request *request, const void *in, void *out,
                                  int timeout_ms)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_progress *progress;
    int r = enter(request, rt, &progress);

    if (r < 0)
        return r;
    r = start(progress, request, in, out, true);
    if (r == 0)
        r = await(progress, request, timeout_ms);
    if (r == -EAGAIN)
        rg_api_waited(rt, true);
    rg_set_leave(request->set);
    return r;
}

REIGEN_API const char *reigen_request_error(struct reigen_request *request)
{
    const struct rg_op *op = request->op;

    return rg_op_done(op) && op->status < 0 ? rg_call_cause(op) : "";
}

REIGEN_API void reigen_request_free(struct reigen_request *request)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_progress *progress;
    int r;

    if (!request)
        return;
    r = alive(request, rt) ? enter(request, rt, &progress) : rg_api_over(RG_NEVER_NS);
    if (r == -ENOENT)
        settle(request);
    if (r == 0) {
        rg_progress_wait(progress, request->op, RG_NEVER_NS);
        seen(request->op);
        pthread_mutex_lock(&progress->lock);
        request->op->record->pins--;
        pthread_mutex_unlock(&progress->lock);
        rg_set_leave(request->set);
    }
    rg_op_unref(request->op);
    free(request);
}
