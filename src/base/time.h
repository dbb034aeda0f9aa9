/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks. Every deadline in the project is in nanoseconds of CLOCK_MONOTONIC.
 * All functions may be called from any thread and from a signal handler; none fails or blocks
 * (rg_sleep_ms excepted, which blocks).
 */
#ifndef RG_BASE_TIME_H
#define RG_BASE_TIME_H

#include <stdint.h>
#include <time.h>

#define RG_NS_PER_MS 1000000ull
#define RG_NS_PER_S 1000000000ull
#define RG_NEVER_NS UINT64_MAX /* a deadline that does not come */

static inline uint64_t rg_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * RG_NS_PER_S + (uint64_t) ts.tv_nsec;
}

/* Wall clock, for time stamps that a person reads. */
static inline uint64_t rg_wall_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t) ts.tv_sec * RG_NS_PER_S + (uint64_t) ts.tv_nsec;
}

/* Minutes by which local time is ahead of UTC at that time; negative in the west. By the TZ of this
 * process, or /etc/localtime: not from a signal handler. */
static inline int rg_zone_min(time_t at)
{
    struct tm tm = { 0 };

    localtime_r(&at, &tm);
    return (int) (tm.tm_gmtoff / 60);
}

/* Sleep for the whole time, interrupted or not. */
static inline void rg_sleep_ms(unsigned ms)
{
    struct timespec left = { ms / 1000, (long) (ms % 1000) * 1000000 };

    while (nanosleep(&left, &left) != 0)
        ;
}

#endif
