/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the first HELLO to START: which network connects the hosts, what each is sent, and whether
 * all are fit; or what is said of hosts that cannot be started.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_START_START_H
#define RG_LAUNCH_SESSION_START_START_H

#include "launch/session/core/session_core.h"

struct rg_network;

/* --- which network connects the hosts, from the last HELLO to SETUP: session_network.c -------- */

extern const struct session_part session_network_part;

/* When all hosts have said HELLO: let them find out which network connects them, send SETUP, and go
 * on as session_set_up; or end the job with the reason. One host needs no round trip for it. */
void session_find_network(struct rg_session *session);
/* 0; -EBADMSG: the agent broke the rules; -ENOMEM. */
int session_on_listening(struct session_host *host, const struct rg_msg_listening *msg);
/* 0, or -EBADMSG. */
int session_on_probed(struct session_host *host, const struct rg_msg_probed *msg);
/* Send PING, whose answers prove that a host lives. */
void session_ping(struct session_host *host);
void session_on_pong(struct session_host *host);
/* All hosts have SETUP, and the bundle where they want it: go on. Else nothing happens. */
void session_set_up(struct rg_session *session);
/* Of a host of an elastic job, which may be alone so far: the network that --network-interface
 * names there, the caller's to destroy, or NULL where that is not said. 0 or more; -ENODEV with
 * err: it has none of that name; -ENOMEM. */
int session_own_network(const struct session_host *host, struct rg_network **ret_network,
                        struct rg_error *err);
/* SETUP was sent to all. */
bool session_network_is_done(const struct rg_session *session);

/* --- what a host's agent and ranks are to be, and the bundle: session_setup.c ----------------- */

extern const struct session_part session_setup_part;

/* What --env and --share-env say, from our environment. 0; -EINVAL with err when a variable is not
 * there; -ENOMEM. */
int session_collect_env(struct rg_session *session, struct rg_error *err);
/* SETUP and RANKs for all hosts, which have said HELLO; from here on they are waited for where they
 * may want the bundle. The network that all reach each other by is decided. */
void session_send_setup(struct rg_session *session, const struct rg_network *network);
/* SETUP for one host of an elastic job, which has said HELLO; its own network, or NULL. */
void session_send_setup_to(struct session_host *host, const struct rg_network *network);
/* RANK for these n places of it, each with its seat, and START. */
void session_send_seats(struct session_host *host, const int *places,
                        const struct rg_plan_seat *seats, int n);
/* Rows and columns of rank 0's terminal. */
void session_resize(struct rg_session *session, int rows, int columns);
/* An agent said how much of the bundle it takes. 0, or -EBADMSG: it broke the rules. */
int session_on_bundle_wanted(struct session_host *host, uint64_t nbytes);
/* No host waits for it; this host does. */
bool session_bundle_is_done(const struct rg_session *session);
bool session_bundle_is_wanted(const struct session_host *host);

/* --- the user's directory, for hosts that lack it (--sync): session_sync.c -------------------- */

#ifndef RG_AGENT
extern const struct session_part session_sync_part;

/* Whether hosts are to have it. */
bool session_sync_is_on(const struct rg_session *session);
/* Where hosts are not: the script that the command names and this computer has, which they may
 * lack; "": none. */
const char *session_sync_script(const struct session_host *host);
/* SETUP has gone to this host: ask it whether it has the directory; from here on it is waited
 * for. */
void session_sync_begin(struct session_host *host);
/* 0; -EBADMSG: the agent broke the rules; another -errno with err: the host cannot have it. */
int session_sync_on_said(struct session_host *host, const struct rg_msg_sync_said *msg,
                         struct rg_error *err);
/* The host is gone. */
void session_sync_lost(struct session_host *host);
/* No host waits for it; this host does. */
bool session_sync_is_done(const struct rg_session *session);
bool session_sync_is_wanted(const struct session_host *host);
#endif

/* No host waits for what it is sent before START; this host does. */
static inline bool session_setup_is_done(const struct rg_session *session)
{
#ifndef RG_AGENT
    if (!session_sync_is_done(session))
        return false;
#endif
    return session_bundle_is_done(session);
}

static inline bool session_setup_is_wanted(const struct session_host *host)
{
#ifndef RG_AGENT
    if (session_sync_is_wanted(host))
        return true;
#endif
    return session_bundle_is_wanted(host);
}

/* --- the last look, and hosts that cannot be started: session_starting.c ---------------------- */

extern const struct session_part session_starting_part;

/* All hosts have SETUP: look at them where that is wanted; then the ranks are started, or the job
 * ends with the reason. What connects the hosts, or why nothing does, is borrowed until destroy. */
void session_examine(struct rg_session *session, const struct rg_network *network,
                     const struct rg_error *network_err);
void session_on_clock(struct session_host *host, const struct rg_msg_clock *msg);
/* 0; -EBADMSG: nobody has asked; -ENOMEM. */
int session_on_inspected(struct session_host *host, struct rg_msg_inspected *take_msg);

/* A host could not be started: how, and which exit code says so if it is the first. */
void session_host_unstarted(struct session_host *host, int exit_code, const char *how);
/* One host has failed, so the job has; but who repairs it wants to know of all that fail: end the
 * job when no other one can still turn out so soon. The doctor waits for all that can be known. */
void session_settle_start(struct rg_session *session);
/* Make all hosts that could not be started the job's cause, if there are any, one line each, and
 * say what is known of the others. */
void session_blame_unstarted(struct rg_session *session);

#endif
