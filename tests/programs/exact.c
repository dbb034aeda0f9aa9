/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: exact MILLISECONDS [SEED [MAX_NBYTES [THREADS [ROUND]]]]
 * Random operations of every kind against what they must give, from one thread or from several at
 * once; with ROUND, that round only. Prints "exact HASH", equal on all ranks, and how many tensors
 * there were of each kind and type.
 */
#include "sweep.h"

#include <pthread.h>

#define THREADS_MAX 8

struct task {
    struct sweep sweep;
    char prefix[16];
    uint64_t seed;
    size_t max_nbytes;
    uint64_t duration_ms;
    int64_t only;
};

static void *run(void *data)
{
    struct task *task = data;

    sweep_run(&task->sweep, task->prefix, task->seed, task->max_nbytes, task->duration_ms,
              task->only);
    return NULL;
}

static void say_cases(const struct task *tasks, int nthreads)
{
    static const char *const kinds[REIGEN_REDUCESCATTER + 1] = {
        [REIGEN_ALLREDUCE] = "allreduce",         [REIGEN_ALLGATHER] = "allgather",
        [REIGEN_BROADCAST] = "broadcast",         [REIGEN_ALLTOALL] = "alltoall",
        [REIGEN_REDUCESCATTER] = "reducescatter",
    };
    static const char *const ops[REIGEN_PRODUCT + 1] = { "average", "sum", "adasum",
                                                         "min",     "max", "product" };

    for (int kind = 0; kind <= REIGEN_REDUCESCATTER; kind++) {
        for (int dtype = 0; kinds[kind] && dtype < REIGEN_NDTYPES; dtype++) {
            uint64_t n = 0;

            for (int i = 0; i < nthreads; i++)
                n += tasks[i].sweep.cases[kind][dtype];
            say("cases %s %s %llu", kinds[kind], dtype_name(dtype), (unsigned long long) n);
        }
    }
    for (int op = 0; op <= REIGEN_PRODUCT; op++) {
        uint64_t n = 0;

        for (int i = 0; i < nthreads; i++)
            n += tasks[i].sweep.reductions[op];
        say("reductions %s %llu", ops[op], (unsigned long long) n);
    }
}

int main(int argc, char **argv)
{
    int nthreads = (int) argument(argc, argv, 4, 1);
    struct task *tasks = allocate(THREADS_MAX * sizeof(*tasks));
    pthread_t threads[THREADS_MAX];
    uint64_t hash = HASH_START, noperations = 0, nrounds = 0;

    begin();
    snprintf(fail_context, sizeof(fail_context),
             "to see it again: exact %ld %ld %ld %d on %d ranks, REIGEN_PLANES=%s",
             argument(argc, argv, 1, 1000), argument(argc, argv, 2, 1),
             argument(argc, argv, 3, 4 << 20), nthreads, reigen_size(),
             getenv("REIGEN_PLANES") ? getenv("REIGEN_PLANES") : "");
    for (int i = 0; i < nthreads; i++) {
        snprintf(tasks[i].prefix, sizeof(tasks[i].prefix), nthreads > 1 ? "t%d." : "", i);
        tasks[i].seed = mix((uint64_t) argument(argc, argv, 2, 1) + (uint64_t) i);
        tasks[i].max_nbytes = (size_t) argument(argc, argv, 3, 4 << 20);
        tasks[i].only = argument(argc, argv, 5, -1);
        tasks[i].duration_ms = (uint64_t) argument(argc, argv, 1, 1000);
        if (pthread_create(&threads[i], NULL, run, &tasks[i]) != 0)
            fail("no thread");
    }
    for (int i = 0; i < nthreads; i++) {
        pthread_join(threads[i], NULL);
        hash = hash_bytes(hash, &tasks[i].sweep.hash, sizeof(hash));
        noperations += tasks[i].sweep.noperations;
        nrounds += tasks[i].sweep.nrounds;
    }
    reigen_shutdown();
    say("exact %016llx: %llu operations in %llu rounds", (unsigned long long) hash,
        (unsigned long long) noperations, (unsigned long long) nrounds);
    say_cases(tasks, nthreads);
    free(tasks);
    return 0;
}
