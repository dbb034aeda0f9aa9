/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds: one allgather over the world's progress engine, in which every rank says where it is and
 * hands something over. Process sets are made and removed by them (sets.h), and they are the fences
 * of a process set's boot, in which those who are not of the set take part with nothing.
 *
 * Thread rule: one thread at a time, which holds the sets' turn.
 */
#ifndef RG_COLL_API_ROUNDS_H
#define RG_COLL_API_ROUNDS_H

#include "coll/boot/boot.h"

struct rg_progress;

/* What a rank says in a round. */
enum rg_set_verb { RG_SET_ADD = 1, RG_SET_FENCE, RG_SET_DONE, RG_SET_REMOVE };

/* One rank's part of a round. */
struct rg_set_word {
    enum rg_set_verb verb;
    int status;           /* 0 or -errno ... */
    const char *text;     /* ... and why */
    const void *data;
    size_t nbytes;
};

/* A round over the world's progress engine: the parts of all ranks. words: room for its size;
 * they point into *ret_memory, which the caller frees. Blocks until all ranks have come. 0 or
 * -errno. */
int rg_sets_round(struct rg_progress *world, const struct rg_set_word *mine,
                  struct rg_set_word *words, void **ret_memory, struct rg_error *err);

/* The boot of the set with this id, for rg_team_create. ranks: of the world, nranks of them,
 * borrowed for as long as the team lives; me: this rank's place among them. Freed by rg_boot_close.
 * 0 or -ENOMEM. */
int rg_set_boot(struct rg_progress *world, int id, const int *ranks, int nranks, int me,
                struct rg_boot **ret_boot, struct rg_error *err);

#endif
