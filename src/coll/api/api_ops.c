/* SPDX-License-Identifier: Apache-2.0 */
/* The operations, as users call them; the small ones go their short way from here. */
#include <string.h>

#include "base/time.h"
#include "coll/api/api.h"
#include "coll/ground/element.h"
#include "coll/ground/pages.h"

#define WAIT_US_MAX INT64_C(1000000000000)

static int submit(struct rg_call *call, reigen_handle *handles)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_error err = RG_ERROR_INIT;
    struct rg_progress *progress;
    int r;

    if (!rt)
        return rg_api_uninitialised();
    if (!handles)
        return rg_api_failf(EINVAL, "ret_handle is NULL");
    progress = rg_api_progress(rt, call->kind, call->options, &call->set, &err);
    if (!progress)
        return rg_api_fail(&err);
    call->waited = rg_api_waited(rt, true);
    r = rg_api_device_begin(progress, call, &err);
    if (r == 0)
        r = rg_call_submit(progress, call, handles, NULL, &err);
    rg_api_device_end(call);
    rg_notify_flush(&progress->notify);
    rg_set_leave(call->set);
    return r < 0 ? rg_api_fail(&err) : 0;
}

/* Of an operation that is done: the caller's stream, if it has one, goes on behind it. */
static int outcome(const struct rg_op *op)
{
    int r = rg_api_device_await(op);

    return r < 0 ? r : rg_api_outcome(op);
}

/* Submit and wait, without a handle. */
static int run(struct rg_call *call)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_error err = RG_ERROR_INIT;
    struct rg_op *op = NULL;
    struct rg_progress *progress;
    int r;

    if (!rt)
        return rg_api_uninitialised();
    progress = rg_api_progress(rt, call->kind, call->options, &call->set, &err);
    if (!progress)
        return rg_api_fail(&err);
    call->waits = true;
    call->waited = rg_api_waited(rt, false);
    r = rg_api_device_begin(progress, call, &err);
    if (r == 0)
        r = rg_call_submit(progress, call, NULL, &op, &err);
    rg_api_device_end(call);
    if (r == 0) {
        rg_progress_wait(progress, op, RG_NEVER_NS);
        rg_api_count_wait(rt);
    }
    rg_set_leave(call->set);
    if (r < 0)
        return rg_api_fail(&err);
    r = outcome(op);
    rg_op_unref(op);
    return r;
}

REIGEN_API int reigen_type_add(const char *name, size_t nbytes, int parts, int *ret_dtype)
{
    struct rg_error err = RG_ERROR_INIT;

    if (!ret_dtype)
        return rg_api_failf(EINVAL, "ret_dtype is NULL");
    return rg_element_add(name, nbytes, parts, ret_dtype, &err) < 0 ? rg_api_fail(&err) : 0;
}

REIGEN_API int reigen_deterministic(int on)
{
    return rg_call_deterministic(on);
}

static struct rg_call one(int kind, const char *const *name, const void *const *in,
                          void *const *out, int dtype, const int64_t *const *shape,
                          const int *ndim, const struct reigen_options *options)
{
    return (struct rg_call){ .kind = kind,
                             .n = 1,
                             .names = name,
                             .ins = in,
                             .outs = out,
                             .dtype = dtype,
                             .shapes = shape,
                             .ndims = ndim,
                             .options = options };
}

/* It has no name and no tensor. */
static struct rg_call barrier(const struct reigen_options *options)
{
    static const int ndim = 0;

    return one(REIGEN_BARRIER, NULL, NULL, NULL, REIGEN_UINT8, NULL, &ndim, options);
}

REIGEN_API int reigen_allreduce_async(const char *name, const void *in, void *out, int dtype,
                                      const int64_t *shape, int ndim,
                                      const struct reigen_options *options,
                                      reigen_handle *ret_handle)
{
    struct rg_call call = one(REIGEN_ALLREDUCE, &name, &in, &out, dtype, &shape, &ndim, options);

    return submit(&call, ret_handle);
}

REIGEN_API int reigen_allgather_async(const char *name, const void *in, int dtype,
                                      const int64_t *shape, int ndim,
                                      const struct reigen_options *options,
                                      reigen_handle *ret_handle)
{
    struct rg_call call = one(REIGEN_ALLGATHER, &name, &in, NULL, dtype, &shape, &ndim, options);

    return submit(&call, ret_handle);
}

REIGEN_API int reigen_broadcast_async(const char *name, const void *in, void *out, int dtype,
                                      const int64_t *shape, int ndim,
                                      const struct reigen_options *options,
                                      reigen_handle *ret_handle)
{
    struct rg_call call = one(REIGEN_BROADCAST, &name, &in, &out, dtype, &shape, &ndim, options);

    return submit(&call, ret_handle);
}

REIGEN_API int reigen_into_async(int kind, const char *name, const void *in, void *out, int dtype,
                                 size_t count, const struct reigen_options *options,
                                 reigen_handle *ret_handle)
{
    /* The second dimension must agree. */
    int64_t each = (int64_t) count, shape[] = { 1, each };
    const int64_t *dims = shape;
    struct rg_call call = one(kind, &name, &in, &out, dtype, &dims, &(int){ 2 }, options);

    if (kind != REIGEN_ALLGATHER && kind != REIGEN_REDUCESCATTER)
        return rg_api_failf(EINVAL, "%s has no form with a buffer for its result",
                            rg_kind_name(kind));
    if (count > INT64_MAX || (count && !out))
        return rg_api_failf(EINVAL, "a buffer is NULL, or too large");
    if (kind == REIGEN_REDUCESCATTER)
        shape[0] = reigen_process_set_size(options ? options->process_set : 0);
    return shape[0] < 0 ? (int) shape[0] : submit(&call, ret_handle);
}

REIGEN_API int reigen_alltoall_async(const char *name, const void *in, int dtype,
                                     const int64_t *shape, int ndim, const int32_t *splits,
                                     int nsplits, const struct reigen_options *options,
                                     reigen_handle *ret_handle)
{
    struct rg_call call = one(REIGEN_ALLTOALL, &name, &in, NULL, dtype, &shape, &ndim, options);

    if (nsplits != 0 && !splits)
        return rg_api_failf(EINVAL, "alltoall expects a 1D splits tensor");
    call.splits = splits;
    call.nsplits = nsplits;
    return submit(&call, ret_handle);
}

REIGEN_API int reigen_reducescatter_async(const char *name, const void *in, int dtype,
                                          const int64_t *shape, int ndim,
                                          const struct reigen_options *options,
                                          reigen_handle *ret_handle)
{
    struct rg_call call = one(REIGEN_REDUCESCATTER, &name, &in, NULL, dtype, &shape, &ndim,
                              options);

    return submit(&call, ret_handle);
}

REIGEN_API int reigen_grouped_async(int kind, int n, const char *const *names,
                                    const void *const *ins, void *const *outs, int dtype,
                                    const int64_t *const *shapes, const int *ndims,
                                    const struct reigen_options *options,
                                    reigen_handle *ret_handles)
{
    struct rg_call call = one(kind, names, ins, outs, dtype, shapes, ndims, options);

    if (kind != REIGEN_ALLREDUCE && kind != REIGEN_ALLGATHER && kind != REIGEN_REDUCESCATTER)
        return rg_api_failf(EINVAL, "%s cannot be grouped", rg_kind_name(kind));
    if (n < 1 || !ins || !shapes || !ndims)
        return rg_api_failf(EINVAL, "a group needs at least one tensor");
    call.n = n;
    if (kind != REIGEN_ALLREDUCE)
        call.outs = NULL;
    return submit(&call, ret_handles);
}

REIGEN_API int reigen_barrier_async(const struct reigen_options *options,
                                    reigen_handle *ret_handle)
{
    struct rg_call call = barrier(options);

    return submit(&call, ret_handle);
}

REIGEN_API int reigen_join_async(reigen_handle *ret_handle)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_error err = RG_ERROR_INIT;
    struct rg_handles *handles;
    reigen_handle handle;
    struct rg_op *op;
    int r;

    if (!rt)
        return rg_api_uninitialised();
    if (!ret_handle)
        return rg_api_failf(EINVAL, "ret_handle is NULL");
    handles = rt->progress->handles;
    op = calloc(1, sizeof(*op));
    if (!op)
        return rg_api_failf(ENOMEM, "out of memory");
    op->kind = REIGEN_JOIN;
    op->n = 1;
    op->tensors = &op->one;
    op->sigs = &op->one_sig;
    atomic_store(&op->refs, 2);
    pthread_mutex_lock(&handles->lock);
    r = rg_handles_add(handles, op, 0, &handle);
    pthread_mutex_unlock(&handles->lock);
    if (r < 0) {
        free(op);
        return rg_api_failf(ENOMEM, "out of memory");
    }
    if (rg_join_post(rt->progress, op, &err) < 0) {
        pthread_mutex_lock(&handles->lock);
        rg_handles_remove(handles, rg_handles_find(handles, handle));
        pthread_mutex_unlock(&handles->lock);
        free(op);
        return rg_api_fail(&err);
    }
    *ret_handle = handle;
    return 0;
}

REIGEN_API int reigen_allreduce(const char *name, const void *in, void *out, int dtype,
                                const int64_t *shape, int ndim,
                                const struct reigen_options *options)
{
    struct rg_call call = one(REIGEN_ALLREDUCE, &name, &in, &out, dtype, &shape, &ndim, options);

    return run(&call);
}

REIGEN_API int reigen_broadcast(const char *name, const void *in, void *out, int dtype,
                                const int64_t *shape, int ndim,
                                const struct reigen_options *options)
{
    struct rg_call call = one(REIGEN_BROADCAST, &name, &in, &out, dtype, &shape, &ndim, options);

    return run(&call);
}

REIGEN_API int reigen_barrier(void)
{
    struct rg_call call = barrier(NULL);

    return run(&call);
}

/* ---- handles */

/* The operation of a handle with a reference for the caller, or NULL. */
static struct rg_op *hold(struct rg_runtime *rt, reigen_handle number, int *ret_tensor)
{
    struct rg_handles *handles = rt->progress->handles;
    struct rg_handle *handle;
    struct rg_op *op = NULL;

    pthread_mutex_lock(&handles->lock);
    handle = rg_handles_find(handles, number);
    if (handle) {
        op = handle->op;
        *ret_tensor = handle->tensor;
        atomic_fetch_add(&op->refs, 1);
    }
    pthread_mutex_unlock(&handles->lock);
    return op;
}

/* As rg_progress_wait, by the progress engine of the operation's process set; the caller learns
 * of the end. An operation whose set is gone is done, or will be in a moment, as its removal
 * ends it. */
static int await(struct rg_runtime *rt, struct rg_op *op, uint64_t deadline_ns)
{
    struct rg_progress *progress = op->set ? rg_set_use(op->set) : rt->progress;
    int r;

    if (!progress) {
        while (!rg_op_done(op) && rg_now_ns() < deadline_ns)
            rg_sleep_ms(1);
        return rg_op_done(op) ? 0 : -EAGAIN;
    }
    r = rg_progress_wait(progress, op, deadline_ns);
    if (r == 0)
        rg_op_seen(op);
    rg_set_leave(op->set);
    return r;
}

static int unknown(reigen_handle handle)
{
    return rg_api_failf(EINVAL, "handle %lld is not known", (long long) handle);
}

/* Bring it on a little, without telling of its end. */
static void look(struct rg_runtime *rt, struct rg_op *op)
{
    struct rg_progress *progress = op->set ? rg_set_use(op->set) : rt->progress;

    if (!progress)
        return;
    rg_progress_wait(progress, op, 0);
    rg_set_leave(op->set);
}

REIGEN_API int reigen_poll(reigen_handle handle)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_op *op;
    int tensor, r;
    bool done;

    if (!rt) {
        r = rg_api_over(0);
        return r == -EAGAIN ? 0 : r;
    }
    op = hold(rt, handle, &tensor);
    if (!op)
        return unknown(handle);
    done = rg_op_done(op) && rg_api_device_passed(op);
    if (done)
        await(rt, op, 0); /* its end has been seen */
    else
        look(rt, op);
    rg_op_unref(op);
    return done;
}

static int wait_until(struct rg_runtime *rt, reigen_handle handle, uint64_t deadline_ns)
{
    int tensor, r;
    struct rg_op *op;

    if (!rt)
        return rg_api_over(deadline_ns);
    op = hold(rt, handle, &tensor);
    if (!op)
        return unknown(handle);
    r = await(rt, op, deadline_ns);
    if (r == 0)
        r = outcome(op);
    rg_op_unref(op);
    return r;
}

/* As a caller that may then use names again, unless it has only looked. */
static int wait_for(struct rg_runtime *rt, reigen_handle handle, uint64_t deadline_ns)
{
    int r = wait_until(rt, handle, deadline_ns);

    if (rt && r != -EAGAIN && deadline_ns)
        rg_api_count_wait(rt);
    return r;
}

REIGEN_API int reigen_wait(reigen_handle handle, int timeout_ms)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    return wait_for(rt, handle, rg_api_deadline(timeout_ms));
}

REIGEN_API int reigen_wait_us(reigen_handle handle, int64_t timeout_us)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    uint64_t us = timeout_us > WAIT_US_MAX ? WAIT_US_MAX : (uint64_t) timeout_us;

    return wait_for(rt, handle, timeout_us <= 0 ? 0 : rg_now_ns() + us * 1000);
}

REIGEN_API int reigen_on_done(reigen_handle handle,
                              void (*fn)(void *arg, reigen_handle handle, int status), void *arg)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_watcher watcher = { .fn = fn, .arg = arg, .handle = handle };
    struct rg_progress *progress;
    struct rg_op *op;
    int tensor, r = 1;

    if (!rt)
        return rg_api_uninitialised();
    if (!fn)
        return rg_api_failf(EINVAL, "reigen_on_done without a function");
    op = hold(rt, handle, &tensor);
    if (!op)
        return unknown(handle);
    progress = op->set ? rg_set_use(op->set) : rt->progress;
    if (progress)
        r = rg_notify_add(&progress->notify, &progress->polled, op, &watcher);
    else
        await(rt, op, RG_NEVER_NS); /* of a process set that is just being removed */
    if (r == 1 && progress)
        rg_op_seen(op);
    if (r == 1) {
        watcher.status = op->status;
        rg_notify_call(&watcher);
    }
    if (progress)
        rg_set_leave(op->set);
    rg_op_unref(op);
    return r < 0 ? rg_api_failf(ENOMEM, "out of memory") : 0;
}

REIGEN_API int reigen_wait_all(int n, const reigen_handle *handles, int timeout_ms)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    uint64_t deadline_ns = rg_api_deadline(timeout_ms);
    int failure = 0;

    if (!rt)
        return rg_api_over(deadline_ns);
    for (int i = 0; i < n; i++) {
        int r = wait_until(rt, handles[i], deadline_ns);

        if (r == -EAGAIN)
            return r;
        if (r < 0 && failure == 0)
            failure = r;
    }
    if (deadline_ns)
        rg_api_count_wait(rt);
    return failure;
}

/* Of a tensor whose result the runtime has allocated: 0 when it is there. */
static int result_state(const struct rg_op *op, const struct rg_tensor *t)
{
    if (!rg_op_done(op))
        return -EAGAIN;
    if (op->status < 0)
        return rg_api_outcome(op);
    return t->result ? 0 : rg_api_failf(EINVAL, "%s has no result of its own",
                                        rg_kind_name(op->kind));
}

REIGEN_API int reigen_output(reigen_handle handle, const void **ret_data, size_t *ret_nbytes,
                             int64_t *ret_shape, int *ret_ndim)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_op *op;
    const struct rg_tensor *t;
    int tensor = 0, r;

    if (!rt)
        return rg_api_uninitialised();
    op = hold(rt, handle, &tensor);
    if (!op)
        return unknown(handle);
    t = &op->tensors[tensor];
    r = result_state(op, t);
    if (r == 0) {
        *ret_data = t->result;
        *ret_nbytes = t->result_nbytes;
        ret_shape[0] = t->result_rows;
        for (int d = 1; d < t->ndim; d++)
            ret_shape[d] = t->shape[d];
        *ret_ndim = t->ndim;
    }
    rg_op_unref(op);
    return r;
}

REIGEN_API int reigen_output_copy(reigen_handle handle, void *to, size_t nbytes)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_op *op;
    const struct rg_tensor *t;
    int tensor = 0, r;

    if (!rt)
        return rg_api_uninitialised();
    op = hold(rt, handle, &tensor);
    if (!op)
        return unknown(handle);
    t = &op->tensors[tensor];
    r = result_state(op, t);
    if (r == 0 && nbytes != t->result_nbytes)
        r = rg_api_failf(EINVAL, "the result has %zu bytes, not %zu", t->result_nbytes, nbytes);
    if (r == 0 && rt->config.huge_pages && op->buffers.memory == RG_MEMORY_HOST)
        rg_pages_want_huge(to, nbytes);
    if (r == 0 && nbytes > 0)
        r = rg_api_device_copy(op, to, t->result, nbytes);
    rg_op_unref(op);
    return r;
}

REIGEN_API int reigen_received_splits(reigen_handle handle, int32_t *ret_splits, int n)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_op *op;
    int tensor, r = 0;

    if (!rt)
        return rg_api_uninitialised();
    op = hold(rt, handle, &tensor);
    if (!op)
        return unknown(handle);
    if (!op->splits.received || n < op->splits.nreceived)
        r = rg_api_failf(EINVAL, "no alltoall, or room for fewer than %d splits",
                         op->splits.nreceived);
    else if (!rg_op_done(op))
        r = -EAGAIN;
    else if (op->status < 0)
        r = rg_api_outcome(op);
    else
        memcpy(ret_splits, op->splits.received,
               (size_t) op->splits.nreceived * sizeof(*ret_splits));
    rg_op_unref(op);
    return r;
}

REIGEN_API const char *reigen_handle_error(reigen_handle handle)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    int tensor;
    struct rg_op *op = rt ? hold(rt, handle, &tensor) : NULL;
    const char *text;

    if (!op)
        return "";
    text = rg_op_done(op) && op->status < 0 ? rg_call_cause(op) : "";
    rg_op_unref(op);
    return text;
}

REIGEN_API int reigen_release(reigen_handle number)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_progress *progress;
    struct rg_handle *handle;
    struct rg_op *op = NULL;
    bool last = false;

    if (!rt)
        return rg_api_uninitialised();
    pthread_mutex_lock(&rt->progress->handles->lock);
    handle = rg_handles_find(rt->progress->handles, number);
    if (handle) {
        op = handle->op;
        last = --op->nhandles == 0;
        rg_handles_remove(rt->progress->handles, handle);
    }
    pthread_mutex_unlock(&rt->progress->handles->lock);
    if (!op)
        return unknown(number);
    progress = op->set ? rg_set_use(op->set) : rt->progress;
    if (progress) {
        if (!rg_op_try(progress, op) && op->mode == RG_ENTRY_INLINE)
            rg_polled_later(&progress->polled, op); /* nobody else will look at it */
        if (last)
            rg_op_drop_name(progress, op);
        rg_notify_flush(&progress->notify);
        rg_set_leave(op->set);
    }
    if (last && rg_op_done(op))
        rg_op_drop_results(op);
    rg_op_unref(op);
    return 0;
}

REIGEN_API int reigen_release_all(int n, const reigen_handle *handles)
{
    if (!reigen_is_initialized())
        return rg_api_uninitialised();
    for (int i = 0; i < n; i++)
        reigen_release(handles[i]);
    return 0;
}
