/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flags of other launchers: torchrun, mpirun, mpiexec.hydra, horovodrun, srun, accelerate and
 * deepspeed. What has a meaning here is an option of ours by another name; what is harmless is
 * ignored with a remark; what is not possible is an error that says what to use instead.
 * docs/launchers.md lists what they mean, and a test runs each of them.
 *
 * A flag is looked for among the options of `reigen run` first. An underscore in a name stands for
 * a dash. Numbers may be glued to short names (-n4, -N2), and hosts to -H (-Hnode1:4).
 *
 * Thread rule: constant tables; a request belongs to one thread. Nothing blocks but what
 * rg_request_parse does.
 */
#ifndef RG_JOB_REQUEST_LAUNCHERS_H
#define RG_JOB_REQUEST_LAUNCHERS_H

#include <stdbool.h>

#include "job/options/options.h"

/* One flag of theirs. */
struct rg_foreign {
    const char *names;  /* without dashes, separated by spaces */
    const char *option; /* the name of our option that it is; NULL: see below */
    /* How many values follow it: 0 to 2; one NAME=VALUE stands for two. -1: one may be attached. */
    int nvalues;
    /* Judge the values; used where option is NULL. NULL: the flag is refused with text. */
    int (*apply)(struct rg_request *request, const struct rg_foreign *flag, const char *what,
                 const char *value, const char *second, struct rg_error *err);
    /* Why it is ignored, or what to use instead; with option and nvalues 0: the value for it. */
    const char *text;
};

/* What an argument that begins with a dash is; both NULL: unknown. */
struct rg_flag {
    const struct rg_option *option;
    const struct rg_foreign *foreign;
    const char *attached;  /* the value in the same argument, or NULL */
    size_t name_nbytes;    /* of the argument: dashes and name */
};

/* Find out. arg: borrowed, not "-" and not "--". */
bool rg_flag_find(const char *arg, struct rg_flag *ret_flag);

/* Whether it changes nothing: all it leads to is a remark. */
bool rg_flag_is_idle(const struct rg_flag *flag);

/* Whether it sets one of MPI's parameters, of which nothing here has key, or NULL. */
bool rg_flag_is_vain(const struct rg_flag *flag, const char *key);

/* Carry out a flag of theirs. value and second: as many as nvalues says, else NULL. 0 or -errno
 * with err. */
int rg_foreign_apply(struct rg_request *request, const struct rg_foreign *flag, const char *what,
                     const char *value, const char *second, struct rg_error *err);

/* When all is read: what -N and --nnodes mean, now that the platform and the hosts are known, and
 * whether the command is one, and not the hosts whose -H is missing. 0;
 * -EINVAL, -ENOMEM with err. */
int rg_foreign_settle(struct rg_request *request, struct rg_error *err);

#endif
