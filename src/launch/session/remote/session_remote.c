/* SPDX-License-Identifier: Apache-2.0 */
/* A command for another host goes by way of the launcher, as only it has links to all agents: it
 * routes each command's messages between two of them, under other numbers on either side. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "launch/session/remote/remote.h"

#define STATUS_LOST (RG_ENGINE_LOST << 8)
#define NAMED_HOSTS_MAX 8

/* A remote command: its client is on one host, itself on another, or on the same. Its index in
 * session_remotes is its number on the target's link. */
struct remote {
    uint32_t id, client_id;
    struct session_host *client; /* NULL: gone; the target's EXIT is still to come */
    struct session_host *target;
    uint32_t room[3];            /* what the sender of each stream may still send */
    const char *daemon;          /* of the engine; NULL: the user's own command */
    session_remote_hears *asked; /* by the session itself, without a client; else NULL */
};

/* Commands by their number; NULL: free. */
struct table {
    struct remote **slots;
    uint32_t nslots;
};

struct session_remotes {
    struct table all;
    struct table clients[]; /* those that were asked for on each host */
};

/* --- the table -------------------------------------------------------------------------------- */

/* Room for this number, up to RG_MSG_REMOTES_MAX. */
static int grow(struct table *table, uint32_t id)
{
    uint32_t n = table->nslots ? table->nslots : 8;

    if (id < table->nslots)
        return 0;
    if (id >= RG_MSG_REMOTES_MAX)
        return -EMFILE;
    while (n <= id)
        n *= 2;
    struct remote **more = realloc(table->slots, n * sizeof(*more));
    if (!more)
        return -ENOMEM;
    memset(more + table->nslots, 0, (n - table->nslots) * sizeof(*more));
    table->slots = more;
    table->nslots = n;
    return 0;
}

static struct table *table_of(const struct session_host *host)
{
    return &host->session->remotes->clients[host->index];
}

static struct remote *by_client(const struct session_host *host, uint32_t id)
{
    const struct table *clients = table_of(host);

    return id < clients->nslots ? clients->slots[id] : NULL;
}

static struct remote *by_target(const struct session_host *host, uint32_t id)
{
    const struct table *all = &host->session->remotes->all;
    struct remote *remote = id < all->nslots ? all->slots[id] : NULL;

    return remote && remote->target == host ? remote : NULL;
}

static void tell_client(struct session_host *client, uint32_t client_id, int status,
                        const char *text)
{
    struct rg_msg_remote_exit msg = { client_id, status, (char *) text };

    session_send(client, RG_MSG_REMOTE_ENDED, &msg);
}

/* --- which host is meant: engines use names that they have learnt from each other, too -------- */

/* "a" and "a.example.org" may be one host; two full names are one when they are equal. */
static bool short_names_match(const char *a, const char *b)
{
    size_t na = strcspn(a, "."), nb = strcspn(b, ".");

    return na && na == nb && strncasecmp(a, b, na) == 0 && (!a[na] || !b[nb]) &&
           strspn(a, "0123456789") != na;
}

/* Of "ADDRESS/PREFIX INTERFACE". A zone ("%eth0") in what was asked for says nothing to others. */
static bool has_address(const struct session_host *host, const char *name)
{
    size_t length = strcspn(name, "%");

    for (size_t i = 0; i < host->hello.addresses.count; i++) {
        const char *address = host->hello.addresses.v[i];
        if (strcspn(address, "/ %") == length && strncasecmp(address, name, length) == 0)
            return true;
    }
    return false;
}

static bool is_plan_name(const struct session_host *host, const char *name)
{
    return strcasecmp(session_host_name(host), name) == 0;
}

static bool is_host_name(const struct session_host *host, const char *name)
{
    const char *own = host->hello.hostname;

    return own && (strcasecmp(own, name) == 0 || short_names_match(own, name));
}

static bool is_short_plan_name(const struct session_host *host, const char *name)
{
    return short_names_match(session_host_name(host), name);
}

static bool is_alias(const struct session_host *host, const char *name)
{
    char alias[sizeof(RG_MSG_HOST_ALIAS) + 12];

    snprintf(alias, sizeof(alias), RG_MSG_HOST_ALIAS "%d", host->index);
    return strcasecmp(alias, name) == 0;
}

static bool is_loopback(const char *name)
{
    return strcasecmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0 ||
           strcmp(name, "::1") == 0;
}

struct session_host *session_find_host(struct session_host *from, const char *name)
{
    struct rg_session *session = from->session;
    bool (*const rules[])(const struct session_host *, const char *) = {
        is_plan_name, is_alias, is_short_plan_name, is_host_name, has_address,
    };

    int task = rg_plan_find_task(session->o.plan, name);
    if (task >= 0)
        return &session->hosts[session->o.plan->ranks[task].host];
    for (size_t r = 0; r < rg_array_len(rules); r++) {
        struct session_host *found = NULL;
        int nfound = 0;
        for (int i = 0; i < session->o.plan->nhosts; i++) {
            if (!rules[r](&session->hosts[i], name))
                continue;
            nfound++;
            if (!found || &session->hosts[i] == from)
                found = &session->hosts[i];
        }
        /* Of several, the caller means itself. An address that several others have, as docker0
         * has one, leads nowhere. */
        if (nfound == 1 || found == from)
            return found;
        if (nfound > 1 && rules[r] != has_address)
            return found;
        if (r == 1 && is_loopback(name))
            return from;
    }
    return NULL;
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

static struct remote *make(struct session_host *target)
{
    struct table *all = &target->session->remotes->all;
    uint32_t id = 0;

    while (id < all->nslots && all->slots[id])
        id++;
    if (grow(all, id) < 0)
        return NULL;
    struct remote *remote = calloc(1, sizeof(*remote));
    if (!remote)
        return NULL;
    *remote = (struct remote){
        .id = id, .target = target, .room = { 0, RG_MSG_REMOTE_WINDOW, RG_MSG_REMOTE_WINDOW },
    };
    all->slots[id] = remote;
    return remote;
}

static struct remote *add(struct session_host *client, struct session_host *target,
                                  uint32_t client_id)
{
    if (grow(table_of(client), client_id) < 0)
        return NULL;
    struct remote *remote = make(target);
    if (!remote)
        return NULL;
    remote->client_id = client_id;
    remote->client = client;
    table_of(client)->slots[client_id] = remote;
    return remote;
}

int session_remote_ask(struct session_host *target, const char *command,
                       session_remote_hears *hears)
{
    struct remote *remote = session_host_listens(target) ? make(target) : NULL;

    if (!remote)
        return -EHOSTUNREACH;
    remote->asked = hears;
    session_send(target, RG_MSG_REMOTE_START,
         &(struct rg_msg_remote_open){ remote->id, NULL, (char *) command });
    return 0;
}

/* The rank of the task that is meant by a name, in decimal: by its own, or by that of its host
 * where there is no other. "": there is none. */
static void name_task(const struct session_host *target, const char *name, char *ret_rank,
                      size_t room)
{
    const struct rg_plan *plan = target->session->o.plan;
    const struct rg_plan_host *host = &plan->hosts[target->index];
    int rank = rg_plan_find_task(plan, name);

    if (rank < 0 && host->nranks == 1 && plan->ranks[plan->by_host[host->first_rank_index]].task)
        rank = plan->by_host[host->first_rank_index];
    snprintf(ret_rank, room, rank < 0 ? "" : "%d", rank);
}

static int on_open(struct session_host *client, const struct rg_msg_remote_open *msg)
{
    struct session_host *target;
    char rank[12];

    if (client->session->state == STATE_STARTING || msg->id >= RG_MSG_REMOTES_MAX ||
        by_client(client, msg->id) || strlen(msg->command) > RG_MSG_COMMAND_MAX)
        return -EBADMSG;
    target = session_find_host(client, msg->host);
    if (!target) {
        refuse_unknown(client, msg);
        return 0;
    }
    if (!session_host_listens(target)) {
        tell_client(client, msg->id, STATUS_LOST, "the job has ended on that host");
        return 0;
    }
    struct remote *remote = add(client, target, msg->id);
    if (!remote) {
        tell_client(client, msg->id, STATUS_LOST, "too many remote commands at a time");
        return 0;
    }
    remote->daemon = session_engine_daemon(msg->command);
    if (remote->daemon)
        session_engine_started(target->session, msg->command, remote->daemon);
    name_task(target, msg->host, rank, sizeof(rank));
    session_send(target, RG_MSG_REMOTE_START,
         &(struct rg_msg_remote_open){ remote->id, rank, msg->command });
    return 0;
}

/* --- passing on ------------------------------------------------------------------------------- */

/* Data of stream 0 and credit for 1 and 2 come from the client, the rest from the target. What
 * crossed the command's end on its way finds nothing and is let go. */
static int on_data(struct session_host *host, const struct rg_msg_remote_data *msg)
{
    struct remote *remote = msg->stream ? by_target(host, msg->id)
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
        session_send(remote->target, RG_MSG_REMOTE_PUT, &relay);
    else if (remote->client)
        session_send(remote->client, RG_MSG_REMOTE_PUT, &relay);
    else if (remote->asked && msg->data.nbytes)
        remote->asked(host, msg->data.data, msg->data.nbytes);
    return 0;
}

static int on_credit(struct session_host *host, const struct rg_msg_remote_credit *msg)
{
    struct remote *remote = msg->stream ? by_client(host, msg->id)
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
        session_send(remote->target, RG_MSG_REMOTE_GRANT, &relay);
    else if (remote->client)
        session_send(remote->client, RG_MSG_REMOTE_GRANT, &relay);
    return 0;
}

/* --- ends ------------------------------------------------------------------------------------- */

static void leave(struct remote *remote)
{
    table_of(remote->client)->slots[remote->client_id] = NULL;
    remote->client = NULL;
    session_send(remote->target, RG_MSG_REMOTE_HANGUP, &(struct rg_msg_remote_id){ remote->id });
}

/* The client's agent keeps its number until it hears ENDED, so that no late message meets a new
 * command. */
static int on_close(struct session_host *host, const struct rg_msg_remote_id *msg)
{
    struct remote *remote = by_client(host, msg->id);

    if (!remote)
        return 0;
    leave(remote);
    tell_client(host, msg->id, STATUS_LOST, "");
    return 0;
}

static void end(struct remote *remote)
{
    struct session_host *host = remote->target;
    session_remote_hears *asked = remote->asked;

    if (remote->client)
        table_of(remote->client)->slots[remote->client_id] = NULL;
    host->session->remotes->all.slots[remote->id] = NULL;
    free(remote);
    if (asked)
        asked(host, NULL, 0);
}

static int on_exit_message(struct session_host *host, const struct rg_msg_remote_exit *msg)
{
    struct remote *remote = by_target(host, msg->id);

    if (!remote)
        return -EBADMSG;
    if (remote->client) {
        tell_client(remote->client, remote->client_id, msg->status, msg->text);
        session_engine_daemon_ended(host, remote->daemon, msg->status);
    }
    end(remote);
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
    struct table *all = &host->session->remotes->all;

    for (uint32_t i = 0; i < all->nslots; i++) {
        struct remote *remote = all->slots[i];
        if (remote && remote->client == host)
            leave(remote);
        if (!remote || remote->target != host)
            continue;
        if (remote->client)
            tell_client(remote->client, remote->client_id, STATUS_LOST,
                        host->state == HOST_LOST ? "that host was lost, and the command with it"
                                   : "the job has ended on that host");
        end(remote);
    }
}

static void fini(struct rg_session *session)
{
    struct session_remotes *remotes = session->remotes;

    for (uint32_t i = 0; i < remotes->all.nslots; i++)
        free(remotes->all.slots[i]);
    free(remotes->all.slots);
    for (int i = 0; i < session->o.plan->nhosts; i++)
        free(remotes->clients[i].slots);
}

const struct session_part session_remotes_part = {
    SESSION_PART(remotes), .nbytes_per_host = sizeof(struct table), .fini = fini,
};
