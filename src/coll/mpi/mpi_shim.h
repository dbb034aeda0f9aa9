/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's own MPI, behind one table of functions. Which MPI a process has is known only when it
 * runs, and there are three ABIs: Open MPI's; that of MPICH and Intel MPI; and the standard one of
 * MPI 5, which newer ones have beside their own, as libmpi_abi.so. They differ in their handles
 * and constants. So one source (coll/mpi/shim.c) is compiled once per ABI, into
 * libreigen_mpi_ompi.so, libreigen_mpi_mpich.so and libreigen_mpi_abi.so, which lie beside
 * libreigen.so. The one that fits is loaded when it is needed; no MPI is needed to build them, and
 * they link with none: they look functions up in the MPI that the process has already.
 *
 * Reigen never brings an MPI into a process by itself: it uses the one that the program, mpi4py or
 * LD_PRELOAD has loaded. The one exception is REIGEN_MPI=<library>, which names one to be loaded.
 *
 * Bytes only. Types and reductions are Reigen's business (reduce/reduce.h), so that results are the
 * same bits on all ranks whatever algorithm the MPI takes, and all types are there.
 *
 * Results: 0, or MPI's error code (> 0) or RG_MPI_CLOSED, which `describe` puts into words; MPI is
 * told to return errors rather than to end the program on all communicators made here. *ret_x is
 * untouched on failure.
 *
 * Thread rule: any thread, any time between start and MPI_Finalize. Where MPI was initialised with
 * less than MPI_THREAD_MULTIPLE, calls are made one at a time under a lock of the shim's; the
 * program must then keep out of MPI while Reigen is at work (level SERIALIZED), or Reigen keeps out
 * of it after initialisation (levels FUNNELED and SINGLE: see rg_mpi_usable). When the program
 * calls MPI_Finalize, it waits until all of Reigen's threads have come out of MPI, and none goes in
 * again. MPICH before 4.2 and Intel MPI do not wait: with these a program shuts Reigen down before.
 * Functions block only where it is said.
 */
#ifndef RG_COLL_MPI_MPI_SHIM_H
#define RG_COLL_MPI_MPI_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "coll/ground/blob.h"

#define RG_MPI_SHIM_VERSION 2        /* of this table; libreigen.so takes no other */
#define RG_MPI_SHIM_SYMBOL "reigen_mpi_shim" /* const struct rg_mpi_shim_ops, in each shim */
#define RG_MPI_VERSION_MAX 8192      /* MPICH's limit on its own description */
#define RG_MPI_ERROR_MAX 1024        /* for describe */
#define RG_MPI_RANKS_MAX (1 << 24)   /* of a communicator */
#define RG_MPI_TAG_MAX 32767         /* every MPI allows tags up to here */

/* MPI_Finalize has begun: nothing is done any more. */
#define RG_MPI_CLOSED (-1)

/* MPI_THREAD_SINGLE to MPI_THREAD_MULTIPLE, whatever numbers an ABI has for them. */
enum { RG_MPI_SINGLE, RG_MPI_FUNNELED, RG_MPI_SERIALIZED, RG_MPI_MULTIPLE };

/* A handle of any ABI: an int or a pointer. */
struct rg_mpi_comm {
    uintptr_t handle;
    int rank, size; /* of this process in it */
};

struct rg_mpi_request {
    uintptr_t handle;
};

struct rg_mpi_shim_ops {
    unsigned version; /* RG_MPI_SHIM_VERSION */
    const char *abi;  /* "openmpi", "mpich", "standard" */

    /* Look everything up in a library (dlopen's handle, or RTLD_DEFAULT). 0, or -1 and the name of
     * what it lacks, which is static. Once, before anything else. */
    int (*bind)(void *library, const char **ret_missing);

    /* ---- life of MPI; allowed before MPI_Init too, except as noted */
    bool (*initialized)(void);
    bool (*finalized)(void);
    /* MPI_Init_thread, asking for MULTIPLE; collective over the world, blocks. Whoever calls this
     * owns the end: the process calls MPI_Finalize when it exits with status 0 and nobody has done
     * so; after a failure it does not, as that would wait for ranks which are gone. */
    int (*init)(int *ret_level);
    int (*level)(int *ret_level);    /* RG_MPI_SINGLE ...; initialised only */
    /* Ends with a NUL within nbytes. */
    void (*describe)(int code, char *text, size_t nbytes);

    /* ---- communicators. Making one blocks until all its members have come. */
    int (*world)(struct rg_mpi_comm *ret_comm); /* MPI_COMM_WORLD itself: never freed */
    int (*dup)(const struct rg_mpi_comm *comm, struct rg_mpi_comm *ret_comm);
    /* Of n ranks of comm, in this order; called by these alone. tag: 0 to RG_MPI_TAG_MAX, tells
     * apart what is made at one time. */
    int (*subset)(const struct rg_mpi_comm *comm, const int *ranks, int n, int tag,
                  struct rg_mpi_comm *ret_comm);
    /* The members of comm that share memory with this one, by rank (MPI_Comm_split_type). Called by
     * all of comm. */
    int (*local)(const struct rg_mpi_comm *comm, struct rg_mpi_comm *ret_comm);
    void (*free)(struct rg_mpi_comm *comm);

    /* ---- moving bytes; all return at once. Buffers, counts and displs (bytes) are borrowed until
     * the request is done. Collectives are called by all members in the same order. */
    int (*isend)(const struct rg_mpi_comm *comm, const void *from, int nbytes, int to, int tag,
                 struct rg_mpi_request *ret_request);
    int (*irecv)(const struct rg_mpi_comm *comm, void *to, int nbytes, int from, int tag,
                 struct rg_mpi_request *ret_request);
    int (*ibcast)(const struct rg_mpi_comm *comm, void *data, int nbytes, int root,
                  struct rg_mpi_request *ret_request);
    /* nbytes of each member. */
    int (*iallgather)(const struct rg_mpi_comm *comm, const void *from, void *to, int nbytes,
                      struct rg_mpi_request *ret_request);
    /* from == NULL: this member's part is in its place in `to`. */
    int (*iallgatherv)(const struct rg_mpi_comm *comm, const void *from, void *to,
                       const int *counts, const int *displs, struct rg_mpi_request *ret_request);

    /* Let MPI do what it has put off: a request may be done while its last bytes still wait to be
     * sent, by whichever call comes next. */
    void (*nudge)(const struct rg_mpi_comm *comm);
    /* *ret_done: it is over, its buffers are free and the request is void. An error voids it
     * too. */
    int (*test)(struct rg_mpi_request *request, bool *ret_done);
    /* Of an irecv or isend: give it up, then test until it is done. Collectives cannot be. */
    int (*cancel)(struct rg_mpi_request *request);
};

/* ---- in libreigen.so (coll/mpi/mpi_shim.c) */

/* Whether this process has an MPI library, or REIGEN_MPI names one. Loads nothing. */
bool rg_mpi_present(void);

/* The shim of the MPI that this process has, bound to it; the same one at every call. Of several
 * MPIs (Debian's libtorch brings one) the one that is initialised, else the one that the launcher
 * fits. 0; -ENOENT:
 * there is no MPI; -ENOTSUP: it has none of the ABIs (or a draft of the standard one), is too old,
 * or the shim is not installed. Does not initialise MPI. */
int rg_mpi_shim_load(const struct rg_mpi_shim_ops **ret_ops, struct rg_error *err);

/* Whether MPI can be called from Reigen's threads now: it is initialised, not finalised, and its
 * level is MULTIPLE or SERIALIZED. 0, or -EPERM with the reason. */
int rg_mpi_usable(const struct rg_mpi_shim_ops *ops, struct rg_error *err);

/* Whether the MPI of rg_mpi_shim_load is an Open MPI, of its own ABI or the standard one: that says
 * which launchers it understands. False before. */
bool rg_mpi_is_openmpi(void);

/* Whether a launcher that this MPI understands (mpirun, mpiexec, srun with PMI) has started this
 * process, by the variables that they set. Without one MPI_Init makes a world of this process
 * alone. */
bool rg_mpi_launched(void);

/* "rank 3: MPI_Ibcast: ..." from an MPI error code. -EIO. */
int rg_mpi_error(const struct rg_mpi_shim_ops *ops, int code, const char *what,
                 struct rg_error *err);

/* A boot's fence (boot.h) over a communicator, called by all its members: blobs of up to 64 MiB in
 * all. Blocks until deadline_ns; after -ETIMEDOUT the communicator must not be used again, and the
 * memory of the fence is left to MPI. 0, -EIO, -ETIMEDOUT, -EMSGSIZE, -ENOMEM. */
int rg_mpi_fence(const struct rg_mpi_shim_ops *ops, const struct rg_mpi_comm *comm,
                 const void *blob, size_t nbytes, uint64_t deadline_ns, struct rg_blob *ret_blobs,
                 struct rg_error *err);

#endif
