/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which addresses the hosts of a job reach each other: a pure choice, from what the agents say
 * of their interfaces and of whom they could reach.
 *
 *      rg_network_create         addresses in; --network-interface narrows them
 *      rg_network_probes         what each agent is to try
 *      rg_network_probed         what came of it, one by one
 *      rg_network_decide         a network, or wait for more, or why there is none
 *
 * A candidate is a subnet in which every host has an address, each a different one: docker0, which
 * is 172.17.0.1/16 everywhere, is none. Candidates are tried in the order of host 0's interfaces,
 * IPv4 before IPv6, and what looks like a bridge for containers last. Where no candidate holds,
 * each host gets its first address that all who tried have reached: a routed network.
 *
 * Who tries whom: each host the next one and host 0, so that the cost per host does not grow with
 * their number; with `all_pairs` every host every other. Hosts that share one network name space
 * (two names of one machine) count as one place: loopback connects them.
 *
 * Ownership: the network copies what it is given and owns what it returns. Thread rule: one thread
 * at a time; nothing blocks; no I/O.
 */
#ifndef RG_LAUNCH_NET_NETWORK_H
#define RG_LAUNCH_NET_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define RG_NETWORK_ADDRESSES_MAX 4  /* of one host, that others try */
#define RG_NETWORK_CANDIDATES_MAX 4 /* subnets */

struct rg_network;

/* What one agent said. Borrowed during the call. */
struct rg_network_host {
    const char *name;                  /* the job's name for it */
    const char *boot_id;
    uint64_t netns, instance;
    uint32_t probe_port;
    const struct rg_strv *addresses;   /* "ADDRESS/PREFIX INTERFACE"; others are ignored */
};

/* One try. */
struct rg_network_probe {
    int from, to;           /* hosts */
    const char *address;    /* of `to`, numeric */
    const char *interface;  /* of `to` */
    enum { RG_PROBE_PENDING, RG_PROBE_REACHED, RG_PROBE_FAILED } state;
    int errnum;             /* with FAILED */
    uint32_t rtt_us;        /* with REACHED */
};

/* interfaces: of --network-interface, NAME, CIDR, HOST=NAME or HOST=CIDR; those of a host go before
 * those of all. 0; -ENODEV (an interface that a host has not, and err tells which it has; or a HOST
 * that the job has not; exit code 69); -ENOMEM. */
int rg_network_create(const struct rg_network_host *hosts, int nhosts,
                      const struct rg_strv *interfaces, bool all_pairs,
                      struct rg_network **ret_network, struct rg_error *err);
void rg_network_destroy(struct rg_network *network); /* NULL is fine */

/* True when all hosts are one place: there is nothing to try or to choose. */
bool rg_network_is_one_place(const struct rg_network *network);

/* The first host that is the same machine: itself, unless two hosts of the job are one. */
int rg_network_place(const struct rg_network *network, int host);

/* The targets of host from, for its PROBE: "INSTANCE ADDRESS PORT" each, appended. 0 or -ENOMEM. */
int rg_network_probes(const struct rg_network *network, int from, struct rg_strv *targets);
/* The outcome of from's target of this index. 0; -EBADMSG when there is none, or it was told. */
int rg_network_probed(struct rg_network *network, int from, uint32_t index, int errnum,
                      uint32_t rtt_us);
/* All tries, for doctor's matrix; by from, then as from's targets. */
const struct rg_network_probe *rg_network_all(const struct rg_network *network, size_t *ret_count);

/* 1: decided, 0: wait for more outcomes, -EHOSTUNREACH: no network connects them (err names two
 * hosts, the addresses tried and the remedy; exit code 69). hurry: do not wait for tries whose
 * success would only give a better candidate. One place is decided at once. */
int rg_network_decide(struct rg_network *network, bool hurry, struct rg_error *err);

/* After it was decided. The subnet as CIDR; several, separated by commas, for a routed network; ""
 * for one place without --network-interface. */
const char *rg_network_cidr(const struct rg_network *network);
/* The host's address and interface in it; for one place its loopback address and "". */
const char *rg_network_address(const struct rg_network *network, int host);
const char *rg_network_interface(const struct rg_network *network, int host);

/* One for which the hosts' packets are larger than the network between them carries. */
#define RG_NETWORK_MTU_REMEDY                                                                     \
    "set the hosts' interfaces to the MTU of what is between them, as root: ip link set dev "     \
    "INTERFACE mtu 1500 (ping -M do -s 8972 ADDRESS shows whether 9000 pass), or name another "   \
    "network with --network-interface"

/* What an errno of a try means, for people: "no answer: a firewall ...". Static. */
const char *rg_network_explain(int errnum);

#endif
