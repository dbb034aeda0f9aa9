/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets as the runtime uses them: addresses, non-blocking connects, exact reads and writes. */
#include "coll/net/sock.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/time.h"

static bool is_transient(int errnum)
{
    return errnum == EAGAIN || errnum == EWOULDBLOCK || errnum == EINTR;
}

int rg_sock_write(int fd, const void *data, size_t nbytes, uint64_t deadline_ns)
{
    const uint8_t *from = data;

    while (nbytes > 0) {
        ssize_t n = send(fd, from, nbytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        int r = 0;

        if (n < 0 && !is_transient(errno))
            return -errno;
        if (n < 0)
            r = rg_fd_wait(fd, POLLOUT, deadline_ns);
        if (r < 0)
            return r;
        if (n > 0) {
            from += n;
            nbytes -= (size_t) n;
        }
    }
    return 0;
}

union control {
    char bytes[CMSG_SPACE(RG_SOCK_FDS_MAX * sizeof(int))];
    struct cmsghdr align;
};

int rg_sock_send_fds(int fd, const void *data, size_t nbytes, const int *fds, int nfds,
                     uint64_t deadline_ns)
{
    struct iovec iov = { (void *) (uintptr_t) data, nbytes };
    union control control = { .bytes = "" };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (nfds < 0 || nfds > RG_SOCK_FDS_MAX || nbytes < 1 || nbytes > RG_SOCK_MESSAGE_MAX)
        return -EINVAL;
    if (nfds > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE((size_t) nfds * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);

        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN((size_t) nfds * sizeof(int));
        memcpy(CMSG_DATA(cmsg), fds, (size_t) nfds * sizeof(int));
    }
    for (;;) {
        ssize_t n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0)
            return (size_t) n == nbytes ? 0 : -EPROTO;
        int r = is_transient(errno) ? rg_fd_wait(fd, POLLOUT, deadline_ns) : -errno;

        if (r < 0)
            return r;
    }
}

/* Keep up to room descriptors of a message and close the rest; returns how many came. */
static int take_fds(struct msghdr *message, int *ret_fds, int room)
{
    int count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        for (size_t i = 0; i < n; i++) {
            int got;

            memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof(got));
            if (count < room)
                ret_fds[count] = got;
            else
                close(got);
            count++;
        }
    }
    return count;
}

int rg_sock_recv_fds(int fd, void *data, size_t nbytes, int *ret_fds, int nfds,
                     uint64_t deadline_ns)
{
    struct iovec iov = { data, nbytes };
    union control control;
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    int fds[RG_SOCK_FDS_MAX];
    ssize_t n;

    if (nfds < 0 || nfds > RG_SOCK_FDS_MAX || nbytes < 1 || nbytes > RG_SOCK_MESSAGE_MAX)
        return -EINVAL;
    for (;;) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control);
        n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n >= 0)
            break;
        int r = is_transient(errno) ? rg_fd_wait(fd, POLLIN, deadline_ns) : -errno;

        if (r < 0)
            return r;
    }
    int came = take_fds(&message, fds, nfds);
    bool whole = (size_t) n == nbytes && came == nfds && !(message.msg_flags & MSG_CTRUNC);
    int r = n == 0 ? -EPIPE : whole ? 0 : -EPROTO;

    for (int i = 0; i < came && i < nfds; i++) {
        if (r < 0)
            close(fds[i]);
        else
            ret_fds[i] = fds[i];
    }
    return r;
}

static int unix_address(const char *name, struct sockaddr_un *ret_address, socklen_t *ret_nbytes)
{
    size_t length = strlen(name);

    if (length < 1 || length >= sizeof(ret_address->sun_path))
        return -ENAMETOOLONG;
    memset(ret_address, 0, sizeof(*ret_address));
    ret_address->sun_family = AF_UNIX;
    memcpy(ret_address->sun_path, name, length);
    *ret_nbytes = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + length);
    if (name[0] == '@')
        ret_address->sun_path[0] = 0;
    else
        *ret_nbytes += 1;
    return 0;
}

static int make_unix(const char *name, bool listening, int *ret_fd)
{
    struct sockaddr_un address;
    socklen_t nbytes;
    int r = unix_address(name, &address, &nbytes);

    if (r < 0)
        return r;
    rg_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    r = listening ? bind(fd, (struct sockaddr *) &address, nbytes)
                  : connect(fd, (struct sockaddr *) &address, nbytes);
    if (r == 0 && listening)
        r = listen(fd, SOMAXCONN);
    if (r < 0)
        return -errno;
    *ret_fd = rg_steal_fd(&fd);
    return 0;
}

int rg_sock_listen_unix(const char *name, int *ret_fd)
{
    return make_unix(name, true, ret_fd);
}

int rg_sock_connect_unix(const char *name, int *ret_fd)
{
    return make_unix(name, false, ret_fd);
}

int rg_sock_peer(int fd, uid_t *ret_uid, pid_t *ret_pid)
{
    struct ucred ucred;
    socklen_t nbytes = sizeof(ucred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &nbytes) < 0)
        return -errno;
    if (ret_uid)
        *ret_uid = ucred.uid;
    if (ret_pid)
        *ret_pid = ucred.pid;
    return 0;
}

static uint16_t port_of(const struct rg_sockaddr *address)
{
    return ntohs(address->sa.sa_family == AF_INET6 ? address->in6.sin6_port
                                                   : address->in.sin_port);
}

int rg_sock_listen_tcp(const struct rg_sockaddr *address, int *ret_fd, uint16_t *ret_port)
{
    struct rg_sockaddr bound = { .nbytes = sizeof(bound.in6) };
    int on = 1;
    rg_autoclose int fd =
        socket(address->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, &address->sa, address->nbytes) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, &bound.sa, &bound.nbytes) < 0)
        return -errno;
    *ret_port = port_of(&bound);
    *ret_fd = rg_steal_fd(&fd);
    return 0;
}

int rg_sock_listen_ports(struct rg_sockaddr address, const struct rg_ports *ports, int *ret_fd,
                         uint16_t *ret_port)
{
    unsigned start = (unsigned) (rg_now_ns() / 1000); /* not all ranks of a host at the same one */
    int r = -EADDRINUSE;

    for (int i = 0; i < rg_ports_count(ports) && r == -EADDRINUSE; i++) {
        rg_sock_set_port(&address, (uint16_t) rg_ports_nth(ports, start, i));
        r = rg_sock_listen_tcp(&address, ret_fd, ret_port);
    }
    return r;
}

/* The port is chosen when it connects, so that the same one may lead to several others. */
static int bind_source(int fd, struct rg_sockaddr source)
{
    int on = 1, again = 3; /* after 1, 2 and 4 s, and 8 s for an answer */

    rg_sock_set_port(&source, 0);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &again, sizeof(again));
    return bind(fd, &source.sa, source.nbytes);
}

int rg_sock_connect_tcp(const struct rg_sockaddr *source, const struct rg_sockaddr *address,
                        int *ret_fd)
{
    rg_autoclose int fd =
        socket(address->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    rg_sock_tune_tcp(fd);
    if (source && bind_source(fd, *source) < 0)
        return -errno;
    if (connect(fd, &address->sa, address->nbytes) < 0 && errno != EINPROGRESS && errno != EINTR)
        return -errno;
    *ret_fd = rg_steal_fd(&fd);
    return 0;
}

int rg_sock_error(int fd)
{
    int errnum = 0;
    socklen_t nbytes = sizeof(errnum);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &nbytes) < 0)
        return -errno;
    return -errnum;
}

int rg_sock_reach_tcp(const struct rg_sockaddr *address, uint64_t deadline_ns, int *ret_fd)
{
    rg_autoclose int fd = -1;
    int r = rg_sock_connect_tcp(NULL, address, &fd);

    if (r == 0)
        r = rg_fd_wait(fd, POLLOUT, deadline_ns);
    if (r == 0)
        r = rg_sock_error(fd);
    if (r == 0)
        *ret_fd = rg_steal_fd(&fd);
    return r;
}

void rg_sock_tune_tcp(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    /* A heartbeat that is lost again and again is sent every time after the same pause, not after
     * ever longer ones: where three packets of ten are lost, this halves silences of 5 s. */
    setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof(on));
}

void rg_sock_drain(int fd, uint64_t deadline_ns)
{
    int waiting = 0, on = 1;

    /* The peer most often waits here, too, for what our kernel would acknowledge 40 ms later. */
    setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
    while (ioctl(fd, SIOCOUTQ, &waiting) == 0 && waiting > 0 && rg_now_ns() < deadline_ns) {
        struct pollfd pfd = { .fd = fd };

        /* A socket that was reset keeps its count for ever. */
        if (poll(&pfd, 1, 1) != 0)
            return;
    }
}

void rg_sock_set_port(struct rg_sockaddr *address, uint16_t port)
{
    if (address->sa.sa_family == AF_INET6)
        address->in6.sin6_port = htons(port);
    else
        address->in.sin_port = htons(port);
}

/* "host:port" into its halves; brackets around host fall away. */
static int split(const char *text, char host[RG_SOCK_ADDRESS_MAX], unsigned *ret_port)
{
    const char *colon = strrchr(text, ':');
    char *end;

    if (!colon || colon[1] < '0' || colon[1] > '9')
        return -EINVAL;
    unsigned long port = strtoul(colon + 1, &end, 10);
    size_t length = (size_t) (colon - text);

    if (*end || port > 65535 || length >= RG_SOCK_ADDRESS_MAX)
        return -EINVAL;
    if (length > 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    memcpy(host, text, length);
    host[length] = 0;
    *ret_port = (unsigned) port;
    return 0;
}

int rg_sock_parse_host(const char *host, struct rg_sockaddr *ret_address)
{
    struct rg_sockaddr address = { .nbytes = sizeof(address.in) };

    if (inet_pton(AF_INET, host, &address.in.sin_addr) == 1) {
        address.in.sin_family = AF_INET;
    } else if (inet_pton(AF_INET6, host, &address.in6.sin6_addr) == 1) {
        address.in6.sin6_family = AF_INET6;
        address.nbytes = sizeof(address.in6);
    } else {
        return -EINVAL;
    }
    *ret_address = address;
    return 0;
}

int rg_sock_parse(const char *text, struct rg_sockaddr *ret_address)
{
    char host[RG_SOCK_ADDRESS_MAX];
    unsigned port;

    if (split(text, host, &port) < 0 || rg_sock_parse_host(host, ret_address) < 0)
        return -EINVAL;
    rg_sock_set_port(ret_address, (uint16_t) port);
    return 0;
}

void rg_sock_format_host(const struct rg_sockaddr *address, char ret_host[RG_SOCK_ADDRESS_MAX])
{
    bool six = address->sa.sa_family == AF_INET6;

    if (!inet_ntop(address->sa.sa_family,
                   six ? (const void *) &address->in6.sin6_addr
                       : (const void *) &address->in.sin_addr,
                   ret_host, RG_SOCK_ADDRESS_MAX))
        strcpy(ret_host, "?");
}

void rg_sock_format(const struct rg_sockaddr *address, char ret_text[RG_SOCK_ADDRESS_MAX])
{
    char host[RG_SOCK_ADDRESS_MAX];

    rg_sock_format_host(address, host);
    snprintf(ret_text, RG_SOCK_ADDRESS_MAX,
             address->sa.sa_family == AF_INET6 ? "[%.*s]:%u" : "%.*s:%u", INET6_ADDRSTRLEN, host,
             port_of(address));
}

bool rg_sock_is_loopback(const struct rg_sockaddr *address)
{
    if (address->sa.sa_family == AF_INET)
        return ntohl(address->in.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&address->in6.sin6_addr);
}

static bool same_host(const struct rg_sockaddr *address, const struct sockaddr *other)
{
    if (!other || other->sa_family != address->sa.sa_family)
        return false;
    if (other->sa_family == AF_INET)
        return ((const struct sockaddr_in *) other)->sin_addr.s_addr == address->in.sin_addr.s_addr;
    return other->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *) other)->sin6_addr, &address->in6.sin6_addr,
                  sizeof(address->in6.sin6_addr)) == 0;
}

bool rg_sock_is_local(const struct rg_sockaddr *address)
{
    struct ifaddrs *all = NULL;
    bool found = false;

    if (rg_sock_is_loopback(address))
        return true;
    if (getifaddrs(&all) < 0)
        return false;
    for (struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        found = same_host(address, i->ifa_addr);
    freeifaddrs(all);
    return found;
}

int rg_sock_route(const struct rg_sockaddr *target, struct rg_sockaddr *ret_source)
{
    struct rg_sockaddr to = *target, source = { .nbytes = sizeof(source.in6) };
    rg_autoclose int fd = socket(target->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    /* A datagram socket is connected by its route alone. */
    rg_sock_set_port(&to, 9);
    if (fd < 0 || connect(fd, &to.sa, to.nbytes) < 0 ||
        getsockname(fd, &source.sa, &source.nbytes) < 0)
        return -errno;
    *ret_source = source;
    return 0;
}
