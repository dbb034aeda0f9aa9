/* SPDX-License-Identifier: Apache-2.0 */
/* The ring that all ranks of a node read in one order: what was decided and what is ready. */
#include "coll/node/runlog.h"

#include <errno.h>
#include <sched.h>

#define CLOSED (UINT64_C(1) << 63)

size_t rg_runlog_nbytes(void)
{
    return 128 + RG_RUNLOG_SLOTS * sizeof(struct rg_run_slot);
}

void rg_runlog_open(struct rg_runlog *ret_log, void *memory)
{
    ret_log->tail = memory;
    ret_log->slots = (struct rg_run_slot *) ((char *) memory + 128);
}

static int take(const struct rg_runlog *log, uint64_t n, uint64_t (*slowest)(void *arg), void *arg,
                uint64_t *ret_position)
{
    uint64_t tail = atomic_load(log->tail);

    for (;;) {
        if (tail & CLOSED)
            return -ECANCELED;
        if (slowest && tail >= RG_RUNLOG_SLOTS / 2) {
            uint64_t low = slowest(arg);

            if (low == UINT64_MAX)
                return -ECANCELED;
            if (low < tail && tail + n - low > RG_RUNLOG_SLOTS) {
                sched_yield();
                tail = atomic_load(log->tail);
                continue;
            }
        }
        if (atomic_compare_exchange_weak(log->tail, &tail, tail + n)) {
            *ret_position = tail;
            return 0;
        }
    }
}

int rg_runlog_append(const struct rg_runlog *log, const struct rg_run_item *items, int n,
                     uint64_t (*slowest)(void *arg), void *arg)
{
    uint64_t position = 0;
    int r = take(log, (uint64_t) n, slowest, arg, &position);

    if (r < 0)
        return r;
    for (int i = 0; i < n; i++) {
        uint64_t at = position + (uint64_t) i;
        struct rg_run_slot *slot = &log->slots[at % RG_RUNLOG_SLOTS];

        slot->item = items[i];
        atomic_store_explicit(&slot->seq, at + 1, memory_order_release);
    }
    return 0;
}

bool rg_runlog_read(const struct rg_runlog *log, uint64_t position, struct rg_run_item *ret_item)
{
    const struct rg_run_slot *slot = &log->slots[position % RG_RUNLOG_SLOTS];

    if (atomic_load_explicit(&slot->seq, memory_order_acquire) != position + 1)
        return false;
    *ret_item = slot->item;
    return true;
}

uint64_t rg_runlog_tail(const struct rg_runlog *log)
{
    return atomic_load(log->tail) & ~CLOSED;
}

void rg_runlog_close(const struct rg_runlog *log)
{
    atomic_fetch_or(log->tail, CLOSED);
}

bool rg_runlog_ended(const struct rg_runlog *log, uint64_t position)
{
    uint64_t tail = atomic_load(log->tail);

    return (tail & CLOSED) && (tail & ~CLOSED) <= position;
}
