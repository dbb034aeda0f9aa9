/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this process is at rest: nothing in it, and nothing outside that it listens to, could
 * make it call an operation. That is so when a thread has been waiting in an operation, no
 * processor is used, no debugger is attached, no timer is set, and every other thread waits for a
 * lock of this process: not for input, a child, a time, or what another process may release. A
 * thread that wakes by itself again and again for such a lock, as those of progress bars do, is at
 * rest, too.
 *
 * What the kernel does not tell counts as unrest.
 *
 * Thread rule: the communication thread. Reads some files of /proc for each thread; never blocks
 * else.
 */
#ifndef RG_COLL_GROUND_REST_H
#define RG_COLL_GROUND_REST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RG_REST_TIMED_MAX 32

/* Zeroed at first. */
struct rg_rest {
    uint64_t since_ns;           /* 0: it is not at rest */
    uint64_t looked_ns, used_ns; /* when, and what of processors had been used by then */
    struct rg_rest_timed {       /* threads that wake by themselves */
        pid_t tid;
        unsigned long switches;  /* when it was seen first */
        uint64_t seen_ns;        /* last */
        bool again;              /* it has woken several times since */
    } timed[RG_REST_TIMED_MAX];
    int ntimed;
};

/* Once a second. waits: a thread waits in an operation; else the process is not at rest. Since when
 * it has been, or 0. */
uint64_t rg_rest_look(struct rg_rest *rest, uint64_t now_ns, bool waits);

#endif
