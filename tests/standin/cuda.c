/* SPDX-License-Identifier: Apache-2.0 */
/* A driver for devices that are not there; standin.h says what it does and does not do. */
#include "cuda_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct standin_state standin = { .lock = PTHREAD_MUTEX_INITIALIZER,
                                 .changed = PTHREAD_COND_INITIALIZER };

static _Thread_local struct context *current[16];
static _Thread_local int ncurrent;
static _Thread_local int capture_mode; /* of this thread; 2: relaxed */

static int number(const char *name, int otherwise)
{
    const char *value = getenv(name);

    return value && value[0] ? atoi(value) : otherwise;
}

/* ---- devices and contexts */

static int map_device(struct context *context)
{
    int fd = memfd_create("standin-device", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t) POOL_NBYTES) < 0)
        return OUT_OF_MEMORY;
    context->fence = mmap(NULL, POOL_NBYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    context->view = mmap(NULL, POOL_NBYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                         0);
    close(fd);
    return context->fence == MAP_FAILED || context->view == MAP_FAILED ? OUT_OF_MEMORY : SUCCESS;
}

/* Those of the machine that CUDA_VISIBLE_DEVICES names, up to the first that is not there. */
static int find_devices(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int there = number("STANDIN_CUDA_DEVICES", 4), r = SUCCESS;

    all.ndevices = 0;
    for (int i = 0; i < DEVICES_MAX && r == SUCCESS; i++) {
        char *end;
        int physical = i;

        if (visible) {
            physical = (int) strtol(visible, &end, 10);
            if (end == visible)
                break;
            visible = end + (*end == ',');
        }
        if (physical < 0 || physical >= there)
            break;
        all.contexts[i] = (struct context){ .device = i, .physical = physical };
        r = map_device(&all.contexts[i]);
        all.ndevices++;
    }
    return r != SUCCESS ? r : all.ndevices > 0 ? SUCCESS : NO_DEVICE;
}

STANDIN_API int cuInit(unsigned flags)
{
    int r = SUCCESS;

    if (flags != 0)
        return INVALID_VALUE;
    pthread_mutex_lock(&all.lock);
    if (all.pid == 0) {
        all.version = number("STANDIN_CUDA_VERSION", 12040);
        all.delay_us = number("STANDIN_DELAY_US", 50);
        all.fault_after = number("STANDIN_CUDA_ECC_AFTER", 0);
        all.fault = number("STANDIN_CUDA_FAULT", ECC_UNCORRECTABLE);
        all.pinned_left = (size_t) number("STANDIN_CUDA_PINNED", 1 << 30);
        all.nbytes = (size_t) number("STANDIN_CUDA_MEMORY", 64 << 20);
        r = find_devices();
        if (r == SUCCESS)
            all.pid = getpid();
    } else if (all.pid != getpid()) {
        r = NOT_INITIALIZED; /* after fork */
    }
    pthread_mutex_unlock(&all.lock);
    return r;
}

/* With the lock held if it is SUCCESS: the calling thread's context, which works. */
int standin_enter(struct context **ret_context)
{
    struct context *context = ncurrent > 0 ? current[ncurrent - 1] : NULL;

    if (all.pid != getpid())
        return NOT_INITIALIZED;
    if (!context)
        return INVALID_CONTEXT;
    pthread_mutex_lock(&all.lock);
    if (context->result != SUCCESS) {
        int r = context->result;

        pthread_mutex_unlock(&all.lock);
        return r;
    }
    if (ret_context)
        *ret_context = context;
    return SUCCESS;
}

int standin_leave(int result)
{
    pthread_mutex_unlock(&all.lock);
    return result;
}

static struct context *context_of(int device)
{
    return all.pid == getpid() && device >= 0 && device < all.ndevices ? &all.contexts[device]
                                                                       : NULL;
}

STANDIN_API int cuDriverGetVersion(int *ret_version)
{
    *ret_version = number("STANDIN_CUDA_VERSION", 12040);
    return SUCCESS;
}

STANDIN_API int cuDeviceGetCount(int *ret_n)
{
    *ret_n = all.ndevices;
    return all.pid == getpid() ? SUCCESS : NOT_INITIALIZED;
}

STANDIN_API int cuDeviceGet(int *ret_device, int ordinal)
{
    *ret_device = ordinal;
    return context_of(ordinal) ? SUCCESS : INVALID_DEVICE;
}

STANDIN_API int cuDeviceGetAttribute(int *ret_value, int attribute, int device)
{
    *ret_value = attribute == 115 && all.version >= 11020;
    return context_of(device) ? SUCCESS : INVALID_DEVICE;
}

STANDIN_API int cuDeviceGetPCIBusId(char *text, int room, int device)
{
    if (!context_of(device))
        return INVALID_DEVICE;
    snprintf(text, (size_t) room, "0000:%02x:00.0", 16 + context_of(device)->physical);
    return SUCCESS;
}

STANDIN_API int cuDeviceGetUuid(uint8_t uuid[16], int device)
{
    if (!context_of(device))
        return INVALID_DEVICE;
    memset(uuid, 0x51, 16);
    uuid[15] = (uint8_t) context_of(device)->physical;
    return SUCCESS;
}

/* 0 and 1 are on a bridge, and so are 2 and 3. */
STANDIN_API int cuDeviceCanAccessPeer(int *ret_can, int device, int peer)
{
    if (!context_of(device) || !context_of(peer))
        return INVALID_DEVICE;
    *ret_can = device != peer &&
               context_of(device)->physical / 2 == context_of(peer)->physical / 2;
    return SUCCESS;
}

STANDIN_API int cuDevicePrimaryCtxRetain(struct context **ret_context, int device)
{
    *ret_context = context_of(device);
    return *ret_context ? SUCCESS : INVALID_DEVICE;
}

STANDIN_API int cuDevicePrimaryCtxRelease_v2(int device)
{
    return context_of(device) ? SUCCESS : INVALID_DEVICE;
}

STANDIN_API int cuCtxPushCurrent_v2(struct context *context)
{
    if (all.pid != getpid())
        return NOT_INITIALIZED;
    if (!context || ncurrent == 16)
        return INVALID_CONTEXT;
    current[ncurrent++] = context;
    return SUCCESS;
}

STANDIN_API int cuCtxPopCurrent_v2(struct context **ret_context)
{
    if (ncurrent == 0)
        return INVALID_CONTEXT;
    ncurrent--;
    if (ret_context)
        *ret_context = current[ncurrent];
    return SUCCESS;
}

STANDIN_API int cuCtxSetCurrent(struct context *context)
{
    ncurrent -= ncurrent > 0;
    return context ? cuCtxPushCurrent_v2(context) : SUCCESS;
}

STANDIN_API int cuCtxGetCurrent(struct context **ret_context)
{
    *ret_context = ncurrent > 0 ? current[ncurrent - 1] : NULL;
    return SUCCESS;
}

STANDIN_API int standin_device(void)
{
    return ncurrent > 0 ? current[ncurrent - 1]->physical : -1;
}

STANDIN_API int cuGetErrorName(int result, const char **ret_name)
{
    static const struct { int result; const char *name; } names[] = {
        { SUCCESS, "CUDA_SUCCESS" },
        { INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE" },
        { OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY" },
        { NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED" },
        { NO_DEVICE, "CUDA_ERROR_NO_DEVICE" },
        { INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE" },
        { INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT" },
        { ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE" },
        { INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE" },
        { NOT_READY, "CUDA_ERROR_NOT_READY" },
        { ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS" },
        { LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED" },
        { CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" },
        { CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION" },
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].result == result) {
            *ret_name = names[i].name;
            return SUCCESS;
        }
    *ret_name = NULL;
    return INVALID_VALUE;
}

STANDIN_API int cuGetErrorString(int result, const char **ret_text)
{
    *ret_text = "as the stand-in says";
    return result >= 0 ? SUCCESS : INVALID_VALUE;
}

/* ---- streams */

/* Some thread captures, and the calling one has not said that it does something else. */
bool standin_is_unsafe(void)
{
    for (const struct standin_stream *s = all.streams; s; s = s->next)
        if (s->capturing && capture_mode != 2)
            return true;
    return false;
}

STANDIN_API int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int before = capture_mode;

    if (*mode < 0 || *mode > 2)
        return INVALID_VALUE;
    capture_mode = *mode;
    *mode = before;
    return SUCCESS;
}

bool standin_idle(const struct context *context)
{
    for (const struct standin_stream *s = all.streams; s; s = s->next)
        if (s->context == context && (s->busy || s->first))
            return false;
    return true;
}


static void drop_place(struct place *place)
{
    if (place && --place->refs == 0)
        free(place);
}

static void break_device(struct context *context, int result, const char *why)
{
    if (context->result != SUCCESS)
        return; /* the first cause stays, as the real one's does */
    fprintf(stderr, "stand-in: device %d is broken: %s\n", context->physical, why);
    context->result = result;
}

STANDIN_API void standin_break(struct standin_stream *stream, int result, const char *why)
{
    pthread_mutex_lock(&all.lock);
    break_device(stream->context, result, why);
    pthread_mutex_unlock(&all.lock);
}

/* With the lock, which is let go while the work is done. */
static void carry_out(struct standin_stream *stream, struct work *work)
{
    struct timespec moment = { 0, 0 };

    if (all.delay_us > 0)
        moment.tv_nsec = rand_r(&stream->seed) % all.delay_us * 1000;
    if (all.fault_after > 0 && --all.fault_after == 0)
        break_device(stream->context, all.fault, "a fault that was asked for");
    pthread_mutex_unlock(&all.lock);
    nanosleep(&moment, NULL); /* patient: a random moment */
    if (work->fn)
        work->fn(work->arg);
    pthread_mutex_lock(&all.lock);
    while (work->wait && !work->wait->reached && stream->context->result == SUCCESS)
        pthread_cond_wait(&all.changed, &all.lock);
    if (work->record && !work->record->reached) {
        work->record->reached = true;
        clock_gettime(CLOCK_MONOTONIC, &work->record->when);
    }
    drop_place(work->wait);
    drop_place(work->record);
    free(work);
}

static void forget_stream(struct standin_stream *stream)
{
    struct standin_stream **where = &all.streams;

    while (*where != stream)
        where = &(*where)->next;
    *where = stream->next;
    free(stream);
    all.nalive--;
}

static void *run_stream(void *arg)
{
    struct standin_stream *stream = arg;

    pthread_mutex_lock(&all.lock);
    for (;;) {
        struct work *work = stream->first;

        if (work) {
            stream->first = work->next;
            if (!stream->first)
                stream->last = &stream->first;
            stream->busy = true;
            carry_out(stream, work);
            stream->busy = false;
            pthread_cond_broadcast(&all.changed);
        } else if (stream->destroyed) {
            break;
        } else {
            pthread_cond_wait(&all.changed, &all.lock);
        }
    }
    forget_stream(stream);
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
    return NULL;
}

/* Under the lock. */
static int make_stream(struct context *context, struct standin_stream **ret_stream)
{
    struct standin_stream *stream = calloc(1, sizeof(*stream));
    pthread_t thread;

    if (!stream)
        return OUT_OF_MEMORY;
    stream->context = context;
    stream->last = &stream->first;
    stream->seed = (unsigned) number("STANDIN_SEED", 1) + 7919 * all.nstreams++;
    stream->next = all.streams;
    all.streams = stream;
    if (pthread_create(&thread, NULL, run_stream, stream) != 0) {
        all.streams = stream->next;
        free(stream);
        return OUT_OF_MEMORY;
    }
    pthread_detach(thread);
    all.nalive++;
    *ret_stream = stream;
    return SUCCESS;
}

/* A handle of a stream to the stream: NULL, 1 and 2 stand for default ones. Under the lock. */
static int find_stream(struct context *context, struct standin_stream *handle,
                       struct standin_stream **ret_stream)
{
    int r = SUCCESS;

    if ((uintptr_t) handle <= 2) {
        if (!context->whole) {
            r = make_stream(context, &context->whole);
            all.nalive -= r == SUCCESS; /* it belongs to the device */
        }
        *ret_stream = context->whole;
        return r;
    }
    for (struct standin_stream *s = all.streams; s; s = s->next)
        if (s == handle && !s->destroyed) {
            *ret_stream = s;
            return SUCCESS;
        }
    return INVALID_HANDLE;
}

/* Under the lock. */
static int put(struct standin_stream *stream, const struct work *what)
{
    struct work *work;

    if (stream->capturing)
        return SUCCESS; /* noted in a graph that nobody runs */
    work = malloc(sizeof(*work));
    if (!work)
        return OUT_OF_MEMORY;
    *work = *what;
    work->next = NULL;
    if (work->wait)
        work->wait->refs++;
    if (work->record)
        work->record->refs++;
    *stream->last = work;
    stream->last = &work->next;
    pthread_cond_broadcast(&all.changed);
    return SUCCESS;
}

/* For threads of the stand-ins' own without a context: the stream has one. */
STANDIN_API int standin_put(struct standin_stream *stream, void (*fn)(void *arg), void *arg)
{
    struct work work = { .fn = fn, .arg = arg };
    struct context *context = NULL;
    int r = SUCCESS;

    if (ncurrent > 0 || (uintptr_t) stream <= 2)
        r = standin_enter(&context);
    else
        pthread_mutex_lock(&all.lock);
    if (r != SUCCESS)
        return r;
    r = find_stream(context, stream, &stream);
    return standin_leave(r == SUCCESS ? put(stream, &work) : r);
}

STANDIN_API int cuLaunchHostFunc(struct standin_stream *stream, void (*fn)(void *arg), void *arg)
{
    return standin_put(stream, fn, arg);
}

STANDIN_API int cuStreamCreate(struct standin_stream **ret_stream, unsigned flags)
{
    struct context *context;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    return standin_leave(flags > 1 ? INVALID_VALUE : make_stream(context, ret_stream));
}

STANDIN_API int cuStreamDestroy_v2(struct standin_stream *stream)
{
    struct context *context;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    r = (uintptr_t) stream > 2 ? find_stream(context, stream, &stream) : INVALID_HANDLE;
    if (r == SUCCESS) {
        stream->destroyed = true; /* what is queued is still done */
        pthread_cond_broadcast(&all.changed);
    }
    return standin_leave(r);
}

STANDIN_API int cuStreamQuery(struct standin_stream *stream)
{
    struct context *context;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    r = find_stream(context, stream, &stream);
    if (r == SUCCESS && stream->capturing)
        r = CAPTURE_UNSUPPORTED;
    return standin_leave(r != SUCCESS ? r : stream->busy || stream->first ? NOT_READY : SUCCESS);
}

STANDIN_API int cuStreamSynchronize(struct standin_stream *stream)
{
    struct context *context;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    r = find_stream(context, stream, &stream);
    if (r == SUCCESS && stream->capturing)
        r = CAPTURE_UNSUPPORTED;
    while (r == SUCCESS && (stream->busy || stream->first) && context->result == SUCCESS)
        pthread_cond_wait(&all.changed, &all.lock);
    return standin_leave(r != SUCCESS ? r : context->result);
}

STANDIN_API int cuStreamIsCapturing(struct standin_stream *stream, int *ret_status)
{
    struct context *context;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    r = find_stream(context, stream, &stream);
    if (r == SUCCESS)
        *ret_status = stream->capturing;
    return standin_leave(r);
}

static int capture(struct standin_stream *stream, bool on)
{
    struct context *context;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    /* The default stream cannot be captured. */
    r = (uintptr_t) stream > 2 ? find_stream(context, stream, &stream) : CAPTURE_UNSUPPORTED;
    if (r == SUCCESS && stream->capturing == on)
        r = INVALID_VALUE;
    if (r == SUCCESS)
        stream->capturing = on;
    return standin_leave(r);
}

STANDIN_API int cuStreamBeginCapture_v2(struct standin_stream *stream, int mode)
{
    (void) mode;
    return capture(stream, true);
}

STANDIN_API int cuStreamEndCapture(struct standin_stream *stream, void **ret_graph)
{
    *ret_graph = NULL;
    return capture(stream, false);
}

/* ---- events */

STANDIN_API int cuEventCreate(struct event **ret_event, unsigned flags)
{
    struct context *context;
    struct event *event;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    event = calloc(1, sizeof(*event));
    if (!event)
        return standin_leave(OUT_OF_MEMORY);
    *event = (struct event){ .next = all.events, .device = context->device,
                             .timed = (flags & 2) == 0 };
    all.events = event;
    all.nalive++;
    *ret_event = event;
    return standin_leave(SUCCESS);
}

static bool knows(const struct event *event)
{
    for (const struct event *e = all.events; e; e = e->next)
        if (e == event)
            return true;
    return false;
}

STANDIN_API int cuEventDestroy_v2(struct event *event)
{
    int r = standin_enter(NULL);

    if (r != SUCCESS)
        return r;
    if (!knows(event))
        return standin_leave(INVALID_HANDLE);
    for (struct event **where = &all.events; *where; where = &(*where)->next)
        if (*where == event) {
            *where = event->next;
            break;
        }
    all.nalive--;
    drop_place(event->last);
    free(event);
    return standin_leave(SUCCESS);
}

/* The event's place from now on is this one, which the stream comes to. */
static int record(struct event *event, struct standin_stream *stream)
{
    struct place *place = calloc(1, sizeof(*place));
    int r;

    if (!place)
        return OUT_OF_MEMORY;
    place->refs = 1;
    r = put(stream, &(struct work){ .record = place });
    if (r != SUCCESS) {
        drop_place(place);
        return r;
    }
    drop_place(event->last);
    event->last = place;
    return SUCCESS;
}

static bool is_reached(const struct event *event)
{
    return !event->last || event->last->reached;
}

STANDIN_API int cuEventRecord(struct event *event, struct standin_stream *stream)
{
    struct context *context;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    r = find_stream(context, stream, &stream);
    /* An event belongs to a device, and marks places in its streams only. */
    if (r == SUCCESS && (!knows(event) || event->device != stream->context->device))
        r = INVALID_HANDLE;
    if (r == SUCCESS && stream->capturing)
        return standin_leave(SUCCESS);
    if (r == SUCCESS)
        r = record(event, stream);
    return standin_leave(r);
}

STANDIN_API int cuStreamWaitEvent(struct standin_stream *stream, struct event *event,
                                  unsigned flags)
{
    struct context *context;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    r = find_stream(context, stream, &stream);
    if (r == SUCCESS && (!knows(event) || flags != 0))
        r = INVALID_HANDLE;
    if (r == SUCCESS && stream->capturing)
        r = CAPTURE_ISOLATION; /* no event here was recorded by what is captured */
    if (r == SUCCESS && !is_reached(event))
        r = put(stream, &(struct work){ .wait = event->last });
    return standin_leave(r);
}

STANDIN_API int cuEventQuery(struct event *event)
{
    int r = standin_enter(NULL);

    if (r != SUCCESS)
        return r;
    if (!knows(event) || standin_is_unsafe())
        return standin_leave(knows(event) ? CAPTURE_UNSUPPORTED : INVALID_HANDLE);
    return standin_leave(is_reached(event) ? SUCCESS : NOT_READY);
}

STANDIN_API int cuEventElapsedTime(float *ret_ms, struct event *from, struct event *to)
{
    int r = standin_enter(NULL);
    struct timespec begin, end;

    if (r != SUCCESS)
        return r;
    if (!knows(from) || !knows(to) || !from->timed || !to->timed || from->device != to->device ||
        !from->last || !to->last)
        return standin_leave(INVALID_HANDLE);
    if (!is_reached(from) || !is_reached(to))
        return standin_leave(NOT_READY);
    begin = from->last->when;
    end = to->last->when;
    *ret_ms = (float) ((double) (end.tv_sec - begin.tv_sec) * 1e3 +
                       (double) (end.tv_nsec - begin.tv_nsec) / 1e6);
    return standin_leave(SUCCESS);
}

STANDIN_API int cuEventSynchronize(struct event *event)
{
    struct context *context;
    int r = standin_enter(&context);
    struct place *place;

    if (r != SUCCESS)
        return r;
    if (!knows(event) || standin_is_unsafe())
        return standin_leave(knows(event) ? CAPTURE_UNSUPPORTED : INVALID_HANDLE);
    place = event->last;
    if (place)
        place->refs++;
    while (place && !place->reached && context->result == SUCCESS)
        pthread_cond_wait(&all.changed, &all.lock);
    drop_place(place);
    return standin_leave(context->result);
}

STANDIN_API int standin_alive(void)
{
    int n;

    pthread_mutex_lock(&all.lock);
    n = all.nalive;
    pthread_mutex_unlock(&all.lock);
    return n;
}
