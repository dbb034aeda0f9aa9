/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of rg_team_create, between team_create.c (the order of things) and its other files.
 *
 *      facts -> fence 1 -> who may be my leader, where do I listen -> fence 2 -> nodes are known
 *            -> segment, pidfds and event descriptors inside each node -> fence 3 -> all succeeded
 *
 * A rank whose step failed still takes part in the next fence and says so in it, so that all ranks
 * fail at once, with its cause.
 *
 * Thread rule: the thread in reigen_init.
 */
#ifndef RG_COLL_TEAM_TEAM_PARTS_H
#define RG_COLL_TEAM_TEAM_PARTS_H

#include <sched.h>

#include "base/str.h"
#include "coll/net/listener.h"
#include "coll/net/sock.h"
#include "coll/team/team.h"
#include "wire/codec.h"

#define RG_TEAM_HOST_MAX 255
#define RG_TEAM_ADDRESSES_MAX 64
#define RG_TEAM_RAILS_MAX RG_LISTENER_FDS_MAX

/* What fence 1 tells of a rank. Everything in it is owned. */
struct rg_rank_info {
    char *boot_id;         /* of the running kernel: the host */
    char *host;
    uint64_t netns, pidns; /* inode numbers: equal means the same, within one host */
    uint32_t uid, pid;
    uint8_t shm;           /* may share memory */
    char *socket_name;     /* abstract; where the ranks of its node find it */
    int32_t local_rank, local_size, cross_rank, cross_size; /* as the boot says, or -1 */
    uint32_t tree_degree;  /* must be equal where there are several nodes */
    struct rg_span cpus;   /* a cpu_set_t */
    struct rg_strv addresses; /* "10.0.0.1/24", best first */
    struct rg_span offer;  /* of its planes */
};

/* This process's facts (rank_info.c). 0 or -errno. */
int rg_rank_info_read(const struct rg_boot_identity *identity, const struct rg_config *config,
                      const struct rg_team_needs *needs, struct rg_rank_info *ret_facts,
                      struct rg_error *err);
void rg_rank_info_fini(struct rg_rank_info *facts);
void rg_rank_info_put(const struct rg_rank_info *facts, struct rg_buf *buf);
/* All that is left in reader. 0 or -EBADMSG. */
int rg_rank_info_get(const struct rg_reader *reader, struct rg_rank_info *ret_facts);
/* What all ranks must have alike. 0, or -EINVAL: who has what. */
int rg_rank_info_agree(const struct rg_rank_info *all, const struct rg_team *team,
                       struct rg_error *err);
/* They should be able to share memory; meeting over the socket proves it. */
bool rg_rank_info_same_node(const struct rg_rank_info *a, const struct rg_rank_info *b);
/* Numbers as users see them, cores, oversubscription, peers' hosts and pids. */
void rg_rank_info_fill(const struct rg_rank_info *all, struct rg_team *team);
/* By the leaders, once they are known: team->between.crowding_pct. */
unsigned rg_rank_info_crowding(const struct rg_rank_info *all, const struct rg_team *team);

/* Addresses of this host that other hosts may reach (team_net.c): those that match the first of
 * interfaces (of REIGEN_NETWORK_INTERFACE or HOROVOD_GLOO_IFACE, commas between); else those in the
 * networks of REIGEN_NETWORK, which the launcher found; else by route. 0, or -EINVAL when the first
 * one matches none. */
int rg_net_candidates(const char *interfaces, struct rg_strv *ret_addresses, struct rg_error *err);
/* Listen for data where the other ranks reach this one, on one of these ports. 0 or -errno;
 * *ret_address is the caller's. */
int rg_net_listen(const struct rg_rank_info *all, int size, int me, bool chosen,
                  const struct rg_ports *ports, int *ret_fd, char **ret_address,
                  struct rg_error *err);

/* The same in the further networks, at the first address that matches each of interfaces after the
 * first one; "" where none does, of which this rank warns if it tells. ret_fds has room for
 * RG_TEAM_RAILS_MAX - 1. How many of them there are; -EINVAL when a name is empty, or there are
 * more than RG_TEAM_RAILS_MAX; -errno. */
int rg_net_listen_rails(const char *interfaces, const struct rg_ports *ports, bool tells,
                        int *ret_fds, struct rg_strv *ret_addresses, struct rg_error *err);
/* Which of the further networks (bit 1: the second one) cannot connect this rank with another, as
 * their addresses show: one has none; or they are on two hosts, and loopback's, or the same, as of
 * a bridge to containers that each host has, or of different families. */
unsigned rg_net_unfit_rails(const struct rg_rank_info *all, const struct rg_team *team);

/* Inside the node (team_segment.c). unix_fd: this rank's listening unix socket (leader). leader_fd:
 * connected to the leader's socket (others). Fills segment, bells, pidfds. 0 or -errno; -EPIPE:
 * the other end has gone, and knows better why. */
int rg_segment_share(struct rg_team *team, struct rg_boot *boot, size_t progress_nbytes,
                     int *unix_fd, int leader_fd, uint64_t deadline_ns, struct rg_error *err);

#endif
