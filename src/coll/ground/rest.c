/* SPDX-License-Identifier: Apache-2.0 */
/* /proc tells for each thread in which system call it is, with the arguments. */
#include "coll/ground/rest.h"

#include <dirent.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/time.h"

#define BUSY_PART 20 /* of a processor: those who wait wake some times a second, and so do we */
#define GAP_NS (3 * RG_NS_PER_S) /* without a look: it was stopped, or has no processor */
#define DRIVERS 1 /* of the threads that wait in operations, one listens to the other ranks */
#define WAKES 2                  /* of a thread that does so again and again */
#define OUR_NAME "reigen\n"      /* of communication threads */

enum wait { WAIT_LOCK, WAIT_TIMED, WAIT_OTHER };

/* A file of one thread's, or of all; "" where it cannot be read. Owned; NULL: no memory. */
static char *read_of(pid_t tid, const char *file)
{
    char path[64];
    char *text = NULL;

    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int) tid, file);
    return rg_read_file(path, 8192, &text, NULL) < 0 ? strdup("") : text;
}

static unsigned long number_of(const char *status, const char *field)
{
    const char *at = strstr(status, field);

    return at ? strtoul(at + strlen(field), NULL, 10) : 0;
}

/* Only a futex of this process alone is a lock that nobody else can release. */
static enum wait wait_of(pid_t tid)
{
    rg_autofree char *text = read_of(tid, "syscall");
    unsigned long a[4];
    long number;

    if (!text || sscanf(text, "%ld %lx %lx %lx %lx", &number, &a[0], &a[1], &a[2], &a[3]) != 5 ||
        number != SYS_futex || !(a[1] & FUTEX_PRIVATE_FLAG))
        return WAIT_OTHER;
    return a[3] ? WAIT_TIMED : WAIT_LOCK;
}

/* False: there is no room for one more. */
static bool note_timed(struct rg_rest *rest, pid_t tid)
{
    rg_autofree char *status = read_of(tid, "status");
    unsigned long switches = status ? number_of(status, "\nvoluntary_ctxt_switches:") : 0;

    for (int i = 0; i < rest->ntimed; i++) {
        if (rest->timed[i].tid == tid) {
            rest->timed[i].seen_ns = rest->looked_ns;
            rest->timed[i].again = switches >= rest->timed[i].switches + WAKES;
            return true;
        }
    }
    if (rest->ntimed == RG_REST_TIMED_MAX)
        return false;
    rest->timed[rest->ntimed++] = (struct rg_rest_timed){ tid, switches, rest->looked_ns,
                                                              false };
    return true;
}

static bool is_ours(pid_t tid)
{
    rg_autofree char *name = read_of(tid, "comm");

    return name && strcmp(name, OUR_NAME) == 0;
}

/* How many threads do not wait for a lock; -1: nobody knows. */
static int count_others(struct rg_rest *rest)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = dir ? 0 : -1;

    while (dir && (entry = readdir(dir))) {
        pid_t tid = (pid_t) atoi(entry->d_name);
        enum wait wait = tid > 0 && !is_ours(tid) ? wait_of(tid) : WAIT_LOCK;

        if (wait == WAIT_OTHER || (wait == WAIT_TIMED && !note_timed(rest, tid)))
            n++;
    }
    if (dir)
        closedir(dir);
    return n;
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

static bool is_watched_or_timed(void)
{
    rg_autofree char *status = NULL;
    struct itimerval timer;

    if (rg_read_file("/proc/self/status", 8192, &status, NULL) < 0 ||
        !strstr(status, "\nTracerPid:") || number_of(status, "\nTracerPid:"))
        return true;
    return getitimer(ITIMER_REAL, &timer) < 0 || timer.it_value.tv_sec || timer.it_value.tv_usec;
}

static void forget(struct rg_rest *rest)
{
    rest->since_ns = 0;
    rest->ntimed = 0;
}

uint64_t rg_rest_look(struct rg_rest *rest, uint64_t now, bool waits)
{
    bool rests = !was_busy(rest, now) && waits && !is_watched_or_timed();
    int n = rests ? count_others(rest) : -1;

    if (n < 0 || n > DRIVERS) {
        forget(rest);
        return 0;
    }
    if (!rest->since_ns)
        rest->since_ns = now;
    for (int i = 0; i < rest->ntimed; i++) {
        if (!rest->timed[i].again && rest->timed[i].seen_ns == now)
            return 0;
    }
    return rest->since_ns;
}
