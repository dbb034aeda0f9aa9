/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the ranks of this node are, while something stands still: one rank asks, each answers for
 * itself by its communication thread, in the node's shared memory. A rank that is stopped does not
 * answer, and nobody waits long for it. And what each tells the launcher, when a job is to end.
 *
 * Thread rule: any thread; rg_where_answer and rg_where_tell by the communication thread, which
 * reads a stack (stacks.h). Nothing else blocks.
 */
#ifndef RG_COLL_OBSERVE_WHERE_H
#define RG_COLL_OBSERVE_WHERE_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/ground/rest.h"

struct rg_progress;
struct rg_where;

#define RG_WHERE_MS 400 /* for all to answer */

/* A question that is under way. */
struct rg_where_question {
    uint64_t number, deadline_ns; /* 0: none */
};

/* Ask all ranks of the node, and wake them. */
void rg_where_ask(struct rg_progress *progress, struct rg_where_question *ret_question);
/* All have answered, or the time is over; true once, and false where nothing was asked. */
bool rg_where_is_over(const struct rg_progress *progress, struct rg_where_question *question);
/* If a rank has asked, say where this one is, and what has kept it from rest last. */
void rg_where_answer(struct rg_progress *progress, const struct rg_rest *rest);
/* If the launcher has asked, tell it where this rank is. By the communication thread. */
void rg_where_tell(struct rg_progress *progress);
/* The last answer of the r-th rank of the node, NULL: it has not answered the last question. Holds
 * until the next one. */
const struct rg_where *rg_where_of(const struct rg_progress *progress, int r);

#endif
