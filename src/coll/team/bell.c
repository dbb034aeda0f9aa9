/* SPDX-License-Identifier: Apache-2.0 */
/* Waking by futex or event descriptor, with no system call for who is awake. */
#include "coll/team/bell.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Thread sanitizer knows no fences; a read-modify-write orders as much and it understands that. */
static void fence(void)
{
#if defined(__SANITIZE_THREAD__)
    static _Atomic int word;

    atomic_fetch_add(&word, 1);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

static bool wakes(uint32_t mode, bool urgent)
{
    return mode == RG_BELL_FUTEX || mode == RG_BELL_EVENT ||
           (urgent && mode == RG_BELL_FUTEX_URGENT);
}

/* After a fence. Taking the mode away lets one of several ringers make the system call. */
static void ring(const struct rg_bells *bells, int member, bool urgent)
{
    struct rg_bell *bell = &bells->bell[member];
    uint32_t mode = atomic_load_explicit(&bell->mode, memory_order_relaxed);
    int saved = errno;

    while (wakes(mode, urgent)) {
        if (!atomic_compare_exchange_weak(&bell->mode, &mode, RG_BELL_AWAKE))
            continue;
        atomic_fetch_add(&bell->seq, 1);
        if (mode == RG_BELL_FUTEX || mode == RG_BELL_FUTEX_URGENT) {
            syscall(SYS_futex, &bell->seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        } else if (bells->event_fd && bells->event_fd[member] >= 0) {
            uint64_t one = 1;
            ssize_t n = write(bells->event_fd[member], &one, sizeof(one));

            (void) n; /* a full counter wakes as well */
        }
        break;
    }
    errno = saved;
}

void rg_bell_ring(const struct rg_bells *bells, int member, bool urgent)
{
    fence();
    ring(bells, member, urgent);
}

void rg_bell_ring_all(const struct rg_bells *bells, bool urgent)
{
    fence();
    for (int i = 0; i < bells->nmembers; i++) {
        if (i != bells->me)
            ring(bells, i, urgent);
    }
}

uint32_t rg_bell_prepare(const struct rg_bells *bells, enum rg_bell_mode mode)
{
    struct rg_bell *bell = &bells->bell[bells->me];
    uint32_t seen = atomic_load(&bell->seq);

    atomic_store(&bell->mode, mode);
    fence();
    return seen;
}

void rg_bell_commit(const struct rg_bells *bells, uint32_t seen, uint64_t timeout_us)
{
    struct rg_bell *bell = &bells->bell[bells->me];
    struct timespec ts = { (time_t) (timeout_us / 1000000), (long) (timeout_us % 1000000) * 1000 };

    /* A ring, a time-out and a signal look the same: the caller looks for work. */
    syscall(SYS_futex, &bell->seq, FUTEX_WAIT, seen, &ts, NULL, 0);
    atomic_store(&bell->mode, RG_BELL_AWAKE);
}

void rg_bell_cancel(const struct rg_bells *bells)
{
    atomic_store(&bells->bell[bells->me].mode, RG_BELL_AWAKE);
}
