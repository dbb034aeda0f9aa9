/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define CPUS_MAX 8192

static int read_number(const char *root, int cpu, const char *name, int otherwise)
{
    char path[512];
    rg_autofree char *text = NULL;

    snprintf(path, sizeof path, "%s/cpu%d/topology/%s", root, cpu, name);
    if (rg_read_file(path, 64, &text, NULL) < 0)
        return otherwise;
    int n = atoi(text);

    return n < 0 ? otherwise : n; /* some virtual machines say -1 */
}

static int compare(const void *a, const void *b)
{
    const struct rg_cpu *x = a, *y = b;

    if (x->socket != y->socket)
        return x->socket < y->socket ? -1 : 1;
    if (x->core != y->core)
        return x->core < y->core ? -1 : 1;
    return x->cpu - y->cpu;
}

int rg_cpus_make(const char *root, const int *cpus, int count, struct rg_cpus *ret_cpus)
{
    struct rg_cpu *v = calloc((size_t) count + 1, sizeof *v);
    int ncores = 0, nsockets = 0;

    if (!v)
        return -ENOMEM;
    for (int i = 0; i < count; i++) {
        int core = read_number(root, cpus[i], "core_id", cpus[i]);
        v[i] = (struct rg_cpu){ cpus[i], core,
                                read_number(root, cpus[i], "physical_package_id", 0) };
    }
    qsort(v, (size_t) count, sizeof *v, compare);
    for (int i = 0; i < count; i++) {
        bool socket = i == 0 || v[i].socket != v[i - 1].socket;
        nsockets += socket;
        ncores += socket || v[i].core != v[i - 1].core;
    }
    *ret_cpus = (struct rg_cpus){ v, count, ncores, nsockets };
    return 0;
}

int rg_cpus_read(const char *root, struct rg_cpus *ret_cpus)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    rg_autofree int *cpus = calloc(CPUS_MAX, sizeof *cpus);
    size_t nbytes = CPU_ALLOC_SIZE(CPUS_MAX);
    int count = 0, rc = -ENOMEM;

    if (set && cpus)
        rc = sched_getaffinity(0, nbytes, set) < 0 ? -errno : 0;
    for (int i = 0; rc == 0 && i < CPUS_MAX; i++) {
        if (CPU_ISSET_S(i, nbytes, set))
            cpus[count++] = i;
    }
    CPU_FREE(set);
    return rc < 0 ? rc : rg_cpus_make(root, cpus, count, ret_cpus);
}

void rg_cpus_fini(struct rg_cpus *cpus)
{
    free(cpus->v);
    *cpus = (struct rg_cpus){ 0 };
}

int *rg_cpus_pick(const struct rg_cpus *cpus, int by_socket, int index, int *ret_count)
{
    int total = by_socket ? cpus->nsockets : cpus->ncores;
    int *picked = calloc((size_t) cpus->count + 1, sizeof *picked);
    int at = -1, count = 0;

    for (int i = 0; picked && total && i < cpus->count; i++) {
        const struct rg_cpu *c = &cpus->v[i];
        bool next = i == 0 || c->socket != c[-1].socket || (!by_socket && c->core != c[-1].core);
        at += next;
        if (at == index % total)
            picked[count++] = c->cpu;
    }
    if (picked)
        *ret_count = count;
    return picked;
}
