/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder know of who belongs to the job.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_ELASTIC_STATE_H
#define RG_LAUNCH_SESSION_ELASTIC_ELASTIC_STATE_H

#include "base/time.h"
#include "launch/control/control.h"
#include "launch/diagnosis/diagnosis.h"
#include "launch/discovery/discovery.h"
#include "launch/membership/membership.h"
#include "launch/session/core/session_core.h"
#include "launch/session/elastic/epoch.h"
#include "launch/verdict/failure.h"

struct machine {
    char *name, *user; /* as the plan's hosts have them; of a fixed job NULL, */
    int host;          /* as each machine is one of them */
    char *reason;      /* for which it was set aside last, in words; NULL: none */
    int rank;          /* whose failure that was, by its number then; or -1 */
};

/* Somebody waits for others: for how long so far, and what it is that he waits for. */
struct wait {
    uint64_t ms, next_ms; /* next_ms: then the user hears of it; 0: he has not yet */
    uint64_t key;
};

/* The machine of this number is to be free: at until_ns (0: never) its ranks are ended. */
typedef void session_drain(struct rg_session *session, int name, uint64_t until_ns);

struct rg_numbers_store; /* launch/numbers/numbers.h */

struct session_numbers {
    struct rg_numbers_store *store; /* NULL: none are kept */
    /* session_lateness.c's: who was waited for, and why, until then (0: nothing was told yet), in
     * this epoch. */
    struct rg_tally tally;
    uint64_t tallied_ns;
    uint32_t tallied_epoch;
};

struct session_elastic {
    struct rg_membership *membership;
    struct rg_epoch_seats seats;
    struct rg_discovery *discovery; /* NULL: the hosts are those of the job */
    struct rg_control *control;     /* NULL: there is none */
    struct rg_control *known;       /* the same by options.known_as */
    session_drain *drain;           /* what it calls */
    struct session_numbers numbers; /* of the ranks */
    struct rg_timer timer;
    struct machine *machines; /* by the number that the membership has for them */
    size_t nmachines;
    struct rg_buf queue;      /* struct rg_membership_event each */
    bool stepping, started, over; /* a rank was started; the membership has said END */
    uint64_t stamp;           /* of the last UPDATE */
    struct rg_failure failures[2]; /* of the attempt before, and of this one */
    int culprit;              /* 1 + the rank that cut off the one whose end was told first, and
                               * has not ended yet in this attempt; 0: there is none */
    struct wait init, meeting, hosts, rest; /* of which waits.c tells */
    uint32_t told_epoch;      /* in which it has told of ntold deaths beside the first one */
    int ntold;
};

/* The membership's clock, which stands still while the job does: nobody is late for that. */
static inline uint64_t elastic_now_ns(const struct rg_session *session)
{
    return (session->paused ? session->pauses.at_ns : rg_now_ns()) - session->pauses.ns;
}

/* To all ranks of the epoch: bits of enum rg_update. */
static inline void elastic_tell(struct rg_session *session, uint32_t result)
{
    struct session_elastic *elastic = session->elastic;
    uint64_t now_ms = rg_wall_ns() / RG_NS_PER_MS;

    elastic->stamp = now_ms > elastic->stamp ? now_ms : elastic->stamp + 1;
    session_broadcast(session, RG_MSG_UPDATE,
                      &(struct rg_rankmsg_update){ elastic->stamp, result });
}

#endif
