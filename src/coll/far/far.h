/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduces between nodes in one exchange: the leaders send each other data at once, without
 * agreeing first, as they know already what a number stands for (negotiate/order.h gives the
 * numbers, and says when they may be used so, and by which way, enum rg_direct_way).
 *
 * By recursive doubling among as many leaders as the greatest power of two; the others are folded
 * into neighbours (as in the tcp plane, with the same bits). Or, among few leaders, in one or two
 * shots (far_shots.c), which add in the same order. Whoever has the result knows that every leader
 * has sent its part: an operation that is done somewhere gets done everywhere, and one that a
 * leader has not begun, and will not begin, is done nowhere and can be dropped by all.
 *
 * The uses of a number are counted: each frame says of which use it is. A frame that comes before
 * its use has begun here is kept; one of a use that is over is skipped.
 *
 * Frames are those of far_frame.h. A folded leader that has not come is called, as it may not know
 * of this use (on_early).
 *
 * Sockets are opened when they are first needed (links/links.h). What a socket does not take at
 * once is copied, so an operation never waits for its own frames to leave.
 *
 * Thread rule: under the progress engine's drive lock. Nothing blocks but rg_far_destroy.
 */
#ifndef RG_COLL_FAR_FAR_H
#define RG_COLL_FAR_FAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "coll/far/far_frame.h"
#include "coll/far/far_op.h"
#include "coll/ground/types.h"
#include "coll/team/team.h"

struct rg_far;

/* team: borrowed, as its leaders' addresses and its listener. events is copied. 0 or -ENOMEM. */
int rg_far_create(const struct rg_team *team, const struct rg_far_events *events,
                  struct rg_far **ret_far);
/* Sends what is still to be sent, for at most timeout_ms, and closes. NULL is fine. */
void rg_far_destroy(struct rg_far *far, int timeout_ms);
/* In a forked child: closes descriptors only. Async-signal-safe. */
void rg_far_after_fork(struct rg_far *far);
/* Operations of this way will come soon: connect meanwhile. */
void rg_far_connect(struct rg_far *far, uint8_t way);

/* The next use of this number is seq, and goes this way; those before are over. Of a shot among
 * more than RG_DIRECT_SHOTS_MAX: -EINVAL. 0 or -ENOMEM. */
int rg_far_expect(struct rg_far *far, uint32_t id, uint32_t seq, uint8_t way);
/* Begin; seq is what rg_far_expect said last. One operation of a number at a time. What is to be
 * sent goes with the next rg_far_progress. 0 or -ENOMEM. */
int rg_far_post(struct rg_far *far, struct rg_far_op *op);
/* Give an operation up that cannot end any more: its use is void at all leaders. */
void rg_far_drop(struct rg_far *far, struct rg_far_op *op);
/* Give all of them up: nothing is sent or received any more. */
void rg_far_abort(struct rg_far *far);
/* on_early for each use that another leader has begun and this one has not. */
void rg_far_tell_early(struct rg_far *far);

/* Something is left that the sockets did not take. */
bool rg_far_sends(const struct rg_far *far);
/* Receive what has come and go on; calls events. all: look at all sockets, and go on with dialling,
 * not only at those that operations in flight wait for. *ret_moved: whether there was anything. 0;
 * -ECONNRESET: a leader that is waited for has been gone for RG_FAR_LAST_WORDS_MS, so others had
 * the time to say why; -EPROTO: what came makes no sense; -ENOMEM, also where
 * another leader is too far ahead; all with err. */
int rg_far_progress(struct rg_far *far, bool all, bool *ret_moved, struct rg_error *err);
/* What to poll for while idle; at most max, returns how many. */
int rg_far_wait_fds(struct rg_far *far, int *ret_fds, unsigned *ret_events, int max);

#define RG_FAR_LAST_WORDS_MS 2000

/* For tests: the socket to a leader, by node; taken. 0, -ENOMEM, or -EINVAL: this one is no partner
 * of ours. */
int rg_far_adopt(struct rg_far *far, int node, int take_fd);

#endif
