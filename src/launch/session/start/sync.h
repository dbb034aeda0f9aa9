/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory that goes with the job (--sync), to each host that lacks it, between its SETUP and
 * its START: the list, then what the host says that it is missing.
 *
 * A host asks for at most 1 MiB more than it has taken, and at most 64 hosts are sent files at a
 * time: so much memory is needed here, however large the directory is.
 *
 * A job that an agent is the head of has none. Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_START_SYNC_H
#define RG_LAUNCH_SESSION_START_SYNC_H

#include "launch/session/core/session_core.h"

#ifndef RG_AGENT
/* What SETUP for this host says of it, borrowed; from here on the host is waited for. 0 or
 * -ENOMEM. */
int session_sync_setup(struct session_host *host, struct rg_msg_setup *msg);
/* An agent said what it wants. 0; -EBADMSG: it broke the rules; -ECANCELED: it cannot have the
 * directory, and says why in msg->error. */
int session_on_sync_wanted(struct session_host *host, const struct rg_msg_sync_wanted *msg);
/* It is gone, and needs nothing any more: somebody else may have its turn. Twice is fine. */
void session_sync_host_gone(struct session_host *host);
/* No host waits for it; this host does. */
bool session_sync_is_done(const struct rg_session *session);
bool session_sync_is_wanted(const struct session_host *host);
#else
static inline int session_sync_setup(struct session_host *host, struct rg_msg_setup *msg)
{
    (void) host;
    (void) msg;
    return 0;
}
static inline int session_on_sync_wanted(struct session_host *host,
                                         const struct rg_msg_sync_wanted *msg)
{
    (void) host;
    (void) msg;
    return -EBADMSG;
}
static inline void session_sync_host_gone(struct session_host *host)
{
    (void) host;
}
static inline bool session_sync_is_done(const struct rg_session *session)
{
    (void) session;
    return true;
}
static inline bool session_sync_is_wanted(const struct session_host *host)
{
    (void) host;
    return false;
}
#endif

#endif
