/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the stand-in driver share: devices, their memory, streams and events, all under
 * one lock. `changed` is broadcast whenever something has happened that somebody may wait for.
 */
#ifndef RG_TESTS_STANDIN_CUDA_STATE_H
#define RG_TESTS_STANDIN_CUDA_STATE_H

#include "standin.h"

#include <pthread.h>
#include <sys/types.h>
#include <time.h>

enum {
    DEVICES_MAX = 8, BLOCK_ALIGN = 512, NSTREAMS_MAX = 256,
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100,
    INVALID_DEVICE = 101, INVALID_CONTEXT = 201, ECC_UNCORRECTABLE = 214, INVALID_HANDLE = 400,
    NOT_READY = 600, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719, CAPTURE_UNSUPPORTED = 900,
    CAPTURE_ISOLATION = 905,
};
#define POOL_NBYTES ((size_t) 256 << 20) /* addresses of one device; memory is what is touched */

struct block {
    struct block *next;
    char *at;       /* as given out; of pinned memory: the memory */
    size_t nbytes;
    int device;     /* -1: pinned memory of the host */
};

/* Where a stream was when an event was recorded. Who waits for it does so for this place, also when
 * the event has been recorded elsewhere since, whichever comes first. */
struct place {
    int refs;
    bool reached;
    struct timespec when; /* it was reached */
};

struct event {
    struct event *next;
    int device;
    struct place *last; /* NULL: it has not been recorded */
    bool timed;
};

struct work {
    struct work *next;
    void (*fn)(void *arg);
    void *arg;
    struct place *wait, *record;
};

/* A context is a device's primary one. */
struct context {
    int device, physical;
    int result;        /* of a device that is broken */
    char *fence, *view;
    size_t used;
    struct standin_stream *whole; /* the default stream */
};

struct standin_stream {
    struct standin_stream *next;
    struct context *context;
    struct work *first, **last;
    bool busy, destroyed, capturing;
    unsigned seed;
};

struct standin_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pid_t pid; /* 0: cuInit has not been called */
    int ndevices, version, delay_us, fault_after, fault, nalive;
    size_t nbytes, pinned_left;
    unsigned nstreams;
    struct context contexts[DEVICES_MAX];
    struct block *blocks;
    struct event *events;
    struct standin_stream *streams;
};

extern struct standin_state standin;
#define all standin

/* With the lock held if it is SUCCESS: the calling thread's context, which works. ret_context may
 * be NULL. */
int standin_enter(struct context **ret_context);
/* Lets the lock go, and returns result. */
int standin_leave(int result);
/* Whether a call that waits, asks or allocates would break some thread's capture; and whether no
 * stream of a device has anything to do. Under the lock. */
bool standin_is_unsafe(void);
bool standin_idle(const struct context *context);

#endif
