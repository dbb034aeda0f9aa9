/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors in a GPU's memory: where a pointer is, in which order streams go, and memory and streams
 * of our own there. A process in which nobody calls rg_gpu_use never looks for a driver, and every
 * pointer is taken for one of the host's.
 *
 * The host waits for no stream. A mark is a place in a stream; another stream can be told to wait
 * until the work before that place is done:
 *
 *      the caller's stream    ... backward |ready                  |waits ... optimizer
 *      our stream                           |waits  NCCL ... |done
 *
 * Thread rule: any thread; nothing blocks but the first look at a device, which starts the driver.
 * The context that is current in the calling thread stays the same, except between rg_gpu_enter and
 * rg_gpu_leave.
 */
#ifndef RG_COLL_GPU_GPU_H
#define RG_COLL_GPU_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "coll/gpu/cuda.h"

enum { RG_GPU_DEVICES_MAX = 64 };

/* ---- what a thread says of its tensors */

/* What this thread submits and waits for from now on belongs to this device and stream (CUDA's;
 * NULL: the default one). device -1: to the host, as at first. 0, or -errno with err. */
int rg_gpu_use(int device, void *stream, struct rg_error *err);
int rg_gpu_used_device(void); /* -1: the host */
void *rg_gpu_used_stream(void);
/* For a rank that has no tensor of its own: the device that is claimed, else the one that some
 * thread has used last, else one by the local rank. -1: there is no driver. */
int rg_gpu_default_device(int local_rank);

/* The one device that this process's tensors are on: the first that is claimed, from then on. 0, or
 * -EINVAL with err. */
int rg_gpu_claim(int device, struct rg_error *err);

extern _Atomic bool rg_gpu_in_use; /* rg_gpu_use has been called for some device */

/* The device that this is in (also if the host can reach it too, as managed memory); -1: the host's
 * memory, also if the driver knows it. 0, or -errno with err and *ret_device untouched: the driver
 * does not tell, as after a fault of the device, and nobody may look at what is there. */
int rg_gpu_find(const void *at, int *ret_device, struct rg_error *err);

/* ---- the context */

/* Make the device's context current in this thread, and keep what it does apart from graphs that
 * other threads capture. 0, or -errno with err and nothing changed. */
int rg_gpu_enter(int device, struct rg_error *err);
void rg_gpu_leave(void);

/* ---- order */

struct rg_gpu_mark;

/* Mark the place that a stream has come to. 0 or -errno; the caller holds the one reference. */
int rg_gpu_mark(int device, void *stream, struct rg_gpu_mark **ret_mark, struct rg_error *err);
struct rg_gpu_mark *rg_gpu_mark_ref(struct rg_gpu_mark *mark); /* NULL is fine, also below */
void rg_gpu_mark_unref(struct rg_gpu_mark *mark);
int rg_gpu_mark_device(const struct rg_gpu_mark *mark);
/* A stream of the same device waits for it. 0 or -errno; -EINVAL: it is being captured, or is no
 * stream any more. */
int rg_gpu_mark_await(const struct rg_gpu_mark *mark, void *stream, struct rg_error *err);
/* 1: what was before it is done, 0: not yet, -errno: the device failed. */
int rg_gpu_mark_passed(const struct rg_gpu_mark *mark, struct rg_error *err);
/* 0, or -EINVAL: the stream is being captured into a graph, which knows nothing of other ranks. */
int rg_gpu_check_stream(int device, void *stream, struct rg_error *err);
/* Whether the device that this process uses is of no use any more, with err. No: it uses none. */
bool rg_gpu_is_lost(struct rg_error *err);

/* ---- streams and memory of our own */

int rg_gpu_stream_create(int device, void **ret_stream, struct rg_error *err);
void rg_gpu_stream_destroy(int device, void *stream); /* what is queued there is still done */
/* Memory for what is put on this stream from now on. */
int rg_gpu_alloc(int device, void *stream, size_t nbytes, void **ret_at, struct rg_error *err);
/* To be given back when what has been put on this stream is done. NULL is fine. */
void rg_gpu_free(int device, void *stream, void *at);
/* Memory of the host's that the device copies from and to by itself. */
int rg_gpu_host_alloc(int device, size_t nbytes, void **ret_at, struct rg_error *err);
void rg_gpu_host_free(int device, void *at); /* nothing uses it any more; NULL is fine */
/* On the stream: a copy between the device's memory and such memory, in either direction. */
int rg_gpu_copy(int device, void *stream, void *to, const void *from, size_t nbytes,
                struct rg_error *err);

#endif
