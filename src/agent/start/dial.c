/* SPDX-License-Identifier: Apache-2.0 */
/* Under Slurm nobody can connect to an agent, so it calls the launcher. */
#include "agent/start/dial.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "wire/auth.h"

#define ADDRESS_MAX 64
#define ANNOUNCE_BACKLOG 4096

union address {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

const char *rg_dial_expand(const char *text, char *buf, size_t nbytes)
{
    const char *value = text[0] == '$' ? getenv(text + 1) : text;

    buf[0] = '\0';
    if (value && strlen(value) < nbytes)
        strcpy(buf, value);
    return buf;
}

/* ADDRESS:PORT of length characters. The size of the address, or 0. */
static socklen_t parse(const char *text, size_t length, union address *address)
{
    char host[ADDRESS_MAX], buf[ADDRESS_MAX];
    int64_t port = 0;

    if (length >= sizeof(host))
        return 0;
    memcpy(host, text, length);
    host[length] = '\0';
    char *colon = strrchr(host, ':');
    if (!colon || rg_parse_int("port", colon + 1, 1, 65535, &port, NULL) < 0)
        return 0;
    *colon = '\0';
    if (host[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        rg_dial_expand(host + 1, buf, sizeof(buf));
    } else {
        rg_dial_expand(host, buf, sizeof(buf));
    }
    memset(address, 0, sizeof(*address));
    if (inet_pton(AF_INET, buf, &address->in.sin_addr) == 1) {
        address->in.sin_family = AF_INET;
        address->in.sin_port = htons((uint16_t) port);
        return sizeof(address->in);
    }
    address->in6.sin6_family = AF_INET6;
    address->in6.sin6_port = htons((uint16_t) port);
    return inet_pton(AF_INET6, buf, &address->in6.sin6_addr) == 1 ? sizeof(address->in6) : 0;
}

static int connect_to(const union address *address, socklen_t nbytes, unsigned ms)
{
    rg_autoclose int fd = socket(address->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                                 0);
    struct pollfd pfd = { .fd = fd, .events = POLLOUT };
    int errnum = 0, on = 1;
    socklen_t size = sizeof(errnum);

    if (fd < 0)
        return -errno;
    if (connect(fd, &address->sa, nbytes) < 0) {
        if (errno != EINPROGRESS)
            return -errno;
        if (poll(&pfd, 1, (int) ms) <= 0)
            return -ETIMEDOUT;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &size);
        if (errnum)
            return -errnum;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return rg_steal_fd(&fd);
}

static void set_limit(int fd, unsigned ms)
{
    struct timeval limit = { .tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000 };

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static int prove(int fd, const char *place, const uint8_t *key)
{
    struct rg_auth auth;
    uint8_t dial_key[RG_KEY_NBYTES], in[RG_AUTH_MESSAGE_MAX], out[RG_AUTH_MESSAGE_MAX];
    char label[RG_AUTH_LABEL_MAX + 1], line[RG_AUTH_PLACE_MAX + 17];
    size_t nout = 0;

    snprintf(label, sizeof(label), "dial %s", place);
    int length = snprintf(line, sizeof(line), "reigen-dial2 %s\n", place);
    rg_key_derive(key, "dial", dial_key);
    int r = rg_auth_start(&auth, true, dial_key, label, out, &nout);
    explicit_bzero(dial_key, sizeof(dial_key));
    if (r == 0)
        r = rg_write_all(fd, line, (size_t) length);
    if (r == 0)
        r = rg_write_all(fd, out, nout);
    while (r == 0 && rg_auth_wanted(&auth) > 0) {
        size_t wanted = rg_auth_wanted(&auth);
        r = rg_read_all(fd, in, wanted);
        if (r == 0)
            r = rg_auth_receive(&auth, in, wanted, out, &nout);
        if (r == 0)
            r = rg_write_all(fd, out, nout);
    }
    rg_auth_wipe(&auth);
    return r;
}

static int try_one(const char *text, size_t length, const char *place, const uint8_t *key,
                   unsigned connect_ms)
{
    union address address;
    socklen_t nbytes = parse(text, length, &address);

    if (!nbytes)
        return -EINVAL;
    rg_autoclose int fd = connect_to(&address, nbytes, connect_ms);
    if (fd < 0)
        return fd;
    rg_fd_set_nonblock(fd, false);
    set_limit(fd, RG_DIAL_ANSWER_MS);
    int r = prove(fd, place, key);
    set_limit(fd, 0);
    return r < 0 ? r : rg_steal_fd(&fd);
}

/* ADDRESS:PORT of length characters as it is here: variables by what they hold. */
static size_t describe(const char *text, size_t length, int errnum, char *buf, size_t nbytes)
{
    char host[ADDRESS_MAX], value[ADDRESS_MAX];

    snprintf(host, sizeof(host), "%.*s", (int) length, text);
    char *colon = strrchr(host, ':');
    if (colon)
        *colon = '\0';
    const char *shown = rg_dial_expand(host, value, sizeof(value));
    return (size_t) snprintf(buf, nbytes, "%s%s%s (%s)", *shown ? shown : host, colon ? ":" : "",
                             colon ? colon + 1 : "",
                             errnum == EACCES ? "it has another key" : strerror(errnum));
}

int rg_agent_dial_once(const char *addresses, const char *name, const uint8_t key[RG_KEY_NBYTES],
                       unsigned connect_ms, char why[RG_DIAL_WHY_MAX])
{
    size_t n = 0;
    int r = *addresses ? -ETIMEDOUT : -EHOSTUNREACH;

    strcpy(why, "no address");
    for (const char *p = addresses; *p; p += *p == ',') {
        size_t length = strcspn(p, ",");
        int fd = try_one(p, length, name, key, connect_ms);
        if (fd >= 0)
            return fd;
        if (n && n + 2 < RG_DIAL_WHY_MAX)
            n += (size_t) snprintf(why + n, RG_DIAL_WHY_MAX - n, ", ");
        if (n < RG_DIAL_WHY_MAX)
            n += describe(p, length, -fd, why + n, RG_DIAL_WHY_MAX - n);
        r = fd == -EACCES || r == -EACCES ? -EACCES : fd == -ETIMEDOUT ? r : -EHOSTUNREACH;
        p += length;
    }
    return r;
}

int rg_agent_dial(const char *addresses, const char *place, const uint8_t key[RG_KEY_NBYTES],
                  struct rg_error *err)
{
    char name[RG_AUTH_PLACE_MAX + 1], why[RG_DIAL_WHY_MAX] = "";
    uint64_t deadline_ns = rg_now_ns() + RG_DIAL_MS * RG_NS_PER_MS;

    if (!*rg_dial_expand(place, name, sizeof(name)))
        return rg_error_set(err, EINVAL, "there is no place %s here", place);
    for (int round = 0; round < RG_DIAL_ROUNDS && rg_now_ns() < deadline_ns; round++) {
        if (round)
            rg_sleep_ms(1000);
        int fd = rg_agent_dial_once(addresses, name, key, RG_DIAL_CONNECT_MS, why);
        if (fd >= 0)
            return fd;
    }
    return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                             "the launcher cannot be reached from here by TCP, at %s; a firewall? "
                             "REIGEN_SLURM_PORTS=FIRST-LAST names ports that it lets through; or "
                             "start the job on a node",
                             why);
}

int rg_agent_announce(const char *name)
{
    rg_autofree char *abstract = rg_strf("@%s", name);
    struct sockaddr_un address;
    socklen_t nbytes = abstract ? rg_unix_address(abstract, &address) : 0;
    rg_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || !nbytes)
        return fd < 0 ? -errno : -ENAMETOOLONG;
    if (bind(fd, (struct sockaddr *) &address, nbytes) < 0 || listen(fd, ANNOUNCE_BACKLOG) < 0)
        return -errno;
    return rg_steal_fd(&fd);
}
