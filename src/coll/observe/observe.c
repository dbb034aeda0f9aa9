/* SPDX-License-Identifier: Apache-2.0 */
/* The one observer: what the progress engine's events are to the timeline, to reports of stalls and
 * to the diagnosis. */
#include "coll/observe/observe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/ground/element.h"
#include "coll/negotiate/order.h"
#include "coll/observe/diagnose.h"
#include "coll/observe/stall.h"
#include "coll/observe/stuck.h"
#include "coll/observe/timeline.h"
#include "coll/observe/timeline_json.h"
#include "coll/observe/where.h"

/* ---- the timeline */

struct kind_names {
    const char *negotiate, *operation, *device;
};

static const struct kind_names kinds[REIGEN_REDUCESCATTER + 1] = {
    [REIGEN_ALLREDUCE] = { "NEGOTIATE_ALLREDUCE", "ALLREDUCE", "GPU_ALLREDUCE" },
    [REIGEN_ALLGATHER] = { "NEGOTIATE_ALLGATHER", "ALLGATHER", "GPU_ALLGATHER" },
    [REIGEN_BROADCAST] = { "NEGOTIATE_BROADCAST", "BROADCAST", "GPU_BROADCAST" },
    [REIGEN_JOIN] = { "NEGOTIATE_JOIN", "JOIN", "GPU_JOIN" },
    [REIGEN_KIND_ADASUM] = { "NEGOTIATE_ADASUM", "ADASUM", "GPU_ADASUM" },
    [REIGEN_ALLTOALL] = { "NEGOTIATE_ALLTOALL", "ALLTOALL", "GPU_ALLTOALL" },
    [REIGEN_BARRIER] = { "NEGOTIATE_BARRIER", "BARRIER", "GPU_BARRIER" },
    [REIGEN_REDUCESCATTER] = { "NEGOTIATE_REDUCESCATTER", "REDUCESCATTER", "GPU_REDUCESCATTER" },
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

static void submitted(struct rg_progress *progress, struct rg_op *op)
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

static void queued(struct rg_progress *progress, struct rg_op *op)
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
    event->type = op->element ? op->element->name : "none";
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

static void arrived(struct rg_progress *progress, struct rg_op *op)
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

static void awaited(struct rg_progress *progress)
{
    struct rg_trace_event event = { .generation = rg_timeline_generation() };

    (void) progress;
    if (event.generation)
        push(&event, RG_TRACE_WAIT, NULL, rg_now_ns());
}

static void finished(struct rg_progress *progress, struct rg_op *op)
{
    struct rg_trace_event event = { 0 };

    op->timed_ns = 0;
    if (!address(progress, op->record, &event))
        return;
    event.arg = op->status < 0 ? -1 : 0;
    push(&event, RG_TRACE_END, NULL, rg_now_ns());
}

static void run(struct rg_progress *progress, struct rg_op *const *ops, int n)
{
    uint64_t now = rg_now_ns();

    mark_cycle(now);
    for (int i = 0; i < n; i++) {
        struct rg_trace_event event = { 0 };

        if (ops[i] && ops[i]->timed_ns && address(progress, ops[i]->record, &event))
            begin_operation(progress, ops[i], &event, now);
    }
}

static void activity(struct rg_progress *progress, struct rg_op *const *ops, int n,
                     const char *name)
{
    uint64_t now = rg_now_ns();

    for (int i = 0; i < n; i++) {
        struct rg_trace_event event = { 0 };

        if (ops[i] && ops[i]->timed_ns && address(progress, ops[i]->record, &event))
            push(&event, RG_TRACE_ACTIVITY, name, now);
    }
}

/* The lanes of a run's operations, for when they are gone. */
struct device_about {
    int n;
    struct rg_trace_event events[];
};

static void *on_device(struct rg_progress *progress, struct rg_op *const *ops, int n)
{
    struct device_about *about = malloc(sizeof(*about) + (size_t) n * sizeof(about->events[0]));

    if (!about)
        return NULL;
    about->n = 0;
    for (int i = 0; i < n; i++) {
        struct rg_trace_event event = { 0 };

        if (!ops[i] || !ops[i]->timed_ns || !address(progress, ops[i]->record, &event))
            continue;
        event.what = RG_TRACE_DEVICE;
        event.name = names_of(ops[i])->device;
        about->events[about->n++] = event;
    }
    if (about->n > 0)
        return about;
    free(about);
    return NULL;
}

static void device(struct rg_progress *progress, const void *what, uint64_t begin_ns,
                   uint64_t end_ns)
{
    const struct device_about *about = what;

    (void) progress;
    for (int i = 0; i < about->n; i++) {
        struct rg_trace_event event = about->events[i];

        event.ns = begin_ns;
        event.until_ns = end_ns;
        if (event.generation == rg_timeline_generation())
            rg_timeline_push(&event);
    }
}

static void offered(struct rg_progress *progress, int node, const char *name)
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

/* ---- who waits */

struct observed {
    struct rg_observer base;
    struct rg_stall *stall;
    struct rg_diagnoses diagnoses;
};

static struct observed *observed_of(const struct rg_progress *progress)
{
    return (struct observed *) progress->observer;
}

static void tick(struct rg_progress *progress, uint64_t now_ns, uint64_t longest_ms, bool reporter)
{
    rg_stall_tick(progress, observed_of(progress)->stall, now_ns, longest_ms, reporter);
}

static void glance(struct rg_progress *progress)
{
    rg_stall_glance(progress, observed_of(progress)->stall);
    rg_where_tell(progress);
}

static void answer(struct rg_progress *progress)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;

    rg_stall_answer(progress, observed_of(progress)->stall, &out);
    rg_diagnose_answer(progress, &out);
    rg_order_stall_reply(rg_multi_order(progress), rg_buf_text(&out));
}

static void drive(struct rg_progress *progress)
{
    struct observed *observed = observed_of(progress);

    rg_diagnose_drive(progress, &observed->diagnoses);
    rg_stall_drive(progress, observed->stall);
    if (rg_stall_can_answer(progress, observed->stall))
        answer(progress);
}

static void asked(struct rg_progress *progress)
{
    rg_stall_ask(progress, observed_of(progress)->stall);
}

static void heard(struct rg_progress *progress, int node, const char *text)
{
    struct observed *observed = observed_of(progress);
    const char *mark = strchr(text, RG_DIAGNOSE_MARK);

    if (mark)
        rg_diagnose_heard(progress, &observed->diagnoses, node, mark + 1);
    rg_stall_heard(progress, observed->stall, node, text,
                   mark ? (size_t) (mark - text) : strlen(text));
}

static void detach(struct rg_progress *progress)
{
    struct observed *observed = observed_of(progress);

    rg_timeline_detach(&progress->view);
    rg_stall_destroy(observed->stall);
    free(observed);
}

static const struct rg_observer_ops ops = {
    .submitted = submitted,
    .queued = queued,
    .arrived = arrived,
    .awaited = awaited,
    .finished = finished,
    .run = run,
    .activity = activity,
    .on_device = on_device,
    .device = device,
    .offered = offered,
    .glance = glance,
    .tick = tick,
    .drive = drive,
    .asked = asked,
    .heard = heard,
    .leaving = rg_stuck_leaving,
    .detach = detach,
};

int rg_observe(struct rg_progress *progress, struct rg_observer **ret_observer)
{
    struct observed *observed = calloc(1, sizeof(*observed));
    struct observed *world = progress->world ? observed_of(progress->world) : NULL;

    if (!observed)
        return -ENOMEM;
    if (rg_stall_create(world ? world->stall : NULL, &observed->stall) < 0) {
        free(observed);
        return -ENOMEM;
    }
    observed->base.ops = &ops;
    rg_timeline_attach(&progress->view);
    *ret_observer = &observed->base;
    return 0;
}

int rg_observe_diagnosis(struct rg_progress *progress, uint64_t deadline_ns, char **ret_json)
{
    return rg_diagnose(progress, &observed_of(progress)->diagnoses, deadline_ns, ret_json);
}
