/* SPDX-License-Identifier: Apache-2.0 */
/* libev does the work; its types are hidden from all headers. */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <stdatomic.h>
#include <stdlib.h>

struct rg_loop {
    struct ev_loop *ev;
    bool is_default;
};

/* libev watches children only on its one default loop; the first loop of ours gets it. */
static atomic_bool default_taken;

#define FITS(type) (sizeof(type) <= sizeof(((struct rg_watch *) 0)->priv))
_Static_assert(FITS(ev_io) && FITS(ev_timer) && FITS(ev_signal) && FITS(ev_child),
               "struct rg_watch is too small for a libev watcher");

int rg_loop_create(struct rg_loop **ret_loop)
{
    struct rg_loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return -ENOMEM;
    loop->is_default = !atomic_exchange(&default_taken, true);
    loop->ev = loop->is_default ? ev_default_loop(EVFLAG_AUTO | EVFLAG_NOENV)
                                : ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    if (!loop->ev) {
        if (loop->is_default)
            atomic_store(&default_taken, false);
        free(loop);
        return -ENOMEM;
    }
    *ret_loop = loop;
    return 0;
}

void rg_loop_destroy(struct rg_loop *loop)
{
    if (!loop)
        return;
    ev_loop_destroy(loop->ev);
    if (loop->is_default)
        atomic_store(&default_taken, false);
    free(loop);
}

void rg_loop_run(struct rg_loop *loop)
{
    ev_run(loop->ev, 0);
}

void rg_loop_stop(struct rg_loop *loop)
{
    ev_break(loop->ev, EVBREAK_ALL);
}

static void set_watch(struct rg_watch *w, struct rg_loop *loop, void (*fn)(void), void *arg)
{
    w->loop = loop;
    w->fn = fn;
    w->arg = arg;
}

/* libev's watchers lie in priv and carry the address of their rg_watch in data. */
#define EV_OF(type, object) ((type *) (void *) (object)->w.priv)

static void io_ready(struct ev_loop *ev, ev_io *w, int events)
{
    struct rg_watch *watch = w->data;
    void (*fn)(void *, int) = (void (*)(void *, int)) watch->fn;
    int ours = (events & EV_READ ? RG_IO_READ : 0) | (events & EV_WRITE ? RG_IO_WRITE : 0);

    (void) ev;
    fn(watch->arg, ours);
}

void rg_io_start(struct rg_io *io, struct rg_loop *loop, int fd, int events,
                 void (*fn)(void *arg, int events), void *arg)
{
    ev_io *w = EV_OF(ev_io, io);
    int theirs = (events & RG_IO_READ ? EV_READ : 0) | (events & RG_IO_WRITE ? EV_WRITE : 0);

    rg_io_stop(io);
    ev_io_init(w, io_ready, fd, theirs);
    w->data = &io->w;
    set_watch(&io->w, loop, (void (*)(void)) fn, arg);
    ev_io_start(loop->ev, w);
}

void rg_io_stop(struct rg_io *io)
{
    if (io->w.loop)
        ev_io_stop(io->w.loop->ev, EV_OF(ev_io, io));
    io->w.loop = NULL;
}

bool rg_io_active(const struct rg_io *io)
{
    return io->w.loop && ev_is_active((const ev_io *) (const void *) io->w.priv);
}

static void timer_due(struct ev_loop *ev, ev_timer *w, int events)
{
    struct rg_watch *watch = w->data;
    void (*fn)(void *) = (void (*)(void *)) watch->fn;

    (void) ev;
    (void) events;
    fn(watch->arg);
}

void rg_timer_start(struct rg_timer *timer, struct rg_loop *loop, uint64_t delay_ms,
                    uint64_t repeat_ms, void (*fn)(void *arg), void *arg)
{
    ev_timer *w = EV_OF(ev_timer, timer);

    rg_timer_stop(timer);
    ev_timer_init(w, timer_due, (double) delay_ms / 1000.0, (double) repeat_ms / 1000.0);
    w->data = &timer->w;
    set_watch(&timer->w, loop, (void (*)(void)) fn, arg);
    /* libev counts from the time it last looked, which a long callback makes old. */
    ev_now_update(loop->ev);
    ev_timer_start(loop->ev, w);
}

void rg_timer_stop(struct rg_timer *timer)
{
    if (timer->w.loop)
        ev_timer_stop(timer->w.loop->ev, EV_OF(ev_timer, timer));
    timer->w.loop = NULL;
}

bool rg_timer_active(const struct rg_timer *timer)
{
    return timer->w.loop && ev_is_active((const ev_timer *) (const void *) timer->w.priv);
}

static void signal_came(struct ev_loop *ev, ev_signal *w, int events)
{
    struct rg_watch *watch = w->data;
    void (*fn)(void *, int) = (void (*)(void *, int)) watch->fn;

    (void) ev;
    (void) events;
    fn(watch->arg, w->signum);
}

void rg_signal_start(struct rg_signal *sig, struct rg_loop *loop, int signo,
                     void (*fn)(void *arg, int signo), void *arg)
{
    ev_signal *w = EV_OF(ev_signal, sig);

    rg_signal_stop(sig);
    ev_signal_init(w, signal_came, signo);
    w->data = &sig->w;
    set_watch(&sig->w, loop, (void (*)(void)) fn, arg);
    ev_signal_start(loop->ev, w);
}

void rg_signal_stop(struct rg_signal *sig)
{
    if (sig->w.loop)
        ev_signal_stop(sig->w.loop->ev, EV_OF(ev_signal, sig));
    sig->w.loop = NULL;
}

static void child_ended(struct ev_loop *ev, ev_child *w, int events)
{
    struct rg_watch *watch = w->data;
    void (*fn)(void *, pid_t, int) = (void (*)(void *, pid_t, int)) watch->fn;

    (void) events;
    if (w->pid != 0) {
        /* A pid is free for others now, and a dead child must not keep the loop alive. */
        ev_child_stop(ev, w);
        watch->loop = NULL;
    }
    fn(watch->arg, w->rpid, w->rstatus);
}

void rg_child_start(struct rg_child *child, struct rg_loop *loop, pid_t pid,
                    void (*fn)(void *arg, pid_t pid, int status), void *arg)
{
    ev_child *w = EV_OF(ev_child, child);

    assert(loop->is_default);
    rg_child_stop(child);
    ev_child_init(w, child_ended, pid, 0);
    w->data = &child->w;
    set_watch(&child->w, loop, (void (*)(void)) fn, arg);
    ev_child_start(loop->ev, w);
}

void rg_child_stop(struct rg_child *child)
{
    if (child->w.loop)
        ev_child_stop(child->w.loop->ev, EV_OF(ev_child, child));
    child->w.loop = NULL;
}
