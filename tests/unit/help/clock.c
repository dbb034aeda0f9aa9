/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own clock_gettime() is found before the C library's. */
#include "help/clock.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"

static _Atomic uint64_t passed_ns;

void unit_clock_pass(unsigned ms)
{
    atomic_fetch_add(&passed_ns, ms * RG_NS_PER_MS);
}

int clock_gettime(clockid_t id, struct timespec *ret_time)
{
    int r = (int) syscall(SYS_clock_gettime, id, ret_time);

    if (r == 0 && id == CLOCK_MONOTONIC) {
        uint64_t nsec = (uint64_t) ret_time->tv_nsec + atomic_load(&passed_ns);

        ret_time->tv_sec += (time_t) (nsec / RG_NS_PER_S);
        ret_time->tv_nsec = (long) (nsec % RG_NS_PER_S);
    }
    return r;
}
