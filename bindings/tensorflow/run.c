/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a kernel that moves data.
 *
 * Inputs are read where TensorFlow has them: the context keeps them until the run is done, so the
 * tensors got from it are given back at once, which is also what lets TensorFlow make an input's
 * buffer the output's.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "done.h"
#include "kernel.h"

/* How long a kernel in a graph looks at its operation before it leaves: the only one in flight,
 * whose result the graph is likely to be waiting for, for a while, which saves two switches of
 * threads; any other one for a moment, as further ones are likely to be waiting for its thread. */
#define LINGER_ALONE_US 150
#define LINGER_US 1
#define TEXT_MAX 2048

struct tensor {
    const void *in;
    void *out;          /* allreduce and broadcast */
    TF_Tensor *held;    /* the output, ours to give back */
    int ndim;
    int64_t shape[REIGEN_NDIM_MAX];
    reigen_handle handle;
};

struct run {
    struct kernel *kernel;
    TF_OpKernelContext *ctx;
    TF_Status *status;
    void *done;         /* a copy of TensorFlow's callback, once the kernel has returned */
    int dtype, tf_dtype;
    int nsplits;
    const int32_t *splits;
    int nranks;         /* alltoall: in the process set */
    int32_t *votes;     /* of an agreement; else NULL */
    int n;
    struct tensor tensors[];
};

/* Runs that have been submitted and have not ended. */
static _Atomic int in_flight;

static bool good(const struct run *run)
{
    return TF_GetCode(run->status) == TF_OK;
}

/* ---- errors */

static int code_of(int rc, bool submitted)
{
    switch (-rc) {
    case EINVAL:
        return submitted ? TF_FAILED_PRECONDITION : TF_INVALID_ARGUMENT;
    case EEXIST:
    case ENOENT:
        return TF_INVALID_ARGUMENT;
    case ENOTCONN:
        return TF_FAILED_PRECONDITION;
    case ENOMEM:
        return TF_RESOURCE_EXHAUSTED;
    default:
        return TF_UNKNOWN;
    }
}

void rg_tf_run_fail(const struct kernel *kernel, TF_OpKernelContext *ctx, int rc, bool submitted,
                    const char *text)
{
    TF_Status *status = TF_NewStatus();
    char message[TEXT_MAX];

    snprintf(message, sizeof(message), "%s: %s", kernel->def->type,
             text ? text : reigen_last_error());
    TF_SetStatus(status, code_of(rc, submitted), message);
    TF_OpKernelContext_Failure(ctx, status);
    TF_DeleteStatus(status);
}

/* TensorFlow itself has refused something. */
static void fail_by_status(struct run *run)
{
    TF_OpKernelContext_Failure(run->ctx, run->status);
}

static void refuse(struct run *run, const char *text)
{
    char message[TEXT_MAX];

    snprintf(message, sizeof(message), "%s: %s", run->kernel->def->type, text);
    TF_SetStatus(run->status, TF_INVALID_ARGUMENT, message);
}

/* ---- inputs and outputs */

static void read_input(struct run *run, int i)
{
    struct tensor *t = &run->tensors[i];
    TF_Tensor *tensor = NULL;

    TF_GetInput(run->ctx, i, &tensor, run->status);
    if (!good(run))
        return;
    run->tf_dtype = TF_TensorType(tensor);
    run->dtype = rg_tf_dtype(run->tf_dtype);
    if (run->dtype < 0)
        refuse(run, run->tf_dtype == TF_STRING
                        ? "tensors of strings are not supported, as these lie apart from the "
                          "tensor: hvd.broadcast_object and hvd.allgather_object take any object"
                        : "elements of this type mean nothing in another process");
    t->ndim = TF_NumDims(tensor);
    if (t->ndim > REIGEN_NDIM_MAX)
        refuse(run, "tensors of more than 16 dimensions are not supported");
    for (int d = 0; good(run) && d < t->ndim; d++)
        t->shape[d] = TF_Dim(tensor, d);
    t->in = TF_TensorData(tensor);
    TF_DeleteTensor(tensor);
}

/* The output of an allreduce or broadcast: the input's buffer where nobody else has it. */
static void make_output(struct run *run, int i)
{
    struct tensor *t = &run->tensors[i];
    int forwarded = -1;

    t->held = TF_ForwardInputOrAllocateOutput(run->ctx, &i, 1, i, t->shape, t->ndim, &forwarded,
                                              run->status);
    if (!good(run))
        return;
    t->out = TF_TensorData(t->held);
    if (forwarded == i)
        t->in = t->out;
}

static void read_splits(struct run *run)
{
    TF_Tensor *tensor = NULL;

    TF_GetInput(run->ctx, 1, &tensor, run->status);
    if (!good(run))
        return;
    if (TF_NumDims(tensor) != 1)
        refuse(run, "alltoall expects a 1D splits tensor");
    else
        run->nsplits = (int) TF_Dim(tensor, 0);
    run->splits = TF_TensorData(tensor);
    TF_DeleteTensor(tensor);
}

static void make_votes(struct run *run)
{
    struct tensor *t = &run->tensors[0];
    int n = 0;

    run->votes = rg_tf_agree_vote(run->kernel->agreement, &n);
    if (!run->votes)
        TF_SetStatus(run->status, TF_RESOURCE_EXHAUSTED, "out of memory");
    run->dtype = REIGEN_INT32;
    t->in = t->out = run->votes;
    t->ndim = 1;
    t->shape[0] = n;
}

static bool has_own_output(int kind)
{
    return kind == REIGEN_ALLREDUCE || kind == REIGEN_BROADCAST;
}

static void prepare(struct run *run)
{
    int kind = run->kernel->def->kind, set = run->kernel->options.process_set;

    if (run->kernel->agreement) {
        make_votes(run);
        return;
    }
    for (int i = 0; i < run->n && kind != REIGEN_JOIN && good(run); i++) {
        read_input(run, i);
        if (good(run) && has_own_output(kind))
            make_output(run, i);
    }
    if (kind == REIGEN_ALLTOALL && good(run)) {
        read_splits(run);
        run->nranks = set == 0 ? reigen_size() : reigen_process_set_size(set);
    }
}

static struct run *new_run(struct kernel *kernel, TF_OpKernelContext *ctx)
{
    int n = kernel->def->grouped ? TF_NumInputs(ctx) : 1;
    struct run *run = calloc(1, sizeof(*run) + (size_t) n * sizeof(run->tensors[0]));

    if (!run)
        return NULL;
    run->kernel = kernel;
    run->ctx = ctx;
    run->n = n;
    run->status = TF_NewStatus();
    return run;
}

static void free_run(struct run *run)
{
    for (int i = 0; i < run->n; i++) {
        if (run->tensors[i].held)
            TF_DeleteTensor(run->tensors[i].held);
        if (run->tensors[i].handle)
            reigen_release(run->tensors[i].handle);
    }
    TF_DeleteStatus(run->status);
    free(run->votes);
    free(run);
}

/* ---- submission */

/* What reigen_grouped_async wants, in one piece of memory. */
struct group {
    const char **names;
    const void **ins;
    void **outs;
    const int64_t **shapes;
    int *ndims;
    reigen_handle *handles;
    char *texts;
};

static void *make_group(int n, struct group *ret_group)
{
    size_t count = (size_t) n, text = NAME_MAX_NBYTES + NAME_ROOM;
    char *memory = malloc(count * (5 * sizeof(void *) + sizeof(int64_t) + text));

    if (!memory)
        return NULL;
    ret_group->handles = (reigen_handle *) (void *) memory;
    ret_group->names = (const char **) (void *) (ret_group->handles + count);
    ret_group->ins = (const void **) (ret_group->names + count);
    ret_group->outs = (void **) (ret_group->ins + count);
    ret_group->shapes = (const int64_t **) (void *) (ret_group->outs + count);
    ret_group->ndims = (int *) (void *) (ret_group->shapes + count);
    ret_group->texts = (char *) (ret_group->shapes + 2 * count);
    return memory;
}

static int submit_group(struct run *run, const char *name)
{
    struct group group;
    void *memory = make_group(run->n, &group);
    int r;

    if (!memory)
        return -ENOMEM;
    for (int i = 0; i < run->n; i++) {
        char *text = group.texts + (size_t) i * (NAME_MAX_NBYTES + NAME_ROOM);

        snprintf(text, NAME_MAX_NBYTES + NAME_ROOM, "%.*s_%dof%d", NAME_MAX_NBYTES, name, i + 1,
                 run->n);
        group.names[i] = text;
        group.ins[i] = run->tensors[i].in;
        group.outs[i] = run->tensors[i].out;
        group.shapes[i] = run->tensors[i].shape;
        group.ndims[i] = run->tensors[i].ndim;
    }
    r = reigen_grouped_async(run->kernel->def->kind, run->n, group.names, group.ins, group.outs,
                             run->dtype, group.shapes, group.ndims, &run->kernel->options,
                             group.handles);
    for (int i = 0; r == 0 && i < run->n; i++)
        run->tensors[i].handle = group.handles[i];
    free(memory);
    return r;
}

static int submit(struct run *run)
{
    struct tensor *t = &run->tensors[0];
    struct reigen_options *options = &run->kernel->options;
    char name[NAME_MAX_NBYTES + 1];

    if (run->kernel->def->kind == REIGEN_JOIN)
        return reigen_join_async(&t->handle);
    rg_tf_kernel_name(run->kernel, name);
    if (run->kernel->def->grouped)
        return submit_group(run, name);
    switch (run->kernel->def->kind) {
    case REIGEN_ALLREDUCE:
        return reigen_allreduce_async(name, t->in, t->out, run->dtype, t->shape, t->ndim, options,
                                      &t->handle);
    case REIGEN_BROADCAST:
        return reigen_broadcast_async(name, t->in, t->out, run->dtype, t->shape, t->ndim, options,
                                      &t->handle);
    case REIGEN_ALLGATHER:
        return reigen_allgather_async(name, t->in, run->dtype, t->shape, t->ndim, options,
                                      &t->handle);
    case REIGEN_REDUCESCATTER:
        return reigen_reducescatter_async(name, t->in, run->dtype, t->shape, t->ndim, options,
                                          &t->handle);
    default:
        return reigen_alltoall_async(name, t->in, run->dtype, t->shape, t->ndim,
                                     run->nsplits ? run->splits : NULL, run->nsplits, options,
                                     &t->handle);
    }
}

/* ---- the end */

/* A new output; NULL when the status says why there is none. */
static TF_Tensor *new_output(struct run *run, int i, int tf_dtype, const int64_t *shape, int ndim,
                             size_t nbytes)
{
    TF_Tensor *out = TF_AllocateOutput(run->ctx, i, tf_dtype, shape, ndim, nbytes, run->status);

    if (good(run))
        return out;
    if (out)
        TF_DeleteTensor(out);
    return NULL;
}

/* An output with these bytes in it. */
static void put_output(struct run *run, int i, int tf_dtype, const int64_t *shape, int ndim,
                       const void *data, size_t nbytes)
{
    TF_Tensor *out = new_output(run, i, tf_dtype, shape, ndim, nbytes);

    if (out && nbytes)
        memcpy(TF_TensorData(out), data, nbytes);
    if (out)
        TF_DeleteTensor(out);
}

static int put_result(struct run *run, int i)
{
    int64_t shape[REIGEN_NDIM_MAX];
    const void *data;
    size_t nbytes;
    int ndim, r = reigen_output(run->tensors[i].handle, &data, &nbytes, shape, &ndim);
    TF_Tensor *out = r == 0 ? new_output(run, i, run->tf_dtype, shape, ndim, nbytes) : NULL;

    if (!out)
        return r;
    r = reigen_output_copy(run->tensors[i].handle, TF_TensorData(out), nbytes);
    TF_DeleteTensor(out);
    return r;
}

static int put_received(struct run *run)
{
    int64_t shape[] = { run->nranks };
    size_t nbytes = (size_t) run->nranks * sizeof(int32_t);
    int32_t *received = malloc(nbytes);
    int r = received ? reigen_received_splits(run->tensors[0].handle, received, run->nranks)
                     : -ENOMEM;

    if (r == 0)
        put_output(run, 1, TF_INT32, shape, 1, received, nbytes);
    free(received);
    return r;
}

static int put_results(struct run *run, int status)
{
    int32_t last = status - 1;
    int r = 0;

    switch (run->kernel->def->kind) {
    case REIGEN_ALLREDUCE:
    case REIGEN_BROADCAST:
        return 0;
    case REIGEN_JOIN:
        reigen_tensorflow_joined();
        put_output(run, 0, TF_INT32, NULL, 0, &last, sizeof(last));
        return 0;
    default:
        break;
    }
    for (int i = 0; i < run->n && r == 0 && good(run); i++)
        r = put_result(run, i);
    if (run->kernel->def->kind == REIGEN_ALLTOALL && r == 0 && good(run))
        r = put_received(run);
    return r;
}

/* Everything but the callback. */
static void finish(struct run *run, int status)
{
    const char *text = status < 0 ? reigen_handle_error(run->tensors[0].handle) : "";
    int r = status < 0 ? status : put_results(run, status);
    char words[TEXT_MAX];

    if (r == 0 && run->votes &&
        !rg_tf_agree_check(run->kernel->agreement, run->votes, words, sizeof(words))) {
        r = -EINVAL;
        text = words;
    }

    /* The runtime went away meanwhile, and what it knew of the operation. */
    if (r == -ENOTCONN)
        r = -ECANCELED;
    if (!text[0])
        text = r == -ECANCELED ? "Reigen has been shut down before the operation was complete"
                               : NULL;
    if (r < 0)
        rg_tf_run_fail(run->kernel, run->ctx, r, true, text);
    else if (!good(run))
        fail_by_status(run);
    atomic_fetch_sub(&in_flight, 1);
    free_run(run);
}

static void ended(void *arg, reigen_handle handle, int status)
{
    struct run *run = arg;
    void *done = run->done;

    (void) handle;
    finish(run, status);
    rg_tf_done_call(done);
}

/* Leave the rest to whoever ends the operation. False: there is no memory for that, or the job is
 * being left. */
static bool leave(struct run *run, TF_AsyncOpKernelDoneCallback *done)
{
    run->done = rg_tf_done_copy(done);
    if (run->done && reigen_on_done(run->tensors[0].handle, ended, run) == 0)
        return true;
    rg_tf_done_free(run->done);
    run->done = NULL;
    return false;
}

/* The eager way, where there is one. True: the run has ended, well or not. */
static bool ran_eagerly(struct run *run)
{
    const struct tensor *t = &run->tensors[0];

    if (!run->kernel->eager || run->kernel->def->grouped || run->votes ||
        !has_own_output(run->kernel->def->kind))
        return false;
    rg_tf_eager_run(run->kernel, run->ctx, run->dtype, t->shape, t->ndim, t->in, t->out);
    return true;
}

/* Submit and wait. True: the run has ended; false: it will, and calls back. */
static bool carry_out(struct run *run, TF_AsyncOpKernelDoneCallback *done)
{
    int r = submit(run), others = atomic_fetch_add(&in_flight, 1);

    if (r < 0) {
        atomic_fetch_sub(&in_flight, 1);
        rg_tf_run_fail(run->kernel, run->ctx, r, false, NULL);
        free_run(run);
        return true;
    }
    if (!run->kernel->eager) {
        r = reigen_wait_us(run->tensors[0].handle, others ? LINGER_US : LINGER_ALONE_US);
        if (r == -EAGAIN && leave(run, done))
            return false;
    } else {
        r = -EAGAIN;
    }
    if (r == -EAGAIN)
        r = reigen_wait(run->tensors[0].handle, -1);
    finish(run, r);
    return true;
}

void rg_tf_run_compute(void *arg, TF_OpKernelContext *ctx, TF_AsyncOpKernelDoneCallback *done)
{
    struct kernel *kernel = arg;
    struct run *run = new_run(kernel, ctx);

    if (!run) {
        rg_tf_run_fail(kernel, ctx, -ENOMEM, false, "out of memory");
        TF_RunAsyncOpKernelDoneCallback(done);
        return;
    }
    prepare(run);
    if (!good(run)) {
        fail_by_status(run);
        free_run(run);
    } else if (ran_eagerly(run)) {
        free_run(run);
    } else if (!carry_out(run, done)) {
        return;
    }
    TF_RunAsyncOpKernelDoneCallback(done);
}
