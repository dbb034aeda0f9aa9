/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline that ends where work was handed to the device would leave out the work itself. */
#include "coll/gpu/spans.h"

#include <errno.h>
#include <stdlib.h>

#include "base/time.h"
#include "coll/gpu/gpu.h"

enum { CLOCK, BEGIN, END, NEVENTS };

struct span {
    struct span *next;
    struct rg_cuda_event *events[NEVENTS];
    uint64_t clock_ns; /* of the host, when CLOCK was recorded */
    void *about;
};

struct rg_gpu_spans {
    int device;
    void *idle;                  /* the stream for CLOCK */
    struct span *begun;          /* and not ended */
    struct span *first, **last;  /* ended, and not told of */
    struct span *spare;
};

int rg_gpu_spans_create(int device, struct rg_gpu_spans **ret_spans)
{
    struct rg_gpu_spans *spans = calloc(1, sizeof(*spans));
    const struct rg_cuda *cuda = rg_cuda_get(NULL);
    int r = !spans ? -ENOMEM : !cuda || !cuda->event_elapsed ? -ENOTSUP : 0;

    if (r == 0)
        r = rg_gpu_stream_create(device, &spans->idle, NULL);
    if (r < 0) {
        free(spans);
        return r;
    }
    spans->device = device;
    spans->last = &spans->first;
    *ret_spans = spans;
    return 0;
}

/* ---- with the device entered */

static void free_span(const struct rg_cuda *cuda, struct span *span)
{
    for (int i = 0; i < NEVENTS; i++)
        if (span->events[i])
            cuda->event_destroy(span->events[i]);
    free(span->about);
    free(span);
}

static struct span *make_span(const struct rg_cuda *cuda)
{
    struct span *span = calloc(1, sizeof(*span));
    int r = span ? 0 : RG_CUDA_OUT_OF_MEMORY;

    for (int i = 0; i < NEVENTS && r == 0; i++)
        r = cuda->event_create(&span->events[i], RG_CUDA_EVENT_DEFAULT);
    if (r == 0)
        return span;
    if (span)
        free_span(cuda, span);
    return NULL;
}

/* 1: it is told, 0: not yet, -errno. */
static int tell(const struct rg_cuda *cuda, const struct span *span, rg_gpu_span_fn *fn, void *arg)
{
    int64_t now_ns = (int64_t) rg_now_ns(), begin_ns, end_ns;
    float ms[NEVENTS] = { 0 };
    int r = 0;

    for (int i = END; i > CLOCK && r == 0; i--)
        r = cuda->event_elapsed(&ms[i], span->events[CLOCK], span->events[i]);
    if (r != 0)
        return r == RG_CUDA_NOT_READY ? 0 : -EIO;
    /* Whatever the clocks say, how long it took is right, and it was not before its time. */
    begin_ns = (int64_t) span->clock_ns;
    begin_ns += ms[BEGIN] > 0 ? (int64_t) ((double) ms[BEGIN] * 1e6) : 0;
    end_ns = begin_ns + (int64_t) (((double) ms[END] - (double) ms[BEGIN]) * 1e6);
    end_ns = end_ns < now_ns ? end_ns : now_ns;
    begin_ns = begin_ns < end_ns ? begin_ns : end_ns;
    fn(arg, span->about, (uint64_t) begin_ns, (uint64_t) end_ns);
    return 1;
}

static void drop_span(struct rg_gpu_spans *spans, struct span *span)
{
    free(span->about);
    span->about = NULL;
    span->next = spans->spare;
    spans->spare = span;
}

/* ---- what others call */

int rg_gpu_spans_begin(struct rg_gpu_spans *spans, void *stream, void *take_about)
{
    const struct rg_cuda *cuda;
    struct span *span;
    int r = rg_gpu_enter(spans->device, NULL);

    if (r < 0) {
        free(take_about);
        return r;
    }
    cuda = rg_cuda_get(NULL);
    rg_gpu_spans_cancel(spans);
    span = spans->spare ? spans->spare : make_span(cuda);
    if (!span) {
        rg_gpu_leave();
        free(take_about);
        return -ENOMEM;
    }
    if (span == spans->spare)
        spans->spare = span->next;
    span->about = take_about;
    span->next = NULL;
    span->clock_ns = rg_now_ns();
    r = cuda->event_record(span->events[CLOCK], spans->idle);
    if (r == 0)
        r = cuda->event_record(span->events[BEGIN], stream);
    spans->begun = span;
    if (r != 0)
        rg_gpu_spans_cancel(spans);
    rg_gpu_leave();
    return r == 0 ? 0 : -EIO;
}

void rg_gpu_spans_end(struct rg_gpu_spans *spans, void *stream)
{
    struct span *span = spans->begun;

    if (!span || rg_gpu_enter(spans->device, NULL) < 0)
        return;
    if (rg_cuda_get(NULL)->event_record(span->events[END], stream) == 0) {
        *spans->last = span;
        spans->last = &span->next;
        spans->begun = NULL;
    }
    rg_gpu_leave();
}

void rg_gpu_spans_cancel(struct rg_gpu_spans *spans)
{
    if (spans && spans->begun)
        drop_span(spans, spans->begun);
    if (spans)
        spans->begun = NULL;
}

void rg_gpu_spans_look(struct rg_gpu_spans *spans, rg_gpu_span_fn *fn, void *arg)
{
    int r = 1;

    if (!spans || !spans->first || rg_gpu_enter(spans->device, NULL) < 0)
        return;
    while (spans->first && r != 0) {
        struct span *span = spans->first;

        r = tell(rg_cuda_get(NULL), span, fn, arg);
        if (r == 0)
            break;
        spans->first = span->next;
        if (!spans->first)
            spans->last = &spans->first;
        drop_span(spans, span);
    }
    rg_gpu_leave();
}

bool rg_gpu_spans_wait(const struct rg_gpu_spans *spans)
{
    return spans && spans->first;
}

static void free_list(const struct rg_cuda *cuda, struct span *span)
{
    struct span *next;

    for (; span; span = next) {
        next = span->next;
        free_span(cuda, span);
    }
}

/* Where the device cannot be entered, as in a forked child, its events are left to it. */
void rg_gpu_spans_destroy(struct rg_gpu_spans *spans)
{
    if (!spans)
        return;
    rg_gpu_spans_cancel(spans);
    if (rg_gpu_enter(spans->device, NULL) == 0) {
        free_list(rg_cuda_get(NULL), spans->first);
        free_list(rg_cuda_get(NULL), spans->spare);
        rg_gpu_leave();
    }
    rg_gpu_stream_destroy(spans->device, spans->idle);
    free(spans);
}
