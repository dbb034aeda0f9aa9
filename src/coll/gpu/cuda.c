/* SPDX-License-Identifier: Apache-2.0 */
/* One build serves machines with a GPU and without: the driver is looked for when somebody says
 * that there are tensors on one. */
#include "coll/gpu/cuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "coll/gpu/library.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rg_cuda the_table;                    /* under lock until it is published ... */
static _Atomic(const struct rg_cuda *) the_driver;  /* ... here */
static _Atomic bool forked;                         /* from a process that had started it */

#define SPAWN "start processes that use the GPU anew (multiprocessing's \"spawn\"), not by fork"

int rg_cuda_error(const struct rg_cuda *cuda, int result, const char *what, struct rg_error *err)
{
    const char *name = NULL, *words = NULL;
    int errnum = EIO;

    if (result == RG_CUDA_OUT_OF_MEMORY)
        errnum = ENOMEM;
    else if (result == RG_CUDA_INVALID_VALUE || result == RG_CUDA_INVALID_CONTEXT ||
             result == RG_CUDA_INVALID_HANDLE ||
             (result >= RG_CUDA_CAPTURE_FIRST && result <= RG_CUDA_CAPTURE_LAST))
        errnum = EINVAL;
    else if (result == RG_CUDA_DEINITIALIZED || result == RG_CUDA_CONTEXT_IS_DESTROYED)
        errnum = ESHUTDOWN; /* nothing is broken */
    if (cuda->error_name(result, &name) != 0 || cuda->error_string(result, &words) != 0 || !name)
        return rg_error_set(err, errnum, "%s: CUDA error %d", what, result);
    return rg_error_set(err, errnum, "%s: %s (%s)", what, name, words);
}

/* Another thread may have been at it. */
static void after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    atomic_store(&forked, true);
}

static int start(struct rg_cuda *cuda, struct rg_error *err)
{
    static bool hooked;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int r;

    if (!hooked && pthread_atfork(NULL, NULL, after_fork) != 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    hooked = true;
    r = cuda->init(0);
    if (r == RG_CUDA_NOT_INITIALIZED)
        return rg_error_set(err, ENOTSUP, "the GPU driver does not start, as in a process that was "
                            "forked from one that uses the GPU: " SPAWN);
    if (r == 0)
        r = cuda->driver_version(&cuda->version);
    if (r == 0)
        r = cuda->device_count(&cuda->ndevices);
    if (r != 0 && r != RG_CUDA_NO_DEVICE)
        return rg_cuda_error(cuda, r, "the GPU driver does not start", err);
    if (r == 0 && cuda->version < RG_CUDA_VERSION_MIN)
        return rg_error_set(err, ENOTSUP, "the GPU driver is for CUDA %d.%d; Reigen needs one for "
                            "%d.%d or later", cuda->version / 1000, cuda->version % 1000 / 10,
                            RG_CUDA_VERSION_MIN / 1000, RG_CUDA_VERSION_MIN % 1000 / 10);
    if (r == RG_CUDA_NO_DEVICE || cuda->ndevices < 1)
        return rg_error_set(err, ENODEV, "the GPU driver shows no device to this process%s%s",
                            visible ? "; CUDA_VISIBLE_DEVICES=" : "", visible ? visible : "");
    return 0;
}

static int load(struct rg_cuda *cuda, struct rg_error *err)
{
#define ENTRY(needed, field, symbol, args) { symbol, offsetof(struct rg_cuda, field), needed },
    static const struct rg_library_function functions[] = { RG_CUDA_FUNCTIONS(ENTRY) };
#undef ENTRY
    static const struct rg_library_place place = { .soname = RG_CUDA_SONAME };
    static void *handle;

    if (!handle)
        handle = rg_library_open(&place, err);
    if (!handle) {
        rg_error_prepend(err, "there is no GPU driver");
        return -ENOENT;
    }
    return rg_library_bind(handle, RG_CUDA_SONAME, functions, rg_array_len(functions), cuda, err);
}

const struct rg_cuda *rg_cuda_get(struct rg_error *err)
{
    const struct rg_cuda *cuda = atomic_load_explicit(&the_driver, memory_order_acquire);

    if (__builtin_expect(atomic_load_explicit(&forked, memory_order_relaxed), 0)) {
        rg_error_set(err, ENOTSUP, "this process was forked from one that uses the GPU, and cannot "
                     "use it: " SPAWN);
        return NULL;
    }
    if (cuda)
        return cuda;
    pthread_mutex_lock(&lock);
    cuda = atomic_load(&the_driver);
    if (!cuda && load(&the_table, err) == 0 && start(&the_table, err) == 0) {
        cuda = &the_table;
        atomic_store_explicit(&the_driver, cuda, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return cuda;
}
