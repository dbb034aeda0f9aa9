/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll says which descriptors are ready, an eventfd that a signal came, and a heap which timer is
 * the next one. Nothing is allocated but the loop itself, so that starting a watcher cannot fail.
 */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"

#define MAX_EVENTS 64               /* of one look */
#define MAX_READY (2 * MAX_EVENTS)  /* a descriptor rarely has more than two watchers */
#define MAX_FULL 64                 /* looks in a row that keep deadlines waiting */
#define NBUCKETS 64
#define POOR_MS 10
#define MAX_DELAY_MS (UINT64_MAX / RG_NS_PER_MS / 4)

struct rg_loop {
    int epoll_fd, wake_fd;
    bool is_default, stopped;
    bool poor;     /* epoll had no memory for a descriptor, which is tried now and then */
    size_t nfull;  /* looks in a row that had no room for more events */
    size_t nactive; /* watchers of all kinds */
    size_t nsteady;
    struct rg_watch *ios[NBUCKETS]; /* by descriptor */
    struct rg_watch *signals, *children;
    struct rg_watch *timers; /* the next one; a pairing heap */
    struct rg_watch *ready[MAX_READY];
    size_t nready;
    _Atomic uint64_t came; /* signals, a bit each */
};

/* The process has one set of children; the first loop of ours gets it. */
static atomic_bool default_taken;
static struct rg_loop *_Atomic owners[_NSIG];

static void on_signal(int signo)
{
    struct rg_loop *loop = atomic_load(&owners[signo]);
    int saved = errno;

    if (loop) {
        atomic_fetch_or(&loop->came, 1ull << (signo - 1));
        eventfd_write(loop->wake_fd, 1);
    }
    errno = saved;
}

static void own_signal(struct rg_loop *loop, int signo)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigset_t set;

    atomic_store(&owners[signo], loop);
    sigfillset(&action.sa_mask);
    sigaction(signo, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, signo);
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* who started us may have blocked it */
}

static void disown_signal(int signo)
{
    signal(signo, SIG_DFL);
    atomic_store(&owners[signo], NULL);
}

int rg_loop_create(struct rg_loop **ret_loop)
{
    struct rg_loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return -ENOMEM;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = loop->wake_fd };

    if (loop->epoll_fd < 0 || loop->wake_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) != 0) {
        int cause = errno;

        rg_loop_destroy(loop);
        return -cause;
    }
    loop->is_default = !atomic_exchange(&default_taken, true);
    if (loop->is_default)
        own_signal(loop, SIGCHLD);
    *ret_loop = loop;
    return 0;
}

void rg_loop_destroy(struct rg_loop *loop)
{
    if (!loop)
        return;
    if (loop->is_default) {
        disown_signal(SIGCHLD);
        atomic_store(&default_taken, false);
    }
    close(loop->epoll_fd);
    close(loop->wake_fd);
    free(loop);
}

/* --- Watchers of all kinds -------------------------------------------------------------------- */

static void begin(struct rg_watch *w, struct rg_loop *loop, void (*fn)(void), void *arg)
{
    if (!w->loop)
        loop->nactive++;
    w->loop = loop;
    w->fn = fn;
    w->arg = arg;
}

static void forget_ready(struct rg_watch *w)
{
    for (size_t i = 0; w->ready != 0 && i < w->loop->nready; i++)
        if (w->loop->ready[i] == w)
            w->loop->ready[i] = NULL;
    w->ready = 0;
}

static void end(struct rg_watch *w)
{
    forget_ready(w);
    w->loop->nactive--;
    w->loop = NULL;
}

static void push(struct rg_watch **list, struct rg_watch *w)
{
    w->next = *list;
    *list = w;
}

static void drop(struct rg_watch **list, const struct rg_watch *w)
{
    while (*list != w)
        list = &(*list)->next;
    *list = w->next;
}

/* What there is no room for is still ready at the next look. */
static void add_ready(struct rg_watch *w, int what)
{
    struct rg_loop *loop = w->loop;

    if (what == 0 || w->ready != 0 || loop->nready == MAX_READY)
        return;
    w->ready = what;
    loop->ready[loop->nready++] = w;
}

/* Tell what has been added; of a child how it ended. Any watcher may be stopped meanwhile. */
static void tell_ready(struct rg_loop *loop, pid_t pid, int status)
{
    for (size_t i = 0; i < loop->nready; i++) {
        struct rg_watch *w = loop->ready[i];

        if (!w)
            continue;
        int what = w->ready;

        w->ready = 0;
        if (pid == 0) {
            ((void (*)(void *, int)) w->fn)(w->arg, what);
            continue;
        }
        if (w->key != 0) { /* a pid is free for others now */
            drop(&loop->children, w);
            end(w);
        }
        ((void (*)(void *, pid_t, int)) w->fn)(w->arg, pid, status);
    }
    loop->nready = 0;
}

/* --- Descriptors ------------------------------------------------------------------------------ */

static struct rg_watch **bucket(struct rg_loop *loop, int fd)
{
    return &loop->ios[(unsigned) fd % NBUCKETS];
}

static int wanted(struct rg_loop *loop, int fd)
{
    int events = 0;

    for (const struct rg_watch *w = *bucket(loop, fd); w; w = w->next)
        events |= w->key == fd ? w->events : 0;
    return events;
}

/* Let epoll know what is wanted of fd now, and was before. It refuses files, which are always
 * ready. Where it fails for want of memory, their owners find out by trying now and then. */
static void ask(struct rg_loop *loop, int fd, int before)
{
    int now = wanted(loop, fd);
    int op = now == 0 ? EPOLL_CTL_DEL : before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    struct epoll_event event = {
        .events = (now & RG_IO_READ ? EPOLLIN : 0u) | (now & RG_IO_WRITE ? EPOLLOUT : 0u),
        .data.fd = fd,
    };
    int r = epoll_ctl(loop->epoll_fd, op, fd, &event);

    /* Somebody has closed the descriptor under its watcher, and got the number anew. */
    if (r != 0 && op == EPOLL_CTL_MOD && errno == ENOENT)
        r = epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    bool steady = r != 0;

    loop->poor |= steady && op != EPOLL_CTL_DEL && errno != EPERM;
    for (struct rg_watch *w = *bucket(loop, fd); w; w = w->next) {
        if (w->key != fd)
            continue;
        loop->nsteady += (size_t) steady - (size_t) w->steady;
        w->steady = steady;
    }
}

void rg_io_start(struct rg_io *io, struct rg_loop *loop, int fd, int events,
                 void (*fn)(void *arg, int events), void *arg)
{
    struct rg_watch *w = &io->w;

    assert(events != 0);
    if (w->loop != loop || w->key != fd)
        rg_io_stop(io);
    bool is_new = !w->loop;
    int before = wanted(loop, fd);

    if (is_new)
        push(bucket(loop, fd), w);
    else
        forget_ready(w);
    begin(w, loop, (void (*)(void)) fn, arg);
    w->key = fd;
    w->events = events;
    if (is_new || wanted(loop, fd) != before)
        ask(loop, fd, before);
}

void rg_io_stop(struct rg_io *io)
{
    struct rg_watch *w = &io->w;
    struct rg_loop *loop = w->loop;

    if (!loop)
        return;
    int before = wanted(loop, w->key);

    drop(bucket(loop, w->key), w);
    loop->nsteady -= w->steady;
    w->steady = false;
    end(w);
    ask(loop, w->key, before);
}

bool rg_io_active(const struct rg_io *io)
{
    return io->w.loop;
}

static void add_events(struct rg_loop *loop, const struct epoll_event *event)
{
    int what = (event->events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? RG_IO_READ : 0) |
               (event->events & (EPOLLOUT | EPOLLERR | EPOLLHUP) ? RG_IO_WRITE : 0);

    for (struct rg_watch *w = *bucket(loop, event->data.fd); w; w = w->next)
        if (w->key == event->data.fd)
            add_ready(w, w->events & what);
}

static void add_steady(struct rg_loop *loop)
{
    for (size_t i = 0; loop->nsteady > 0 && i < NBUCKETS; i++)
        for (struct rg_watch *w = loop->ios[i]; w; w = w->next)
            add_ready(w, w->steady ? w->events : 0);
}

/* --- Timers ----------------------------------------------------------------------------------- */

/* One heap of two; the earlier root is on top, and a's of equal ones. */
static struct rg_watch *meld(struct rg_watch *a, struct rg_watch *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->due_ns < a->due_ns) {
        struct rg_watch *earlier = b;

        b = a;
        a = earlier;
    }
    b->above = a;
    b->next = a->below;
    if (b->next)
        b->next->above = b;
    a->below = b;
    return a;
}

/* One heap of siblings: in pairs first, then pair by pair, which keeps heaps flat. */
static struct rg_watch *meld_all(struct rg_watch *siblings)
{
    struct rg_watch *pairs = NULL, *all = NULL;

    while (siblings) {
        struct rg_watch *a = siblings, *b = a->next, *rest = b ? b->next : NULL;

        a->next = a->above = NULL;
        if (b)
            b->next = b->above = NULL;
        push(&pairs, meld(a, b));
        siblings = rest;
    }
    while (pairs) {
        struct rg_watch *pair = pairs;

        pairs = pair->next;
        pair->next = NULL;
        all = meld(all, pair);
    }
    return all;
}

static void heap_remove(struct rg_loop *loop, struct rg_watch *w)
{
    struct rg_watch *rest = meld_all(w->below);

    if (w == loop->timers) {
        loop->timers = rest;
    } else {
        if (w->above->below == w)
            w->above->below = w->next;
        else
            w->above->next = w->next;
        if (w->next)
            w->next->above = w->above;
        loop->timers = meld(loop->timers, rest);
    }
    w->next = w->above = w->below = NULL;
}

static uint64_t delay_ns(uint64_t delay_ms)
{
    return (delay_ms < MAX_DELAY_MS ? delay_ms : MAX_DELAY_MS) * RG_NS_PER_MS;
}

void rg_timer_start(struct rg_timer *timer, struct rg_loop *loop, uint64_t delay_ms,
                    uint64_t repeat_ms, void (*fn)(void *arg), void *arg)
{
    rg_timer_stop(timer);
    begin(&timer->w, loop, (void (*)(void)) fn, arg);
    timer->w.due_ns = rg_now_ns() + delay_ns(delay_ms);
    timer->w.repeat_ns = delay_ns(repeat_ms);
    loop->timers = meld(loop->timers, &timer->w);
}

void rg_timer_stop(struct rg_timer *timer)
{
    if (!timer->w.loop)
        return;
    heap_remove(timer->w.loop, &timer->w);
    end(&timer->w);
}

bool rg_timer_active(const struct rg_timer *timer)
{
    return timer->w.loop;
}

static void run_timers(struct rg_loop *loop)
{
    uint64_t now_ns = rg_now_ns();

    while (loop->timers && loop->timers->due_ns <= now_ns) {
        struct rg_watch *w = loop->timers;

        heap_remove(loop, w);
        if (w->repeat_ns != 0) {
            w->due_ns += w->repeat_ns;
            if (w->due_ns <= now_ns) /* what was missed is not made up for */
                w->due_ns = now_ns + w->repeat_ns;
            loop->timers = meld(loop->timers, w);
        } else {
            end(w);
        }
        ((void (*)(void *)) w->fn)(w->arg);
    }
}

/* How long the loop may sleep, as epoll takes it: -1 is for ever. */
static int sleep_ms(const struct rg_loop *loop)
{
    if (loop->nsteady > 0)
        return loop->poor ? POOR_MS : 0;
    if (!loop->timers)
        return -1;
    uint64_t now_ns = rg_now_ns();

    if (loop->timers->due_ns <= now_ns)
        return 0;
    uint64_t ms = (loop->timers->due_ns - now_ns + RG_NS_PER_MS - 1) / RG_NS_PER_MS;

    return ms < INT_MAX ? (int) ms : INT_MAX;
}

/* --- Signals and children --------------------------------------------------------------------- */

void rg_signal_start(struct rg_signal *sig, struct rg_loop *loop, int signo,
                     void (*fn)(void *arg, int signo), void *arg)
{
    rg_signal_stop(sig);
    begin(&sig->w, loop, (void (*)(void)) fn, arg);
    sig->w.key = signo;
    push(&loop->signals, &sig->w);
    own_signal(loop, signo);
}

void rg_signal_stop(struct rg_signal *sig)
{
    struct rg_loop *loop = sig->w.loop;
    bool others = loop && loop->is_default && sig->w.key == SIGCHLD;

    if (!loop)
        return;
    drop(&loop->signals, &sig->w);
    end(&sig->w);
    for (const struct rg_watch *w = loop->signals; w; w = w->next)
        others = others || w->key == sig->w.key;
    if (!others)
        disown_signal(sig->w.key);
}

void rg_child_start(struct rg_child *child, struct rg_loop *loop, pid_t pid,
                    void (*fn)(void *arg, pid_t pid, int status), void *arg)
{
    assert(loop->is_default);
    rg_child_stop(child);
    begin(&child->w, loop, (void (*)(void)) fn, arg);
    child->w.key = pid;
    push(&loop->children, &child->w);
}

void rg_child_stop(struct rg_child *child)
{
    if (!child->w.loop)
        return;
    drop(&child->w.loop->children, &child->w);
    end(&child->w);
}

static void reap(struct rg_loop *loop)
{
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (struct rg_watch *w = loop->children; w; w = w->next)
            add_ready(w, w->key == pid || w->key == 0);
        tell_ready(loop, pid, status);
    }
}

static void tell_signals(struct rg_loop *loop)
{
    eventfd_t count;

    eventfd_read(loop->wake_fd, &count);
    uint64_t came = atomic_exchange(&loop->came, 0);

    for (struct rg_watch *w = loop->signals; w; w = w->next)
        add_ready(w, came >> (w->key - 1) & 1 ? w->key : 0);
    tell_ready(loop, 0, 0);
    if (loop->is_default && (came >> (SIGCHLD - 1) & 1))
        reap(loop);
}

/* --- The loop --------------------------------------------------------------------------------- */

static bool signal_came(const struct rg_loop *loop, const struct epoll_event *events, int n)
{
    for (int i = 0; i < n; i++)
        if (events[i].data.fd == loop->wake_fd)
            return true;
    return false;
}

/* After a signal descriptors are looked at anew, as its callbacks may have closed some. */
static void look(struct rg_loop *loop)
{
    struct epoll_event events[MAX_EVENTS];
    int n = epoll_wait(loop->epoll_fd, events, MAX_EVENTS, sleep_ms(loop));

    if (signal_came(loop, events, n)) {
        tell_signals(loop);
        n = epoll_wait(loop->epoll_fd, events, MAX_EVENTS, 0);
    }
    for (int i = 0; i < n; i++)
        add_events(loop, &events[i]);
    add_steady(loop);
    tell_ready(loop, 0, 0);
    if (n == MAX_EVENTS && ++loop->nfull < MAX_FULL)
        return; /* there may be more that came before a deadline */
    loop->nfull = 0;
    run_timers(loop);
}

void rg_loop_run(struct rg_loop *loop)
{
    loop->stopped = false;
    while (!loop->stopped && loop->nactive > 0)
        look(loop);
}

void rg_loop_stop(struct rg_loop *loop)
{
    loop->stopped = true;
}
