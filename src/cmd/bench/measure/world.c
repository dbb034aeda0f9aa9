/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks have to agree on iterations and failures, else they would wait for each other for ever. */
#include "cmd/bench/measure/world.h"

#include <string.h>

/* What the first rank that failed tells the others. */
struct failure {
    int r, exit_code;
    char text[RG_ERROR_TEXT_MAX];
};

int rg_bench_world_error(const struct rg_bench_world *world, int r, struct rg_error *err)
{
    return r < 0 ? rg_error_set(err, -r, "%s", world->runtime->last_error()) : 0;
}

int rg_bench_world_join(const struct rg_bench_runtime *runtime, struct rg_bench_world *ret_world,
                        struct rg_error *err)
{
    struct rg_bench_world world = { .runtime = runtime };
    int r = runtime->init(NULL);

    if (r < 0)
        return rg_bench_world_error(&world, r, err);
    world.rank = runtime->rank();
    world.size = runtime->size();
    world.nhosts = runtime->cross_size();
    *ret_world = world;
    return 0;
}

int rg_bench_world_barrier(const struct rg_bench_world *world, struct rg_error *err)
{
    return rg_bench_world_error(world, world->runtime->barrier(), err);
}

static int share_from(const struct rg_bench_world *world, int root, void *data, size_t nbytes,
                      struct rg_error *err)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { (int64_t) nbytes };

    options.root = root;
    return rg_bench_world_error(world, world->runtime->broadcast("bench.share", data, data,
                                                                 REIGEN_UINT8, shape, 1, &options),
                                err);
}

int rg_bench_world_share(const struct rg_bench_world *world, void *data, size_t nbytes,
                         struct rg_error *err)
{
    return share_from(world, 0, data, nbytes, err);
}

int rg_bench_world_gather(const struct rg_bench_world *world, const double *mine, size_t n,
                          double *ret_all, struct rg_error *err)
{
    const struct rg_bench_runtime *runtime = world->runtime;
    reigen_handle handle;
    int r = runtime->into_async(REIGEN_ALLGATHER, "bench.gather", mine, ret_all, REIGEN_FLOAT64, n,
                                NULL, &handle);

    if (r == 0) {
        r = runtime->wait(handle, -1);
        runtime->release(handle);
    }
    return rg_bench_world_error(world, r, err);
}

int rg_bench_world_agree(const struct rg_bench_world *world, int r, struct rg_error *err)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    int64_t first = r == 0 ? INT64_MAX : world->rank, shape[] = { 1 };
    struct failure failure = { r, err->exit_code, "" };

    options.op = REIGEN_MIN;
    int failed = rg_bench_world_error(world,
                                      world->runtime->allreduce("bench.agree", &first, &first,
                                                                REIGEN_INT64, shape, 1, &options),
                                      err);
    if (failed < 0 || first == INT64_MAX)
        return failed;
    memcpy(failure.text, err->text, sizeof(failure.text));
    failed = share_from(world, (int) first, &failure, sizeof(failure), err);
    if (failed < 0)
        return failed;
    rg_error_set_exit(err, -failure.r, failure.exit_code, "%s", failure.text);
    if (world->size > 1)
        rg_error_prepend(err, "rank %d", (int) first);
    return failure.r;
}

void rg_bench_world_leave(const struct rg_bench_world *world)
{
    world->runtime->shutdown();
}
