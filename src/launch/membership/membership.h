/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which places of a job are its ranks: a step function of what happens. It has no input or output,
 * no clock (events carry the time), and allocates nothing after its creation: the session feeds it
 * with events and carries out the actions that each step returns. step.c begins with a table of
 * what each event does in each state.
 *
 *  place    where one rank's process runs: a slot of a host. Numbered from 0 as hosts are added,
 *           those of a host in a row; numbers are never used again, but a place whose process has
 *           ended may get another one.
 *  host     one stay of a machine in the job, with one agent. Numbered from 0, likewise.
 *  name     a machine, as a small number that the caller gives it: below room_hosts.
 *  epoch    a membership: which places are ranks 0..n-1. Numbered from 1.
 *
 *                        WANTED                 np are ready            MEET, failures, updates
 *      (created) ------> hosts are added ------> epoch 1 ------> meeting ------> epoch 2 ...
 *                                          ^                 or, where programs cannot meet:
 *                                          '--- hosts are ready <--- all ranks are being ended
 *
 * A fixed job (rules.elastic false) is the case np == min_np == max_np, in which the first failure
 * is the end: it has no epoch but 0, no PUBLISH, and its ranks are its places, numbered host by
 * host. (Where ranks are dealt by node, a place is an index into rg_plan's by_host.)
 *
 * The rules:
 *
 *  beginning   The first epoch begins when np slots are ready and no other host is on its way, or
 *              gather_ns later. It uses all slots, up to max_np.
 *  loss        All places of a failed machine are ended. In place: when all survivors have met, and
 *              are at least min_np, the next epoch is published, with the joiners that have come.
 *              Restart: all ranks are ended, and min_np slots gathered again; only the first
 *              failure counts.
 *  change      Of machines, in place: UPDATE goes out when the joiners of a whole host have come;
 *              others on their way get a few seconds. No machine leaves if fewer than min_np would
 *              be left. If only leavers have the state (what training has achieved), one of them
 *              hands it over in one more epoch.
 *  order       The places that have the state for longest are the lowest ranks, then those of older
 *              hosts, then lower numbers. Spares meet, and take seats that are free in the next
 *              epoch.
 *  sync        An epoch begins without one only if nobody is new in it and all left the one before
 *              in order.
 *  finishing   Once a member has ended well, nobody joins, and there is no UPDATE. The rest may
 *              meet, however few they are.
 *  taken away  A machine lost without a failure is awaited again. Three such losses in a row,
 *              before any rank there has met and each within ten minutes of the one before, are a
 *              failure.
 *  limits      A change beyond reset_limit ends the job. A cooldown doubles with each failure, up
 *              to its maximum. Who does not come to meet in time has failed.
 *
 * What always holds: there is one membership per epoch, with ranks 0 to n-1 without a gap. Rank 0
 * has the state, if any living place that may be a rank has it. No two epochs compute at once: the
 * next one follows when everybody has come or ended. No step counts twice: all begin with the state
 * of rank 0, or left at the same commit. The job goes on while min_np slots stay, and nobody waits
 * beside a free seat. Every wait has a deadline, or an answer is due.
 *
 * Every step costs time in proportion to hosts and places that live, and to a WANTED's length;
 * never to the room. Thread rule: one thread; nothing blocks.
 */
#ifndef RG_LAUNCH_MEMBERSHIP_MEMBERSHIP_H
#define RG_LAUNCH_MEMBERSHIP_MEMBERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rg_membership;

enum rg_membership_way {
    RG_MEMBERSHIP_BY_RANKS, /* in place once any rank has said ELASTIC; until then, restart */
    RG_MEMBERSHIP_IN_PLACE, /* survivors keep their processes and meet */
    RG_MEMBERSHIP_RESTART,  /* on each change all ranks are ended and started again */
};

struct rg_membership_rules {
    bool elastic;            /* false: np places, once; the first failure ends the job */
    bool wanted_once;        /* the first WANTED is the last: what can't be reached with its
                              * machines ends the job at once, not at the timeout */
    enum rg_membership_way way;
    int np, min_np, max_np;  /* ranks to begin with, to go on with, at most (0: no limit). max_np
                              * is exceeded by 1 in an epoch in which a machine that goes hands
                              * the state over to the others */
    int spares;              /* so many places more than max_np are used: in place, their processes
                              * meet the others, and wait until a seat is free. 0 without max_np */
    int room_hosts, room_places; /* how many there can ever be; names are below room_hosts */
    uint64_t timeout_ns;     /* so long too few ranks are borne; 0: for ever */
    uint64_t gather_ns;      /* enough are there, more are on their way: so long they are awaited */
    uint64_t settle_ns;      /* BY_RANKS: so long after an epoch's start silence may still become
                              * ELASTIC; new machines wait for it (failures do not) */
    uint64_t grace_ns;       /* between the soft and the hard END_RANK; 0: at the next TICK */
    uint64_t leave_ns;       /* for each member to meet, from the loss of one or the first that
                              * meets. Then it has failed */
    uint64_t join_ns;        /* the same for a joiner, from its start: it loads what it needs */
    int reset_limit;         /* changes of epoch; -1: any number. One more ends the job as soon as
                              * it begins. With way RESTART only those by failures count */
    int tries;               /* a machine is set aside at so many failures of its ranks (1: at the
                              * first); 0, with way RESTART only: when its agent is lost. Until
                              * then the ranks that have ended are started again in their places */
    uint64_t cooldown_min_ns, cooldown_max_ns; /* set aside for so long, doubled with each further
                              * failure; 0: for ever */
};

enum rg_membership_event_type {
    RG_MEMBERSHIP_WANTED,      /* nwanted, wanted: the machines that there are from now on */
    RG_MEMBERSHIP_HOST_READY,  /* host: its agent can start ranks */
    RG_MEMBERSHIP_HOST_LOST,   /* host, failed: its agent is gone, or never came, and all processes
                                * with it; failed false: after RELEASE, or because the platform
                                * took it away. If its machine is wanted, another one is added at
                                * once. RANK_ENDED need not follow */
    RG_MEMBERSHIP_HOST_GOES,   /* host, until_ns: the platform is about to take it away, and will
                                * put another one in its place: its machine is not wanted until it
                                * is lost. Until then until_ns counts, as for DRAIN, if it is
                                * earlier than that of one */
    RG_MEMBERSHIP_RANK_ENDED,  /* place, ok (exit 0), asked, cut_by, faulty. Also: could not be
                                * started */
    RG_MEMBERSHIP_RANK_ELASTIC,/* place */
    RG_MEMBERSHIP_RANK_MEETS,  /* place, epoch, failed, lacks. One of an older epoch than one in
                                * which that place is a rank is ignored: its agent has answered */
    RG_MEMBERSHIP_DRAIN,       /* name, until_ns: as if it were never wanted again, and of several
                                * such times the earliest counts (0: none). Ranks that are
                                * still there at until_ns (0: never) are ended. The last one
                                * counts */
    RG_MEMBERSHIP_TICK,        /* the deadline has passed. Harmless at any time */
    RG_MEMBERSHIP_STOP,        /* the session ends the job itself: no more actions, ever */
};

struct rg_membership_machine {
    int name;
    int slots;
};

/* What a type does not name is ignored. */
struct rg_membership_event {
    enum rg_membership_event_type type;
    uint64_t now_ns;        /* above 0, and never less than in the event before */
    uint64_t until_ns;      /* DRAIN, HOST_GOES */
    int host, place, name;
    bool ok;                /* RANK_ENDED: with 0 */
    bool asked;             /* RANK_ENDED: a signal of the launcher's had reached it before
                             * (EXITED.signalled) */
    int cut_by;             /* RANK_ENDED: it says that the end of this place's rank caused its
                             * own: then that one is to blame, if it has ended badly too; or -1 */
    bool faulty;            /* RANK_ENDED: it is its machine's fault, which is set aside for it,
                             * whatever rules.tries says */
    uint32_t epoch;         /* RANK_MEETS: the last one its process was in, or 0 */
    bool failed;            /* RANK_MEETS: that ended by an error; HOST_LOST */
    bool lacks;             /* RANK_MEETS: its process never got to the end of a sync, so it has
                             * nothing to give to others. Who does not know says false: then newer
                             * processes only rank behind older ones */
    const struct rg_membership_machine *wanted; /* in order of preference; a name that occurs
                             * twice has the slots of both. Borrowed for the step */
    size_t nwanted;
};

enum rg_membership_action_type {
    RG_MEMBERSHIP_ADD_HOST,    /* host, name, place (its first), slots: start an agent there.
                                * Answer: HOST_READY or HOST_LOST */
    RG_MEMBERSHIP_START_RANKS, /* host: RANK for each of its places for which
                                * rg_membership_starts() is true, and START. Answer: RANK_ENDED */
    RG_MEMBERSHIP_END_RANK,    /* place, hard: SIGKILL, else SIGTERM. Answer: RANK_ENDED */
    RG_MEMBERSHIP_RELEASE,     /* host: nothing runs or will run there. It may not be ready yet:
                                * then it is said again when it is. Answer: HOST_LOST */
    RG_MEMBERSHIP_PUBLISH,     /* there is a new epoch. Always before the START_RANKS of ranks
                                * that begin in it. At most one in a step */
    RG_MEMBERSHIP_UPDATE,      /* result: to all ranks of the epoch. At most once in an epoch */
    RG_MEMBERSHIP_RESTARTS,    /* rg_membership_restarts() went up, as all ranks will be ended;
                                * place, host: by whose failure, or -1 */
    RG_MEMBERSHIP_ASIDE,       /* name, until_ns (RG_NEVER_NS: for ever), why, place, host */
    RG_MEMBERSHIP_BACK,        /* name: it may be used again */
    RG_MEMBERSHIP_END,         /* cause, place, host, has, needs, waited. The last of all */
};

enum rg_membership_why {       /* a machine is not used */
    RG_MEMBERSHIP_RANK_FAILED, /* place */
    RG_MEMBERSHIP_AGENT_LOST,  /* host: it was there */
    RG_MEMBERSHIP_NEVER_CAME,  /* host: its agent could not be started */
    RG_MEMBERSHIP_NEVER_MET,   /* place: it did not come to meet in time, and was ended */
    RG_MEMBERSHIP_DRAINED,     /* somebody wants it free. No ASIDE is said about this */
};

enum rg_membership_cause {
    RG_MEMBERSHIP_ALL_DONE,    /* well */
    RG_MEMBERSHIP_ONE_FAILED,  /* place or host, which cannot be mended: the job is not elastic; or
                                * its ranks would have to start again, and some had ended well */
    RG_MEMBERSHIP_ALL_FAILED,  /* nobody is left, and no machine that may be used; place or host:
                                * the first failure of the last epoch */
    RG_MEMBERSHIP_ALL_ASIDE,   /* the same without a rank that failed; host: the last one lost */
    RG_MEMBERSHIP_TOO_FEW,     /* has, needs, waited */
    RG_MEMBERSHIP_RESET_LIMIT, /* place or host: whose failure would be one change too many */
    RG_MEMBERSHIP_NO_ROOM,     /* has, needs: as TOO_FEW, and machines were left out as there is no
                                * more room for their numbers */
};

/* place and host are -1 where there is none; host goes with place. */
struct rg_membership_action {
    enum rg_membership_action_type type;
    int host, place, name;
    int slots;                    /* ADD_HOST */
    bool hard;                    /* END_RANK */
    uint32_t result;              /* UPDATE: 1 hosts have gone, 2 come, 3 both */
    enum rg_membership_why why;   /* ASIDE */
    enum rg_membership_cause cause; /* END */
    int has, needs;               /* END: ranks that could go on, and how many it takes */
    bool waited;                  /* END: for timeout_ns; false: no more could come */
    uint64_t until_ns;            /* ASIDE */
};

/* One allocation, of which only what is used is touched. The time for np ranks to come begins at
 * now_ns. 0; -EINVAL: not 1 <= min_np <= np <= max_np, room for less than np, reset_limit below -1,
 * spares below 0 or without a max_np, or tries below what its way allows; -ENOMEM. */
int rg_membership_create(const struct rg_membership_rules *rules, uint64_t now_ns,
                         struct rg_membership **ret_membership);
void rg_membership_destroy(struct rg_membership *membership); /* NULL is fine */

/* What follows from the event: ret_actions has those to carry out, in their order, valid until the
 * next step. Returns how many. It cannot fail: an event about a host, place or name that is not
 * there, or not in a state in which it could happen, changes nothing. */
size_t rg_membership_step(struct rg_membership *membership,
                          const struct rg_membership_event *event,
                          const struct rg_membership_action **ret_actions);

/* When TICK is due, or RG_NEVER_NS: then only another event can change anything. */
uint64_t rg_membership_deadline_ns(const struct rg_membership *membership);

/* The epoch that was published last; number 0 (and size 0, until ranks are started): none yet, or
 * the job is fixed. */
struct rg_membership_epoch {
    uint32_t number;
    int size;
    bool sync;         /* all begin with the state of rank 0; else everybody has it */
    const int *places; /* by rank; their numbers are valid until the next step */
};
struct rg_membership_epoch rg_membership_epoch(const struct rg_membership *membership);

/* The rank of a place in that epoch, or -1. A rank keeps it after its end, until the next epoch. */
int rg_membership_rank(const struct rg_membership *membership, int place);
int rg_membership_host(const struct rg_membership *membership, int place);
/* Its process has come to meet the others, and has no rank: it is a spare one, or is about to get a
 * rank. */
bool rg_membership_waits(const struct rg_membership *membership, int place);

/* Of a member whose process lives, and is not being ended: whether it has come to meet the
 * others, or would be awaited by those who have. Any other process that lives is BUSY, until it
 * comes: it starts, or is being ended. Any other place is ELSEWHERE. */
enum rg_membership_meeting {
    RG_MEMBERSHIP_ELSEWHERE, RG_MEMBERSHIP_BUSY, RG_MEMBERSHIP_AWAITED, RG_MEMBERSHIP_COME
};
enum rg_membership_meeting rg_membership_meeting(const struct rg_membership *membership, int place);

/* Whether a START_RANKS of the step before means this place; and who its rank will be, which is
 * certain if a PUBLISH came with it, and else a forecast: that all who live now come to meet. A
 * spare one is told the last rank, which it gets when any other is lost. */
struct rg_membership_seat {
    uint32_t epoch;
    int rank, size;
    int local_rank, local_size; /* among those of its host */
};
bool rg_membership_starts(const struct rg_membership *membership, int place);
struct rg_membership_seat rg_membership_seat(const struct rg_membership *membership, int place);

/* Whether a program that fails goes on in place (else: restart), as far as is known now. */
bool rg_membership_in_place(const struct rg_membership *membership);
int rg_membership_restarts(const struct rg_membership *membership);
/* Whether a rank of the epoch has ended well: nobody joins any more, and no rank is made up for. */
bool rg_membership_finishing(const struct rg_membership *membership);

/* Hosts and places that were ever added. */
int rg_membership_nhosts(const struct rg_membership *membership);
int rg_membership_nplaces(const struct rg_membership *membership);

/* Ranks that there would be room for if none of these machines were used, with all others that may
 * be now. Each name may occur more than once; none (NULL, 0) is fine. */
int rg_membership_without(const struct rg_membership *membership, const int *names, size_t count);

/* For reigen status: what is the matter with a host, or machine. */
enum rg_membership_host_state {
    RG_MEMBERSHIP_HOST_STARTS,  /* its agent */
    RG_MEMBERSHIP_HOST_IS_READY,/* it has ranks, or will get some */
    RG_MEMBERSHIP_HOST_LEAVES,  /* it is not wanted any more, or failed; its ranks end, in order */
    RG_MEMBERSHIP_HOST_IS_FREE, /* released */
    RG_MEMBERSHIP_HOST_IS_GONE,
};
enum rg_membership_host_state rg_membership_host_state(const struct rg_membership *membership,
                                                       int host);

struct rg_membership_aside {
    uint64_t until_ns;          /* RG_NEVER_NS: for ever */
    enum rg_membership_why why;
    int host, place;            /* that failed, or -1 */
    int failures;               /* so far */
};
/* false: the machine may be used; *ret_aside is untouched then. */
bool rg_membership_aside(const struct rg_membership *membership, int name,
                         struct rg_membership_aside *ret_aside);

#endif
