/* SPDX-License-Identifier: Apache-2.0 */
/* The trace's file: whatever end a process comes to, what is written so far can be read. */
#include "coll/observe/timeline_json.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/time.h"
#include "coll/ground/types.h"

#define FLUSH_NBYTES 65536 /* a batch is written when it has grown so long */
#define DEPTH_MAX 2        /* an operation, and an activity within */
#define HOST_TID 0         /* of a lane's spans ... */
#define DEVICE_TID 1       /* ... and of what a device did */
#define TAIL "\n]\n"

/* A lane's spans. */
struct lane {
    uint64_t last_ns; /* of its last span event: time does not run backwards in a lane */
    int depth;
    bool has_device;  /* DEVICE_TID has its name */
};

struct rg_trace {
    int fd;
    int status;          /* 0, or -errno: nothing is written any more */
    off_t offset;        /* where the tail begins */
    uint64_t start_ns;
    struct rg_buf text;  /* the batch, without the tail */
    struct lane *lanes;
    size_t nlanes;
};

/* One record's beginning: a comma after the one before. */
static struct rg_buf *next(struct rg_trace *trace)
{
    rg_buf_put(&trace->text, ",\n", 2);
    return &trace->text;
}

/* How many bytes of the batch's whole events lie in its first nbytes, with room for the tail: each
 * event begins with ",\n", and no text in JSON holds a line's end. */
static size_t whole_events(const char *batch, size_t nbytes)
{
    if (nbytes < strlen(TAIL))
        return 0;
    for (size_t n = nbytes - strlen(TAIL); n > 0; n--)
        if (batch[n] == ',' && batch[n + 1] == '\n')
            return n;
    return 0;
}

/* The file ends after what is whole, so that it stays readable; the place of the tail is there
 * already. */
static void end_after(struct rg_trace *trace, off_t offset)
{
    if (ftruncate(trace->fd, offset) < 0 || pwrite(trace->fd, TAIL, strlen(TAIL), offset) < 0)
        trace->offset = 0;
}

/* The batch goes over the tail of the file, with a tail of its own. Of one that does not go in, the
 * events that fit stay. */
int rg_trace_flush(struct rg_trace *trace)
{
    size_t nbytes = rg_buf_nbytes(&trace->text), length;
    const char *batch;
    ssize_t n;

    if (trace->status < 0 || nbytes == 0)
        return trace->status;
    rg_buf_put(&trace->text, TAIL, strlen(TAIL));
    length = rg_buf_nbytes(&trace->text);
    trace->status = rg_buf_status(&trace->text);
    if (trace->status == 0) {
        batch = (const char *) rg_buf_bytes(&trace->text);
        do
            n = pwrite(trace->fd, batch, length, trace->offset);
        while (n < 0 && errno == EINTR);
        if (n != (ssize_t) length) {
            trace->status = n < 0 ? -errno : -ENOSPC;
            if (trace->offset)
                end_after(trace, trace->offset + (off_t) (n < 0 ? 0 : whole_events(batch, n)));
        } else {
            trace->offset += (off_t) nbytes;
        }
    }
    rg_buf_clear(&trace->text);
    return trace->status;
}

static int open_file(const char *path)
{
    /* Not blocking: of a pipe without a reader the runtime is not to wait for one. */
    int fd = rg_open_to_write(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))) {
        close(fd);
        return -ESPIPE;
    }
    return fd;
}

int rg_trace_open(const char *path, const char *label, struct rg_trace **ret_trace,
                  struct rg_error *err)
{
    struct rg_trace *trace = calloc(1, sizeof(*trace));
    int r;

    if (!trace)
        return rg_error_set(err, ENOMEM, "out of memory");
    trace->fd = open_file(path);
    if (trace->fd < 0) {
        r = trace->fd;
        free(trace);
        return rg_error_set(err, -r, "the timeline %s cannot be written: %s", path,
                            rg_open_to_write_why(r));
    }
    trace->start_ns = rg_now_ns();
    rg_buf_printf(&trace->text, "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":"
                                "{\"name\":");
    rg_json_put_text(&trace->text, label);
    rg_buf_printf(&trace->text, ",\"start_time_since_epoch_in_micros\":%llu}},\n"
                                "{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":0,\"args\":"
                                "{\"sort_index\":0}}",
                  (unsigned long long) (rg_wall_ns() / 1000));
    r = rg_trace_flush(trace);
    if (r < 0) {
        rg_trace_close(trace);
        return rg_error_set(err, -r, "the timeline %s cannot be written: %s", path, strerror(-r));
    }
    *ret_trace = trace;
    return 0;
}

void rg_trace_name_lane(struct rg_trace *trace, uint32_t lane, const char *name)
{
    struct rg_buf *text = next(trace);

    rg_buf_printf(text, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":",
                  lane);
    rg_json_put_text(text, name);
    rg_buf_printf(text, "}},\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%u,\"args\":"
                        "{\"sort_index\":%u}}", lane, lane);
}

/* An event's beginning, up to its time in microseconds; the nanoseconds are behind the point. name:
 * NULL of an end. */
static struct rg_buf *begin_event_of(struct rg_trace *trace, const char *name, char phase,
                                     uint32_t lane, int tid, uint64_t ns)
{
    struct rg_buf *text = next(trace);

    ns = ns > trace->start_ns ? ns - trace->start_ns : 0;
    if (name)
        rg_buf_printf(text, "{\"name\":\"%s\",", name);
    else
        rg_buf_printf(text, "{");
    rg_buf_printf(text, "\"ph\":\"%c\",\"pid\":%u,\"tid\":%d,\"ts\":%llu.%03u", phase, lane, tid,
                  (unsigned long long) (ns / 1000), (unsigned) (ns % 1000));
    return text;
}

static struct rg_buf *begin_event(struct rg_trace *trace, const char *name, char phase,
                                  uint32_t lane, uint64_t ns)
{
    return begin_event_of(trace, name, phase, lane, HOST_TID, ns);
}

static void put_instant(struct rg_trace *trace, const char *name, uint32_t lane, char scope,
                        uint64_t ns)
{
    rg_buf_printf(begin_event(trace, name, 'i', lane, ns), ",\"s\":\"%c\"}", scope);
}

static void end_spans(struct rg_trace *trace, struct lane *lane, uint32_t number, int depth,
                      uint64_t ns)
{
    for (; lane->depth > depth; lane->depth--)
        rg_buf_printf(begin_event(trace, NULL, 'E', number, ns), "}");
}

static void begin_span(struct rg_trace *trace, struct lane *lane,
                       const struct rg_trace_event *event, uint64_t ns)
{
    struct rg_buf *text = begin_event(trace, event->name, 'B', event->lane, ns);

    if (event->what == RG_TRACE_OPERATION)
        rg_buf_printf(text, ",\"args\":{\"bytes\":%llu,\"tensors\":%u,\"dtype\":\"%s\"}",
                      (unsigned long long) event->nbytes, event->ntensors,
                      event->type);
    rg_buf_printf(text, "}");
    lane->depth++;
}

static void put_span(struct rg_trace *trace, const struct rg_trace_event *event)
{
    bool activity = event->what == RG_TRACE_ACTIVITY;
    struct lane *lane;
    uint64_t ns;

    if (rg_grow(&trace->lanes, &trace->nlanes, (size_t) event->lane + 1) < 0)
        return;
    lane = &trace->lanes[event->lane];
    if (activity && lane->depth == 0)
        return;
    ns = event->ns > lane->last_ns ? event->ns : lane->last_ns;
    lane->last_ns = ns;
    end_spans(trace, lane, event->lane, activity ? DEPTH_MAX - 1 : 0, ns);
    if (event->what != RG_TRACE_END)
        begin_span(trace, lane, event, ns);
    else if (event->arg < 0)
        put_instant(trace, "FAILED", event->lane, 't', ns);
}

static void put_device(struct rg_trace *trace, const struct rg_trace_event *event)
{
    uint64_t nbefore = event->ns < trace->start_ns ? trace->start_ns - event->ns : 0;
    uint64_t ns = event->until_ns > event->ns ? event->until_ns - event->ns : 0;

    if (rg_grow(&trace->lanes, &trace->nlanes, (size_t) event->lane + 1) < 0)
        return;
    if (!trace->lanes[event->lane].has_device)
        rg_buf_printf(next(trace), "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%d,"
                                   "\"args\":{\"name\":\"GPU\"}}", event->lane, DEVICE_TID);
    trace->lanes[event->lane].has_device = true;
    ns = ns > nbefore ? ns - nbefore : 0;
    rg_buf_printf(begin_event_of(trace, event->name, 'X', event->lane, DEVICE_TID, event->ns),
                  ",\"dur\":%llu.%03u}", (unsigned long long) (ns / 1000), (unsigned) (ns % 1000));
}

void rg_trace_put(struct rg_trace *trace, const struct rg_trace_event *event)
{
    char name[64];

    if (trace->status < 0)
        return;
    switch (event->what) {
    case RG_TRACE_RANK:
        snprintf(name, sizeof(name), "%d", event->arg);
        put_instant(trace, name, event->lane, 't', event->ns);
        break;
    case RG_TRACE_WAIT:
        put_instant(trace, "WAIT", 0, 'p', event->ns);
        break;
    case RG_TRACE_CYCLE:
        put_instant(trace, "CYCLE_START", 0, 'g', event->ns);
        break;
    case RG_TRACE_DEVICE:
        put_device(trace, event);
        break;
    case RG_TRACE_DROPPED:
        snprintf(name, sizeof(name), "%d events dropped", event->arg);
        put_instant(trace, name, 0, 'g', event->ns);
        break;
    default:
        put_span(trace, event);
    }
    if (rg_buf_nbytes(&trace->text) >= FLUSH_NBYTES)
        rg_trace_flush(trace);
}

int rg_trace_close(struct rg_trace *trace)
{
    int r;

    if (!trace)
        return 0;
    r = rg_trace_flush(trace);
    if (close(trace->fd) < 0 && r == 0)
        r = -errno;
    rg_buf_fini(&trace->text);
    free(trace->lanes);
    free(trace);
    return r;
}

void rg_trace_after_fork(struct rg_trace *trace)
{
    if (trace)
        close(trace->fd);
}
