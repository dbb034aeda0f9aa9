/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait, threads that drive, and the communication thread. */
#include "coll/progress/wait.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "coll/ground/config.h"
#include "coll/ground/report.h"
#include "coll/ground/rest.h"
#include "coll/net/listener.h"
#include "coll/progress/life/inline.h"
#include "coll/progress/multi.h"
#include "coll/progress/numbers.h"
#include "coll/progress/run.h"
#include "coll/progress/waits.h"
#include "coll/progress/life/watch.h"

#define SPIN_DEFAULT_NS 50000
#define TICK_MS 200             /* how often the communication thread looks around */
#define SLICE_US 100000            /* longest sleep of a waiter */
#define YIELD_NS 500000            /* stays awake, after spinning, giving the core to others */
#define YIELD_CROWDED_NS 1000000   /* the same when there are more ranks than cores */
#define LOOKS_PER_CLOCK 32
#define FDS_PER_RANK 3 /* the control connection, and what carries data, in two groups */
/* Of an operation of the tcp plane, in two groups: the further sockets that it dials towards the
 * member it sends to, and towards the one it receives from. */
#define FDS_DIALLED (2 * 2 * RG_SOCKETS_PER_PAIR_MAX)
/* The listener's, for each of those who may wait for it (two groups, and direct operations), as
 * strangers are not to crowd out the ranks; and a few more. */
#define FDS_BESIDES (3 * RG_LISTENER_WAIT_FDS_MAX + FDS_DIALLED + 16)
/* A yield that takes so long has let somebody compute. Beside the communication thread the users'
 * threads do. Beside a waiter, where there are more ranks than cores, there are mostly ranks that
 * wait as well, and to send and receive what they have takes the kernel some 0.1 ms; those who
 * compute keep the core for a slice of time, which is most often more than a millisecond. */
#define YIELDED_THREAD_NS 100000
#define YIELDED_WAITER_NS 1000000
#define CROWDED_MIN_NS (10 * RG_NS_PER_MS)
#define CROWDED_MAX_NS (640 * RG_NS_PER_MS)

/* Whether the cores are others' to compute on: then a waiter sleeps at once. While the
 * communication thread works users' threads compute, and while they wait they do not, so each kind
 * finds out for itself. */
struct crowd {
    uint64_t yielded_ns; /* a yield that takes so long shows that others compute */
    _Atomic uint64_t until_ns, for_ns;
};

struct rg_waiting {
    pthread_t thread;             /* the communication thread */
    bool has_thread;
    _Atomic bool thread_sleeps;
    int spin_ns;                  /* how long a waiter stays awake */
    struct crowd of_thread, of_waiters;
    /* Several nodes: what a driver sleeps on; owned, of the driver. */
    int max_fds, *fds;            /* 0, NULL: one node */
    unsigned *events;
    struct pollfd *polls;
};

struct idle {
    uint64_t started_ns; /* 0: not idle */
    unsigned looks;
    struct rg_blame *blame; /* what it idles for; NULL: the communication thread */
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
static bool shares_core(const struct rg_progress *progress)
{
    const struct rg_view *view = &progress->view;
    uint32_t cpu = (uint32_t) sched_getcpu() + 1;

    atomic_store_explicit(&view->rows[view->me].cpu, cpu, memory_order_relaxed);
    for (int r = 0; r < view->n; r++) {
        if (r != view->me &&
            atomic_load_explicit(&view->rows[r].cpu, memory_order_relaxed) == cpu)
            return true;
    }
    return false;
}

/* Give the core to others. False when they were at it for long: whoever yields then stands behind
 * those who compute when its data come, and may lose a whole slice of time; whoever sleeps is put
 * before them. After a while it is tried again, as they may have ended. */
static bool yield_to_others(struct crowd *crowd, uint64_t now_ns)
{
    uint64_t for_ns = atomic_load_explicit(&crowd->for_ns, memory_order_relaxed), after_ns;

    sched_yield();
    after_ns = rg_now_ns();
    if (after_ns - now_ns < crowd->yielded_ns) {
        /* What is in between may be the rest of a slice, and takes nothing back. */
        if (for_ns && after_ns - now_ns < YIELDED_THREAD_NS)
            atomic_store_explicit(&crowd->for_ns, 0, memory_order_relaxed);
        return true;
    }
    for_ns = for_ns ? 2 * for_ns : CROWDED_MIN_NS;
    for_ns = for_ns < CROWDED_MAX_NS ? for_ns : CROWDED_MAX_NS;
    atomic_store_explicit(&crowd->for_ns, for_ns, memory_order_relaxed);
    atomic_store_explicit(&crowd->until_ns, after_ns + for_ns, memory_order_relaxed);
    return false;
}

/* Idle for a moment without sleeping; false when it is time to sleep. */
static bool linger(struct rg_progress *progress, struct crowd *crowd, struct idle *idle)
{
    uint64_t spin = (uint64_t) progress->waiting->spin_ns, now;
    uint64_t yield = progress->team->oversubscribed ? YIELD_CROWDED_NS : YIELD_NS;

    if (spin && ++idle->looks % LOOKS_PER_CLOCK != 0) {
        relax();
        return true;
    }
    now = rg_now_ns();
    if (idle->started_ns == 0)
        idle->started_ns = now;
    if (idle->blame)
        rg_blame_look(progress, idle->blame, now);
    if (now < atomic_load_explicit(&crowd->until_ns, memory_order_relaxed))
        return false;
    if (now - idle->started_ns < spin && !shares_core(progress)) {
        relax();
        return true;
    }
    return now - idle->started_ns < spin + yield && yield_to_others(crowd, now);
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
static void idle_in_poll(struct rg_progress *progress, uint64_t timeout_us)
{
    struct rg_waiting *waiting = progress->waiting;
    int n = 0, max = waiting->max_fds - 1, bell = -1;
    struct timespec timeout = { (time_t) (timeout_us / 1000000),
                                (long) (timeout_us % 1000000) * 1000 };
    uint64_t drained;

    if (progress->team->bells.event_fd)
        bell = progress->team->bells.event_fd[progress->view.me];
    if (!progress->exec_dead)
        n = rg_exec_wait_fds(progress->exec, waiting->fds, waiting->events, max);
    n += rg_multi_wait_fds(progress, waiting->fds + n, waiting->events + n, max - n);
    for (int i = 0; i < n; i++)
        waiting->polls[i] = (struct pollfd){ waiting->fds[i], (short) waiting->events[i], 0 };
    if (bell >= 0)
        waiting->polls[n++] = (struct pollfd){ bell, POLLIN, 0 };
    ppoll(waiting->polls, (nfds_t) n, &timeout, NULL);
    if (bell >= 0 && read(bell, &drained, sizeof(drained)) < 0)
        return; /* it was not rung */
}

/* Something has happened: who is missing now? */
static inline void look_whom_for(struct rg_progress *progress, struct rg_blame *blame)
{
    if (!blame->until_ns)
        rg_blame_look(progress, blame, rg_now_ns());
}

/* Whoever comes once the bell is prepared rings it: from then on nobody is missed. */
static void idle_for(struct rg_progress *progress, struct rg_op *op, struct rg_blame *blame,
                     uint64_t timeout_us)
{
    const struct rg_bells *bells = &progress->team->bells;
    bool sockets = progress->waiting->max_fds > 0;
    unsigned us;
    uint32_t seen = rg_bell_prepare(bells, sockets ? RG_BELL_EVENT : RG_BELL_FUTEX);

    if (blame && !blame->until_ns)
        rg_blame_before_sleep(progress, blame, rg_now_ns());
    rg_multi_hurry(progress);
    if (rg_progress_drive(progress) || (op && rg_op_try(progress, op)) ||
        (!op && (atomic_load(&progress->wake.nwaiters) || atomic_load(&progress->stopping)))) {
        rg_bell_cancel(bells);
        return;
    }
    us = progress->exec_dead ? 0 : rg_run_poll_us(progress);
    if (us && us < timeout_us)
        timeout_us = us;
    if (sockets) {
        idle_in_poll(progress, timeout_us);
        rg_bell_cancel(bells);
    } else {
        rg_bell_commit(bells, seen, timeout_us);
    }
}

void rg_progress_idle(struct rg_progress *progress, uint64_t timeout_us)
{
    idle_for(progress, NULL, NULL, timeout_us);
}

static bool take_drive(struct rg_progress *progress)
{
    if (pthread_mutex_trylock(&progress->drive) != 0)
        return false;
    if (progress->waiting->has_thread)
        rg_bell_cancel(&progress->wake.thread_bells);
    return true;
}

static void leave_drive(struct rg_progress *progress)
{
    uint64_t position = progress->position;
    bool work = rg_progress_has_work(progress);
    struct rg_run_item item;

    pthread_mutex_unlock(&progress->drive);
    if (atomic_fetch_add(&progress->wake.nsleepers, 0))
        rg_wake_sleepers(&progress->wake);
    if (atomic_load(&progress->waiting->thread_sleeps)) {
        rg_bell_prepare(&progress->wake.thread_bells, RG_BELL_FUTEX_URGENT);
        if (work || rg_runlog_read(&progress->view.log, position, &item))
            rg_bell_ring(&progress->wake.thread_bells, progress->view.me, true);
    }
}

static bool is_over(uint64_t deadline_ns)
{
    return deadline_ns != RG_NEVER_NS && rg_now_ns() >= deadline_ns;
}

/* As the driver, until op is done, the time is over, or somebody must be told of an end. */
static void drive_for(struct rg_progress *progress, struct rg_op *op, uint64_t deadline_ns,
                      struct rg_blame *blame)
{
    struct idle idle = { 0, 0, blame };

    while (!rg_op_try(progress, op)) {
        uint64_t us;

        if (rg_notify_wanted(&progress->notify))
            return;
        if (rg_progress_drive(progress)) {
            if (idle.started_ns)
                look_whom_for(progress, blame);
            idle = (struct idle){ 0, 0, blame };
            continue;
        }
        if (!is_over(deadline_ns) && linger(progress, &progress->waiting->of_waiters, &idle))
            continue;
        us = slice_us(deadline_ns);
        if (us == 0)
            return;
        idle_for(progress, op, blame, us);
        look_whom_for(progress, blame);
    }
}

/* Somebody else drives. */
static void sleep_on_events(struct rg_progress *progress, struct rg_op *op, uint64_t deadline_ns)
{
    uint32_t seen = atomic_load(&progress->wake.events);
    uint64_t us = slice_us(deadline_ns);

    atomic_fetch_add(&progress->wake.nsleepers, 1);
    if (!rg_op_done(op))
        rg_polled_later(&progress->polled, op);
    if (us && !rg_op_try(progress, op)) {
        if (pthread_mutex_trylock(&progress->drive) == 0)
            pthread_mutex_unlock(&progress->drive);
        else
            rg_wake_sleep(&progress->wake, seen, us);
    }
    atomic_fetch_sub(&progress->wake.nsleepers, 1);
}

/* An inline operation: whoever looks can end it. */
static bool look_for_a_while(struct rg_progress *progress, struct rg_op *op, uint64_t deadline_ns,
                             struct rg_blame *blame)
{
    struct idle idle = { 0, 0, blame };

    if (op->mode != RG_ENTRY_INLINE || atomic_load(&op->state) == RG_OP_QUEUED)
        return false;
    do {
        if (rg_op_try(progress, op))
            return true;
    } while (!is_over(deadline_ns) && linger(progress, &progress->waiting->of_waiters, &idle));
    return false;
}

/* What rg_rest_leave takes. */
static int begin_wait(struct rg_progress *progress, const struct rg_op *op)
{
    atomic_fetch_add(&progress->wake.nwaiters, 1);
    if (!progress->config->deadlock_ms)
        return -1;
    rg_rest_submit();
    return progress->world ? -1 : rg_rest_enter(op);
}

/* A mere look is no wait. */
static inline void tell_timeline(struct rg_progress *progress, uint64_t deadline_ns)
{
    struct rg_observer *observer = rg_progress_timed(progress);

    if (__builtin_expect(observer != NULL, 0) && deadline_ns != 0)
        observer->ops->awaited(progress);
}

int rg_progress_wait(struct rg_progress *progress, struct rg_op *op, uint64_t deadline_ns)
{
    struct rg_blame blame;
    uint64_t started, ended;
    int r = 0, place;

    rg_numbers_waiter(progress);
    tell_timeline(progress, deadline_ns);
    if (rg_op_try(progress, op)) {
        rg_notify_flush(&progress->notify);
        return 0;
    }
    if (deadline_ns == 0) {
        rg_progress_poll(progress);
        return rg_op_try(progress, op) ? 0 : -EAGAIN;
    }
    started = rg_now_ns();
    blame = rg_blame_begin(op, started);
    if (!look_for_a_while(progress, op, deadline_ns, &blame)) {
        place = begin_wait(progress, op);
        while (!rg_op_try(progress, op)) {
            if (slice_us(deadline_ns) == 0) {
                r = -EAGAIN;
                break;
            }
            if (take_drive(progress)) {
                drive_for(progress, op, deadline_ns, &blame);
                if (rg_op_done(op))
                    atomic_fetch_sub(&progress->wake.nwaiters, 1), r = 1;
                leave_drive(progress);
                rg_notify_flush(&progress->notify);
                if (r == 1)
                    break;
            } else {
                sleep_on_events(progress, op, deadline_ns);
                look_whom_for(progress, &blame);
            }
        }
        if (r != 1)
            atomic_fetch_sub(&progress->wake.nwaiters, 1);
        rg_rest_leave(place, r == -EAGAIN ? op : NULL);
    }
    ended = rg_now_ns();
    rg_count(&progress->counters.wait_ns, ended - started);
    rg_blame_end(progress, &blame, ended, ended - started);
    rg_notify_flush(&progress->notify);
    return r == 1 ? 0 : r;
}

void rg_progress_poll(struct rg_progress *progress)
{
    if (!take_drive(progress))
        return;
    rg_progress_drive(progress);
    leave_drive(progress);
    rg_notify_flush(&progress->notify);
}

/* Something may come that nobody on this node rings for: what other leaders decide; or a plane must
 * be looked at now and then. */
static bool must_listen(struct rg_progress *progress)
{
    return !progress->exec_dead && (progress->multi || rg_run_poll_us(progress) > 0);
}

/* The communication thread as the driver, while there is work and no user thread to do it. */
static void serve(struct rg_progress *progress, uint64_t until_ns)
{
    struct idle idle = { 0, 0, NULL };

    while ((rg_progress_has_work(progress) || must_listen(progress)) &&
           !atomic_load(&progress->wake.nwaiters) && !atomic_load(&progress->stopping) &&
           !rg_notify_wanted(&progress->notify) && rg_now_ns() < until_ns) {
        if (rg_progress_drive(progress)) {
            idle = (struct idle){ 0, 0, NULL };
            continue;
        }
        if (progress->run->nitems && linger(progress, &progress->waiting->of_thread, &idle))
            continue;
        rg_progress_idle(progress, slice_us(until_ns));
    }
}

/* A rank wants to know where this one is; once for each question. */
static bool is_asked(const struct rg_progress *progress, uint64_t *asked)
{
    uint64_t now = atomic_load_explicit(&progress->view.shared->where_asked, memory_order_relaxed);
    bool changed = now != *asked;

    *asked = now;
    return changed;
}

static void *serve_all(void *arg)
{
    struct rg_progress *progress = arg;
    uint64_t tick_ns = rg_now_ns() + TICK_MS * RG_NS_PER_MS, asked = 0;
    int place = rg_rest_enter(NULL);

    rg_watch_begin(progress);
    while (!atomic_load(&progress->stopping)) {
        uint32_t seen;

        if (rg_now_ns() >= tick_ns || is_asked(progress, &asked)) {
            rg_watch_tick(progress);
            rg_waits_tick(progress);
            tick_ns = rg_now_ns() + TICK_MS * RG_NS_PER_MS;
        }
        atomic_store(&progress->waiting->thread_sleeps, true);
        seen = rg_bell_prepare(&progress->wake.thread_bells, RG_BELL_FUTEX_URGENT);
        if (!atomic_load(&progress->wake.nwaiters) &&
            pthread_mutex_trylock(&progress->drive) == 0) {
            bool busy = rg_progress_has_work(progress) || must_listen(progress);

            if (busy) {
                rg_bell_cancel(&progress->wake.thread_bells);
                atomic_store(&progress->waiting->thread_sleeps, false);
                rg_progress_drive(progress);
                serve(progress, tick_ns);
            } else if (atomic_load(&progress->view.shared->attention)) {
                rg_progress_drive(progress);
            }
            pthread_mutex_unlock(&progress->drive);
            if (atomic_fetch_add(&progress->wake.nsleepers, 0))
                rg_wake_sleepers(&progress->wake);
            rg_notify_flush(&progress->notify);
            /* Without a bell's mode nobody could wake it. */
            if (busy)
                continue;
        }
        rg_notify_flush(&progress->notify);
        if (!atomic_load(&progress->stopping))
            rg_bell_commit(&progress->wake.thread_bells, seen, slice_us(tick_ns));
        atomic_store(&progress->waiting->thread_sleeps, false);
    }
    rg_rest_leave(place, NULL);
    return NULL;
}

/* ---- the life of it */

static int make_room(struct rg_waiting *waiting, int size, struct rg_error *err)
{
    size_t n = (size_t) size * FDS_PER_RANK + FDS_BESIDES;

    waiting->fds = calloc(n, sizeof(*waiting->fds));
    waiting->events = calloc(n, sizeof(*waiting->events));
    waiting->polls = calloc(n, sizeof(*waiting->polls));
    if (!waiting->fds || !waiting->events || !waiting->polls)
        return rg_error_set(err, ENOMEM, "out of memory");
    waiting->max_fds = (int) n;
    return 0;
}

int rg_waiting_create(struct rg_progress *progress, struct rg_error *err)
{
    int spin_us = progress->config->spin_us;
    struct rg_waiting *waiting = calloc(1, sizeof(*waiting));

    if (!waiting)
        return rg_error_set(err, ENOMEM, "out of memory");
    progress->waiting = waiting;
    waiting->of_thread.yielded_ns = YIELDED_THREAD_NS;
    waiting->of_waiters.yielded_ns = YIELDED_WAITER_NS;
    waiting->spin_ns = spin_us >= 0 ? spin_us * 1000
                       : progress->team->oversubscribed ? 0 : SPIN_DEFAULT_NS;
    return progress->team->nnodes > 1 ? make_room(waiting, progress->team->size, err) : 0;
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
    r = pthread_setaffinity_np(progress->waiting->thread, sizeof(cores), &cores);
    if (r != 0)
        rg_report(RG_LOG_WARN, "HOROVOD_THREAD_AFFINITY: the communication thread cannot be bound "
                               "to core %d: %s", core, strerror(r));
}

/* No signal of the user's is to be handled on our thread. */
int rg_waiting_start(struct rg_progress *progress)
{
    sigset_t all, before;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    progress->waiting->has_thread = true;
    r = pthread_create(&progress->waiting->thread, NULL, serve_all, progress);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0) {
        progress->waiting->has_thread = false;
        return -r;
    }
    pthread_setname_np(progress->waiting->thread, "reigen");
    pin_thread(progress);
    return 0;
}

void rg_waiting_stop(struct rg_progress *progress)
{
    if (!progress->waiting->has_thread)
        return;
    rg_wake_ring(&progress->wake, progress->view.me, true);
    pthread_join(progress->waiting->thread, NULL);
    progress->waiting->has_thread = false;
}

void rg_waiting_destroy(struct rg_waiting *waiting)
{
    if (!waiting)
        return;
    free(waiting->fds);
    free(waiting->events);
    free(waiting->polls);
    free(waiting);
}
