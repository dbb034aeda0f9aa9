/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who the ranks of a job wait for, and why: from what each rank has done in the same few seconds
 * (wire/numbers.h), by arithmetic alone.
 *
 * All ranks are in the same operations, so the one that others wait for spends less time in them,
 * and more time outside. That time has three parts: its thread computes, or would compute and has
 * no processor, or does neither, as it waits for something else. The part that is larger than with
 * the other ranks is why it is late; what limits it by other means (a cgroup, missing memory)
 * explains the last two. Where no part has most of the difference, or a second explanation fits as
 * well, the cause is RG_CAUSE_UNKNOWN: a wrong word is worse than none. For the same reason one
 * long wait among short ones, as for a checkpoint, has no cause.
 *
 * Thread rule: pure functions. Nothing blocks, allocates, or reads a clock.
 */
#ifndef RG_LAUNCH_DIAGNOSIS_DIAGNOSIS_H
#define RG_LAUNCH_DIAGNOSIS_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define RG_LATE_NOISE 0.02   /* of a second: what differs by less between hosts is no wait */
#define RG_LATE_NOTABLE 0.05 /* of all ranks' time: below it nobody in particular is waited for */
#define RG_CAUSE_NOTABLE 0.1 /* of the others' time: a rank that they wait for less has no cause */

enum rg_cause {
    RG_CAUSE_UNKNOWN,
    RG_CAUSE_SLOW_RANK,  /* it computes longer than others */
    RG_CAUSE_SLOW_INPUT, /* it waits for something that is no processor: a disk, a pipe, a lock */
    RG_CAUSE_SLOW_LINK,  /* what a host sends to another one takes long on the way */
    RG_CAUSE_IMBALANCE,  /* it computes longer and has more bytes; or each is the last in turn */
    RG_CAUSE_THROTTLED,  /* its cgroup's limit of processor time */
    RG_CAUSE_SWAPPING,   /* its memory was given to others, and is read again */
    RG_CAUSE_NEIGHBOUR,  /* other processes have its processor */
    RG_CAUSES
};

/* A rank, in some seconds: shares of its time (0 to 1) where nothing else is said. */
struct rg_load {
    int host;          /* an index; -1: not known */
    bool rated;        /* false: nothing is known of these seconds */
    bool timed;        /* computing and delayed are known */
    double blocked;    /* waits for operations */
    double waiting;    /* of that, for ranks of its own host */
    double causing;    /* others wait for it: the sum of all of their shares */
    double computing;  /* its thread has a processor, waits for operations left out */
    double delayed;    /* its thread could run, and has no processor */
    double throttled;  /* its cgroup has used its limit up; may be above 1, as processors count */
    double cpu;        /* processors that its process keeps busy */
    double cpus;       /* processors that it may use; 0: not known */
    double faults;     /* times in a second that a page of its memory had to be read */
    double refaults;   /* pages in a second, of anybody on its host, that were read again */
    double seconds;    /* how many these are */
    double steps;      /* in them; 0: none, or not known */
    double squares;    /* of the seconds of each wait for an operation in them, summed up */
    double operations; /* in a second; 0: none, or not known */
    double nbytes;     /* that it gives to operations in a step; 0: not known */
    double sending;    /* bytes that it has sent to another host are on their way */
    double sent;       /* bytes that it sends to other hosts in a second */
    int sent_to;       /* the host to which they are longest on their way; -1: not known */
};

/* What is summed up of a host, for the functions below to work in. */
struct rg_load_host {
    size_t nrated;
    int index;              /* of the host, while they are sorted by the next one */
    double apart;           /* in operations, without waits within the host */
    double within, between; /* what they cause */
    double causing;                /* both */
    double sending, sent, longest; /* of all links, and the longest time of one of them */
    int worst, to;                 /* the rank that causes most; the other end of that link */
};

/* Who is waited for. */
struct rg_late {
    int rank;       /* index of a load; -1: nobody, or the ranks of the host alike */
    int host;       /* -1: nobody, or not known */
    double causing; /* of the rank, or of the host's ranks together */
};

struct rg_lateness {
    enum rg_cause cause;
    struct rg_late late; /* of a slow link: the host that sends; of an imbalance: may be nobody */
    int to;              /* a slow link's other end; else -1 */
    double share;        /* of the other ranks' time, for which they wait */
    /* The evidence, of the late one and of the others: the share of the time that it computes (slow
     * rank), waits (slow input), is throttled, or delayed; pages in a second (swapping); bytes that
     * it gives to operations in a step (imbalance), or that arrive in a second while some are on
     * their way (slow link). An imbalance of nobody in particular has 0. */
    double value, usual;
};

/* Who is waited for. Within a host the ranks have seen it; between hosts it is worked out from what
 * their ranks spend in operations, and added to `causing`. That falls to the ranks of a late host
 * as the waits within it do, or to all alike. hosts: room for nhosts + 1, of any content. */
void rg_late_find(struct rg_load *loads, size_t n, struct rg_load_host *hosts, size_t nhosts,
                  struct rg_late *ret_late);
/* And why: after rg_late_find, with what it has filled in. */
void rg_late_explain(const struct rg_load *loads, size_t n, const struct rg_load_host *hosts,
                 size_t nhosts, const struct rg_late *late, struct rg_lateness *ret_diagnosis);

/* "slow-rank", ... in fields; "" where the cause is unknown. And which one that is. */
const char *rg_cause_name(enum rg_cause cause);
enum rg_cause rg_cause_find(const char *name);
/* Append the cause and its evidence as a person reads them: "slow input: it neither computes ...".
 * from, to: the hosts of a slow link, else unused. Nothing where the cause is unknown. */
void rg_lateness_put(const struct rg_lateness *diagnosis, const char *from, const char *to,
                      struct rg_buf *text);

/* --- of a whole job --------------------------------------------------------------------------- */

#define RG_TALLY_SLOTS 8
#define RG_TALLY_MIN_S 10.0 /* of less there is nothing to tell */
#define RG_TALLY_HELD_S 2.5 /* what other programs cause for less comes and goes */

/* For how long each was waited for, and why. All zero: of nothing. */
struct rg_tally {
    double seconds;
    struct rg_lateness last; /* what was found last ... */
    double held_s;           /* ... and for how long the same cause of the same rank was */
    struct rg_tally_slot {
        struct rg_late late;
        int to;
        double seconds, share; /* what it was waited for in them, altogether */
        double by_cause[RG_CAUSES], value[RG_CAUSES], usual[RG_CAUSES];
    } slots[RG_TALLY_SLOTS];
};

/* It was like this for so many seconds. */
void rg_tally_add(struct rg_tally *tally, const struct rg_lateness *diagnosis, double seconds);
/* This has been found for RG_TALLY_HELD_S, without a break. */
bool rg_tally_holds(const struct rg_tally *tally, const struct rg_lateness *diagnosis);
/* Who made the job slower for most of its time, by RG_CAUSE_NOTABLE of it or more, and by what on
 * average; share is of all of the time. False: nobody did. */
bool rg_tally_find(const struct rg_tally *tally, struct rg_lateness *ret_diagnosis);

#endif
