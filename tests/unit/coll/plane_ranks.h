/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks (ranks.h) that reduce through the progress engine, over a table of planes that the test
 * gives: what the test of one plane needs, whatever the plane moves data with.
 */
#ifndef TEST_COLL_PLANE_RANKS_H
#define TEST_COLL_PLANE_RANKS_H

#include "coll/api/api.h"
#include "coll/planes/planes.h"
#include "coll/ranks.h"

/* One rank's; zeroed before it is opened. */
struct plane_ranks {
    struct rg_boot *boot;
    struct rg_team *team;
    struct rg_plane_choice planes;
    struct rg_progress *progress; /* NULL after plane_ranks_team */
};

/* The team alone, with the planes that REIGEN_PLANES=names allows. 0 or -errno, printed. */
int plane_ranks_team(struct rank *rank, const struct rg_plane_ops *const *table, const char *names,
                     struct plane_ranks *ranks);
/* The same, and a progress engine. */
int plane_ranks_open(struct rank *rank, const struct rg_plane_ops *const *table, const char *names,
                     struct plane_ranks *ranks);
void plane_ranks_close(struct plane_ranks *ranks);

/* An allreduce of float32 by `op` (REIGEN_SUM), in place. Its status, or -errno; ret_text: why. */
int plane_ranks_allreduce(struct plane_ranks *ranks, const char *name, int op, float *data,
                          int64_t count, int memory, char ret_text[RG_ERROR_TEXT_MAX]);
/* Sum count floats that differ by place and rank. 0, or 1 with a report when that is not right. */
int plane_ranks_check_sum(struct rank *rank, struct plane_ranks *ranks, const char *name,
                          int64_t count);

#endif
