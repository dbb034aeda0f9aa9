/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of this process goes outside of operations, as the kernel counts it: for who asks
 * why others wait for this rank (launch/diagnosis).
 *
 * The thread whose time is told is the one that waits for operations, as that is the one that makes
 * the steps. Where several have waited since the last look, or the process uses a GPU, whose work
 * no processor's time shows, that time is not counted, and neither is it in timed_ns.
 *
 * Once a second it reads some small files of /proc and of the cgroup's: 0.2 ms, beside the threads
 * that compute. What a kernel or a container does not show stays 0.
 *
 * Thread rule: one thread at a time. Nothing blocks for long.
 */
#ifndef RG_COLL_PROGRESS_SPENT_H
#define RG_COLL_PROGRESS_SPENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RG_SPENT_GROUP_MAX 512

struct rg_spent {
    /* Sums since the first look. */
    uint64_t timed_ns;     /* for which computed and delayed are known */
    uint64_t computed_ns;  /* the thread had a processor, outside of waits for operations */
    uint64_t delayed_ns;   /* it could run, and had none */
    uint64_t throttled_ns; /* its cgroup, or the one above that has a limit, had used it up */
    uint64_t faults;       /* times that a page of the process had to be read from a disk */
    uint64_t refaults;     /* pages of anybody on this host that were read again */
    uint32_t cpus;         /* processors that the thread may use now */
    /* As they were at the last look. */
    struct {
        pid_t tid;
        uint64_t at_ns, run_ns, delay_ns, waits_ns, throttle_ns, faults, refaults;
        char group[RG_SPENT_GROUP_MAX]; /* whose throttle_ns that is; "": none */
        bool gpu;
        unsigned looks;
    } last;
};

/* Whether a process that has this file open uses a GPU: of NVIDIA, AMD or Intel, or another
 * accelerator. Any thread. */
bool rg_spent_is_gpu(const char *path);
/* Bring it up to date. tid: the thread that has waited since; 0: none has, -1: several. waits_ns:
 * what the process has used of processors in waits for operations, all together. */
void rg_spent_look(struct rg_spent *spent, pid_t tid, uint64_t waits_ns, uint64_t now_ns);

#endif
