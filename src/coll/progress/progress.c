/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a progress engine. */
#include "coll/progress/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/boot/boot.h"
#include "coll/exec/exec.h"
#include "coll/gpu/gpu.h"
#include "coll/ground/config.h"
#include "coll/progress/run.h"
#include "coll/progress/life/watch.h"

#define RECORDS_MIN 16
#define LEAVING_NS (4 * RG_NS_PER_S) /* for which shutdown waits without a word */
#define STOOD_NS RG_NS_PER_S /* between two looks at whether it is late: we did not run */

static size_t exec_offset(int node_size)
{
    return (rg_view_nbytes(node_size) + 4095) & ~(size_t) 4095;
}

size_t rg_progress_nbytes(const void *arg, int node_size)
{
    const struct rg_plane_choice *planes = arg;

    return exec_offset(node_size) + rg_planes_region_nbytes(planes->table, node_size);
}

int rg_progress_team(struct rg_boot *boot, const struct rg_config *config,
                     const struct rg_plane_choice *planes, uint64_t deadline_ns,
                     struct rg_team **ret_team, struct rg_error *err)
{
    const struct rg_boot_identity *identity = rg_boot_identity(boot);
    rg_autobuf struct rg_buf offer = RG_BUF_INIT;
    struct rg_team_needs needs = { .segment_nbytes = rg_progress_nbytes, .arg = planes,
                                   .shares_memory = rg_planes_serve_nodes(planes) };
    struct rg_error why = RG_ERROR_INIT;

    if (rg_planes_offer(planes, config, identity->rank, identity->size, &offer, &why) < 0)
        needs.failed = &why;
    needs.offer = rg_buf_bytes(&offer);
    needs.offer_nbytes = rg_buf_nbytes(&offer);
    return rg_team_create(boot, config, &needs, deadline_ns, ret_team, err);
}

static void free_progress(struct rg_progress *progress)
{
    rg_multi_destroy(progress->multi);
    rg_exec_destroy(progress->exec, RG_CLOSE_MS);
    rg_run_look_last(progress);
    if (progress->observer)
        progress->observer->ops->detach(progress);
    rg_run_destroy(progress->run);
    rg_waits_destroy(progress->waits);
    rg_waiting_destroy(progress->waiting);
    rg_table_fini(&progress->table);
    free(progress->by_entry);
    pthread_mutex_destroy(&progress->lock);
    pthread_mutex_destroy(&progress->drive);
    free(progress);
}

static struct rg_progress *new_progress(const struct rg_progress_options *options)
{
    struct rg_progress *progress = calloc(1, sizeof(*progress));

    if (!progress)
        return NULL;
    progress->team = options->team;
    progress->config = options->config;
    progress->boot = options->boot;
    progress->process_set = options->process_set;
    progress->world = options->world;
    progress->handles = options->handles;
    pthread_mutex_init(&progress->lock, NULL);
    pthread_mutex_init(&progress->drive, NULL);
    progress->wake.bells = &options->team->bells;
    progress->polled.lock = progress->notify.lock = &progress->lock;
    progress->polled.wake = &progress->wake;
    progress->by_entry = calloc(RG_ENTRIES_MAX, sizeof(*progress->by_entry));
    if (!progress->by_entry || rg_run_create(options->team->size, &progress->run) < 0 ||
        rg_waits_create(options->team->node_size, &progress->waits) < 0) {
        free_progress(progress);
        return NULL;
    }
    return progress;
}

static int wire_up(struct rg_progress *progress, const struct rg_progress_options *options,
                   struct rg_error *err)
{
    struct rg_team *team = progress->team;
    char *memory = (char *) team->segment + team->segment_start;
    struct rg_planes_options exec = { .team = team, .config = options->config,
                                      .planes = options->planes,
                                      .region = memory + exec_offset(team->node_size),
                                      .shortcut = &rg_inline_shortcut };
    int r = rg_view_open(&progress->view, memory, team), capacity = options->config->cache_capacity;

    if (r < 0)
        return rg_error_set(err, -r, "the node's shared memory was never prepared");
    progress->table = (struct rg_table){
        .view = &progress->view,
        .capacity = capacity > RECORDS_MIN ? capacity : RECORDS_MIN,
        .choose = rg_inline_choose,
        .arg = progress,
    };
    progress->wake.thread_bells = (struct rg_bells){ .bell = progress->view.comm_bells,
                                            .nmembers = team->node_size,
                                            .me = team->node_rank };
    r = rg_exec_create(&exec, &progress->exec, err);
    if (r == 0)
        r = rg_waiting_create(progress, err);
    if (r < 0 || team->nnodes == 1 || team->node_rank != 0)
        return r;
    r = rg_multi_create(progress, options->deadline_ns, err);
    /* The ranks of this node are through with their part, and wait for this one from now on. */
    if (r < 0 && rg_view_abort(&progress->view, -r, -1, err->text))
        rg_wake_ring_all(&progress->wake, true);
    return r;
}

int rg_progress_create(const struct rg_progress_options *options, struct rg_progress **ret_progress,
                     struct rg_error *err)
{
    struct rg_progress *progress = new_progress(options);
    int r;

    if (!progress)
        return rg_error_set(err, ENOMEM, "out of memory");
    r = wire_up(progress, options, err);
    if (r == 0 && progress->team->rank == 0)
        atomic_store(&progress->view.shared->fusion_nbytes, progress->config->fusion_nbytes);
    if (r == 0 && options->observe && options->observe(progress, &progress->observer) < 0)
        r = rg_error_set(err, ENOMEM, "out of memory");
    if (r == 0 && (r = rg_waiting_start(progress)) < 0)
        rg_error_set(err, -r, "cannot start the communication thread: %s", strerror(-r));
    if (r < 0) {
        free_progress(progress);
        return r;
    }
    *ret_progress = progress;
    return 0;
}

void rg_progress_leave(struct rg_progress *progress)
{
    struct rg_view *view = &progress->view;
    struct rg_error err = RG_ERROR_INIT;
    uint32_t nobody = 0;

    /* Perhaps nobody has looked since it broke, and streams of others stand in what has begun. */
    if (rg_gpu_is_lost(&err))
        rg_progress_abort(progress, EIO, err.text);
    atomic_store(&view->rows[view->me].left, RG_LEFT_BEGUN);
    if (view->nnodes == 1) {
        atomic_compare_exchange_strong(&view->shared->closed_by, &nobody,
                                       1 + (uint32_t) progress->team->rank);
        rg_runlog_close(&view->log);
        atomic_fetch_or(&view->shared->attention, RG_ATTENTION_CLOSED);
    }
    rg_wake_ring_all(&progress->wake, true);
}

static uint64_t leave_ns(const struct rg_config *config)
{
    uint64_t ms = config->silence_ms > RG_LEAVE_MIN_MS ? config->silence_ms : RG_LEAVE_MIN_MS;

    return ms * RG_NS_PER_MS;
}

uint64_t rg_progress_leave_until(const struct rg_config *config)
{
    return rg_now_ns() + leave_ns(config);
}

bool rg_progress_is_late(struct rg_progress *progress, uint64_t until_ns)
{
    struct rg_progress *world = progress->world ? progress->world : progress;
    uint64_t now_ns = rg_now_ns();

    if (now_ns > atomic_exchange(&world->counters.asked_ns, now_ns) + STOOD_NS)
        atomic_store(&world->counters.moved_ns, now_ns);
    return now_ns >= until_ns &&
           now_ns >= atomic_load(&world->counters.moved_ns) + leave_ns(progress->config);
}

/* Who leaves waits for long. Told at *told_ns; 0: it was. */
static void tell_leaving(struct rg_progress *progress, uint64_t began_ns, uint64_t *told_ns)
{
    uint64_t now_ns = rg_now_ns();

    if (*told_ns == 0 || now_ns < *told_ns || !progress->observer || !progress->multi)
        return;
    *told_ns = progress->observer->ops->leaving(progress, now_ns - began_ns) ? 0
                                                                             : now_ns + RG_NS_PER_S;
}

/* Carry out what all ranks still rely on. False when others did not come in time. */
static bool drain(struct rg_progress *progress, uint64_t until_ns)
{
    bool drained = false;
    uint64_t began_ns = rg_now_ns(), told_ns = began_ns + LEAVING_NS;

    atomic_fetch_add(&progress->wake.nwaiters, 1);
    rg_bell_ring(progress->wake.bells, progress->view.me, true);
    pthread_mutex_lock(&progress->drive);
    /* It was there for the communication thread to let go; rg_progress_idle would not sleep. */
    atomic_fetch_sub(&progress->wake.nwaiters, 1);
    for (;;) {
        bool moved = rg_progress_drive(progress);

        drained =
            progress->exec_dead || atomic_load(&progress->view.shared->aborted) ||
            (progress->run->nitems == 0 &&
             rg_runlog_ended(&progress->view.log, progress->position));
        if (drained || rg_progress_is_late(progress, until_ns))
            break;
        tell_leaving(progress, began_ns, &told_ns);
        if (!moved)
            rg_progress_idle(progress, 10000);
    }
    pthread_mutex_unlock(&progress->drive);
    return drained;
}

/* Nothing is in flight afterwards: inline operations that have arrived end well, the rest is
 * cancelled. */
static void cancel_all(struct rg_progress *progress)
{
    struct rg_record *record, *next;
    const char *text = NULL;
    int status = rg_progress_abort_cause(progress, &text);

    HASH_ITER(hh, progress->table.records, record, next)
    {
        struct rg_op *op = atomic_load(&record->op);

        if (!op)
            continue;
        if (atomic_load(&op->state) == RG_OP_POSTED && op->mode != RG_ENTRY_INLINE)
            atomic_store(&progress->by_entry[op->record->id], NULL);
        if (!rg_op_try(progress, op) && rg_op_claim(op))
            rg_op_finish(progress, op, status, text);
    }
    rg_line_end(progress, status, text);
    rg_join_end(progress, status, text);
    rg_polled_clear(&progress->polled);
}

void rg_progress_hurry(struct rg_progress *progress, bool late)
{
    if (late)
        atomic_store(&progress->abandoned, true);
    rg_wake_ring(&progress->wake, progress->view.me, true);
    rg_wake_sleepers(&progress->wake);
}

/* Of a process set: threads that wait for its operations see that they have ended. Those of all
 * ranks have left before the progress engine ends. */
static void wait_for_users(struct rg_progress *progress, uint64_t until_ns,
                           const _Atomic int *users)
{
    while (users && atomic_load(users) > 0) {
        rg_progress_hurry(progress, rg_progress_is_late(progress, until_ns));
        rg_sleep_ms(1);
    }
}

void rg_progress_destroy(struct rg_progress *progress, uint64_t until_ns, const _Atomic int *users)
{
    struct rg_row *row;
    bool drained, abandoned;

    if (!progress)
        return;
    row = &progress->view.rows[progress->view.me];
    if (progress->world) {
        rg_watch_follow(progress);
        atomic_store(&progress->leaving, true);
    }
    if (until_ns == 0)
        until_ns = rg_progress_leave_until(progress->config);
    rg_progress_leave(progress);
    drained = drain(progress, until_ns);
    wait_for_users(progress, until_ns, users);
    atomic_store(&progress->stopping, true);
    rg_waiting_stop(progress);
    rg_multi_stop(progress, true);
    cancel_all(progress);
    rg_notify_flush(&progress->notify);
    abandoned = atomic_load(&progress->abandoned);
    free_progress(progress);
    if (drained && !abandoned)
        atomic_store(&row->left, RG_LEFT_DONE);
}

void rg_progress_add_stats(const struct rg_progress *progress, struct reigen_stats *stats)
{
    stats->operations += atomic_load(&progress->counters.noperations);
    stats->bytes += atomic_load(&progress->counters.nbytes);
    stats->wait_ns += atomic_load(&progress->counters.wait_ns);
    stats->busy_ns += atomic_load(&progress->counters.busy_ns);
    stats->cache_hits += atomic_load(&progress->counters.cache_hits);
    stats->fused += atomic_load(&progress->counters.nfused);
}

void rg_progress_after_fork(struct rg_progress *progress)
{
    if (!progress)
        return;
    rg_exec_after_fork(progress->exec);
    rg_multi_after_fork(progress);
}
