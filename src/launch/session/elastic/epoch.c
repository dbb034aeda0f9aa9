/* SPDX-License-Identifier: Apache-2.0 */
/* All numbers of an epoch are found in one pass over its ranks and one over their hosts. */
#include "launch/session/elastic/epoch.h"

#include <stdlib.h>

int rg_epoch_seats_init(struct rg_epoch_seats *seats, int room)
{
    seats->rank_of = malloc((size_t) room * sizeof(*seats->rank_of));
    for (int place = 0; seats->rank_of && place < room; place++)
        seats->rank_of[place] = -1;
    return seats->rank_of ? 0 : -ENOMEM;
}

void rg_epoch_seats_fini(struct rg_epoch_seats *seats)
{
    free(seats->rank_of);
    free(seats->seats);
}

/* Local ranks, and groups in the order in which hosts have their first rank. members: by group, how
 * many; group_of: by host, 1 + its group. Returns how many groups there are. */
static int number_hosts(struct rg_epoch_seats *seats, const struct rg_membership_epoch *epoch,
                        const struct rg_plan *plan, int *group_of, int *members)
{
    int ngroups = 0;

    for (int rank = 0; rank < epoch->size; rank++) {
        int place = epoch->places[rank], host = plan->ranks[place].host;
        if (!group_of[host])
            group_of[host] = ++ngroups;
        int group = group_of[host] - 1;
        seats->rank_of[place] = rank;
        seats->seats[rank] = (struct rg_plan_seat){
            .rank = rank, .size = epoch->size, .local_rank = members[group]++, .group = group,
            .epoch = epoch->number,
        };
    }
    return ngroups;
}

/* cross: by group and local rank, the number among the hosts that have such a local rank; counts:
 * by local rank, how many have. */
static void number_across(const int *members, int ngroups, int *counts, int *cross)
{
    int at = 0;

    for (int group = 0; group < ngroups; group++) {
        for (int local = 0; local < members[group]; local++)
            cross[at++] = counts[local]++;
    }
}

int rg_epoch_seats_take(struct rg_epoch_seats *seats, const struct rg_membership_epoch *epoch,
                        const struct rg_plan *plan)
{
    size_t n = (size_t) epoch->size + 1;
    rg_autofree int *group_of = calloc((size_t) plan->nhosts + 1, sizeof(*group_of));
    rg_autofree int *members = calloc(n, sizeof(*members));
    rg_autofree int *starts = calloc(n, sizeof(*starts));
    rg_autofree int *counts = calloc(n, sizeof(*counts));
    rg_autofree int *cross = calloc(n, sizeof(*cross));
    struct rg_plan_seat *mine = calloc(n, sizeof(*mine));

    if (!group_of || !members || !starts || !counts || !cross || !mine) {
        free(mine);
        return -ENOMEM;
    }
    free(seats->seats);
    seats->seats = mine;
    seats->nseats = epoch->size;
    for (int place = 0; place < plan->nranks; place++)
        seats->rank_of[place] = -1;
    int ngroups = number_hosts(seats, epoch, plan, group_of, members);

    for (int group = 1; group < ngroups; group++)
        starts[group] = starts[group - 1] + members[group - 1];
    number_across(members, ngroups, counts, cross);
    for (int rank = 0; rank < epoch->size; rank++) {
        struct rg_plan_seat *seat = &mine[rank];
        seat->local_size = members[seat->group];
        seat->cross_rank = cross[starts[seat->group] + seat->local_rank];
        seat->cross_size = counts[seat->local_rank];
    }
    seats->first_host = epoch->size ? plan->ranks[epoch->places[0]].host : 0;
    return 0;
}

void rg_epoch_seats_of(const struct rg_epoch_seats *seats, const struct rg_plan *plan, int host,
                       struct rg_buf *text)
{
    const struct rg_plan_host *planned = &plan->hosts[host];

    for (int i = 0; i < planned->nranks; i++) {
        int place = planned->first_rank_index + i, rank = seats->rank_of[place];
        if (rank < 0)
            continue;
        const struct rg_plan_seat *seat = &seats->seats[rank];
        const int numbers[] = { place, rank, seat->local_rank, seat->local_size, seat->cross_rank,
                                seat->cross_size };
        for (size_t k = 0; k < rg_array_len(numbers); k++)
            rg_buf_put_u32(text, (uint32_t) numbers[k]);
    }
}

struct rg_plan_seat rg_epoch_seat(const struct rg_epoch_seats *seats,
                                  const struct rg_membership *membership,
                                  const struct rg_plan *plan, int place)
{
    struct rg_membership_seat expected = rg_membership_seat(membership, place);
    struct rg_membership_epoch epoch = rg_membership_epoch(membership);
    struct rg_plan_seat seat;

    if (expected.epoch == epoch.number && seats->rank_of[place] >= 0)
        seat = seats->seats[seats->rank_of[place]];
    else
        seat = (struct rg_plan_seat){
            .rank = expected.rank, .size = expected.size, .local_rank = expected.local_rank,
            .local_size = expected.local_size, .cross_size = 1, .epoch = expected.epoch,
            .group = plan->ranks[place].host,
        };
    seat.first_host = seats->nseats ? seats->first_host : plan->ranks[place].host;
    seat.nrestarts = (uint32_t) rg_membership_restarts(membership);
    return seat;
}
