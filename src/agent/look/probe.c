/* SPDX-License-Identifier: Apache-2.0 */
/* A network that has an address may still be closed between two hosts, or lose large packets:
 * each pair is tried with real connections and a load. */
#include "agent/look/probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>

#include "base/fd.h"
#include "base/time.h"
#include "wire/auth.h"
#include "wire/link.h"

#define BACKLOG 1024
#define LABEL "probe %016llx"

/* One connection, of either side. */
struct conn {
    struct conn *next;
    struct rg_prober *prober;
    struct rg_io io;
    struct rg_timer timer; /* of an incoming one; of an outgoing one's load, while nothing moves */
    struct rg_auth auth;
    int fd;
    bool dialled;         /* by us: outcome is wanted */
    uint32_t index;       /* of the target */
    uint64_t start_ns, connected_ns;
    uint8_t in[RG_AUTH_MESSAGE_MAX], out[RG_AUTH_MESSAGE_MAX];
    size_t nin, nout, nsent;
    bool loaded, answered; /* the load has begun; the listener's own has */
    size_t put, take;      /* bytes of load still to send and to read */
};

static uint8_t load[RG_PROBE_LOAD]; /* zeros, in no file */

struct rg_prober {
    struct rg_loop *loop;
    uint8_t *key; /* rg_key_hold */
    uint64_t instance;
    int fd; /* -1: not listening */
    uint32_t port;
    struct rg_io io;
    struct rg_acceptor acceptor;
    struct rg_timer pause; /* until there is use in accepting again */
    struct conn *conns;    /* the latest first */
    size_t ndials, naccepted;
    struct rg_timer limit;
    void (*on_probed)(void *arg, uint32_t index, uint32_t errnum, uint32_t rtt_us);
    void *arg;
};

union address {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

/* --- connections ------------------------------------------------------------------------------ */

static void on_conn(void *arg, int events);

static void watch(struct conn *conn, int events)
{
    rg_io_start(&conn->io, conn->prober->loop, conn->fd, events, on_conn, conn);
}

static struct conn *add_conn(struct rg_prober *prober, bool dialled, int take_fd)
{
    size_t *count = dialled ? &prober->ndials : &prober->naccepted;
    size_t max = dialled ? RG_PROBE_DIALS_MAX : RG_PROBE_ACCEPTED_MAX;
    struct conn *conn = *count < max ? calloc(1, sizeof(*conn)) : NULL;

    if (!conn) {
        close(take_fd);
        return NULL;
    }
    conn->prober = prober;
    conn->dialled = dialled;
    conn->fd = take_fd;
    conn->start_ns = rg_now_ns();
    conn->next = prober->conns;
    prober->conns = conn;
    ++*count;
    return conn;
}

static void drop(struct conn *conn)
{
    struct conn **at = &conn->prober->conns;

    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    --*(conn->dialled ? &conn->prober->ndials : &conn->prober->naccepted);
    rg_io_stop(&conn->io);
    rg_timer_stop(&conn->timer);
    close(conn->fd);
    rg_auth_wipe(&conn->auth);
    free(conn);
}

static void finish(struct conn *conn, int errnum)
{
    struct rg_prober *prober = conn->prober;
    bool dialled = conn->dialled;
    uint32_t index = conn->index;
    uint64_t rtt_us = (conn->connected_ns - conn->start_ns) / 1000;

    drop(conn);
    if (dialled)
        prober->on_probed(prober->arg, index, (uint32_t) errnum, errnum ? 0 : (uint32_t) rtt_us);
}

/* The next three: 1 when nothing is left to do, 0: the socket has no room or no bytes, -errno. */
static int send_out(struct conn *conn)
{
    while (conn->nsent < conn->nout || conn->put) {
        bool message = conn->nsent < conn->nout;
        ssize_t n = send(conn->fd, message ? conn->out + conn->nsent : load,
                         message ? conn->nout - conn->nsent : conn->put, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN ? 0 : -errno;
        if (message)
            conn->nsent += (size_t) n;
        else
            conn->put -= (size_t) n;
    }
    conn->nsent = conn->nout = 0;
    return 1;
}

static int read_message(struct conn *conn)
{
    for (size_t wanted = rg_auth_wanted(&conn->auth); conn->nin < wanted;) {
        ssize_t n = recv(conn->fd, conn->in + conn->nin, wanted - conn->nin, 0);
        if (n <= 0)
            return n == 0 ? -ECONNRESET : errno == EAGAIN ? 0 : -errno;
        conn->nin += (size_t) n;
    }
    size_t nbytes = conn->nin;
    conn->nin = 0;
    int r = rg_auth_receive(&conn->auth, conn->in, nbytes, conn->out, &conn->nout);
    if (r < 0)
        send_out(conn); /* a refusal: this is our first message, for which there is room */
    return r < 0 ? r : 1;
}

static int read_load(struct conn *conn)
{
    uint8_t bytes[4096];

    while (conn->take) {
        ssize_t n = recv(conn->fd, bytes, conn->take < sizeof(bytes) ? conn->take : sizeof(bytes),
                         0);
        if (n <= 0)
            return n == 0 ? -ECONNRESET : errno == EAGAIN ? 0 : -errno;
        conn->take -= (size_t) n;
    }
    return 1;
}

/* The byte goes alone, so that it comes where large packets do not. */
static void begin_load(struct conn *conn)
{
    if (!conn->loaded) {
        conn->loaded = true;
        conn->put = conn->dialled ? RG_PROBE_LOAD : 0;
        conn->take = conn->dialled ? RG_PROBE_LOAD + 1 : RG_PROBE_LOAD;
    } else {
        conn->answered = true;
        conn->out[0] = 1;
        conn->nout = 1;
        conn->put = RG_PROBE_LOAD;
    }
}

/* 0: more to come; 1: this side has all it wants; -errno. */
static int advance(struct conn *conn)
{
    for (;;) {
        int r = send_out(conn);
        if (r > 0 && rg_auth_wanted(&conn->auth))
            r = read_message(conn);
        else if (r > 0 && conn->take)
            r = read_load(conn);
        else if (r > 0 && (!conn->loaded || (!conn->dialled && !conn->answered)))
            begin_load(conn);
        else if (r > 0)
            return 1;
        if (r <= 0)
            return r;
    }
}

/* What we sent is not acknowledged, which needs nobody who is busy; or the byte came, and what was
 * sent with it did not. */
static bool is_swallowed(const struct conn *conn)
{
    int nunacked = 0;

    if (!conn->loaded)
        return false;
    if (conn->take <= RG_PROBE_LOAD)
        return true;
    return ioctl(conn->fd, TIOCOUTQ, &nunacked) == 0 && nunacked > 0;
}

static void stalled(void *arg)
{
    struct conn *conn = arg;

    if (is_swallowed(conn))
        finish(conn, EMSGSIZE);
}

static void on_conn(void *arg, int events)
{
    struct conn *conn = arg;
    socklen_t nbytes = sizeof(int);
    int errnum = 0;

    (void) events;
    if (conn->dialled && !conn->connected_ns) {
        getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &errnum, &nbytes);
        if (errnum) {
            finish(conn, errnum);
            return;
        }
        conn->connected_ns = rg_now_ns();
    }
    int r = advance(conn);
    if (r != 0) {
        finish(conn, r < 0 ? -r : 0);
        return;
    }
    watch(conn, conn->nsent < conn->nout || conn->put ? RG_IO_WRITE : RG_IO_READ);
    if (conn->dialled && conn->loaded)
        rg_timer_start(&conn->timer, conn->prober->loop, RG_PROBE_STALL_MS, RG_PROBE_STALL_MS,
                       stalled, conn);
}

/* --- listening -------------------------------------------------------------------------------- */

static void start_auth(struct conn *conn, uint64_t instance)
{
    char label[RG_AUTH_LABEL_MAX];

    snprintf(label, sizeof(label), LABEL, (unsigned long long) instance);
    rg_auth_start(&conn->auth, conn->dialled, conn->prober->key, label, conn->out, &conn->nout);
}

static void too_slow(void *arg)
{
    drop(arg);
}

/* A connection that only holds a place, or a descriptor, must not keep agents out: an agent proves
 * itself at once, so the one that has gone longest without is closed. False: none is old enough. */
static bool send_oldest_away(struct rg_prober *prober)
{
    struct conn *oldest = NULL;

    for (struct conn *conn = prober->conns; conn; conn = conn->next) {
        if (!conn->dialled && !rg_auth_done(&conn->auth))
            oldest = conn;
    }
    if (!oldest || rg_now_ns() - oldest->start_ns < RG_PROBE_PATIENCE_MS * RG_NS_PER_MS)
        return false;
    drop(oldest);
    return true;
}

static void on_handshake(void *arg, int events);

static void open_again(void *arg)
{
    struct rg_prober *prober = arg;

    rg_io_start(&prober->io, prober->loop, prober->fd, RG_IO_READ, on_handshake, prober);
}

static void on_handshake(void *arg, int events)
{
    struct rg_prober *prober = arg;
    bool tell;

    (void) events;
    while (prober->naccepted < RG_PROBE_ACCEPTED_MAX || send_oldest_away(prober)) {
        int fd = rg_accept(&prober->acceptor, prober->fd, &tell);
        if (fd == -EMFILE) {
            while (send_oldest_away(prober))
                ;
            break;
        }
        struct conn *conn = fd < 0 ? NULL : add_conn(prober, false, fd);
        if (!conn)
            return;
        start_auth(conn, prober->instance);
        rg_timer_start(&conn->timer, prober->loop, RG_PROBE_ACCEPTED_MS, 0, too_slow, conn);
        watch(conn, RG_IO_READ);
    }
    /* The socket stays readable: not to be looked at for a while. */
    rg_io_stop(&prober->io);
    rg_timer_start(&prober->pause, prober->loop, RG_ACCEPT_PAUSE_MS, 0, open_again, prober);
}

/* port 0: any. */
static int bind_at(int family, int port, uint32_t *ret_port)
{
    union address any = { .sa.sa_family = (sa_family_t) family };
    socklen_t nbytes = family == AF_INET6 ? sizeof(any.in6) : sizeof(any.in);
    int off = 0, on = 1;
    rg_autoclose int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    /* In a range of few ports, those that a job has used a minute ago are not to count as taken. */
    if (port)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    any.in.sin_port = htons((uint16_t) port); /* both families have it in the same place */
    if (bind(fd, &any.sa, nbytes) < 0 || getsockname(fd, &any.sa, &nbytes) < 0)
        return -errno;
    *ret_port = ntohs(any.in.sin_port);
    return rg_steal_fd(&fd);
}

int rg_prober_create(struct rg_loop *loop, const uint8_t *key, struct rg_prober **ret_prober)
{
    struct rg_prober *prober = calloc(1, sizeof(*prober));

    if (!prober)
        return -ENOMEM;
    prober->loop = loop;
    prober->key = rg_key_hold(NULL);
    if (!prober->key || getrandom(&prober->instance, sizeof(prober->instance), 0) < 0) {
        int r = prober->key ? -ENOSYS : -ENOMEM;
        rg_key_drop(prober->key);
        free(prober);
        return r;
    }
    rg_key_derive(key, "probe", prober->key);
    prober->fd = -1;
    *ret_prober = prober;
    return 0;
}

static int listen_at(int family, const struct rg_ports *ports, uint32_t *ret_port)
{
    unsigned start = (unsigned) (rg_now_ns() / 1000);
    int r = -EADDRINUSE;

    for (int i = 0; i < rg_ports_count(ports) && r == -EADDRINUSE; i++) {
        rg_autoclose int fd = bind_at(family, rg_ports_nth(ports, start, i), ret_port);
        if (fd < 0)
            r = fd;
        else
            r = listen(fd, BACKLOG) < 0 ? -errno : rg_steal_fd(&fd);
    }
    return r;
}

uint32_t rg_prober_listen(struct rg_prober *prober, const struct rg_ports *ports)
{
    uint32_t port = 0;

    if (prober->fd >= 0)
        return prober->port;
    rg_autoclose int fd = listen_at(AF_INET6, ports, &port);
    if (fd < 0)
        fd = listen_at(AF_INET, ports, &port);
    if (fd < 0)
        return 0;
    prober->fd = rg_steal_fd(&fd);
    prober->port = port;
    open_again(prober);
    return port;
}

void rg_prober_hush(struct rg_prober *prober)
{
    struct conn *next;

    rg_io_stop(&prober->io);
    rg_timer_stop(&prober->pause);
    if (prober->fd >= 0)
        close(rg_steal_fd(&prober->fd));
    for (struct conn *conn = prober->conns; conn; conn = next) {
        next = conn->next;
        if (!conn->dialled)
            drop(conn);
    }
}

void rg_prober_destroy(struct rg_prober *prober)
{
    if (!prober)
        return;
    rg_timer_stop(&prober->limit);
    rg_prober_hush(prober);
    while (prober->conns)
        drop(prober->conns);
    rg_key_drop(prober->key);
    free(prober);
}

uint32_t rg_prober_free_port(void)
{
    uint32_t port = 0;
    int fd = bind_at(AF_INET, 0, &port);

    if (fd >= 0)
        close(fd);
    return port;
}

/* Sockets stay open until all are found, so that none is found twice. */
void rg_prober_free_ports(const struct rg_ports *ports, uint32_t count, struct rg_buf *buf)
{
    rg_autofree int *fds = calloc(count + 1, sizeof *fds);
    unsigned start = (unsigned) (rg_now_ns() / 1000);
    uint32_t port, nfound = 0;

    for (int i = 0; fds && nfound < count && (!ports->first || i < rg_ports_count(ports)); i++) {
        int fd = bind_at(AF_INET, rg_ports_nth(ports, start, i), &port);
        if (fd < 0 && !ports->first)
            break;
        if (fd < 0)
            continue;
        fds[nfound++] = fd;
        rg_buf_put_u16(buf, (uint16_t) port);
    }
    while (nfound > 0)
        close(fds[--nfound]);
}

uint64_t rg_prober_instance(const struct rg_prober *prober)
{
    return prober->instance;
}

/* --- dialling --------------------------------------------------------------------------------- */

static void limit_due(void *arg)
{
    struct rg_prober *prober = arg;
    struct conn *conn = prober->conns, *next;

    for (; conn; conn = next) {
        next = conn->next;
        if (conn->dialled)
            finish(conn, is_swallowed(conn) ? EMSGSIZE : ETIMEDOUT);
    }
}

static int parse_target(const char *target, uint64_t *ret_instance, union address *ret_address)
{
    union address address = { .in6.sin6_family = AF_INET6 };
    char *end, text[INET6_ADDRSTRLEN] = "";
    size_t length;

    *ret_instance = strtoull(target, &end, 16);
    if (*end != ' ' || (length = strcspn(end + 1, " ")) >= sizeof(text))
        return -EINVAL;
    memcpy(text, end + 1, length);
    long port = strtol(end + 1 + length, &end, 10);
    if (*end || port < 1 || port > 65535)
        return -EINVAL;
    if (inet_pton(AF_INET6, text, &address.in6.sin6_addr) != 1) {
        address = (union address){ .in.sin_family = AF_INET };
        if (inet_pton(AF_INET, text, &address.in.sin_addr) != 1)
            return -EINVAL;
    }
    address.in.sin_port = htons((uint16_t) port);
    *ret_address = address;
    return 0;
}

/* 0 when it is under way, else -errno. */
static int dial(struct rg_prober *prober, uint32_t index, const char *target)
{
    union address address;
    uint64_t instance;
    int r = parse_target(target, &instance, &address);

    if (r < 0)
        return r;
    int fd = socket(address.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    struct conn *conn = add_conn(prober, true, fd);
    if (!conn)
        return -ENOMEM;
    conn->index = index;
    start_auth(conn, instance);
    if (connect(fd, &address.sa, sizeof(address)) < 0 && errno != EINPROGRESS) {
        r = -errno;
        drop(conn);
        return r;
    }
    watch(conn, RG_IO_WRITE);
    return 0;
}

void rg_prober_try(struct rg_prober *prober, const struct rg_strv *targets, uint32_t limit_ms,
                   void (*on_probed)(void *arg, uint32_t index, uint32_t errnum, uint32_t rtt_us),
                   void *arg)
{
    prober->on_probed = on_probed;
    prober->arg = arg;
    rg_timer_start(&prober->limit, prober->loop, limit_ms, 0, limit_due, prober);
    for (size_t i = 0; i < targets->count; i++) {
        int r = dial(prober, (uint32_t) i, targets->v[i]);
        if (r < 0)
            on_probed(arg, (uint32_t) i, (uint32_t) -r, 0);
    }
}
