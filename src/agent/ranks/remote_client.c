/* SPDX-License-Identifier: Apache-2.0 */
/* `reigen rsh` on this host, whose command runs on another: its connection, seen from the agent. */
#include "agent/ranks/remote_client.h"

#include <string.h>


struct rg_remote_client {
    struct rg_agent *agent;
    uint32_t id;
    const struct rg_remote_way *way;
    struct rg_rankconn *conn; /* NULL: gone; the slot stays until the launcher's last word */
    uint32_t in_credit;       /* bytes of input that it may still send */
    bool in_eof;
    uint32_t unacked[2];      /* output that was sent to it and that it has not acknowledged */
};

/* By number; NULL: free. */
struct rg_remote_clients {
    uint32_t count;
    struct rg_remote_client *slots[];
};

/* --- from the client -------------------------------------------------------------------------- */

static int find_slot(struct rg_agent *agent, uint32_t *ret_id)
{
    struct rg_remote_clients *clients = agent->clients;
    uint32_t id = 0, count = clients ? clients->count : 0;

    while (id < count && clients->slots[id])
        id++;
    if (id == RG_MSG_REMOTES_MAX)
        return -EMFILE;
    if (id == count) {
        uint32_t n = count ? 2 * count : 8;
        clients = realloc(clients, sizeof(*clients) + n * sizeof(clients->slots[0]));
        if (!clients)
            return -ENOMEM;
        memset(clients->slots + count, 0, (n - count) * sizeof(clients->slots[0]));
        clients->count = n;
        agent->clients = clients;
    }
    *ret_id = id;
    return 0;
}

int rg_remote_client_open(struct rg_agent *agent, struct rg_rankconn *conn,
                          const struct rg_remote_way *way, const struct rg_rankmsg_remote *msg,
                          struct rg_remote_client **ret_client)
{
    uint32_t id;

    if (strlen(msg->command) > RG_MSG_COMMAND_MAX)
        return -EMSGSIZE;
    int r = find_slot(agent, &id);
    struct rg_remote_client *client = r < 0 ? NULL : calloc(1, sizeof(*client));
    if (!client)
        return r < 0 ? r : -ENOMEM;
    client->agent = agent;
    client->id = id;
    client->conn = conn;
    client->way = way;
    agent->clients->slots[id] = client;
    *ret_client = client;
    rg_agent_send(agent, RG_MSG_REMOTE_OPEN,
                  &(struct rg_msg_remote_open){ id, msg->host, msg->command });
    return 0;
}

static int on_data(struct rg_remote_client *client, const struct rg_rankmsg_data *msg)
{
    if (msg->stream != 0 || client->in_eof || msg->data.nbytes > client->in_credit ||
        msg->data.nbytes > RG_MSG_CHUNK_MAX)
        return -EBADMSG;
    client->in_credit -= (uint32_t) msg->data.nbytes;
    client->in_eof = !msg->data.nbytes;
    rg_agent_send(client->agent, RG_MSG_REMOTE_DATA,
                  &(struct rg_msg_remote_data){ client->id, 0, msg->data });
    return 0;
}

static int on_credit(struct rg_remote_client *client, const struct rg_rankmsg_credit *msg)
{
    if (msg->stream < 1 || msg->stream > 2 || msg->nbytes > client->unacked[msg->stream - 1])
        return -EBADMSG;
    client->unacked[msg->stream - 1] -= msg->nbytes;
    rg_agent_send(client->agent, RG_MSG_REMOTE_CREDIT,
                  &(struct rg_msg_remote_credit){ client->id, msg->stream, msg->nbytes });
    return 0;
}

int rg_remote_client_frame(struct rg_remote_client *client, uint16_t type, const uint8_t *data,
                           size_t nbytes)
{
    union {
        struct rg_rankmsg_data data;
        struct rg_rankmsg_credit credit;
    } msg = { 0 };
    const struct rg_field *fields = type == RG_RANKMSG_DATA     ? rg_rankmsg_data_fields
                                    : type == RG_RANKMSG_CREDIT ? rg_rankmsg_credit_fields
                                                                : NULL;
    int r = fields ? rg_codec_decode(fields, data, nbytes, &msg) : -EBADMSG;

    if (r < 0)
        return r;
    r = type == RG_RANKMSG_DATA ? on_data(client, &msg.data) : on_credit(client, &msg.credit);
    rg_codec_clear(fields, &msg);
    return r;
}

void rg_remote_client_gone(struct rg_remote_client *client)
{
    client->conn = NULL;
    if (client->agent->state != RG_AGENT_DONE)
        rg_agent_send(client->agent, RG_MSG_REMOTE_CLOSE,
                      &(struct rg_msg_remote_id){ client->id });
}

/* --- to the client ---------------------------------------------------------------------------- */

static int on_put(struct rg_remote_client *client, const struct rg_msg_remote_data *msg)
{
    struct rg_rankmsg_data relay = { msg->stream, msg->data };

    if (msg->stream < 1 || msg->stream > 2 ||
        msg->data.nbytes > RG_MSG_REMOTE_WINDOW - client->unacked[msg->stream - 1])
        return -EBADMSG;
    client->unacked[msg->stream - 1] += (uint32_t) msg->data.nbytes;
    if (client->conn)
        client->way->send(client->conn, RG_RANKMSG_DATA, rg_rankmsg_data_fields, &relay);
    return 0;
}

static int on_grant(struct rg_remote_client *client, const struct rg_msg_remote_credit *msg)
{
    struct rg_rankmsg_credit relay = { msg->stream, msg->nbytes };

    if (msg->stream != 0 || msg->nbytes > RG_MSG_REMOTE_WINDOW - client->in_credit)
        return -EBADMSG;
    client->in_credit += msg->nbytes;
    if (client->conn)
        client->way->send(client->conn, RG_RANKMSG_CREDIT, rg_rankmsg_credit_fields, &relay);
    return 0;
}

static void on_ended(struct rg_remote_client *client, const struct rg_msg_remote_exit *msg)
{
    struct rg_rankmsg_exit relay = { msg->status, msg->text };

    client->agent->clients->slots[client->id] = NULL;
    if (client->conn)
        client->way->end(client->conn, RG_RANKMSG_EXIT, rg_rankmsg_exit_fields, &relay);
    free(client);
}

int rg_remote_client_message(struct rg_agent *agent, uint16_t type, union rg_msg *msg)
{
    uint32_t id = msg->remote_id.id; /* it comes first in each of these */
    struct rg_remote_clients *clients = agent->clients;
    struct rg_remote_client *client = clients && id < clients->count ? clients->slots[id] : NULL;

    if (!client)
        return -EBADMSG;
    switch (type) {
    case RG_MSG_REMOTE_PUT: return on_put(client, &msg->remote_data);
    case RG_MSG_REMOTE_GRANT: return on_grant(client, &msg->remote_credit);
    case RG_MSG_REMOTE_ENDED: on_ended(client, &msg->remote_exit); return 0;
    default: return -EBADMSG;
    }
}

void rg_remote_clients_destroy(struct rg_agent *agent)
{
    struct rg_remote_clients *clients = rg_steal_ptr(&agent->clients);

    for (uint32_t i = 0; clients && i < clients->count; i++)
        free(clients->slots[i]);
    free(clients);
}
