/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a team: the order of the steps by which ranks become one, and its end. */
#include "coll/team/team.h"

#include <string.h>
#include <sys/mman.h>

#include "coll/ground/report.h"
#include "coll/net/listener.h"
#include "coll/team/team_parts.h"

#define FENCE_MAGIC 0x36544752u /* "RGT6": another build's blobs are no puzzle */

/* What is alive only while the team is being made. */
struct making {
    struct rg_team *team;
    struct rg_boot *boot;
    uint64_t deadline_ns;
    struct rg_blob *blobs;   /* of the last fence, by rank */
    struct rg_rank_info *facts;  /* by rank, after fence 1 */
    int *leader_of;          /* by rank, after fence 2 */
    int unix_fd, leader_fd;
    int listen_fds[RG_TEAM_RAILS_MAX]; /* by rail */
    int nlisten;
};

static void making_fini(struct making *making)
{
    if (making->blobs)
        free(making->blobs[0].data);
    free(making->blobs);
    for (int r = 0; making->facts && r < making->team->size; r++)
        rg_rank_info_fini(&making->facts[r]);
    free(making->facts);
    free(making->leader_of);
    rg_cleanup_close(&making->unix_fd);
    rg_cleanup_close(&making->leader_fd);
    for (int i = 0; i < making->nlisten; i++)
        close(making->listen_fds[i]);
}

/* Check the head of rank i's blob. 0, or -errno with the cause that rank i gave. */
static int read_payload(struct making *making, uint32_t number, int i, struct rg_reader *ret_reader,
                        struct rg_error *err)
{
    struct rg_reader reader = rg_reader_make(making->blobs[i].data, making->blobs[i].nbytes);
    uint32_t magic = rg_reader_u32(&reader), errnum = rg_reader_u32(&reader);
    rg_autofree char *text = rg_reader_str(&reader, RG_ERROR_TEXT_MAX);

    if (reader.bad || magic != FENCE_MAGIC + number || errnum > 4095)
        return rg_error_set(err, EPROTO, "rank %d is in another step of its start: have all "
                            "ranks the same version of Reigen, and called init equally often?",
                            rg_team_world_rank(making->team, i));
    if (errnum > 0)
        return rg_error_set(err, (int) errnum, "rank %d: %s", rg_team_world_rank(making->team, i),
                            text ? text : "");
    *ret_reader = reader;
    return 0;
}

/* This rank failed because another had gone: what that one, or the boot, says of it is the cause.
 * s: what the fence came to. */
static int find_cause(struct making *making, uint32_t number, int s, const struct rg_error *theirs,
                      struct rg_error *err)
{
    struct rg_reader reader;

    if (s < 0) {
        *err = *theirs;
        return s;
    }
    err->errnum = ECONNRESET;
    for (int i = 0; i < making->team->size; i++) {
        struct rg_error cause = RG_ERROR_INIT;
        int r = i == making->team->rank ? 0 : read_payload(making, number, i, &reader, &cause);

        if (r < 0 && r != -EPIPE && r != -EPROTO) {
            rg_boot_cut_off(making->boot, i);
            *err = cause;
            return r;
        }
    }
    return -ECONNRESET;
}

/* A fence in which a rank that failed (r < 0, err) says so. 0 when no rank did: a reader of rank
 * i's payload is read_payload(making, i). The error is this rank's own if it has one, else the
 * first other's. */
static int fence(struct making *making, uint32_t number, int r, struct rg_buf *payload,
                 struct rg_error *err)
{
    rg_autobuf struct rg_buf blob = RG_BUF_INIT;
    struct rg_team *team = making->team;

    rg_buf_put_u32(&blob, FENCE_MAGIC + number);
    rg_buf_put_u32(&blob, (uint32_t) -r);
    rg_buf_put_str(&blob, r < 0 && err ? err->text : "");
    if (payload && r == 0)
        rg_buf_put(&blob, rg_buf_bytes(payload), rg_buf_nbytes(payload));
    if (making->blobs[0].data)
        free(making->blobs[0].data);
    memset(making->blobs, 0, (size_t) team->size * sizeof(*making->blobs));
    if (r == 0 && (rg_buf_status(&blob) < 0 || (payload && rg_buf_status(payload) < 0)))
        return rg_error_set(err, ENOMEM, "out of memory");
    /* A rank that failed keeps its own cause, whatever becomes of this fence. */
    struct rg_error theirs = RG_ERROR_INIT;
    int s = rg_boot_fence(making->boot, rg_buf_bytes(&blob), rg_buf_nbytes(&blob),
                          making->deadline_ns, making->blobs, r < 0 ? &theirs : err);

    if (r == -EPIPE)
        return find_cause(making, number, s, &theirs, err);
    return r < 0 ? r : s;
}

/* A fence, of which take gets what each rank says (NULL: they have nothing to say). 0 or -errno, as
 * fence. */
static int exchange(struct making *making, uint32_t number, int r, struct rg_buf *payload,
                    int (*take)(struct making *making, int rank, struct rg_reader *reader),
                    struct rg_error *err)
{
    r = fence(making, number, r, payload, err);
    for (int i = 0; i < making->team->size && r == 0; i++) {
        struct rg_reader reader;

        r = read_payload(making, number, i, &reader, err);
        if (r < 0 && r != -EPROTO) /* then neither is to blame for the other */
            rg_boot_cut_off(making->boot, i);
        else if (r == 0 && take && take(making, i, &reader) < 0)
            r = rg_error_set(err, EBADMSG, "rank %d said what cannot be read",
                             rg_team_world_rank(making->team, i));
    }
    return r;
}

static int take_facts(struct making *making, int rank, struct rg_reader *reader)
{
    return rg_rank_info_get(reader, &making->facts[rank]);
}

static int exchange_facts(struct making *making, const struct rg_config *config,
                          const struct rg_team_needs *needs, struct rg_error *err)
{
    struct rg_team *team = making->team;
    rg_autobuf struct rg_buf payload = RG_BUF_INIT;
    struct rg_rank_info mine = { 0 };
    int r = needs->failed
                ? rg_error_set(err, needs->failed->errnum, "%s", needs->failed->text)
                : rg_rank_info_read(rg_boot_identity(making->boot), config, needs, &mine, err);

    if (r == 0 && team->size > 1) {
        r = rg_sock_listen_unix(mine.socket_name, &making->unix_fd);
        if (r < 0)
            rg_error_set(err, -r, "a unix socket for the ranks of this host: %s", strerror(-r));
    }
    if (r == 0)
        rg_rank_info_put(&mine, &payload);
    r = exchange(making, 1, r, &payload, take_facts, err);
    rg_rank_info_fini(&mine);
    if (r < 0)
        return r;
    rg_rank_info_fill(making->facts, team);
    for (int i = 0; i < team->size; i++) {
        team->offers[i] = (struct rg_blob){ making->facts[i].offer.data,
                                            making->facts[i].offer.nbytes };
        making->facts[i].offer = (struct rg_span){ NULL, 0 };
    }
    return 0;
}

/* The lowest rank that should share memory with this one and answers. */
static int find_leader(struct making *making)
{
    struct rg_team *team = making->team;
    const struct rg_rank_info *mine = &making->facts[team->rank];

    for (int r = 0; r < team->rank; r++) {
        rg_autoclose int fd = -1;
        uid_t uid;

        if (!rg_rank_info_same_node(mine, &making->facts[r]) ||
            rg_sock_connect_unix(making->facts[r].socket_name, &fd) < 0 ||
            rg_sock_peer(fd, &uid, NULL) < 0 || uid != geteuid())
            continue;
        making->leader_fd = rg_steal_fd(&fd);
        return r;
    }
    return team->rank;
}

/* All use as many networks as the rank that has the fewest. */
static int take_rails(struct making *making, int rank, struct rg_reader *reader)
{
    struct rg_team *team = making->team;
    struct rg_strv rails = RG_STRV_INIT;
    int n = rg_reader_u8(reader);

    for (int i = 0; i < n && n < RG_TEAM_RAILS_MAX; i++)
        rg_strv_take(&rails, rg_reader_str(reader, RG_SOCK_ADDRESS_MAX));
    rg_strv_fini(&team->rails[rank]);
    team->rails[rank] = rails;
    if (n >= RG_TEAM_RAILS_MAX || rails.count != (size_t) n || rg_strv_status(&rails) < 0)
        return -EBADMSG;
    team->nrails = rank == 0 || n + 1 < team->nrails ? n + 1 : team->nrails;
    return rg_reader_done(reader);
}

/* A leader is the first rank of its node. */
static int take_addresses(struct making *making, int rank, struct rg_reader *reader)
{
    uint32_t leader = rg_reader_u32(reader);

    if (leader > (uint32_t) rank)
        return -EBADMSG;
    making->leader_of[rank] = (int) leader;
    making->team->addresses[rank] = rg_reader_str(reader, RG_SOCK_ADDRESS_MAX);
    return making->team->addresses[rank] ? take_rails(making, rank, reader) : -EBADMSG;
}

/* Listen for data: in the network that leads to the others, and in all others that are named. */
static int listen_for_data(struct making *making, const struct rg_config *config,
                           struct rg_error *err)
{
    struct rg_team *team = making->team;
    struct rg_strv *rails = &team->rails[team->rank];
    int r = rg_net_listen(making->facts, team->size, team->rank, config->interface[0] != 0,
                          &config->ports, &making->listen_fds[0], &team->address, err);

    if (r < 0)
        return r;
    making->nlisten = 1;
    /* One rank of each host says what it lacks there. */
    r = rg_net_listen_rails(config->interface, &config->ports,
                            team->local_rank == 0 && !team->world_ranks, &making->listen_fds[1],
                            rails, err);
    making->nlisten += r > 0 ? r : 0;
    return r < 0 ? r : 0;
}

static int exchange_leaders(struct making *making, const struct rg_config *config,
                            struct rg_error *err)
{
    struct rg_team *team = making->team;
    rg_autobuf struct rg_buf payload = RG_BUF_INIT;
    int r = 0;

    if (team->size > 1)
        r = listen_for_data(making, config, err);
    rg_buf_put_u32(&payload, (uint32_t) find_leader(making));
    rg_buf_put_str(&payload, team->address ? team->address : "");
    rg_buf_put_u8(&payload, (uint8_t) team->rails[team->rank].count);
    for (size_t i = 0; i < team->rails[team->rank].count; i++)
        rg_buf_put_str(&payload, team->rails[team->rank].v[i]);
    return exchange(making, 2, r, &payload, take_addresses, err);
}

/* Number the nodes by their leaders. 0, or -EPROTO when a leader follows another. */
static int number_nodes(struct making *making, struct rg_error *err)
{
    struct rg_team *team = making->team;
    const int *leader_of = making->leader_of;

    for (int r = 0; r < team->size; r++) {
        int leader = leader_of[r];

        if (leader_of[leader] != leader)
            return rg_error_set(err, EPROTO, "ranks %d and %d disagree about the node they are on",
                                rg_team_world_rank(team, r), rg_team_world_rank(team, leader));
        if (leader == r) {
            team->leaders[team->nnodes] = r;
            team->peers[r].node = team->nnodes++;
            team->peers[r].node_rank = 0;
        } else {
            team->peers[r].node = team->peers[leader].node;
            for (int s = leader; s < r; s++)
                team->peers[r].node_rank += leader_of[s] == leader;
        }
    }
    team->between.crowding_pct = rg_rank_info_crowding(making->facts, team);
    team->node = team->peers[team->rank].node;
    team->node_rank = team->peers[team->rank].node_rank;
    for (int r = 0; r < team->size; r++)
        if (team->peers[r].node == team->node)
            team->node_ranks[team->node_size++] = r;
    return 0;
}

/* One rank says it, of the whole job. */
static void look_at_rails(struct making *making)
{
    struct rg_team *team = making->team;

    team->unfit_rails = rg_net_unfit_rails(making->facts, team);
    for (int rail = 1; rail < team->nrails && team->rank == 0 && !team->world_ranks; rail++)
        if (team->unfit_rails & 1u << rail && rg_team_address(team, team->rank, rail)[0])
            rg_report(RG_LOG_WARN, "REIGEN_NETWORK_INTERFACE: interface %d of the list (%s here) "
                      "does not connect the hosts; their data go by the first one. Name only those "
                      "that lead to the other hosts", rail + 1,
                      rg_team_address(team, team->rank, rail));
}

static int make_listener(struct making *making, struct rg_error *err)
{
    struct rg_team *team = making->team;
    struct rg_listener_options options = { .nlisten = making->nlisten, .key = team->data_key,
                                        .rank = team->rank, .size = team->size };

    if (team->nnodes == 1)
        return 0;
    memcpy(options.listen_fds, making->listen_fds, sizeof(options.listen_fds));
    making->nlisten = 0;
    int r = rg_listener_create(&options, &team->listener);

    return r < 0 ? rg_error_set(err, -r, "out of memory") : 0;
}

/* On one node nobody dials anybody. */
static void forget_addresses(struct rg_team *team)
{
    for (int r = 0; team->addresses && r < team->size; r++)
        free(team->addresses[r]);
    for (int r = 0; team->rails && r < team->size; r++)
        rg_strv_fini(&team->rails[r]);
    free(team->addresses);
    free(team->rails);
    free(team->address);
    team->addresses = NULL;
    team->rails = NULL;
    team->address = NULL;
    team->nrails = 0;
}

static int allocate(struct making *making)
{
    struct rg_team *team = making->team;
    size_t size = (size_t) team->size;

    team->peers = calloc(size, sizeof(*team->peers));
    team->node_ranks = calloc(size, sizeof(int));
    team->leaders = calloc(size, sizeof(int));
    team->addresses = calloc(size, sizeof(char *));
    team->rails = calloc(size, sizeof(*team->rails));
    team->offers = calloc(size, sizeof(*team->offers));
    making->blobs = calloc(size, sizeof(*making->blobs));
    making->facts = calloc(size, sizeof(*making->facts));
    making->leader_of = calloc(size, sizeof(int));
    return team->peers && team->node_ranks && team->leaders && team->addresses && team->rails &&
                   team->offers && making->blobs && making->facts && making->leader_of
               ? 0 : -ENOMEM;
}

static int make(struct making *making, const struct rg_config *config,
                const struct rg_team_needs *needs, struct rg_error *err)
{
    struct rg_team *team = making->team;
    int r = allocate(making);

    if (r < 0)
        return rg_error_set(err, -r, "out of memory");
    if (!rg_boot_identity(making->boot)->has_key) {
        r = rg_key_generate(team->data_key);
        if (r < 0)
            return rg_error_set(err, -r, "no randomness: %s", strerror(-r));
    }
    r = exchange_facts(making, config, needs, err);
    if (r == 0)
        r = exchange_leaders(making, config, err);
    if (r == 0)
        r = number_nodes(making, err);
    if (r == 0 && team->nnodes > 1)
        r = rg_rank_info_agree(making->facts, team, err);
    if (r < 0)
        return r;
    if (team->nnodes > 1)
        look_at_rails(making);
    r = rg_segment_share(team, making->boot, needs->segment_nbytes(needs->arg, team->node_size),
                         &making->unix_fd, making->leader_fd, making->deadline_ns, err);
    if (r == 0)
        r = make_listener(making, err);
    r = exchange(making, 3, r, NULL, NULL, err);
    if (r == 0 && team->nnodes == 1)
        forget_addresses(team);
    return r;
}

int rg_team_create(struct rg_boot *boot, const struct rg_config *config,
                   const struct rg_team_needs *needs, uint64_t deadline_ns,
                   struct rg_team **ret_team, struct rg_error *err)
{
    const struct rg_boot_identity *identity = rg_boot_identity(boot);
    struct rg_team *team = calloc(1, sizeof(*team));
    struct making making = { .team = team, .boot = boot, .deadline_ns = deadline_ns,
                             .unix_fd = -1, .leader_fd = -1 };
    struct rg_error unheard = RG_ERROR_INIT;

    if (!team)
        return rg_error_set(err, ENOMEM, "out of memory");
    /* The cause travels in the fences even when this caller does not want it. */
    err = err ? err : &unheard;
    team->rank = identity->rank;
    team->size = identity->size;
    team->world_ranks = identity->world_ranks;
    team->between.keeps_congestion = config->keeps_congestion;
    team->between.traffic = calloc(1, sizeof(*team->between.traffic));
    team->data_key = rg_key_hold(identity->key);
    rg_boot_forget_key(boot);
    int r = team->data_key ? make(&making, config, needs, err)
                           : rg_error_set(err, ENOMEM, "no memory for a key");

    making_fini(&making);
    if (r < 0) {
        rg_team_destroy(team);
        return r;
    }
    *ret_team = team;
    return 0;
}

static void close_fds(struct rg_team *team, bool events)
{
    for (int i = 0; team->bells.event_fd && i < team->node_size; i++) {
        struct rg_team_peer *peer = &team->peers[team->node_ranks[i]];

        rg_cleanup_close(&peer->pidfd);
        peer->pidfd = -1;
        if (!events)
            continue;
        rg_cleanup_close(&team->bells.event_fd[i]);
        team->bells.event_fd[i] = -1;
    }
}

void rg_team_destroy(struct rg_team *team)
{
    if (!team)
        return;
    rg_listener_destroy(team->listener);
    close_fds(team, true);
    free(team->bells.event_fd);
    if (team->segment)
        munmap(team->segment, team->segment_nbytes);
    forget_addresses(team);
    free(team->peers);
    free(team->node_ranks);
    free(team->leaders);
    for (int r = 0; team->offers && r < team->size; r++)
        free(team->offers[r].data);
    free(team->offers);
    free(team->between.traffic);
    rg_key_drop(team->data_key);
    free(team);
}

void rg_team_close_fds(struct rg_team *team)
{
    close_fds(team, team->nnodes == 1);
}

void rg_team_after_fork(struct rg_team *team)
{
    close_fds(team, true);
    if (team->listener)
        rg_listener_after_fork(team->listener);
}
