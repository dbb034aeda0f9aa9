/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: exact MILLISECONDS [SEED [MAX_NBYTES [THREADS]]]
 * Random operations of every kind against what they must give, from one thread or from several at
 * once. Prints "exact HASH": equal on all ranks.
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
};

static void *run(void *data)
{
    struct task *task = data;

    sweep_run(&task->sweep, task->prefix, task->seed, task->max_nbytes, task->duration_ms);
    return NULL;
}

int main(int argc, char **argv)
{
    int nthreads = (int) argument(argc, argv, 4, 1);
    struct task *tasks = allocate(THREADS_MAX * sizeof(*tasks));
    pthread_t threads[THREADS_MAX];
    uint64_t hash = HASH_START, noperations = 0, nrounds = 0;

    begin();
    for (int i = 0; i < nthreads; i++) {
        snprintf(tasks[i].prefix, sizeof(tasks[i].prefix), nthreads > 1 ? "t%d." : "", i);
        tasks[i].seed = mix((uint64_t) argument(argc, argv, 2, 1) + (uint64_t) i);
        tasks[i].max_nbytes = (size_t) argument(argc, argv, 3, 4 << 20);
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
    free(tasks);
    return 0;
}
