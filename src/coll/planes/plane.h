/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A data plane: moves and reduces tensors among the members of one group. The second of the
 * project's two vtables. docs/planes.md tells step by step how to add one: one file in
 * coll/planes/, one line in planes.c, its line in meson.build, its test. No plug-in ABI is
 * published.
 *
 * All members of a group post the same operations in the same order; a plane carries out one
 * operation at a time per group, and may rely on that order to match bytes without tags.
 *
 * When an operation is *done* depends on the memory that its buffers are in, and on its stream:
 *
 *      host memory            The results are in `out`, and both buffers are the caller's again.
 *      device, no stream      The same for who reads the device memory by whatever way.
 *      device, on a stream    "In order on the stream": everything that this member has to do is
 *                             queued there. Work that is put on the stream from then on sees the
 *                             results and may overwrite `in`; the host has to synchronize with the
 *                             stream before it may look, and both buffers stay until then. In the
 *                             same way `post` must not read the buffers before what was on the
 *                             stream when it was called. Nobody waits for the stream in here.
 *
 * An operation that fails after it was done so has to fail `watch`, or the next progress call.
 *
 * A plane need not notice that a rank is dead: the progress engine does, and calls `abort` on all
 * others. So `progress` must never wait for anybody. A killed rank calls nothing any more: what the
 * plane has put into a file system must have lost its name by the end of `open`.
 *
 * Thread rule: `asked` to `agree` are called by the thread in reigen_init (or in the call that adds
 * a process set), the rest under the progress engine's drive lock, one thread at a time. Functions
 * block only where it is said. A NULL function, or small interface, is one that the plane does not
 * need; the first group of fields, open, score, post, progress, abort and close are always there.
 */
#ifndef RG_COLL_PLANES_PLANE_H
#define RG_COLL_PLANES_PLANE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "coll/ground/types.h"

struct rg_blob;
struct rg_buf;
struct rg_config;
struct rg_team;

/* The groups that exec.c composes operations of. */
enum rg_plane_scope {
    RG_SCOPE_NODE,    /* the ranks of one node, by node rank */
    RG_SCOPE_LEADERS, /* one rank of each node, by node; where there are several nodes */
    RG_SCOPE_ALL,     /* all ranks, where there are several nodes */
    RG_NSCOPES
};

/* Members of a group: their ranks in the job; the index in here is the member's number. */
struct rg_group {
    const int *ranks; /* borrowed for the plane's life; NULL: 0, 1, ... */
    int nmembers;
    int me;           /* member number of this rank */
    enum rg_plane_scope scope;
};

/* The member's rank in the job. */
static inline int rg_group_rank(const struct rg_group *group, int member)
{
    return group->ranks ? group->ranks[member] : member;
}

struct rg_plane_options {
    struct rg_team *team;            /* sockets, bells, names of hosts: coll/team/team.h */
    const struct rg_config *config;
    struct rg_group group;
    const struct rg_blob *offers;    /* what each rank of the job offered, by rank */
    void *region;     /* region_nbytes(nmembers) shared by the ranks of a node, zeroed at birth;
                       * NULL in other groups and where none was wanted */
};

/* What a plane is to say its score for. Equal on all members. */
struct rg_plane_task {
    enum rg_coll_kind kind;
    uint8_t dtype, op, memory; /* enum reigen_dtype, reigen_op, rg_memory */
    size_t nbytes;             /* of the whole tensor; allgather, alltoall, reducescatter: of all
                                * members' parts together */
    const struct rg_group *group;
    const struct rg_scale *scale; /* of a reduction; NULL: none */
};

/* Whether a plane that is not used by default is to be. */
enum rg_plane_asked {
    RG_PLANE_NOT_ASKED,
    RG_PLANE_HINTED, /* by something that is meant for others too: no word if it cannot be */
    RG_PLANE_ASKED,
};

/* Of a plane that may not be needed at all, and is wired up with its first operation. */
struct rg_plane_late_ops {
    /* Before that each member gives so many bytes, and exec gathers those of all over the planes
     * for host memory of the same group. Until then the plane is not shown to people as open. */
    size_t nbytes;
    /* Fill in this member's bytes; first: the operation for which it is needed. What goes wrong is
     * said in the bytes. */
    void (*offer)(void *state, const struct rg_coll *first, void *ret_bytes);
    /* All members' bytes, by member. 0; -ENOTSUP with err: not among these members, on all of them
     * alike, and the plane is not asked again; other -errno: the operation fails. */
    int (*wire)(void *state, const void *all, struct rg_error *err);
};

/* Of a plane that knows how quick the way between nodes is. */
struct rg_plane_advice_ops {
    /* Among leaders: how an allreduce of so many bytes that comes again goes best without agreeing
     * on each use, over sockets of TCP: enum rg_direct_way; NOT: by this plane, agreed.
     * round_trip_ns: of leaders, 0: not known. One member decides for all. */
    uint8_t (*direct_way)(void *state, size_t nbytes, uint64_t round_trip_ns);
};

/* Of a plane that moves data by a library of the user's, which others in this process may use, too:
 * what there is of it. Without a state. */
struct rg_plane_library_ops {
    /* Lines for reigen_describe, appended. */
    void (*describe)(struct rg_buf *text);
    /* What reigen_mpi is to say, a sum of REIGEN_MPI_*; opened: the plane is, for some group. */
    unsigned (*mpi)(bool opened);
};

struct rg_plane_ops {
    const char *name;    /* "shm": in REIGEN_PLANES, in texts and (in capitals) in timelines */
    unsigned scopes;     /* bits 1 << RG_SCOPE_*: the groups that it serves */
    unsigned memories;   /* bits 1 << RG_MEMORY_*: it is never given buffers in other memory */
    bool takes_streams;  /* whether it takes operations that are on a stream */

    /* ---- before the ranks know each other */
    /* Of a plane that is not used by default: enum rg_plane_asked, by variables of its own, or
     * -EINVAL with err. REIGEN_PLANES, where it is set, decides without this. NULL: it is used by
     * default. */
    int (*asked)(struct rg_error *err);
    /* The plane may be used in this process; insisted: RG_PLANE_ASKED, or named in REIGEN_PLANES.
     * Before any other exchange among the ranks. May block. */
    void (*prepare)(bool insisted);
    /* The one exchange out of band: append what the others must know of this rank, at most
     * RG_OFFER_MAX bytes. Called on all ranks, also where the plane may not be used (allowed). 0 or
     * -errno with err, which all ranks' init fails with. */
    int (*offer)(const struct rg_config *config, int rank, int size, bool allowed,
                 struct rg_buf *offer, struct rg_error *err);

    /* ---- wiring up */
    /* Bytes of shared memory wanted for a node of this size. */
    size_t (*region_nbytes)(int nmembers);
    /* Whether these ranks (options->group: all of the job) can use the plane, by their offers and
     * nothing else, so that all come to the same: 0, or -ENOTSUP; err then has why if one of them
     * wanted it, else stays empty. Before any open. Other -errno fail the init. */
    int (*agree)(const struct rg_plane_options *options, struct rg_error *err);
    /* Make the state for one group. Connections may be made lazily later. May wait for the other
     * members, which do the same, if it must. 0 or -errno; -ENOTSUP: not among these members, on
     * all of them alike. */
    int (*open)(const struct rg_plane_options *options, void **ret_state, struct rg_error *err);
    /* How well this plane does such an operation: the highest serves it, of equal ones the first in
     * the table; negative: it cannot. Must be the same on all members: depends on the arguments, on
     * what all know, and on nothing else. Fast. */
    int (*score)(const void *state, const struct rg_plane_task *task);

    /* ---- operations */
    /* Begin; coll is copied, its buffers and counts are borrowed until done. One at a time. Does
     * not wait for others. 0 or -errno. */
    int (*post)(void *state, const struct rg_coll *coll);
    /* Begin n allreduces of one dtype, op, scale, memory and stream as one; the array is copied.
     * Among leaders other members may post the same elements as one allreduce, or cut otherwise:
     * all that they have in common is the sum of the counts. NULL: they are gathered by the caller
     * or posted one by one. */
    int (*post_fused)(void *state, const struct rg_coll *colls, int n);
    /* Do what can be done now, and never wait. 1 done (see above), 0 not yet, -errno failed
     * (-ECONNRESET: a member is gone). *ret_moved: whether anything was done, so that the caller
     * knows when to stop spinning. A call that published something for a sleeping member of this
     * node rings its bell. */
    int (*progress)(void *state, bool *ret_moved, struct rg_error *err);
    /* Called now and then while no operation is in progress: whether what was done on a stream goes
     * well. 0, or -errno with err, which ends the job as progress's does. Never waits. */
    int (*watch)(void *state, struct rg_error *err);
    /* Descriptors to wait for while an operation is in progress; returns their number, at most max.
     * events: EPOLLIN and EPOLLOUT as wanted now. Where there is one node the driver sleeps on its
     * bell alone and does not look at them. */
    int (*wait_fds)(void *state, int *ret_fds, unsigned *ret_events, int max);
    /* Of a plane for which neither a descriptor nor a bell tells: how long the driver, which is
     * about to sleep, may do so before it looks again, in microseconds; 0: as long as it likes.
     * NULL: the same. */
    unsigned (*poll_us)(void *state);

    /* ---- the end */
    /* A rank is dead. Give up the operation in progress; the plane is dead afterwards: post and
     * progress return -ECONNRESET. */
    void (*abort)(void *state);
    /* Sends what is still to be sent (at most timeout_ms), closes, frees. */
    void (*close)(void *state, int timeout_ms);
    void (*after_fork)(void *state); /* in a child: close descriptors; async-signal-safe */

    /* For people: lines about how it works in this group, appended to the score table. NULL: none.
     * Any thread, at any time between open and close. */
    void (*print)(void *state, struct rg_buf *text);

    /* ---- what some planes have besides, or NULL */
    const struct rg_plane_late_ops *late; /* NULL: it is wired up in open */
    const struct rg_plane_advice_ops *advice; /* NULL: RG_DIRECT_NOT */
    const struct rg_plane_library_ops *library;
};

#define RG_OFFER_MAX 4096 /* bytes that one plane of one rank may offer */

#endif
