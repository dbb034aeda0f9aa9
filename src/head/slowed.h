/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job that is over has waited for most of its time, where that was much.
 *
 * This header is internal to src/head. Thread rule: the loop's thread.
 */
#ifndef RG_HEAD_SLOWED_H
#define RG_HEAD_SLOWED_H

#include "head/show/presenter.h"
#include "launch/session/session.h"

/* Show the event, and append the line for people to words, unless they want none (NULL). session:
 * which has just ended; NULL is fine. */
void rg_head_slowed_tell(const struct rg_session *session, struct rg_presenter *shown,
                         struct rg_buf *words);

#endif
