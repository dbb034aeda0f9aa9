/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a timeline, in the JSON array form of Chrome's trace event format ("Trace Event
 * Format", Google, section "JSON Array Format"): what chrome://tracing and ui.perfetto.dev read.
 *
 *     [
 *     {"name":"process_name","ph":"M","pid":0,"args":{"name":"reigen rank 0",...}},
 *     {"name":"process_name","ph":"M","pid":1,"args":{"name":"allreduce.grad"}},
 *     {"name":"NEGOTIATE_ALLREDUCE","ph":"B","pid":1,"tid":0,"ts":12.345},
 *     ...
 *     ]
 *
 * The file ends with its closing bracket after every write: a batch and the bracket go out in one
 * pwrite over the bracket before, so what a killed process leaves behind can be loaded. A reader
 * that comes in the microseconds of such a write may see half of it, and should read again.
 *
 * Each lane is a "process" of the format, and what a device did for it a "thread" there, with whole
 * spans ("ph":"X"). The other spans of a lane nest (an operation, and within it one
 * activity at a time) and are repaired here when events of them are missing: whatever is given, the
 * file stays well formed.
 *
 * Thread rule: an object belongs to one thread at a time (the writer of timeline.c). The functions
 * block as the file system does.
 */
#ifndef RG_COLL_OBSERVE_TIMELINE_JSON_H
#define RG_COLL_OBSERVE_TIMELINE_JSON_H

#include <stdint.h>

#include "base/error.h"

enum rg_trace_what {
    RG_TRACE_NEGOTIATE, /* a span begins on the lane; all before it end */
    RG_TRACE_RANK,      /* an instant: rank `arg` has submitted */
    RG_TRACE_OPERATION, /* as NEGOTIATE, with bytes, tensors and type */
    RG_TRACE_ACTIVITY,  /* a span within the operation; the activity before it ends */
    RG_TRACE_DEVICE,    /* a whole span beside the others, as they may be over before it begins */
    RG_TRACE_END,       /* all spans of the lane end; arg < 0: the operation failed */
    RG_TRACE_WAIT,      /* an instant of the process: the program begins to wait */
    RG_TRACE_CYCLE,     /* an instant over all lanes */
    RG_TRACE_DROPPED,   /* an instant over all lanes: `arg` events did not fit the ring */
};

struct rg_trace_event {
    uint64_t ns;        /* CLOCK_MONOTONIC */
    uint64_t nbytes;    /* OPERATION: payload */
    uint64_t until_ns;  /* DEVICE: its end */
    const char *name;   /* static; unused where the event has a name of its own */
    const char *type;   /* OPERATION: of its elements; static */
    uint32_t lane;      /* 1 ..; 0: none */
    uint32_t generation; /* of the timeline that it belongs to; not for this file */
    int32_t arg;
    uint16_t ntensors;  /* OPERATION */
    uint8_t what;       /* enum rg_trace_what */
};

struct rg_trace;

/* Create or truncate the file and write its head. label names the process. 0; -errno with the path
 * and the cause: nothing is left open. */
int rg_trace_open(const char *path, const char *label, struct rg_trace **ret_trace,
                  struct rg_error *err);
/* Name a lane; before its first event. */
void rg_trace_name_lane(struct rg_trace *trace, uint32_t lane, const char *name);
void rg_trace_put(struct rg_trace *trace, const struct rg_trace_event *event);
/* Write what was put. 0; -errno (-ENOSPC, ...): nothing of it is in the file, which is as it was
 * before, and nothing more will be written. -errno of the first failure ever after. */
int rg_trace_flush(struct rg_trace *trace);
/* Flush and close. 0 or -errno as flush; NULL is fine. */
int rg_trace_close(struct rg_trace *trace);
/* In a forked child: close the descriptor only. */
void rg_trace_after_fork(struct rg_trace *trace);

#endif
