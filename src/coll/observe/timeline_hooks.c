/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the timeline, from operations as they go. */
#include "coll/observe/timeline_hooks.h"

#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "coll/observe/timeline.h"
#include "coll/observe/timeline_json.h"

struct kind_names {
    const char *negotiate, *operation;
};

static const struct kind_names kinds[REIGEN_REDUCESCATTER + 1] = {
    [REIGEN_ALLREDUCE] = { "NEGOTIATE_ALLREDUCE", "ALLREDUCE" },
    [REIGEN_ALLGATHER] = { "NEGOTIATE_ALLGATHER", "ALLGATHER" },
    [REIGEN_BROADCAST] = { "NEGOTIATE_BROADCAST", "BROADCAST" },
    [REIGEN_JOIN] = { "NEGOTIATE_JOIN", "JOIN" },
    [REIGEN_KIND_ADASUM] = { "NEGOTIATE_ADASUM", "ADASUM" },
    [REIGEN_ALLTOALL] = { "NEGOTIATE_ALLTOALL", "ALLTOALL" },
    [REIGEN_BARRIER] = { "NEGOTIATE_BARRIER", "BARRIER" },
    [REIGEN_REDUCESCATTER] = { "NEGOTIATE_REDUCESCATTER", "REDUCESCATTER" },
};

static const struct kind_names *names_of(const struct rg_op *op)
{
    bool adasum = op->kind == REIGEN_ALLREDUCE && op->reduction == REIGEN_ADASUM;

    return &kinds[adasum ? REIGEN_KIND_ADASUM : op->kind];
}

/* The lane of a name in this progress engine's process set. */
static uint32_t find_lane(const struct rg_progress *progress, uint32_t generation, const char *key,
                          bool group)
{
    char name[RG_KEY_MAX + 32], *digest;

    snprintf(name, sizeof(name), "%s", key);
    /* A group's key is "allreduce.first+N:digest" for N more. */
    digest = group ? strrchr(name, ':') : NULL;
    if (digest)
        *digest = '\0';
    if (progress->process_set)
        snprintf(name + strlen(name), 32, " (process set %d)", progress->process_set);
    return rg_timeline_lane(generation, name);
}

/* The event's lane and generation filled in; false when no timeline of this process runs. The
 * record keeps its lane, so that the name is looked up once. */
static bool address(const struct rg_progress *progress, struct rg_record *record,
                    struct rg_trace_event *event)
{
    uint32_t generation = rg_timeline_generation();
    uint64_t known;

    if (generation == 0 || !record)
        return false;
    known = atomic_load_explicit(&record->lane, memory_order_relaxed);
    if (known >> 32 != generation) {
        known = (uint64_t) generation << 32 | find_lane(progress, generation, record->key,
                                                             record->nmembers > 0);
        atomic_store_explicit(&record->lane, known, memory_order_relaxed);
    }
    event->generation = generation;
    event->lane = (uint32_t) known;
    return event->lane != 0;
}

static void push(struct rg_trace_event *event, enum rg_trace_what what, const char *name,
                 uint64_t ns)
{
    event->what = (uint8_t) what;
    event->name = name;
    event->ns = ns;
    rg_timeline_push(event);
}

/* When a rank of the node has announced this epoch; 0: it has not, or nobody knows. */
static uint64_t time_of(const struct rg_view *view, const struct rg_op *op, int r)
{
    const struct rg_epochs *place = rg_view_place(view, r, op->record->id);

    if (atomic_load(&place->posted) < op->epoch)
        return 0;
    return atomic_load_explicit(&place->posted_ns[op->epoch & 1], memory_order_relaxed);
}

void rg_timeline_submitted(struct rg_progress *progress, struct rg_op *op)
{
    const struct rg_view *view = &progress->view;
    struct rg_trace_event event = { 0 };
    uint64_t now = rg_now_ns(), first = now;

    atomic_store_explicit(&op->record->place->posted_ns[op->epoch & 1], now, memory_order_relaxed);
    if (!address(progress, op->record, &event))
        return;
    op->timed_ns = now;
    /* As Horovod does it: the negotiation begins with the first rank that comes. */
    for (int r = 0; r < view->n; r++) {
        uint64_t ns = time_of(view, op, r);

        first = ns && ns < first ? ns : first;
    }
    push(&event, RG_TRACE_NEGOTIATE, names_of(op)->negotiate, first);
}

void rg_timeline_queued(struct rg_progress *progress, struct rg_op *op)
{
    struct rg_trace_event event = { 0 };

    if (address(progress, op->record, &event))
        push(&event, RG_TRACE_NEGOTIATE, "WAIT_FOR_DATA", rg_now_ns());
}

/* The ranks' instants, and when the last came. Times of an earlier use of the name are left out: a
 * rank that had no timeline to serve then. */
static uint64_t put_ranks(const struct rg_progress *progress, const struct rg_op *op,
                          struct rg_trace_event *event, uint64_t now)
{
    const struct rg_view *view = &progress->view;
    uint64_t last = op->timed_ns;

    for (int r = 0; r < view->n; r++) {
        uint64_t ns = time_of(view, op, r);

        if (ns == 0 || ns > now)
            continue;
        event->arg = rg_team_world_rank(progress->team, view->ranks[r]);
        push(event, RG_TRACE_RANK, NULL, ns);
        last = ns > last ? ns : last;
    }
    event->arg = 0;
    return view->nnodes == 1 ? last : now;
}

static void begin_operation(struct rg_progress *progress, const struct rg_op *op,
                            struct rg_trace_event *event, uint64_t now)
{
    uint64_t last = put_ranks(progress, op, event, now);

    event->nbytes = op->nbytes;
    event->ntensors = op->n > UINT16_MAX ? UINT16_MAX : (uint16_t) op->n;
    event->dtype = op->dtype;
    push(event, RG_TRACE_OPERATION, names_of(op)->operation, last);
    if (now > last)
        push(event, RG_TRACE_ACTIVITY, "QUEUE", last);
}

static void mark_cycle(uint64_t now)
{
    struct rg_trace_event event = { .generation = rg_timeline_generation() };

    if (event.generation && rg_timeline_marks_cycles())
        push(&event, RG_TRACE_CYCLE, NULL, now);
}

void rg_timeline_arrived(struct rg_progress *progress, struct rg_op *op)
{
    static const char *const activities[REIGEN_REDUCESCATTER + 1] = {
        [REIGEN_ALLREDUCE] = "REIGEN_INLINE_ALLREDUCE",
        [REIGEN_BROADCAST] = "REIGEN_INLINE_BROADCAST",
    };
    struct rg_trace_event event = { 0 };
    uint64_t now = rg_now_ns();

    if (!address(progress, op->record, &event))
        return;
    mark_cycle(now);
    begin_operation(progress, op, &event, now);
    if (activities[op->kind])
        push(&event, RG_TRACE_ACTIVITY, activities[op->kind], now);
}

void rg_timeline_finished(struct rg_progress *progress, struct rg_op *op)
{
    struct rg_trace_event event = { 0 };

    op->timed_ns = 0;
    if (!address(progress, op->record, &event))
        return;
    event.arg = op->status < 0 ? -1 : 0;
    push(&event, RG_TRACE_END, NULL, rg_now_ns());
}

void rg_timeline_run(struct rg_progress *progress, struct rg_op *const *ops, int n)
{
    uint64_t now = rg_now_ns();

    mark_cycle(now);
    for (int i = 0; i < n; i++) {
        struct rg_trace_event event = { 0 };

        if (ops[i] && ops[i]->timed_ns && address(progress, ops[i]->record, &event))
            begin_operation(progress, ops[i], &event, now);
    }
}

void rg_timeline_activity(struct rg_progress *progress, struct rg_op *const *ops, int n,
                          const char *name)
{
    uint64_t now = rg_now_ns();

    for (int i = 0; i < n; i++) {
        struct rg_trace_event event = { 0 };

        if (ops[i] && ops[i]->timed_ns && address(progress, ops[i]->record, &event))
            push(&event, RG_TRACE_ACTIVITY, name, now);
    }
}

void rg_timeline_offered(struct rg_progress *progress, int node, const char *name)
{
    const struct rg_team *team = progress->team;
    struct rg_trace_event event = { .generation = rg_timeline_generation() };
    uint64_t now = rg_now_ns();

    if (event.generation == 0 || node == team->node)
        return;
    event.lane = find_lane(progress, event.generation, name, strchr(name, '+') != NULL);
    for (int rank = 0; event.lane && rank < team->size; rank++) {
        if (team->peers[rank].node != node)
            continue;
        event.arg = rg_team_world_rank(team, rank);
        push(&event, RG_TRACE_RANK, NULL, now);
    }
}
