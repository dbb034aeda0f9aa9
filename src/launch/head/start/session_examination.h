/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hosts are like, when that is asked for.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_START_SESSION_EXAMINATION_H
#define RG_LAUNCH_HEAD_START_SESSION_EXAMINATION_H

#include "launch/head/core/session_core.h"
#include "launch/net/network.h"

int session_examination_create(struct rg_session *session); /* 0 or -ENOMEM */
void session_examination_destroy(struct rg_session *session);

/* All hosts have SETUP: look at them where that is wanted; then the ranks are started, or the job
 * ends with the reason. What connects the hosts, or why nothing does, is borrowed until destroy. */
void session_examine(struct rg_session *session, const struct rg_network *network,
                     const struct rg_error *network_err);
void session_on_clock(struct session_host *host, const struct rg_msg_clock *msg);
/* 0; -EBADMSG: nobody has asked; -ENOMEM. */
int session_on_inspected(struct session_host *host, struct rg_msg_inspected *take_msg);

#endif
