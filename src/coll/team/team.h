/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of the job and how they reach each other: made once by reigen_init from the boot's
 * fences, constant afterwards, freed by reigen_shutdown.
 *
 * A node is a set of ranks that have proved to share memory: they mapped the leader's memfd,
 * received over a unix socket, and read the same nonce. Never by host name. The leader is the
 * node's lowest rank. Nodes are numbered by their leaders' ranks. Where no plane that may be used
 * serves nodes every rank is a node of its own.
 */
#ifndef RG_COLL_TEAM_TEAM_H
#define RG_COLL_TEAM_TEAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"
#include "coll/team/bell.h"
#include "coll/boot/boot.h"
#include "coll/ground/config.h"
#include "wire/link.h"

struct rg_team_peer {
    int node;            /* index of its node */
    int node_rank;
    pid_t pid;           /* in our pid name space, for ranks of this host; 0: not visible */
    int pidfd;           /* ranks of this node that we may watch; -1 */
    char host[256];      /* its host's name, for messages */
};

#define RG_TEAM_OFFER_MAX 65536 /* bytes */

/* What this rank sends to other hosts, as the kernel counts it: added to by planes, read by any
 * thread. */
struct rg_team_traffic {
    _Atomic uint64_t sent_nbytes; /* that have been acknowledged */
    _Atomic uint64_t sending_us;  /* for which some were not, though the receiver had room */
    _Atomic int sent_to;          /* 1 + the rank that took longest of late; 0: none */
};

/* What counts between hosts. */
struct rg_team_between {
    bool keeps_congestion; /* REIGEN_TCP_CONGESTION=host */
    unsigned crowding_pct; /* 100 x leaders / cores of this machine, which is more than one host
                            * where hosts are simulated or are containers; 100 at least */
    struct rg_team_traffic *traffic; /* owned by the team; NULL: nobody asks for it */
};

struct rg_listener;

struct rg_team {
    int rank, size;
    int local_rank, local_size, cross_rank, cross_size; /* as users see them */
    bool homogeneous;

    int node, nnodes;
    int node_rank, node_size;   /* node_rank 0 is the leader */
    int *node_ranks;            /* ranks of this node, ascending, node_size of them */
    int *leaders;               /* the leader's rank, by node */
    const int *world_ranks;     /* of a process set: the world's ranks, by rank; NULL; borrowed */
    struct rg_team_peer *peers; /* by rank */

    /* shared by the node (private memory when node_size is 1), zeroed at birth */
    void *segment;
    size_t segment_nbytes;
    struct rg_bells bells;      /* bell memory lies at the segment's start, owned by team */
    size_t segment_start; /* first byte after the bells, 4096-aligned: the progress engine's */

    uint8_t *data_key;          /* rg_key_hold: authenticates sockets between ranks */
    /* "10.0.0.1:40123": where this rank listens for tcp, NULL on one node */
    char *address;
    struct rg_listener *listener; /* who dials this rank (coll/net/listener.h); NULL on one node */
    char **addresses;           /* of all ranks, by rank; NULL on one node */
    int nrails;                 /* networks for data: 1, or more where REIGEN_NETWORK_INTERFACE
                                 * names several; 0 on one node */
    unsigned unfit_rails;       /* bit i: number i does not lead from here to all others */
    struct rg_strv *rails;      /* by rank: where it listens in the networks after the first one,
                                 * "" where it has none; rg_team_address; NULL on one node */
    struct rg_blob *offers;     /* what each rank's needs offered, by rank; each is owned */
    bool oversubscribed;        /* more ranks on this host than cores we may use */
    int ncores;                 /* cores that this process may use */
    struct rg_team_between between;
};

/* What people call a rank: its number in the world. Negative ones stay. */
static inline int rg_team_world_rank(const struct rg_team *team, int rank)
{
    return team->world_ranks && rank >= 0 ? team->world_ranks[rank] : rank;
}

/* Where this rank listens in the network that has this number, from 0 on; not on one node. */
static inline const char *rg_team_address(const struct rg_team *team, int rank, int rail)
{
    return rail == 0 ? team->addresses[rank] : team->rails[rank].v[rail - 1];
}

/* The descriptors by which the ranks of the node wake and watch each other are not needed: those
 * of a process set on one node sleep in futexes, and the world's progress engine watches the
 * processes. */
void rg_team_close_fds(struct rg_team *team);

/* What is to be built upon a team. */
struct rg_team_needs {
    /* Bytes of the node's segment beyond the bells. */
    size_t (*segment_nbytes)(const void *arg, int node_size);
    const void *arg;
    bool shares_memory;   /* ranks of one host are a node; else each is a node of its own */
    const void *offer;    /* told to all ranks, unread: team->offers; at most RG_TEAM_OFFER_MAX */
    size_t offer_nbytes;
    const struct rg_error *failed; /* NULL, or why this rank cannot go on, which all fail with */
};

/* Wire the job up: fences, node discovery, the segment, pidfds, event descriptors. Blocks until
 * deadline_ns at most. 0; -ETIMEDOUT, -ECONNREFUSED, -EPERM, -ENOMEM, -ECONNRESET with err: nothing
 * is left behind. */
int rg_team_create(struct rg_boot *boot, const struct rg_config *config,
                   const struct rg_team_needs *needs, uint64_t deadline_ns,
                   struct rg_team **ret_team, struct rg_error *err);
/* Unmaps, closes. NULL is fine. */
void rg_team_destroy(struct rg_team *team);
/* In a forked child: close every descriptor and unmap; frees nothing that needs a lock.
 * Async-signal-safe. */
void rg_team_after_fork(struct rg_team *team);

#endif
