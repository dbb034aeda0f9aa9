/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that were started by somebody else, such as srun, have no stream to the launcher: they
 * call it, and this is where those without the key are refused. */
#include "launch/host/listener.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "wire/auth.h"
#include "wire/link.h"

#define BACKLOG 1024
#define CONNS_MAX 256     /* who have not proven themselves; others wait in the kernel's queue */
#define VISIT_MS 10000
#define PATIENCE_MS 300      /* the same, while others wait: an agent says all it has to at once */
#define FULL_MS 50
#define HELLO "reigen-dial2 " /* agent/start/dial.h */

struct conn {
    struct conn *next;
    struct rg_listener *listener;
    int fd;
    uint64_t since_ns;
    struct rg_io io;
    struct rg_timer timer;
    char line[sizeof(HELLO) + RG_AUTH_PLACE_MAX + 1];
    size_t nline;
    bool named; /* the line is complete: place follows */
    struct rg_auth auth;
    uint8_t in[RG_AUTH_MESSAGE_MAX];
    size_t nin;
};

struct rg_listener {
    struct rg_listener_options o;
    int fd;
    int port;
    struct rg_io io;
    struct rg_timer pause;
    struct rg_acceptor acceptor;
    struct conn *conns; /* the latest first */
    int nconns;
    uint8_t *key;       /* rg_key_hold: for this purpose alone */
};

static void watch(struct rg_listener *listener);

/* --- who calls -------------------------------------------------------------------------------- */

static void drop(struct conn *conn)
{
    struct rg_listener *listener = conn->listener;
    struct conn **at = &listener->conns;

    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    listener->nconns--;
    rg_io_stop(&conn->io);
    rg_timer_stop(&conn->timer);
    if (conn->fd >= 0)
        close(conn->fd);
    rg_auth_wipe(&conn->auth);
    if (!rg_accept_pauses(&listener->acceptor))
        watch(listener);
    free(conn);
}

static void too_slow(void *arg)
{
    drop(arg);
}

/* Exactly so many bytes: what comes after is the link's. 1: all are there; 0: not yet; -errno. */
static int receive(struct conn *conn, void *bytes, size_t *have, size_t wanted)
{
    while (*have < wanted) {
        ssize_t n = recv(conn->fd, (char *) bytes + *have, wanted - *have, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -ECONNRESET : errno == EAGAIN ? 0 : -errno;
        *have += (size_t) n;
    }
    return 1;
}

/* 1: the line is there, and the exchange has begun. */
static int read_line(struct conn *conn)
{
    char label[RG_AUTH_LABEL_MAX + 1];
    uint8_t nothing[RG_AUTH_MESSAGE_MAX];
    size_t nbytes;

    while (conn->nline < sizeof(conn->line) - 1) {
        int r = receive(conn, conn->line, &conn->nline, conn->nline + 1);
        if (r <= 0)
            return r;
        if (conn->line[conn->nline - 1] != '\n')
            continue;
        conn->line[conn->nline - 1] = '\0';
        if (!rg_str_starts(conn->line, HELLO))
            return -EPROTO;
        conn->named = true;
        snprintf(label, sizeof(label), "dial %s", conn->line + strlen(HELLO));
        r = rg_auth_start(&conn->auth, false, conn->listener->key, label, nothing, &nbytes);
        return r < 0 ? r : 1;
    }
    return -EMSGSIZE;
}

/* 1: it has proven itself. */
static int advance(struct conn *conn)
{
    int r = conn->named ? 1 : read_line(conn);

    while (r == 1 && rg_auth_wanted(&conn->auth) > 0) {
        uint8_t out[RG_AUTH_MESSAGE_MAX];
        size_t nout = 0;
        r = receive(conn, conn->in, &conn->nin, rg_auth_wanted(&conn->auth));
        if (r <= 0)
            return r;
        r = rg_auth_receive(&conn->auth, conn->in, conn->nin, out, &nout);
        conn->nin = 0;
        /* It is shorter than any socket's buffer, and the first that we send; a refusal, too. */
        if (nout && send(conn->fd, out, nout, MSG_NOSIGNAL) != (ssize_t) nout && r == 0)
            r = -EPIPE;
        r = r < 0 ? r : 1;
    }
    return r;
}

static void on_conn(void *arg, int events)
{
    struct conn *conn = arg;
    char place[RG_AUTH_PLACE_MAX + 1];
    int r = advance(conn);

    (void) events;
    if (r == 0)
        return;
    int fd = -1;
    if (r > 0 && rg_auth_done(&conn->auth))
        fd = rg_steal_fd(&conn->fd);
    snprintf(place, sizeof(place), "%.*s", RG_AUTH_PLACE_MAX, conn->line + strlen(HELLO));
    struct rg_listener *listener = conn->listener;
    drop(conn);
    if (fd >= 0)
        listener->o.on_linked(listener->o.arg, place, fd);
    else if (r == -EACCES && listener->o.on_refused)
        listener->o.on_refused(listener->o.arg, place);
}

/* --- letting them in -------------------------------------------------------------------------- */

static void admit(struct rg_listener *listener, int take_fd)
{
    struct conn *conn = calloc(1, sizeof(*conn));
    int on = 1;

    if (!conn) {
        close(take_fd);
        return;
    }
    setsockopt(take_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    conn->listener = listener;
    conn->fd = take_fd;
    conn->since_ns = rg_now_ns();
    conn->next = listener->conns;
    listener->conns = conn;
    listener->nconns++;
    rg_timer_start(&conn->timer, listener->o.loop, VISIT_MS, 0, too_slow, conn);
    rg_io_start(&conn->io, listener->o.loop, take_fd, RG_IO_READ, on_conn, conn);
}

static void open_again(void *arg)
{
    watch(arg);
}

/* Connections that only hold a place must not keep agents out: the oldest goes. */
static bool make_room(struct rg_listener *listener)
{
    struct conn *oldest = listener->conns;

    if (listener->nconns < CONNS_MAX)
        return true;
    while (oldest->next)
        oldest = oldest->next;
    if (rg_now_ns() - oldest->since_ns < PATIENCE_MS * RG_NS_PER_MS)
        return false;
    drop(oldest);
    return true;
}

static void on_caller(void *arg, int events)
{
    struct rg_listener *listener = arg;
    bool tell;

    (void) events;
    while (make_room(listener)) {
        int fd = rg_accept(&listener->acceptor, listener->fd, &tell);
        if (fd == -EMFILE) {
            rg_io_stop(&listener->io);
            rg_timer_start(&listener->pause, listener->o.loop, RG_ACCEPT_PAUSE_MS, 0, open_again,
                           listener);
        }
        if (fd < 0)
            return;
        admit(listener, fd);
    }
    rg_io_stop(&listener->io);
    rg_timer_start(&listener->pause, listener->o.loop, FULL_MS, 0, open_again, listener);
}

static void watch(struct rg_listener *listener)
{
    if (!rg_io_active(&listener->io))
        rg_io_start(&listener->io, listener->o.loop, listener->fd, RG_IO_READ, on_caller,
                    listener);
}

/* --- its port --------------------------------------------------------------------------------- */

/* port 0: any. */
static int listen_on(int family, int port, int *ret_port)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } address = { .sa.sa_family = (sa_family_t) family };
    socklen_t nbytes = family == AF_INET ? sizeof(address.in) : sizeof(address.in6);
    rg_autoclose int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int off = 0, on = 1;

    if (fd < 0)
        return -errno;
    /* A range may be small, and what a job has used a minute ago is not to count as taken. */
    if (port)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        address.in6.sin6_port = htons((uint16_t) port);
    } else {
        address.in.sin_port = htons((uint16_t) port);
    }
    if (bind(fd, &address.sa, nbytes) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, &address.sa, &nbytes) < 0)
        return -errno;
    *ret_port = ntohs(family == AF_INET ? address.in.sin_port : address.in6.sin6_port);
    return rg_steal_fd(&fd);
}

/* Of this family, one of these ports. A socket that listens, or -errno. */
static int listen_among(int family, const struct rg_ports *ports, int *ret_port)
{
    /* Jobs that start at the same time begin their search at different places. */
    unsigned start = (unsigned) (rg_now_ns() / 1000);
    int fd = -EADDRINUSE;

    for (int i = 0; i < rg_ports_count(ports) && fd == -EADDRINUSE; i++)
        fd = listen_on(family, rg_ports_nth(ports, start, i), ret_port);
    return fd;
}

int rg_listener_socket(const struct rg_ports *ports, int *ret_port)
{
    int fd = listen_among(AF_INET6, ports, ret_port);

    return fd < 0 ? listen_among(AF_INET, ports, ret_port) : fd;
}

static int find_port(const struct rg_listener_options *o, int *ret_port)
{
    static const struct rg_ports any = { 0, 0 };
    int fd = rg_listener_socket(&o->ports, ret_port);

    /* Where none of them is free, another may do: not everywhere is a firewall. */
    return fd < 0 && !o->only ? rg_listener_socket(&any, ret_port) : fd;
}

int rg_listener_open(const struct rg_listener_options *options, struct rg_listener **ret_listener,
                     struct rg_error *err)
{
    int port = 0, fd = find_port(options, &port);

    if (fd < 0 && options->only)
        return rg_error_set_exit(err, -fd, RG_EXIT_UNAVAILABLE,
                                 "--port-range %d-%d: no port to listen on for the agents: %s",
                                 options->ports.first, options->ports.last, strerror(-fd));
    if (fd < 0)
        return rg_error_set_exit(err, -fd, RG_EXIT_UNAVAILABLE,
                                 "no port to listen on for the agents: %s", strerror(-fd));
    struct rg_listener *listener = calloc(1, sizeof(*listener));
    uint8_t *key = rg_key_hold(NULL);
    if (!listener || !key) {
        close(fd);
        free(listener);
        rg_key_drop(key);
        return rg_error_set(err, ENOMEM, "no memory for a key");
    }
    *listener = (struct rg_listener){ .o = *options, .fd = fd, .port = port, .key = key };
    rg_key_derive(options->key, "dial", key);
    watch(listener);
    *ret_listener = listener;
    return 0;
}

int rg_listener_port(const struct rg_listener *listener)
{
    return listener->port;
}

void rg_listener_close(struct rg_listener *listener)
{
    if (!listener)
        return;
    while (listener->conns)
        drop(listener->conns);
    rg_io_stop(&listener->io);
    rg_timer_stop(&listener->pause);
    close(listener->fd);
    rg_key_drop(listener->key);
    free(listener);
}

/* Loopback and link-local ones lead nowhere from another host. false: not to be used. */
static bool write_address(const struct ifaddrs *e, char address[INET6_ADDRSTRLEN + 2])
{
    const struct sockaddr_in *in = (const void *) e->ifa_addr;
    const struct sockaddr_in6 *in6 = (const void *) e->ifa_addr;
    char text[INET6_ADDRSTRLEN];

    if (!e->ifa_addr || !(e->ifa_flags & IFF_UP) || e->ifa_flags & IFF_LOOPBACK)
        return false;
    if (e->ifa_addr->sa_family == AF_INET && inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text)))
        return snprintf(address, INET6_ADDRSTRLEN + 2, "%s", text) > 0;
    if (e->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) &&
        inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text)))
        return snprintf(address, INET6_ADDRSTRLEN + 2, "[%s]", text) > 0;
    return false;
}

void rg_listener_addresses(const struct rg_listener *listener, struct rg_buf *text)
{
    static const int families[] = { AF_INET, AF_INET6 };
    struct ifaddrs *all = NULL;
    char address[INET6_ADDRSTRLEN + 2];
    int count = 0;

    if (getifaddrs(&all) < 0)
        return;
    for (size_t i = 0; i < rg_array_len(families); i++) {
        for (struct ifaddrs *e = all; e && count < RG_LISTENER_ADDRESSES_MAX; e = e->ifa_next) {
            if (!e->ifa_addr || e->ifa_addr->sa_family != families[i] || !write_address(e, address))
                continue;
            rg_buf_printf(text, ",%s:%d", address, listener->port);
            count++;
        }
    }
    freeifaddrs(all);
}
