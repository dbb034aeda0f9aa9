/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal that is meant for the ranks comes by several ways: the launcher hands on what it has
 * got, our parent (a shell of Slurm's step, or the guard) hands on what it has got, and Slurm's
 * proctrack/linuxproc signals us and the ranks themselves. Ranks are to see it once.
 *
 * Thread rule: none is kept; the caller's.
 */
#ifndef RG_AGENT_RANKS_ONCE_H
#define RG_AGENT_RANKS_ONCE_H

#include <stdbool.h>
#include <stdint.h>

enum rg_signal_way {
    RG_WAY_LAUNCHER = 1,
    RG_WAY_PARENT = 2,
    RG_WAY_DIRECT = 4, /* and to the ranks as well */
};

#define RG_SIGNAL_SAME_MS 2000  /* what comes by another way within it is the same */
#define RG_SIGNAL_AGAIN_MS 300  /* and what our parent hands on again */
#define RG_SIGNAL_WAIT_MS 500   /* how much later it may come directly than by another way */

/* What was heard of one signal. Zeroed at first. */
struct rg_heard {
    uint64_t since_ns; /* the first of its ways */
    unsigned ways;     /* by which it came since then */
};

/* Note that the signal came by this way. True: the ranks have not had it yet. ends: it is one that
 * ends them, and which they are sent only once, whatever time goes by. */
bool rg_heard_note(struct rg_heard *heard, enum rg_signal_way way, bool ends, uint64_t now_ns);

#endif
