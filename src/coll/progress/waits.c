/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the entries, at the ranks, and at who looks. */
#include "coll/progress/waits.h"

#include <errno.h>
#include <stdlib.h>

#include "base/time.h"
#include "coll/progress/multi.h"

#define TICK_NS RG_NS_PER_S
#define STOPPED_NS (3 * RG_NS_PER_S) /* a rank that has not looked for so long speaks for nobody */

struct seen {
    uint64_t epoch, since_ns; /* 0: it waits for nobody of this node */
};

struct activity {
    uint64_t nsubmitted, since_ns;
};

struct rg_waits {
    pthread_mutex_t lock;
    uint64_t looked_ns;
    struct seen seen[RG_ENTRIES_MAX];
    struct activity ranks[]; /* of the node */
};

int rg_waits_create(int n, struct rg_waits **ret_waits)
{
    struct rg_waits *waits = calloc(1, sizeof(*waits) + (size_t) n * sizeof(waits->ranks[0]));

    if (!waits)
        return -ENOMEM;
    pthread_mutex_init(&waits->lock, NULL);
    *ret_waits = waits;
    return 0;
}

void rg_waits_destroy(struct rg_waits *waits)
{
    if (waits)
        pthread_mutex_destroy(&waits->lock);
    free(waits);
}

bool rg_view_owes(const struct rg_view *view, int r, uint32_t id, uint64_t epoch)
{
    return atomic_load(&rg_view_place(view, r, id)->posted) < epoch &&
           !atomic_load(&view->rows[r].joined);
}

/* The epoch of an entry that some ranks have announced and others owe; 0: none. */
static uint64_t owed(const struct rg_view *view, uint32_t id)
{
    uint64_t top = 0;

    if (!atomic_load(&view->entries[id].version))
        return 0;
    for (int r = 0; r < view->n; r++) {
        uint64_t posted = atomic_load(&rg_view_place(view, r, id)->posted);

        top = posted > top ? posted : top;
    }
    for (int r = 0; r < view->n; r++) {
        if (rg_view_owes(view, r, id, top))
            return top;
    }
    return 0;
}

/* Whoever offers something notes the time by himself, maybe later than now was taken. */
static uint64_t age_ns(uint64_t now, uint64_t since_ns)
{
    return now > since_ns ? now - since_ns : 0;
}

uint64_t rg_waits_look(struct rg_progress *progress, uint64_t now)
{
    struct rg_waits *waits = progress->waits;
    const struct rg_view *view = &progress->view;
    uint64_t longest = 0;

    pthread_mutex_lock(&waits->lock);
    for (uint32_t id = 0; id < atomic_load(&view->shared->nentries); id++) {
        struct seen *seen = &waits->seen[id];
        uint64_t epoch = owed(view, id), offered_ns = rg_multi_offered_ns(progress, id);

        if (epoch != seen->epoch) {
            seen->epoch = epoch;
            seen->since_ns = now;
        }
        if (epoch && age_ns(now, seen->since_ns) > longest)
            longest = age_ns(now, seen->since_ns);
        if (offered_ns && age_ns(now, offered_ns) > longest)
            longest = age_ns(now, offered_ns);
    }
    for (int r = 0; r < view->n; r++) {
        uint64_t n = atomic_load(&view->rows[r].nsubmitted);

        if (n != waits->ranks[r].nsubmitted || waits->ranks[r].since_ns == 0)
            waits->ranks[r] = (struct activity){ n, now };
    }
    pthread_mutex_unlock(&waits->lock);
    return longest / RG_NS_PER_MS;
}

/* The lowest rank of the node that is not stopped itself. */
static bool is_reporter(const struct rg_view *view, uint64_t now)
{
    for (int r = 0; r < view->me; r++) {
        uint64_t watched = atomic_load(&view->rows[r].watched_ns);

        if (watched > now || now - watched < STOPPED_NS)
            return false;
    }
    return true;
}

bool rg_waits_tick(struct rg_progress *progress, uint64_t now, uint64_t *ret_longest_ms,
                   bool *ret_reporter)
{
    struct rg_waits *waits = progress->waits;

    if (now - waits->looked_ns < TICK_NS)
        return false;
    waits->looked_ns = now;
    *ret_reporter = is_reporter(&progress->view, now);
    atomic_store(&progress->view.rows[progress->view.me].watched_ns, now);
    *ret_longest_ms = rg_waits_look(progress, now);
    return true;
}

bool rg_waits_get(struct rg_progress *progress, uint32_t id, struct rg_wait *ret_wait)
{
    struct rg_waits *waits = progress->waits;

    pthread_mutex_lock(&waits->lock);
    *ret_wait = (struct rg_wait){ waits->seen[id].epoch, waits->seen[id].since_ns,
                                  rg_multi_offered_ns(progress, id) };
    pthread_mutex_unlock(&waits->lock);
    return ret_wait->epoch || ret_wait->offered_ns;
}

uint64_t rg_waits_active_ns(struct rg_progress *progress, int r, uint64_t now)
{
    struct rg_waits *waits = progress->waits;
    uint64_t since;

    pthread_mutex_lock(&waits->lock);
    since = waits->ranks[r].since_ns;
    pthread_mutex_unlock(&waits->lock);
    return since && since < now ? since : now;
}

bool rg_waits_blocked(struct rg_progress *progress, int r, uint64_t now, uint64_t limit_ns)
{
    uint64_t since = atomic_load(&progress->view.rows[r].waits_ns);

    return since && age_ns(now, since) >= limit_ns &&
           age_ns(now, rg_waits_active_ns(progress, r, now)) >= limit_ns;
}
