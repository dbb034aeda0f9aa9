/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules over several options, once all are read; and the user's configuration, before them.
 *
 * Thread rule: a request belongs to one thread. rg_request_settle_programs blocks on a file, and
 * rg_request_configure on several.
 */
#ifndef RG_JOB_REQUEST_SETTLE_H
#define RG_JOB_REQUEST_SETTLE_H

#include "job/options/options.h"

/* Put the user's configuration into the request, if that is configured. 0 or -errno. */
int rg_request_configure(struct rg_request *request, struct rg_error *err);

/* Before all others, but with the command known: what only the configuration says, and has no place
 * on the platform that the job is on or together with what else is asked for, is dropped. */
void rg_request_settle_usual(struct rg_request *request);

/* Whether the platform takes the options of platforms that were given. 0 or -EINVAL. */
int rg_request_settle_platform(struct rg_request *request, struct rg_error *err);

/* Whether the caller has the variables that are handed on by name: one that is not set is noted
 * and dropped, as mpirun does; a shared one is an error. 0 or -errno. */
int rg_request_check_caller_env(struct rg_request *request, struct rg_error *err);

/* With --debug-rank no rank's time runs out: limits of the job, and what ranks are told of theirs
 * by variables. A limit that was given and does not count is noted. 0; -EINVAL
 * when --stdin gives the keys to another one; -ENOMEM. */
int rg_request_settle_debug(struct rg_request *request, struct rg_error *err);

/* Whether there are several programs, once the command is known, which has nwords words on the
 * command line; exact: "--" stood in front of it. 0 or -errno. */
int rg_request_settle_programs(struct rg_request *request, int nwords, bool exact,
                               struct rg_error *err);

/* What is left of the container's options when --container-runtime is none, and whether they go
 * together. 0 or -EINVAL. */
int rg_request_settle_container(struct rg_request *request, struct rg_error *err);

#endif
