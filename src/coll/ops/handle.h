/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: numbers that users hold, each for one tensor of one operation. A number is a place in
 * a table and a serial that grows with each use of any place, so that no number is given out
 * twice.
 *
 * One table serves all progress engines of a process, as a handle does not say which process set it
 * is of.
 *
 * Thread rule: all calls under the table's lock; nothing blocks.
 */
#ifndef RG_COLL_OPS_HANDLE_H
#define RG_COLL_OPS_HANDLE_H

#include <pthread.h>
#include <stdint.h>

#include "reigen/reigen.h"

#define RG_HANDLES_MAX (1u << 20) /* alive at once */

struct rg_op;

struct rg_handle {
    reigen_handle number; /* 0: free */
    struct rg_op *op;
    int tensor;
    uint32_t next;        /* free list: index + 1 */
};

struct rg_handles {
    struct rg_handle *table;
    uint32_t capacity;
    uint32_t free; /* index + 1 */
    pthread_mutex_t lock; /* the callers' */
};

void rg_handles_init(struct rg_handles *ret_handles);
/* A new handle, which holds a reference to op from the caller. 0 or -ENOMEM. */
int rg_handles_add(struct rg_handles *handles, struct rg_op *op, int tensor,
                   reigen_handle *ret_number);
/* NULL when unknown; valid until the next add. */
struct rg_handle *rg_handles_find(struct rg_handles *handles, reigen_handle number);
void rg_handles_remove(struct rg_handles *handles, struct rg_handle *handle);
/* Drops the references of the handles that are left. */
void rg_handles_fini(struct rg_handles *handles);

#endif
