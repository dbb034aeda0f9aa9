/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel knows of a TCP socket's way, and how much it lets be under way there; apart from
 * sock.c, as two headers with one struct tcp_info do not go together, and only this one knows it
 * all. */
#include "coll/net/sock.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"

/* From here on BBR stays: lines are long, and may lose packets. */
#define BBR_FROM_NS RG_NS_PER_MS
#define CONGESTION_NAME_MAX 16 /* the kernel's own limit, NUL included */

uint64_t rg_sock_round_trip_ns(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof(info);

    memset(&info, 0, sizeof(info)); /* an older kernel knows less */
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0 ||
        info.tcpi_min_rtt == UINT32_MAX)
        return 0;
    return (uint64_t) info.tcpi_min_rtt * (RG_NS_PER_MS / 1000);
}

void rg_sock_leave_bbr(int fd)
{
    static const char *const others[] = { "cubic", "reno" };
    char now[CONGESTION_NAME_MAX] = "";
    socklen_t length = sizeof(now) - 1;
    uint64_t ns = rg_sock_round_trip_ns(fd);

    if (ns == 0 || ns >= BBR_FROM_NS ||
        getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now, &length) < 0 ||
        strncmp(now, "bbr", 3) != 0)
        return;
    for (size_t i = 0; i < rg_array_len(others); i++) {
        length = (socklen_t) strlen(others[i]);
        if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, others[i], length) == 0)
            return;
    }
}

/* The third number of a file "least default most". */
static uint64_t most_of(const char *path, uint64_t otherwise)
{
    rg_autofree char *text = NULL;
    unsigned long long least, usual, most;

    if (rg_read_file(path, 256, &text, NULL) < 0 ||
        sscanf(text, "%llu %llu %llu", &least, &usual, &most) != 3)
        return otherwise;
    return most;
}

uint64_t rg_sock_window_nbytes(void)
{
    uint64_t wmem = most_of("/proc/sys/net/ipv4/tcp_wmem", 4u << 20);
    uint64_t rmem = most_of("/proc/sys/net/ipv4/tcp_rmem", 6u << 20);

    /* A full socket becomes writable when a third of its buffer is free; and of the receiver's
     * buffer the kernel keeps about half for what it needs besides. */
    return wmem / 3 * 2 < rmem / 2 ? wmem / 3 * 2 : rmem / 2;
}
