/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function as n ranks of n nodes, each a thread with a team that knows the others' addresses
 * on loopback: enough of a job for the tcp plane and for the order between leaders, and visible to
 * the thread sanitizer.
 */
#ifndef TEST_COLL_SOCKETS_H
#define TEST_COLL_SOCKETS_H

#include "coll/ground/config.h"
#include "coll/team/team.h"

/* Most tests take up to SOCKETS_MAX ranks; there is room for SOCKETS_MANY. */
enum { SOCKETS_MAX = 9, SOCKETS_MANY = 1024, SOCKETS_LIMIT_S = 20 };

struct place {
    int me, n;
    struct rg_team team;
    struct rg_config config;
    uint64_t deadline_ns;
    void *arg;
    int result;
};

/* Whether the places of the next run know each other's process: then the kernel is asked for it. */
extern bool sockets_seen;

/* In how many more networks the places of the next run are: 127.0.0.2, 127.0.0.3, ... */
extern int sockets_rails;
/* Where the places say that they listen in these, instead: by place; NULL: where they do. */
extern const char *const *sockets_claims;

/* 0 when fn returned 0 in all threads, else the first other result. A run of more than
 * SOCKETS_LIMIT_S ends the program, and stderr says where each thread was. */
int sockets_run(int n, int (*fn)(struct place *place), void *arg);

/* Report what was expected and not found, and return 1. */
int sockets_fail(const struct place *place, int line, const char *what);
#define sockets_check(place, condition) \
    ((condition) ? 0 : sockets_fail(place, __LINE__, #condition))

#endif
