/* SPDX-License-Identifier: Apache-2.0 */
/* Which NCCL there is shows at run time, so that one build serves every version from 2.18 on. */
#include "coll/gpu/nccl.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "coll/gpu/library.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rg_nccl the_table;
static _Atomic(const struct rg_nccl *) the_nccl;

int rg_nccl_error(const struct rg_nccl *nccl, int result, const char *what, struct rg_error *err)
{
    const char *more = nccl->last_error(NULL);
    bool remote = result == RG_NCCL_REMOTE_ERROR || result == RG_NCCL_SYSTEM_ERROR;

    if (!more)
        more = "";
    return rg_error_set(err, remote ? ECONNABORTED : EIO, "%s: %s%s%.*s%s", what,
                        nccl->error_string(result), more[0] ? " (" : "",
                        (int) strcspn(more, "\n"), more, more[0] ? ")" : "");
}

static int load(struct rg_nccl *nccl, struct rg_error *err)
{
#define ENTRY(needed, field, symbol, args) { symbol, offsetof(struct rg_nccl, field), needed },
    static const struct rg_library_function functions[] = {
        RG_NCCL_FUNCTIONS(ENTRY)
        { "ncclGetErrorString", offsetof(struct rg_nccl, error_string), true },
        { "ncclGetLastError", offsetof(struct rg_nccl, last_error), true },
    };
#undef ENTRY
    static const struct rg_library_place place = { .soname = RG_NCCL_SONAME,
                                                   .variable = "REIGEN_NCCL",
                                                   .beside = "torch/lib",
                                                   .below = "nvidia/nccl/lib" };
    static void *handle;
    int r;

    if (!handle)
        handle = rg_library_open(&place, err);
    if (!handle) {
        rg_error_prepend(err, "there is no NCCL");
        return -ENOENT;
    }
    r = rg_library_bind(handle, RG_NCCL_SONAME, functions, rg_array_len(functions), nccl, err);
    if (r < 0)
        return r;
    if (nccl->get_version(&nccl->version) != 0)
        return rg_error_set(err, EIO, RG_NCCL_SONAME " does not tell its version");
    if (nccl->version < RG_NCCL_VERSION_MIN)
        return rg_error_set(err, ENOTSUP, RG_NCCL_SONAME " is version %d.%d.%d; Reigen needs 2.18 "
                            "or later", nccl->version / 10000, nccl->version / 100 % 100,
                            nccl->version % 100);
    return 0;
}

const struct rg_nccl *rg_nccl_get(struct rg_error *err)
{
    const struct rg_nccl *nccl = atomic_load_explicit(&the_nccl, memory_order_acquire);

    if (nccl)
        return nccl;
    pthread_mutex_lock(&lock);
    nccl = atomic_load(&the_nccl);
    if (!nccl && load(&the_table, err) == 0) {
        nccl = &the_table;
        atomic_store_explicit(&the_nccl, nccl, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return nccl;
}
