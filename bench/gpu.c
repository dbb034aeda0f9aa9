/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench/gpu.py measures in C on a GPU, and prints as one JSON object per line:
 *
 * usage: gpu nccl ROUNDS BYTES...     allreduce of one rank per GPU: Reigen beside bare NCCL, on
 *                                     the same buffers and the same stream, in turns; per round the
 *                                     microseconds of a call until the stream is done, and those
 *                                     until the host is free
 *        BENCH_GPUS=N                 so many ranks, each with its GPU; 1 by default
 *        gpu staging ROUNDS BYTES...  the copy bandwidth of the bus, pinned, either way; then an
 *                                     allreduce of two ranks on one GPU
 *
 * NCCL's functions come from the library that Reigen would take (src/coll/gpu/nccl.h), in a
 * communicator of its own that blocks, as programs make it.
 */
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/gpu/nccl.h"
#include "reigen/reigen.h"

enum { LIMIT_S = 900, CALLS_MAX = 500, COPIES = 8 };
#define ROUND_S 0.03

struct plan {
    int rounds, nsizes;
    char **sizes;
};

static struct {
    void *comm;
    int (*unique_id)(struct rg_nccl_id *);
    int (*init)(void **, int, struct rg_nccl_id, int, struct rg_nccl_config *);
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *);
} nccl;

static void must(const char *what, int result)
{
    if (!result)
        return;
    fprintf(stderr, "gpu: %s gave %d (%s)\n", what, result, reigen_last_error());
    _exit(1);
}

/* Rank 0's bytes to all. */
static void share(void *at, size_t nbytes)
{
    int64_t count = (int64_t) nbytes;

    must("reigen_use_device", reigen_use_device(-1, NULL));
    must("broadcast", reigen_broadcast("share", at, at, REIGEN_UINT8, &count, 1, NULL));
}

static void open_all(int rank, int device)
{
    const char *missing = device_open(device);

    (void) rank;
    alarm(LIMIT_S);
    if (missing) {
        fprintf(stderr, "gpu: %s\n", missing);
        _exit(69);
    }
    must("reigen_init", reigen_init(NULL));
}

static void open_nccl(int rank, int n)
{
    const char *file = getenv("REIGEN_NCCL");
    void *library = dlopen(file ? file : RG_NCCL_SONAME, RTLD_NOW);
    struct rg_nccl_config config = RG_NCCL_CONFIG_NONBLOCKING;
    struct rg_nccl_id id;

    if (!library) {
        fprintf(stderr, "gpu: there is no NCCL: %s\n", dlerror());
        _exit(69);
    }
    *(void **) &nccl.unique_id = dlsym(library, "ncclGetUniqueId");
    *(void **) &nccl.init = dlsym(library, "ncclCommInitRankConfig");
    *(void **) &nccl.all_reduce = dlsym(library, "ncclAllReduce");
    if (!nccl.unique_id || !nccl.init || !nccl.all_reduce)
        must("a function of NCCL 2.18", 1);
    config.blocking = 1;
    if (rank == 0)
        must("ncclGetUniqueId", nccl.unique_id(&id));
    share(&id, sizeof(id));
    must("ncclCommInitRankConfig", nccl.init(&nccl.comm, n, id, rank, &config));
}

static void call_nccl(const void *in, void *out, int64_t count)
{
    must("ncclAllReduce", nccl.all_reduce(in, out, (size_t) count, RG_NCCL_FLOAT32, RG_NCCL_SUM,
                                          nccl.comm, device_stream()));
}

static void call_reigen(const void *in, void *out, int64_t count)
{
    must("allreduce", reigen_allreduce("a", in, out, REIGEN_FLOAT32, &count, 1, NULL));
}

/* Microseconds of one of so many calls: until the host is free, and until all is done. */
static void time_calls(void (*call)(const void *, void *, int64_t), void *const *buffers,
                       int64_t count, int calls, double *ret_host, double *ret_all)
{
    int64_t one = 1;
    double began;

    /* The ranks begin together. */
    must("allreduce", reigen_allreduce("meet", buffers[0], buffers[1], REIGEN_FLOAT32, &one, 1,
                                       NULL));
    device_wait();
    began = device_now();
    for (int i = 0; i < calls; i++)
        call(buffers[0], buffers[1], count);
    *ret_host = (device_now() - began) * 1e6 / calls;
    device_wait();
    *ret_all = (device_now() - began) * 1e6 / calls;
}

static int choose_calls(void *const *buffers, int64_t count, int device)
{
    double host, all, most;
    int calls;

    time_calls(call_nccl, buffers, count, 3, &host, &most);
    time_calls(call_reigen, buffers, count, 3, &host, &all);
    time_calls(call_nccl, buffers, count, 3, &host, &most);
    time_calls(call_reigen, buffers, count, 3, &host, &all);
    most = most > all ? most : all;
    calls = (int) (ROUND_S * 1e6 / (most + 1));
    calls = calls < 3 ? 3 : calls > CALLS_MAX ? CALLS_MAX : calls;
    share(&calls, sizeof(calls));
    must("reigen_use_device", reigen_use_device(device, device_stream()));
    return calls;
}

static int beside_nccl(int rank, int n, void *arg)
{
    const struct plan *plan = arg;
    double host[2], all[2];
    void *buffers[2];

    open_all(rank, rank);
    open_nccl(rank, n);
    for (int k = 0; k < plan->nsizes; k++) {
        int64_t nbytes = atoll(plan->sizes[k]), count = nbytes / 4;
        int calls;

        must("reigen_use_device", reigen_use_device(rank, device_stream()));
        buffers[0] = device_alloc((size_t) nbytes);
        buffers[1] = device_alloc((size_t) nbytes);
        calls = choose_calls(buffers, count, rank);
        if (rank == 0)
            printf("{\"mode\": \"nccl\", \"ranks\": %d, \"gpu\": \"%s\", \"bytes\": %lld, "
                   "\"calls\": %d, \"rounds\": [", n, device_name(), (long long) nbytes, calls);
        for (int round = 0; round < plan->rounds; round++) {
            for (int turn = 0; turn < 2; turn++) {
                int ours = (turn + round) % 2;

                time_calls(ours ? call_reigen : call_nccl, buffers, count, calls, &host[ours],
                           &all[ours]);
            }
            if (rank == 0)
                printf("%s[%.3f, %.3f, %.3f, %.3f]", round ? ", " : "", all[0], all[1], host[0],
                       host[1]);
        }
        if (rank == 0)
            printf("]}\n");
        device_free(buffers[0]);
        device_free(buffers[1]);
    }
    must("reigen_shutdown", reigen_shutdown());
    return 0;
}

/* ------------------------------------------------------------ two ranks on one GPU */

static double copy_seconds(void *to, const void *from, size_t nbytes)
{
    double began;

    device_wait();
    began = device_now();
    for (int i = 0; i < COPIES; i++)
        device_copy(to, from, nbytes);
    device_wait();
    return (device_now() - began) / COPIES;
}

static int bus(int rank, int n, void *arg)
{
    const struct plan *plan = arg;

    (void) n;
    open_all(rank, 0);
    for (int k = 0; k < plan->nsizes; k++) {
        size_t nbytes = (size_t) atoll(plan->sizes[k]);
        void *at = device_alloc(nbytes), *pinned = device_pinned(nbytes);

        copy_seconds(pinned, at, nbytes);
        printf("{\"mode\": \"copy\", \"gpu\": \"%s\", \"bytes\": %zu, \"rounds\": [",
               device_name(), nbytes);
        for (int round = 0; round < plan->rounds; round++)
            printf("%s[%.9f, %.9f]", round ? ", " : "", copy_seconds(pinned, at, nbytes),
                   copy_seconds(at, pinned, nbytes));
        printf("]}\n");
        device_free(at);
    }
    must("reigen_shutdown", reigen_shutdown());
    return 0;
}

static int staged(int rank, int n, void *arg)
{
    const struct plan *plan = arg;
    double host, all;
    void *buffers[2];

    open_all(rank, 0);
    must("reigen_use_device", reigen_use_device(0, device_stream()));
    for (int k = 0; k < plan->nsizes; k++) {
        int64_t nbytes = atoll(plan->sizes[k]);

        buffers[0] = device_alloc((size_t) nbytes);
        buffers[1] = device_alloc((size_t) nbytes);
        time_calls(call_reigen, buffers, nbytes / 4, 2, &host, &all);
        if (rank == 0)
            printf("{\"mode\": \"staging\", \"ranks\": %d, \"bytes\": %lld, \"rounds\": [", n,
                   (long long) nbytes);
        for (int round = 0; round < plan->rounds; round++) {
            time_calls(call_reigen, buffers, nbytes / 4, 3, &host, &all);
            if (rank == 0)
                printf("%s%.9f", round ? ", " : "", all * 1e-6);
        }
        if (rank == 0)
            printf("]}\n");
        device_free(buffers[0]);
        device_free(buffers[1]);
    }
    must("reigen_shutdown", reigen_shutdown());
    return 0;
}

int main(int argc, char **argv)
{
    struct plan plan = { argc > 2 ? atoi(argv[2]) : 0, argc - 3, argv + 3 };
    int n = 1;

    if (argc < 4 || plan.rounds < 1) {
        fprintf(stderr, "usage: gpu nccl|staging ROUNDS BYTES...\n");
        return 64;
    }
    if (strcmp(argv[1], "staging") == 0)
        return device_ranks(1, bus, &plan) || device_ranks(2, staged, &plan);
    /* As look.c has told; the driver is of no use after fork, so it is not asked here. */
    if (getenv("BENCH_GPUS"))
        n = atoi(getenv("BENCH_GPUS"));
    return device_ranks(n, beside_nccl, &plan);
}
