/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/planes/planes.h"

#include "coll/ground/config.h"

const struct rg_plane_entry rg_planes[RG_NPLANES] = {
    { &rg_plane_shm, RG_PLANE_SHM, 1u << RG_SCOPE_NODE },
    { &rg_plane_tcp, RG_PLANE_TCP, 1u << RG_SCOPE_LEADERS | 1u << RG_SCOPE_ALL },
    { &rg_plane_mpi, RG_PLANE_MPI, 1u << RG_SCOPE_LEADERS | 1u << RG_SCOPE_ALL },
};
