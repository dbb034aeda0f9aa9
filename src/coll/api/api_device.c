/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on a GPU, at the door: where a pointer leads is found out before anything else looks at
 * it, and the caller's stream is marked before another thread may see the operation. */
#include "coll/api/api.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "coll/gpu/gpu.h"
#include "coll/gpu/nccl.h"

REIGEN_API int reigen_use_device(int device, void *stream)
{
    struct rg_error err = RG_ERROR_INIT;

    return rg_gpu_use(device, stream, &err) < 0 ? rg_api_fail(&err) : 0;
}

REIGEN_API int reigen_used_device(void **ret_stream)
{
    *ret_stream = rg_gpu_used_stream();
    return rg_gpu_used_device();
}

REIGEN_API int reigen_device_of(const void *at, int *ret_device)
{
    struct rg_error err = RG_ERROR_INIT;

    if (!rg_cuda_get(&err) || rg_gpu_find(at, ret_device, &err) < 0)
        return rg_api_fail(&err);
    return 0;
}

static bool in_use(void)
{
    return __builtin_expect(atomic_load_explicit(&rg_gpu_in_use, memory_order_relaxed), 0);
}

bool rg_api_device_looks(const void *at)
{
    int device;

    return at && (rg_gpu_find(at, &device, NULL) < 0 || device >= 0);
}

REIGEN_API int reigen_nccl_version(void)
{
    const struct rg_nccl *nccl = rg_nccl_get(NULL);

    return nccl ? nccl->version : 0;
}

/* The stream that the caller works with. */
static void *stream_on(int device)
{
    return rg_gpu_used_device() == device ? rg_gpu_used_stream() : NULL;
}

/* "GPU 1" or "the host's memory" */
static const char *place(int device, char text[32])
{
    if (device < 0)
        return "the host's memory";
    snprintf(text, 32, "GPU %d", device);
    return text;
}

/* One more tensor of the call's. */
static int look(const struct rg_call *call, const void *at, bool *known, int *device,
                struct rg_error *err)
{
    char texts[2][32];
    int here, r = at ? rg_gpu_find(at, &here, err) : 0;

    if (!at || r < 0)
        return r;
    if (*known && here != *device)
        return rg_error_set(err, EINVAL, "%s: its tensors are in different places: one is in %s, "
                            "another one in %s", rg_kind_name(call->kind),
                            place(*device, texts[0]), place(here, texts[1]));
    *known = true;
    *device = here;
    return 0;
}

/* Where the call's tensors are; -1: in the host's memory. */
static int find_device(const struct rg_call *call, int *ret_device, struct rg_error *err)
{
    bool known = false;
    int device = -1, r = 0;

    for (int i = 0; i < call->n && r == 0; i++) {
        if (call->ins)
            r = look(call, call->ins[i], &known, &device, err);
        if (r == 0 && call->outs)
            r = look(call, call->outs[i], &known, &device, err);
    }
    if (r == 0 && !known)
        device = rg_gpu_used_device(); /* an empty tensor has no address */
    if (r == 0)
        *ret_device = device;
    return r;
}

int rg_api_device_begin(struct rg_progress *progress, struct rg_call *call, struct rg_error *err)
{
    int device = -1, r = 0;

    if (!in_use() || call->kind == REIGEN_BARRIER)
        return 0;
    /* In a forked child nobody can tell where a pointer leads. */
    if (rg_gpu_used_device() >= 0 && !rg_cuda_get(err))
        return -ENOTSUP;
    r = find_device(call, &device, err);
    if (r == 0 && device < 0)
        return 0;
    if (r == 0)
        r = rg_gpu_claim(device, err);
    if (r == 0)
        r = rg_gpu_check_stream(device, stream_on(device), err);
    if (r == 0)
        r = rg_gpu_mark(device, stream_on(device), &call->ready, err);
    /* The others' work waits on their devices for ours. */
    if (r == -EIO)
        rg_progress_abort(progress, EIO, err->text);
    if (r < 0)
        return r;
    call->memory = RG_MEMORY_CUDA;
    call->device = device;
    return 0;
}

void rg_api_device_end(struct rg_call *call)
{
    rg_gpu_mark_unref(call->ready);
    call->ready = NULL;
}

int rg_api_device_await(const struct rg_op *op)
{
    struct rg_error err = RG_ERROR_INIT;

    if (__builtin_expect(!op->buffers.done, 1) || op->status < 0)
        return 0;
    return rg_gpu_mark_await(op->buffers.done, stream_on(op->buffers.device), &err) < 0
               ? rg_api_fail(&err) : 0;
}

bool rg_api_device_passed(const struct rg_op *op)
{
    return __builtin_expect(!op->buffers.done, 1) ||
           rg_gpu_mark_passed(op->buffers.done, NULL) != 0;
}

int rg_api_device_copy(const struct rg_op *op, void *to, const void *from, size_t nbytes)
{
    int device = op->buffers.memory == RG_MEMORY_CUDA ? op->buffers.device : -1;
    struct rg_error err = RG_ERROR_INIT;
    char texts[2][32];
    int there = -1;

    if (in_use() && rg_gpu_find(to, &there, &err) < 0)
        return rg_api_fail(&err);
    if (there != device)
        return rg_api_failf(EINVAL, "the result is in %s, and cannot be copied to %s",
                            place(device, texts[0]), place(there, texts[1]));
    if (device < 0) {
        memcpy(to, from, nbytes);
        return 0;
    }
    return rg_gpu_copy(device, stream_on(device), to, from, nbytes, &err) < 0 ? rg_api_fail(&err)
                                                                             : 0;
}
