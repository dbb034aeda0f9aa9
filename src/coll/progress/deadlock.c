/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that wait for each other in operations of one name. */
#include "coll/progress/deadlock.h"

#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "coll/node/signature.h"
#include "coll/progress/finish.h"
#include "coll/progress/multi.h"
#include "coll/progress/waits.h"

#define WAITING_MAX 64 /* operations that are compared with each other */

struct waiting {
    uint32_t id;
    uint64_t epoch;
};

/* The first rank that is blocked and has announced a, but not b; -1: none. */
static int blocked_in(struct rg_progress *progress, const struct waiting *a,
                      const struct waiting *b, uint64_t now)
{
    const struct rg_view *view = &progress->view;

    for (int r = 0; r < view->n; r++) {
        if (atomic_load(&rg_view_place(view, r, a->id)->posted) >= a->epoch &&
            rg_view_owes(view, r, b->id, b->epoch) &&
            rg_waits_blocked(progress, r, now, RG_CROSSED_NS))
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
    rg_progress_abort(progress, EINVAL, err.text);
    return true;
}

static bool is_node_blocked(struct rg_progress *progress, uint64_t now)
{
    for (int r = 0; r < progress->view.n; r++)
        if (!rg_waits_blocked(progress, r, now, RG_CROSSED_NS))
            return false;
    return true;
}

/* What has waited long for ranks of this node. */
static int find_waiting(struct rg_progress *progress, struct waiting *found, uint64_t now)
{
    uint32_t nentries = atomic_load(&progress->view.shared->nentries);
    int n = 0;

    for (uint32_t id = 0; id < nentries && n < WAITING_MAX; id++) {
        struct rg_wait wait;

        if (rg_waits_get(progress, id, &wait) && wait.epoch && now > wait.since_ns + RG_CROSSED_NS)
            found[n++] = (struct waiting){ id, wait.epoch };
    }
    return n;
}

/* reporter: this rank looks on behalf of its node, and at a leader for its driver. */
static void look(struct rg_progress *progress, uint64_t now, bool reporter)
{
    struct rg_row *row = &progress->view.rows[progress->view.me];
    struct waiting waiting[WAITING_MAX];
    int n;

    if (atomic_load(&progress->wake.nwaiters) == 0)
        atomic_store(&row->waits_ns, 0);
    else if (atomic_load(&row->waits_ns) == 0)
        atomic_store(&row->waits_ns, now);
    if (!reporter)
        return;
    n = find_waiting(progress, waiting, now);
    for (int i = 0; i < n; i++) {
        for (int k = i + 1; k < n; k++) {
            if (are_crossed(progress, &waiting[i], &waiting[k], now))
                return;
        }
    }
    if (progress->multi)
        rg_multi_look(progress, is_node_blocked(progress, now));
}

void rg_deadlock_tick(struct rg_progress *progress)
{
    uint64_t now = rg_now_ns(), longest_ms;
    bool reporter;

    if (atomic_load(&progress->view.shared->aborted) ||
        atomic_load(&progress->view.shared->closed_by) ||
        !rg_waits_tick(progress, now, &longest_ms, &reporter))
        return;
    if (progress->observer)
        progress->observer->ops->tick(progress, now, longest_ms, reporter);
    look(progress, now, reporter);
}
