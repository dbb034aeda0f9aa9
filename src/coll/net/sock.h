/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets for boot, team, planes and order: every one non-blocking and close-on-exec from birth,
 * every wait bounded by a deadline of CLOCK_MONOTONIC.
 *
 * A unix name is "@name" for the abstract name space of the network name space, else a path. A TCP
 * address is "10.0.0.1:40123" or "[fd00::1]:40123".
 *
 * Thread rule: any thread; objects are plain descriptors. The functions that take deadline_ns block
 * until then.
 */
#ifndef RG_COLL_NET_SOCK_H
#define RG_COLL_NET_SOCK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

#define RG_SOCK_ADDRESS_MAX 128 /* bytes of an address as text, NUL included */
#define RG_SOCK_FDS_MAX 8       /* descriptors in one message */
#define RG_SOCK_MESSAGE_MAX 1024

struct rg_sockaddr {
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    };
    socklen_t nbytes;
};

/* Write exactly nbytes. 0, -ETIMEDOUT, -EPIPE where the peer has closed, -errno. Raises no
 * SIGPIPE. */
int rg_sock_write(int fd, const void *data, size_t nbytes, uint64_t deadline_ns);

/* Send or receive a message of 1 to RG_SOCK_MESSAGE_MAX bytes, which the kernel keeps in one piece,
 * with at most RG_SOCK_FDS_MAX descriptors, over a unix socket. As rg_sock_write; -EPIPE at the
 * end. Received descriptors are close-on-exec and the caller's; -EPROTO: it has other than nbytes
 * or nfds, and all descriptors that came are closed. */
int rg_sock_send_fds(int fd, const void *data, size_t nbytes, const int *fds, int nfds,
                     uint64_t deadline_ns);
int rg_sock_recv_fds(int fd, void *data, size_t nbytes, int *ret_fds, int nfds,
                     uint64_t deadline_ns);

/* 0 and the listening or connected descriptor (not negative), or -errno. A unix connect never
 * waits. */
int rg_sock_listen_unix(const char *name, int *ret_fd);
int rg_sock_connect_unix(const char *name, int *ret_fd);
/* Who is at the other end of a unix socket, as its kernel saw it when it connected or listened; pid
 * 0: not visible from here. Either result may be NULL. 0 or -errno. */
int rg_sock_peer(int fd, uid_t *ret_uid, pid_t *ret_pid);

/* A listening TCP socket at address (port 0: any); *ret_port is the port. 0 or -errno. */
int rg_sock_listen_tcp(const struct rg_sockaddr *address, int *ret_fd, uint16_t *ret_port);
/* At one of these ports instead of the address's own. Also -EADDRINUSE: all of them are taken. */
int rg_sock_listen_ports(struct rg_sockaddr address, const struct rg_ports *ports, int *ret_fd,
                         uint16_t *ret_port);
/* Begin to connect: 0 and a descriptor that becomes writable when it is decided; ask rg_sock_error
 * then. source: the address from which, whatever its port says: the packets leave by the interface
 * to which the routes of that address lead; and whoever does not answer there within 15 s does not
 * do so later (-ETIMEDOUT). NULL: any, and the kernel's patience. */
int rg_sock_connect_tcp(const struct rg_sockaddr *source, const struct rg_sockaddr *address,
                        int *ret_fd);
/* What a non-blocking connect came to: 0 or -errno. */
int rg_sock_error(int fd);
/* Connect, and wait until it is decided. 0, -ETIMEDOUT or -errno. Blocks. */
int rg_sock_reach_tcp(const struct rg_sockaddr *address, uint64_t deadline_ns, int *ret_fd);
/* TCP_NODELAY, dead peers noticed below the level of heartbeats, and patience with lost packets.
 * Failures are harmless and ignored. */
void rg_sock_tune_tcp(int fd);
/* The least round trip of the last minutes, as the kernel has measured it; 0: it has not. */
uint64_t rg_sock_round_trip_ns(int fd);
/* Where a connected socket sends by BBR, and its least round trip so far is below 1 ms, let it send
 * by CUBIC, or by Reno where this process may not have that. BBR finds the rate of a line by bursts
 * that are long enough to fill it, and spreads packets out by it; an allreduce of some 100 KiB
 * shows it none. All else stays. Failures are harmless and ignored. */
void rg_sock_leave_bbr(int fd);
/* How many bytes one TCP socket may have under way at most, as far as this host's limits of buffers
 * that the kernel sizes by itself (tcp_wmem, tcp_rmem) decide it. Blocks for two files of /proc;
 * the kernel's defaults where they cannot be read. */
uint64_t rg_sock_window_nbytes(void);

/* Wait until the peer's kernel has all that was written to a TCP socket, the peer is gone, or the
 * deadline. */
void rg_sock_drain(int fd, uint64_t deadline_ns);

/* Text to address and back, with the port and (_host) without it, and without brackets. 0 or
 * -EINVAL. */
int rg_sock_parse(const char *text, struct rg_sockaddr *ret_address);
int rg_sock_parse_host(const char *host, struct rg_sockaddr *ret_address);
void rg_sock_format(const struct rg_sockaddr *address, char ret_text[RG_SOCK_ADDRESS_MAX]);
void rg_sock_format_host(const struct rg_sockaddr *address, char ret_host[RG_SOCK_ADDRESS_MAX]);
void rg_sock_set_port(struct rg_sockaddr *address, uint16_t port);
bool rg_sock_is_loopback(const struct rg_sockaddr *address);
/* True when one of this network name space's interfaces has it; the whole of 127.0.0.0/8 is. */
bool rg_sock_is_local(const struct rg_sockaddr *address);
/* The address from which this host's routes lead to target. 0 or -errno; no packet is sent. */
int rg_sock_route(const struct rg_sockaddr *target, struct rg_sockaddr *ret_source);

#endif
