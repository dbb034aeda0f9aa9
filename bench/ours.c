/* SPDX-License-Identifier: Apache-2.0 */
/* Reigen's C API: persistent requests, blocking calls, and many tensors at once. */
#include "measure.h"

#include <reigen/reigen.h>
#include <stdio.h>
#include <stdlib.h>

#define MANY_MAX 4096

static int complain(int status)
{
    if (status < 0)
        fprintf(stderr, "bench: %s\n", reigen_last_error());
    return status < 0 ? status : 0;
}

static int init(int *argc, char ***argv, int *ret_rank, int *ret_size)
{
    (void)argc;
    (void)argv;
    int status = complain(reigen_init(NULL));

    *ret_rank = reigen_rank();
    *ret_size = reigen_size();
    return status;
}

static int broadcast(int *value)
{
    int64_t shape[] = {1};

    return complain(reigen_broadcast("bench.value", value, value, REIGEN_INT32, shape, 1, NULL));
}

static int barrier(void)
{
    return complain(reigen_barrier());
}

static void finalize(void)
{
    reigen_shutdown();
}

static int create(const char *name, size_t count, struct reigen_request **ret_request)
{
    int64_t shape[] = {(int64_t)count};

    return complain(reigen_request_create(REIGEN_ALLREDUCE, name, REIGEN_FLOAT32, shape, 1, NULL,
                                          ret_request));
}

static int prepare(size_t count, void **ret_state)
{
    struct reigen_request *request;
    char name[64];

    snprintf(name, sizeof name, "bench.%zu", count);
    int status = create(name, count, &request);
    if (!status)
        *ret_state = request;
    return status;
}

static void finish(void *state)
{
    reigen_request_free(state);
}

static int run_out(void *state, const float *in, float *out, size_t count)
{
    (void)count;
    return reigen_request_run(state, in, out, -1);
}

static int run_in(void *state, const float *in, float *out, size_t count)
{
    (void)in;
    (void)count;
    return reigen_request_run(state, out, out, -1);
}

static int run_call(void *state, const float *in, float *out, size_t count)
{
    int64_t shape[] = {(int64_t)count};

    (void)state;
    return reigen_allreduce("bench.call", in, out, REIGEN_FLOAT32, shape, 1, NULL);
}

/* n persistent requests, or n names for the grouped call. */
struct many {
    struct reigen_request *requests[MANY_MAX];
    char names[MANY_MAX][24];
    const char *name_list[MANY_MAX];
    int64_t shape[1];
    const int64_t *shapes[MANY_MAX];
    int ndims[MANY_MAX];
    reigen_handle handles[MANY_MAX];
    int nrequests;
};

static int prepare_grouped(int n, size_t count, void **ret_state)
{
    struct many *many = n <= MANY_MAX ? calloc(1, sizeof *many) : NULL;

    if (!many)
        return -1;
    many->shape[0] = (int64_t)count;
    for (int i = 0; i < n; i++) {
        snprintf(many->names[i], sizeof many->names[i], "bench.%d", i);
        many->name_list[i] = many->names[i];
        many->shapes[i] = many->shape;
        many->ndims[i] = 1;
    }
    *ret_state = many;
    return 0;
}

static void finish_many(void *state)
{
    struct many *many = state;

    for (int i = 0; i < many->nrequests; i++)
        reigen_request_free(many->requests[i]);
    free(many);
}

static int prepare_requests(int n, size_t count, void **ret_state)
{
    void *state;
    int status = prepare_grouped(n, count, &state);

    if (status)
        return status;
    struct many *many = state;
    for (int i = 0; i < n && !status; i++) {
        status = create(many->names[i], count, &many->requests[i]);
        many->nrequests += !status;
    }
    if (status)
        finish_many(many);
    else
        *ret_state = many;
    return status;
}

static int run_requests(void *state, float **tensors, int n, size_t count)
{
    struct many *many = state;
    int status = 0;

    (void)count;
    for (int i = 0; i < n && !status; i++)
        status = reigen_request_start(many->requests[i], tensors[i], tensors[i]);
    for (int i = 0; i < n && !status; i++)
        status = reigen_request_wait(many->requests[i], -1);
    return status;
}

static int run_grouped(void *state, float **tensors, int n, size_t count)
{
    struct many *many = state;
    int status = reigen_grouped_async(REIGEN_ALLREDUCE, n, many->name_list,
                                      (const void *const *)tensors, (void *const *)tensors,
                                      REIGEN_FLOAT32, many->shapes, many->ndims, NULL,
                                      many->handles);

    (void)count;
    for (int i = 0; i < n && status >= 0; i++) {
        status = reigen_wait(many->handles[i], -1);
        reigen_release(many->handles[i]);
    }
    return complain(status);
}

static const struct bench_series series[] = {
    {.name = "out", .run = run_out, .prepare = prepare, .finish = finish},
    {.name = "in", .run = run_in, .prepare = prepare, .finish = finish, .min_nbytes = 1 << 20},
    {.name = "call", .run = run_call},
    {0},
};

static const struct bench_many many[] = {
    {"many-calls", run_requests, prepare_requests, finish_many},
    {"many-grouped", run_grouped, prepare_grouped, finish_many},
    {0},
};

const struct bench_contender bench_contender = {
    init, broadcast, barrier, finalize, series, many,
};
