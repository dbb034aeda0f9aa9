/* SPDX-License-Identifier: Apache-2.0 */
/* What a membership knows, for its own files and its tests. All is zero at first; a number that may
 * be absent is kept plus 1. */
#ifndef RG_LAUNCH_MEMBERSHIP_STATE_H
#define RG_LAUNCH_MEMBERSHIP_STATE_H

#include "base/time.h"
#include "launch/membership/membership.h"

struct machine {
    struct machine *next;   /* of those that are wanted, in order of preference */
    int name;
    int slots;              /* wanted; 0: it is not */
    int left;               /* of them not yet given to a host, while they are dealt */
    int failures;
    int vain;               /* of its hosts, in a row, that were gone before they were of use */
    uint64_t vain_ns;       /* when the last of them was lost */
    bool drained;
    bool goes;              /* until its host is lost */
    uint64_t drain_ns;      /* then ranks that are still there are ended; 0: never */
    enum rg_membership_why why;
    int host, place;        /* that failed */
    uint64_t until_ns;      /* it is set aside; 0: it is not. It comes back only if it is wanted */
};

enum stay { STAY_STARTS, STAY_READY, STAY_FREE, STAY_GONE };

struct host {
    int number, nslots;
    struct machine *machine;
    struct place *places;   /* nslots of them */
    int keep;               /* the first so many of its places are wanted; the rest leave */
    int ndone;              /* of its places, whose slots are to be had again */
    uint32_t since;         /* the first epoch that one of its places was in, or 0 */
    uint8_t stay;
    bool failed;            /* no place of it will be used again */
    struct host *next;      /* the next younger one that is neither free nor gone */
};

struct place {
    struct host *host;
    int number;
    int rank;               /* in the epoch, plus 1 */
    int forecast;           /* the rank that was expected at its start, plus 1 */
    struct place *accuses;  /* of its end: it is not clear yet whose failure that was; or NULL */
    uint32_t since;         /* the first epoch of its process, which has the state then; or 0 */
    uint32_t started;       /* in this step */
    uint64_t due_ns;        /* told: SIGKILL; a joiner: to meet */
    bool live;          /* there is a process */
    bool member;        /* of the epoch */
    bool meets;         /* it has come, and waits */
    bool met_failed;
    bool elastic;
    bool told;          /* to end */
    bool hard;          /* by SIGKILL */
    bool bad;           /* its last process ended badly, by itself */
    bool done;          /* no other process is started there: it would be taken for the one
                             * that was a rank, or it was a joiner that ended well */
};

enum phase {
    PHASE_GATHER,           /* no rank runs: hosts are awaited */
    PHASE_RUN,
    PHASE_ENDING,           /* all ranks are being ended, to be started again */
    PHASE_OVER,
};

/* What has happened in an epoch: all zero when one begins. */
struct change {
    uint64_t began_ns;
    bool updated;           /* its ranks know that hosts have changed */
    bool lost;              /* a member is gone, or will be */
    bool left;              /* one has ended, or has come to meet: the others cannot compute */
    bool blamed;            /* somebody's machine has paid for the first loss */
    const struct host *host;/* that was lost first, or a place of it was; or NULL */
    const struct place *place;
    uint64_t wait_ns;       /* since then somebody waits for ranks or slots */
    uint64_t ready_ns;      /* since then there could be an epoch, or an update */
};

/* What is used most comes first: the code is smaller for it. */
struct rg_membership {
    enum phase phase;
    bool finishing;         /* a member has ended well */
    bool last_bad;          /* the last that ended by itself did not */
    bool said_elastic;
    bool dirty;             /* slots are to be dealt again */
    struct place *places;
    struct host *hosts;
    struct host *live;      /* the oldest that is neither free nor gone */
    struct machine *machines;
    struct place **next;    /* of the epoch to come, while it is made */
    uint64_t now_ns, deadline_ns;
    struct change change;
    int nalive;             /* processes */
    int naccusers;
    bool no_room;
    struct machine *wanted; /* the first */
    int *order;             /* places of the epoch, by rank */
    struct rg_membership_epoch epoch;
    uint32_t step;
    int nhosts, nplaces;    /* ever */
    int nforecast;          /* ranks that were expected when the last joiners were started */
    int resets, restarts;
    size_t nactions;
    struct rg_membership_action *actions;
    struct rg_membership_rules rules;
};

/* The next place of a host that is neither free nor gone; place NULL: the first. NULL: no more. */
struct place *membership_each(const struct rg_membership *m, const struct place *place);

#define EACH_PLACE(m, place)                                                                      \
    for (struct place *place = NULL; (place = membership_each(m, place)) != NULL;)

#define EACH_PLACE_OF(host, one)                                                                  \
    for (struct place *one = (host)->places; one < (host)->places + (host)->nslots; one++)

/* Its machine has a slot for it. */
static inline bool is_kept(const struct place *place)
{
    return place < place->host->places + place->host->keep;
}

/* It may be asked to end, be ready to be a rank, and so on. */
static inline bool is_staying(const struct place *place)
{
    return place->live && !place->told;
}

static inline bool may_be_used(const struct machine *machine)
{
    return machine->slots > 0 && !machine->drained && !machine->goes && !machine->until_ns;
}

/* Whether the time has come; else the deadline is not later than that. */
bool membership_passed(struct rg_membership *m, uint64_t when_ns);
/* If either is 0 it never comes. */
uint64_t membership_after(uint64_t since_ns, uint64_t after_ns);

/* A new action, all zero but type, host and place, each of which may be NULL. */
struct rg_membership_action *membership_act(struct rg_membership *m,
                                            enum rg_membership_action_type type,
                                            const struct host *host, const struct place *place);
struct rg_membership_action *membership_end(struct rg_membership *m, enum rg_membership_cause cause,
                                            int has, int needs);

#endif
