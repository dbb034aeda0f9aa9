/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function as n members of one node: forked processes over shared memory, or threads of this
 * process (so that the thread sanitizer sees all of them). Each member gets a team of which only
 * what planes use is set.
 */
#ifndef TEST_COLL_MEMBERS_H
#define TEST_COLL_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/planes/plane.h"
#include "coll/team/team.h"

enum { MEMBERS_MAX = 8, MEMBERS_LIMIT_S = 15 };

struct member {
    int me, n;
    struct rg_team team;
    struct rg_team_peer peers[MEMBERS_MAX];
    int node_ranks[MEMBERS_MAX], leaders[1];
    void *region;
    void *arg;
    int result; /* of threads */
};

/* Whether members are threads: under the thread sanitizer. */
bool members_are_threads(void);
/* Run fn on each; region_nbytes of zeroed shared memory. 0 when all returned 0, else the first
 * other result; a member that crashes or outlives MEMBERS_LIMIT_S (stderr says
 * where it was) counts as failed. */
int members_run(int n, size_t region_nbytes, int (*fn)(struct member *member), void *arg);

/* Drive progress (a plane's or an exec's) until it is done, yielding first and then sleeping on the
 * bell, as a communication thread does. 0 or progress's error. */
int members_wait(struct member *member, int (*progress)(void *, bool *, struct rg_error *),
                 void *state);

#endif
