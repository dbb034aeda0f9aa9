/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm an operation of the tcp plane takes: the model's, or the one that is wanted. */
#include "coll/planes/tcp/tcp.h"

#include <string.h>

#include "coll/ground/config.h"
#include "coll/team/team.h"

_Static_assert((int) RG_MODEL_ALLREDUCE == (int) RG_COLL_ALLREDUCE &&
               (int) RG_MODEL_REDUCE == (int) RG_COLL_REDUCE &&
               (int) RG_MODEL_BROADCAST == (int) RG_COLL_BROADCAST &&
               (int) RG_MODEL_ALLGATHER == (int) RG_COLL_ALLGATHERV &&
               (int) RG_MODEL_ALLTOALL == (int) RG_COLL_ALLTOALLV &&
               (int) RG_MODEL_REDUCESCATTER == (int) RG_COLL_REDUCESCATTERV,
               "one order of kinds");

void rg_tcp_way_init(struct rg_tcp_way *way, const struct rg_plane_options *options)
{
    int n = options->group.nmembers, nnodes = options->team->nnodes;

    *way = (struct rg_tcp_way){ .model = options->config->model };
    memcpy(way->wanted, options->config->algorithms, sizeof(way->wanted));
    /* Where hosts have unequal numbers of members, as if they were equal. */
    way->nhosts = n < nnodes ? n : nnodes;
    way->ranks_per_host = (n + way->nhosts - 1) / way->nhosts;
}

struct rg_model_choice rg_tcp_way_choose(struct rg_tcp_way *way, enum rg_coll_kind kind,
                                         size_t nbytes)
{
    const struct rg_model_task task = { (enum rg_model_kind) kind, way->nhosts,
                                        way->ranks_per_host, nbytes };

    if (!way->last[kind].known || way->last[kind].nbytes != nbytes) {
        way->last[kind].choice = rg_model_choose(&way->model, &task, way->wanted[kind]);
        way->last[kind].nbytes = nbytes;
        way->last[kind].known = true;
    }
    return way->last[kind].choice;
}
