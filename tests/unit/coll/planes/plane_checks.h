/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What any plane between hosts must do, whatever it moves data with: every kind of operation over
 * sizes around its boundaries against a reference, in place and not, scaled, with members that have
 * joined or drop their result. Each function is run as a place (sockets.h), by the plane that the
 * test program brings in plane_bundle.
 */
#ifndef TEST_COLL_PLANE_CHECKS_H
#define TEST_COLL_PLANE_CHECKS_H

#include "coll/ground/types.h"
#include "coll/sockets.h"

struct plane_bundle {
    void *(*open)(struct place *place);
    /* Post it and bring it to its end: 0 or -errno, which is reported. */
    int (*run)(struct place *place, void *state, const struct rg_coll *coll);
    void (*close)(void *state);
};

extern const struct plane_bundle plane_bundle; /* the test program's */

int plane_check_allreduce(struct place *place);
int plane_check_scaled(struct place *place);
int plane_check_rooted(struct place *place);  /* broadcast, reduce */
int plane_check_counted(struct place *place); /* allgather, reducescatter, alltoall */

/* Sums that depend on the order of addition, of 5 floats (*arg is a size_t 0) or 70000 (1), into
 * this rank's row. */
enum { PLANE_BITS_NBYTES = 70000 * 4 };
extern uint8_t plane_bits[SOCKETS_MAX][PLANE_BITS_NBYTES];
int plane_check_bits(struct place *place);

#endif
