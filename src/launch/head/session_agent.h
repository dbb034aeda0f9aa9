/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One host's agent: its link, its messages, its loss.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_SESSION_AGENT_H
#define RG_LAUNCH_HEAD_SESSION_AGENT_H

#include "launch/head/core/session_core.h"

extern const struct rg_driver_events session_driver_events;
void session_host_fini(struct session_host *host);
/* The heartbeat of all hosts, and the time from one to the next. */
void session_tick(void *arg);
uint64_t session_tick_ms(const struct rg_job *job);

#endif
