/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of launcher and agent, over epoll.
 *
 * Watchers are embedded in the owner's struct, zero-initialised, started and stopped. Starting a
 * started watcher moves it to the new arguments; stopping a stopped one does nothing. A callback
 * may start or stop any watcher, its own included, and may free the struct that embeds it. What
 * comes together is told in this order: signals and ended children, descriptors, timers. So who
 * stood still for a while reads what has come meanwhile before a deadline of its own passes.
 *
 * Thread rule: a loop and its watchers belong to the thread that runs it. No function blocks but
 * rg_loop_run.
 */
#ifndef RG_BASE_LOOP_H
#define RG_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rg_loop;

/* 0, -ENOMEM, or why there is no descriptor for it, as -EMFILE. The first loop of a process gets
 * its children, and reaps them all, watched or not. A signal may be watched in one loop. */
int rg_loop_create(struct rg_loop **ret_loop);
/* All watchers must be stopped. NULL is fine. */
void rg_loop_destroy(struct rg_loop *loop);

/* Dispatch until no watcher is left, or rg_loop_stop: then what came together is still told. It
 * must not be called in a callback of the same loop. */
void rg_loop_run(struct rg_loop *loop);
void rg_loop_stop(struct rg_loop *loop);

enum { RG_IO_READ = 1, RG_IO_WRITE = 2 };

/* What is in a watcher belongs to loop.c. */
struct rg_watch {
    struct rg_loop *loop;           /* NULL: it is stopped */
    void *arg;
    void (*fn)(void);
    struct rg_watch *next;          /* of the same list, or a sibling in the heap of timers */
    struct rg_watch *above, *below; /* timer: its parent or elder sibling; its first child */
    uint64_t due_ns, repeat_ns;     /* timer */
    int key;                        /* descriptor, signal, or process */
    int events;                     /* io: what it asks for */
    int ready;                      /* what is about to be told; 0: nothing */
    bool steady;                    /* io: always ready, as epoll does not take it */
};

struct rg_io { struct rg_watch w; };
struct rg_timer { struct rg_watch w; };
struct rg_signal { struct rg_watch w; };
struct rg_child { struct rg_watch w; };

/* fn(arg, events) whenever fd is ready for one of events (RG_IO_*), of which there is at least one.
 * A descriptor may have several watchers. They are stopped before it is closed. */
void rg_io_start(struct rg_io *io, struct rg_loop *loop, int fd, int events,
                 void (*fn)(void *arg, int events), void *arg);
void rg_io_stop(struct rg_io *io);
bool rg_io_active(const struct rg_io *io);

/* fn(arg) once after delay_ms, then every repeat_ms when that is not 0. Monotonic time. */
void rg_timer_start(struct rg_timer *timer, struct rg_loop *loop, uint64_t delay_ms,
                    uint64_t repeat_ms, void (*fn)(void *arg), void *arg);
void rg_timer_stop(struct rg_timer *timer);
bool rg_timer_active(const struct rg_timer *timer);

void rg_signal_start(struct rg_signal *sig, struct rg_loop *loop, int signo,
                     void (*fn)(void *arg, int signo), void *arg);
void rg_signal_stop(struct rg_signal *sig);

/* fn(arg, pid, status) when child pid ends; pid 0 means any child, adopted orphans included. The
 * status is waitpid's. The child has been reaped. */
void rg_child_start(struct rg_child *child, struct rg_loop *loop, pid_t pid,
                    void (*fn)(void *arg, pid_t pid, int status), void *arg);
void rg_child_stop(struct rg_child *child);

#endif
