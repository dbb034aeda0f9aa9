/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job without processes: agents, ranks and the messages between them and a membership, which is
 * the real one. Ranks start, meet, sync, take steps, fail, are slow, leave at updates and exit as
 * those under hvd.elastic.run do, or as programs that know nothing of it.
 *
 * Whatever may happen next is one of some moves, and somebody else says which one does: a random
 * number, or a search that tries all. All state is in two flat blocks of memory, so that it can be
 * compared, kept and taken back. After each step of the membership it is checked for what always
 * has to hold; what does not is kept in `broken`.
 */
#ifndef RG_TESTS_UNIT_LAUNCH_MEMBERSHIP_WORLD_H
#define RG_TESTS_UNIT_LAUNCH_MEMBERSHIP_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/membership/state.h"

#ifndef HOSTS           /* the room; a search has copies of it all the time, so it wants less */
#define HOSTS 24
#define PLACES 48
#define QUEUE 32
#define EPOCHS 8        /* that somebody may still be in */
#endif

/* What is random about a history. */
struct habits {
    struct rg_membership_rules rules;
    int nnames;        /* machines of the list; each has at most two slots */
    int losses, deaths, changes, early, slow, drains; /* how many of these there may be */
    int target;        /* steps, then ranks exit 0 */
    bool knows;        /* its program says ELASTIC */
    bool safe;         /* machine 0 has min_np slots, is always wanted, and nothing fails there */
    bool ticks;        /* time passes */
    bool eager;        /* agents start, and hear the launcher, at once: less to search */
    const uint32_t *lists; /* of machines, one for each change (two bits for each machine's slots);
                            * NULL: at random */
};

struct message { uint8_t type, place, value, flags; };
enum { FLAG_OK = 1, FLAG_ASKED = 2, FLAG_FAILED = 4, FLAG_LACKS = 8, FLAG_HARD = 16,
       FLAG_FAULTY = 32 };

struct queue { uint8_t n; struct message at[QUEUE]; };

enum agent_state { AGENT_NONE, AGENT_STARTS, AGENT_READY, AGENT_GONE };
struct agent {
    uint8_t state, epoch, name, first, nslots; /* epoch: the newest it has heard of */
    bool goes;                 /* its platform will take it away */
    bool released, gone, lost; /* in order, after its RELEASE; or not, and nobody knows yet */
    struct queue up, down;
};

enum rank_state { RANK_NONE, RANK_IMPORTS, RANK_WAITS, RANK_WORKS };
struct process {
    uint8_t state, epoch, value, term; /* term: 1 asked to end, 2 killed */
    bool has, said, slow, notice;
    /* what the launcher knows */
    bool seen, met, told, hard;
};

/* An epoch as its ranks see it. done: 0 not there yet, 1 there, 2 synced, 3 the first step, ... */
struct session {
    uint8_t number, size, base, most, stop;
    bool sync, based;
    uint8_t place[PLACES], done[PLACES];
    bool gone[PLACES];
};

struct world {
    uint64_t now_ns;
    uint8_t epoch, computed, losses, deaths, changes, early, slow, drains;
    bool ended, finishing, updated, wanted_said;
    uint8_t cause;
    uint8_t slots[8];       /* wanted, by name */
    bool drained[8], goes[8];
    uint64_t drain_ns[8];   /* then no rank stays there; 0: never */
    struct agent agents[HOSTS];
    struct process processes[PLACES];
    struct session sessions[EPOCHS];
    int has, needs;
    const char *broken;
};

struct play {
    struct habits habits;
    struct world world;
    struct rg_membership *membership;
    bool tells;             /* print what happens */
};

void play_begin(struct play *play, const struct habits *habits);
void play_end(struct play *play);

/* How many moves there are now; and make one of them. pick: a random number for what is random
 * within a move (which list is wanted next). */
int play_count(struct play *play);
void play_move(struct play *play, int move, uint32_t pick);
/* The deadline of the membership passes. false: it has none. */
bool play_tick(struct play *play);

#endif
