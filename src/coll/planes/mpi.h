/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the mpi plane: what its files share. mpi.c owns life and progress, mpi_steps.c says what
 * goes where, mpi_world.c how the ranks come together.
 *
 * MPI moves bytes; Reigen's kernels reduce. A library's own reductions may add in another order
 * from rank to rank or from version to version; here each part of a result is computed once, in the
 * order of members, and handed on, or by all from the same operands. So all members hold the same
 * bits, every type of Reigen's is there, and an average is rounded once, as on the other planes.
 *
 * An operation takes one of three ways, by its kind and nominal size, alike on all members:
 *
 *   gather    up to RG_MPI_SMALL_NBYTES: all operands to all members (one MPI_Iallgather), each
 *             reduces for itself
 *   rounds    the tensor in chunks: in a round every member sends to each other one its part of
 *             the chunk (MPI_Isend, MPI_Irecv), reduces the part that is its own, and an allreduce
 *             hands it on (MPI_Iallgatherv, in place). Two rounds are under way at once: one's
 *             parts travel while the other's results do. An alltoall is rounds without reductions.
 *   sequence  broadcast and allgather: one MPI_Ibcast or MPI_Iallgatherv, or several, one after
 *             another, where counts would not fit into an int
 *
 *      posted >= reduced >= handed >= finished       rounds, counted by these; at most 2 apart
 *
 * MPI has no descriptor to sleep on. While an operation waits the driver looks again after naps
 * that grow from RG_MPI_NAP_MIN_US to RG_MPI_NAP_MAX_US, and to RG_MPI_NAP_LONG_US where others are
 * later than RG_MPI_LATE_MS. Between operations MPI is nudged now and then, as what it has accepted
 * may still wait to leave.
 *
 * Whether the ranks of a team can reach each other by the user's MPI: each offers (plane.h) whether
 * it may and can, and where it is in MPI_COMM_WORLD; all draw the same conclusion. They use it if
 * every rank can, and all are different ranks of one world: N processes that an mpirun of another
 * kind has started are N worlds of one rank each, and are found out here.
 *
 * Thread rule: a plane's; rg_mpi_world_spoil from any thread.
 */
#ifndef RG_COLL_PLANES_MPI_H
#define RG_COLL_PLANES_MPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/mpi/mpi_shim.h"
#include "coll/planes/common.h"
#include "coll/planes/plane.h"

extern const struct rg_plane_ops rg_plane_mpi;

enum {
    RG_MPI_SMALL_NBYTES = 64 * 1024,        /* of all members' operands together */
    RG_MPI_CHUNK_NBYTES = 4 * 1024 * 1024,  /* of a tensor, in a round */
    RG_MPI_PIECE_NBYTES = 1 << 30,          /* in one call of MPI, whose counts are ints */
    RG_MPI_NAP_MIN_US = 20,
    RG_MPI_NAP_MAX_US = 200,
    RG_MPI_NAP_LONG_US = 1000,
    RG_MPI_LATE_MS = 20,
    RG_MPI_IDLE_SOON_MS = 50,   /* so long after an operation nudges are ... */
    RG_MPI_IDLE_SOON_US = 1000, /* ... this far apart, and then ... */
    RG_MPI_IDLE_US = 100000,    /* ... this far */
    RG_MPI_ROUNDS = 2,          /* under way at once */
};

/* As the constants above; tests take smaller ones. Equal on all members. */
struct rg_mpi_limits {
    size_t small_nbytes, chunk_nbytes, piece_nbytes;
};

enum rg_mpi_way { RG_MPI_NOTHING, RG_MPI_GATHER, RG_MPI_ROUNDWISE, RG_MPI_SEQUENCE };

/* Where one round's part for or from a member lies. */
struct rg_mpi_part {
    char *at;
    size_t nbytes; /* 0: nothing is sent */
};

struct rg_mpi_round {
    struct rg_mpi_request *requests; /* 2 n: receives, then sends; owned, with the next two */
    int nrequests, ndone;
    int *counts, *displs;            /* n each, of the hand-over */
    struct rg_mpi_request handover;
};

struct rg_mpi_op {
    bool active;
    enum rg_mpi_way way;
    struct rg_coll coll;
    size_t esize, total;   /* total: bytes of `in` (alltoall: sent) */
    size_t chunk, part;    /* elements of a round, and of a member's part of it, at most */
    size_t nrounds;        /* or calls, of a sequence */
    size_t posted, reduced, handed, finished;
    struct rg_mpi_request request; /* gather, sequence: the one under way */
    bool under_way;
    int member;            /* sequence of an allgather: whose part, from which byte */
    size_t offset;
    size_t *starts, *recv_starts; /* n + 1 each, elements; owned by the plane */
    const char *in;        /* the operand; zeros where there is none and it is short */
    char *out;             /* NULL: dropped */
};

struct rg_mpi {
    const struct rg_mpi_shim_ops *ops;
    struct rg_mpi_comm comm;
    int n, me;
    struct rg_mpi_limits limits;
    struct rg_mpi_op op;
    struct rg_mpi_round rounds[RG_MPI_ROUNDS];
    const void **sources;     /* n, for rg_reduce */
    size_t *starts;           /* 2 (n + 1) */
    struct rg_store staging;  /* what comes in before it is reduced */
    struct rg_store zeros;    /* stands for an operand that is not there; never written */
    struct rg_store scratch;  /* takes results that are dropped */
    uint64_t noperations;
    uint64_t moved_ns;        /* when something moved last; 0: never */
    unsigned nap_us;
    bool dead;
    struct rg_loss loss;      /* MPI has failed */
};

/* A plane over a communicator whose ranks are the members, which it frees when it is closed. 0 or
 * -ENOMEM, and the communicator is the caller's. */
int rg_mpi_plane_make(const struct rg_mpi_shim_ops *ops, const struct rg_mpi_comm *comm,
                      const struct rg_mpi_limits *limits, struct rg_mpi **ret_mpi);

/* ---- mpi_steps.c */
/* Choose the way, fill in op, get memory. 0 or -ENOMEM: nothing has begun. */
int rg_mpi_op_begin(struct rg_mpi *mpi, const struct rg_coll *coll);
/* What this member sends to and receives from another one in a round. */
struct rg_mpi_part rg_mpi_round_send(struct rg_mpi *mpi, size_t round, int to);
struct rg_mpi_part rg_mpi_round_recv(struct rg_mpi *mpi, size_t round, int from);
/* All parts of the round have come. */
void rg_mpi_round_reduce(struct rg_mpi *mpi, size_t round);
/* Fill in counts and displs (bytes) of the hand-over; returns where the chunk lies. */
char *rg_mpi_round_chunk(struct rg_mpi *mpi, size_t round);
/* All operands have come. */
void rg_mpi_gather_reduce(struct rg_mpi *mpi);
/* After the last byte: what no call of MPI brings. */
void rg_mpi_op_end(struct rg_mpi *mpi);
/* Whether results are handed on. */
static inline bool rg_mpi_hands_on(const struct rg_mpi_op *op)
{
    return op->coll.kind == RG_COLL_ALLREDUCE || op->coll.kind == RG_COLL_REDUCE;
}

/* ---- mpi_world.c */
/* Of the vtable. */
int rg_mpi_world_asked(struct rg_error *err);
/* Initialises MPI, where it is there but not initialised, if its launcher has started this process
 * or the user insists. Blocks until all ranks of MPI have come, and with them rank 0, who may be
 * the one that serves fences. */
void rg_mpi_world_prepare(bool insisted);
int rg_mpi_world_offer(const struct rg_config *config, int rank, int size, bool allowed,
                       struct rg_buf *offer, struct rg_error *err);
int rg_mpi_world_agree(const struct rg_plane_options *options, struct rg_error *err);
/* "mpi: openmpi, MPI_THREAD_MULTIPLE" where this process has an MPI that is initialised. */
void rg_mpi_world_describe(struct rg_buf *text);
unsigned rg_mpi_world_mpi(bool opened);

/* A communicator of the group's members, called by all of them and blocking until they have come;
 * tag: of groups that are made at once. 0, -EBADMSG, -ENOMEM, -EIO. */
int rg_mpi_world_comm(const struct rg_plane_options *options, int tag,
                      const struct rg_mpi_shim_ops **ret_ops, struct rg_mpi_comm *ret_comm,
                      struct rg_error *err);

/* An operation was given up, and MPI may still be at it: teams that are made later in this process
 * keep out of MPI. */
void rg_mpi_world_spoil(void);

#endif
