/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits, who drives, who sleeps where.
 *
 * A waiter first looks for itself (inline operations need nobody else), then drives, and sleeps
 * on the rank's bell; so it costs no switch between threads. A waiter that cannot drive sleeps on
 * `events`. The communication thread sleeps on a bell of its own, which is rung when an operation
 * is ready and no user thread drives: a user thread that drives takes that bell's mode away, and
 * gives it back when it leaves; then it looks once more whether something came meanwhile.
 */
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/time.h"
#include "coll/engine/engine.h"

#define SLICE_US 100000            /* longest sleep of a waiter */
#define YIELD_NS 500000            /* stays awake, after spinning, giving the core to others */
#define YIELD_CROWDED_NS 1000000   /* the same when there are more ranks than cores */
#define LOOKS_PER_CLOCK 32
#define FDS_MAX 256

struct idle {
    uint64_t started_ns; /* 0: not idle */
    unsigned looks;
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The scheduler may put two ranks on one core although another one is free or nearly so. Then the
 * one that spins keeps the other from the very thing it waits for; this tells. */
static bool shares_core(const struct rg_engine *engine)
{
    const struct rg_view *view = &engine->view;
    uint32_t cpu = (uint32_t) sched_getcpu() + 1;

    atomic_store_explicit(&view->rows[view->me].cpu, cpu, memory_order_relaxed);
    for (int r = 0; r < view->n; r++) {
        if (r != view->me &&
            atomic_load_explicit(&view->rows[r].cpu, memory_order_relaxed) == cpu)
            return true;
    }
    return false;
}

/* Idle for a moment without sleeping; false when it is time to sleep. */
static bool linger(const struct rg_engine *engine, struct idle *idle)
{
    uint64_t spin = (uint64_t) atomic_load_explicit(&engine->spin_ns, memory_order_relaxed), now;
    uint64_t yield = engine->team->oversubscribed ? YIELD_CROWDED_NS : YIELD_NS;

    if (spin && ++idle->looks % LOOKS_PER_CLOCK != 0) {
        relax();
        return true;
    }
    now = rg_now_ns();
    if (idle->started_ns == 0)
        idle->started_ns = now;
    if (now - idle->started_ns < spin && !shares_core(engine)) {
        relax();
        return true;
    }
    sched_yield();
    return now - idle->started_ns < spin + yield;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_us)
{
    struct timespec ts = { (time_t) (timeout_us / 1000000), (long) (timeout_us % 1000000) * 1000 };

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
}

void rg_engine_wake_sleepers(struct rg_engine *engine)
{
    atomic_fetch_add(&engine->events, 1);
    if (atomic_load(&engine->nsleepers))
        syscall(SYS_futex, &engine->events, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static uint64_t slice_us(uint64_t deadline_ns)
{
    uint64_t now = rg_now_ns(), left;

    if (now >= deadline_ns)
        return 0;
    left = (deadline_ns - now) / 1000 + 1;
    return left < SLICE_US ? left : SLICE_US;
}

/* Several nodes: sockets and the bell's event descriptor together. */
static void doze_in_epoll(struct rg_engine *engine, uint64_t timeout_us)
{
    int fds[FDS_MAX], n = 0, added = 0;
    unsigned events[FDS_MAX];
    struct timespec timeout = { (time_t) (timeout_us / 1000000),
                                (long) (timeout_us % 1000000) * 1000 };
    struct pollfd all = { .fd = engine->epoll_fd, .events = POLLIN };
    int bell = engine->team->bells.event_fd ? engine->team->bells.event_fd[engine->view.me] : -1;
    uint64_t drained;

    if (!engine->exec_dead)
        n = rg_exec_wait_fds(engine->exec, fds, events, FDS_MAX - 1);
    if (engine->order && n >= 0)
        n += rg_order_wait_fds(engine->order, fds + n, events + n, FDS_MAX - 1 - n);
    if (bell >= 0) {
        fds[n] = bell;
        events[n++] = EPOLLIN;
    }
    for (; added < n; added++) {
        struct epoll_event want = { .events = events[added] };

        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fds[added], &want);
    }
    /* epoll_wait would count in milliseconds. */
    ppoll(&all, 1, &timeout, NULL);
    while (added > 0)
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, fds[--added], NULL);
    if (bell >= 0 && read(bell, &drained, sizeof(drained)) < 0)
        return; /* it was not rung */
}

void rg_engine_doze(struct rg_engine *engine, struct rg_op *op, uint64_t timeout_us)
{
    const struct rg_bells *bells = &engine->team->bells;
    bool sockets = engine->epoll_fd >= 0;
    uint32_t seen = rg_bell_prepare(bells, sockets ? RG_BELL_EVENT : RG_BELL_FUTEX);

    if (rg_engine_drive(engine) || (op && rg_op_try(engine, op)) ||
        (!op && (atomic_load(&engine->nwaiters) || atomic_load(&engine->stopping)))) {
        rg_bell_cancel(bells);
        return;
    }
    if (sockets) {
        unsigned us = engine->exec_dead ? 0 : rg_exec_poll_us(engine->exec);

        if (us && us < timeout_us)
            timeout_us = us;
        doze_in_epoll(engine, timeout_us);
        rg_bell_cancel(bells);
    } else {
        rg_bell_commit(bells, seen, timeout_us);
    }
}

static bool take_drive(struct rg_engine *engine)
{
    if (pthread_mutex_trylock(&engine->drive) != 0)
        return false;
    if (engine->has_thread)
        rg_bell_cancel(&engine->comm_bells);
    return true;
}

static void leave_drive(struct rg_engine *engine)
{
    uint64_t position = engine->position;
    bool work = rg_engine_has_work(engine);
    struct rg_run_item item;

    pthread_mutex_unlock(&engine->drive);
    if (atomic_fetch_add(&engine->nsleepers, 0))
        rg_engine_wake_sleepers(engine);
    if (atomic_load(&engine->thread_sleeps)) {
        rg_bell_prepare(&engine->comm_bells, RG_BELL_FUTEX_URGENT);
        if (work || rg_runlog_read(&engine->view.log, position, &item))
            rg_bell_ring(&engine->comm_bells, engine->view.me, true);
    }
}

static bool is_over(uint64_t deadline_ns)
{
    return deadline_ns != RG_NEVER_NS && rg_now_ns() >= deadline_ns;
}

/* As the driver, until op is done, the time is over, or somebody must be told of an end. */
static void drive_for(struct rg_engine *engine, struct rg_op *op, uint64_t deadline_ns)
{
    struct idle idle = { 0, 0 };

    while (!rg_op_try(engine, op)) {
        uint64_t us;

        if (rg_notify_wanted(engine))
            return;
        if (rg_engine_drive(engine)) {
            idle = (struct idle){ 0, 0 };
            continue;
        }
        if (!is_over(deadline_ns) && linger(engine, &idle))
            continue;
        us = slice_us(deadline_ns);
        if (us == 0)
            return;
        rg_engine_doze(engine, op, us);
    }
}

/* Somebody else drives. */
static void sleep_on_events(struct rg_engine *engine, struct rg_op *op, uint64_t deadline_ns)
{
    uint32_t seen = atomic_load(&engine->events);
    uint64_t us = slice_us(deadline_ns);

    atomic_fetch_add(&engine->nsleepers, 1);
    if (!rg_op_done(op))
        rg_op_make_chore(engine, op);
    if (us && !rg_op_try(engine, op)) {
        if (pthread_mutex_trylock(&engine->drive) == 0)
            pthread_mutex_unlock(&engine->drive);
        else
            futex_wait(&engine->events, seen, us);
    }
    atomic_fetch_sub(&engine->nsleepers, 1);
}

/* An inline operation: whoever looks can end it. */
static bool look_for_a_while(struct rg_engine *engine, struct rg_op *op, uint64_t deadline_ns)
{
    struct idle idle = { 0, 0 };

    if (op->mode != RG_ENTRY_INLINE || atomic_load(&op->state) == RG_OP_QUEUED)
        return false;
    do {
        if (rg_op_try(engine, op))
            return true;
    } while (!is_over(deadline_ns) && linger(engine, &idle));
    return false;
}

int rg_engine_wait(struct rg_engine *engine, struct rg_op *op, uint64_t deadline_ns)
{
    uint64_t started;
    int r = 0;

    if (rg_op_try(engine, op)) {
        rg_notify_flush(engine);
        return 0;
    }
    if (deadline_ns == 0) {
        rg_engine_poll(engine);
        return rg_op_try(engine, op) ? 0 : -EAGAIN;
    }
    started = rg_now_ns();
    if (!look_for_a_while(engine, op, deadline_ns)) {
        atomic_fetch_add(&engine->nwaiters, 1);
        while (!rg_op_try(engine, op)) {
            if (slice_us(deadline_ns) == 0) {
                r = -EAGAIN;
                break;
            }
            if (take_drive(engine)) {
                drive_for(engine, op, deadline_ns);
                if (rg_op_done(op))
                    atomic_fetch_sub(&engine->nwaiters, 1), r = 1;
                leave_drive(engine);
                rg_notify_flush(engine);
                if (r == 1)
                    break;
            } else {
                sleep_on_events(engine, op, deadline_ns);
            }
        }
        if (r != 1)
            atomic_fetch_sub(&engine->nwaiters, 1);
    }
    atomic_fetch_add_explicit(&engine->wait_ns, rg_now_ns() - started, memory_order_relaxed);
    rg_notify_flush(engine);
    return r == 1 ? 0 : r;
}

void rg_engine_poll(struct rg_engine *engine)
{
    if (!take_drive(engine))
        return;
    rg_engine_drive(engine);
    leave_drive(engine);
    rg_notify_flush(engine);
}

/* Something may come that nobody on this node rings for: what other leaders decide; or a plane must
 * be looked at now and then. */
static bool must_listen(struct rg_engine *engine)
{
    return !engine->exec_dead && (engine->order || rg_exec_poll_us(engine->exec) > 0);
}

/* The communication thread as the driver, while there is work and no user thread to do it. */
static void serve(struct rg_engine *engine, uint64_t until_ns)
{
    struct idle idle = { 0, 0 };

    while ((rg_engine_has_work(engine) || must_listen(engine)) &&
           !atomic_load(&engine->nwaiters) && !atomic_load(&engine->stopping) &&
           !rg_notify_wanted(engine) && rg_now_ns() < until_ns) {
        if (rg_engine_drive(engine)) {
            idle = (struct idle){ 0, 0 };
            continue;
        }
        if (engine->run.nitems && linger(engine, &idle))
            continue;
        rg_engine_doze(engine, NULL, slice_us(until_ns));
    }
}

void *rg_engine_thread(void *arg)
{
    struct rg_engine *engine = arg;
    uint64_t tick_ns = rg_now_ns() + RG_TICK_MS * RG_NS_PER_MS;

    while (!atomic_load(&engine->stopping)) {
        uint32_t seen;

        if (rg_now_ns() >= tick_ns) {
            rg_watch_tick(engine);
            tick_ns = rg_now_ns() + RG_TICK_MS * RG_NS_PER_MS;
        }
        atomic_store(&engine->thread_sleeps, true);
        seen = rg_bell_prepare(&engine->comm_bells, RG_BELL_FUTEX_URGENT);
        if (!atomic_load(&engine->nwaiters) && pthread_mutex_trylock(&engine->drive) == 0) {
            bool busy = rg_engine_has_work(engine) || must_listen(engine);

            if (busy) {
                rg_bell_cancel(&engine->comm_bells);
                atomic_store(&engine->thread_sleeps, false);
                rg_engine_drive(engine);
                serve(engine, tick_ns);
            } else if (atomic_load(&engine->view.shared->attention)) {
                rg_engine_drive(engine);
            }
            pthread_mutex_unlock(&engine->drive);
            if (atomic_fetch_add(&engine->nsleepers, 0))
                rg_engine_wake_sleepers(engine);
            rg_notify_flush(engine);
            /* Without a bell's mode nobody could wake it. */
            if (busy)
                continue;
        }
        rg_notify_flush(engine);
        if (!atomic_load(&engine->stopping))
            rg_bell_commit(&engine->comm_bells, seen, slice_us(tick_ns));
        atomic_store(&engine->thread_sleeps, false);
    }
    return NULL;
}
