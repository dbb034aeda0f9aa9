/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/engine/engine.h"

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

size_t rg_engine_nbytes(int node_size)
{
    return exec_offset(node_size) + rg_exec_region_nbytes(node_size);
}

static void free_engine(struct rg_engine *engine)
{
    if (engine->order)
        rg_order_destroy(engine->order, EXEC_CLOSE_MS);
    rg_exec_destroy(engine->exec, EXEC_CLOSE_MS);
    rg_run_fini(engine);
    rg_multi_fini(engine);
    rg_autotune_destroy(engine->autotune);
    rg_registry_fini(&engine->registry);
    rg_handles_fini(&engine->own_handles);
    rg_stall_destroy(engine->stall);
    free(engine->by_entry);
    if (engine->epoll_fd >= 0)
        close(engine->epoll_fd);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->drive);
    free(engine);
}

static struct rg_engine *new_engine(const struct rg_engine_options *options)
{
    struct rg_engine *engine = calloc(1, sizeof(*engine));
    size_t size = (size_t) options->team->size;

    if (!engine)
        return NULL;
    engine->team = options->team;
    engine->config = options->config;
    engine->boot = options->boot;
    engine->set = options->set;
    engine->process_set = options->process_set;
    engine->world = options->world;
    engine->handles = options->handles ? options->handles : &engine->own_handles;
    engine->epoll_fd = -1;
    rg_handles_init(&engine->own_handles);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->drive, NULL);
    engine->by_entry = calloc(RG_ENTRIES_MAX, sizeof(*engine->by_entry));
    engine->run.counts = calloc(size, sizeof(size_t));
    engine->run.recv_counts = calloc(size, sizeof(size_t));
    if (!engine->by_entry || !engine->run.counts || !engine->run.recv_counts ||
        rg_stall_create(&engine->stall) < 0) {
        free_engine(engine);
        return NULL;
    }
    engine->spin_ns = options->config->spin_us >= 0 ? options->config->spin_us * 1000
                      : options->team->oversubscribed ? 0
                                                      : SPIN_DEFAULT_NS;
    engine->own_spin_ns = engine->spin_ns;
    engine->tuning.fusion_nbytes = RG_TUNING_FUSION_DEFAULT;
    return engine;
}

static int wire_up(struct rg_engine *engine, const struct rg_engine_options *options,
                   struct rg_error *err)
{
    struct rg_team *team = engine->team;
    char *memory = (char *) team->segment + team->segment_start;
    struct rg_order_events events;
    int r = rg_view_open(&engine->view, memory, team), capacity = options->config->cache_capacity;

    if (r < 0)
        return rg_error_set(err, -r, "the node's shared memory was never prepared");
    engine->registry = (struct rg_registry){
        .view = &engine->view,
        .capacity = capacity > RECORDS_MIN ? capacity : RECORDS_MIN,
    };
    engine->comm_bells = (struct rg_bells){ .bell = engine->view.comm_bells,
                                            .nmembers = team->node_size,
                                            .me = team->node_rank };
    r = rg_exec_create(team, options->config, memory + exec_offset(team->node_size), &engine->exec,
                       err);
    if (r < 0 || team->nnodes == 1)
        return r;
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (engine->epoll_fd < 0)
        return rg_error_set(err, errno, "epoll: %s", strerror(errno));
    if (team->node_rank != 0)
        return 0;
    rg_multi_events(engine, &events);
    r = rg_order_create(team, options->config, &events, options->deadline_ns, &engine->order, err);
    /* The ranks of this node are through with their part, and wait for this one from now on. */
    if (r < 0 && rg_view_abort(&engine->view, -r, -1, err->text))
        rg_engine_ring_all(engine, true);
    return r;
}

/* To the core that was asked for; one core in the list is all ranks'. */
static void pin_thread(struct rg_engine *engine)
{
    const struct rg_config *config = engine->config;
    int local = engine->team->local_rank, core, r;
    cpu_set_t cores;

    if (config->naffinity == 0 || (config->naffinity > 1 && local >= config->naffinity))
        return;
    core = config->affinity[config->naffinity > 1 ? local : 0];
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    r = pthread_setaffinity_np(engine->thread, sizeof(cores), &cores);
    if (r != 0)
        rg_report(RG_LOG_WARN, "HOROVOD_THREAD_AFFINITY: the communication thread cannot be bound "
                               "to core %d: %s", core, strerror(r));
}

/* No signal of the user's is to be handled on our thread. */
static int start_thread(struct rg_engine *engine)
{
    sigset_t all, before;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    engine->has_thread = true;
    r = pthread_create(&engine->thread, NULL, rg_engine_thread, engine);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0) {
        engine->has_thread = false;
        return -r;
    }
    pthread_setname_np(engine->thread, "reigen");
    pin_thread(engine);
    return 0;
}

int rg_engine_create(const struct rg_engine_options *options, struct rg_engine **ret_engine,
                     struct rg_error *err)
{
    struct rg_engine *engine = new_engine(options);
    int r;

    if (!engine)
        return rg_error_set(err, ENOMEM, "out of memory");
    r = wire_up(engine, options, err);
    if (r < 0) {
        free_engine(engine);
        return r;
    }
    rg_timeline_attach(engine);
    rg_tune_start(engine);
    if (!options->no_thread) {
        r = start_thread(engine);
        if (r < 0) {
            rg_timeline_detach(engine);
            free_engine(engine);
            return rg_error_set(err, -r, "cannot start the communication thread: %s", strerror(-r));
        }
    }
    *ret_engine = engine;
    return 0;
}

void rg_engine_leave(struct rg_engine *engine)
{
    struct rg_view *view = &engine->view;
    uint32_t nobody = 0;

    atomic_store(&view->rows[view->me].left, RG_LEFT_BEGUN);
    if (view->nnodes == 1) {
        atomic_compare_exchange_strong(&view->shared->closed_by, &nobody,
                                       1 + (uint32_t) engine->team->rank);
        rg_runlog_close(&view->log);
        atomic_fetch_or(&view->shared->attention, RG_ATTENTION_CLOSED);
    }
    rg_engine_ring_all(engine, true);
}

/* Carry out what all ranks still rely on. False when others did not come in time. */
static bool drain(struct rg_engine *engine)
{
    bool drained = false;

    atomic_fetch_add(&engine->nwaiters, 1);
    rg_bell_ring(&engine->team->bells, engine->view.me, true);
    pthread_mutex_lock(&engine->drive);
    for (;;) {
        bool moved = rg_engine_drive(engine);

        drained = engine->exec_dead || atomic_load(&engine->view.shared->aborted) ||
                  (engine->run.nitems == 0 && rg_runlog_ended(&engine->view.log, engine->position));
        if (drained || rg_now_ns() >= engine->leave_until_ns)
            break;
        if (!moved)
            rg_engine_doze(engine, NULL, 10000);
    }
    pthread_mutex_unlock(&engine->drive);
    atomic_fetch_sub(&engine->nwaiters, 1);
    return drained;
}

static void stop_thread(struct rg_engine *engine)
{
    atomic_store(&engine->stopping, true);
    if (!engine->has_thread)
        return;
    rg_engine_ring(engine, engine->view.me, true);
    pthread_join(engine->thread, NULL);
    engine->has_thread = false;
}

/* Nothing is in flight afterwards: inline operations that have arrived end well, the rest is
 * cancelled. */
static void cancel_all(struct rg_engine *engine)
{
    struct rg_record *record, *next;
    const char *text = NULL;
    int status = rg_engine_doom(engine, &text);

    HASH_ITER(hh, engine->registry.records, record, next)
    {
        struct rg_op *op = atomic_load(&record->op);

        if (!op)
            continue;
        if (atomic_load(&op->state) == RG_OP_POSTED && op->mode == RG_ENTRY_STREAM)
            atomic_store(&engine->by_entry[op->record->id], NULL);
        if (!rg_op_try(engine, op) && rg_op_claim(op))
            rg_op_finish(engine, op, status, text);
    }
    if (engine->join && rg_op_claim(engine->join))
        rg_op_finish(engine, engine->join, status, text);
    engine->join = NULL;
    while (engine->chores) {
        struct rg_op *op = engine->chores;

        DL_DELETE(engine->chores, op);
        rg_op_unref(op);
    }
}

void rg_engine_hurry(struct rg_engine *engine, bool late)
{
    if (late)
        atomic_store(&engine->abandoned, true);
    rg_engine_ring(engine, engine->view.me, true);
    rg_engine_wake_sleepers(engine);
}

/* Of a process set: threads that wait for its operations see that they have ended. Those of all
 * ranks have left before the engine ends. */
static void wait_for_users(struct rg_engine *engine)
{
    while (engine->set && rg_set_users(engine->set) > 0) {
        rg_engine_hurry(engine, rg_now_ns() >= engine->leave_until_ns);
        rg_sleep_ms(1);
    }
}

void rg_engine_destroy(struct rg_engine *engine)
{
    struct rg_row *row;
    bool drained, abandoned;

    if (!engine)
        return;
    row = &engine->view.rows[engine->view.me];
    if (engine->world) {
        rg_watch_follow(engine);
        atomic_store(&engine->leaving, true);
    }
    if (engine->leave_until_ns == 0)
        engine->leave_until_ns = rg_now_ns() + RG_LEAVE_TIMEOUT_MS * RG_NS_PER_MS;
    rg_engine_leave(engine);
    drained = drain(engine);
    wait_for_users(engine);
    stop_thread(engine);
    cancel_all(engine);
    rg_notify_flush(engine);
    rg_timeline_detach(engine);
    abandoned = atomic_load(&engine->abandoned);
    free_engine(engine);
    if (drained && !abandoned)
        atomic_store(&row->left, RG_LEFT_DONE);
}

void rg_engine_add_stats(const struct rg_engine *engine, struct reigen_stats *stats)
{
    stats->operations += atomic_load(&engine->noperations);
    stats->bytes += atomic_load(&engine->nbytes);
    stats->wait_ns += atomic_load(&engine->wait_ns);
    stats->busy_ns += atomic_load(&engine->busy_ns);
    stats->cache_hits += atomic_load(&engine->cache_hits);
    stats->fused += atomic_load(&engine->nfused);
}

void rg_engine_after_fork(struct rg_engine *engine)
{
    if (!engine)
        return;
    rg_exec_after_fork(engine->exec);
    if (engine->order)
        rg_order_after_fork(engine->order);
    if (engine->epoll_fd >= 0)
        close(engine->epoll_fd);
}
