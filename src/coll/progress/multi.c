/* SPDX-License-Identifier: Apache-2.0 */
/* Offers to the other leaders, their decisions, and what one node tells another. */
#include "coll/progress/multi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/exec/exec.h"
#include "coll/far/direct.h"
#include "coll/negotiate/order.h"
#include "coll/node/signature.h"
#include "coll/progress/life/finish.h"
#include "coll/progress/run.h"
#include "coll/progress/life/submit.h"
#include "coll/progress/life/watch.h"

#define ROUNDS 32 /* of direct operations alone, between two looks at everything else */

/* What the communication thread found of the node, and its driver has not passed on yet. */
enum looked { LOOKED_NOT = 0, LOOKED_MOVES, LOOKED_BLOCKED };

/* An entry that the leader holds until all ranks of the node have read the log up to here. */
struct adopted {
    uint32_t id;
    uint64_t until; /* UINT64_MAX: not in the log yet */
};

/* An entry that waits for other nodes. */
struct offer {
    uint64_t epoch;
    _Atomic uint64_t since_ns; /* 0: it does not */
};

struct rg_multi {
    struct rg_order *order;
    struct rg_direct *direct;
    uint64_t asked_ns, round_trip_ns; /* the kernel, for its least of the longest */
    unsigned rounds;
    bool hurried;
    uint64_t ready_position;      /* in the ready ring */
    struct rg_run_item decided[RG_RUN_MAX]; /* a fused run that is not complete */
    int ndecided;
    bool told_death, told_shutdown; /* to the other leaders */
    struct adopted *adopted;      /* held for the whole node; owned */
    size_t nadopted, adopted_capacity;
    _Atomic int looked;           /* enum looked, for the driver */
    struct offer offers[RG_ENTRIES_MAX];
};

static void flush(struct rg_progress *progress)
{
    struct rg_multi *multi = progress->multi;
    int n = multi->ndecided;

    if (n == 0)
        return;
    for (int i = 0; i + 1 < n; i++)
        multi->decided[i].flags |= RG_RUN_MORE;
    multi->ndecided = 0;
    rg_runlog_append(&progress->view.log, multi->decided, n, rg_log_slowest, progress);
    for (size_t i = multi->nadopted; i > 0 && multi->adopted[i - 1].until == UINT64_MAX; i--)
        multi->adopted[i - 1].until = rg_runlog_tail(&progress->view.log);
    rg_wake_ring_all(&progress->wake, true);
}

/* Let go of what all ranks of the node have carried out. */
static void release_adopted(struct rg_progress *progress)
{
    struct rg_multi *multi = progress->multi;
    uint64_t low = rg_log_slowest(progress);
    size_t n = 0;

    while (n < multi->nadopted && multi->adopted[n].until <= low)
        rg_table_release(&progress->view, multi->adopted[n++].id);
    multi->nadopted -= n;
    memmove(multi->adopted, multi->adopted + n, multi->nadopted * sizeof(*multi->adopted));
}

static int adopt(struct rg_progress *progress, const char *name, const struct rg_signature *sig,
                 struct rg_run_item *item)
{
    struct rg_multi *multi = progress->multi;
    int r = rg_grow(&multi->adopted, &multi->adopted_capacity, multi->nadopted + 1);

    if (r == 0)
        r = rg_table_adopt(&progress->table, name, sig, &item->id, &item->epoch);
    if (r == 0)
        multi->adopted[multi->nadopted++] = (struct adopted){ item->id, UINT64_MAX };
    return r;
}

/* What is decided goes into the log as soon as its run is complete: the log's end tells then until
 * when an entry is held. more: it is not. */
static void decide(struct rg_progress *progress, struct rg_run_item item, bool more)
{
    struct rg_multi *multi = progress->multi;

    multi->decided[multi->ndecided++] = item;
    if (!more || multi->ndecided == RG_RUN_MAX)
        flush(progress);
}

/* Its epoch, once; -ENOENT when this node has not offered it. */
static int take_offer(struct rg_progress *progress, uint32_t id, uint64_t *ret_epoch)
{
    struct offer *offer = &progress->multi->offers[id];

    if (!atomic_exchange(&offer->since_ns, 0))
        return -ENOENT;
    *ret_epoch = offer->epoch;
    return 0;
}

uint64_t rg_multi_offered_ns(const struct rg_progress *progress, uint32_t id)
{
    return progress->multi ? atomic_load(&progress->multi->offers[id].since_ns) : 0;
}

static void on_decided(void *arg, const char *name, const struct rg_signature *sig,
                       const char *error, bool more, uint8_t way)
{
    struct rg_progress *progress = arg;
    struct rg_run_item item = { 0, sig->kind == REIGEN_ALLREDUCE ? RG_RUN_REDUCE : 0, 0 };

    if (error)
        flush(progress);
    if ((rg_table_lookup(&progress->view, name, &item.id) < 0 ||
         take_offer(progress, item.id, &item.epoch) < 0) &&
        adopt(progress, name, sig, &item) < 0) {
        rg_view_abort(&progress->view, ENOMEM, -1,
                      "an operation of the other hosts could not be taken up: too many names");
        return;
    }
    if (way != RG_DIRECT_NOT && rg_signature_nbytes(sig) > RG_DIRECT_SMALL)
        rg_table_grant(&progress->view, item.id);
    if (error) {
        rg_table_fail(&progress->view, item.id, item.epoch, error);
        item.flags |= RG_RUN_FAILED;
    }
    decide(progress, item, more && !error);
}

static void on_void(void *arg, uint32_t id, bool again)
{
    struct rg_progress *progress = arg;

    rg_direct_void(progress->multi->direct, id, again);
}

static void on_expect(void *arg, uint32_t id, uint32_t seq, uint8_t way)
{
    struct rg_progress *progress = arg;

    rg_direct_expect(progress->multi->direct, id, seq, way);
}

/* The entry waits for other nodes since then; 0: not any more. */
static void note(void *arg, const struct rg_run_item *item, uint64_t since_ns)
{
    struct rg_progress *progress = arg;
    struct offer *offer = &progress->multi->offers[item->id];

    offer->epoch = item->epoch;
    atomic_store(&offer->since_ns, since_ns);
}

/* For the timeline: the other nodes have come, too. */
static void tell_observer(struct rg_progress *progress, uint32_t id)
{
    struct rg_observer *observer = rg_progress_timed(progress);

    if (!observer || !rg_order_decides(progress->multi->order))
        return;
    for (int node = 0; node < progress->team->nnodes; node++)
        observer->ops->offered(progress, node, progress->view.entries[id].key);
}

/* The leaders have exchanged it: all ranks of the node come to it in the log. */
static void on_result(void *arg, const struct rg_run_item *item)
{
    struct rg_progress *progress = arg;

    tell_observer(progress, item->id);
    note(progress, item, 0);
    rg_runlog_append(&progress->view.log, item, 1, rg_log_slowest, progress);
    for (int r = 0; r < progress->view.n; r++)
        if (r != progress->view.me)
            rg_wake_ring(&progress->wake, r, true);
}

static void on_joined(void *arg, int last_rank)
{
    struct rg_progress *progress = arg;

    flush(progress);
    rg_direct_all_joined(progress->multi->direct);
    decide(progress, (struct rg_run_item){ 0, RG_RUN_JOINED, 1 + (uint64_t) last_rank }, false);
}

static void on_died(void *arg, int rank, const char *text)
{
    struct rg_progress *progress = arg;

    rg_view_abort(&progress->view, ECONNRESET, rank, text);
    rg_wake_ring_all(&progress->wake, true);
}

static int on_waiting(void *arg, int *ret_rank, struct rg_error *err)
{
    struct rg_progress *progress = arg;
    const char *text = NULL;
    int r;

    rg_watch_start(progress);
    r = rg_progress_abort_cause(progress, &text);
    if (r == 0 && progress->world)
        r = rg_progress_abort_cause(progress->world, &text);
    if (r == 0)
        return 0;
    *ret_rank = rg_view_abort_rank(&progress->view);
    return rg_error_set(err, -r, "%s", text);
}

static void on_shutdown(void *arg, int rank)
{
    struct rg_progress *progress = arg;
    uint32_t nobody = 0;

    flush(progress);
    atomic_compare_exchange_strong(&progress->view.shared->closed_by, &nobody, 1 + (uint32_t) rank);
    rg_runlog_close(&progress->view.log);
    rg_progress_went_on(progress);
    atomic_fetch_or(&progress->view.shared->attention, RG_ATTENTION_CLOSED);
    rg_wake_ring_all(&progress->wake, true);
}

static void on_stall_query(void *arg)
{
    struct rg_progress *progress = arg;

    if (progress->observer)
        progress->observer->ops->asked(progress);
}

static void on_offered(void *arg, int node, const char *name)
{
    struct rg_progress *progress = arg;
    struct rg_observer *observer = rg_progress_timed(progress);

    if (observer)
        observer->ops->offered(progress, node, name);
}

static void on_stall_reply(void *arg, int node, const char *text)
{
    struct rg_progress *progress = arg;

    if (progress->observer)
        progress->observer->ops->heard(progress, node, text);
}

/* The kernel is asked once a second at most. */
static uint64_t round_trip_ns(struct rg_progress *progress)
{
    struct rg_multi *multi = progress->multi;
    uint64_t now_ns = rg_now_ns();

    if (multi->asked_ns == 0 || now_ns > multi->asked_ns + RG_NS_PER_S) {
        multi->round_trip_ns = rg_order_round_trip_ns(multi->order);
        multi->asked_ns = now_ns;
    }
    return multi->round_trip_ns;
}

/* What the plane says that would carry it among leaders. */
static uint8_t direct_way(void *arg, const struct rg_signature *sig)
{
    struct rg_progress *progress = arg;
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = sig->dtype,
                            .op = sig->op == REIGEN_AVERAGE ? REIGEN_SUM : sig->op,
                            .memory = sig->memory, .scale = { 1.0, 1.0, 1 } };

    coll.count = rg_signature_nbytes(sig) / rg_dtype_nbytes(sig->dtype);
    return rg_exec_direct_way(progress->exec, &coll, round_trip_ns(progress));
}

int rg_multi_create(struct rg_progress *progress, uint64_t deadline_ns, struct rg_error *err)
{
    struct rg_order_events events = {
        .on_decided = on_decided,
        .direct = direct_way,
        .on_joined = on_joined,
        .on_void = on_void,
        .on_expect = on_expect,
        .on_died = on_died,
        .on_shutdown = on_shutdown,
        .on_waiting = on_waiting,
        .on_stall_query = on_stall_query,
        .on_stall_reply = on_stall_reply,
        .on_offered = on_offered,
        .arg = progress,
    };

    const struct rg_direct_options direct = { .team = progress->team, .view = &progress->view,
                                              .ops = progress->by_entry, .on_result = on_result,
                                              .note = note, .arg = progress };

    progress->multi = calloc(1, sizeof(*progress->multi));
    if (!progress->multi)
        return rg_error_set(err, ENOMEM, "out of memory");
    if (rg_direct_create(&direct, &progress->multi->direct) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    int r = rg_order_create(progress->team, progress->config, &events, deadline_ns,
                            &progress->multi->order, err);

    if (r < 0)
        rg_progress_cut_off(progress, r);
    return r;
}

static int offer_join(struct rg_progress *progress, const struct rg_run_item *item)
{
    int r = rg_order_offer_join(progress->multi->order, (int) item->epoch - 1);

    rg_direct_node_joined(progress->multi->direct, progress->multi->order);
    return r;
}

/* Exchange it directly, or offer it. 0, -EAGAIN: later, or -errno. */
static int offer(struct rg_progress *progress, const struct rg_run_item *item)
{
    const struct rg_view *view = &progress->view;
    const struct rg_entry *entry = &view->entries[item->id];
    int r;

    if (item->flags & RG_RUN_JOINED)
        return offer_join(progress, item);
    /* Whoever wrote the key has stored a version after it. The way from there to here leads through
     * another process, which orders the two, but is not seen by a checker of this one's threads. */
    atomic_load(&entry->version);
    r = rg_direct_begin(progress->multi->direct, progress->multi->order, item);
    if (r != 0)
        return r < 0 ? r : 0;
    note(progress, item, rg_now_ns());
    return rg_order_offer(progress->multi->order, entry->key, &entry->sig,
                          item->flags & RG_RUN_FAILED ? view->errors[item->id][item->epoch & 1]
                                                      : NULL);
}

/* What one node's ranks know, the other leaders learn once. */
static void announce(struct rg_progress *progress)
{
    struct rg_multi *multi = progress->multi;

    if (rg_view_aborted(&progress->view) && !multi->told_death) {
        int rank = rg_view_abort_rank(&progress->view);

        multi->told_death = true;
        rg_order_announce_death(multi->order, rank < 0 ? progress->team->rank : rank,
                                rg_view_abort_text(&progress->view));
    }
    for (int r = 0; r < progress->view.n && !multi->told_shutdown; r++) {
        if (atomic_load(&progress->view.rows[r].left)) {
            multi->told_shutdown = true;
            rg_order_announce_shutdown(multi->order, progress->view.ranks[r]);
        }
    }
}

/* What was seen of this node goes to the coordinator, which looks at the nodes. */
static void pass_on_look(struct rg_progress *progress)
{
    struct rg_multi *multi = progress->multi;
    struct rg_error err = RG_ERROR_INIT;
    bool blocked;

    if (atomic_load_explicit(&multi->looked, memory_order_relaxed) == LOOKED_NOT)
        return;
    blocked = atomic_exchange(&multi->looked, LOOKED_NOT) == LOOKED_BLOCKED;
    rg_order_blocked(multi->order, blocked);
    if (blocked && rg_order_crossed(multi->order, rg_now_ns() - RG_CROSSED_NS, &err))
        rg_progress_abort(progress, EINVAL, err.text);
}

void rg_multi_look(struct rg_progress *progress, bool blocked)
{
    if (progress->multi)
        atomic_store(&progress->multi->looked, blocked ? LOOKED_BLOCKED : LOOKED_MOVES);
}

/* What has arrived on the node. True when there was anything. */
static bool offer_all(struct rg_progress *progress)
{
    struct rg_multi *multi = progress->multi;
    struct rg_run_item item;
    bool moved = false;

    while (rg_runlog_read(&progress->view.ready, multi->ready_position, &item)) {
        int r = offer(progress, &item);

        if (r == -EAGAIN)
            return moved;
        multi->ready_position++;
        moved = true;
        if (r < 0)
            rg_view_abort(&progress->view, ENOMEM, -1,
                          "an operation could not be offered to the other hosts");
    }
    return moved;
}

/* One run is carried out and another one waits: what comes now can wait as well, and goes together
 * with what comes meanwhile. With less the leaders would have nothing to do while they agree. */
static bool has_enough(const struct rg_progress *progress)
{
    uint64_t left = rg_runlog_tail(&progress->view.log) - progress->position;
    uint64_t at_work = (uint64_t) progress->run->nitems;

    return at_work > 0 && left > at_work;
}

bool rg_multi_drive(struct rg_progress *progress)
{
    struct rg_multi *multi = progress->multi;
    bool moved, thorough;

    if (!multi)
        return false;
    moved = offer_all(progress);
    thorough = multi->hurried || ++multi->rounds % ROUNDS == 0;
    multi->hurried = false;
    moved |= rg_direct_progress(multi->direct, thorough);
    if (!thorough && rg_direct_in_flight(progress->multi->direct))
        return moved;
    announce(progress);
    if (progress->observer)
        progress->observer->ops->drive(progress);
    pass_on_look(progress);
    rg_order_hold(multi->order, has_enough(progress));
    if (rg_order_progress(multi->order))
        moved = true;
    if (multi->nadopted)
        release_adopted(progress);
    return moved;
}

void rg_multi_hurry(struct rg_progress *progress)
{
    if (progress->multi)
        progress->multi->hurried = true;
}

int rg_multi_failure(struct rg_progress *progress, struct rg_error *err)
{
    return progress->multi ? rg_direct_failure(progress->multi->direct, err) : 0;
}

void rg_multi_stop(struct rg_progress *progress, bool sends)
{
    if (progress->multi)
        rg_direct_stop(progress->multi->direct, sends);
}

bool rg_multi_has_work(struct rg_progress *progress)
{
    struct rg_run_item item;

    return progress->multi &&
           (rg_direct_has_work(progress->multi->direct) ||
            rg_runlog_read(&progress->view.ready, progress->multi->ready_position, &item));
}

int rg_multi_wait_fds(struct rg_progress *progress, int *ret_fds, unsigned *ret_events, int max)
{
    int n = 0;

    if (!progress->multi)
        return 0;
    n = rg_order_wait_fds(progress->multi->order, ret_fds, ret_events, max);
    return n + rg_direct_wait_fds(progress->multi->direct, ret_fds + n, ret_events + n, max - n);
}

struct rg_order *rg_multi_order(const struct rg_progress *progress)
{
    return progress->multi ? progress->multi->order : NULL;
}

void rg_multi_after_fork(struct rg_progress *progress)
{
    if (!progress->multi)
        return;
    rg_order_after_fork(progress->multi->order);
    rg_direct_after_fork(progress->multi->direct);
}

void rg_multi_destroy(struct rg_multi *multi)
{
    if (!multi)
        return;
    /* The data first: who hears GOODBYE expects no more. */
    rg_direct_destroy(multi->direct, RG_CLOSE_MS);
    if (multi->order)
        rg_order_destroy(multi->order, RG_CLOSE_MS);
    free(multi->adopted);
    free(multi);
}
