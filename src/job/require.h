/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job may demand of its hosts before it starts (--require): a word, some with an amount.
 *
 *      rdma  cma  mpi  python  numpy  torch  tensorflow  horovod     it is there
 *      gpu[=N]  cpus=N  nofile=N                                     at least so many
 *      shm=SIZE  memlock=SIZE  memory=SIZE  disk=SIZE                at least so much: 512m, 1g
 *      clock=TIME                                                    clocks differ by less: 10ms
 *
 * Thread rule: any thread; nothing blocks.
 */
#ifndef RG_JOB_REQUIRE_H
#define RG_JOB_REQUIRE_H

#include <stdint.h>

#include "base/error.h"

struct rg_requirement {
    const char *name; /* "shm"; static */
    uint64_t amount;  /* bytes, or a count, or ms; UINT64_MAX: unlimited; 1 where none was given */
};

/* All words, for completion and messages, separated by blanks. */
#define RG_REQUIRE_WORDS                                                                     \
    "rdma gpu cma mpi python numpy torch tensorflow horovod shm memlock memory disk cpus "  \
    "nofile clock"

/* Judge one word. what names the option in errors. 0, -EINVAL or -ERANGE with err. */
int rg_requirement_parse(const char *what, const char *word, struct rg_requirement *ret_requirement,
                         struct rg_error *err);

#endif
