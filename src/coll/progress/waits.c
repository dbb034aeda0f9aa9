/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the entries, at the ranks, at who looks, and at ranks that wait for each other. */
#include "coll/progress/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "coll/node/signature.h"
#include "coll/progress/life/finish.h"
#include "coll/progress/multi.h"
#include "coll/progress/numbers.h"
#include "coll/progress/spent.h"

#define TICK_NS RG_NS_PER_S
#define WAITING_MAX 64 /* operations that are compared with each other */
#define BUSY_PART 4
#define STEPS_MIN 3    /* fewer say nothing of the next one */
#define UNNAMED_MIN 64 /* where each operation has a name of its own */
#define UNNAMED_NS (3 * RG_NS_PER_S)
#define STOPPED_NS (3 * RG_NS_PER_S) /* a rank that has not looked for so long speaks for nobody */

struct seen {
    uint64_t epoch, since_ns; /* 0: it waits for nobody of this node */
};

struct activity {
    uint64_t nsubmitted, since_ns;
};

struct rg_waits {
    pthread_mutex_t lock;
    uint64_t looked_ns, busy_ns; /* by the communication thread: when, and what the process had used
                                    of processors */
    uint64_t used_ns;            /* of processors, before all this */
    uint64_t began_ns, moved_ns; /* when something was first submitted here, and last */
    uint64_t nsteps, nsubmitted; /* uses of the name that was used most; what this rank submitted */
    uint64_t position, position_ns; /* of the log: what is carried out, since when; 0: nothing */
    struct rg_spent spent; /* the communication thread's */
    struct seen seen[RG_ENTRIES_MAX];
    struct activity ranks[]; /* of the node */
};

/* What the process has used of processors. */
static uint64_t get_use(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t) used.tv_sec * RG_NS_PER_S + (uint64_t) used.tv_nsec;
}

int rg_waits_create(int n, struct rg_waits **ret_waits)
{
    struct rg_waits *waits = calloc(1, sizeof(*waits) + (size_t) n * sizeof(waits->ranks[0]));

    if (!waits)
        return -ENOMEM;
    pthread_mutex_init(&waits->lock, NULL);
    waits->used_ns = get_use();
    *ret_waits = waits;
    return 0;
}

void rg_waits_destroy(struct rg_waits *waits)
{
    if (waits)
        pthread_mutex_destroy(&waits->lock);
    free(waits);
}

/* The epoch of an entry that some ranks have announced and others owe; 0: none. *nsteps becomes its
 * last epoch, if that is more. */
static uint64_t owed(const struct rg_view *view, uint32_t id, uint64_t *nsteps)
{
    uint64_t top = 0;

    if (!atomic_load(&view->entries[id].version))
        return 0;
    for (int r = 0; r < view->n; r++) {
        uint64_t posted = atomic_load(&rg_view_place(view, r, id)->posted);

        top = posted > top ? posted : top;
    }
    *nsteps = top > *nsteps ? top : *nsteps;
    for (int r = 0; r < view->n; r++) {
        if (rg_view_owes(view, r, id, top))
            return top;
    }
    return 0;
}

/* Some steps have passed, or none. */
static void count_steps(struct rg_progress *progress, uint64_t nsteps, uint64_t now)
{
    struct rg_waits *waits = progress->waits;
    uint64_t n = atomic_load(&progress->view.rows[progress->view.me].nsubmitted);

    if (n == 0 || n == waits->nsubmitted)
        return;
    if (waits->began_ns == 0)
        waits->began_ns = now;
    waits->moved_ns = now;
    waits->nsubmitted = n;
    waits->nsteps = nsteps;
}

uint64_t rg_waits_step_ns(const struct rg_progress *progress)
{
    struct rg_waits *waits = progress->waits;
    uint64_t ns, step_ns = 0;

    pthread_mutex_lock(&waits->lock);
    ns = waits->moved_ns - waits->began_ns;
    if (waits->nsteps >= STEPS_MIN)
        step_ns = ns / waits->nsteps + 1;
    else if (waits->nsubmitted >= UNNAMED_MIN && ns >= UNNAMED_NS)
        step_ns = ns / waits->nsubmitted + 1;
    pthread_mutex_unlock(&waits->lock);
    return step_ns;
}

/* What this rank carries out, and since when. Under the lock. */
static void look_at_log(struct rg_waits *waits, const struct rg_view *view, uint64_t now)
{
    uint64_t position = atomic_load(&view->rows[view->me].consumed);

    if (rg_runlog_tail(&view->log) <= position)
        waits->position_ns = 0;
    else if (waits->position_ns == 0 || waits->position != position)
        waits->position_ns = now;
    waits->position = position;
}

uint64_t rg_waits_running_ns(struct rg_progress *progress, uint64_t now, uint32_t *ret_id)
{
    struct rg_waits *waits = progress->waits;
    struct rg_run_item item;
    uint64_t ns = 0;

    pthread_mutex_lock(&waits->lock);
    if (waits->position_ns && rg_runlog_read(&progress->view.log, waits->position, &item)) {
        ns = rg_wait_age_ns(now, waits->position_ns);
        *ret_id = item.id;
    }
    pthread_mutex_unlock(&waits->lock);
    return ns;
}

uint64_t rg_waits_look(struct rg_progress *progress, uint64_t now)
{
    struct rg_waits *waits = progress->waits;
    const struct rg_view *view = &progress->view;
    uint64_t longest = 0, nsteps = 0;

    pthread_mutex_lock(&waits->lock);
    for (uint32_t id = 0; id < atomic_load(&view->shared->nentries); id++) {
        struct seen *seen = &waits->seen[id];
        uint64_t epoch = owed(view, id, &nsteps);
        uint64_t offered_ns = rg_multi_offered_ns(progress, id);

        if (epoch != seen->epoch) {
            seen->epoch = epoch;
            seen->since_ns = now;
        }
        if (epoch && rg_wait_age_ns(now, seen->since_ns) > longest)
            longest = rg_wait_age_ns(now, seen->since_ns);
        if (offered_ns && rg_wait_age_ns(now, offered_ns) > longest)
            longest = rg_wait_age_ns(now, offered_ns);
    }
    look_at_log(waits, view, now);
    for (int r = 0; r < view->n; r++) {
        uint64_t n = atomic_load(&view->rows[r].nsubmitted);

        if (n != waits->ranks[r].nsubmitted || waits->ranks[r].since_ns == 0)
            waits->ranks[r] = (struct activity){ n, now };
    }
    count_steps(progress, nsteps, now);
    pthread_mutex_unlock(&waits->lock);
    return longest / RG_NS_PER_MS;
}

bool rg_waits_next(struct rg_progress *progress, struct rg_wait *wait)
{
    struct rg_waits *waits = progress->waits;
    uint32_t nentries = atomic_load(&progress->view.shared->nentries), id = wait->id;
    bool found = false;

    pthread_mutex_lock(&waits->lock);
    for (; id < nentries && !found; id++) {
        *wait = (struct rg_wait){ id, waits->seen[id].epoch, waits->seen[id].since_ns,
                                  rg_multi_offered_ns(progress, id) };
        found = wait->epoch || wait->offered_ns;
    }
    pthread_mutex_unlock(&waits->lock);
    return found;
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

    return since && rg_wait_age_ns(now, since) >= limit_ns &&
           rg_wait_age_ns(now, rg_waits_active_ns(progress, r, now)) >= limit_ns;
}

/* ---- ranks that wait for each other */

/* The first rank that is blocked and has announced a, but not b; -1: none. */
static int blocked_in(struct rg_progress *progress, const struct rg_wait *a,
                      const struct rg_wait *b, uint64_t now)
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

static bool are_crossed(struct rg_progress *progress, const struct rg_wait *a,
                        const struct rg_wait *b, uint64_t now)
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
static int find_waiting(struct rg_progress *progress, struct rg_wait *found, uint64_t now)
{
    struct rg_wait wait = { .id = 0 };
    int n = 0;

    for (; n < WAITING_MAX && rg_waits_next(progress, &wait); wait.id++) {
        if (wait.epoch && now > wait.since_ns + RG_CROSSED_NS)
            found[n++] = wait;
    }
    return n;
}

/* reporter: this rank looks on behalf of its node, and at a leader for its driver. */
static void look(struct rg_progress *progress, uint64_t now, bool reporter)
{
    struct rg_row *row = &progress->view.rows[progress->view.me];
    struct rg_wait waiting[WAITING_MAX];
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

/* ---- once a second */

bool rg_waits_stopped(const struct rg_view *view, int r, uint64_t now)
{
    uint64_t watched = atomic_load(&view->rows[r].watched_ns);

    return watched <= now && now - watched >= STOPPED_NS;
}

/* The lowest rank of the node that is not stopped itself. */
static bool is_reporter(const struct rg_view *view, uint64_t now)
{
    for (int r = 0; r < view->me; r++) {
        if (!rg_waits_stopped(view, r, now))
            return false;
    }
    return true;
}

static void tell_numbers(struct rg_progress *progress, uint64_t now, bool reporter)
{
    struct rg_waits *waits = progress->waits;
    uint64_t nsteps;

    pthread_mutex_lock(&waits->lock);
    nsteps = waits->nsteps;
    pthread_mutex_unlock(&waits->lock);
    rg_numbers_tick(progress, &waits->spent, now, waits->busy_ns - waits->used_ns, nsteps,
                    reporter);
}

/* More than a waiter that wakes now and then, or this thread. */
static void note_use(struct rg_progress *progress, uint64_t passed_ns)
{
    struct rg_waits *waits = progress->waits;
    uint64_t busy_ns = get_use();

    atomic_store(&progress->view.rows[progress->view.me].computes,
                 busy_ns - waits->busy_ns > passed_ns / BUSY_PART);
    waits->busy_ns = busy_ns;
}

void rg_waits_tick(struct rg_progress *progress)
{
    const struct rg_shared *shared = progress->view.shared;
    struct rg_waits *waits = progress->waits;
    uint64_t now = rg_now_ns(), longest_ms;
    bool reporter;

    if (atomic_load(&shared->aborted) || atomic_load(&shared->closed_by))
        return;
    if (progress->observer)
        progress->observer->ops->glance(progress);
    if (now - waits->looked_ns < TICK_NS)
        return;
    note_use(progress, now - waits->looked_ns);
    waits->looked_ns = now;
    reporter = is_reporter(&progress->view, now);
    atomic_store(&progress->view.rows[progress->view.me].watched_ns, now);
    longest_ms = rg_waits_look(progress, now);
    tell_numbers(progress, now, reporter);
    if (progress->observer)
        progress->observer->ops->tick(progress, now, longest_ms, reporter);
    look(progress, now, reporter);
}
