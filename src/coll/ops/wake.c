/* SPDX-License-Identifier: Apache-2.0 */
/* Ringing and sleeping: the two bells of each rank, and the futex of this process. */
#include "coll/ops/wake.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void rg_wake_ring(const struct rg_wake *wake, int member, bool urgent)
{
    rg_bell_ring(wake->bells, member, urgent);
    rg_bell_ring(&wake->thread_bells, member, urgent);
}

void rg_wake_ring_all(const struct rg_wake *wake, bool urgent)
{
    for (int r = 0; r < wake->thread_bells.nmembers; r++)
        rg_wake_ring(wake, r, urgent);
}

void rg_wake_sleep(struct rg_wake *wake, uint32_t seen, uint64_t timeout_us)
{
    struct timespec ts = { (time_t) (timeout_us / 1000000), (long) (timeout_us % 1000000) * 1000 };

    syscall(SYS_futex, &wake->events, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
}

void rg_wake_sleepers(struct rg_wake *wake)
{
    atomic_fetch_add(&wake->events, 1);
    if (atomic_load(&wake->nsleepers))
        syscall(SYS_futex, &wake->events, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}
