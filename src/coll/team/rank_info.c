/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank tells all others of itself, and what follows from it for each. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "coll/team/team_parts.h"

#define FIELD(kind, member) RG_FIELD(kind, struct rg_rank_info, member)

static const struct rg_field fields[] = {
    FIELD(STR, boot_id), FIELD(STR, host), FIELD(U64, netns), FIELD(U64, pidns), FIELD(U32, uid),
    FIELD(U32, pid), FIELD(U8, shm), FIELD(STR, socket_name), FIELD(I32, local_rank),
    FIELD(I32, local_size), FIELD(I32, cross_rank), FIELD(I32, cross_size), FIELD(U32, tree_degree),
    FIELD(SPAN, cpus), FIELD(STRV, addresses), FIELD(SPAN, offer), RG_FIELD_LAST,
};

/* Where /proc is hidden nobody can be shown to be on this host: a name of our own. */
static char *read_boot_id(void)
{
    rg_autofree char *text = NULL;

    if (rg_read_file("/proc/sys/kernel/random/boot_id", 64, &text, NULL) < 0)
        return rg_strf("unknown-%d", (int) getpid());
    return rg_strf("%.*s", (int) strcspn(text, "\n"), text);
}

static char *read_host(void)
{
    const char *given = getenv("REIGEN_HOSTNAME");
    char name[RG_TEAM_HOST_MAX + 1] = "";

    if (given && given[0])
        return rg_strf("%.*s", RG_TEAM_HOST_MAX, given);
    return strdup(gethostname(name, RG_TEAM_HOST_MAX) < 0 ? "?" : name);
}

static uint64_t namespace_id(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_ino : 0;
}

static char *make_socket_name(const uint8_t key[RG_KEY_NBYTES])
{
    char hex[2 * RG_KEY_NBYTES + 1];

    rg_key_format(key, hex);
    return rg_strf("@reigen-%.32s", hex);
}

static struct rg_span copy_of(const void *data, size_t nbytes)
{
    struct rg_span copy = { malloc(nbytes + 1), nbytes };

    if (copy.data && nbytes)
        memcpy(copy.data, data, nbytes);
    return copy;
}

int rg_rank_info_read(const struct rg_boot_identity *identity, const struct rg_config *config,
                      const struct rg_team_needs *needs, struct rg_rank_info *ret_facts,
                      struct rg_error *err)
{
    uint8_t random[RG_KEY_NBYTES];
    cpu_set_t cpus;
    int r = rg_key_generate(random);

    if (r < 0)
        return rg_error_set(err, -r, "no randomness: %s", strerror(-r));
    CPU_ZERO(&cpus);
    if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
        CPU_SET(0, &cpus);
    struct rg_rank_info facts = {
        .boot_id = read_boot_id(), .host = read_host(),
        .netns = namespace_id("/proc/self/ns/net"), .pidns = namespace_id("/proc/self/ns/pid"),
        .uid = geteuid(), .pid = (uint32_t) getpid(), .shm = needs->shares_memory,
        .socket_name = make_socket_name(random),
        .local_rank = identity->local_rank, .local_size = identity->local_size,
        .cross_rank = identity->cross_rank, .cross_size = identity->cross_size,
        .tree_degree = (uint32_t) rg_config_tree_degree(config),
        .cpus = copy_of(&cpus, sizeof(cpus)),
        .offer = copy_of(needs->offer, needs->offer_nbytes) };

    if (!facts.boot_id || !facts.host || !facts.socket_name || !facts.cpus.data ||
        !facts.offer.data)
        r = rg_error_set(err, ENOMEM, "out of memory");
    if (r == 0 && identity->size > 1)
        r = rg_net_candidates(config->interface, &facts.addresses, err);
    if (r < 0)
        rg_rank_info_fini(&facts);
    else
        *ret_facts = facts;
    return r;
}

void rg_rank_info_fini(struct rg_rank_info *facts)
{
    rg_codec_clear(fields, facts);
}

void rg_rank_info_put(const struct rg_rank_info *facts, struct rg_buf *buf)
{
    rg_codec_encode(fields, facts, buf);
}

int rg_rank_info_get(const struct rg_reader *reader, struct rg_rank_info *ret_facts)
{
    struct rg_rank_info facts = { 0 };

    if (rg_codec_decode(fields, reader->data, reader->nbytes, &facts) < 0)
        return -EBADMSG;
    if (facts.cpus.nbytes != sizeof(cpu_set_t) || facts.addresses.count > RG_TEAM_ADDRESSES_MAX ||
        facts.offer.nbytes > RG_TEAM_OFFER_MAX) {
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

int rg_rank_info_agree(const struct rg_rank_info *all, const struct rg_team *team,
                       struct rg_error *err)
{
    for (int r = 1; r < team->size; r++)
        if (all[r].tree_degree != all[0].tree_degree)
            return rg_error_set(err, EINVAL, "rank %d has REIGEN_TREE_DEGREE %u, and rank %d has "
                                "%u; give all ranks the same, or none (%d)",
                                rg_team_world_rank(team, 0), all[0].tree_degree,
                                rg_team_world_rank(team, r), all[r].tree_degree, RG_TREE_DEGREE);
    return 0;
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
    cpu_set_t cpus, theirs;
    int nranks = 0;

    CPU_ZERO(&cpus);
    for (int r = 0; r < team->size; r++) {
        if (strcmp(all[r].boot_id, mine->boot_id) != 0)
            continue;
        memcpy(&theirs, all[r].cpus.data, sizeof(theirs));
        CPU_OR(&cpus, &cpus, &theirs);
        nranks++;
    }
    memcpy(&theirs, mine->cpus.data, sizeof(theirs));
    team->ncores = CPU_COUNT(&theirs);
    team->oversubscribed = nranks > CPU_COUNT(&cpus);
}

unsigned rg_rank_info_crowding(const struct rg_rank_info *all, const struct rg_team *team)
{
    const struct rg_rank_info *mine = &all[team->rank];
    unsigned nleaders = 0, ncores;
    cpu_set_t cpus, theirs;

    CPU_ZERO(&cpus);
    for (int node = 0; node < team->nnodes; node++) {
        const struct rg_rank_info *leader = &all[team->leaders[node]];

        if (strcmp(leader->boot_id, mine->boot_id) != 0)
            continue;
        memcpy(&theirs, leader->cpus.data, sizeof(theirs));
        CPU_OR(&cpus, &cpus, &theirs);
        nleaders++;
    }
    ncores = (unsigned) CPU_COUNT(&cpus);
    return nleaders > ncores && ncores > 0 ? nleaders * 100 / ncores : 100;
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
        snprintf(team->peers[r].host, sizeof(team->peers[r].host), "%s", other->host);
        team->peers[r].pidfd = -1;
        if (strcmp(other->boot_id, mine->boot_id) == 0 && other->pidns == mine->pidns)
            team->peers[r].pid = (pid_t) other->pid;
    }
    if (mine->cross_rank >= 0)
        team->cross_rank = mine->cross_rank;
    if (mine->cross_size > 0)
        team->cross_size = mine->cross_size;
    fill_cores(all, team);
}
