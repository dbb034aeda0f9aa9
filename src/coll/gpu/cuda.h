/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the driver's API (libcuda.so.1) that Reigen uses: declarations of our own, as its C
 * ABI is stable, and one table of functions that is filled at run time. Of a function that has
 * changed in the past the symbol is named by which it is exported now ("_v2").
 *
 * Everything returns the driver's result, 0 for success; rg_cuda_error puts it into words. Most act
 * on the context that is current in the calling thread: rg_cuda_enter.
 *
 * Thread rule: any thread. rg_cuda_get may block for the library and for the driver's start, once.
 */
#ifndef RG_COLL_GPU_CUDA_H
#define RG_COLL_GPU_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define RG_CUDA_SONAME "libcuda.so.1"
#define RG_CUDA_VERSION_MIN 11000 /* 1000 * major + 10 * minor */

/* Handles of the driver's. A stream NULL is the device's default one. */
struct rg_cuda_context;
struct rg_cuda_event;
struct rg_cuda_stream;
typedef uint64_t rg_cuda_ptr;

/* Results that are told apart. */
enum {
    RG_CUDA_SUCCESS = 0,
    RG_CUDA_INVALID_VALUE = 1,
    RG_CUDA_OUT_OF_MEMORY = 2,
    RG_CUDA_NOT_INITIALIZED = 3, /* as in a child of a process that had started the driver */
    RG_CUDA_DEINITIALIZED = 4,   /* the process is about to end */
    RG_CUDA_NO_DEVICE = 100,
    RG_CUDA_INVALID_CONTEXT = 201,
    RG_CUDA_INVALID_HANDLE = 400, /* of a stream that is destroyed, say */
    RG_CUDA_NOT_READY = 600,
    RG_CUDA_CONTEXT_IS_DESTROYED = 709, /* the program has reset the device */
    RG_CUDA_CAPTURE_FIRST = 900, /* a stream that is being captured does not allow it, ... */
    RG_CUDA_CAPTURE_LAST = 908,  /* ... in some way */
};

/* Of cuPointerGetAttributes. */
enum {
    RG_CUDA_POINTER_MEMORY_TYPE = 2,
    RG_CUDA_POINTER_DEVICE_ORDINAL = 9,
    RG_CUDA_MEMORY_TYPE_DEVICE = 2, /* a type of memory; 0: the driver does not know the address */
};

enum {
    RG_CUDA_STREAM_NON_BLOCKING = 1,   /* does not wait for the default stream, nor it for this */
    RG_CUDA_EVENT_DEFAULT = 0, /* it has the time */
    RG_CUDA_EVENT_DISABLE_TIMING = 2,
    RG_CUDA_DEVICE_MEMORY_POOLS = 115, /* the attribute: allocations can be ordered by a stream */
    RG_CUDA_CAPTURE_RELAXED = 2, /* this thread's calls do no harm to what others capture */
};

/* needed or not, the field, the symbol, its arguments */
#define RG_CUDA_FUNCTIONS(line)                                                                   \
    line(1, init, "cuInit", (unsigned))                                                           \
    line(1, driver_version, "cuDriverGetVersion", (int *))                                        \
    line(1, error_name, "cuGetErrorName", (int, const char **))                                   \
    line(1, error_string, "cuGetErrorString", (int, const char **))                               \
    line(1, device_count, "cuDeviceGetCount", (int *))                                            \
    line(1, device_get, "cuDeviceGet", (int *, int))                                              \
    line(1, device_attribute, "cuDeviceGetAttribute", (int *, int, int))                          \
    line(1, device_bus_id, "cuDeviceGetPCIBusId", (char *, int, int))                             \
    line(1, device_uuid, "cuDeviceGetUuid", (uint8_t *, int))                                     \
    line(0, device_uuid_of_part, "cuDeviceGetUuid_v2", (uint8_t *, int)) /* of a MIG instance */  \
    line(1, primary_retain, "cuDevicePrimaryCtxRetain", (struct rg_cuda_context **, int))         \
    line(1, primary_release, "cuDevicePrimaryCtxRelease_v2", (int))                               \
    line(1, context_push, "cuCtxPushCurrent_v2", (struct rg_cuda_context *))                      \
    line(1, context_pop, "cuCtxPopCurrent_v2", (struct rg_cuda_context **))                       \
    line(1, pointer_attributes, "cuPointerGetAttributes",                                         \
         (unsigned, const int *, void **, rg_cuda_ptr))                                           \
    line(1, stream_create, "cuStreamCreate", (struct rg_cuda_stream **, unsigned))                \
    line(1, stream_destroy, "cuStreamDestroy_v2", (struct rg_cuda_stream *))                      \
    line(1, stream_query, "cuStreamQuery", (struct rg_cuda_stream *))                             \
    line(1, stream_wait, "cuStreamWaitEvent",                                                     \
         (struct rg_cuda_stream *, struct rg_cuda_event *, unsigned))                             \
    line(1, stream_capturing, "cuStreamIsCapturing", (struct rg_cuda_stream *, int *))            \
    line(1, capture_mode, "cuThreadExchangeStreamCaptureMode", (int *))                           \
    line(1, event_create, "cuEventCreate", (struct rg_cuda_event **, unsigned))                   \
    line(1, event_destroy, "cuEventDestroy_v2", (struct rg_cuda_event *))                         \
    line(1, event_record, "cuEventRecord", (struct rg_cuda_event *, struct rg_cuda_stream *))     \
    line(1, event_query, "cuEventQuery", (struct rg_cuda_event *))                                \
    line(1, event_synchronize, "cuEventSynchronize", (struct rg_cuda_event *))                    \
    line(0, event_elapsed, "cuEventElapsedTime",                                                  \
         (float *, struct rg_cuda_event *, struct rg_cuda_event *))                               \
    line(1, alloc, "cuMemAlloc_v2", (rg_cuda_ptr *, size_t))                                      \
    line(1, free, "cuMemFree_v2", (rg_cuda_ptr))                                                  \
    line(0, alloc_async, "cuMemAllocAsync", (rg_cuda_ptr *, size_t, struct rg_cuda_stream *))     \
    line(0, free_async, "cuMemFreeAsync", (rg_cuda_ptr, struct rg_cuda_stream *))                 \
    line(1, host_alloc, "cuMemHostAlloc", (void **, size_t, unsigned))                            \
    line(1, host_free, "cuMemFreeHost", (void *))                                                 \
    line(1, copy_async, "cuMemcpyAsync",                                                          \
         (rg_cuda_ptr, rg_cuda_ptr, size_t, struct rg_cuda_stream *))                             \
    line(1, set_async, "cuMemsetD8Async",                                                         \
         (rg_cuda_ptr, unsigned char, size_t, struct rg_cuda_stream *))

struct rg_cuda {
#define RG_CUDA_FIELD(needed, field, symbol, args) int (*field) args;
    RG_CUDA_FUNCTIONS(RG_CUDA_FIELD)
#undef RG_CUDA_FIELD
    int version;  /* of the driver, as RG_CUDA_VERSION_MIN */
    int ndevices; /* visible to this process; positive */
};

/* The driver of this process, loaded and started at the first call. NULL with err: there is none
 * (libcuda.so.1 is missing), it is too old, or there is no device; the next call tries again. In a
 * child that was forked after the first call the driver is of no use: NULL, -ENOTSUP. */
const struct rg_cuda *rg_cuda_get(struct rg_error *err);

/* err: "what: CUDA_ERROR_... (words of the driver)"; -ENOMEM for out of memory, -EINVAL for what is
 * the caller's fault, else -EIO: the device is of no use any more. */
int rg_cuda_error(const struct rg_cuda *cuda, int result, const char *what, struct rg_error *err);

#endif
