/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A data plane: moves and reduces tensors among the members of one group. The second of the
 * project's two vtables.
 *
 * All members of a group post the same operations in the same order; a plane carries out one
 * operation at a time per group, and may rely on that order to match bytes without tags. Nothing
 * blocks: progress does what can be done now. Every progress call that published something for a
 * sleeping member rings its bell.
 *
 * To add one: one file in coll/planes/, one line in rg_planes (planes.c), one test file, a section
 * in docs/planes.md. No plug-in ABI is published.
 *
 * Thread rule: all calls under the progress engine's drive lock, one thread at a time.
 */
#ifndef RG_COLL_PLANES_PLANE_H
#define RG_COLL_PLANES_PLANE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "coll/team/team.h"
#include "coll/ground/types.h"

/* Members of a group: their ranks in the job; the index in here is the member's number. */
struct rg_group {
    const int *ranks; /* borrowed for the plane's life; NULL: 0, 1, ... */
    int nmembers;
    int me;           /* member number of this rank */
};

struct rg_plane_options {
    struct rg_team *team;
    struct rg_group group;
    const struct rg_config *config;
    void *region;     /* region_nbytes(nmembers) shared by all members, zeroed at birth; or NULL */
};

struct rg_plane_ops {
    const char *name; /* "shm" */
    /* Bytes of shared memory wanted for a group of this size; 0: none. */
    size_t (*region_nbytes)(int nmembers);
    /* Connections may be made lazily later. May wait for the other members, which do the same, if
     * it must. 0 or -errno; -ENOTSUP: not among these members, on all of them alike. */
    int (*open)(const struct rg_plane_options *options, void **ret_state, struct rg_error *err);
    /* How well this plane does an operation of nbytes over this group: higher is better, negative
     * cannot. Must be the same on all members: depends on the arguments only. */
    int (*score)(void *state, enum rg_coll_kind kind, int dtype, size_t nbytes);
    /* Begin; coll is copied, its buffers and counts are borrowed until done. 0 or -errno. One at a
     * time. */
    int (*post)(void *state, const struct rg_coll *coll);
    /* Begin n allreduces of one dtype, op and scale as one; the array is copied. NULL: this plane
     * cannot, the caller gathers them or posts them one by one. */
    int (*post_fused)(void *state, const struct rg_coll *colls, int n);
    /* 1 done (buffers are free), 0 not yet, -errno failed (-ECONNRESET: a member is gone).
     * *ret_moved: whether anything was done, so that the caller knows when to stop spinning. */
    int (*progress)(void *state, bool *ret_moved, struct rg_error *err);
    /* Descriptors to wait for, to be added to the driver's epoll; returns their number, at most
     * max. events: EPOLLIN and EPOLLOUT as wanted now. */
    int (*wait_fds)(void *state, int *ret_fds, unsigned *ret_events, int max);
    /* Of a plane of which no descriptor tells: how long the driver, which is about to sleep, may
     * do so before it looks again, in microseconds; 0: as long as it likes. NULL: the same. */
    unsigned (*poll_us)(void *state);
    /* Give up the operation in progress; the plane is dead afterwards. */
    void (*abort)(void *state);
    /* Sends what is still to be sent (at most timeout_ms), closes, frees. */
    void (*close)(void *state, int timeout_ms);
    void (*after_fork)(void *state); /* close descriptors; async-signal-safe */
};

extern const struct rg_plane_ops rg_plane_shm;
extern const struct rg_plane_ops rg_plane_tcp;
extern const struct rg_plane_ops rg_plane_mpi;

#endif
