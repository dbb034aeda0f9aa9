/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank tells all others of itself, and what follows from it for each. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "coll/team/team_parts.h"

static void read_boot_id(char boot_id[64])
{
    rg_autofree char *text = NULL;

    /* Where /proc is hidden nobody can be shown to be on this host: a name of our own. */
    if (rg_read_file("/proc/sys/kernel/random/boot_id", 64, &text, NULL) < 0)
        snprintf(boot_id, 64, "unknown-%d", (int) getpid());
    else
        snprintf(boot_id, 64, "%.*s", (int) strcspn(text, "\n"), text);
}

static uint64_t namespace_id(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_ino : 0;
}

static int make_socket_name(char socket_name[RG_TEAM_SOCKET_NAME_MAX])
{
    uint8_t key[RG_KEY_NBYTES];
    char hex[2 * RG_KEY_NBYTES + 1];
    int r = rg_key_generate(key);

    if (r < 0)
        return r;
    rg_key_format(key, hex);
    snprintf(socket_name, RG_TEAM_SOCKET_NAME_MAX, "@reigen-%.32s", hex);
    return 0;
}

static int keep_offer(const void *data, size_t nbytes, struct rg_blob *ret_offer)
{
    ret_offer->data = malloc(nbytes + 1);
    if (!ret_offer->data)
        return -ENOMEM;
    if (nbytes)
        memcpy(ret_offer->data, data, nbytes);
    ret_offer->nbytes = nbytes;
    return 0;
}

int rg_rank_info_read(const struct rg_boot_identity *identity, const struct rg_config *config,
                      const struct rg_team_needs *needs, struct rg_rank_info *ret_facts,
                      struct rg_error *err)
{
    struct rg_rank_info facts = {
        .netns = namespace_id("/proc/self/ns/net"), .pidns = namespace_id("/proc/self/ns/pid"),
        .uid = geteuid(), .pid = getpid(), .shm = needs->shares_memory,
        .local_rank = identity->local_rank, .local_size = identity->local_size,
        .cross_rank = identity->cross_rank, .cross_size = identity->cross_size };
    const char *host = getenv("REIGEN_HOSTNAME");
    int r = make_socket_name(facts.socket_name);

    if (r < 0)
        return rg_error_set(err, -r, "no randomness: %s", strerror(-r));
    read_boot_id(facts.boot_id);
    if (host && host[0])
        snprintf(facts.host, sizeof(facts.host), "%s", host);
    else if (gethostname(facts.host, RG_TEAM_HOST_MAX) < 0)
        snprintf(facts.host, sizeof(facts.host), "?");
    if (sched_getaffinity(0, sizeof(facts.cpus), &facts.cpus) < 0)
        CPU_SET(0, &facts.cpus);
    if (identity->size > 1)
        r = rg_net_candidates(config->interface, &facts.addresses, err);
    if (r == 0 && keep_offer(needs->offer, needs->offer_nbytes, &facts.offer) < 0)
        r = rg_error_set(err, ENOMEM, "out of memory");
    if (r < 0)
        rg_rank_info_fini(&facts);
    else
        *ret_facts = facts;
    return r;
}

void rg_rank_info_fini(struct rg_rank_info *facts)
{
    rg_strv_fini(&facts->addresses);
    free(facts->offer.data);
}

void rg_rank_info_put(const struct rg_rank_info *facts, struct rg_buf *buf)
{
    rg_buf_put_str(buf, facts->boot_id);
    rg_buf_put_str(buf, facts->host);
    rg_buf_put_u64(buf, facts->netns);
    rg_buf_put_u64(buf, facts->pidns);
    rg_buf_put_u32(buf, facts->uid);
    rg_buf_put_u32(buf, (uint32_t) facts->pid);
    rg_buf_put_u8(buf, facts->shm);
    rg_buf_put_str(buf, facts->socket_name);
    rg_buf_put_u32(buf, (uint32_t) facts->local_rank);
    rg_buf_put_u32(buf, (uint32_t) facts->local_size);
    rg_buf_put_u32(buf, (uint32_t) facts->cross_rank);
    rg_buf_put_u32(buf, (uint32_t) facts->cross_size);
    rg_buf_put(buf, &facts->cpus, sizeof(facts->cpus));
    rg_buf_put_u32(buf, (uint32_t) facts->addresses.count);
    for (size_t i = 0; i < facts->addresses.count; i++)
        rg_buf_put_str(buf, facts->addresses.v[i]);
    rg_buf_put_span(buf, facts->offer.data, facts->offer.nbytes);
}

static void get_text(struct rg_reader *reader, char *text, size_t room)
{
    rg_autofree char *copy = rg_reader_str(reader, room - 1);

    if (copy)
        strcpy(text, copy);
}

int rg_rank_info_get(struct rg_reader *reader, struct rg_rank_info *ret_facts)
{
    struct rg_rank_info facts = { 0 };
    const uint8_t *cpus, *offer;
    size_t nbytes;

    get_text(reader, facts.boot_id, sizeof(facts.boot_id));
    get_text(reader, facts.host, sizeof(facts.host));
    facts.netns = rg_reader_u64(reader);
    facts.pidns = rg_reader_u64(reader);
    facts.uid = rg_reader_u32(reader);
    facts.pid = (pid_t) rg_reader_u32(reader);
    facts.shm = rg_reader_u8(reader) == 1;
    get_text(reader, facts.socket_name, sizeof(facts.socket_name));
    facts.local_rank = (int) rg_reader_u32(reader);
    facts.local_size = (int) rg_reader_u32(reader);
    facts.cross_rank = (int) rg_reader_u32(reader);
    facts.cross_size = (int) rg_reader_u32(reader);
    cpus = rg_reader_bytes(reader, sizeof(facts.cpus));
    if (cpus)
        memcpy(&facts.cpus, cpus, sizeof(facts.cpus));
    uint32_t count = rg_reader_u32(reader);

    if (count > RG_TEAM_ADDRESSES_MAX)
        reader->bad = true;
    for (uint32_t i = 0; i < count && !reader->bad; i++) {
        char *text = rg_reader_str(reader, RG_SOCK_ADDRESS_MAX);

        if (!text || rg_strv_take(&facts.addresses, text) < 0)
            reader->bad = true;
    }
    offer = rg_reader_span(reader, RG_TEAM_OFFER_MAX, &nbytes);
    if (reader->bad || keep_offer(offer, nbytes, &facts.offer) < 0 || rg_reader_done(reader) < 0) {
        rg_rank_info_fini(&facts);
        return -EBADMSG;
    }
    *ret_facts = facts;
    return 0;
}

/* Same kernel and host name: what users call one host. */
static bool same_host(const struct rg_rank_info *a, const struct rg_rank_info *b)
{
    return strcmp(a->boot_id, b->boot_id) == 0 && strcmp(a->host, b->host) == 0;
}

bool rg_rank_info_same_node(const struct rg_rank_info *a, const struct rg_rank_info *b)
{
    return a->shm && b->shm && strcmp(a->boot_id, b->boot_id) == 0 && a->netns == b->netns &&
           a->uid == b->uid;
}

/* Of the first n ranks, those on rank's host. */
static int host_count(const struct rg_rank_info *all, int n, int rank)
{
    int count = 0;

    for (int r = 0; r < n; r++)
        count += same_host(&all[r], &all[rank]);
    return count;
}

static int local_size_of(const struct rg_rank_info *all, int size, int rank)
{
    return all[rank].local_size > 0 ? all[rank].local_size : host_count(all, size, rank);
}

static int local_rank_of(const struct rg_rank_info *all, int rank)
{
    return all[rank].local_rank >= 0 ? all[rank].local_rank : host_count(all, rank, rank);
}

static void fill_cores(const struct rg_rank_info *all, struct rg_team *team)
{
    const struct rg_rank_info *mine = &all[team->rank];
    cpu_set_t cpus;
    int nranks = 0;

    CPU_ZERO(&cpus);
    for (int r = 0; r < team->size; r++) {
        if (strcmp(all[r].boot_id, mine->boot_id) != 0)
            continue;
        CPU_OR(&cpus, &cpus, &all[r].cpus);
        nranks++;
    }
    team->ncores = CPU_COUNT(&mine->cpus);
    team->oversubscribed = nranks > CPU_COUNT(&cpus);
}

void rg_rank_info_fill(const struct rg_rank_info *all, struct rg_team *team)
{
    const struct rg_rank_info *mine = &all[team->rank];

    team->local_rank = local_rank_of(all, team->rank);
    team->local_size = local_size_of(all, team->size, team->rank);
    team->homogeneous = true;
    team->cross_rank = team->cross_size = 0;
    for (int r = 0; r < team->size; r++) {
        const struct rg_rank_info *other = &all[r];

        if (local_size_of(all, team->size, r) != team->local_size)
            team->homogeneous = false;
        if (local_rank_of(all, r) == team->local_rank) {
            team->cross_rank += r < team->rank;
            team->cross_size++;
        }
        memcpy(team->peers[r].host, other->host, sizeof(team->peers[r].host));
        team->peers[r].pidfd = -1;
        if (strcmp(other->boot_id, mine->boot_id) == 0 && other->pidns == mine->pidns)
            team->peers[r].pid = other->pid;
    }
    if (mine->cross_rank >= 0)
        team->cross_rank = mine->cross_rank;
    if (mine->cross_size > 0)
        team->cross_size = mine->cross_size;
    fill_cores(all, team);
}
