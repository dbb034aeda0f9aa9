/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What agents on this computer have left behind when they died: this process is a subreaper, so
 * what they had started becomes its own, and is killed.
 *
 * Ownership: embedded, owns nothing. Thread rule: one thread. Blocks for a walk over /proc.
 */
#ifndef RG_LAUNCH_HOST_LEFTOVER_H
#define RG_LAUNCH_HOST_LEFTOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/str.h"

#define RG_LEFTOVER_REPEAT_MS 10   /* between looks, until nothing is left */
#define RG_LEFTOVER_LIMIT_MS 3000

struct rg_leftover {
    bool had_children;   /* before any agent was started: they are not ours to kill */
    char job_entry[128]; /* REIGEN_JOB_ID=..., which then marks what is ours */
};

/* Become a subreaper. Call before the first agent is started. */
void rg_leftover_init(struct rg_leftover *leftover, const char *job_id);

/* Put the mark into the environment that agents are started with. 0 or -ENOMEM. */
int rg_leftover_mark(const struct rg_leftover *leftover, struct rg_strv *env);

/* Kill what descends from this process, except these children (0: none) and what is theirs.
 * Returns how many processes there were. */
size_t rg_leftover_kill(const struct rg_leftover *leftover, const pid_t *spared, size_t nspared);

#endif
