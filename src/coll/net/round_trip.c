/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel knows of a TCP socket's way; apart from sock.c, as two headers with one struct
 * tcp_info do not go together, and only this one knows it all. */
#include "coll/net/sock.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/time.h"

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
