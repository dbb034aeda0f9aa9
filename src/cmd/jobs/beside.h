/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that runs beside the head of a job, where a platform has put that, and asks it for us:
 * `reigen-agent ask` (head/ask.h), which the platform's own program starts there and leads to our
 * pipes. The first line that it says on standard error is for the user when it has ended; no more
 * than that is kept.
 *
 * Thread rule: the loop's thread. Nothing blocks, but that starting waits for exec.
 */
#ifndef RG_CMD_JOBS_BESIDE_H
#define RG_CMD_JOBS_BESIDE_H

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"

#define RG_JOBS_BESIDE_END_MS 400 /* for who has no reason for another */

struct rg_jobs_beside;

/* Start these words. end_ms: how long the program has to end once it is asked nothing more, and
 * again after SIGTERM. 0 or -errno with err. */
int rg_jobs_beside_create(struct rg_loop *loop, const struct rg_strv *words, uint64_t end_ms,
                          struct rg_jobs_beside **ret_beside, struct rg_error *err);
/* End it, which blocks for up to twice end_ms where it hangs, or writes on. NULL is fine. */
void rg_jobs_beside_destroy(struct rg_jobs_beside *beside);

/* Ask for the page that begins with this rank. A descriptor, which stays its own, that can be read
 * once there is something of the answer; or -errno. */
int rg_jobs_beside_ask(struct rg_jobs_beside *beside, unsigned from);
/* Append the answer. 0; -EAGAIN: it is not whole; -ECONNRESET: the program has ended, or -errno. */
int rg_jobs_beside_take(struct rg_jobs_beside *beside, struct rg_buf *answer);
/* After -ECONNRESET: what that means, a line; the caller's. NULL: no memory. */
char *rg_jobs_beside_verdict(struct rg_jobs_beside *beside, const char *id);

#endif
