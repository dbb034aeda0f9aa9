/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The visible table of data planes. A line says which groups a plane serves and by which bit of
 * rg_config.planes it may be used; which of several serves an operation is decided by score.
 * docs/planes.md tells how to add one.
 */
#ifndef RG_COLL_PLANES_PLANES_H
#define RG_COLL_PLANES_PLANES_H

#include "coll/planes/plane.h"

/* The groups that exec.c composes operations of. */
enum rg_plane_scope {
    RG_SCOPE_NODE,    /* the ranks of one node, by node rank */
    RG_SCOPE_LEADERS, /* one rank of each node, by node */
    RG_SCOPE_ALL,     /* all ranks, where there are several nodes */
    RG_NSCOPES
};

struct rg_plane_entry {
    const struct rg_plane_ops *ops;
    unsigned flag;   /* RG_PLANE_* */
    unsigned scopes; /* bits 1 << RG_SCOPE_* */
};

enum { RG_NPLANES = 3 };
extern const struct rg_plane_entry rg_planes[RG_NPLANES];

#endif
