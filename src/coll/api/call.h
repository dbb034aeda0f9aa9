/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The making of operations from a public function's arguments, for the API and for what the runtime
 * itself says to all ranks (rounds.c).
 *
 * Thread rule: any thread that is inside the progress engine. Nothing blocks for long.
 */
#ifndef RG_COLL_API_CALL_H
#define RG_COLL_API_CALL_H

#include "coll/progress/progress.h"

/* The arguments of one call. */
struct rg_call {
    int kind, n;
    const char *const *names; /* n, or NULL */
    const void *const *ins;
    void *const *outs;
    int dtype;
    const int64_t *const *shapes;
    const int *ndims;
    const int32_t *splits;
    int nsplits;
    const struct reigen_options *options;
    int memory;   /* enum rg_memory, of all ins and outs */
    void *stream; /* as in struct rg_coll, and the next */
    int device;
    struct rg_gpu_mark *ready; /* of a device's memory: where the caller's stream is; borrowed */
    struct rg_set *set; /* whose progress engine it is for; NULL: of all ranks */
    bool waits; /* the caller will wait at once */
    uint64_t waited; /* waits of this rank that have ended: whose name is from before them may be
                        followed under it. 0: nobody */
};

/* Check the arguments and make an operation of them; the caller holds its one reference. 0 or
 * -errno with err. */
int rg_call_make(struct rg_progress *progress, const struct rg_call *call, struct rg_op **ret_op,
                 struct rg_error *err);
/* "allreduce.grad" or, for groups, with the number of members and a digest of their names. */
int rg_call_key(struct rg_progress *progress, const struct rg_call *call,
                char ret_key[RG_KEY_MAX], struct rg_error *err);
/* The record of the call and, for a group, those of its members' names. */
int rg_call_record(struct rg_progress *progress, const struct rg_call *call, const char *key,
                   struct rg_record **ret_record);
/* Make, claim and submit, or put in line. handles: NULL (then *ret_op has a reference for the
 * caller) or room for n. */
int rg_call_submit(struct rg_progress *progress, const struct rg_call *call, reigen_handle *handles,
                   struct rg_op **ret_op, struct rg_error *err);
/* As reigen_deterministic. */
int rg_call_deterministic(int on);
/* Of a persistent operation that is not in flight: have its signature say what this process asks
 * for now. */
void rg_call_renew(struct rg_progress *progress, struct rg_op *op);
/* Why an operation has failed. */
static inline const char *rg_call_cause(const struct rg_op *op)
{
    return op->text ? op->text : "out of memory";
}

#endif
