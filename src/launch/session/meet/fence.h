/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks' meeting point: collects one blob per rank and says when the last has come, or why it
 * never will.
 *
 * A rank waits in at most one fence at a time. All must come with the same generation (their count
 * of fences): anything else means that the ranks run different programs. A rank that has ended
 * cannot come any more, so whoever waits then is told so at once.
 *
 * No I/O, no clock of its own: the session feeds it and acts on what it returns. Thread rule: one
 * thread.
 */
#ifndef RG_LAUNCH_SESSION_MEET_FENCE_H
#define RG_LAUNCH_SESSION_MEET_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct rg_fence;

/* 0 or -ENOMEM. */
int rg_fence_create(int nranks, struct rg_fence **ret_fence);
void rg_fence_destroy(struct rg_fence *fence); /* NULL is fine */

/* rank has come, and waits until deadline_ns at the longest. The blob is copied. A rank that comes
 * again before the fence is complete (a fresh process of it) replaces its blob. Returns
 *   0            others are still missing
 *   1            complete: fetch the blobs with rg_fence_take, which ends this fence
 *   -ECONNRESET  a rank has ended before it came; -ECANCELED: other generation; -EMSGSIZE: the
 *                blobs are more than RG_FENCE_NBYTES_MAX; -EINVAL: no such rank; -ENOMEM.
 * After a failure the fence is empty: all who waited must be told err. */
int rg_fence_arrive(struct rg_fence *fence, int rank, uint32_t generation, uint64_t deadline_ns,
                    const void *blob, size_t nbytes, struct rg_error *err);

/* The blobs in order of rank (u32 length, bytes), appended to buf; the generation is returned. */
uint32_t rg_fence_take(struct rg_fence *fence, struct rg_buf *buf);

/* rank has ended; how is for the text ("exit code 0"). 0, or -ECONNRESET with err when others wait
 * in the fence: it is empty then. */
int rg_fence_rank_ended(struct rg_fence *fence, int rank, const char *how, struct rg_error *err);

/* The earliest deadline of those who wait, or RG_NEVER_NS. */
uint64_t rg_fence_deadline_ns(const struct rg_fence *fence);

/* How many wait, and for which generation; and whether this rank is one of them. */
int rg_fence_nwaiting(const struct rg_fence *fence, uint32_t *ret_generation);
bool rg_fence_waits(const struct rg_fence *fence, int rank);

/* The deadline has passed: returns -ETIMEDOUT with err naming who is missing, and empties the
 * fence; 0 when nobody waits. */
int rg_fence_expire(struct rg_fence *fence, struct rg_error *err);

#endif
