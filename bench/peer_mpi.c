/* SPDX-License-Identifier: Apache-2.0 */
/* The peer of the C API: MPI_Allreduce of the MPI that mpicc belongs to. */
#include "measure.h"

#include <mpi.h>
#include <stdlib.h>

static int init(int *argc, char ***argv, int *ret_rank, int *ret_size)
{
    if (MPI_Init(argc, argv))
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, ret_rank);
    MPI_Comm_size(MPI_COMM_WORLD, ret_size);
    return 0;
}

static int broadcast(int *value)
{
    return MPI_Bcast(value, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

static int barrier(void)
{
    return MPI_Barrier(MPI_COMM_WORLD);
}

static void finalize(void)
{
    MPI_Finalize();
}

static int run_out(void *state, const float *in, float *out, size_t count)
{
    (void)state;
    return MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int run_in(void *state, const float *in, float *out, size_t count)
{
    (void)state;
    (void)in;
    return MPI_Allreduce(MPI_IN_PLACE, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* One after the other, as a C program would that knows their order. */
static int run_calls(void *state, float **tensors, int n, size_t count)
{
    (void)state;
    for (int i = 0; i < n; i++)
        if (run_in(NULL, NULL, tensors[i], count))
            return 1;
    return 0;
}

static int run_nonblocking(void *state, float **tensors, int n, size_t count)
{
    MPI_Request *requests = state;

    for (int i = 0; i < n; i++)
        if (MPI_Iallreduce(MPI_IN_PLACE, tensors[i], (int)count, MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD, &requests[i]))
            return 1;
    return MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

static int prepare_nonblocking(int n, size_t count, void **ret_state)
{
    (void)count;
    *ret_state = calloc((size_t)n, sizeof(MPI_Request));
    return !*ret_state;
}

static const struct bench_series series[] = {
    {.name = "out", .run = run_out},
    {.name = "in", .run = run_in, .min_nbytes = 1 << 20},
    {0},
};

static const struct bench_many many[] = {
    {.name = "many-loop", .run = run_calls},
    {.name = "many-calls", .run = run_nonblocking, .prepare = prepare_nonblocking, .finish = free},
    {0},
};

const struct bench_contender bench_contender = {
    init, broadcast, barrier, finalize, series, many,
};
