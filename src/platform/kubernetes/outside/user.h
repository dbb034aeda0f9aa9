/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver as the user's computer has it, or a notebook: a cluster is asked by transport.h. The
 * functions are driver.h's, under its rules; internal.h says which file has which.
 */
#ifndef RG_PLATFORM_KUBERNETES_OUTSIDE_USER_H
#define RG_PLATFORM_KUBERNETES_OUTSIDE_USER_H

#include "launch/host/driver.h"
#include "launch/plan/plan_file.h"
#include "job/options/options.h"

/* The options, ended by one without a name. */
extern const struct rg_option kube_options[];

/* The pods that the job is to have, by its options, as hosts: NAME-0, NAME-1, ... A job without a
 * name gets one. */
#ifndef RG_AGENT
int kube_discover(void *held, struct rg_job *job, struct rg_error *err);
#endif
/* The queue. */
int kube_describe(struct rg_planned *planned, struct rg_buf *text, struct rg_error *err);
int kube_outlook(const struct rg_planned *planned, struct rg_outlook *outlook,
                 struct rg_error *err);
int kube_submit(const struct rg_job *job, char *const *argv, struct rg_submitted_job *ret_job,
                struct rg_error *err);
int kube_status(struct rg_submitted_job *jobs, size_t count, struct rg_error *err);
int kube_cancel(struct rg_submitted_job *job, struct rg_error *err);
int kube_logs(const struct rg_submitted_job *job, bool follow, int fd,
              void (*on_say)(void *arg, const char *text), struct rg_error *err);
int kube_beside(const struct rg_submitted_job *job, char *const *argv, struct rg_strv *words,
                struct rg_error *err);
/* A job that is stayed with. */
int kube_find(struct rg_submitted_job *job, const char *ns, const char *context,
              struct rg_strv *hosts, struct rg_error *err);
int kube_follow(const struct rg_follow_options *options, void **ret_state, struct rg_error *err);
void kube_end(void *state);
void kube_unfollow(void *state);

#endif
