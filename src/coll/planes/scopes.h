/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planes that are open, by the group over which they are, and the choice among them: the score
 * table. exec.c composes operations over them.
 *
 * Thread rule: a plane's.
 */
#ifndef RG_COLL_PLANES_SCOPES_H
#define RG_COLL_PLANES_SCOPES_H

#include "coll/planes/planes.h"

/* A plane over one group. */
struct rg_opened {
    const struct rg_plane_ops *ops;
    void *state;
    int number; /* its place in the table */
    _Atomic bool wired, refused; /* what has come of its late wiring */
};

struct rg_scope {
    struct rg_group group;
    bool member;                /* whether this rank is in the group */
    struct rg_opened opened[RG_NPLANES_MAX]; /* in the order of the table */
    int nopened;
    struct rg_error refusal; /* why a plane here is refused, "": none is */
};

struct rg_scopes {
    struct rg_plane_choice planes; /* what may be used */
    const struct rg_shortcut *shortcut; /* NULL: none */
    struct rg_scope scopes[RG_NSCOPES];
    /* Why a plane that was asked for cannot be used, "": it can; and its place in the table. */
    struct rg_error remark;
    int remarked;
};

/* Open what may be used over each group that this rank is in. 0 or -errno with err; to be closed in
 * both cases. */
int rg_scopes_open(struct rg_scopes *scopes, const struct rg_planes_options *options,
                   struct rg_error *err);
void rg_scopes_close(struct rg_scopes *scopes, int timeout_ms);

/* The open planes one after another, from *index 0 on; NULL: no more. */
struct rg_opened *rg_scopes_next(struct rg_scopes *scopes, int *index);

/* The plane with the highest score that takes this memory and, if it is on one, a stream; NULL:
 * there is none. ret_score may be NULL. */
struct rg_opened *rg_scope_best(struct rg_scope *scope, const struct rg_plane_task *task,
                                bool on_stream, int *ret_score);

/* Whether it can be used at once, without wiring. */
static inline bool rg_opened_ready(const struct rg_opened *opened)
{
    return !opened->ops->late || opened->wired;
}

/* For people: which planes are open, and the score table. */
void rg_scopes_describe(const struct rg_scopes *scopes, struct rg_buf *text);
void rg_scopes_print(struct rg_scopes *scopes, struct rg_buf *text);
/* What the planes answer of reigen_mpi's bits. */
unsigned rg_scopes_mpi(const struct rg_scopes *scopes);

#endif
