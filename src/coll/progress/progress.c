/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/progress/progress.h"

#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <utlist.h>

#include "base/time.h"
#include "coll/api/sets.h"
#include "coll/observe/stall.h"
#include "coll/observe/timeline.h"

#define SPIN_DEFAULT_NS 50000
#define RECORDS_MIN 16
#define EXEC_CLOSE_MS 1000

static size_t exec_offset(int node_size)
{
    return (rg_view_nbytes(node_size) + 4095) & ~(size_t) 4095;
}

size_t rg_progress_nbytes(int node_size)
{
    return exec_offset(node_size) + rg_exec_region_nbytes(node_size);
}

static void free_progress(struct rg_progress *progress)
{
    if (progress->order)
        rg_order_destroy(progress->order, EXEC_CLOSE_MS);
    rg_exec_destroy(progress->exec, EXEC_CLOSE_MS);
    rg_run_fini(progress);
    rg_multi_fini(progress);
    rg_table_fini(&progress->table);
    rg_handles_fini(&progress->own_handles);
    rg_stall_destroy(progress->stall);
    free(progress->by_entry);
    if (progress->epoll_fd >= 0)
        close(progress->epoll_fd);
    pthread_mutex_destroy(&progress->lock);
    pthread_mutex_destroy(&progress->drive);
    free(progress);
}

static struct rg_progress *new_progress(const struct rg_progress_options *options)
{
    struct rg_progress *progress = calloc(1, sizeof(*progress));
    size_t size = (size_t) options->team->size;

    if (!progress)
        return NULL;
    progress->team = options->team;
    progress->config = options->config;
    progress->boot = options->boot;
    progress->set = options->set;
    progress->process_set = options->process_set;
    progress->world = options->world;
    progress->handles = options->handles ? options->handles : &progress->own_handles;
    progress->epoll_fd = -1;
    rg_handles_init(&progress->own_handles);
    pthread_mutex_init(&progress->lock, NULL);
    pthread_mutex_init(&progress->drive, NULL);
    progress->by_entry = calloc(RG_ENTRIES_MAX, sizeof(*progress->by_entry));
    progress->run.counts = calloc(size, sizeof(size_t));
    progress->run.recv_counts = calloc(size, sizeof(size_t));
    if (!progress->by_entry || !progress->run.counts || !progress->run.recv_counts ||
        rg_stall_create(&progress->stall) < 0) {
        free_progress(progress);
        return NULL;
    }
    progress->spin_ns = options->config->spin_us >= 0 ? options->config->spin_us * 1000
                      : options->team->oversubscribed ? 0
                                                      : SPIN_DEFAULT_NS;
    return progress;
}

static int wire_up(struct rg_progress *progress, const struct rg_progress_options *options,
                   struct rg_error *err)
{
    struct rg_team *team = progress->team;
    char *memory = (char *) team->segment + team->segment_start;
    struct rg_order_events events;
    int r = rg_view_open(&progress->view, memory, team), capacity = options->config->cache_capacity;

    if (r < 0)
        return rg_error_set(err, -r, "the node's shared memory was never prepared");
    progress->table = (struct rg_table){
        .view = &progress->view,
        .capacity = capacity > RECORDS_MIN ? capacity : RECORDS_MIN,
    };
    progress->comm_bells = (struct rg_bells){ .bell = progress->view.comm_bells,
                                            .nmembers = team->node_size,
                                            .me = team->node_rank };
    r = rg_exec_create(team, options->config, memory + exec_offset(team->node_size),
                       &progress->exec, err);
    if (r < 0 || team->nnodes == 1)
        return r;
    progress->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (progress->epoll_fd < 0)
        return rg_error_set(err, errno, "epoll: %s", strerror(errno));
    if (team->node_rank != 0)
        return 0;
    rg_multi_events(progress, &events);
    r = rg_order_create(team, options->config, &events, options->deadline_ns, &progress->order,
                        err);
    /* The ranks of this node are through with their part, and wait for this one from now on. */
    if (r < 0 && rg_view_abort(&progress->view, -r, -1, err->text))
        rg_progress_ring_all(progress, true);
    return r;
}

/* To the core that was asked for; one core in the list is all ranks'. */
static void pin_thread(struct rg_progress *progress)
{
    const struct rg_config *config = progress->config;
    int local = progress->team->local_rank, core, r;
    cpu_set_t cores;

    if (config->naffinity == 0 || (config->naffinity > 1 && local >= config->naffinity))
        return;
    core = config->affinity[config->naffinity > 1 ? local : 0];
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    r = pthread_setaffinity_np(progress->thread, sizeof(cores), &cores);
    if (r != 0)
        rg_report(RG_LOG_WARN, "HOROVOD_THREAD_AFFINITY: the communication thread cannot be bound "
                               "to core %d: %s", core, strerror(r));
}

/* No signal of the user's is to be handled on our thread. */
static int start_thread(struct rg_progress *progress)
{
    sigset_t all, before;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    progress->has_thread = true;
    r = pthread_create(&progress->thread, NULL, rg_progress_thread, progress);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0) {
        progress->has_thread = false;
        return -r;
    }
    pthread_setname_np(progress->thread, "reigen");
    pin_thread(progress);
    return 0;
}

int rg_progress_create(const struct rg_progress_options *options, struct rg_progress **ret_progress,
                     struct rg_error *err)
{
    struct rg_progress *progress = new_progress(options);
    int r;

    if (!progress)
        return rg_error_set(err, ENOMEM, "out of memory");
    r = wire_up(progress, options, err);
    if (r < 0) {
        free_progress(progress);
        return r;
    }
    rg_timeline_attach(progress);
    if (progress->team->rank == 0)
        atomic_store(&progress->view.shared->fusion_nbytes, progress->config->fusion_nbytes);
    if (!options->no_thread) {
        r = start_thread(progress);
        if (r < 0) {
            rg_timeline_detach(progress);
            free_progress(progress);
            return rg_error_set(err, -r, "cannot start the communication thread: %s", strerror(-r));
        }
    }
    *ret_progress = progress;
    return 0;
}

void rg_progress_leave(struct rg_progress *progress)
{
    struct rg_view *view = &progress->view;
    uint32_t nobody = 0;

    atomic_store(&view->rows[view->me].left, RG_LEFT_BEGUN);
    if (view->nnodes == 1) {
        atomic_compare_exchange_strong(&view->shared->closed_by, &nobody,
                                       1 + (uint32_t) progress->team->rank);
        rg_runlog_close(&view->log);
        atomic_fetch_or(&view->shared->attention, RG_ATTENTION_CLOSED);
    }
    rg_progress_ring_all(progress, true);
}

/* Carry out what all ranks still rely on. False when others did not come in time. */
static bool drain(struct rg_progress *progress)
{
    bool drained = false;

    atomic_fetch_add(&progress->nwaiters, 1);
    rg_bell_ring(&progress->team->bells, progress->view.me, true);
    pthread_mutex_lock(&progress->drive);
    for (;;) {
        bool moved = rg_progress_drive(progress);

        drained =
            progress->exec_dead || atomic_load(&progress->view.shared->aborted) ||
            (progress->run.nitems == 0 && rg_runlog_ended(&progress->view.log, progress->position));
        if (drained || rg_now_ns() >= progress->leave_until_ns)
            break;
        if (!moved)
            rg_progress_idle(progress, NULL, 10000);
    }
    pthread_mutex_unlock(&progress->drive);
    atomic_fetch_sub(&progress->nwaiters, 1);
    return drained;
}

static void stop_thread(struct rg_progress *progress)
{
    atomic_store(&progress->stopping, true);
    if (!progress->has_thread)
        return;
    rg_progress_ring(progress, progress->view.me, true);
    pthread_join(progress->thread, NULL);
    progress->has_thread = false;
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
        if (atomic_load(&op->state) == RG_OP_POSTED && op->mode == RG_ENTRY_STREAM)
            atomic_store(&progress->by_entry[op->record->id], NULL);
        if (!rg_op_try(progress, op) && rg_op_claim(op))
            rg_op_finish(progress, op, status, text);
    }
    if (progress->join && rg_op_claim(progress->join))
        rg_op_finish(progress, progress->join, status, text);
    progress->join = NULL;
    while (progress->polled) {
        struct rg_op *op = progress->polled;

        DL_DELETE(progress->polled, op);
        rg_op_unref(op);
    }
}

void rg_progress_hurry(struct rg_progress *progress, bool late)
{
    if (late)
        atomic_store(&progress->abandoned, true);
    rg_progress_ring(progress, progress->view.me, true);
    rg_progress_wake_sleepers(progress);
}

/* Of a process set: threads that wait for its operations see that they have ended. Those of all
 * ranks have left before the progress engine ends. */
static void wait_for_users(struct rg_progress *progress)
{
    while (progress->set && rg_set_users(progress->set) > 0) {
        rg_progress_hurry(progress, rg_now_ns() >= progress->leave_until_ns);
        rg_sleep_ms(1);
    }
}

void rg_progress_destroy(struct rg_progress *progress)
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
    if (progress->leave_until_ns == 0)
        progress->leave_until_ns = rg_now_ns() + RG_LEAVE_TIMEOUT_MS * RG_NS_PER_MS;
    rg_progress_leave(progress);
    drained = drain(progress);
    wait_for_users(progress);
    stop_thread(progress);
    cancel_all(progress);
    rg_notify_flush(progress);
    rg_timeline_detach(progress);
    abandoned = atomic_load(&progress->abandoned);
    free_progress(progress);
    if (drained && !abandoned)
        atomic_store(&row->left, RG_LEFT_DONE);
}

void rg_progress_add_stats(const struct rg_progress *progress, struct reigen_stats *stats)
{
    stats->operations += atomic_load(&progress->noperations);
    stats->bytes += atomic_load(&progress->nbytes);
    stats->wait_ns += atomic_load(&progress->wait_ns);
    stats->busy_ns += atomic_load(&progress->busy_ns);
    stats->cache_hits += atomic_load(&progress->cache_hits);
    stats->fused += atomic_load(&progress->nfused);
}

void rg_progress_after_fork(struct rg_progress *progress)
{
    if (!progress)
        return;
    rg_exec_after_fork(progress->exec);
    if (progress->order)
        rg_order_after_fork(progress->order);
    if (progress->epoll_fd >= 0)
        close(progress->epoll_fd);
}
