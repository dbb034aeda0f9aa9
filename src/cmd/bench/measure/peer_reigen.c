/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reigen itself, as a program would use it that wants to be fast: persistent requests where there
 * are any, one grouped call for a group, and the other operations by name.
 */
#include <stdio.h>

#include "base/time.h"
#include "cmd/bench/measure/peer.h"

#define NAME_NBYTES 48

struct reigen {
    const struct rg_bench_world *world;
    const struct rg_bench_runtime *runtime;
    struct rg_bench_case row;
    struct rg_bench_buffers buffers;
    struct reigen_options options;
    struct reigen_request **requests;
    int nrequests; /* 0: this row has none */
    reigen_handle *handles;
    char (*names)[NAME_NBYTES];
    const char **name_list;
    const int64_t **shapes;
    int *ndims;
    int64_t shape[1];
};

static int reigen_open(const struct rg_bench_world *world, const struct rg_peer_settings *settings,
                       void **ret_self, struct rg_error *err)
{
    struct reigen *self = calloc(1, sizeof(*self));
    size_t n = (size_t) settings->group;

    if (!self)
        return rg_error_memory(err);
    *self = (struct reigen){ .world = world, .runtime = world->runtime,
                             .requests = calloc(n, sizeof(*self->requests)),
                             .handles = calloc(n, sizeof(*self->handles)),
                             .names = calloc(n, sizeof(*self->names)),
                             .name_list = calloc(n, sizeof(*self->name_list)),
                             .shapes = calloc(n, sizeof(*self->shapes)),
                             .ndims = calloc(n, sizeof(*self->ndims)) };
    *ret_self = self;
    return self->requests && self->handles && self->names && self->name_list && self->shapes &&
           self->ndims ? 0 : rg_error_memory(err);
}

static void reigen_close(void *arg)
{
    struct reigen *self = arg;

    if (!self)
        return;
    free(self->requests);
    free(self->handles);
    free(self->names);
    free(self->name_list);
    free(self->shapes);
    free(self->ndims);
    free(self);
}

static bool allocates(enum rg_bench_op op)
{
    return op == RG_BENCH_ALLGATHER || op == RG_BENCH_ALLTOALL || op == RG_BENCH_REDUCESCATTER;
}

static bool has_request(const struct rg_bench_case *row)
{
    return (row->group == 1 || row->separate) &&
           (row->op == RG_BENCH_ALLREDUCE || row->op == RG_BENCH_BROADCAST);
}

static void reigen_end(void *arg)
{
    struct reigen *self = arg;

    while (self->nrequests > 0)
        self->runtime->request_free(self->requests[--self->nrequests]);
    rg_bench_buffers_fini(&self->buffers);
}

static int create_request(struct reigen *self, int i)
{
    int kind = self->row.op == RG_BENCH_ALLREDUCE ? REIGEN_ALLREDUCE : REIGEN_BROADCAST;
    int r = self->runtime->request_create(kind, self->names[i], self->row.type, self->shape, 1,
                                          &self->options, &self->requests[i]);

    self->nrequests += r == 0;
    return r;
}

static int reigen_begin(void *arg, const struct rg_bench_case *row, struct rg_error *err)
{
    struct reigen *self = arg;
    int r = rg_bench_buffers_make(row, self->world->rank, !allocates(row->op), &self->buffers, err);

    if (r < 0)
        return r;
    self->row = *row;
    self->options = (struct reigen_options) REIGEN_OPTIONS_INIT;
    self->options.op = rg_bench_ops[row->op].reduces ? row->reduction : REIGEN_SUM;
    self->shape[0] = (int64_t) self->buffers.in_count;
    for (int i = 0; i < row->group; i++) {
        snprintf(self->names[i], NAME_NBYTES, "bench.%s.%d", rg_bench_ops[row->op].name, i);
        self->name_list[i] = self->names[i];
        self->shapes[i] = self->shape;
        self->ndims[i] = 1;
    }
    for (int i = 0; r == 0 && has_request(row) && i < row->group; i++)
        r = create_request(self, i);
    if (r < 0) {
        rg_bench_world_error(self->world, r, err);
        reigen_end(self);
    }
    return r;
}

/* Tensor i of the group, by an operation of its own. */
static int submit_one(struct reigen *self, int i)
{
    const struct rg_bench_runtime *runtime = self->runtime;
    const struct reigen_options *options = &self->options;
    const void *in = self->buffers.ins[i];
    void *out = self->buffers.outs[i];
    const char *name = self->names[i];
    int type = self->row.type;
    reigen_handle *handle = &self->handles[i];

    switch (self->row.op) {
    case RG_BENCH_ALLREDUCE:
        return runtime->allreduce_async(name, in, out, type, self->shape, 1, options, handle);
    case RG_BENCH_ALLGATHER:
        return runtime->allgather_async(name, in, type, self->shape, 1, options, handle);
    case RG_BENCH_BROADCAST:
        return runtime->broadcast_async(name, in, out, type, self->shape, 1, options, handle);
    case RG_BENCH_ALLTOALL:
        return runtime->alltoall_async(name, in, type, self->shape, 1, NULL, 0, options, handle);
    case RG_BENCH_REDUCESCATTER:
        return runtime->reducescatter_async(name, in, type, self->shape, 1, options, handle);
    case RG_BENCH_ALLGATHER_INTO:
        return runtime->into_async(REIGEN_ALLGATHER, name, in, out, type, self->row.part, options,
                                   handle);
    case RG_BENCH_REDUCESCATTER_INTO:
        return runtime->into_async(REIGEN_REDUCESCATTER, name, in, out, type, self->row.part,
                                   options, handle);
    default: return -EINVAL; /* barrier and join have no handles */
    }
}

/* The kind of reigen_grouped_async, or -1: it has none of this operation. */
static int group_kind(enum rg_bench_op op)
{
    return op == RG_BENCH_ALLREDUCE       ? REIGEN_ALLREDUCE
           : op == RG_BENCH_ALLGATHER     ? REIGEN_ALLGATHER
           : op == RG_BENCH_REDUCESCATTER ? REIGEN_REDUCESCATTER
                                          : -1;
}

/* All of the group, or nothing is in flight: its tensors may be freed after an error. */
static int submit(struct reigen *self)
{
    int n = self->row.group, kind = group_kind(self->row.op), r = 0, nsubmitted = 0;

    if (n > 1 && kind >= 0 && !self->row.separate)
        return self->runtime->grouped_async(kind, n, self->name_list,
                                            (const void *const *) self->buffers.ins,
                                            self->buffers.outs, self->row.type, self->shapes,
                                            self->ndims, &self->options, self->handles);
    while (nsubmitted < n && (r = submit_one(self, nsubmitted)) == 0)
        nsubmitted++;
    if (r < 0 && nsubmitted > 0) {
        self->runtime->wait_all(nsubmitted, self->handles, -1);
        self->runtime->release_all(nsubmitted, self->handles);
    }
    return r;
}

static int wait_for_others(struct reigen *self)
{
    reigen_handle handle;

    if (self->row.op == RG_BENCH_BARRIER)
        return self->runtime->barrier();
    int r = self->runtime->join_async(&handle);
    if (r == 0) {
        r = self->runtime->wait(handle, -1);
        self->runtime->release(handle);
    }
    return r < 0 ? r : 0;
}

/* All of the group: request_free waits for those in flight after an error. */
static int run_requests(struct reigen *self)
{
    int n = self->nrequests, r = 0;

    if (n == 1)
        return self->runtime->request_run(self->requests[0], self->buffers.ins[0],
                                          self->buffers.outs[0], -1);
    for (int i = 0; i < n && r == 0; i++)
        r = self->runtime->request_start(self->requests[i], self->buffers.ins[i],
                                         self->buffers.outs[i]);
    for (int i = 0; i < n && r == 0; i++)
        r = self->runtime->request_wait(self->requests[i], -1);
    return r;
}

/* Once, from beginning to end; but results that the runtime has allocated are kept. */
static int perform(struct reigen *self)
{
    int n = self->row.group;

    if (!rg_bench_ops[self->row.op].data)
        return wait_for_others(self);
    if (self->nrequests)
        return run_requests(self);
    int r = submit(self);
    if (r < 0)
        return r;
    return n == 1 ? self->runtime->wait(self->handles[0], -1)
                  : self->runtime->wait_all(n, self->handles, -1);
}

static void forget(struct reigen *self)
{
    if (self->nrequests || !rg_bench_ops[self->row.op].data)
        return;
    if (self->row.group == 1)
        self->runtime->release(self->handles[0]);
    else
        self->runtime->release_all(self->row.group, self->handles);
}

static int reigen_run(void *arg, int niterations, double *ret_seconds, struct rg_error *err)
{
    struct reigen *self = arg;
    uint64_t began_ns = rg_now_ns();

    for (int i = 0; i < niterations; i++) {
        int r = perform(self);
        if (r < 0)
            return rg_bench_world_error(self->world, r, err);
        forget(self);
    }
    *ret_seconds = (double) (rg_now_ns() - began_ns) / RG_NS_PER_S;
    return 0;
}

static int reigen_check(void *arg, uint64_t *ret_wrong, struct rg_error *err)
{
    struct reigen *self = arg;
    const struct rg_bench_world *world = self->world;
    uint64_t nwrong = 0;

    rg_bench_buffers_fill(&self->buffers, &self->row, world->rank);
    int r = perform(self);
    for (int i = 0; r >= 0 && rg_bench_ops[self->row.op].data && i < self->row.group; i++) {
        const void *result = self->buffers.outs[i];
        size_t nbytes = self->buffers.out_count * rg_bench_types[self->row.type].nbytes;
        int64_t shape[REIGEN_NDIM_MAX];
        int ndim;
        if (allocates(self->row.op))
            r = self->runtime->output(self->handles[i], &result, &nbytes, shape, &ndim);
        if (r >= 0)
            nwrong += rg_bench_result_wrong(&self->row, world->rank, world->size, result,
                                            nbytes / rg_bench_types[self->row.type].nbytes);
    }
    if (r >= 0)
        forget(self);
    *ret_wrong = nwrong;
    return rg_bench_world_error(world, r < 0 ? r : 0, err);
}

const struct rg_bench_peer rg_bench_peer_reigen = {
    .name = "reigen", .open = reigen_open, .begin = reigen_begin, .run = reigen_run,
    .check = reigen_check, .end = reigen_end, .close = reigen_close,
};
