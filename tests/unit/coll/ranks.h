/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function as n ranks of one job: forked processes with RANK, WORLD_SIZE, MASTER_ADDR and
 * MASTER_PORT of their own, as torchrun sets them.
 */
#ifndef TEST_COLL_RANKS_H
#define TEST_COLL_RANKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "coll/boot/boot.h"
#include "coll/ground/config.h"
#include "help/limit.h"

enum { RANKS_MAX = 8, RANKS_LIMIT_S = 15 };

struct rank {
    int me, n;
    struct rg_config config; /* all planes, 20 s to start */
    void *arg;
};

/* A port that nobody listens on now, and neither on the 17 after it. */
int ranks_port(void);
/* Set one variable for the ranks that are started from now on; NULL unsets. */
void ranks_setenv(const char *name, const char *value);
/* Forget all that ranks_setenv has set, and the launcher's variables. */
void ranks_clearenv(void);

/* Zeroed memory that the ranks of all later runs share; it stays. */
void *ranks_shared(size_t nbytes);

/* 0 when fn returned 0 on all ranks, else the first rank's other result; 99 for one that crashed or
 * took longer than RANKS_LIMIT_S, of which stderr says where it was. master_port: ranks_port(). */
int ranks_run(int n, int master_port, int (*fn)(struct rank *rank), void *arg);

/* Report what a rank expected and did not get, and return 1. */
int ranks_fail(const struct rank *rank, int line, const char *what);
#define ranks_check(rank, condition) \
    ((condition) ? 0 : ranks_fail(rank, __LINE__, #condition))

static inline uint64_t ranks_deadline(void)
{
    return rg_now_ns() + unit_limit_s(20) * RG_NS_PER_S;
}

#endif
