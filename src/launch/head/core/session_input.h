/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard input on its way to the hosts whose ranks read it, each under its own
 * credit: the slowest one sets the pace.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_CORE_SESSION_INPUT_H
#define RG_LAUNCH_HEAD_CORE_SESSION_INPUT_H

#include "launch/head/core/session_core.h"

extern const struct session_part session_input_part;

/* All hosts together hold at most RG_INPUT_MEMORY of it here and on the way, or RG_INPUT_LEAST each
 * where that is more. */
#define RG_INPUT_MEMORY (64u << 20)
#define RG_INPUT_LEAST (256u << 10)

/* As rg_session_input. */
int session_input_put(struct rg_session *session, const void *data, size_t nbytes);
/* The ranks have been told to start. */
void session_input_start(struct rg_session *session);
/* A host takes so many bytes more. 0, or -EBADMSG: it broke the rules. */
int session_on_input_credit(struct session_host *host, uint64_t nbytes);
/* Its ranks take no more. */
void session_on_input_closed(struct session_host *host);
/* A host may take no more: tell the owner if it waits for that. */
void session_input_go_on(struct rg_session *session);

#endif
