/* SPDX-License-Identifier: Apache-2.0 */
/* The runtimes' way to the launcher: they know nothing of links, only of a socket on their host. */
#include "agent/ranks/rankserver.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "agent/ranks/remote_client.h"
#include "base/fd.h"
#include "base/time.h"
#include "wire/conn.h"
#include "wire/numbers.h"

#define READS_PER_TURN 4 /* then others get their turn */
#define LAST_READS 256
#define BACKLOG 512
#define FULL_MS 50 /* until we look again whether somebody has been silent for long enough */

struct rg_rankconn {
    struct rg_rankserver *server;
    struct rg_rankconn *next;
    struct rg_task *task; /* NULL until a good HELLO */
    struct rg_remote_client *client;
    pid_t pid;            /* of whoever connected; 0: not visible from here */
    bool is_client;       /* said REMOTE; client is NULL once its EXIT is on the way */
    uint64_t since_ns;
    struct rg_conn conn;
    struct rg_io io;
    struct rg_timer timer; /* for the HELLO */
    bool doomed;           /* an error was met: to be closed once no call is inside */
};

struct rg_rankserver {
    struct rg_agent *agent;
    int fd;
    struct rg_io io;
    struct rg_acceptor acceptor;
    struct rg_timer pause; /* until it makes sense to accept again */
    uint8_t token[RG_RANK_TOKEN_NBYTES];
    char name[64];
    struct rg_rankconn *conns;
    size_t npending;
    bool refusal_told;
    uint8_t *data_key; /* rg_key_hold */
};

static void conn_ready(void *arg, int events);

/* --- connections ------------------------------------------------------------------------------ */

static void conn_destroy(struct rg_rankconn *conn)
{
    struct rg_rankserver *server = conn->server;
    struct rg_rankconn **at = &server->conns;

    rg_io_stop(&conn->io);
    rg_timer_stop(&conn->timer);
    if (conn->task && conn->task->conn == conn)
        conn->task->conn = NULL;
    if (!conn->task && !conn->is_client)
        server->npending--;
    if (conn->client)
        rg_remote_client_gone(rg_steal_ptr(&conn->client));
    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    rg_conn_fini(&conn->conn);
    free(conn);
}

/* Whether to tell of it: once, of those that nobody knows. */
static bool end_unknown(struct rg_rankconn *conn)
{
    bool told = conn->task || conn->is_client || conn->server->refusal_told;

    conn->doomed = true;
    conn->server->refusal_told |= !told;
    return !told;
}

static void refuse(struct rg_rankconn *conn, const char *why)
{
    if (end_unknown(conn))
        rg_agent_note(conn->server->agent,
                      "refused an unauthenticated connection to the ranks' socket: %s", why);
}

static void watch(struct rg_rankconn *conn)
{
    struct rg_agent *agent = conn->server->agent;
    int events = rg_conn_pending(&conn->conn) ? RG_IO_WRITE : 0;

    /* A rank that says more than the launcher takes has to wait. */
    if (!rg_channel_congested(agent->channel))
        events |= RG_IO_READ;
    if (events)
        rg_io_start(&conn->io, agent->loop, conn->conn.fd, events, conn_ready, conn);
    else
        rg_io_stop(&conn->io);
}

/* Closing is left to the loop: shutdown makes a doomed connection readable. */
static void doom(struct rg_rankconn *conn)
{
    conn->doomed = true;
    shutdown(conn->conn.fd, SHUT_RDWR);
}

static void conn_send(struct rg_rankconn *conn, uint16_t type, const struct rg_field *fields,
                      const void *object)
{
    if (rg_conn_send(&conn->conn, type, fields, object) < 0) {
        doom(conn);
        return;
    }
    /* It may read no more while its last words are still waiting for us. */
    rg_conn_flush(&conn->conn);
    watch(conn);
}

static void conn_end(struct rg_rankconn *conn, uint16_t type, const struct rg_field *fields,
                     const void *object)
{
    conn->client = NULL;
    conn_send(conn, type, fields, object);
}

static const struct rg_remote_way way = { .send = conn_send, .end = conn_end };

/* --- frames from ranks ------------------------------------------------------------------------ */

static void welcome(struct rg_rankconn *conn)
{
    struct rg_agent *agent = conn->server->agent;
    bool elastic = agent->setup.elastic;
    struct rg_rankmsg_welcome msg = {
        .size = elastic ? 0 : agent->setup.size,
        .local_size = elastic ? 0 : (uint32_t) agent->ntasks,
        .elastic = elastic,
        .key = { conn->server->data_key, RG_KEY_NBYTES },
    };

    conn_send(conn, RG_RANKMSG_WELCOME, rg_rankmsg_welcome_fields, &msg);
}

/* The first frame of a rank or a client: does it show this token? NULL: there is none. */
static bool admit(struct rg_rankconn *conn, uint32_t version, const struct rg_span *shown,
                  const uint8_t *token)
{
    if (version != RG_PROTOCOL_VERSION) {
        if (end_unknown(conn))
            rg_agent_note(conn->server->agent, "refused a rank: its Reigen has version %u of the "
                          "protocol, this job's %d; install the launcher's Reigen for it", version,
                          RG_PROTOCOL_VERSION);
        return false;
    }
    if (!token || shown->nbytes != RG_RANK_TOKEN_NBYTES ||
        sodium_memcmp(shown->data, token, RG_RANK_TOKEN_NBYTES) != 0) {
        refuse(conn, "wrong token");
        return false;
    }
    rg_timer_stop(&conn->timer);
    conn->server->npending--;
    return true;
}

/* It has not left, and is not the process that comes now: that one is a child of it, or was started
 * beside it by the same script. Of two that are not visible from here nobody can tell. */
static bool is_held(const struct rg_rankconn *holder, const struct rg_rankconn *conn)
{
    return holder && holder->task->in_runtime && holder->pid != conn->pid &&
           kill(holder->pid, 0) == 0;
}

static void on_hello(struct rg_rankconn *conn, const struct rg_rankmsg_hello *msg)
{
    struct rg_task *task = rg_agent_find_task(conn->server->agent, msg->rank);

    if (conn->task) {
        refuse(conn, "a second HELLO");
        return;
    }
    if (!admit(conn, msg->version, &msg->token,
               task && task->pid && !task->ended ? task->token : NULL))
        return;
    if (is_held(task->conn, conn)) {
        conn->is_client = true; /* which may say no more, and is owed no word about why */
        conn_send(conn, RG_RANKMSG_TAKEN, rg_rankmsg_taken_fields,
                         &(struct rg_rankmsg_taken){ (uint32_t) task->conn->pid });
        return;
    }
    if (task->conn)
        doom(task->conn); /* the same process after exec, or the next one of a script */
    conn->task = task;
    task->conn = conn;
    task->in_runtime = true;
    task->cut_by = RG_MSG_NO_RANK;
    task->fence = task->epoch = 0;
    task->met = task->waits = false;
    welcome(conn);
}

/* --- epochs ----------------------------------------------------------------------------------- */

static uint32_t read_seat(struct rg_reader *reader, struct rg_rankmsg_epoch *ret_seat)
{
    uint32_t place = rg_reader_u32(reader);

    ret_seat->rank = rg_reader_u32(reader);
    ret_seat->local_rank = rg_reader_u32(reader);
    ret_seat->local_size = rg_reader_u32(reader);
    ret_seat->cross_rank = rg_reader_u32(reader);
    ret_seat->cross_size = rg_reader_u32(reader);
    return place;
}

static bool seats_can_be(const struct rg_agent *agent, const struct rg_msg_epoch *msg)
{
    struct rg_reader reader = rg_reader_make(msg->seats.data, msg->seats.nbytes);
    struct rg_rankmsg_epoch seat;

    for (size_t n = msg->seats.nbytes / RG_MSG_SEAT_NBYTES; n > 0; n--) {
        if (read_seat(&reader, &seat) >= agent->setup.size || seat.rank >= msg->size ||
            seat.local_rank >= seat.local_size || seat.cross_rank >= seat.cross_size ||
            seat.local_size > msg->size || seat.cross_size > msg->size)
            return false;
    }
    return rg_reader_done(&reader) == 0;
}

/* Answer who waits, if the newest epoch is what it waits for. */
static void seat_rank(struct rg_rankconn *conn)
{
    const struct rg_agent *agent = conn->server->agent;
    const struct rg_msg_epoch *epoch = &agent->epochs.newest;
    struct rg_task *task = conn->task;
    struct rg_reader reader = rg_reader_make(epoch->seats.data, epoch->seats.nbytes);
    uint8_t key[RG_KEY_NBYTES];
    char purpose[32];
    struct rg_rankmsg_epoch seat = { .epoch = epoch->epoch, .size = epoch->size,
                                     .sync = epoch->sync, .key = { key, sizeof(key) } };

    if (!task->waits || epoch->epoch <= task->met_epoch)
        return;
    for (size_t n = epoch->seats.nbytes / RG_MSG_SEAT_NBYTES; n > 0 && task->waits; n--)
        task->waits = read_seat(&reader, &seat) != task->spec.rank;
    if (task->waits)
        return;
    task->epoch = epoch->epoch;
    task->number = seat.rank;
    snprintf(purpose, sizeof(purpose), "epoch %u", epoch->epoch);
    rg_key_derive(conn->server->data_key, purpose, key);
    conn_send(conn, RG_RANKMSG_EPOCH, rg_rankmsg_epoch_fields, &seat);
    explicit_bzero(key, sizeof(key));
    if (agent->epochs.update.stamp)
        conn_send(conn, RG_RANKMSG_UPDATE, rg_rankmsg_update_fields, &agent->epochs.update);
}

/* A process whose program cannot go on with other ranks may come to the same epoch again: then it
 * has only started its runtime anew. */
static void on_meet(struct rg_rankconn *conn, const struct rg_rankmsg_meet *msg)
{
    struct rg_agent *agent = conn->server->agent;
    struct rg_task *task = conn->task;

    if (!agent->setup.elastic || task->met || msg->epoch > agent->epochs.newest.epoch) {
        refuse(conn, "a broken meeting");
        return;
    }
    task->met = task->waits = true;
    task->met_epoch = msg->epoch - (msg->epoch && !msg->failed && !task->elastic);
    if (task->met_epoch < task->over_epoch)
        task->met_epoch = task->over_epoch;
    seat_rank(conn);
    if (task->waits)
        rg_agent_send(agent, RG_MSG_MEET,
                      &(struct rg_msg_meet){ task->spec.rank, msg->epoch, msg->failed });
}

static void on_elastic(struct rg_rankconn *conn)
{
    struct rg_agent *agent = conn->server->agent;

    conn->task->elastic = true;
    if (agent->setup.elastic)
        rg_agent_send(agent, RG_MSG_ELASTIC, &(struct rg_msg_rank_id){ conn->task->spec.rank });
}

/* --- frames ----------------------------------------------------------------------------------- */

static void on_fence(struct rg_rankconn *conn, const struct rg_rankmsg_fence *msg)
{
    struct rg_msg_fence relay = {
        .rank = conn->task->spec.rank,
        .generation = msg->generation,
        .timeout_ms = msg->timeout_ms,
        .blob = msg->blob,
        .epoch = msg->epoch,
    };
    struct rg_agent *agent = conn->server->agent;

    if (msg->blob.nbytes > RG_RANKMSG_BLOB_MAX || !msg->generation || conn->task->fence ||
        msg->epoch != conn->task->epoch || (agent->setup.elastic && !msg->epoch)) {
        refuse(conn, "a broken fence");
        return;
    }
    conn->task->fence = msg->generation;
    if (msg->epoch == agent->epochs.newest.epoch) /* else its time is over: nobody else will come */
        rg_agent_send(agent, RG_MSG_FENCE, &relay);
}

static void on_note(struct rg_rankconn *conn, const struct rg_rankmsg_note *msg)
{
    struct rg_msg_note relay = { conn->task->spec.rank, msg->level, msg->text };

    if (msg->text && strlen(msg->text) > RG_MSG_TEXT_MAX)
        msg->text[RG_MSG_TEXT_MAX] = '\0';
    rg_agent_send(conn->server->agent, RG_MSG_NOTE, &relay);
}

static void on_remote(struct rg_rankconn *conn, const struct rg_rankmsg_remote *msg)
{
    if (!admit(conn, msg->version, &msg->token, conn->server->token))
        return;
    conn->is_client = true;
    int r = rg_remote_client_open(conn->server->agent, conn, &way, msg, &conn->client);
    if (r < 0)
        conn_end(conn, RG_RANKMSG_EXIT, rg_rankmsg_exit_fields,
                        &(struct rg_rankmsg_exit){ 255 << 8, strerror(-r) });
}

/* Of a client of remote commands, or of one that becomes one. */
static void on_client_frame(struct rg_rankconn *conn, uint16_t type, const uint8_t *data,
                            size_t nbytes)
{
    struct rg_rankmsg_remote msg = { 0 };

    if (conn->is_client) {
        if (conn->client && rg_remote_client_frame(conn->client, type, data, nbytes) < 0)
            refuse(conn, "");
    } else if (rg_codec_decode(rg_rankmsg_remote_fields, data, nbytes, &msg) < 0) {
        refuse(conn, "a broken frame");
    } else {
        on_remote(conn, &msg);
        rg_codec_clear(rg_rankmsg_remote_fields, &msg);
    }
}

static void on_numbers(struct rg_rankconn *conn, struct rg_rankmsg_numbers *msg)
{
    if (msg->ranks.nbytes > RG_NUMBERS_RANKS_MAX * RG_NUMBERS_MOST_NBYTES)
        refuse(conn, "too many numbers");
    else
        rg_agent_send(conn->server->agent, RG_MSG_NUMBERS, msg);
}

static int on_frame(void *arg, uint16_t type, const uint8_t *data, size_t nbytes)
{
    struct rg_rankconn *conn = arg;
    union {
        struct rg_rankmsg_hello hello;
        struct rg_rankmsg_fence fence;
        struct rg_rankmsg_note note;
        struct rg_rankmsg_cut_off cut_off;
        struct rg_rankmsg_numbers numbers;
        struct rg_rankmsg_meet meet;
    } msg = { 0 };
    const struct rg_field *fields = type == RG_RANKMSG_HELLO     ? rg_rankmsg_hello_fields
                                    : type == RG_RANKMSG_FENCE   ? rg_rankmsg_fence_fields
                                    : type == RG_RANKMSG_NOTE    ? rg_rankmsg_note_fields
                                    : type == RG_RANKMSG_CUT_OFF ? rg_rankmsg_cut_off_fields
                                    : type == RG_RANKMSG_MEET    ? rg_rankmsg_meet_fields
                                    : type == RG_RANKMSG_NUMBERS ? rg_rankmsg_numbers_fields
                                                                 : NULL;

    if (conn->is_client || (!conn->task && type == RG_RANKMSG_REMOTE)) {
        on_client_frame(conn, type, data, nbytes);
    } else if (!conn->task && type != RG_RANKMSG_HELLO) {
        refuse(conn, "no HELLO");
    } else if (type == RG_RANKMSG_GOODBYE) {
        conn->task->in_runtime = false;
    } else if (type == RG_RANKMSG_ELASTIC) {
        on_elastic(conn);
    } else if (!fields || rg_codec_decode(fields, data, nbytes, &msg) < 0) {
        refuse(conn, "a broken frame");
    } else {
        if (type == RG_RANKMSG_HELLO)
            on_hello(conn, &msg.hello);
        else if (type == RG_RANKMSG_FENCE)
            on_fence(conn, &msg.fence);
        else if (type == RG_RANKMSG_MEET)
            on_meet(conn, &msg.meet);
        else if (type == RG_RANKMSG_CUT_OFF)
            conn->task->cut_by = msg.cut_off.rank;
        else if (type == RG_RANKMSG_NUMBERS)
            on_numbers(conn, &msg.numbers);
        else
            on_note(conn, &msg.note);
        rg_codec_clear(fields, &msg);
    }
    return conn->doomed ? -EBADMSG : 0;
}

/* Before it has shown its token, it is not listened to for long. */
static size_t frame_max(void *arg, uint16_t type)
{
    const struct rg_rankconn *conn = arg;

    if (conn->is_client)
        return RG_MSG_CHUNK_MAX + 64;
    if (!conn->task && type == RG_RANKMSG_REMOTE)
        return RG_MSG_COMMAND_MAX + 4096;
    return conn->task ? RG_RANKMSG_PAYLOAD_MAX : 256;
}

/* The welcome holds a key. */
static const struct rg_conn_ops conn_ops = { on_frame, frame_max, .secret = true };

/* Read what is there, nreads times at most; conn is doomed at its end, which means nothing by
 * itself (a fork, an exec), or when it is broken. */
static void read_some(struct rg_rankconn *conn, int nreads)
{
    int r = conn->doomed ? 0 : rg_conn_receive(&conn->conn, nreads, NULL);

    if (r == -EBADMSG && !conn->doomed)
        refuse(conn, "a frame that is too long");
    conn->doomed = conn->doomed || r < 0;
}

static void conn_ready(void *arg, int events)
{
    struct rg_rankconn *conn = arg;

    if (events & RG_IO_WRITE)
        rg_conn_flush(&conn->conn);
    if (events & RG_IO_READ)
        read_some(conn, READS_PER_TURN);
    if (conn->doomed)
        conn_destroy(conn);
    else
        watch(conn);
}

/* --- listening -------------------------------------------------------------------------------- */

static void hello_late(void *arg)
{
    struct rg_rankconn *conn = arg;

    refuse(conn, "silence");
    conn_destroy(conn);
}

static bool is_our_user(int fd, pid_t *ret_pid)
{
    struct ucred peer = { 0 };
    socklen_t nbytes = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &nbytes) < 0)
        return false;
    *ret_pid = peer.pid;
    return peer.uid == geteuid();
}

static void accept_ready(void *arg, int events);

static void accept_again(void *arg)
{
    struct rg_rankserver *server = arg;

    rg_io_start(&server->io, server->agent->loop, server->fd, RG_IO_READ, accept_ready, server);
}

static void accept_later(struct rg_rankserver *server, unsigned pause_ms)
{
    rg_io_stop(&server->io);
    rg_timer_start(&server->pause, server->agent->loop, pause_ms, 0, accept_again, server);
}

/* It has said something that we have not read, as the link to the launcher is congested. */
static bool has_news(const struct rg_rankconn *conn)
{
    char byte;

    return recv(conn->conn.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Whoever connects and says nothing must not keep ranks out. */
static bool make_room(struct rg_rankserver *server)
{
    struct rg_rankconn *oldest = NULL;

    if (server->npending < RG_RANKSERVER_PENDING_MAX)
        return true;
    for (struct rg_rankconn *conn = server->conns; conn; conn = conn->next) {
        if (!conn->task && !conn->is_client && !has_news(conn))
            oldest = conn;
    }
    if (!oldest || rg_now_ns() - oldest->since_ns < RG_RANKSERVER_PATIENCE_MS * RG_NS_PER_MS)
        return false;
    hello_late(oldest);
    return true;
}

static void accept_ready(void *arg, int events)
{
    struct rg_rankserver *server = arg;
    bool tell;

    (void) events;
    if (!make_room(server)) {
        accept_later(server, FULL_MS);
        return;
    }
    int fd = rg_accept(&server->acceptor, server->fd, &tell);
    if (tell)
        rg_agent_note(server->agent, "no free descriptor for a rank's runtime that connects: it "
                                     "waits until there is one (ulimit -n)");
    if (fd == -EMFILE)
        accept_later(server, RG_ACCEPT_PAUSE_MS);
    if (fd < 0)
        return;
    pid_t pid;
    struct rg_rankconn *conn = is_our_user(fd, &pid) ? calloc(1, sizeof(*conn)) : NULL;
    if (!conn) {
        close(fd);
        return;
    }
    conn->server = server;
    conn->pid = pid;
    rg_conn_init(&conn->conn, fd, &conn_ops, conn, NULL);
    conn->since_ns = rg_now_ns();
    conn->next = server->conns;
    server->conns = conn;
    server->npending++;
    rg_timer_start(&conn->timer, server->agent->loop, RG_RANKSERVER_HELLO_MS, 0, hello_late, conn);
    watch(conn);
}

static int bind_random(struct rg_rankserver *server)
{
    static const char prefix[] = "@reigen-";
    struct sockaddr_un address;
    uint8_t random[16];

    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return -EIO;
    strcpy(server->name, prefix);
    sodium_bin2hex(server->name + strlen(prefix), 2 * sizeof(random) + 1, random, sizeof(random));
    socklen_t nbytes = rg_unix_address(server->name, &address);
    if (bind(server->fd, (struct sockaddr *) &address, nbytes) < 0 ||
        listen(server->fd, BACKLOG) < 0)
        return -errno;
    return 0;
}

int rg_rankserver_create(struct rg_agent *agent, struct rg_rankserver **ret_server)
{
    struct rg_rankserver *server = calloc(1, sizeof(*server));

    if (!server)
        return -ENOMEM;
    server->agent = agent;
    server->data_key = rg_key_hold(NULL);
    server->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = server->fd < 0 ? -errno : server->data_key ? bind_random(server) : -ENOMEM;
    if (r == 0 && getrandom(server->token, sizeof(server->token), 0) != sizeof(server->token))
        r = -EIO;
    if (r < 0) {
        rg_rankserver_destroy(server);
        return r;
    }
    rg_key_derive(agent->boot.key, "data", server->data_key);
    rg_io_start(&server->io, agent->loop, server->fd, RG_IO_READ, accept_ready, server);
    *ret_server = server;
    return 0;
}

void rg_rankserver_resume(struct rg_rankserver *server)
{
    for (struct rg_rankconn *conn = server->conns; conn; conn = conn->next)
        watch(conn);
}

void rg_rankserver_destroy(struct rg_rankserver *server)
{
    if (!server)
        return;
    while (server->conns)
        conn_destroy(server->conns);
    rg_io_stop(&server->io);
    rg_timer_stop(&server->pause);
    if (server->fd >= 0)
        close(server->fd);
    rg_key_drop(server->data_key);
    explicit_bzero(server->token, sizeof(server->token));
    free(server);
}

const char *rg_rankserver_name(const struct rg_rankserver *server)
{
    return server->name;
}

const uint8_t *rg_rankserver_token(const struct rg_rankserver *server)
{
    return server->token;
}

/* --- deaths and relays ------------------------------------------------------------------------ */

/* A rank's old connection may still be open when a fresh process of it has come. */
static bool is_current(const struct rg_rankconn *conn)
{
    return conn->task && conn->task->conn == conn && !conn->doomed;
}

/* To all whose epoch is this one. In an elastic job 0 is none: they wait, or are about to. */
static void tell(struct rg_rankserver *server, uint32_t epoch, uint16_t type,
                 const struct rg_field *fields, const void *msg)
{
    if (!epoch && server->agent->setup.elastic)
        return;
    for (struct rg_rankconn *conn = server->conns; conn; conn = conn->next) {
        if (is_current(conn) && conn->task->epoch == epoch)
            conn_send(conn, type, fields, msg);
    }
}

void rg_rankserver_peer_died(struct rg_rankserver *server, uint32_t epoch,
                             const struct rg_rankmsg_peer_died *msg)
{
    tell(server, epoch, RG_RANKMSG_PEER_DIED, rg_rankmsg_peer_died_fields, msg);
}

int rg_rankserver_epoch(struct rg_rankserver *server, struct rg_msg_epoch *take_msg)
{
    struct rg_agent *agent = server->agent;

    if (take_msg->epoch <= agent->epochs.newest.epoch || !seats_can_be(agent, take_msg))
        return -EBADMSG;
    free(agent->epochs.newest.seats.data);
    agent->epochs.newest = *take_msg;
    take_msg->seats = (struct rg_span){ 0 };
    agent->epochs.update.stamp = 0;
    for (struct rg_rankconn *conn = server->conns; conn; conn = conn->next) {
        if (is_current(conn))
            seat_rank(conn);
    }
    return 0;
}

void rg_rankserver_update(struct rg_rankserver *server, const struct rg_rankmsg_update *msg)
{
    struct rg_agent *agent = server->agent;

    agent->epochs.update = *msg;
    tell(server, agent->epochs.newest.epoch, RG_RANKMSG_UPDATE, rg_rankmsg_update_fields, msg);
}

void rg_rankserver_ended(struct rg_rankserver *server, struct rg_task *task, int status)
{
    struct rg_rankmsg_peer_died died = {
        .rank = task->epoch ? task->number : task->spec.rank,
        .host = server->agent->setup.host,
        .end = WIFSIGNALED(status) ? RG_DEATH_SIGNAL : RG_DEATH_EXIT,
        .value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
    };

    if (task->conn) {
        struct rg_rankconn *conn = task->conn;
        read_some(conn, LAST_READS); /* its children may have the socket, and go on writing */
        conn_destroy(conn);
    }
    task->fence = 0;
    task->over_epoch = server->agent->epochs.newest.epoch;
    if (status != 0 || task->in_runtime)
        rg_rankserver_peer_died(server, task->epoch, &died);
}

void rg_rankserver_fence_done(struct rg_rankserver *server,
                              const struct rg_rankmsg_fence_done *msg)
{
    for (struct rg_rankconn *conn = server->conns; conn; conn = conn->next) {
        if (!is_current(conn) || conn->task->fence != msg->generation ||
            conn->task->epoch != msg->epoch)
            continue;
        if (!msg->left)
            conn->task->fence = 0;
        conn_send(conn, RG_RANKMSG_FENCE_DONE, rg_rankmsg_fence_done_fields, msg);
    }
}

void rg_rankserver_fence_failed(struct rg_rankserver *server,
                                const struct rg_rankmsg_fence_failed *msg)
{
    struct rg_rankmsg_fence_failed relay = { msg->generation, msg->errnum, msg->text,
                                             msg->epoch };

    for (struct rg_rankconn *conn = server->conns; conn; conn = conn->next) {
        if (!is_current(conn) || !conn->task->fence || conn->task->epoch != msg->epoch)
            continue;
        relay.generation = conn->task->fence;
        conn->task->fence = 0;
        conn_send(conn, RG_RANKMSG_FENCE_FAILED, rg_rankmsg_fence_failed_fields, &relay);
    }
}
