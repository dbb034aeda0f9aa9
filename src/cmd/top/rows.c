/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are equal stand by rank, or by host as the launcher lists them: none jumps about. */
#include "cmd/top/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sorted {
    const struct rg_top_numbers *n;
    int index;
};

const char *rg_top_key_name(enum rg_top_key key)
{
    static const char *const names[RG_TOP_KEYS] = {
        [RG_TOP_BY_CAUSING] = "causes", [RG_TOP_BY_CPU] = "cpu",   [RG_TOP_BY_MEMORY] = "memory",
        [RG_TOP_BY_STEPS] = "steps",    [RG_TOP_BY_RANK] = "rank",
    };

    return names[key];
}

static double key_of(const struct rg_top_numbers *n, enum rg_top_key key)
{
    switch (key) {
    case RG_TOP_BY_CAUSING: return n->causing;
    case RG_TOP_BY_CPU: return n->cpu;
    case RG_TOP_BY_MEMORY: return n->resident;
    case RG_TOP_BY_STEPS: return -n->steps;
    default: return 0;
    }
}

static int compare(const void *a, const void *b, void *key)
{
    const struct sorted *x = a, *y = b;
    double p = key_of(x->n, *(const enum rg_top_key *) key);
    double q = key_of(y->n, *(const enum rg_top_key *) key);

    return p > q ? -1 : p < q ? 1 : x->index - y->index;
}

static size_t collect_hosts(const struct rg_top_reading *reading, struct sorted *all)
{
    size_t count = 0;

    for (size_t h = 0; h < reading->nhosts; h++) {
        if (reading->hosts[h].nranks)
            all[count++] = (struct sorted){ &reading->hosts[h].n, (int) h };
    }
    return count;
}

static size_t collect_ranks(const struct rg_top_reading *reading, const char *host,
                            struct sorted *all)
{
    size_t count = 0;

    for (size_t i = 0; i < reading->nranks; i++) {
        const struct rg_top_rank *rank = &reading->ranks[i];
        const char *name = rank->host < 0 ? NULL : reading->hosts[rank->host].name;
        if (!host || (name && strcmp(name, host) == 0))
            all[count++] = (struct sorted){ &rank->n, (int) i };
    }
    return count;
}

static bool is_folded(const struct rg_top_reading *reading, const struct rg_top_view *view,
                      size_t room)
{
    size_t nhosts = 0;

    for (size_t h = 0; h < reading->nhosts; h++)
        nhosts += reading->hosts[h].nranks > 0;
    return !view->host && nhosts > 1 && view->fold != RG_TOP_UNFOLD &&
           (view->fold == RG_TOP_FOLD || reading->nranks > room);
}

int rg_top_rows_make(const struct rg_top_reading *reading, const struct rg_top_view *view,
                     size_t room, struct rg_top_rows *ret_rows)
{
    struct rg_top_rows rows = { .hosts = is_folded(reading, view, room) };
    size_t most = reading->nranks + reading->nhosts + 1;
    struct sorted *all = calloc(most, sizeof(*all));
    enum rg_top_key key = view->key;

    rows.index = calloc(most, sizeof(*rows.index));
    if (all && rows.index) {
        rows.count = rows.hosts ? collect_hosts(reading, all)
                                : collect_ranks(reading, view->host, all);
        qsort_r(all, rows.count, sizeof(*all), compare, &key);
        for (size_t i = 0; i < rows.count; i++)
            rows.index[i] = all[i].index;
    }
    int r = all && rows.index ? 0 : -ENOMEM;
    free(all);
    if (r < 0)
        free(rows.index);
    else
        *ret_rows = rows;
    return r;
}

void rg_top_rows_fini(struct rg_top_rows *rows)
{
    free(rows->index);
    *rows = (struct rg_top_rows){ 0 };
}
