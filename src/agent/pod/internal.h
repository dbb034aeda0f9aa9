/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share.
 *
 * Thread rule: main thread.
 */
#ifndef RG_AGENT_POD_INTERNAL_H
#define RG_AGENT_POD_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "launch/plan/plan_file.h"
#include "platform/common/pod.h"

/* One JSON object with exit_code, cause, and fault, whether it is this pod that could not do its
 * part, into pod->words; nothing for code 0. */
void rg_pod_leave_words(const struct rg_pod *pod, int code, bool fault, const char *text);
/* Tell err, in the log and in words. Its exit code. */
int rg_pod_fail(const struct rg_pod *pod, const struct rg_error *err);
/* It is started no more, as pods were lost so often: -errno with exit code 76. */
int rg_pod_give_up(int nlost, struct rg_error *err);

/* Until the head answers, for limit_ms from begin_ns on (0: there is no limit, and the log says
 * what is in the way), or until watched_fd (-1: none) has something to read. The socket; -ETIMEDOUT
 * with exit code 124; -EINTR: watched_fd. key is read anew for each call. */
int rg_pod_call(const struct rg_pod *pod, uint8_t key[RG_KEY_NBYTES], uint64_t begin_ns,
                uint64_t limit_ms, int watched_fd, struct rg_error *err);

/* Do what the plan has for this pod, which is not the head's: one start of the job, or, where there
 * is backoff_ms, start after start. The exit code, or -errno. */
int rg_pod_work(const struct rg_pod *pod, const struct rg_planned *planned, struct rg_error *err);
/* Job after job. The exit code: 75, told to stop; 0: the head's task is over; or -errno. */
int rg_pod_wait(const struct rg_pod *pod, struct rg_error *err);

/* A process 1 ignores what it does not handle: SIGTERM ends it with code 75. */
void rg_pod_obey(void);

#endif
