/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step along the words of a command line: an option of ours, or a flag of another launcher
 * (job/request/launchers.h), with its values.
 *
 * Thread rule: any thread, one walk at a time. Nothing blocks.
 */
#ifndef RG_JOB_REQUEST_WALK_H
#define RG_JOB_REQUEST_WALK_H

#include "job/request/launchers.h"

#define RG_WALK_NAME_MAX 64

struct rg_walk {
    int argc;
    char *const *argv;
    int next;                       /* the word to look at */
    const struct rg_option *option; /* what was found there, or */
    const struct rg_foreign *foreign;
    const char *value, *second;     /* second: of two, else NULL. Borrowed from argv */
    char what[RG_WALK_NAME_MAX + 4]; /* the option as the user wrote it */
    const char *unknown;            /* the word that is no option, though it begins with a dash */
    bool exact;                     /* "--": what follows is one command, whatever is in it */
};

/* The option or flag at walk->next; NULL: the command begins there, or is missing. */
const char *rg_walk_look(struct rg_walk *walk);
/* Take so many values, 0 to 2, of the flag walk->what; the first one may be attached to it. called
 * names them in errors: "NAME VALUE". 0; -EINVAL with err. */
int rg_walk_values(struct rg_walk *walk, int nvalues, const char *attached, const char *called,
                   struct rg_error *err);
/* Take what stands at walk->next. 1; 0: the command begins there, or is missing; -EINVAL with err,
 * as rg_walk_take, or it is unknown. */
int rg_walk_next(struct rg_walk *walk, struct rg_error *err);
/* Take the flag that rg_flag_find found at walk->next, and its values; next is behind them. 0;
 * -EINVAL with err: it is one that is refused, or its values are too few or too many. */
int rg_walk_take(struct rg_walk *walk, const struct rg_flag *flag, struct rg_error *err);
/* Put what was taken into the request. 0 or -errno with err, as rg_option_apply. */
int rg_walk_apply(const struct rg_walk *walk, struct rg_request *request, struct rg_error *err);

#endif
