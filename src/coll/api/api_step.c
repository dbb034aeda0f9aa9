/* SPDX-License-Identifier: Apache-2.0 */
/* What the program says of itself, for whoever wants to know how far it is: its steps, and that it
 * ends by an error. */
#include "coll/api/api.h"
#include "coll/chaos/chaos.h"

/* Its rank. */
static int count_step(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    if (!rt)
        return rg_api_uninitialised();
    rg_numbers_step(rt->progress);
    return rt->team->rank;
}

/* A process that stands still in a step is not inside. */
REIGEN_API int reigen_step(void)
{
    int rank = count_step();

    if (rank < 0)
        return rank;
    rg_chaos_step(rank);
    return 0;
}

REIGEN_API int reigen_failing(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    if (!rt)
        return rg_api_uninitialised();
    atomic_store(&rt->progress->view.rows[rt->progress->view.me].fails, 1);
    return 0;
}
