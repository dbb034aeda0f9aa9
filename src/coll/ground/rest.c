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

/* Of the process. A forked child has the threads of its parent in here, by the parent's number. */
static struct {
    _Atomic uint64_t known[KNOWN_MAX]; /* process << 32 | thread; 0: free */
    _Atomic uint64_t stirs;
    _Atomic int ncalls;
} all;

static uint64_t number_of_thread(pid_t tid)
{
    return (uint64_t) getpid() << 32 | (uint32_t) tid;
}

int rg_rest_enter(void)
{
    uint64_t number = number_of_thread((pid_t) syscall(SYS_gettid));

    rg_rest_stir();
    for (int i = 0; i < KNOWN_MAX; i++) {
        uint64_t none = 0;

        if (atomic_load_explicit(&all.known[i], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&all.known[i], &none, number))
            return i;
    }
    return -1;
}

void rg_rest_leave(int place)
{
    if (place < 0)
        return;
    rg_rest_stir();
    atomic_store(&all.known[place], 0);
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
        if (atomic_load(&all.known[i]) == number_of_thread(tid))
            return true;
    }
    return false;
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

/* Each thread that is not known waits for a lock. What they have run, all together. */
static bool all_wait(uint64_t *ret_ran)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    bool wait = dir != NULL;

    *ret_ran = 0;
    while (wait && (entry = readdir(dir))) {
        pid_t tid = (pid_t) atoi(entry->d_name);

        if (tid <= 0 || is_known(tid))
            continue;
        wait = waits_for_lock(tid);
        *ret_ran += wait ? ran(tid) : 0;
    }
    if (dir)
        closedir(dir);
    return wait;
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
static bool is_watched_or_timed(void)
{
    rg_autofree char *status = NULL, *timers = NULL;
    struct itimerval timer;

    if (rg_read_file("/proc/self/status", 8192, &status, NULL) < 0 ||
        !strstr(status, "\nTracerPid:") || number_of(status, "\nTracerPid:"))
        return true;
    if (rg_read_file("/proc/self/timers", 8192, &timers, NULL) == 0 && *timers)
        return true;
    return getitimer(ITIMER_REAL, &timer) < 0 || timer.it_value.tv_sec || timer.it_value.tv_usec;
}

uint64_t rg_rest_look(struct rg_rest *rest, uint64_t now, bool waits, uint64_t done, bool near)
{
    uint64_t stirs = atomic_load(&all.stirs), threads = 0;
    bool same = rest->since_ns && rest->done == done && rest->stirs == stirs;

    if (was_busy(rest, now) || !waits || atomic_load(&all.ncalls)) {
        rest->since_ns = 0;
    } else if (!same || near || now - rest->threads_ns >= EVERY_NS) {
        if (is_watched_or_timed() || !all_wait(&threads))
            rest->since_ns = 0;
        else if (!same || threads != rest->ran)
            rest->since_ns = now;
        rest->threads_ns = now;
        rest->ran = threads;
        rest->done = done;
        rest->stirs = stirs;
    }
    return rest->since_ns;
}
