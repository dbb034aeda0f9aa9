/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our Python packages for hosts that lack them.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_START_SESSION_BUNDLE_H
#define RG_LAUNCH_HEAD_START_SESSION_BUNDLE_H

#include "launch/head/core/session_core.h"

int session_bundle_create(struct rg_session *session); /* 0 or -ENOMEM */
void session_bundle_destroy(struct rg_session *session);

/* Before SETUP: from here on all hosts are waited for, if there is a bundle. */
void session_bundle_begin(struct rg_session *session);
/* An agent said how much it takes. 0, or -EBADMSG: it broke the rules. */
int session_on_bundle_wanted(struct session_host *host, uint64_t nbytes);
/* No host waits for it; this host does. */
bool session_bundle_is_done(const struct rg_session *session);
bool session_bundle_is_wanted(const struct session_host *host);

#endif
