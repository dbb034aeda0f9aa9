/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pluggable device for TensorFlow that passes for a GPU, on machines without one, by the C API of
 * its StreamExecutor. It computes nothing; TensorFlow's own kernels for any device (copies,
 * variables, control flow) are what there is.
 *
 * Its memory is mapped twice: at the addresses that TensorFlow is given no host access is possible,
 * so that a kernel which takes such memory for the host's ends by a fault. Streams are threads,
 * which wait for a random moment before each piece of work: what does not wait for a stream sees
 * old contents.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tensorflow/c/experimental/stream_executor/stream_executor.h"

#define API __attribute__((visibility("default")))
#define MEMORY_NBYTES (256u << 20)
#define MOMENT_US 300

enum kind { COPY, FILL, RECORD, WAIT, CALL };

struct SP_Event_st {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded, reached; /* how often it was put on a stream, and the last that came about */
    atomic_int refs;
};

struct work {
    struct work *next;
    enum kind kind;
    void *to;
    const void *from;
    uint64_t nbytes;
    uint32_t pattern;
    struct SP_Event_st *event;
    uint64_t turn;
    SE_StatusCallbackFn fn;
    void *arg;
};

struct SP_Stream_st {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct work *first, **end;
    bool busy, stop;
    unsigned seed;
};

static struct {
    char *closed, *open; /* the two places of the memory */
    _Atomic uint64_t used;
    _Atomic uint64_t to_host, to_device; /* copies that TensorFlow has asked for */
} device;

/* For the test, by ctypes. */
API uint64_t standin_copies_to_host(void);
API uint64_t standin_copies_to_device(void);
API bool standin_has(const void *at);

uint64_t standin_copies_to_host(void)
{
    return device.to_host;
}

uint64_t standin_copies_to_device(void)
{
    return device.to_device;
}

bool standin_has(const void *at)
{
    return (const char *) at >= device.closed && (const char *) at < device.closed + MEMORY_NBYTES;
}

/* Where the device itself reads and writes. */
static void *view(const void *at)
{
    return standin_has(at) ? device.open + ((const char *) at - device.closed) : (void *) at;
}

static void make_memory(void)
{
    int fd = memfd_create("standin", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, MEMORY_NBYTES) < 0)
        abort();
    device.closed = mmap(NULL, MEMORY_NBYTES, PROT_NONE, MAP_SHARED, fd, 0);
    device.open = mmap(NULL, MEMORY_NBYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (device.closed == MAP_FAILED || device.open == MAP_FAILED)
        abort();
    close(fd);
}

/* ---- streams */

static void event_drop(struct SP_Event_st *event)
{
    if (atomic_fetch_sub(&event->refs, 1) > 1)
        return;
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

static struct SP_Event_st *event_make(void)
{
    struct SP_Event_st *event = calloc(1, sizeof(*event));

    if (!event)
        abort();
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->changed, NULL);
    atomic_init(&event->refs, 1);
    return event;
}

static void event_await(struct SP_Event_st *event, uint64_t turn)
{
    pthread_mutex_lock(&event->lock);
    while (event->reached < turn)
        pthread_cond_wait(&event->changed, &event->lock);
    pthread_mutex_unlock(&event->lock);
}

static void event_reach(struct SP_Event_st *event, uint64_t turn)
{
    pthread_mutex_lock(&event->lock);
    if (event->reached < turn)
        event->reached = turn;
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->lock);
}

static void fill(const struct work *work)
{
    char *to = view(work->to);

    for (uint64_t i = 0; i < work->nbytes; i++)
        to[i] = (char) (work->pattern >> i % 4 * 8);
}

static void carry_out(const struct work *work)
{
    TF_Status *status;

    switch (work->kind) {
    case COPY:
        memcpy(view(work->to), view(work->from), work->nbytes);
        break;
    case FILL:
        fill(work);
        break;
    case RECORD:
        event_reach(work->event, work->turn);
        break;
    case WAIT:
        event_await(work->event, work->turn);
        break;
    case CALL:
        status = TF_NewStatus();
        work->fn(work->arg, status);
        TF_DeleteStatus(status);
        break;
    }
    if (work->event)
        event_drop(work->event);
}

static void *stream_main(void *arg)
{
    struct SP_Stream_st *stream = arg;

    pthread_mutex_lock(&stream->lock);
    for (;;) {
        struct work *work = stream->first;

        if (!work && stream->stop)
            break;
        if (!work) {
            pthread_cond_wait(&stream->changed, &stream->lock);
            continue;
        }
        stream->first = work->next;
        if (!stream->first)
            stream->end = &stream->first;
        stream->busy = true;
        pthread_mutex_unlock(&stream->lock);
        usleep((useconds_t) (rand_r(&stream->seed) % MOMENT_US)); /* patient: a random moment */
        carry_out(work);
        free(work);
        pthread_mutex_lock(&stream->lock);
        stream->busy = false;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static void put(struct SP_Stream_st *stream, struct work work)
{
    struct work *copy = malloc(sizeof(*copy));

    if (!copy)
        abort();
    *copy = work;
    copy->next = NULL;
    if (copy->event)
        atomic_fetch_add(&copy->event->refs, 1);
    pthread_mutex_lock(&stream->lock);
    *stream->end = copy;
    stream->end = &copy->next;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

static void create_stream(const SP_Device *dev, SP_Stream *ret_stream, TF_Status *status)
{
    struct SP_Stream_st *stream = calloc(1, sizeof(*stream));
    static atomic_uint count;

    (void) dev;
    if (!stream)
        abort();
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->end = &stream->first;
    stream->seed = atomic_fetch_add(&count, 1) + 1;
    if (pthread_create(&stream->thread, NULL, stream_main, stream) != 0)
        abort();
    *ret_stream = stream;
    TF_SetStatus(status, TF_OK, "");
}

static void destroy_stream(const SP_Device *dev, SP_Stream stream)
{
    (void) dev;
    pthread_mutex_lock(&stream->lock);
    stream->stop = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    free(stream);
}

static void block_until_done(const SP_Device *dev, SP_Stream stream, TF_Status *status)
{
    (void) dev;
    pthread_mutex_lock(&stream->lock);
    while (stream->first || stream->busy)
        pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
    TF_SetStatus(status, TF_OK, "");
}

static void stream_status(const SP_Device *dev, SP_Stream stream, TF_Status *status)
{
    (void) dev, (void) stream;
    TF_SetStatus(status, TF_OK, "");
}

/* ---- events */

static void create_event(const SP_Device *dev, SP_Event *ret_event, TF_Status *status)
{
    (void) dev;
    *ret_event = event_make();
    TF_SetStatus(status, TF_OK, "");
}

static void destroy_event(const SP_Device *dev, SP_Event event)
{
    (void) dev;
    event_drop(event);
}

static SE_EventStatus event_status(const SP_Device *dev, SP_Event event)
{
    bool done;

    (void) dev;
    pthread_mutex_lock(&event->lock);
    done = event->reached == event->recorded;
    pthread_mutex_unlock(&event->lock);
    return done ? SE_EVENT_COMPLETE : SE_EVENT_PENDING;
}

static uint64_t turn_of(struct SP_Event_st *event, bool next)
{
    uint64_t turn;

    pthread_mutex_lock(&event->lock);
    turn = next ? ++event->recorded : event->recorded;
    pthread_mutex_unlock(&event->lock);
    return turn;
}

static void record_event(const SP_Device *dev, SP_Stream stream, SP_Event event, TF_Status *status)
{
    (void) dev;
    put(stream, (struct work){ .kind = RECORD, .event = event, .turn = turn_of(event, true) });
    TF_SetStatus(status, TF_OK, "");
}

static void wait_for_event(const SP_Device *dev, SP_Stream stream, SP_Event event,
                           TF_Status *status)
{
    (void) dev;
    put(stream, (struct work){ .kind = WAIT, .event = event, .turn = turn_of(event, false) });
    TF_SetStatus(status, TF_OK, "");
}

static void block_for_event(const SP_Device *dev, SP_Event event, TF_Status *status)
{
    (void) dev;
    event_await(event, turn_of(event, false));
    TF_SetStatus(status, TF_OK, "");
}

static void stream_dependency(const SP_Device *dev, SP_Stream dependent, SP_Stream other,
                              TF_Status *status)
{
    struct SP_Event_st *event = event_make();

    record_event(dev, other, event, status);
    wait_for_event(dev, dependent, event, status);
    event_drop(event);
}

/* ---- memory */

static void allocate(const SP_Device *dev, uint64_t nbytes, int64_t space, SP_DeviceMemoryBase *mem)
{
    uint64_t at = atomic_fetch_add(&device.used, (nbytes + 255) / 256 * 256);

    (void) dev, (void) space;
    mem->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
    mem->opaque = at + nbytes <= MEMORY_NBYTES ? device.closed + at : NULL;
    mem->size = mem->opaque ? nbytes : 0;
}

/* TensorFlow's own allocator takes few large pieces, and keeps them. */
static void deallocate(const SP_Device *dev, SP_DeviceMemoryBase *mem)
{
    (void) dev;
    mem->opaque = NULL;
    mem->size = 0;
}

static void *host_allocate(const SP_Device *dev, uint64_t nbytes)
{
    (void) dev;
    return aligned_alloc(64, (nbytes + 63) / 64 * 64);
}

static void host_deallocate(const SP_Device *dev, void *at)
{
    (void) dev;
    free(at);
}

static TF_Bool allocator_stats(const SP_Device *dev, SP_AllocatorStats *stats)
{
    (void) dev, (void) stats;
    return 0;
}

static TF_Bool memory_usage(const SP_Device *dev, int64_t *ret_free, int64_t *ret_total)
{
    (void) dev;
    *ret_free = (int64_t) (MEMORY_NBYTES - device.used);
    *ret_total = MEMORY_NBYTES;
    return 1;
}

static void to_host(const SP_Device *dev, SP_Stream stream, void *to,
                    const SP_DeviceMemoryBase *from, uint64_t nbytes, TF_Status *status)
{
    (void) dev;
    device.to_host++;
    put(stream, (struct work){ .kind = COPY, .to = to, .from = from->opaque, .nbytes = nbytes });
    TF_SetStatus(status, TF_OK, "");
}

static void to_device(const SP_Device *dev, SP_Stream stream, SP_DeviceMemoryBase *to,
                      const void *from, uint64_t nbytes, TF_Status *status)
{
    (void) dev;
    device.to_device++;
    put(stream, (struct work){ .kind = COPY, .to = to->opaque, .from = from, .nbytes = nbytes });
    TF_SetStatus(status, TF_OK, "");
}

static void within(const SP_Device *dev, SP_Stream stream, SP_DeviceMemoryBase *to,
                   const SP_DeviceMemoryBase *from, uint64_t nbytes, TF_Status *status)
{
    (void) dev;
    put(stream, (struct work){ .kind = COPY, .to = to->opaque, .from = from->opaque,
                               .nbytes = nbytes });
    TF_SetStatus(status, TF_OK, "");
}

static void to_host_now(const SP_Device *dev, void *to, const SP_DeviceMemoryBase *from,
                        uint64_t nbytes, TF_Status *status)
{
    (void) dev;
    memcpy(to, view(from->opaque), nbytes);
    TF_SetStatus(status, TF_OK, "");
}

static void to_device_now(const SP_Device *dev, SP_DeviceMemoryBase *to, const void *from,
                          uint64_t nbytes, TF_Status *status)
{
    (void) dev;
    memcpy(view(to->opaque), from, nbytes);
    TF_SetStatus(status, TF_OK, "");
}

static void within_now(const SP_Device *dev, SP_DeviceMemoryBase *to,
                       const SP_DeviceMemoryBase *from, uint64_t nbytes, TF_Status *status)
{
    (void) dev;
    memcpy(view(to->opaque), view(from->opaque), nbytes);
    TF_SetStatus(status, TF_OK, "");
}

static void fill32(const SP_Device *dev, SP_Stream stream, SP_DeviceMemoryBase *to,
                   uint32_t pattern, uint64_t nbytes, TF_Status *status)
{
    (void) dev;
    put(stream, (struct work){ .kind = FILL, .to = to->opaque, .nbytes = nbytes,
                               .pattern = pattern });
    TF_SetStatus(status, TF_OK, "");
}

static void fill8(const SP_Device *dev, SP_Stream stream, SP_DeviceMemoryBase *to, uint8_t pattern,
                  uint64_t nbytes, TF_Status *status)
{
    fill32(dev, stream, to, pattern * UINT32_C(0x01010101), nbytes, status);
}

static void fill0(const SP_Device *dev, SP_Stream stream, SP_DeviceMemoryBase *to, uint64_t nbytes,
                  TF_Status *status)
{
    fill32(dev, stream, to, 0, nbytes, status);
}

static TF_Bool host_callback(const SP_Device *dev, SP_Stream stream, SE_StatusCallbackFn fn,
                             void *arg)
{
    (void) dev;
    put(stream, (struct work){ .kind = CALL, .fn = fn, .arg = arg });
    return 1;
}

static void synchronize_all(const SP_Device *dev, TF_Status *status)
{
    (void) dev;
    TF_SetStatus(status, TF_OK, "");
}

/* ---- timers, which nobody looks at */

static void create_timer(const SP_Device *dev, SP_Timer *ret_timer, TF_Status *status)
{
    (void) dev;
    *ret_timer = NULL;
    TF_SetStatus(status, TF_OK, "");
}

static void destroy_timer(const SP_Device *dev, SP_Timer timer)
{
    (void) dev, (void) timer;
}

static void turn_timer(const SP_Device *dev, SP_Stream stream, SP_Timer timer, TF_Status *status)
{
    (void) dev, (void) stream, (void) timer;
    TF_SetStatus(status, TF_OK, "");
}

static uint64_t nanoseconds(SP_Timer timer)
{
    (void) timer;
    return 0;
}

/* ---- the plug-in */

static void device_count(const SP_Platform *platform, int *ret_count, TF_Status *status)
{
    (void) platform;
    *ret_count = 1;
    TF_SetStatus(status, TF_OK, "");
}

static void create_device(const SP_Platform *platform, SE_CreateDeviceParams *params,
                          TF_Status *status)
{
    (void) platform;
    params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
    params->device->ordinal = params->ordinal;
    TF_SetStatus(status, TF_OK, "");
}

static void destroy_device(const SP_Platform *platform, SP_Device *dev)
{
    (void) platform, (void) dev;
}

static void create_device_fns(const SP_Platform *platform, SE_CreateDeviceFnsParams *params,
                              TF_Status *status)
{
    (void) platform;
    params->device_fns->struct_size = SP_DEVICE_FNS_STRUCT_SIZE;
    TF_SetStatus(status, TF_OK, "");
}

static void destroy_device_fns(const SP_Platform *platform, SP_DeviceFns *fns)
{
    (void) platform, (void) fns;
}

static void create_stream_executor(const SP_Platform *platform,
                                   SE_CreateStreamExecutorParams *params, TF_Status *status)
{
    (void) platform;
    *params->stream_executor = (SP_StreamExecutor){
        .struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE,
        .allocate = allocate,
        .deallocate = deallocate,
        .host_memory_allocate = host_allocate,
        .host_memory_deallocate = host_deallocate,
        .get_allocator_stats = allocator_stats,
        .device_memory_usage = memory_usage,
        .create_stream = create_stream,
        .destroy_stream = destroy_stream,
        .create_stream_dependency = stream_dependency,
        .get_stream_status = stream_status,
        .create_event = create_event,
        .destroy_event = destroy_event,
        .get_event_status = event_status,
        .record_event = record_event,
        .wait_for_event = wait_for_event,
        .create_timer = create_timer,
        .destroy_timer = destroy_timer,
        .start_timer = turn_timer,
        .stop_timer = turn_timer,
        .memcpy_dtoh = to_host,
        .memcpy_htod = to_device,
        .memcpy_dtod = within,
        .sync_memcpy_dtoh = to_host_now,
        .sync_memcpy_htod = to_device_now,
        .sync_memcpy_dtod = within_now,
        .block_host_for_event = block_for_event,
        .block_host_until_done = block_until_done,
        .synchronize_all_activity = synchronize_all,
        .mem_zero = fill0,
        .memset = fill8,
        .memset32 = fill32,
        .host_callback = host_callback,
    };
    TF_SetStatus(status, TF_OK, "");
}

static void destroy_stream_executor(const SP_Platform *platform, SP_StreamExecutor *executor)
{
    (void) platform, (void) executor;
}

static void create_timer_fns(const SP_Platform *platform, SP_TimerFns *timer, TF_Status *status)
{
    (void) platform;
    timer->struct_size = SP_TIMER_FNS_STRUCT_SIZE;
    timer->nanoseconds = nanoseconds;
    TF_SetStatus(status, TF_OK, "");
}

static void destroy_timer_fns(const SP_Platform *platform, SP_TimerFns *timer)
{
    (void) platform, (void) timer;
}

static void destroy_platform(SP_Platform *platform)
{
    (void) platform;
}

static void destroy_platform_fns(SP_PlatformFns *fns)
{
    (void) fns;
}

API void SE_InitPlugin(SE_PlatformRegistrationParams *params, TF_Status *status)
{
    make_memory();
    params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
    params->platform->name = "STANDIN";
    params->platform->type = "GPU";
    params->platform->supports_unified_memory = 0;
    params->platform->use_bfc_allocator = 1;
    params->platform->force_memory_growth = 1;
    *params->platform_fns = (SP_PlatformFns){
        .struct_size = SP_PLATFORM_FNS_STRUCT_SIZE,
        .get_device_count = device_count,
        .create_device = create_device,
        .destroy_device = destroy_device,
        .create_device_fns = create_device_fns,
        .destroy_device_fns = destroy_device_fns,
        .create_stream_executor = create_stream_executor,
        .destroy_stream_executor = destroy_stream_executor,
        .create_timer_fns = create_timer_fns,
        .destroy_timer_fns = destroy_timer_fns,
    };
    params->destroy_platform = destroy_platform;
    params->destroy_platform_fns = destroy_platform_fns;
    TF_SetStatus(status, TF_OK, "");
}

/* TensorFlow asks for it; this device has no kernels of its own. */
API void TF_InitKernel(void);
API void TF_InitKernel(void)
{
}
