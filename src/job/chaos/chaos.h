/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults that a user wants to see in a job (--chaos): a list of events, each of which says what
 * happens, to whom, and when.
 *
 *      kill:rank=3@step=100,stop:host=b@30s for 8s,kill:random@10s..60s,seed=7
 *
 *      EVENTS   EVENT or seed=N, with commas between them
 *      EVENT    VERB:WHO@WHEN [for TIME] [by TIME] [code=N]
 *      VERB     kill, stop, slow, exit or cut
 *      WHO      rank=N, host=NAME or random
 *      WHEN     step=N, TIME or TIME..TIME
 *
 * What goes together is one table in chaos.c. Steps are those that a rank makes; times count from
 * the start of the first ranks. Where something is left to chance, one seed decides it all, so a
 * job can be played again.
 *
 * Thread rule: nothing is shared. Nothing blocks or allocates.
 */
#ifndef RG_JOB_CHAOS_CHAOS_H
#define RG_JOB_CHAOS_CHAOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "job/job.h"

#define RG_CHAOS_EVENTS_MAX 64
#define RG_CHAOS_STEP_MAX 1000000000
#define RG_CHAOS_BY_MS 50 /* of slow, where the user does not say */
/* In the ranks' environment: for each event at a step EVENT:VERB:RANK:STEP:FOR_MS:VALUE, decimal,
 * with commas between them. VALUE is by_ms of slow, and code of exit. */
#define RG_CHAOS_VARIABLE "REIGEN_CHAOS"

enum rg_chaos_verb {
    RG_CHAOS_KILL,   /* by SIGKILL */
    RG_CHAOS_STOP,   /* by SIGSTOP, and after for_ms SIGCONT */
    RG_CHAOS_SLOW,   /* each step of for_ms takes by_ms more */
    RG_CHAOS_EXIT,   /* with code */
    RG_CHAOS_CUT,    /* nothing comes from there or goes there, for for_ms */
    RG_CHAOS_VERBS
};

enum rg_chaos_who { RG_CHAOS_RANK, RG_CHAOS_ON_HOST, RG_CHAOS_RANDOM };

struct rg_chaos_event {
    enum rg_chaos_verb verb;
    enum rg_chaos_who who;
    int rank;
    char host[RG_HOST_NAME_MAX + 1];
    int step;                  /* from 1; 0: it happens at a time */
    uint64_t at_ms, before_ms; /* the time; the latest one until chance has chosen, else 0 */
    uint64_t for_ms;           /* 0: for good */
    uint64_t by_ms;
    int code;
    bool happened;             /* for those who let it happen, as the next one: */
    bool missed;               /* it was due, and whom it means was not there */
};

struct rg_chaos {
    struct rg_chaos_event events[RG_CHAOS_EVENTS_MAX];
    size_t count;
    uint64_t seed;
    bool seeded;               /* the user has given it */
    uint64_t start_ns;         /* when the first ranks were started; 0: none was */
};

/* Read what the user wrote. what names the option in errors. 0; -EINVAL or -ERANGE with err, which
 * says what is wrong and what could stand there; ret_chaos is untouched then. */
int rg_chaos_parse(const char *what, const char *text, struct rg_chaos *ret_chaos,
                   struct rg_error *err);
/* Something is left to chance: a rank, or a time. */
bool rg_chaos_is_open(const struct rg_chaos *chaos);
/* Choose by the seed: a rank below nranks (at least 1), and a time. The same seed, events and
 * nranks give the same, on every machine. */
void rg_chaos_draw(struct rg_chaos *chaos, int nranks);
/* Are there such ranks, and hosts? nranks, names, nnames: of the job. 0, or -EINVAL with err. */
int rg_chaos_check(const char *what, const struct rg_chaos *chaos, int nranks,
                   const char *const *names, size_t nnames, struct rg_error *err);
/* An event as the user may write it: "stop:rank=1@30s for 8s". */
void rg_chaos_print(const struct rg_chaos_event *event, struct rg_buf *text);
/* In words: "stop rank 1 of host b for 8s (step 20)". rank: -1 for all of the host. */
void rg_chaos_describe(const struct rg_chaos_event *event, int rank, const char *host,
                       struct rg_buf *text);
/* The variable's value for ranks, or nothing where no event is at a step. */
void rg_chaos_put_variable(const struct rg_chaos *chaos, struct rg_buf *text);
/* "kill", for events in JSON. */
const char *rg_chaos_verb_name(enum rg_chaos_verb verb);

#endif
