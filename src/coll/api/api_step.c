/* SPDX-License-Identifier: Apache-2.0 */
/* Steps, which the program counts for whoever wants to know how far it is. */
#include "coll/api/api.h"
#include "coll/chaos/chaos.h"

static int own_rank(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    return rt ? rt->team->rank : rg_api_uninitialised();
}

/* A process that stands still in a step is not inside. */
REIGEN_API int reigen_step(void)
{
    int rank = own_rank();

    if (rank < 0)
        return rank;
    rg_chaos_step(rank);
    return 0;
}
