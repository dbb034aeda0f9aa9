/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An epoch as its hosts and ranks are told of it: for each place its number among all ranks, among
 * those of its host, and across hosts.
 *
 * Thread rule: one thread.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_EPOCH_H
#define RG_LAUNCH_SESSION_ELASTIC_EPOCH_H

#include "base/buf.h"
#include "launch/membership/membership.h"
#include "launch/plan/plan.h"

struct rg_epoch_seats {
    int *rank_of;               /* by place; -1: it is no rank, or has come since */
    struct rg_plan_seat *seats; /* by rank */
    int nseats;
    int first_host;             /* of rank 0 */
};

/* Room for so many places. 0 or -ENOMEM; fini in either case. */
int rg_epoch_seats_init(struct rg_epoch_seats *seats, int room);
void rg_epoch_seats_fini(struct rg_epoch_seats *seats);

/* A new epoch. rank_of stays where it is. 0 or -ENOMEM. Time: hosts and places of the plan. */
int rg_epoch_seats_take(struct rg_epoch_seats *seats, const struct rg_membership_epoch *epoch,
                        const struct rg_plan *plan);
/* The seats of a host's places, as EPOCH has them; appended. */
void rg_epoch_seats_of(const struct rg_epoch_seats *seats, const struct rg_plan *plan, int host,
                       struct rg_buf *text);
/* What a place that is started now finds in its environment: its seat in this epoch, or the one
 * that it is expected to get in the next. */
struct rg_plan_seat rg_epoch_seat(const struct rg_epoch_seats *seats,
                                  const struct rg_membership *membership,
                                  const struct rg_plan *plan, int place);

#endif
