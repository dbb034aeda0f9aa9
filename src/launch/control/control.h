/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a user's other commands speak with the launcher of a job while it runs: one question and one
 * answer on a unix socket, whose abstract name has the job's id. Nobody else gets
 * an answer, and no other user's process is believed: the kernel tells who it is.
 *
 * A question is struct rg_control_request, an answer an object of JSON without a newline: on
 * CONTROL_STATUS what docs/jobs.md says of the field `elastic` of reigen status --json; on
 * CONTROL_NUMBERS a page of the ranks' numbers (launch/numbers/numbers.h), of which the first says
 * also where the ranks are (session_numbers.h); on CONTROL_RECORD no JSON, but the path of the
 * record's folder where the launcher is; on CONTROL_DRAIN nothing, or the field `error` and
 * what belongs to it:
 *
 *     "no-host"  hosts: the names that there are
 *     "too-few"  has, needs: ranks that there would be room for, and --min-np; not with force
 *     "fixed"    the job is not elastic; on CONTROL_STATUS as well
 *     "version"  the two are of different versions of Reigen
 *     "unrecorded" the job has no record, or its folder is not there any more
 *     "too-long" the answer is larger than RG_CONTROL_ANSWER_MAX
 *
 * Thread rule: the loop's thread, in which nothing blocks; rg_control_ask blocks.
 */
#ifndef RG_LAUNCH_CONTROL_CONTROL_H
#define RG_LAUNCH_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"

#define RG_CONTROL_HOST_MAX 320          /* of USER@HOST */
#define RG_CONTROL_ANSWER_MAX (400 << 10) /* what the kernel takes in one piece: 4,000 hosts */

enum rg_control_question {
    RG_CONTROL_STATUS = 1,
    RG_CONTROL_DRAIN,
    RG_CONTROL_NUMBERS,
    RG_CONTROL_RECORD,
};

struct rg_control_request {
    enum rg_control_question question;
    char host[RG_CONTROL_HOST_MAX]; /* DRAIN: which one; STATUS: only of this one, or "" */
    uint64_t deadline_ms;           /* DRAIN: from now on, then its ranks are ended; 0: never */
    uint32_t from;                  /* NUMBERS: the first rank of the page */
    bool force;                     /* DRAIN: even if too few ranks are left */
};

/* Append the answer; an error of the buffer's ends the connection without one. */
typedef void rg_control_answer(void *arg, const struct rg_control_request *request,
                               struct rg_buf *answer);

struct rg_control;

/* Answer all questions about this job. 0; -EADDRINUSE: the name is taken; -errno. */
int rg_control_listen(struct rg_loop *loop, const char *job_id, rg_control_answer *answer,
                      void *arg, struct rg_control **ret_control);
void rg_control_close(struct rg_control *control); /* NULL is fine */

/* Ask the launcher of this job; the answer is appended. 0; -ECONNREFUSED: nobody listens, as the
 * job has ended or its head is an agent; -EPERM: somebody else does; -ETIMEDOUT: it does not
 * answer; or -errno. */
int rg_control_ask(const char *job_id, const struct rg_control_request *request,
                   uint64_t timeout_ms, struct rg_buf *answer);
/* The same for who has other things to do meanwhile; neither blocks. Ask: a descriptor for the
 * caller to close, which can be read once there is an answer or the job is gone; or -errno as
 * above. Take: the answer is appended. 0; -EAGAIN: it is not there yet; -ECONNRESET: the launcher
 * went away, or another question took the place of this one; -errno. */
int rg_control_begin(const char *job_id, const struct rg_control_request *request);
int rg_control_take(int fd, struct rg_buf *answer);

#endif
