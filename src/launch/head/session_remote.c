/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/time.h"
#include "launch/head/session_internal.h"
#include "spec/job/engine.h"

#define STATUS_LOST (255 << 8)
#define NAMED_HOSTS_MAX 8

/* A remote command: its client is on one host, itself on another, or on the same. Its index in
 * session->remotes is its number on the target's link. */
struct session_remote {
    uint32_t id, client_id;
    struct session_host *client; /* NULL: gone; the target's EXIT is still to come */
    struct session_host *target;
    uint32_t room[3];            /* what the sender of each stream may still send */
    const char *daemon;          /* of the engine; NULL: the user's own command */
    bool ours;                   /* the session's own question; it has no client */
};

/* --- the table -------------------------------------------------------------------------------- */

/* The first free slot of a table of pointers that grows up to RG_MSG_REMOTES_MAX. */
static int grow(struct session_remote ***slots, uint32_t *nslots, uint32_t id)
{
    uint32_t n = *nslots ? *nslots : 8;

    if (id < *nslots)
        return 0;
    if (id >= RG_MSG_REMOTES_MAX)
        return -EMFILE;
    while (n <= id)
        n *= 2;
    struct session_remote **more = realloc(*slots, n * sizeof(*more));
    if (!more)
        return -ENOMEM;
    memset(more + *nslots, 0, (n - *nslots) * sizeof(*more));
    *slots = more;
    *nslots = n;
    return 0;
}

static struct session_remote *by_client(const struct session_host *host, uint32_t id)
{
    return id < host->nclients ? host->clients[id] : NULL;
}

static struct session_remote *by_target(const struct session_host *host, uint32_t id)
{
    const struct rg_session *session = host->session;
    struct session_remote *remote = id < session->nremotes ? session->remotes[id] : NULL;

    return remote && remote->target == host ? remote : NULL;
}

static void forget(struct session_remote *remote)
{
    if (remote->client)
        remote->client->clients[remote->client_id] = NULL;
    remote->target->session->remotes[remote->id] = NULL;
    free(remote);
}

static void send(const struct session_host *host, enum rg_msg_type type, const void *object)
{
    if (host->channel)
        rg_msg_send(host->channel, type, object);
}

static void tell_client(struct session_host *client, uint32_t client_id, int status,
                        const char *text)
{
    struct rg_msg_remote_exit msg = { client_id, status, (char *) text };

    send(client, RG_MSG_REMOTE_ENDED, &msg);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void refuse_unknown(struct session_host *client, const struct rg_msg_remote_open *msg)
{
    const struct rg_plan *plan = client->session->o.plan;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_buf_printf(&text, "no host of this job has this name; its hosts are");
    for (int i = 0; i < plan->nhosts && i < NAMED_HOSTS_MAX; i++)
        rg_buf_printf(&text, "%s %s", i ? "," : "", plan->hosts[i].name);
    if (plan->nhosts > NAMED_HOSTS_MAX)
        rg_buf_printf(&text, ", ...");
    tell_client(client, msg->id, STATUS_LOST, rg_buf_text(&text));
    session_engine_refused(client, msg->host, msg->command);
}

static struct session_remote *make(struct session_host *target)
{
    struct rg_session *session = target->session;
    uint32_t id = 0;

    while (id < session->nremotes && session->remotes[id])
        id++;
    if (grow(&session->remotes, &session->nremotes, id) < 0)
        return NULL;
    struct session_remote *remote = calloc(1, sizeof(*remote));
    if (!remote)
        return NULL;
    *remote = (struct session_remote){
        .id = id, .target = target, .room = { 0, RG_MSG_REMOTE_WINDOW, RG_MSG_REMOTE_WINDOW },
    };
    session->remotes[id] = remote;
    return remote;
}

static struct session_remote *add(struct session_host *client, struct session_host *target,
                                  uint32_t client_id)
{
    if (grow(&client->clients, &client->nclients, client_id) < 0)
        return NULL;
    struct session_remote *remote = make(target);
    if (!remote)
        return NULL;
    remote->client_id = client_id;
    remote->client = client;
    client->clients[client_id] = remote;
    return remote;
}

int session_remote_ask(struct session_host *target, const char *command)
{
    struct session_remote *remote = target->channel && !target->bye && !target->lost
                                        ? make(target) : NULL;

    if (!remote)
        return -EHOSTUNREACH;
    remote->ours = true;
    send(target, RG_MSG_REMOTE_START,
         &(struct rg_msg_remote_open){ remote->id, NULL, (char *) command });
    return 0;
}

static int on_open(struct session_host *client, const struct rg_msg_remote_open *msg)
{
    struct session_host *target;

    if (client->session->state == STATE_STARTING || msg->id >= RG_MSG_REMOTES_MAX ||
        by_client(client, msg->id) || strlen(msg->command) > RG_MSG_COMMAND_MAX)
        return -EBADMSG;
    target = session_find_host(client, msg->host);
    if (!target) {
        refuse_unknown(client, msg);
        return 0;
    }
    if (!target->channel || target->bye || target->lost) {
        tell_client(client, msg->id, STATUS_LOST, "the job has ended on that host");
        return 0;
    }
    struct session_remote *remote = add(client, target, msg->id);
    if (!remote) {
        tell_client(client, msg->id, STATUS_LOST, "too many remote commands at a time");
        return 0;
    }
    remote->daemon = session_engine_daemon(msg->command);
    if (remote->daemon)
        session_engine_started(target->session, msg->command, remote->daemon);
    send(target, RG_MSG_REMOTE_START,
         &(struct rg_msg_remote_open){ remote->id, NULL, msg->command });
    return 0;
}

/* --- passing on ------------------------------------------------------------------------------- */

/* Data of stream 0 and credit for 1 and 2 come from the client, the rest from the target. What
 * crossed the command's end on its way finds nothing and is let go. */
static int on_data(struct session_host *host, const struct rg_msg_remote_data *msg)
{
    struct session_remote *remote = msg->stream ? by_target(host, msg->id)
                                                : by_client(host, msg->id);
    struct rg_msg_remote_data relay = *msg;

    if (msg->stream > 2)
        return -EBADMSG;
    if (!remote)
        return 0;
    if (msg->data.nbytes > remote->room[msg->stream])
        return -EBADMSG;
    remote->room[msg->stream] -= (uint32_t) msg->data.nbytes;
    relay.id = msg->stream ? remote->client_id : remote->id;
    if (!msg->stream)
        send(remote->target, RG_MSG_REMOTE_PUT, &relay);
    else if (remote->client)
        send(remote->client, RG_MSG_REMOTE_PUT, &relay);
    else if (remote->ours)
        session_engine_answer(host, msg->data.data, msg->data.nbytes);
    return 0;
}

static int on_credit(struct session_host *host, const struct rg_msg_remote_credit *msg)
{
    struct session_remote *remote = msg->stream ? by_client(host, msg->id)
                                                : by_target(host, msg->id);
    struct rg_msg_remote_credit relay = *msg;

    if (msg->stream > 2)
        return -EBADMSG;
    if (!remote)
        return 0;
    if (msg->nbytes > RG_MSG_REMOTE_WINDOW - remote->room[msg->stream])
        return -EBADMSG;
    remote->room[msg->stream] += msg->nbytes;
    relay.id = msg->stream ? remote->id : remote->client_id;
    if (msg->stream)
        send(remote->target, RG_MSG_REMOTE_GRANT, &relay);
    else if (remote->client)
        send(remote->client, RG_MSG_REMOTE_GRANT, &relay);
    return 0;
}

/* --- ends ------------------------------------------------------------------------------------- */

static void leave(struct session_remote *remote)
{
    remote->client->clients[remote->client_id] = NULL;
    remote->client = NULL;
    send(remote->target, RG_MSG_REMOTE_HANGUP, &(struct rg_msg_remote_id){ remote->id });
}

/* The client's agent keeps its number until it hears ENDED, so that no late message meets a new
 * command. */
static int on_close(struct session_host *host, const struct rg_msg_remote_id *msg)
{
    struct session_remote *remote = by_client(host, msg->id);

    if (!remote)
        return 0;
    leave(remote);
    tell_client(host, msg->id, STATUS_LOST, "");
    return 0;
}

static int on_exit_message(struct session_host *host, const struct rg_msg_remote_exit *msg)
{
    struct session_remote *remote = by_target(host, msg->id);

    if (!remote)
        return -EBADMSG;
    if (remote->client) {
        tell_client(remote->client, remote->client_id, msg->status, msg->text);
        session_engine_daemon_ended(host, remote->daemon, msg->status);
    }
    bool ours = remote->ours;
    forget(remote);
    if (ours)
        session_engine_answered(host);
    return 0;
}

int session_on_remote(struct session_host *host, uint16_t type, const union rg_msg *msg)
{
    switch (type) {
    case RG_MSG_REMOTE_OPEN: return on_open(host, &msg->remote_open);
    case RG_MSG_REMOTE_DATA: return on_data(host, &msg->remote_data);
    case RG_MSG_REMOTE_CREDIT: return on_credit(host, &msg->remote_credit);
    case RG_MSG_REMOTE_CLOSE: return on_close(host, &msg->remote_id);
    case RG_MSG_REMOTE_EXIT: return on_exit_message(host, &msg->remote_exit);
    default: return -EBADMSG;
    }
}

void session_remote_host_gone(struct session_host *host)
{
    struct rg_session *session = host->session;

    for (uint32_t i = 0; i < session->nremotes; i++) {
        struct session_remote *remote = session->remotes[i];
        if (remote && remote->client == host)
            leave(remote);
        if (!remote || remote->target != host)
            continue;
        if (remote->client)
            tell_client(remote->client, remote->client_id, STATUS_LOST,
                        host->lost ? "that host was lost, and the command with it"
                                   : "the job has ended on that host");
        bool ours = remote->ours;
        forget(remote);
        if (ours)
            session_engine_answered(host);
    }
}

void session_remotes_fini(struct rg_session *session)
{
    for (uint32_t i = 0; i < session->nremotes; i++)
        free(session->remotes[i]);
    free(session->remotes);
    for (int i = 0; session->hosts && i < session->o.plan->nhosts; i++) {
        free(session->hosts[i].clients);
        free(session->hosts[i].hostname);
    }
}

void session_release(struct rg_session *session)
{
    if (session->released || !rg_job_has_engine(session->o.job) || session_engine_ask(session))
        return;
    session->released = true;
    session->released_ns = rg_now_ns();
    session_broadcast(session, RG_MSG_RELEASE, NULL);
}
