/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this process is at rest: nothing in it, and nothing outside that it listens to, seems to
 * be about to call an operation. That is so when a thread waits in an operation, no told function
 * is under way, no processor is used, no debugger is attached, no timer is set, and every other
 * thread waits for a lock of this process, without a time limit, and has not run at all. A thread
 * that waits for input, a child, a time, or what another process may release is unrest. So is what
 * the kernel does not tell.
 *
 * It is no proof: a signal may come, and its handler may do anything.
 *
 * Thread rule: any thread; rg_rest_look by one, which reads some files of /proc for each thread.
 * Nothing blocks else.
 */
#ifndef RG_COLL_GROUND_REST_H
#define RG_COLL_GROUND_REST_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed at first. */
struct rg_rest {
    uint64_t since_ns;           /* 0: it is not at rest */
    uint64_t looked_ns, used_ns; /* when, and what of processors had been used by then */
    uint64_t threads_ns;         /* when each thread was looked at */
    uint64_t done, stirs;        /* what had been done by then, and how often others had run */
    uint64_t ran;
};

/* From now on the calling thread is the runtime's own, or waits in an operation of all ranks: its
 * rest is known otherwise. What rg_rest_leave takes; -1, which it ignores: there is no room, and
 * the thread counts as any other does. Each of both begins the rest anew. */
int rg_rest_enter(void);
void rg_rest_leave(int place);
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
