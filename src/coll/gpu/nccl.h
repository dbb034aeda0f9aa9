/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NCCL (libnccl.so.2) that Reigen uses: declarations of our own and one table of
 * functions that is filled at run time. Its C ABI is stable since 2.18, the oldest that is taken.
 *
 * Communicators are made nonblocking: then no call waits for other ranks, but may return
 * RG_NCCL_IN_PROGRESS, and nothing else may be called on that communicator until async_error gives
 * something else.
 *
 * Thread rule: any thread, one at a time for each communicator. rg_nccl_get may block for the
 * library's file, once.
 */
#ifndef RG_COLL_GPU_NCCL_H
#define RG_COLL_GPU_NCCL_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "coll/gpu/cuda.h"

#define RG_NCCL_SONAME "libnccl.so.2"
#define RG_NCCL_VERSION_MIN 21800 /* 10000 * major + 100 * minor + patch */

struct rg_nccl_comm; /* NCCL's */

enum {
    RG_NCCL_SUCCESS = 0,
    RG_NCCL_UNHANDLED_CUDA_ERROR = 1,
    RG_NCCL_SYSTEM_ERROR = 2, /* a connection was closed, say */
    RG_NCCL_REMOTE_ERROR = 6,
    RG_NCCL_IN_PROGRESS = 7,
};

enum rg_nccl_type {
    RG_NCCL_INT8, RG_NCCL_UINT8, RG_NCCL_INT32, RG_NCCL_UINT32, RG_NCCL_INT64, RG_NCCL_UINT64,
    RG_NCCL_FLOAT16, RG_NCCL_FLOAT32, RG_NCCL_FLOAT64, RG_NCCL_BFLOAT16,
};

/* Beyond these are those that premul_create makes. */
enum rg_nccl_op { RG_NCCL_SUM, RG_NCCL_PROD, RG_NCCL_MAX, RG_NCCL_MIN, RG_NCCL_AVG };

/* What the members of a communicator need in common; made by one of them. */
struct rg_nccl_id {
    char bytes[128];
};

/* As of 2.18: a later library takes the fields that it lacks for not given, by size and version. */
struct rg_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas; /* RG_NCCL_UNDEFINED: as it likes */
    const char *net_name;
    int split_share;
};
#define RG_NCCL_UNDEFINED INT_MIN
#define RG_NCCL_CONFIG_NONBLOCKING                                                                \
    { sizeof(struct rg_nccl_config), 0xcafebeef, RG_NCCL_VERSION_MIN, 0, RG_NCCL_UNDEFINED,       \
      RG_NCCL_UNDEFINED, RG_NCCL_UNDEFINED, NULL, RG_NCCL_UNDEFINED }

/* needed or not, the field, the symbol, its arguments */
#define RG_NCCL_FUNCTIONS(line)                                                                   \
    line(1, get_version, "ncclGetVersion", (int *))                                               \
    line(1, unique_id, "ncclGetUniqueId", (struct rg_nccl_id *))                                  \
    line(1, init_rank, "ncclCommInitRankConfig",                                                  \
         (struct rg_nccl_comm **, int, struct rg_nccl_id, int, struct rg_nccl_config *))          \
    line(1, async_error, "ncclCommGetAsyncError", (struct rg_nccl_comm *, int *))                 \
    line(1, finalize, "ncclCommFinalize", (struct rg_nccl_comm *))                                \
    line(1, destroy, "ncclCommDestroy", (struct rg_nccl_comm *))                                  \
    line(1, abort, "ncclCommAbort", (struct rg_nccl_comm *))                                      \
    line(1, group_start, "ncclGroupStart", (void))                                                \
    line(1, group_end, "ncclGroupEnd", (void))                                                    \
    line(1, premul_create, "ncclRedOpCreatePreMulSum",                                            \
         (int *, void *, int, int, struct rg_nccl_comm *))                                        \
    line(1, op_destroy, "ncclRedOpDestroy", (int, struct rg_nccl_comm *))                         \
    line(1, all_reduce, "ncclAllReduce",                                                          \
         (const void *, void *, size_t, int, int, struct rg_nccl_comm *, struct rg_cuda_stream *))\
    line(1, reduce, "ncclReduce",                                                                 \
         (const void *, void *, size_t, int, int, int, struct rg_nccl_comm *,                     \
          struct rg_cuda_stream *))                                                               \
    line(1, broadcast, "ncclBroadcast",                                                           \
         (const void *, void *, size_t, int, int, struct rg_nccl_comm *, struct rg_cuda_stream *))\
    line(1, all_gather, "ncclAllGather",                                                          \
         (const void *, void *, size_t, int, struct rg_nccl_comm *, struct rg_cuda_stream *))     \
    line(1, reduce_scatter, "ncclReduceScatter",                                                  \
         (const void *, void *, size_t, int, int, struct rg_nccl_comm *, struct rg_cuda_stream *))\
    line(1, send, "ncclSend",                                                                     \
         (const void *, size_t, int, int, struct rg_nccl_comm *, struct rg_cuda_stream *))        \
    line(1, recv, "ncclRecv",                                                                     \
         (void *, size_t, int, int, struct rg_nccl_comm *, struct rg_cuda_stream *))

/* Everything returns NCCL's result. Functions that come back as text are apart. */
struct rg_nccl {
#define RG_NCCL_FIELD(needed, field, symbol, args) int (*field) args;
    RG_NCCL_FUNCTIONS(RG_NCCL_FIELD)
#undef RG_NCCL_FIELD
    const char *(*error_string)(int);                  /* "ncclGetErrorString" */
    const char *(*last_error)(struct rg_nccl_comm *);  /* "ncclGetLastError" */
    int version; /* as RG_NCCL_VERSION_MIN */
};

/* NCCL: the one that the process has loaded, else PyTorch's, else the system's; REIGEN_NCCL=<file>
 * overrides. NULL with err: it is missing or too old; the next call tries again. */
const struct rg_nccl *rg_nccl_get(struct rg_error *err);

/* err: "what: unhandled system error (NCCL's last words)"; -EIO, or -ECONNABORTED: it may be that
 * another rank has died, of which NCCL hears by its own connections. */
int rg_nccl_error(const struct rg_nccl *nccl, int result, const char *what, struct rg_error *err);

#endif
