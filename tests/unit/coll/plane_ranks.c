/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/plane_ranks.h"

#include <stdio.h>
#include <stdlib.h>

#include "coll/boot/find/find.h"

static struct rg_boots boots; /* of this process */

int plane_ranks_team(struct rank *rank, const struct rg_plane_ops *const *table, const char *names,
                     struct plane_ranks *ranks)
{
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_planes_choose(table, names, &ranks->planes, &err);

    snprintf(rank->config.planes, sizeof(rank->config.planes), "%s", names);
    if (r == 0)
        r = rg_boot_open(&boots, &rank->config, ranks_deadline(), &ranks->boot, &err);
    if (r == 0)
        r = rg_progress_team(ranks->boot, &rank->config, &ranks->planes, ranks_deadline(),
                             &ranks->team, &err);
    if (r < 0)
        fprintf(stderr, "rank %d: %s\n", rank->me, err.text);
    return r;
}

int plane_ranks_open(struct rank *rank, const struct rg_plane_ops *const *table, const char *names,
                     struct plane_ranks *ranks)
{
    struct rg_progress_options options = { .config = &rank->config, .planes = &ranks->planes };
    struct rg_error err = RG_ERROR_INIT;
    int r = plane_ranks_team(rank, table, names, ranks);

    if (r < 0)
        return r;
    options.team = ranks->team;
    options.deadline_ns = ranks_deadline();
    r = rg_progress_create(&options, &ranks->progress, &err);
    if (r < 0)
        fprintf(stderr, "rank %d: %s\n", rank->me, err.text);
    return r;
}

void plane_ranks_close(struct plane_ranks *ranks)
{
    if (ranks->progress)
        rg_progress_destroy(ranks->progress, 0, NULL);
    rg_team_destroy(ranks->team);
    rg_boot_close(ranks->boot, true);
}

int plane_ranks_allreduce(struct plane_ranks *ranks, const char *name, int op, float *data,
                          int64_t count, int memory, char ret_text[RG_ERROR_TEXT_MAX])
{
    const void *in = data;
    void *out = data;
    const int64_t *shape = &count;
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    int ndim = 1, r;
    struct rg_op *submitted = NULL;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_call call = { .kind = REIGEN_ALLREDUCE, .n = 1, .names = &name, .ins = &in,
                            .outs = &out, .dtype = REIGEN_FLOAT32, .shapes = &shape,
                            .ndims = &ndim, .options = &options, .memory = memory };

    options.op = op;
    r = rg_call_submit(ranks->progress, &call, NULL, &submitted, &err);
    snprintf(ret_text, RG_ERROR_TEXT_MAX, "%s", err.text);
    if (r < 0)
        return r;
    r = rg_progress_wait(ranks->progress, submitted, ranks_deadline());
    if (r == 0)
        r = submitted->status;
    if (submitted->text)
        snprintf(ret_text, RG_ERROR_TEXT_MAX, "%s", submitted->text);
    rg_op_unref(submitted);
    return r;
}

int plane_ranks_check_sum(struct rank *rank, struct plane_ranks *ranks, const char *name,
                          int64_t count)
{
    float *data = malloc((size_t) count * sizeof(float));
    char text[RG_ERROR_TEXT_MAX];
    int bad, n = rank->n;

    for (int64_t i = 0; i < count; i++)
        data[i] = (float) (i % 1000 + rank->me);
    bad = ranks_check(rank, plane_ranks_allreduce(ranks, name, REIGEN_SUM, data, count,
                                                  RG_MEMORY_HOST, text) == 0);
    for (int64_t i = 0; i < count && !bad; i++)
        bad |= ranks_check(rank, data[i] == (float) (i % 1000 * n + n * (n - 1) / 2));
    free(data);
    return bad;
}
