/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of tensors on a GPU need of the stand-in driver: its functions, and "work" on a stream
 * that fills device memory and looks at it, in the stream's order.
 *
 * A failed call ends the process with a line on standard error.
 */
#ifndef TEST_COLL_GPU_DEVICE_H
#define TEST_COLL_GPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "standin.h"

/* Of the stand-in driver; CUDA's results. */
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **ret_context, int device);
int cuCtxSetCurrent(void *context);
int cuCtxGetCurrent(void **ret_context);
int cuStreamCreate(struct standin_stream **ret_stream, unsigned flags);
int cuStreamDestroy_v2(struct standin_stream *stream);
int cuStreamSynchronize(struct standin_stream *stream);
int cuStreamQuery(struct standin_stream *stream);
int cuStreamWaitEvent(struct standin_stream *stream, void *event, unsigned flags);
int cuStreamIsCapturing(struct standin_stream *stream, int *ret_status);
int cuStreamBeginCapture_v2(struct standin_stream *stream, int mode);
int cuStreamEndCapture(struct standin_stream *stream, void **ret_graph);
int cuEventCreate(void **ret_event, unsigned flags);
int cuEventDestroy_v2(void *event);
int cuEventRecord(void *event, struct standin_stream *stream);
int cuEventQuery(void *event);
int cuMemAlloc_v2(void **ret_at, size_t nbytes);
int cuMemFree_v2(void *at);
int cuMemHostAlloc(void **ret_at, size_t nbytes, unsigned flags);
int cuMemFreeHost(void *at);
int cuMemcpyAsync(void *to, const void *from, size_t nbytes, struct standin_stream *stream);
int ncclGetVersion(int *ret_version);

/* A device of this thread's, and a stream there, which reigen_use_device is told. */
struct standin_stream *device_open(int device);
void *device_alloc(size_t nbytes);
void device_free(void *at);
/* On the stream: device memory gets these bytes (copied now), or the bytes get the device's. */
void device_write(struct standin_stream *stream, void *to, const void *from, size_t nbytes);
void device_read(struct standin_stream *stream, void *to, const void *from, size_t nbytes);

#endif
