/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cores of this computer that this process may use: sched_getaffinity, and the kernel's
 * topology files (Documentation/admin-guide/cputopology.rst of Linux).
 *
 * Thread rule: any thread. rg_cpus_read reads small files of /sys; it does not block for long.
 */
#ifndef RG_LAUNCH_CPUS_H
#define RG_LAUNCH_CPUS_H

#include <stddef.h>

struct rg_cpu {
    int cpu, core, socket; /* numbers of the kernel's; core is unique within socket */
};

struct rg_cpus {
    struct rg_cpu *v; /* owned; sorted by socket, core, cpu */
    int count;
    int ncores, nsockets;
};

/* root: "/sys/devices/system/cpu", or another for tests. Where a topology file is missing, each cpu
 * counts as a core of socket 0. 0, -ENOMEM, or -errno of sched_getaffinity. */
int rg_cpus_read(const char *root, struct rg_cpus *ret_cpus);
/* The same from a given list of cpus. 0 or -ENOMEM. */
int rg_cpus_make(const char *root, const int *cpus, int count, struct rg_cpus *ret_cpus);
void rg_cpus_fini(struct rg_cpus *cpus);

/* The cpus of the core (by_socket 0) or socket (1) with this index, modulo how many there are: a
 * new array of *ret_count numbers, the caller's; NULL when out of memory. */
int *rg_cpus_pick(const struct rg_cpus *cpus, int by_socket, int index, int *ret_count);

#endif
