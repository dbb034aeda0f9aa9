/* SPDX-License-Identifier: Apache-2.0 */
/* /proc tells for each thread in which system call it is, with the arguments, and how often it has
 * given up a processor. */
#include "coll/ground/rest.h"

#include <dirent.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/time.h"

#define BUSY_PART 20 /* of a processor: those who wait wake some times a second, and so do we */
#define GAP_NS (3 * RG_NS_PER_S) /* without a look: it was stopped, or has no processor */
#define EVERY_NS (4 * RG_NS_PER_S) /* so often each thread is looked at */
#define KNOWN_MAX 64
#define CALLERS_MAX 256
#define PAUSE_NS RG_NS_PER_S /* between two slices of a wait */

/* Of the process. A forked child has the threads of its parent in here, by the parent's number. */
static struct {
    _Atomic uint64_t known[KNOWN_MAX]; /* process << 32 | thread; 0: free */
    _Atomic uint64_t left_ns[KNOWN_MAX]; /* when that one has left early; 0: it has not */
    _Atomic uint64_t callers[CALLERS_MAX]; /* the same, of all that ever called an operation */
    _Atomic int ncallers; /* more than there is room for: each thread may be one */
    _Atomic uint64_t stirs;
    _Atomic int ncalls;
} all;

static _Thread_local bool is_noted; /* among the callers */
/* What this thread has left early; its place may be another one's by now. */
static _Thread_local struct {
    const void *operation;
    int place;
} left;

static uint64_t number_of_thread(pid_t tid)
{
    return (uint64_t) getpid() << 32 | (uint32_t) tid;
}

/* Whether it has left so long ago that it does something else. */
static bool is_away(int place)
{
    uint64_t since = atomic_load(&all.left_ns[place]);

    return since && rg_now_ns() - since > PAUSE_NS;
}

/* The place that this thread has left early, if it is still its own; else -1. Whoever takes the
 * time of leaving away has the place: just then another thread may find that it is away. */
static int take_back(uint64_t number)
{
    int place = left.place;
    uint64_t since = left.operation ? atomic_load(&all.left_ns[place]) : 0;
    bool mine = since && atomic_load(&all.known[place]) == number && !is_away(place) &&
                atomic_compare_exchange_strong(&all.left_ns[place], &since, 0);

    left.operation = NULL;
    return mine ? place : -1;
}

static bool take(int place, uint64_t number)
{
    uint64_t none = 0, since = atomic_load(&all.left_ns[place]);

    if (!since)
        return atomic_compare_exchange_strong(&all.known[place], &none, number);
    if (!is_away(place) || !atomic_compare_exchange_strong(&all.left_ns[place], &since, 0))
        return false;
    atomic_store(&all.known[place], number);
    return true;
}

static int take_free(uint64_t number)
{
    for (int i = 0; i < KNOWN_MAX; i++) {
        if (take(i, number))
            return i;
    }
    return -1;
}

int rg_rest_enter(const void *operation)
{
    uint64_t number = number_of_thread((pid_t) syscall(SYS_gettid));
    bool goes_on = operation && left.operation == operation;
    int place = take_back(number);

    if (place < 0 || !goes_on)
        rg_rest_stir();
    return place < 0 ? take_free(number) : place;
}

void rg_rest_leave(int place, const void *operation)
{
    if (place < 0)
        return;
    if (operation) {
        left.operation = operation;
        left.place = place;
        atomic_store(&all.left_ns[place], rg_now_ns());
        return;
    }
    rg_rest_stir();
    atomic_store(&all.known[place], 0);
}

bool rg_rest_goes_on(void)
{
    for (int i = 0; i < KNOWN_MAX; i++) {
        if (atomic_load(&all.known[i]) && atomic_load(&all.left_ns[i]) && !is_away(i))
            return true;
    }
    return false;
}

void rg_rest_submit(void)
{
    if (is_noted)
        return;
    is_noted = true;
    int at = atomic_fetch_add(&all.ncallers, 1);

    if (at < CALLERS_MAX)
        atomic_store(&all.callers[at], number_of_thread((pid_t) syscall(SYS_gettid)));
}

void rg_rest_call(void)
{
    atomic_fetch_add(&all.ncalls, 1);
    rg_rest_stir();
}

void rg_rest_return(void)
{
    atomic_fetch_sub(&all.ncalls, 1);
}

void rg_rest_stir(void)
{
    atomic_fetch_add(&all.stirs, 1);
}

static bool is_known(pid_t tid)
{
    for (int i = 0; i < KNOWN_MAX; i++) {
        if (atomic_load(&all.known[i]) == number_of_thread(tid) && !is_away(i))
            return true;
    }
    return false;
}

/* It may call an operation again, as far as can be known. */
static bool is_caller(pid_t tid)
{
    int n = atomic_load(&all.ncallers);

    for (int i = 0; i < n && i < CALLERS_MAX; i++) {
        if (atomic_load(&all.callers[i]) == number_of_thread(tid))
            return true;
    }
    return n > CALLERS_MAX || tid == getpid();
}

/* A file of one thread's; "" where it cannot be read. Owned; NULL: no memory. */
static char *read_of(pid_t tid, const char *file)
{
    char path[64];
    char *text = NULL;

    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int) tid, file);
    return rg_read_file(path, 8192, &text, NULL) < 0 ? strdup("") : text;
}

static uint64_t number_of(const char *status, const char *field)
{
    const char *at = strstr(status, field);

    return at ? strtoull(at + strlen(field), NULL, 10) : 0;
}

/* Only a futex of this process alone is a lock that nobody else can release. */
static bool waits_for_lock(pid_t tid)
{
    rg_autofree char *text = read_of(tid, "syscall");
    unsigned long a[4];
    long number;

    return text &&
           sscanf(text, "%ld %lx %lx %lx %lx", &number, &a[0], &a[1], &a[2], &a[3]) == 5 &&
           number == SYS_futex && (a[1] & FUTEX_PRIVATE_FLAG) && a[3] == 0;
}

/* Differs if the thread has run since, or is another one. */
static uint64_t ran(pid_t tid)
{
    rg_autofree char *status = read_of(tid, "status");

    return status ? number_of(status, "\nvoluntary_ctxt_switches:") +
                        number_of(status, "\nnonvoluntary_ctxt_switches:") + ((uint64_t) tid << 32)
                  : 0;
}

/* Neither computes, nor waits for a device or a debugger. */
static bool sleeps(pid_t tid)
{
    rg_autofree char *stat = read_of(tid, "stat");
    const char *after = stat ? strrchr(stat, ')') : NULL;

    return after && strlen(after) > 2 && after[2] == 'S';
}

/* Why one thread is unrest; NONE: it is none, and *ran changes when it has run. Who wakes now and
 * then has run, and that is nothing. */
static enum rg_unrest look_at_thread(pid_t tid, uint64_t *ret_ran)
{
    if (!is_caller(tid)) {
        *ret_ran = (uint64_t) tid << 32;
        return sleeps(tid) ? RG_UNREST_NONE : RG_UNREST_THREAD;
    }
    if (!waits_for_lock(tid))
        return RG_UNREST_CALLER;
    *ret_ran = ran(tid);
    return RG_UNREST_NONE;
}

/* Why threads that are not known are unrest; else what they have run, all together. */
static enum rg_unrest look_at_threads(uint64_t *ret_ran, pid_t *ret_thread)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    enum rg_unrest why = dir ? RG_UNREST_NONE : RG_UNREST_UNKNOWN;

    *ret_ran = 0;
    while (why == RG_UNREST_NONE && (entry = readdir(dir))) {
        pid_t tid = (pid_t) atoi(entry->d_name);
        uint64_t one = 0;

        if (tid <= 0 || is_known(tid))
            continue;
        why = look_at_thread(tid, &one);
        *ret_ran += one;
        *ret_thread = tid;
    }
    if (dir)
        closedir(dir);
    return why;
}

/* Whether it has used more than a waiter does since the last look, or there was none for long. */
static bool was_busy(struct rg_rest *rest, uint64_t now)
{
    uint64_t passed = rest->looked_ns ? now - rest->looked_ns : GAP_NS + 1;
    uint64_t before = rest->used_ns;
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    rest->used_ns = (uint64_t) used.tv_sec * RG_NS_PER_S + (uint64_t) used.tv_nsec;
    rest->looked_ns = now;
    return passed > GAP_NS || rest->used_ns - before > passed / BUSY_PART;
}

/* Kernels without checkpoints do not list timers. */
static bool has_timer(void)
{
    rg_autofree char *timers = NULL;
    struct itimerval timer;

    if (rg_read_file("/proc/self/timers", 8192, &timers, NULL) == 0 && *timers)
        return true;
    return getitimer(ITIMER_REAL, &timer) < 0 || timer.it_value.tv_sec || timer.it_value.tv_usec;
}

/* Why it is unrest, as far as its threads and what is attached to it say. */
static enum rg_unrest look_around(uint64_t *ret_ran, pid_t *ret_thread)
{
    rg_autofree char *status = NULL;

    if (rg_read_file("/proc/self/status", 8192, &status, NULL) < 0 ||
        !strstr(status, "\nTracerPid:"))
        return RG_UNREST_UNKNOWN;
    if (number_of(status, "\nTracerPid:"))
        return RG_UNREST_DEBUGGER;
    return has_timer() ? RG_UNREST_TIMER : look_at_threads(ret_ran, ret_thread);
}

/* The rest is over, or begins anew. */
static void disturb(struct rg_rest *rest, uint64_t since, enum rg_unrest why)
{
    rest->since_ns = since;
    rest->why = why;
}

/* Whether the process calls nothing, and is told of nothing: same says that it was so since the
 * last look around. */
static void look_again(struct rg_rest *rest, uint64_t now, bool same)
{
    uint64_t threads = 0;
    enum rg_unrest why = look_around(&threads, &rest->thread);

    if (why)
        disturb(rest, 0, why);
    else if (!same)
        disturb(rest, now, rest->since_ns ? RG_UNREST_CALLS : rest->why);
    else if (threads != rest->ran)
        disturb(rest, now, RG_UNREST_CHANGES);
    rest->threads_ns = now;
    rest->ran = threads;
}

uint64_t rg_rest_look(struct rg_rest *rest, uint64_t now, bool waits, uint64_t done, bool near)
{
    uint64_t stirs = atomic_load(&all.stirs);
    bool same = rest->since_ns && rest->done == done && rest->stirs == stirs;
    bool busy = was_busy(rest, now);

    if (!waits)
        disturb(rest, 0, RG_UNREST_NONE);
    else if (busy || atomic_load(&all.ncalls))
        disturb(rest, 0, busy ? RG_UNREST_BUSY : RG_UNREST_TOLD);
    else if (!same || near || now - rest->threads_ns >= EVERY_NS) {
        look_again(rest, now, same);
        rest->done = done;
        rest->stirs = stirs;
    }
    return rest->since_ns;
}
