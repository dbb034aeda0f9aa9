/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libreigen.so, loaded while the program runs: the launcher is not linked with the runtime, so that
 * it works where there is none. The one that is loaded is the one that training would use: that of
 * REIGEN_LIBRARY, else the one that was installed or built with this program.
 *
 * Thread rule: main thread. Loading blocks for the disk; nothing is unloaded.
 */
#ifndef RG_CMD_BENCH_MEASURE_RUNTIME_H
#define RG_CMD_BENCH_MEASURE_RUNTIME_H

#include <limits.h>

#include "base/error.h"
#include "reigen/reigen.h"

/* The functions of reigen.h that are used here, without their prefix: what they promise stands
 * there. One line here is one pointer in the struct below, and one look-up in the library; a
 * library that lacks any of them is refused as a whole. */
#define RG_BENCH_FUNCTIONS(F) \
    F(init)                   \
    F(shutdown)               \
    F(rank)                   \
    F(size)                   \
    F(cross_size)             \
    F(allgather_async)        \
    F(alltoall_async)         \
    F(reducescatter_async)    \
    F(into_async)             \
    F(grouped_async)          \
    F(allreduce_async)        \
    F(broadcast_async)        \
    F(join_async)             \
    F(allreduce)              \
    F(broadcast)              \
    F(barrier)                \
    F(wait)                   \
    F(wait_all)               \
    F(output)                 \
    F(release)                \
    F(release_all)            \
    F(request_create)         \
    F(request_run)            \
    F(request_start)          \
    F(request_wait)           \
    F(request_free)           \
    F(last_error)             \
    F(version)                \
    F(describe)

/* Each function under its own name, as in runtime.barrier(). All are set, or none. */
struct rg_bench_runtime {
#define RG_BENCH_MEMBER(name) __typeof__(&reigen_##name) name;
    RG_BENCH_FUNCTIONS(RG_BENCH_MEMBER)
#undef RG_BENCH_MEMBER
    char path[PATH_MAX]; /* of the library that was loaded, or its name */
};

/* 0; -ENOENT with where it was looked for; -ENOTSUP: one that lacks a function, of another
 * version. */
int rg_bench_runtime_load(struct rg_bench_runtime *ret_runtime, struct rg_error *err);

#endif
