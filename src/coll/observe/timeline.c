/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring, the lanes' names, the writer's thread, start and stop. The ring is made at the first
 * start and kept: a thread that is just about to push when a timeline stops may do so, and what it
 * pushed is thrown away by its generation.
 */
#include "coll/observe/timeline.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/ground/report.h"
#include "coll/ground/rest.h"
#include "coll/node/shared.h"
#include "coll/observe/timeline_json.h"

#define URGE_MASK (RG_TIMELINE_RING / 4 - 1)
#define MORE_NAMES "(more names)"
#define NO_TIMELINE { .control = PTHREAD_MUTEX_INITIALIZER, \
                      .names_lock = PTHREAD_MUTEX_INITIALIZER, \
                      .wake_lock = PTHREAD_MUTEX_INITIALIZER }

struct cell {
    _Atomic uint64_t seq; /* position: free for it; position + 1: holds its event */
    struct rg_trace_event event;
};

struct lane_name {
    UT_hash_handle hh;
    uint32_t number;
    char name[];
};

static struct timeline {
    pthread_mutex_t control;  /* start, stop, attach, detach */
    struct rg_view **views;   /* of all progress engines; while it runs it counts in their timed */
    int nviews;
    uint32_t last_generation;

    _Atomic uint32_t generation; /* of what runs, 0: nothing */
    _Atomic bool marks_cycles;

    _Atomic(struct cell *) ring;
    _Atomic uint64_t tail;    /* next to push */
    uint64_t head;            /* next to take; the writer's */
    _Atomic uint64_t ndropped;

    pthread_mutex_t names_lock;
    struct lane_name *names;  /* by name */
    struct lane_name **by_number;
    uint32_t nnames, nwritten; /* lanes; 1 .. nnames */

    pthread_mutex_t wake_lock;
    pthread_cond_t wake;
    bool ending;
    pthread_t writer;
    struct rg_trace *trace;   /* the writer's while it runs; NULL: it does not */
    char path[4096];
} the = NO_TIMELINE;

uint32_t rg_timeline_generation(void)
{
    return atomic_load_explicit(&the.generation, memory_order_acquire);
}

bool rg_timeline_marks_cycles(void)
{
    return atomic_load_explicit(&the.marks_cycles, memory_order_relaxed);
}

/* ---- the ring */

void rg_timeline_push(const struct rg_trace_event *event)
{
    struct cell *ring = atomic_load_explicit(&the.ring, memory_order_acquire), *cell;
    uint64_t at = atomic_load_explicit(&the.tail, memory_order_relaxed), seq;

    for (;;) {
        cell = &ring[at & (RG_TIMELINE_RING - 1)];
        seq = atomic_load_explicit(&cell->seq, memory_order_acquire);
        if (seq == at) {
            if (atomic_compare_exchange_weak_explicit(&the.tail, &at, at + 1, memory_order_relaxed,
                                                      memory_order_relaxed))
                break;
        } else if (seq < at) {
            atomic_fetch_add_explicit(&the.ndropped, 1, memory_order_relaxed);
            return;
        } else {
            at = atomic_load_explicit(&the.tail, memory_order_relaxed);
        }
    }
    cell->event = *event;
    atomic_store_explicit(&cell->seq, at + 1, memory_order_release);
    if ((at & URGE_MASK) == 0)
        pthread_cond_signal(&the.wake);
}

static bool take(struct rg_trace_event *ret_event)
{
    struct cell *cell = &atomic_load(&the.ring)[the.head & (RG_TIMELINE_RING - 1)];

    if (atomic_load_explicit(&cell->seq, memory_order_acquire) != the.head + 1)
        return false;
    *ret_event = cell->event;
    atomic_store_explicit(&cell->seq, the.head + RG_TIMELINE_RING, memory_order_release);
    the.head++;
    return true;
}

static int make_ring(void)
{
    struct cell *ring;

    if (atomic_load(&the.ring))
        return 0;
    ring = calloc(RG_TIMELINE_RING, sizeof(*ring));
    if (!ring)
        return -ENOMEM;
    for (uint64_t i = 0; i < RG_TIMELINE_RING; i++)
        atomic_store_explicit(&ring[i].seq, i, memory_order_relaxed);
    atomic_store_explicit(&the.ring, ring, memory_order_release);
    return 0;
}

/* ---- names of lanes */

static struct lane_name *find_name(const char *name)
{
    struct lane_name *found = NULL;

    HASH_FIND_STR(the.names, name, found);
    return found;
}

static uint32_t add_name(const char *name)
{
    size_t length = strlen(name) + 1;
    struct lane_name *lane = malloc(sizeof(*lane) + length);

    if (!lane)
        return 0;
    memcpy(lane->name, name, length);
    lane->number = ++the.nnames;
    the.by_number[lane->number - 1] = lane;
    HASH_ADD_STR(the.names, name, lane);
    return lane->number;
}

uint32_t rg_timeline_lane(uint32_t generation, const char *name)
{
    struct lane_name *lane;
    uint32_t number = 0;

    pthread_mutex_lock(&the.names_lock);
    if (the.by_number && rg_timeline_generation() == generation) {
        lane = find_name(name);
        if (!lane && the.nnames + 1 >= RG_TIMELINE_LANES)
            lane = find_name(name = MORE_NAMES);
        number = lane ? lane->number : add_name(name);
    }
    pthread_mutex_unlock(&the.names_lock);
    return number;
}

/* Lanes are named before an event of theirs is pushed. */
static void write_names(void)
{
    pthread_mutex_lock(&the.names_lock);
    for (; the.nwritten < the.nnames; the.nwritten++)
        rg_trace_name_lane(the.trace, the.nwritten + 1, the.by_number[the.nwritten]->name);
    pthread_mutex_unlock(&the.names_lock);
}

static void free_names(void)
{
    struct lane_name *lane, *next;

    pthread_mutex_lock(&the.names_lock);
    HASH_ITER(hh, the.names, lane, next)
    {
        HASH_DEL(the.names, lane);
        free(lane);
    }
    free(the.by_number);
    the.by_number = NULL;
    the.nnames = the.nwritten = 0;
    pthread_mutex_unlock(&the.names_lock);
}

/* ---- the writer */

/* As rg_trace_flush. */
static int write_all(uint32_t generation)
{
    struct rg_trace_event event;
    uint64_t ndropped;

    for (int i = 0; i < 2 * RG_TIMELINE_RING && take(&event); i++) {
        if (event.generation != generation)
            continue;
        if (event.lane > the.nwritten)
            write_names();
        rg_trace_put(the.trace, &event);
    }
    ndropped = atomic_exchange(&the.ndropped, 0);
    if (ndropped) {
        event = (struct rg_trace_event){ .what = RG_TRACE_DROPPED, .ns = rg_now_ns(),
                                         .arg = (int32_t) ndropped };
        rg_trace_put(the.trace, &event);
        rg_report(RG_LOG_WARN, "timeline %s: %llu events dropped, they came faster than they could "
                               "be written", the.path, (unsigned long long) ndropped);
    }
    return rg_trace_flush(the.trace);
}

static bool sleep_until_ending(void)
{
    uint64_t until_ns = rg_now_ns() + RG_TIMELINE_MS * RG_NS_PER_MS;
    struct timespec until = { (time_t) (until_ns / RG_NS_PER_S), (long) (until_ns % RG_NS_PER_S) };
    bool ending;

    pthread_mutex_lock(&the.wake_lock);
    if (!the.ending)
        pthread_cond_timedwait(&the.wake, &the.wake_lock, &until);
    ending = the.ending;
    pthread_mutex_unlock(&the.wake_lock);
    return ending;
}

static void *writer(void *arg)
{
    uint32_t generation = (uint32_t) (uintptr_t) arg;
    bool ending = false, told = false;
    int place = rg_rest_enter(NULL);

    while (!ending) {
        int r;

        ending = sleep_until_ending();
        r = write_all(generation);
        if (r < 0 && !told) {
            told = true;
            rg_report(RG_LOG_WARN, "timeline %s: cannot be written any more: %s; the job goes on",
                      the.path, strerror(-r));
        }
    }
    rg_rest_leave(place, NULL);
    return NULL;
}

/* No signal of the user's is to be handled on it. */
static int start_writer(uint32_t generation)
{
    sigset_t all, before;
    pthread_condattr_t attr;
    int r;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (the.last_generation == 1)
        pthread_cond_init(&the.wake, &attr);
    pthread_condattr_destroy(&attr);
    the.ending = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&the.writer, NULL, writer, (void *) (uintptr_t) generation);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r == 0)
        pthread_setname_np(the.writer, "reigen-timeline");
    return -r;
}

/* ---- start and stop */

/* The ranks of the node leave the times of their submissions; where it runs no more, they need
 * not. */
static void stop_locked(void)
{
    if (!the.trace)
        return;
    atomic_store_explicit(&the.generation, 0, memory_order_release);
    for (int i = 0; i < the.nviews; i++)
        atomic_fetch_sub(&the.views[i]->shared->timed, 1);
    pthread_mutex_lock(&the.wake_lock);
    the.ending = true;
    pthread_cond_signal(&the.wake);
    pthread_mutex_unlock(&the.wake_lock);
    pthread_join(the.writer, NULL);
    rg_trace_close(the.trace);
    the.trace = NULL;
    free_names();
}

/* The path of this rank; 1 when it writes one, 0 when not, -ENAMETOOLONG. */
static int expand_path(const char *path, int rank, bool all_ranks)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    bool each = false;

    for (const char *p = path; *p;) {
        size_t n = strncmp(p, "{rank}", 6) == 0 ? 6 : strncmp(p, "%r", 2) == 0 ? 2 : 0;

        if (n)
            rg_buf_printf(&text, "%d", rank);
        else
            rg_buf_put(&text, p, 1);
        each = each || n;
        p += n ? n : 1;
    }
    if (!each && all_ranks && rank > 0)
        rg_buf_printf(&text, ".%d", rank);
    if (!each && !all_ranks && rank > 0)
        return 0;
    if (rg_buf_nbytes(&text) >= sizeof(the.path))
        return -ENAMETOOLONG;
    strcpy(the.path, rg_buf_text(&text));
    return 1;
}

static int open_trace(int rank, struct rg_error *err)
{
    char label[64];
    int r = make_ring();

    if (r == 0)
        the.by_number = calloc(RG_TIMELINE_LANES, sizeof(struct lane_name *));
    if (r < 0 || !the.by_number)
        return rg_error_set(err, ENOMEM, "out of memory");
    snprintf(label, sizeof(label), "reigen, rank %d", rank);
    r = rg_trace_open(the.path, label, &the.trace, err);
    if (r < 0)
        return r;
    r = start_writer(++the.last_generation);
    if (r < 0) {
        rg_trace_close(the.trace);
        the.trace = NULL;
        return rg_error_set(err, -r, "cannot start the timeline's thread: %s", strerror(-r));
    }
    return 0;
}

int rg_timeline_start(const char *path, int rank, bool mark_cycles, bool all_ranks,
                      struct rg_error *err)
{
    int r;

    pthread_mutex_lock(&the.control);
    stop_locked();
    r = expand_path(path, rank, all_ranks);
    if (r < 0)
        rg_error_set(err, -r, "the timeline %s: the path is too long", path);
    if (r == 1) {
        r = open_trace(rank, err);
        if (r < 0) {
            free_names();
        } else {
            atomic_store(&the.marks_cycles, mark_cycles);
            atomic_store_explicit(&the.generation, the.last_generation, memory_order_release);
            for (int i = 0; i < the.nviews; i++)
                atomic_fetch_add(&the.views[i]->shared->timed, 1);
        }
    }
    pthread_mutex_unlock(&the.control);
    return r;
}

void rg_timeline_stop(void)
{
    pthread_mutex_lock(&the.control);
    stop_locked();
    pthread_mutex_unlock(&the.control);
}

void rg_timeline_attach(struct rg_view *view)
{
    struct rg_view **views;

    pthread_mutex_lock(&the.control);
    views = realloc(the.views, (size_t) (the.nviews + 1) * sizeof(*views));
    if (views) { /* else it is missing in timelines */
        the.views = views;
        views[the.nviews++] = view;
        if (the.trace)
            atomic_fetch_add(&view->shared->timed, 1);
    }
    pthread_mutex_unlock(&the.control);
}

void rg_timeline_detach(const struct rg_view *view)
{
    pthread_mutex_lock(&the.control);
    for (int i = 0; i < the.nviews; i++) {
        if (the.views[i] != view)
            continue;
        if (the.trace)
            atomic_fetch_sub(&view->shared->timed, 1);
        the.views[i] = the.views[--the.nviews];
        break;
    }
    if (the.nviews == 0) {
        free(the.views);
        the.views = NULL;
    }
    pthread_mutex_unlock(&the.control);
}

void rg_timeline_after_fork(void)
{
    static const struct timeline none = NO_TIMELINE;

    rg_trace_after_fork(the.trace);
    /* A thread that is not here may be in the midst of anything: all is made anew. */
    memcpy(&the, &none, sizeof(none));
}
