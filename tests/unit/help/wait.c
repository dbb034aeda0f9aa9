/* SPDX-License-Identifier: Apache-2.0 */
#include "help/wait.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "help/limit.h"

/* What a quiet machine needs at most. */
#define QUIET_S 10
/* Between two looks, at first and at most. */
#define FINE_NS (100 * 1000)
#define COARSE_NS (10 * RG_NS_PER_MS)

/* As proc(5) names it; '?' for one that is not there. */
static char state_of(pid_t pid)
{
    char path[64], state = '?';

    snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    FILE *in = fopen(path, "re");

    if (in && fscanf(in, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (in)
        fclose(in);
    return state;
}

bool unit_sleeps(pid_t pid)
{
    return state_of(pid) == 'S';
}

bool unit_has_ended(pid_t pid)
{
    return strchr("?ZX", state_of(pid)) != NULL;
}

/* Of the machine, also where a test moves the program's clock (clock.h). */
static uint64_t real_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t) now.tv_sec * RG_NS_PER_S + (uint64_t) now.tv_nsec;
}

bool unit_wait_more(struct unit_wait *wait)
{
    uint64_t now_ns = real_now_ns();

    if (wait->end_ns == 0) {
        wait->began_ns = now_ns;
        wait->end_ns = now_ns + unit_limit_s(QUIET_S) * RG_NS_PER_S;
        wait->nap_ns = FINE_NS;
    }
    if (now_ns >= wait->end_ns) {
        fprintf(stderr, "%s:%d: %s: not within %.1f s: %s\n", wait->file, wait->line, wait->what,
                (double) (now_ns - wait->began_ns) / 1e9, wait->condition);
        return false;
    }
    nanosleep(&(struct timespec){ .tv_nsec = (long) wait->nap_ns }, NULL);
    wait->nap_ns = wait->nap_ns * 3 / 2 < COARSE_NS ? wait->nap_ns * 3 / 2 : COARSE_NS;
    return true;
}
