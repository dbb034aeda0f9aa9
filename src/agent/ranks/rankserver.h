/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the runtimes of this host's ranks come to: a unix socket in the abstract name space, with a
 * random name that only the ranks are told, whose peers must have our uid and a rank's token
 * (wire/rankmsg.h). It relays fences and notes to the launcher, and tells of deaths. In an elastic
 * job it also has the newest epoch, tells each rank that meets who it is now, and keeps what is
 * said of one epoch from those that are in another, or wait for theirs. Clients of
 * remote commands (remote.h) come to it too, with the token that all processes of the job here are
 * given: the name is no secret, since /proc/net/unix shows it to every process of this network name
 * space, those in containers of the same uid included.
 *
 * Others are refused: another uid at once, a wrong token or garbage at the first frame, silence
 * after RG_RANKSERVER_HELLO_MS. At most RG_RANKSERVER_PENDING_MAX connections that have not
 * authenticated themselves wait at a time; then the one that has been silent for longest goes after
 * RG_RANKSERVER_PATIENCE_MS, while others wait in the kernel's queue.
 *
 * Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_AGENT_RANKS_RANKSERVER_H
#define RG_AGENT_RANKS_RANKSERVER_H

#include "agent/ranks/agent.h"

#define RG_RANKSERVER_HELLO_MS 10000
#define RG_RANKSERVER_PENDING_MAX 128
#define RG_RANKSERVER_PATIENCE_MS 1000 /* a rank says HELLO at once, as far as the load lets it */

/* Listen. 0 or -errno. */
int rg_rankserver_create(struct rg_agent *agent, struct rg_rankserver **ret_server);
void rg_rankserver_destroy(struct rg_rankserver *server); /* NULL is fine */

/* What REIGEN_AGENT_SOCKET is: "@reigen-...". Borrowed. */
const char *rg_rankserver_name(const struct rg_rankserver *server);
/* What REIGEN_AGENT_TOKEN is the text of. Borrowed, RG_RANK_TOKEN_NBYTES. */
const uint8_t *rg_rankserver_token(const struct rg_rankserver *server);

/* The link to the launcher is no longer congested: listen to the ranks again. */
void rg_rankserver_resume(struct rg_rankserver *server);

/* A rank was reaped. Handles what its runtime had still written; then, if the end was abnormal or
 * its runtime had not shut down, tells the other ranks here (PEER_DIED). */
void rg_rankserver_ended(struct rg_rankserver *server, struct rg_task *task, int status);

/* Relays from the launcher to the ranks here: to those that wait in this fence, or to all. */
void rg_rankserver_fence_done(struct rg_rankserver *server,
                              const struct rg_rankmsg_fence_done *msg);
void rg_rankserver_fence_failed(struct rg_rankserver *server,
                                const struct rg_rankmsg_fence_failed *msg);
void rg_rankserver_peer_died(struct rg_rankserver *server, uint32_t epoch,
                             const struct rg_rankmsg_peer_died *msg);

/* A newer epoch: those that wait for it are answered. Takes the message's seats. 0; -EBADMSG: it is
 * not newer, or has seats that cannot be. */
int rg_rankserver_epoch(struct rg_rankserver *server, struct rg_msg_epoch *take_msg);
/* To the ranks that are in an epoch, and to those that come to be in this one. */
void rg_rankserver_update(struct rg_rankserver *server, const struct rg_rankmsg_update *msg);

#endif
