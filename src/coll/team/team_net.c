/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts have many addresses: which one do the other ranks reach, and which further networks are
 * used together with it? */
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "coll/ground/report.h"
#include "coll/team/team_parts.h"

/* An address with the length of its network's prefix. */
struct net {
    struct rg_sockaddr address;
    int prefix;
};

static const uint8_t *address_bytes(const struct rg_sockaddr *address, int *ret_nbits)
{
    bool six = address->sa.sa_family == AF_INET6;

    *ret_nbits = six ? 128 : 32;
    return six ? (const uint8_t *) &address->in6.sin6_addr
               : (const uint8_t *) &address->in.sin_addr;
}

static bool in_net(const struct rg_sockaddr *address, const struct net *net)
{
    int nbits, other_nbits;
    const uint8_t *a = address_bytes(address, &nbits);
    const uint8_t *b = address_bytes(&net->address, &other_nbits);
    int whole = net->prefix / 8, rest = net->prefix % 8;

    if (nbits != other_nbits || memcmp(a, b, (size_t) whole) != 0)
        return false;
    return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

/* "10.0.0.1/24" or "fd00::1/64"; without a prefix the whole address. 0 or -EINVAL. */
static int parse_net(const char *text, struct net *ret_net)
{
    char host[RG_SOCK_ADDRESS_MAX];
    struct net net = { .prefix = -1 };
    size_t length = strcspn(text, "/");
    int nbits;

    if (length >= RG_SOCK_ADDRESS_MAX)
        return -EINVAL;
    snprintf(host, sizeof(host), "%.*s", (int) length, text);
    if (rg_sock_parse_host(host, &net.address) < 0)
        return -EINVAL;
    address_bytes(&net.address, &nbits);
    net.prefix = nbits;
    if (text[length] == '/') {
        int64_t prefix;

        if (rg_parse_int("prefix", text + length + 1, 0, nbits, &prefix, NULL) < 0)
            return -EINVAL;
        net.prefix = (int) prefix;
    }
    *ret_net = net;
    return 0;
}

static int prefix_of(const struct sockaddr *mask)
{
    struct rg_sockaddr copy = { 0 };
    int nbits, prefix = 0;

    if (!mask)
        return 0;
    memcpy(&copy.sa, mask, mask->sa_family == AF_INET6 ? sizeof(copy.in6) : sizeof(copy.in));
    const uint8_t *bytes = address_bytes(&copy, &nbits);

    while (prefix < nbits && (bytes[prefix / 8] >> (7 - prefix % 8) & 1))
        prefix++;
    return prefix;
}

/* Bridges and cables to containers: they lead to no other host. */
static bool leads_nowhere(const char *name)
{
    static const char *const prefixes[] = { "docker", "br-",  "veth",  "virbr", "cni",
                                            "lxc",    "lxdbr", "podman", "cali" };

    for (size_t i = 0; i < rg_array_len(prefixes); i++)
        if (rg_str_starts(name, prefixes[i]))
            return true;
    return false;
}

static bool is_link_local(const struct rg_sockaddr *address)
{
    return address->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->in6.sin6_addr);
}

static bool is_wanted(const struct ifaddrs *interface, const struct rg_sockaddr *address,
                      const char *wanted, const struct net *wanted_net)
{
    if (!(interface->ifa_flags & IFF_UP) || is_link_local(address))
        return false;
    if (wanted_net)
        return in_net(address, wanted_net);
    if (wanted[0])
        return strcmp(interface->ifa_name, wanted) == 0;
    return !(interface->ifa_flags & IFF_LOOPBACK) && !leads_nowhere(interface->ifa_name);
}

static int add_candidate(const struct ifaddrs *interface, const struct rg_sockaddr *address,
                         struct rg_strv *addresses)
{
    char text[RG_SOCK_ADDRESS_MAX];

    if (addresses->count >= RG_TEAM_ADDRESSES_MAX)
        return 0;
    rg_sock_format_host(address, text);
    return rg_strv_addf(addresses, "%s/%d", text, prefix_of(interface->ifa_netmask));
}

/* IPv4 first. */
static int add_matching(const struct ifaddrs *all, const char *wanted,
                        const struct net *wanted_net, struct rg_strv *addresses)
{
    static const int families[] = { AF_INET, AF_INET6 };
    int r = 0;

    for (size_t f = 0; f < rg_array_len(families); f++)
        for (const struct ifaddrs *i = all; i && r == 0; i = i->ifa_next) {
            struct rg_sockaddr address = { 0 };

            if (!i->ifa_addr || i->ifa_addr->sa_family != families[f])
                continue;
            address.nbytes = families[f] == AF_INET6 ? sizeof(address.in6) : sizeof(address.in);
            memcpy(&address.sa, i->ifa_addr, address.nbytes);
            if (is_wanted(i, &address, wanted, wanted_net))
                r = add_candidate(i, &address, addresses);
        }
    return r;
}

static int no_match(const struct ifaddrs *all, const char *wanted, struct rg_error *err)
{
    char names[512] = "";

    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        size_t used = strlen(names);

        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET)
            snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "", i->ifa_name);
    }
    return rg_error_set(err, EINVAL, "REIGEN_NETWORK_INTERFACE=%s: no interface that is up has "
                        "this name or an address in this network; there are: %s", wanted, names);
}

/* The launcher's advice, networks with commas between. What is none of it here (a container in a
 * container) is no error: then the routes decide. */
static int add_advised(const struct ifaddrs *all, const char *networks, struct rg_strv *addresses)
{
    struct net net;
    int r = 0;

    for (const char *p = networks; *p && r == 0; p += strcspn(p, ",")) {
        char text[RG_SOCK_ADDRESS_MAX + 8];

        p += *p == ',';
        snprintf(text, sizeof(text), "%.*s", (int) strcspn(p, ","), p);
        if (parse_net(text, &net) == 0)
            r = add_matching(all, "", &net, addresses);
    }
    return r;
}

/* The addresses that match one interface, or with "" those that the launcher advises or the routes
 * may lead to. */
static int find_candidates(const char *interface, struct rg_strv *ret_addresses,
                           struct rg_error *err)
{
    const char *advice = interface[0] ? NULL : getenv("REIGEN_NETWORK");
    rg_autostrv struct rg_strv addresses = RG_STRV_INIT;
    struct ifaddrs *all = NULL;
    struct net wanted_net;
    bool by_net = interface[0] && parse_net(interface, &wanted_net) == 0;
    int r = 0;

    if (getifaddrs(&all) < 0)
        return rg_error_set(err, errno, "this host's network interfaces: %s", strerror(errno));
    if (advice)
        r = add_advised(all, advice, &addresses);
    if (r == 0 && addresses.count == 0)
        r = add_matching(all, interface, by_net ? &wanted_net : NULL, &addresses);
    if (r == 0 && interface[0] && addresses.count == 0)
        r = no_match(all, interface, err);
    else if (r < 0)
        rg_error_set(err, -r, "out of memory");
    freeifaddrs(all);
    if (r == 0) {
        *ret_addresses = addresses;
        addresses = (struct rg_strv) RG_STRV_INIT;
    }
    return r;
}

int rg_net_candidates(const char *interfaces, struct rg_strv *ret_addresses, struct rg_error *err)
{
    rg_autofree char *first = rg_strf("%.*s", (int) strcspn(interfaces, ","), interfaces);

    return first ? find_candidates(first, ret_addresses, err)
                 : rg_error_set(err, ENOMEM, "out of memory");
}

static bool is_candidate(const struct rg_rank_info *facts, const struct rg_sockaddr *address)
{
    struct net net;
    int nbits;

    for (size_t i = 0; i < facts->addresses.count; i++) {
        if (parse_net(facts->addresses.v[i], &net) < 0)
            continue;
        address_bytes(&net.address, &nbits);
        net.prefix = nbits;
        if (in_net(address, &net))
            return true;
    }
    return false;
}

/* My address towards other: by route, first where both are in one network. */
static bool choose_towards(const struct rg_rank_info *mine, const struct rg_rank_info *other,
                           struct rg_sockaddr *ret_address)
{
    struct rg_sockaddr source;
    struct net net;

    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < other->addresses.count; i++) {
            if (parse_net(other->addresses.v[i], &net) < 0 ||
                rg_sock_route(&net.address, &source) < 0 || !is_candidate(mine, &source))
                continue;
            if (pass == 0 && !in_net(&source, &net))
                continue;
            *ret_address = source;
            return true;
        }
    return false;
}

/* Whether the two see the same interfaces. */
static bool are_one_place(const struct rg_rank_info *a, const struct rg_rank_info *b)
{
    return strcmp(a->boot_id, b->boot_id) == 0 && a->netns == b->netns;
}

static void choose_address(const struct rg_rank_info *all, int size, int me, bool chosen,
                           struct rg_sockaddr *ret_address)
{
    bool one_host = true;
    struct net net;

    rg_sock_parse("127.0.0.1:0", ret_address);
    for (int r = 0; r < size; r++) {
        if (are_one_place(&all[r], &all[me]))
            continue;
        one_host = false;
        if (choose_towards(&all[me], &all[r], ret_address))
            return;
    }
    if ((!one_host || chosen) && all[me].addresses.count > 0 &&
        parse_net(all[me].addresses.v[0], &net) == 0)
        *ret_address = net.address;
}

/* Listen there: *ret_text is "10.0.0.1:40123", the caller's. 0 or -errno. */
static int listen_at(struct rg_sockaddr address, const struct rg_ports *ports, int *ret_fd,
                     char **ret_text, struct rg_error *err)
{
    char text[RG_SOCK_ADDRESS_MAX];
    uint16_t port = 0;
    int fd;

    rg_sock_set_port(&address, 0);
    rg_sock_format(&address, text);
    /* What nobody reaches from outside needs none of them. */
    int r = rg_sock_is_loopback(&address) ? rg_sock_listen_tcp(&address, &fd, &port)
                                          : rg_sock_listen_ports(address, ports, &fd, &port);

    if (r == -EADDRINUSE && ports->first)
        return rg_error_set(err, EADDRINUSE,
                            "cannot listen at %s: ports %d-%d are all taken; give more of them "
                            "(--port-range, REIGEN_PORT_RANGE)", text, ports->first, ports->last);
    if (r < 0)
        return rg_error_set(err, -r, "cannot listen at %s: %s", text, strerror(-r));
    rg_sock_set_port(&address, port);
    rg_sock_format(&address, text);
    char *copy = strdup(text);

    if (!copy) {
        close(fd);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    *ret_fd = fd;
    *ret_text = copy;
    return 0;
}

int rg_net_listen(const struct rg_rank_info *all, int size, int me, bool chosen,
                  const struct rg_ports *ports, int *ret_fd, char **ret_address,
                  struct rg_error *err)
{
    struct rg_sockaddr address;

    choose_address(all, size, me, chosen, &address);
    return listen_at(address, ports, ret_fd, ret_address, err);
}

/* The first address that matches an interface. 1: there is one; 0: there is none, with a reason in
 * err, and *ret_text is "". */
static int listen_on(const char *interface, const struct rg_ports *ports, int *ret_fd,
                     char **ret_text, struct rg_error *err)
{
    rg_autostrv struct rg_strv found = RG_STRV_INIT;
    struct net net;
    int r;

    if (!interface[0])
        return rg_error_set(err, EINVAL, "REIGEN_NETWORK_INTERFACE: an interface without a name; "
                            "give names or networks with commas between");
    r = find_candidates(interface, &found, err);
    if (r == 0)
        r = parse_net(found.v[0], &net);
    if (r == 0)
        r = listen_at(net.address, ports, ret_fd, ret_text, err);
    if (r != -EINVAL)
        return r < 0 ? r : 1;
    *ret_text = strdup("");
    return *ret_text ? 0 : rg_error_set(err, ENOMEM, "out of memory");
}

int rg_net_listen_rails(const char *interfaces, const struct rg_ports *ports, bool tells,
                        int *ret_fds, struct rg_strv *ret_addresses, struct rg_error *err)
{
    rg_autostrv struct rg_strv addresses = RG_STRV_INIT;
    rg_autofree char *list = strdup(interfaces);
    char *rest = list, *interface;
    int n = 0, r = list ? 0 : rg_error_set(err, ENOMEM, "out of memory");

    strsep(&rest, ",");
    while (r >= 0 && (interface = strsep(&rest, ",")) != NULL) {
        struct rg_error missing = RG_ERROR_INIT;
        char *text;

        if (addresses.count == RG_TEAM_RAILS_MAX - 1) {
            r = rg_error_set(err, EINVAL, "REIGEN_NETWORK_INTERFACE=%s: more than %d interfaces",
                             interfaces, RG_TEAM_RAILS_MAX);
            break;
        }
        r = listen_on(interface, ports, &ret_fds[n], &text, &missing);
        n += r == 1;
        if (r == 0 && tells)
            rg_report(RG_LOG_WARN, "%s; the job's data go by the first one", missing.text);
        if (r < 0)
            *err = missing;
        else if (rg_strv_take(&addresses, text) < 0)
            r = rg_error_set(err, ENOMEM, "out of memory");
    }
    for (int i = 0; i < n && r < 0; i++)
        close(ret_fds[i]);
    if (r < 0)
        return r;
    *ret_addresses = addresses;
    addresses = (struct rg_strv) RG_STRV_INIT;
    return n;
}

/* Whether one network may have both addresses, of different hosts. */
static bool may_connect(const char *one, const char *other)
{
    struct rg_sockaddr a;
    struct net b;

    if (rg_sock_parse(one, &a) < 0 || rg_sock_parse(other, &b.address) < 0 ||
        rg_sock_is_loopback(&a) || rg_sock_is_loopback(&b.address))
        return false;
    address_bytes(&b.address, &b.prefix);
    return a.sa.sa_family == b.address.sa.sa_family && !in_net(&a, &b);
}

unsigned rg_net_unfit_rails(const struct rg_rank_info *all, const struct rg_team *team)
{
    const int me = team->rank;
    unsigned unfit = 0;

    for (int r = 0; r < team->size && team->nrails > 1; r++) {
        bool here = are_one_place(&all[r], &all[me]);

        for (int rail = 1; rail < team->nrails; rail++) {
            const char *mine = rg_team_address(team, me, rail);
            const char *other = rg_team_address(team, r, rail);

            if (!mine[0] || !other[0] || (!here && !may_connect(mine, other)))
                unfit |= 1u << rail;
        }
    }
    return unfit;
}
