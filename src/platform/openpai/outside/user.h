/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver as the user's computer has it: a REST server is asked (server/server.h). The functions
 * are driver.h's, under its rules; internal.h says which file has which.
 */
#ifndef RG_PLATFORM_OPENPAI_OUTSIDE_USER_H
#define RG_PLATFORM_OPENPAI_OUTSIDE_USER_H

#include "job/options/options.h"
#include "launch/host/driver.h"
#include "launch/plan/plan_file.h"

/* The options, ended by one without a name. */
extern const struct rg_option pai_options[];

/* The tasks that the job is to have, by its options or its file, as hosts. */
int pai_discover(void *held, struct rg_job *job, struct rg_error *err);

/* The queue. */
int pai_describe(struct rg_planned *planned, struct rg_buf *text, struct rg_error *err);
int pai_submit(const struct rg_job *job, char *const *argv, struct rg_submitted_job *ret_job,
               struct rg_error *err);
int pai_status(struct rg_submitted_job *jobs, size_t count, struct rg_error *err);
int pai_cancel(struct rg_submitted_job *job, struct rg_error *err);
int pai_find(struct rg_submitted_job *job, const char *url, const char *user,
             struct rg_strv *hosts, struct rg_error *err);
int pai_logs(const struct rg_submitted_job *job, bool follow, int fd,
             void (*on_say)(void *arg, const char *text), struct rg_error *err);

/* A job that is stayed with until it has ended. */
int pai_follow(const struct rg_follow_options *options, void **ret_state, struct rg_error *err);
void pai_end(void *state);
void pai_unfollow(void *state);

#endif
