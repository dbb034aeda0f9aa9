/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of remote commands that came here; remote.h tells of the whole way.
 *
 * This header is internal to src/agent. Thread rule: the loop's thread; nothing blocks.
 */
#ifndef RG_AGENT_RANKS_REMOTE_CLIENT_H
#define RG_AGENT_RANKS_REMOTE_CLIENT_H

#include "agent/ranks/agent.h"

struct rg_field;
struct rg_remote_client;

/* How a client is spoken to: a frame is queued; `end` says the last one, and the connection belongs
 * to no client any more. */
struct rg_remote_way {
    void (*send)(struct rg_rankconn *conn, uint16_t type, const struct rg_field *fields,
                 const void *object);
    void (*end)(struct rg_rankconn *conn, uint16_t type, const struct rg_field *fields,
                const void *object);
};

/* A connection's REMOTE: ask the launcher. 0; -EMSGSIZE, -EMFILE (RG_MSG_REMOTES_MAX), -ENOMEM. */
int rg_remote_client_open(struct rg_agent *agent, struct rg_rankconn *conn,
                          const struct rg_remote_way *way, const struct rg_rankmsg_remote *msg,
                          struct rg_remote_client **ret_client);
/* A frame of it. 0, or -errno: a broken one. */
int rg_remote_client_frame(struct rg_remote_client *client, uint16_t type, const uint8_t *data,
                           size_t nbytes);
/* Its connection is over. */
void rg_remote_client_gone(struct rg_remote_client *client);
/* The launcher's messages for clients: the same streams the other way. As rg_remote_message. */
int rg_remote_client_message(struct rg_agent *agent, uint16_t type, union rg_msg *msg);
void rg_remote_clients_destroy(struct rg_agent *agent);

#endif
