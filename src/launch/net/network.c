/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses of the hosts are worth a try, and which network wins: rules without I/O, so that
 * a test can play any cluster. */
#include "launch/net/network.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "launch/net/network_address.h"

#define REMEDY                                                                               \
    "let them talk (a firewall?), name a network that connects them with "                   \
    "--network-interface, or give containers the hosts' own network: --network host"

#define HOSTS_NAMED 8 /* in a message */

struct place_host {
    char *name;
    uint64_t instance;
    uint32_t port;
    int place;
    struct rg_net_address *addresses; /* best first */
    int naddresses;
    int chosen;                /* -1: none */
    size_t first_probe, nprobes;
};

struct candidate {
    const struct rg_net_address *net; /* host 0's */
    int *by_host;              /* indices into each host's addresses */
};

struct rg_network {
    struct place_host *hosts;
    int nhosts;
    bool one_place;
    struct candidate candidates[RG_NETWORK_CANDIDATES_MAX];
    int ncandidates;
    struct rg_network_probe *probes;
    size_t nprobes;
    char *cidr; /* NULL: not decided */
};

/* --- what the user wants ---------------------------------------------------------------------- */

/* What is said of this host, as HOST=NAME or HOST=CIDR, else of all of them: NAME or CIDR each.
 * 0 or -ENOMEM. */
static int list_wanted(const struct rg_strv *interfaces, const char *host, struct rg_strv *wanted)
{
    size_t length = strlen(host);
    int r = 0;

    for (size_t i = 0; r == 0 && i < interfaces->count; i++) {
        const char *entry = interfaces->v[i];
        if (strncmp(entry, host, length) == 0 && entry[length] == '=')
            r = rg_strv_add(wanted, entry + length + 1);
    }
    for (size_t i = 0, own = wanted->count; r == 0 && !own && i < interfaces->count; i++) {
        if (!strchr(interfaces->v[i], '='))
            r = rg_strv_add(wanted, interfaces->v[i]);
    }
    return r;
}

static bool matches(const char *entry, const struct rg_net_address *address)
{
    struct rg_net_address net;

    if (rg_net_address_parse(entry, &net) == 0)
        return rg_net_address_is_in(address, &net);
    return strcmp(entry, address->interface) == 0;
}

static bool is_wanted(const struct rg_strv *wanted, const struct rg_net_address *address)
{
    bool hit = wanted->count == 0;

    for (size_t i = 0; !hit && i < wanted->count; i++)
        hit = matches(wanted->v[i], address);
    return hit;
}

static int no_such_interface(const struct rg_network_host *from, const struct rg_strv *wanted,
                             struct rg_error *err)
{
    rg_autobuf struct rg_buf has = RG_BUF_INIT, asked = RG_BUF_INIT;

    for (size_t i = 0; i < from->addresses->count && i < 16; i++)
        rg_buf_printf(&has, "%s%s", i ? ", " : "", from->addresses->v[i]);
    for (size_t i = 0; i < wanted->count; i++)
        rg_buf_printf(&asked, "%s%s", i ? "," : "", wanted->v[i]);
    return rg_error_set_exit(err, ENODEV, RG_EXIT_UNAVAILABLE,
                             "host %s: --network-interface %.200s: no interface that is up has "
                             "this name or an address in this network; it has: %.500s; for one "
                             "host write --network-interface %s=NAME",
                             from->name, rg_buf_text(&asked), rg_buf_text(&has), from->name);
}

static bool is_host(const struct rg_network_host *hosts, int nhosts, const char *name,
                    size_t length)
{
    for (int h = 0; h < nhosts; h++) {
        if (strlen(hosts[h].name) == length && strncmp(hosts[h].name, name, length) == 0)
            return true;
    }
    return false;
}

/* A name that is not the job's is a slip: what it says would be done nowhere. */
static int check_names(const struct rg_network_host *hosts, int nhosts,
                       const struct rg_strv *wanted, struct rg_error *err)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;

    for (size_t i = 0; i < wanted->count; i++) {
        const char *entry = wanted->v[i], *equals = strchr(entry, '=');
        if (!equals || is_host(hosts, nhosts, entry, (size_t) (equals - entry)))
            continue;
        for (int h = 0; h < nhosts && h < HOSTS_NAMED; h++)
            rg_buf_printf(&names, "%s%s", h ? ", " : "", hosts[h].name);
        return rg_error_set_exit(err, ENODEV, RG_EXIT_UNAVAILABLE,
                                 "--network-interface %.200s: no host of the job has this name; "
                                 "its hosts are %.400s%s", entry, rg_buf_text(&names),
                                 nhosts > HOSTS_NAMED ? ", ..." : "");
    }
    return 0;
}

/* --- hosts ------------------------------------------------------------------------------------ */

static int rank_address(const struct rg_net_address *a)
{
    return (a->loopback ? 4 : 0) + (a->bridge ? 2 : 0) + (a->nbits == 128 ? 1 : 0);
}

/* Keep the order among equals: it is the kernel's. */
static void sort_addresses(struct place_host *host)
{
    for (int i = 1; i < host->naddresses; i++) {
        struct rg_net_address moved = host->addresses[i];
        int k = i;
        for (; k > 0 && rank_address(&host->addresses[k - 1]) > rank_address(&moved); k--)
            host->addresses[k] = host->addresses[k - 1];
        host->addresses[k] = moved;
    }
}

static bool same_addresses(const struct rg_strv *a, const struct rg_strv *b)
{
    bool same = a->count == b->count;

    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->v[i], b->v[i]) == 0;
    return same;
}

static bool same_place(const struct rg_network_host *a, const struct rg_network_host *b)
{
    if (a->netns != b->netns || strcmp(a->boot_id, b->boot_id) != 0)
        return false;
    return a->netns || same_addresses(a->addresses, b->addresses);
}

static void find_places(const struct rg_network_host *from, struct rg_network *network)
{
    network->one_place = true;
    for (int h = 0; h < network->nhosts; h++) {
        int first = 0;
        while (!same_place(&from[first], &from[h]))
            first++;
        network->hosts[h].place = first;
        network->one_place = network->one_place && first == 0;
    }
}

static int fill_host(const struct rg_network_host *from, const struct rg_strv *interfaces,
                     const struct rg_network *network, struct place_host *host,
                     struct rg_error *err)
{
    rg_autostrv struct rg_strv wanted = RG_STRV_INIT;
    int nmatched = 0;

    host->name = strdup(from->name);
    host->addresses = calloc(from->addresses->count + 1, sizeof(*host->addresses));
    host->instance = from->instance;
    host->port = from->probe_port;
    host->chosen = -1;
    if (!host->name || !host->addresses || list_wanted(interfaces, from->name, &wanted) < 0)
        return rg_error_set(err, ENOMEM, "no memory for the hosts' addresses");
    for (size_t i = 0; i < from->addresses->count; i++) {
        struct rg_net_address *address = &host->addresses[host->naddresses];
        if (rg_net_address_parse(from->addresses->v[i], address) < 0 ||
            !is_wanted(&wanted, address))
            continue;
        address->place = host->place;
        nmatched++;
        host->naddresses += !address->local;
    }
    if (wanted.count && nmatched == 0 && !network->one_place)
        return no_such_interface(from, &wanted, err);
    sort_addresses(host);
    return 0;
}

static int compare_addresses(const void *x, const void *y)
{
    const struct rg_net_address *a = *(struct rg_net_address *const *) x;
    const struct rg_net_address *b = *(struct rg_net_address *const *) y;

    if (a->nbits != b->nbits)
        return a->nbits - b->nbits;
    int order = memcmp(a->bytes, b->bytes, sizeof(a->bytes));
    return order ? order : a->place - b->place;
}

/* Equal addresses stand together once sorted, each place's together. */
static int find_doubles(struct rg_network *network)
{
    size_t n = 0, total = 0;

    for (int h = 0; h < network->nhosts; h++)
        total += (size_t) network->hosts[h].naddresses;
    rg_autofree struct rg_net_address **all = calloc(total + 1, sizeof(*all));
    if (!all)
        return -ENOMEM;
    for (int h = 0; h < network->nhosts; h++) {
        for (int i = 0; i < network->hosts[h].naddresses; i++)
            all[n++] = &network->hosts[h].addresses[i];
    }
    qsort(all, n, sizeof(*all), compare_addresses);
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && all[end]->nbits == all[first]->nbits &&
                              memcmp(all[end]->bytes, all[first]->bytes, 16) == 0;)
            end++;
        for (size_t i = first; i < end; i++)
            all[i]->twice = all[first]->place != all[end - 1]->place;
    }
    return 0;
}

static bool is_usable(const struct rg_net_address *address)
{
    return !address->loopback && !address->local && !address->twice;
}

/* --- candidates ------------------------------------------------------------------------------- */

static int find_in_net(const struct place_host *host, const struct rg_net_address *net)
{
    for (int i = 0; i < host->naddresses; i++) {
        if (is_usable(&host->addresses[i]) && rg_net_address_same_net(&host->addresses[i], net))
            return i;
    }
    return -1;
}

static int try_candidate(struct rg_network *network, const struct rg_net_address *net)
{
    rg_autofree int *by_host = calloc((size_t) network->nhosts, sizeof(*by_host));

    if (!by_host)
        return -ENOMEM;
    for (int c = 0; c < network->ncandidates; c++) {
        if (rg_net_address_same_net(network->candidates[c].net, net))
            return 0;
    }
    for (int h = 0; h < network->nhosts; h++) {
        by_host[h] = find_in_net(&network->hosts[h], net);
        if (by_host[h] < 0)
            return 0;
    }
    network->candidates[network->ncandidates++] =
        (struct candidate){ net, rg_steal_ptr(&by_host) };
    return 0;
}

static int find_candidates(struct rg_network *network)
{
    const struct place_host *first = &network->hosts[0];
    int r = 0;

    for (int i = 0; r == 0 && i < first->naddresses; i++) {
        if (network->ncandidates == RG_NETWORK_CANDIDATES_MAX)
            break;
        if (is_usable(&first->addresses[i]))
            r = try_candidate(network, &first->addresses[i]);
    }
    return r;
}

static bool is_candidates(const struct rg_network *network, int host, int index)
{
    for (int c = 0; c < network->ncandidates; c++) {
        if (network->candidates[c].by_host[host] == index)
            return true;
    }
    return false;
}

/* --- tries ------------------------------------------------------------------------------------ */

static int add_probe(struct rg_network *network, int from, int to, int index, size_t *capacity)
{
    struct rg_net_address *address = &network->hosts[to].addresses[index];

    if (network->nprobes == *capacity) {
        size_t wanted = *capacity ? 2 * *capacity : 64;
        void *more = reallocarray(network->probes, wanted, sizeof(*network->probes));
        if (!more)
            return -ENOMEM;
        network->probes = more;
        *capacity = wanted;
    }
    network->probes[network->nprobes++] = (struct rg_network_probe){
        .from = from, .to = to, .address = address->text, .interface = address->interface,
    };
    network->hosts[from].nprobes++;
    address->npending++;
    return 0;
}

/* Addresses of candidates first, others while there is room. */
static int add_pair(struct rg_network *network, int from, int to, size_t *capacity)
{
    const struct place_host *host = &network->hosts[to];
    int n = 0, r = 0;

    if (host->place == network->hosts[from].place || !host->port)
        return 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; r == 0 && i < host->naddresses && n < RG_NETWORK_ADDRESSES_MAX; i++) {
            if (!is_usable(&host->addresses[i]) || is_candidates(network, to, i) == (pass == 1))
                continue;
            r = add_probe(network, from, to, i, capacity);
            n++;
        }
    }
    return r;
}

static int make_probes(struct rg_network *network, bool all_pairs)
{
    size_t capacity = 0;
    int n = network->nhosts, r = 0;

    for (int from = 0; r == 0 && from < n; from++) {
        network->hosts[from].first_probe = network->nprobes;
        int next = (from + 1) % n;
        for (int to = 0; all_pairs && r == 0 && to < n; to++)
            r = add_pair(network, from, to, &capacity);
        if (all_pairs)
            continue;
        r = add_pair(network, from, next, &capacity);
        if (r == 0 && next != 0)
            r = add_pair(network, from, 0, &capacity);
    }
    return r;
}

static int create(const struct rg_network_host *hosts, const struct rg_strv *interfaces,
                  bool all_pairs, struct rg_network *network, struct rg_error *err)
{
    int r = network->hosts ? check_names(hosts, network->nhosts, interfaces, err) : -ENOMEM;

    if (r == -ENODEV)
        return r;
    if (r == 0)
        find_places(hosts, network);
    for (int h = 0; r == 0 && h < network->nhosts; h++) {
        r = fill_host(&hosts[h], interfaces, network, &network->hosts[h], err);
        if (r < 0)
            return r;
    }
    if (r == 0)
        r = find_doubles(network);
    if (r == 0 && !network->one_place)
        r = find_candidates(network);
    if (r == 0 && !network->one_place)
        r = make_probes(network, all_pairs);
    for (int h = 0; r == 0 && network->one_place && interfaces->count && h < network->nhosts; h++)
        network->hosts[h].chosen = network->hosts[h].naddresses ? 0 : -1;
    return r < 0 ? rg_error_set(err, -r, "no memory for the hosts' networks") : 0;
}

int rg_network_create(const struct rg_network_host *hosts, int nhosts,
                      const struct rg_strv *interfaces, bool all_pairs,
                      struct rg_network **ret_network, struct rg_error *err)
{
    struct rg_network *network = calloc(1, sizeof(*network));

    if (!network)
        return rg_error_set(err, ENOMEM, "no memory for the hosts' networks");
    network->hosts = calloc((size_t) nhosts, sizeof(*network->hosts));
    network->nhosts = nhosts;
    int r = create(hosts, interfaces, all_pairs, network, err);
    if (r < 0)
        rg_network_destroy(network);
    else
        *ret_network = network;
    return r;
}

void rg_network_destroy(struct rg_network *network)
{
    if (!network)
        return;
    for (int h = 0; network->hosts && h < network->nhosts; h++) {
        free(network->hosts[h].name);
        free(network->hosts[h].addresses);
    }
    for (int c = 0; c < network->ncandidates; c++)
        free(network->candidates[c].by_host);
    free(network->hosts);
    free(network->probes);
    free(network->cidr);
    free(network);
}

bool rg_network_is_one_place(const struct rg_network *network)
{
    return network->one_place;
}

int rg_network_place(const struct rg_network *network, int host)
{
    return network->hosts[host].place;
}

int rg_network_probes(const struct rg_network *network, int from, struct rg_strv *targets)
{
    const struct place_host *host = &network->hosts[from];
    int r = 0;

    for (size_t i = 0; r == 0 && i < host->nprobes; i++) {
        const struct rg_network_probe *probe = &network->probes[host->first_probe + i];
        const struct place_host *to = &network->hosts[probe->to];
        r = rg_strv_addf(targets, "%016llx %s %u", (unsigned long long) to->instance,
                         probe->address, to->port);
    }
    return r;
}

int rg_network_probed(struct rg_network *network, int from, uint32_t index, int errnum,
                      uint32_t rtt_us)
{
    const struct place_host *host = &network->hosts[from];

    if (index >= host->nprobes)
        return -EBADMSG;
    struct rg_network_probe *probe = &network->probes[host->first_probe + index];
    if (probe->state != RG_PROBE_PENDING)
        return -EBADMSG;
    probe->state = errnum ? RG_PROBE_FAILED : RG_PROBE_REACHED;
    probe->errnum = errnum;
    probe->rtt_us = rtt_us;
    struct place_host *to = &network->hosts[probe->to];
    for (int i = 0; i < to->naddresses; i++) {
        if (to->addresses[i].text == probe->address) {
            to->addresses[i].npending--;
            to->addresses[i].nfailed += errnum != 0;
        }
    }
    return 0;
}

const struct rg_network_probe *rg_network_all(const struct rg_network *network, size_t *ret_count)
{
    *ret_count = network->nprobes;
    return network->probes;
}

/* --- the choice ------------------------------------------------------------------------------- */

static enum { NO, OPEN, YES } judge_candidate(const struct rg_network *network,
                                              const struct candidate *candidate)
{
    bool open = false;

    for (int h = 0; h < network->nhosts; h++) {
        const struct rg_net_address *address =
            &network->hosts[h].addresses[candidate->by_host[h]];
        if (address->nfailed || !network->hosts[h].port)
            return NO;
        open = open || address->npending;
    }
    return open ? OPEN : YES;
}

/* The host's first address that all who tried have reached: its index; -1 none; -2 not yet. */
static int find_routed(const struct place_host *host)
{
    bool open = false;

    for (int i = 0; i < host->naddresses && host->port; i++) {
        const struct rg_net_address *address = &host->addresses[i];
        if (!is_usable(address) || address->nfailed)
            continue;
        if (!address->npending)
            return i;
        open = true;
    }
    return open ? -2 : -1;
}

static int list_nets(struct rg_network *network)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autostrv struct rg_strv seen = RG_STRV_INIT;
    char net[INET6_ADDRSTRLEN + 8];

    for (int h = 0; h < network->nhosts; h++) {
        if (network->hosts[h].chosen < 0)
            continue;
        const struct place_host *host = &network->hosts[h];
        rg_net_address_format_net(&host->addresses[host->chosen], net, sizeof(net));
        if (rg_env_get(&seen, net))
            continue;
        if (rg_env_set(&seen, net, "") < 0)
            return -ENOMEM;
        rg_buf_printf(&text, "%s%s", rg_buf_nbytes(&text) ? "," : "", net);
    }
    if (rg_buf_status(&text) < 0)
        return -ENOMEM;
    free(network->cidr);
    network->cidr = strdup(rg_buf_text(&text));
    return network->cidr ? 1 : -ENOMEM;
}

static int no_addresses(const struct rg_network *network, struct rg_error *err)
{
    for (int h = 0; h < network->nhosts; h++) {
        const struct place_host *host = &network->hosts[h];
        rg_autobuf struct rg_buf list = RG_BUF_INIT;
        bool usable = false;
        for (int i = 0; i < host->naddresses; i++) {
            usable = usable || is_usable(&host->addresses[i]);
            if (host->addresses[i].twice && !host->addresses[i].loopback)
                rg_buf_printf(&list, "%s%s on %s", rg_buf_nbytes(&list) ? ", " : "",
                              host->addresses[i].text, host->addresses[i].interface);
        }
        if (usable && host->port)
            continue;
        if (rg_buf_nbytes(&list))
            return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                                     "host %s has no address of its own: another host of the job "
                                     "has the same (%.400s); %s",
                                     host->name, rg_buf_text(&list), REMEDY);
        return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                                 "host %s has no network but loopback, so that no other host "
                                 "reaches it; %s", host->name, REMEDY);
    }
    return 0;
}

/* Name the first pair that failed, with all that was tried between the two. */
static int no_network(const struct rg_network *network, struct rg_error *err)
{
    rg_autobuf struct rg_buf tried = RG_BUF_INIT;
    const struct rg_network_probe *worst = NULL;
    bool large = false;
    int r = no_addresses(network, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < network->nprobes; i++) {
        const struct rg_network_probe *probe = &network->probes[i];
        if (probe->state != RG_PROBE_FAILED || find_routed(&network->hosts[probe->to]) >= 0)
            continue;
        if (!worst)
            worst = probe;
        if (probe->from != worst->from || probe->to != worst->to)
            continue;
        large = large || probe->errnum == EMSGSIZE;
        rg_buf_printf(&tried, "%s%s (%s): %s", rg_buf_nbytes(&tried) ? "; " : "",
                      probe->address, probe->interface, rg_network_explain(probe->errnum));
    }
    if (!worst)
        return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                                 "no network connects all hosts; %s", REMEDY);
    return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                             "host %s cannot reach host %s: it tried %.500s. To remedy it, %s",
                             network->hosts[worst->from].name, network->hosts[worst->to].name,
                             rg_buf_text(&tried), large ? RG_NETWORK_MTU_REMEDY : REMEDY);
}

static int decide_routed(struct rg_network *network, struct rg_error *err)
{
    bool open = false;

    for (int h = 0; h < network->nhosts; h++) {
        int found = find_routed(&network->hosts[h]);
        if (found == -1)
            return no_network(network, err);
        open = open || found == -2;
        network->hosts[h].chosen = found;
    }
    return open ? 0 : list_nets(network);
}

int rg_network_decide(struct rg_network *network, bool hurry, struct rg_error *err)
{
    bool open = false;

    if (network->cidr)
        return 1;
    if (network->one_place)
        return list_nets(network);
    for (int c = 0; c < network->ncandidates; c++) {
        int verdict = judge_candidate(network, &network->candidates[c]);
        if (verdict == YES && (!open || hurry)) {
            for (int h = 0; h < network->nhosts; h++)
                network->hosts[h].chosen = network->candidates[c].by_host[h];
            return list_nets(network);
        }
        open = open || verdict == OPEN;
    }
    return open && !hurry ? 0 : decide_routed(network, err);
}

const char *rg_network_cidr(const struct rg_network *network)
{
    return network->cidr ? network->cidr : "";
}

const char *rg_network_address(const struct rg_network *network, int host)
{
    const struct place_host *h = &network->hosts[host];

    return h->chosen >= 0 ? h->addresses[h->chosen].text : "127.0.0.1";
}

const char *rg_network_interface(const struct rg_network *network, int host)
{
    const struct place_host *h = &network->hosts[host];

    return h->chosen >= 0 ? h->addresses[h->chosen].interface : "";
}

const char *rg_network_explain(int errnum)
{
    switch (errnum) {
    case ETIMEDOUT: return "no answer: a firewall drops the packets, or they have no way back";
    case ECONNREFUSED: return "refused: a firewall rejects the port, or another machine has this "
                              "address";
    case EHOSTUNREACH: return "no such host in its network, or a firewall forbids it";
    case ENETUNREACH: return "no route to this network";
    case EACCES: case ECONNRESET: case EPROTO:
        return "another machine or program answers at this address";
    case EMSGSIZE: return "small packets pass, large ones do not: its MTU is larger than what the "
                          "network between them carries";
    case EPERM: return "a firewall of the host itself forbids it";
    default: return strerror(errnum);
    }
}
