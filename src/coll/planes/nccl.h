/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nccl plane: tensors in the memory of GPUs, by NVIDIA's NCCL.
 *
 * Nothing happens before the first operation on a device: no library is looked for. Then exec
 * carries what each member says of itself (struct rg_nccl_word) to all others over the planes of
 * the host, with the unique id of member 0 among it, and all judge alike whether NCCL can be used.
 * A communicator is made for each group, nonblocking:
 *
 *      UNWIRED ---> STARTING ---> READY <---> (an operation) LAUNCHING
 *                       |           |               |
 *                       +-----------+---------------+---> DEAD   a rank died, or NCCL failed:
 *                                                               ncclCommAbort frees the streams
 *
 * An operation is one group of NCCL's calls on the stream that it is given, and done as soon as
 * NCCL has launched it: "in order on the stream" (plane.h). While work that was launched has not
 * been seen to end, `watch` looks for errors that NCCL has come upon meanwhile.
 *
 * What NCCL has no word for is refused by score: reductions of 16-bit integers, averages and
 * factors of integers, factors of anything but a sum.
 *
 * Thread rule: a plane's. No call waits for other ranks or for a stream, but ncclCommAbort and the
 * end, which wait for kernels to end.
 */
#ifndef RG_COLL_PLANES_NCCL_H
#define RG_COLL_PLANES_NCCL_H

#include "coll/gpu/gpu.h"
#include "coll/gpu/nccl.h"
#include "coll/planes/plane.h"

/* What a member says of itself before there is a communicator. */
struct rg_nccl_word {
    int32_t status;        /* 0, or the -errno for which it cannot */
    int32_t version;       /* of NCCL */
    int32_t device;
    uint8_t uuid[16];      /* of the GPU, or of the part of it */
    struct rg_nccl_id id;  /* of member 0 */
    char why[256];         /* of the status */
};

enum rg_nccl_phase {
    RG_NCCL_UNWIRED, RG_NCCL_STARTING, RG_NCCL_READY, RG_NCCL_LAUNCHING, RG_NCCL_DEAD
};

struct rg_nccl_plane {
    const struct rg_nccl *nccl; /* NULL until it is wired */
    const struct rg_team *team;
    struct rg_group group;
    int n, me;
    int device;                 /* -1 until it is wired */
    struct rg_nccl_comm *comm;  /* NULL: there is none */
    enum rg_nccl_phase phase;

    struct rg_coll *colls;      /* of the operation in progress */
    int ncolls, capacity;
    bool active;
    int premul;                 /* an operation of NCCL's, to be destroyed; -1: none */
    void *stream;               /* our own, for who has joined and has none; NULL: none yet */
    char *scratch;              /* zeros that are supplied, results that are dropped */
    size_t scratch_nbytes;

    struct rg_gpu_mark *last;   /* the end of what was launched last; NULL: it has been seen */
    uint64_t watched_ns;
    struct rg_error cause;      /* why it is dead */
};

/* ---- wiring (nccl_wire.c) */

/* As a plane's late offer: this member's word (NCCL's version, the GPU, and of member 0 the id). */
void rg_nccl_offer(void *state, const struct rg_coll *first, void *ret_word);
/* Whether these members go together. 0; -ENOTSUP with err, on all of them the same. */
int rg_nccl_judge(const struct rg_nccl_plane *plane, const struct rg_nccl_word *words,
                  struct rg_error *err);

/* ---- what is called for an operation (nccl_steps.c) */

/* Whether NCCL can do it at all, by types. */
bool rg_nccl_takes(const struct rg_plane_task *task);
/* Call NCCL for all colls, as one group. 0, also when it is in progress, or -errno with err. The
 * device's context is current. */
int rg_nccl_launch(struct rg_nccl_plane *plane, struct rg_error *err);

#endif
