/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What staying with a job that runs elsewhere (launch/host/driver.h: follow) has in common,
 * whatever its platform tells of it. Nothing of the job depends on us: who does not answer is asked
 * again for as long as it takes, and what is refused for good leaves the job, which goes on.
 *
 * Ownership: embedded in the platform's own state, zeroed at first; owns its timers. Thread rule:
 * the loop's thread; nothing blocks.
 */
#ifndef RG_PLATFORM_COMMON_FOLLOWER_H
#define RG_PLATFORM_COMMON_FOLLOWER_H

#include "launch/host/driver.h"

#define RG_FOLLOWER_END_MS 75000 /* for the job's end, after it was told to */

struct rg_follower {
    struct rg_follow_options o;
    const char *who;  /* answers, in sentences: "OpenPAI" */
    /* Look at nothing any more, and tell the rest of the output. True: something is to be done yet,
     * and rg_follower_tell comes after it; else on_done comes from the loop. */
    bool (*close)(void *state);
    void *state;      /* for it; the platform's */
    bool away;        /* the user was told that nobody answers */
    bool ending;      /* we have told the job to end */
    bool done;        /* nothing is looked at any more */
    int exit_code;    /* for on_done */
    struct rg_error err; /* likewise; errnum 0: nothing is to be said */
    struct rg_timer end_timer, done_timer;
};

/* What a refusal says of the next try. */
enum rg_trouble {
    RG_TROUBLE_PASSES, /* nobody answers: the next one waits until somebody does */
    RG_TROUBLE_ODD,    /* perhaps it was chance: some in a row are for good */
    RG_TROUBLE_STAYS,  /* who asks, or for what, is refused again */
};

/* A remark for the user, by on_say and the like; what has no room in RG_ERROR_TEXT_MAX is cut. */
void rg_remark(void (*say)(void *arg, const char *text), void *arg, const char *fmt, ...)
    rg_printf(3, 4);
#define rg_follower_sayf(f, ...) rg_remark((f)->o.on_say, (f)->o.arg, __VA_ARGS__)
/* Over, unless it is already: close, then on_done, where the caller may free us. */
void rg_follower_finish(struct rg_follower *f, int exit_code);
/* on_done; arg: the follower. */
void rg_follower_tell(void *arg);
/* Something was refused, for this cause. *ncomplaints counts those of its kind since it worked.
 * False: the job is left, and it is over with us. */
bool rg_follower_bears(struct rg_follower *f, enum rg_trouble trouble, int *ncomplaints,
                       const struct rg_error *cause);
/* Somebody has answered. */
void rg_follower_is_back(struct rg_follower *f);
/* The job is to end, for which it has RG_FOLLOWER_END_MS; then late, with state. False: it was told
 * already, or has ended. */
bool rg_follower_end(struct rg_follower *f, void (*late)(void *state));
/* It goes on, and cannot be followed; err says why. */
void rg_follower_leave(struct rg_follower *f);
/* No event follows. */
void rg_follower_fini(struct rg_follower *f);

#endif
