/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stalls: operations that some ranks have submitted and others have not. Every rank looks at every
 * entry once per tick, and the lowest one of a node that is not stopped itself speaks. On several
 * nodes it is the coordinator who speaks for all, after it has asked the other leaders; a leader
 * who finds something tells it so. What waits for longer than the configured time is reported to
 * the launcher, or on standard error where there is none, with the ranks that are missing, what
 * they owe, and where they are; again at doubling intervals.
 *
 * Thread rule: rg_stall_tick by the communication thread; the functions of several nodes under
 * the drive lock. All share one small lock inside. Reads a few files of /proc when it reports,
 * else never blocks.
 */
#ifndef RG_COLL_OBSERVE_STALL_H
#define RG_COLL_OBSERVE_STALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rg_progress;
struct rg_stall;
struct rg_view;

/* 0 or -ENOMEM. */
int rg_stall_create(struct rg_stall **ret_stall);
void rg_stall_destroy(struct rg_stall *stall); /* NULL is fine */

/* Look around; report when it is time; after the shutdown limit, abort the job with -ETIMEDOUT. */
void rg_stall_tick(struct rg_progress *progress);

/* ---- for reigen_diagnose; any thread */
/* Look around now. */
void rg_stall_look(struct rg_progress *progress);
/* At the last look: does the entry's epoch wait for ranks of this node, and since when? */
bool rg_stall_waits(struct rg_stall *stall, uint32_t id, uint64_t *ret_epoch,
                    uint64_t *ret_since_ns);
/* ... or for other nodes? At a leader. */
bool rg_stall_offered_since(struct rg_stall *stall, uint32_t id, uint64_t *ret_since_ns);
/* When the r-th rank of this node was first seen with its last submission; now: not yet seen. */
uint64_t rg_stall_active_since(struct rg_stall *stall, int r, uint64_t now);
/* The r-th rank of this node has neither announced the epoch nor joined. */
bool rg_view_owes(const struct rg_view *view, int r, uint32_t id, uint64_t epoch);

struct rg_proc_state {
    char state;       /* the letter of /proc/PID/stat; 'X': gone */
    const char *word; /* for people */
    char where[64];   /* in the kernel, or "" */
};
void rg_proc_state_read(pid_t pid, struct rg_proc_state *ret_process);

/* Several nodes, at a leader: what a tick found due is told to the coordinator; there, the other
 * leaders are asked, and the report is written when they have answered, or a second later. Under
 * the drive lock. */
void rg_stall_drive(struct rg_progress *progress);

/* Several nodes, at a leader: an entry's epoch was offered to the other nodes; it was decided (0
 * and its epoch, or -ENOENT when this node had not offered it). */
void rg_stall_offered(struct rg_stall *stall, uint32_t id, uint64_t epoch);
int rg_stall_take_offer(struct rg_stall *stall, uint32_t id, uint64_t *ret_epoch);
/* Answer the coordinator's question with what this node waits for; and, at the coordinator, hear
 * an answer. */
void rg_stall_answer(struct rg_progress *progress);
void rg_stall_heard(struct rg_progress *progress, int node, const char *text);

#endif
