/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cpus of this computer that this process may use: sched_getaffinity, which knows of cpusets
 * too, and the kernel's topology files (Documentation/admin-guide/cputopology.rst of Linux). A core
 * is the cpus (threads) that the kernel lists as siblings.
 *
 * Thread rule: any thread. rg_cpus_read reads small files of /sys; it does not block for long.
 */
#ifndef RG_BASE_PROCESS_CPUS_H
#define RG_BASE_PROCESS_CPUS_H

#include <stdbool.h>
#include <stddef.h>

#define RG_CPUS_ROOT "/sys/devices/system/cpu"

struct rg_cpu {
    int cpu, core, socket; /* numbers of the kernel's; core: the first of its cpus */
};

struct rg_cpus {
    struct rg_cpu *v; /* owned; sorted by socket, core, cpu */
    int count;
    int ncores, nsockets;
};

/* root: RG_CPUS_ROOT, or another for tests. Where a topology file is missing, each cpu counts as a
 * core of socket 0. 0, -ENOMEM, or -errno of sched_getaffinity. */
int rg_cpus_read(const char *root, struct rg_cpus *ret_cpus);
/* The same from a given list of cpus. 0 or -ENOMEM. */
int rg_cpus_make(const char *root, const int *cpus, int count, struct rg_cpus *ret_cpus);
void rg_cpus_fini(struct rg_cpus *cpus);

/* The cpus of the core (by_socket false) or socket (true) with this index, modulo how many there
 * are: a new array of *ret_count numbers, the caller's; NULL when out of memory. */
int *rg_cpus_pick(const struct rg_cpus *cpus, bool by_socket, int index, int *ret_count);

/* What the kernel and container runtimes call a list of cpus, "0-3,8": a new string, the caller's;
 * NULL when out of memory. numbers: ascending. */
char *rg_cpus_text(const int *numbers, int count);

/* When this process may not use all cpus that are online, a list of those it may use, as above;
 * NULL: all, or it cannot be told. */
char *rg_cpus_limit(const char *root);

#endif
