/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver is asked about devices, streams and events, so that nobody else has to keep its
 * rules: a context is current whenever it is called, and events are used again. */
#include "coll/gpu/gpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "coll/gpu/near.h"

_Atomic bool rg_gpu_in_use;
static _Atomic int last_device = -1, claimed_device = -1;

/* What a thread has said; one more than the device, so that zero is the host. */
static _Thread_local int used_device;
static _Thread_local void *used_stream;

/* How often a thread has entered, and its mode of capture before. */
static _Thread_local int entered, mode_before;

/* Kept until the process ends. */
struct device {
    struct rg_cuda_context *context; /* retained once */
    bool has_pools;                  /* allocations can be ordered by a stream */
    struct rg_gpu_mark *spare;       /* marks whose events can be used again */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the devices */
static struct device devices[RG_GPU_DEVICES_MAX];

struct rg_gpu_mark {
    _Atomic int refs;
    int device;
    struct rg_cuda_event *event;
    struct rg_gpu_mark *next; /* while it is spare */
};

/* ---- the context */

/* Under the lock. */
static int open_device(const struct rg_cuda *cuda, int number, struct rg_error *err)
{
    struct device *device = &devices[number];
    int pools = 0, r;

    if (device->context)
        return 0;
    r = cuda->primary_retain(&device->context, number);
    if (r == 0)
        r = cuda->device_attribute(&pools, RG_CUDA_DEVICE_MEMORY_POOLS, number);
    if (r != 0) {
        device->context = NULL;
        return rg_cuda_error(cuda, r, "the GPU cannot be used", err);
    }
    device->has_pools = pools && cuda->alloc_async && cuda->free_async;
    return 0;
}

int rg_gpu_enter(int device, struct rg_error *err)
{
    struct rg_error why = RG_ERROR_INIT;
    const struct rg_cuda *cuda = rg_cuda_get(&why);
    int r;

    if (!cuda) {
        if (err)
            *err = why;
        return -why.errnum;
    }
    if (device < 0 || device >= cuda->ndevices || device >= RG_GPU_DEVICES_MAX)
        return rg_error_set(err, EINVAL, "there is no GPU %d: this process sees %d", device,
                            cuda->ndevices);
    pthread_mutex_lock(&lock);
    r = open_device(cuda, device, err);
    pthread_mutex_unlock(&lock);
    if (r < 0)
        return r;
    r = cuda->context_push(devices[device].context);
    if (r != 0)
        return rg_cuda_error(cuda, r, "the GPU cannot be used by this process", err);
    /* Some thread may be capturing a graph, with which nothing here has to do. */
    mode_before = entered == 0 ? RG_CUDA_CAPTURE_RELAXED : mode_before;
    if (entered++ == 0)
        cuda->capture_mode(&mode_before);
    return 0;
}

void rg_gpu_leave(void)
{
    const struct rg_cuda *cuda = rg_cuda_get(NULL);
    struct rg_cuda_context *context;

    if (--entered == 0)
        cuda->capture_mode(&mode_before);
    cuda->context_pop(&context);
}

/* Of what has been called with the device entered: 0, or -errno with err. */
static int leave(int result, const char *what, struct rg_error *err)
{
    rg_gpu_leave();
    return result == 0 ? 0 : rg_cuda_error(rg_cuda_get(NULL), result, what, err);
}

/* ---- what a thread says */

int rg_gpu_use(int device, void *stream, struct rg_error *err)
{
    int r = 0;

    if (device >= 0) {
        r = rg_gpu_enter(device, err);
        if (r < 0)
            return r;
        rg_gpu_leave();
        if (atomic_exchange(&last_device, device) < 0)
            rg_near_use(device);
        atomic_store(&rg_gpu_in_use, true);
    }
    used_device = device >= 0 ? device + 1 : 0;
    used_stream = device >= 0 ? stream : NULL;
    return 0;
}

int rg_gpu_used_device(void)
{
    return used_device - 1;
}

void *rg_gpu_used_stream(void)
{
    return used_stream;
}

int rg_gpu_default_device(int local_rank)
{
    const struct rg_cuda *cuda;
    int device = atomic_load(&claimed_device);

    if (device < 0)
        device = atomic_load(&last_device);
    if (device >= 0)
        return device;
    cuda = rg_cuda_get(NULL);
    return cuda ? local_rank % cuda->ndevices : -1;
}

int rg_gpu_claim(int device, struct rg_error *err)
{
    int before = -1;

    if (atomic_compare_exchange_strong(&claimed_device, &before, device) || before == device)
        return 0;
    return rg_error_set(err, EINVAL, "a tensor is on GPU %d, but this rank's tensors have been on "
                        "GPU %d; each rank uses one GPU", device, before);
}

int rg_gpu_find(const void *at, int *ret_device, struct rg_error *err)
{
    static const int attributes[] = { RG_CUDA_POINTER_MEMORY_TYPE, RG_CUDA_POINTER_DEVICE_ORDINAL };
    const struct rg_cuda *cuda = rg_cuda_get(NULL);
    unsigned type = 0;
    int device = -1, r = RG_CUDA_INVALID_VALUE;
    void *values[] = { &type, &device };

    if (cuda)
        r = cuda->pointer_attributes(2, attributes, values, (uintptr_t) at);
    /* A thread may have no context. */
    if (r == RG_CUDA_INVALID_CONTEXT && rg_gpu_enter(rg_gpu_default_device(0), NULL) == 0) {
        r = cuda->pointer_attributes(2, attributes, values, (uintptr_t) at);
        rg_gpu_leave();
    }
    /* With the driver the memory of all devices has gone. */
    bool unknown = r == RG_CUDA_INVALID_VALUE || r == RG_CUDA_DEINITIALIZED;
    if (r != 0 && !unknown)
        return rg_cuda_error(cuda, r, "the GPU's driver does not tell where a tensor is", err);
    *ret_device = !unknown && type == RG_CUDA_MEMORY_TYPE_DEVICE ? device : -1;
    return 0;
}

/* ---- order */

static struct rg_gpu_mark *take_spare(int device)
{
    struct rg_gpu_mark *mark;

    pthread_mutex_lock(&lock);
    mark = devices[device].spare;
    if (mark)
        devices[device].spare = mark->next;
    pthread_mutex_unlock(&lock);
    return mark;
}

int rg_gpu_mark(int device, void *stream, struct rg_gpu_mark **ret_mark, struct rg_error *err)
{
    struct rg_gpu_mark *mark;
    const struct rg_cuda *cuda;
    int r = rg_gpu_enter(device, err);

    if (r < 0)
        return r;
    cuda = rg_cuda_get(NULL);
    mark = take_spare(device);
    if (!mark) {
        mark = calloc(1, sizeof(*mark));
        if (!mark) {
            rg_gpu_leave();
            return rg_error_set(err, ENOMEM, "out of memory");
        }
        mark->device = device;
        r = cuda->event_create(&mark->event, RG_CUDA_EVENT_DISABLE_TIMING);
        if (r != 0) {
            free(mark);
            return leave(r, "an event of the GPU's cannot be made", err);
        }
    }
    atomic_store(&mark->refs, 1);
    r = leave(cuda->event_record(mark->event, stream), "the stream of the GPU is of no use", err);
    if (r < 0)
        rg_gpu_mark_unref(mark);
    else
        *ret_mark = mark;
    return r;
}

struct rg_gpu_mark *rg_gpu_mark_ref(struct rg_gpu_mark *mark)
{
    if (mark)
        atomic_fetch_add(&mark->refs, 1);
    return mark;
}

void rg_gpu_mark_unref(struct rg_gpu_mark *mark)
{
    if (!mark || atomic_fetch_sub(&mark->refs, 1) > 1)
        return;
    /* In a forked child another thread may have held the lock, and the event is of no use. */
    if (!rg_cuda_get(NULL))
        return;
    /* A stream that waits for it waits for the place of then, not for where it is recorded next. */
    pthread_mutex_lock(&lock);
    mark->next = devices[mark->device].spare;
    devices[mark->device].spare = mark;
    pthread_mutex_unlock(&lock);
}

int rg_gpu_mark_device(const struct rg_gpu_mark *mark)
{
    return mark->device;
}

int rg_gpu_mark_await(const struct rg_gpu_mark *mark, void *stream, struct rg_error *err)
{
    int r;

    if (!mark)
        return 0;
    r = rg_gpu_enter(mark->device, err);
    if (r < 0)
        return r;
    r = rg_cuda_get(NULL)->stream_wait(stream, mark->event, 0);
    if (r >= RG_CUDA_CAPTURE_FIRST && r <= RG_CUDA_CAPTURE_LAST)
        return leave(r, "a stream that is being captured into a CUDA graph cannot wait for an "
                     "operation among ranks: wait before the capture", err);
    return leave(r, "the stream of the GPU is of no use", err);
}

int rg_gpu_mark_passed(const struct rg_gpu_mark *mark, struct rg_error *err)
{
    int r;

    if (!mark)
        return 1;
    r = rg_gpu_enter(mark->device, err);
    if (r < 0)
        return r;
    r = rg_cuda_get(NULL)->event_query(mark->event);
    if (r == RG_CUDA_NOT_READY) {
        rg_gpu_leave();
        return 0;
    }
    r = leave(r, "the GPU failed", err);
    return r < 0 ? r : 1;
}

int rg_gpu_check_stream(int device, void *stream, struct rg_error *err)
{
    int status = 0, r = rg_gpu_enter(device, err);

    if (r < 0)
        return r;
    r = leave(rg_cuda_get(NULL)->stream_capturing(stream, &status),
              "the stream of the GPU is of no use", err);
    if (r == 0 && status != 0)
        return rg_error_set(err, EINVAL, "the stream is being captured into a CUDA graph: "
                            "operations among ranks cannot be part of one; end the capture before "
                            "them");
    return r;
}

bool rg_gpu_is_lost(struct rg_error *err)
{
    int device = atomic_load(&rg_gpu_in_use) ? rg_gpu_default_device(0) : -1;
    void *stream = used_device - 1 == device ? used_stream : NULL;

    return device >= 0 && rg_gpu_check_stream(device, stream, err) == -EIO;
}

/* ---- streams and memory */

int rg_gpu_stream_create(int device, void **ret_stream, struct rg_error *err)
{
    struct rg_cuda_stream *stream;
    int r = rg_gpu_enter(device, err);

    if (r < 0)
        return r;
    r = leave(rg_cuda_get(NULL)->stream_create(&stream, RG_CUDA_STREAM_NON_BLOCKING),
              "a stream of the GPU's cannot be made", err);
    if (r == 0)
        *ret_stream = stream;
    return r;
}

void rg_gpu_stream_destroy(int device, void *stream)
{
    if (!stream || rg_gpu_enter(device, NULL) < 0)
        return;
    rg_cuda_get(NULL)->stream_destroy(stream);
    rg_gpu_leave();
}

int rg_gpu_alloc(int device, void *stream, size_t nbytes, void **ret_at, struct rg_error *err)
{
    const struct rg_cuda *cuda;
    rg_cuda_ptr at = 0;
    int r = rg_gpu_enter(device, err);

    if (r < 0)
        return r;
    cuda = rg_cuda_get(NULL);
    r = devices[device].has_pools ? cuda->alloc_async(&at, nbytes ? nbytes : 1, stream)
                                  : cuda->alloc(&at, nbytes ? nbytes : 1);
    r = leave(r, "memory of the GPU", err);
    if (r == 0)
        *ret_at = (void *) (uintptr_t) at;
    return r;
}

void rg_gpu_free(int device, void *stream, void *at)
{
    const struct rg_cuda *cuda;

    if (!at || rg_gpu_enter(device, NULL) < 0)
        return;
    cuda = rg_cuda_get(NULL);
    if (devices[device].has_pools)
        cuda->free_async((uintptr_t) at, stream);
    else
        cuda->free((uintptr_t) at);
    rg_gpu_leave();
}

int rg_gpu_host_alloc(int device, size_t nbytes, void **ret_at, struct rg_error *err)
{
    void *at;
    int r = rg_gpu_enter(device, err);

    if (r < 0)
        return r;
    r = leave(rg_cuda_get(NULL)->host_alloc(&at, nbytes ? nbytes : 1, 0), "pinned memory", err);
    if (r == 0)
        *ret_at = at;
    return r;
}

void rg_gpu_host_free(int device, void *at)
{
    if (!at || rg_gpu_enter(device, NULL) < 0)
        return;
    rg_cuda_get(NULL)->host_free(at);
    rg_gpu_leave();
}

int rg_gpu_copy(int device, void *stream, void *to, const void *from, size_t nbytes,
                struct rg_error *err)
{
    int r = rg_gpu_enter(device, err);

    if (r < 0)
        return r;
    r = rg_cuda_get(NULL)->copy_async((uintptr_t) to, (uintptr_t) from, nbytes, stream);
    return leave(r, "a copy by the GPU", err);
}
