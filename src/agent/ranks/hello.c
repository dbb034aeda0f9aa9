/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO: the launcher chooses a network by the addresses that each host has. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/look/probe.h"
#include "agent/ranks/agent.h"
#include "base/fd.h"

#define ADDRESSES_MAX 64

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

    if (!bytes || !(entry->ifa_flags & IFF_UP) || list->count >= ADDRESSES_MAX)
        return;
    if (inet_ntop(family, bytes, text, sizeof(text)))
        rg_strv_addf(list, "%s/%d %s", text,
                     prefix_of(bytes_of(entry->ifa_netmask, family, &nbytes), nbytes),
                     entry->ifa_name);
}

/* "ADDRESS/PREFIX INTERFACE" for each address of an interface that is up, loopback last; none when
 * the kernel does not tell. */
static void list_addresses(struct rg_strv *list)
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

void rg_agent_say_hello(void *arg)
{
    struct rg_agent *agent = arg;
    char hostname[256] = "";
    rg_autofree char *boot_id = NULL;
    cpu_set_t cpus;
    struct stat st;
    struct rg_msg_hello hello = {
        .version = (char *) RG_VERSION,
        .pid = (uint32_t) getpid(),
        .uid = geteuid(),
        .ncores = 1,
        .hostname = hostname,
    };

    if (gethostname(hostname, sizeof(hostname) - 1) < 0)
        hostname[0] = '\0';
    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
        hello.ncores = (uint32_t) CPU_COUNT(&cpus);
    if (rg_read_file("/proc/sys/kernel/random/boot_id", 256, &boot_id, NULL) == 0)
        boot_id[strcspn(boot_id, "\n")] = '\0';
    hello.boot_id = boot_id;
    /* A number that two processes of one kernel share when they share their network. */
    if (stat("/proc/self/ns/net", &st) == 0)
        hello.netns = (uint64_t) st.st_ino;
    hello.instance = rg_prober_instance(agent->prober);
    hello.free_port = rg_prober_free_port();
    list_addresses(&hello.addresses);
    rg_agent_send(agent, RG_MSG_HELLO, &hello);
    rg_strv_fini(&hello.addresses);
}
