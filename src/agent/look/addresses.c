/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher chooses a network by the addresses that each host has. */
#include "agent/look/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>

/* The bytes of an address of either family, *ret_nbytes of them; NULL for other families. */
static const uint8_t *bytes_of(const struct sockaddr *address, int family, size_t *ret_nbytes)
{
    const void *any = address;

    if (!address || (family != AF_INET && family != AF_INET6))
        return NULL;
    *ret_nbytes = family == AF_INET6 ? 16 : 4;
    return family == AF_INET6 ? (const uint8_t *) &((const struct sockaddr_in6 *) any)->sin6_addr
                              : (const uint8_t *) &((const struct sockaddr_in *) any)->sin_addr;
}

static int prefix_of(const uint8_t *mask, size_t nbytes)
{
    int prefix = 0;

    while (mask && prefix < (int) nbytes * 8 && (mask[prefix / 8] >> (7 - prefix % 8) & 1))
        prefix++;
    return prefix;
}

static void add(struct rg_strv *list, const struct ifaddrs *entry)
{
    int family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;
    char text[INET6_ADDRSTRLEN];
    size_t nbytes = 0;
    const uint8_t *bytes = bytes_of(entry->ifa_addr, family, &nbytes);

    if (!bytes || !(entry->ifa_flags & IFF_UP) || list->count >= RG_ADDRESSES_MAX)
        return;
    if (inet_ntop(family, bytes, text, sizeof(text)))
        rg_strv_addf(list, "%s/%d %s", text,
                     prefix_of(bytes_of(entry->ifa_netmask, family, &nbytes), nbytes),
                     entry->ifa_name);
}

void rg_addresses_list(struct rg_strv *list)
{
    struct ifaddrs *all;

    if (getifaddrs(&all) < 0)
        return;
    for (int loopback = 0; loopback < 2; loopback++) {
        for (struct ifaddrs *e = all; e; e = e->ifa_next) {
            if (!!(e->ifa_flags & IFF_LOOPBACK) == loopback)
                add(list, e);
        }
    }
    freeifaddrs(all);
}

uint64_t rg_addresses_netns(void)
{
    struct stat st;

    return stat("/proc/self/ns/net", &st) == 0 ? (uint64_t) st.st_ino : 0;
}
