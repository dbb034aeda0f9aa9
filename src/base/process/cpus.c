/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel, Slurm and people write sets of cpus as "0-3,8". */
#include "base/process/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define CPUS_MAX 8192
#define LIST_MAX 65536 /* bytes of a list of the kernel's */

static int read_number(const char *root, int cpu, const char *name, int otherwise)
{
    char path[512];
    rg_autofree char *text = NULL;

    snprintf(path, sizeof path, "%s/cpu%d/topology/%s", root, cpu, name);
    if (rg_read_file(path, LIST_MAX, &text, NULL) < 0)
        return otherwise;
    int n = atoi(text); /* of a list, its first */

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
        int core = read_number(root, cpus[i], "thread_siblings_list", cpus[i]);
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

/* An array of the numbers, the caller's. */
static int read_affinity(int **ret_cpus, int *ret_count)
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
    if (rc < 0)
        return rc;
    *ret_cpus = rg_steal_ptr(&cpus);
    *ret_count = count;
    return 0;
}

int rg_cpus_read(const char *root, struct rg_cpus *ret_cpus)
{
    rg_autofree int *cpus = NULL;
    int count = 0;
    int rc = read_affinity(&cpus, &count);

    return rc < 0 ? rc : rg_cpus_make(root, cpus, count, ret_cpus);
}

void rg_cpus_fini(struct rg_cpus *cpus)
{
    free(cpus->v);
    *cpus = (struct rg_cpus){ 0 };
}

int *rg_cpus_pick(const struct rg_cpus *cpus, bool by_socket, int index, int *ret_count)
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

char *rg_cpus_text(const int *numbers, int count)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    for (int i = 0; i < count; i++) {
        int last = i;
        while (last + 1 < count && numbers[last + 1] == numbers[last] + 1)
            last++;
        rg_buf_printf(&text, last > i ? "%s%d-%d" : "%s%d", i ? "," : "", numbers[i],
                      numbers[last]);
        i = last;
    }
    return rg_buf_status(&text) < 0 ? NULL : strdup(rg_buf_text(&text));
}

char *rg_cpus_limit(const char *root)
{
    rg_autofree char *path = rg_strf("%s/online", root);
    rg_autofree char *online = NULL, *ours = NULL;
    rg_autofree int *cpus = NULL;
    int count = 0;

    if (!path || rg_read_file(path, LIST_MAX, &online, NULL) < 0 ||
        read_affinity(&cpus, &count) < 0)
        return NULL;
    online[strcspn(online, "\n")] = '\0';
    ours = rg_cpus_text(cpus, count);
    return ours && strcmp(ours, online) != 0 ? rg_steal_ptr(&ours) : NULL;
}
