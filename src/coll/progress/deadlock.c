/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/progress/deadlock.h"

#include <string.h>

#include "base/time.h"
#include "coll/progress/progress.h"
#include "coll/node/signature.h"
#include "coll/observe/stall.h"

#define CROSSED_NS (4 * RG_NS_PER_S) /* so long it must last */
#define WAITING_MAX 64               /* operations that are compared with each other */

struct waiting {
    uint32_t id;
    uint64_t epoch;
};

static void end_all(struct rg_progress *progress, const struct rg_error *err)
{
    if (rg_view_abort(&progress->view, EINVAL, -1, err->text) && progress->boot)
        rg_boot_note(progress->boot, 0, err->text);
    rg_progress_ring_all(progress, true);
}

/* A thread of the r-th rank waits, and none submits. */
static bool is_blocked(const struct rg_progress *progress, int r, uint64_t now)
{
    uint64_t since = atomic_load(&progress->view.rows[r].waits_ns);

    return since && now > since + CROSSED_NS &&
           now > rg_stall_active_since(progress->stall, r, now) + CROSSED_NS;
}

/* The first rank that is blocked and has announced a, but not b; -1: none. */
static int blocked_in(const struct rg_progress *progress, const struct waiting *a,
                      const struct waiting *b, uint64_t now)
{
    const struct rg_view *view = &progress->view;

    for (int r = 0; r < view->n; r++) {
        if (atomic_load(&rg_view_place(view, r, a->id)->posted) >= a->epoch &&
            rg_view_owes(view, r, b->id, b->epoch) && is_blocked(progress, r, now))
            return r;
    }
    return -1;
}

static bool are_crossed(struct rg_progress *progress, const struct waiting *a,
                        const struct waiting *b, uint64_t now)
{
    const struct rg_view *view = &progress->view;
    const struct rg_entry *x = &view->entries[a->id], *y = &view->entries[b->id];
    const char *name = rg_key_name(x->key);
    struct rg_error err = RG_ERROR_INIT;
    int rank_a, rank_b;

    if (strcmp(name, rg_key_name(y->key)) != 0)
        return false;
    rank_a = blocked_in(progress, a, b, now);
    rank_b = rank_a < 0 ? -1 : blocked_in(progress, b, a, now);
    if (rank_b < 0 || rg_signature_compare(name, &x->sig, rg_view_shown_rank(view, rank_a), &y->sig,
                                           rg_view_shown_rank(view, rank_b), &err) == 0)
        return false;
    end_all(progress, &err);
    return true;
}

static bool is_node_blocked(const struct rg_progress *progress, uint64_t now)
{
    for (int r = 0; r < progress->view.n; r++)
        if (!is_blocked(progress, r, now))
            return false;
    return true;
}

/* What has waited long for ranks of this node. */
static int find_waiting(struct rg_progress *progress, struct waiting *found, uint64_t now)
{
    uint32_t nentries = atomic_load(&progress->view.shared->nentries);
    int n = 0;

    for (uint32_t id = 0; id < nentries && n < WAITING_MAX; id++) {
        uint64_t since;

        if (rg_stall_waits(progress->stall, id, &found[n].epoch, &since) &&
            now > since + CROSSED_NS)
            found[n++].id = id;
    }
    return n;
}

void rg_deadlock_look(struct rg_progress *progress, uint64_t now_ns, bool reporter)
{
    struct rg_row *row = &progress->view.rows[progress->view.me];
    struct waiting waiting[WAITING_MAX];
    int n;

    if (atomic_load(&progress->nwaiters) == 0)
        atomic_store(&row->waits_ns, 0);
    else if (atomic_load(&row->waits_ns) == 0)
        atomic_store(&row->waits_ns, now_ns);
    if (!reporter)
        return;
    n = find_waiting(progress, waiting, now_ns);
    for (int i = 0; i < n; i++) {
        for (int k = i + 1; k < n; k++) {
            if (are_crossed(progress, &waiting[i], &waiting[k], now_ns))
                return;
        }
    }
    if (progress->order)
        atomic_store(&progress->looked, is_node_blocked(progress, now_ns) ? RG_LOOKED_BLOCKED
                                                                      : RG_LOOKED_MOVES);
}

void rg_deadlock_drive(struct rg_progress *progress)
{
    struct rg_error err = RG_ERROR_INIT;
    bool blocked;

    if (atomic_load_explicit(&progress->looked, memory_order_relaxed) == RG_LOOKED_NOT)
        return;
    blocked = atomic_exchange(&progress->looked, RG_LOOKED_NOT) == RG_LOOKED_BLOCKED;
    rg_order_blocked(progress->order, blocked);
    if (blocked && rg_order_crossed(progress->order, rg_now_ns() - CROSSED_NS, &err))
        end_all(progress, &err);
}
