/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One address of a host, as its agent tells it, and the network that it is in: the parts of
 * launch/net/network.h that know how addresses are made. Internal to launch/network*.c and
 * doctor.c.
 *
 * The text is from outside: its length is checked, and what is not of the form expected is refused.
 * Nothing is allocated. Pure functions, any thread.
 */
#ifndef RG_LAUNCH_NET_NETWORK_ADDRESS_H
#define RG_LAUNCH_NET_NETWORK_ADDRESS_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rg_net_address {
    uint8_t bytes[16];
    int nbits, prefix; /* nbits: 32 or 128 */
    char text[INET6_ADDRSTRLEN];
    char interface[IF_NAMESIZE];
    int place;
    bool loopback, local, bridge; /* local: link-local, means nothing elsewhere */
    bool twice;                   /* another place has it, too */
    uint32_t npending, nfailed;   /* tries */
};

/* "10.0.0.1/24 eth0": prefix and name may be missing; without a prefix it is the whole address. 0
 * or -EINVAL. place, twice and the counts are left 0, for the owner. */
int rg_net_address_parse(const char *text, struct rg_net_address *ret_address);
/* Whether address is in the network of net, whatever its own prefix. */
bool rg_net_address_is_in(const struct rg_net_address *address, const struct rg_net_address *net);
/* Whether both are in the same network, of the same size. */
bool rg_net_address_same_net(const struct rg_net_address *a, const struct rg_net_address *b);
/* Its network: "10.0.0.0/24". */
void rg_net_address_format_net(const struct rg_net_address *address, char *text, size_t room);

#endif
