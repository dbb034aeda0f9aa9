/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a stream was at something, by the device's own clock, found out without waiting for it:
 *
 *      the stream      ... |begin  copies, kernels  |end ...
 *      our own, idle   |clock
 *
 * Three events are recorded for each span. The one on a stream where nothing else is ever put has
 * the time of its recording, which the host knows too; how long after it the others were says what
 * the host's clock showed then. It is off by what the device needs to come to an event, some
 * microseconds, and never before the span was begun here, or after its end was seen.
 *
 * Thread rule: one thread at a time. Nothing blocks. The context of the calling thread stays.
 */
#ifndef RG_COLL_GPU_SPANS_H
#define RG_COLL_GPU_SPANS_H

#include <stdbool.h>
#include <stdint.h>

struct rg_gpu_spans;

/* about: what begin was given; it stays the object's. Times are of CLOCK_MONOTONIC. */
typedef void rg_gpu_span_fn(void *arg, void *about, uint64_t begin_ns, uint64_t end_ns);

/* 0 or -errno; -ENOTSUP: this driver does not tell times. */
int rg_gpu_spans_create(int device, struct rg_gpu_spans **ret_spans);
/* A span begins where the stream is now; only the last one that has begun can end. about is from
 * malloc, also where this fails, and is freed with the span. 0 or -errno. */
int rg_gpu_spans_begin(struct rg_gpu_spans *spans, void *stream, void *take_about);
/* It ends where the stream is now. Without one that has begun nothing happens. */
void rg_gpu_spans_end(struct rg_gpu_spans *spans, void *stream);
/* Forget the one that has begun: it never ends. */
void rg_gpu_spans_cancel(struct rg_gpu_spans *spans);
/* Tell of all spans that are over, in the order of their ends. Of a device that fails they are
 * dropped. NULL is fine, also below. */
void rg_gpu_spans_look(struct rg_gpu_spans *spans, rg_gpu_span_fn *fn, void *arg);
/* Whether some have ended and have not been told of. */
bool rg_gpu_spans_wait(const struct rg_gpu_spans *spans);
void rg_gpu_spans_destroy(struct rg_gpu_spans *spans);

#endif
