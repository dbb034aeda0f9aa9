/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this process is at rest: nothing in it, and nothing outside that it listens to, seems to
 * be about to call an operation. That is so when a thread waits in an operation, no told function
 * is under way, next to no processor is used, no debugger is attached, no timer is set, and no
 * thread comes, goes or runs. The main thread, and each that has ever called an operation, may call
 * another one after whatever it waits for: it must wait for a lock of this process, without a time
 * limit, and not have run at all. Input, a child, a time, or what another process may release is
 * unrest there. Any other thread may sleep as it likes, and wake now and then: so do the monitors
 * of progress bars, the threads that fetch batches, and those that write logs. What the kernel does
 * not tell is unrest.
 *
 * It is no proof: a thread that has never called an operation may do so for the first time; a
 * signal may come, and its handler may do anything.
 *
 * Thread rule: any thread; rg_rest_look by one, which reads some files of /proc for each thread.
 * Nothing blocks else.
 */
#ifndef RG_COLL_GROUND_REST_H
#define RG_COLL_GROUND_REST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Why it is not at rest, or what began the rest anew last. */
enum rg_unrest {
    RG_UNREST_NONE,
    RG_UNREST_BUSY,     /* it uses a processor, or had none to look by */
    RG_UNREST_CALLS,    /* it has called an operation, or seen one done */
    RG_UNREST_TOLD,     /* a function of the user's is called */
    RG_UNREST_DEBUGGER, /* one is attached */
    RG_UNREST_TIMER,    /* one is set */
    RG_UNREST_CHANGES,  /* threads have come or gone, or one has run that waited for a lock */
    RG_UNREST_CALLER,   /* a thread that calls operations waits for something else */
    RG_UNREST_THREAD,   /* another one does not sleep */
    RG_UNREST_UNKNOWN,  /* the kernel does not tell */
};

/* Zeroed at first. */
struct rg_rest {
    uint64_t since_ns;           /* 0: it is not at rest */
    uint64_t looked_ns, used_ns; /* when, and what of processors had been used by then */
    uint64_t threads_ns;         /* when each thread was looked at */
    uint64_t done, stirs;        /* what had been done by then, and how often others had run */
    uint64_t ran;
    enum rg_unrest why; /* NONE: no thread waits, or nothing has been seen */
    pid_t thread;       /* of CALLER and THREAD */
};

/* From now on the calling thread is the runtime's own, or waits in this operation of all ranks: its
 * rest is known otherwise. What rg_rest_leave takes; -1, which it ignores: there is no room, and
 * the thread counts as any other does. Each of both begins the rest anew, except that who leaves an
 * operation early, as his time is over, may go on waiting for it within a second: interpreters wait
 * in slices, to see signals between them. Until then he counts as if he waited. early: that one;
 * NULL: the wait has ended. */
int rg_rest_enter(const void *operation);
void rg_rest_leave(int place, const void *early);
/* Somebody has left early, and counts so. */
bool rg_rest_goes_on(void);
/* The calling thread calls an operation. Cheap. */
void rg_rest_submit(void);
/* A function of the user's is called, and has returned. */
void rg_rest_call(void);
void rg_rest_return(void);
/* Something goes on that rg_rest_look is not told of: the rest begins anew. */
void rg_rest_stir(void);

/* Once a second. waits: a thread waits in an operation, and none is carried out; else the process
 * is not at rest. done: the rest begins anew when it changes. near: each thread is to be looked at
 * now; else every few seconds. Since when it has been at rest, or 0. */
uint64_t rg_rest_look(struct rg_rest *rest, uint64_t now_ns, bool waits, uint64_t done,
                      bool near);

#endif
