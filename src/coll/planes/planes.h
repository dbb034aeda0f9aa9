/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The visible table of data planes, which of them this process may use, and what they tell the
 * other ranks before there is a team. Which one serves an operation is decided by score
 * (scopes.h). docs/planes.md tells how to add one.
 *
 * Thread rule: the thread in reigen_init; rg_planes is constant.
 */
#ifndef RG_COLL_PLANES_PLANES_H
#define RG_COLL_PLANES_PLANES_H

#include "coll/planes/plane.h"

typedef const struct rg_plane_ops *const rg_plane_table[]; /* ends with NULL */

enum { RG_NPLANES_MAX = 16 };

extern rg_plane_table rg_planes;

/* The planes that there are and those that may be used; bits are places in the table. */
struct rg_plane_choice {
    const struct rg_plane_ops *const *table;
    unsigned allowed, insisted;
};

/* By the value of REIGEN_PLANES, "": as each plane says. 0, or -EINVAL with err. */
int rg_planes_choose(const struct rg_plane_ops *const *table, const char *names,
                     struct rg_plane_choice *ret_choice, struct rg_error *err);
/* A way past exec for operations inside a node, which competes with the planes by its score. */
struct rg_shortcut {
    const char *name;
    int (*score)(const struct rg_plane_task *task); /* as a plane's */
};

/* What planes are opened with; all is borrowed but the choice itself. */
struct rg_planes_options {
    struct rg_team *team;
    const struct rg_config *config;
    const struct rg_plane_choice *planes;
    void *region;                       /* rg_planes_region_nbytes shared by the node's ranks */
    const struct rg_shortcut *shortcut; /* NULL: none */
};

/* Whether ranks of one host are to be made one node: some plane that may be used serves nodes. */
bool rg_planes_serve_nodes(const struct rg_plane_choice *choice);
/* Each plane's `prepare`. */
void rg_planes_prepare(const struct rg_plane_choice *choice);
/* What all planes of this rank offer, for the team to carry to the others. 0 or -errno. */
int rg_planes_offer(const struct rg_plane_choice *choice, const struct rg_config *config, int rank,
                    int size, struct rg_buf *offer, struct rg_error *err);
/* One plane's part of a rank's offer; empty where it has none. It lies in the offer. 0, or -EBADMSG
 * when this is no offer. */
int rg_planes_find_offer(const struct rg_blob *offer, const char *name, struct rg_blob *ret_part);

/* Where the parts of a node's shared memory begin. */
#define RG_REGION_ALIGN 4096
size_t rg_plane_region_nbytes(const struct rg_plane_ops *ops, int node_size);
/* Of all planes of a table. */
size_t rg_planes_region_nbytes(const struct rg_plane_ops *const *table, int node_size);

#endif
