/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks by their ranges, "0-3,8", as --ranks takes them. */
#include <limits.h>
#include <string.h>

#include "job/job.h"
#include "job/slurm.h"

#define RANGES_MAX 65536
#define RANGES_AT_ONCE 64

static int add_range(struct rg_ranks *ranks, int first, int last)
{
    if (ranks->count == RANGES_MAX)
        return -E2BIG;
    if (ranks->count % RANGES_AT_ONCE == 0) {
        void *more = reallocarray(ranks->range, ranks->count + RANGES_AT_ONCE,
                                  sizeof(*ranks->range));

        if (!more)
            return -ENOMEM;
        ranks->range = more;
    }
    ranks->range[ranks->count].first = first;
    ranks->range[ranks->count++].last = last;
    return 0;
}

static int compare_ranges(const void *a, const void *b)
{
    int x = *(const int *) a, y = *(const int *) b;

    return (x > y) - (x < y);
}

/* Sorted and disjoint, neighbours joined. */
static void normalise(struct rg_ranks *ranks)
{
    size_t kept = 0;

    if (!ranks->count)
        return;
    qsort(ranks->range, ranks->count, sizeof *ranks->range, compare_ranges);
    for (size_t i = 1; i < ranks->count; i++) {
        if (ranks->range[i].first > ranks->range[kept].last + 1)
            ranks->range[++kept] = ranks->range[i];
        else if (ranks->range[i].last > ranks->range[kept].last)
            ranks->range[kept].last = ranks->range[i].last;
    }
    ranks->count = kept + 1;
}

static int parse_ranges(const char *p, struct rg_ranks *ranks)
{
    for (;;) {
        int first, last, width, rc;
        if (rg_slurm_range(&p, &first, &last, &width) < 0 || last >= RG_JOB_RANKS_MAX)
            return -EINVAL;
        if ((rc = add_range(ranks, first, last)) < 0)
            return rc;
        if (!*p)
            return 0;
        if (*p++ != ',')
            return -EINVAL;
    }
}

int rg_ranks_parse(const char *text, struct rg_ranks *ret_ranks, struct rg_error *err)
{
    struct rg_ranks ranks = { 0 };
    int rc = parse_ranges(text, &ranks);

    if (rc < 0) {
        rg_ranks_fini(&ranks);
        if (rc == -ENOMEM)
            return rg_error_memory(err);
        return rg_error_set(err, EINVAL, "\"%s\" is not a set of ranks; write for example 0,3-5",
                            text);
    }
    normalise(&ranks);
    *ret_ranks = ranks;
    return 0;
}

bool rg_ranks_has(const struct rg_ranks *ranks, int rank)
{
    for (size_t i = 0; i < ranks->count; i++) {
        if (rank >= ranks->range[i].first && rank <= ranks->range[i].last)
            return true;
    }
    return ranks->count == 0;
}

void rg_ranks_fini(struct rg_ranks *ranks)
{
    free(ranks->range);
    *ranks = (struct rg_ranks){ 0 };
}
