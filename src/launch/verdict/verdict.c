/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of verdict.h, one function each, without I/O, so that a table can test them. */
#include "launch/verdict/verdict.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "base/exitcode.h"

#define SAME_NS (5 * RG_NS_PER_S) /* in which ranks fail by the same error */

bool rg_end_is_good(const struct rg_rank_end *end)
{
    return end->end == RG_END_EXIT && end->value == 0;
}

static bool has_failed(const struct rg_fact *fact)
{
    return fact->ended && !fact->excused && !rg_end_is_good(&fact->end);
}

/* Stopped by us, whatever came before. */
static bool was_made_to_end(const struct rg_fact *fact)
{
    switch (fact->end.end) {
    case RG_END_LOST: return true;
    case RG_END_NOT_STARTED: return fact->end.value == ECANCELED;
    case RG_END_SIGNAL:
        if (fact->signalled && (uint32_t) fact->end.value == fact->signalled)
            return true;
        break;
    case RG_END_EXIT: break;
    }
    return fact->told || fact->signalled == SIGTERM ||
           fact->signalled == SIGINT || fact->signalled == SIGHUP ||
           fact->signalled == SIGKILL;
}

/* The rank by whose end this one was cut off, or NULL. */
static struct rg_fact *cut_by(const struct rg_facts *facts, const struct rg_fact *fact)
{
    int other = fact->cut_by - 1;

    return other < 0 || other >= facts->nranks || &facts->ranks[other] == fact
               ? NULL : &facts->ranks[other];
}

/* This rank's leaving with exit code 0 is why that one failed. A signal after it is no answer to an
 * error: whoever crashes later has a reason of its own. */
static bool deserted(const struct rg_fact *fact, const struct rg_fact *victim)
{
    return fact->ended && !has_failed(fact) && !was_made_to_end(fact) && has_failed(victim) &&
           victim->end.end == RG_END_EXIT && !was_made_to_end(victim);
}

static bool was_cut_off(const struct rg_facts *facts, const struct rg_fact *fact)
{
    const struct rg_fact *other = cut_by(facts, fact);

    /* One that has not been heard of yet is on its way out. */
    return other && (!other->ended || has_failed(other) || deserted(other, fact));
}

bool rg_verdict_is_consequence(const struct rg_facts *facts, int rank)
{
    const struct rg_fact *fact = &facts->ranks[rank];

    return has_failed(fact) && (was_made_to_end(fact) || was_cut_off(facts, fact));
}

void rg_verdict_describe_end(const struct rg_fact *fact, char *text, size_t nbytes)
{
    const struct rg_rank_end *end = &fact->end;

    switch (end->end) {
    case RG_END_EXIT:
        snprintf(text, nbytes, "exit code %d%s%s", end->value,
                 end->value == 0 && end->in_runtime ? ", without reigen_shutdown" : "",
                 end->oom ? ", after one of its processes was killed because memory ran out" : "");
        break;
    case RG_END_SIGNAL:
        snprintf(text, nbytes, "signal %d (%s)%s", end->value, strsignal(end->value),
                 end->oom ? ", because memory ran out" : "");
        break;
    case RG_END_NOT_STARTED:
        snprintf(text, nbytes, "%s", fact->text && *fact->text ? fact->text : "not started");
        break;
    case RG_END_LOST: snprintf(text, nbytes, "lost with its host"); break;
    }
}

/* "rank 2 on localhost: exit code 7" */
static void describe(const struct rg_fact *fact, char *text, size_t nbytes)
{
    const struct rg_rank_end *end = &fact->end;
    int n = end->engine ? snprintf(text, nbytes, "%s on %s: ", end->engine, end->host)
                        : snprintf(text, nbytes, "rank %d on %s: ", end->rank, end->host);

    if (n > 0 && (size_t) n < nbytes)
        rg_verdict_describe_end(fact, text + n, nbytes - (size_t) n);
}

static int exit_code_of(const struct rg_fact *fact)
{
    switch (fact->end.end) {
    case RG_END_EXIT: return fact->end.value;
    case RG_END_SIGNAL: return RG_EXIT_SIGNAL + fact->end.value;
    case RG_END_NOT_STARTED: return fact->exit_code ? fact->exit_code : RG_EXIT_UNAVAILABLE;
    case RG_END_LOST: break;
    }
    return RG_EXIT_HOST_LOST;
}

static bool earlier(const struct rg_fact *a, const struct rg_fact *b)
{
    return !b || a->end.at_ns < b->end.at_ns;
}

/* Whether the chain of those that cut each other off leads to a rank that was lost. */
static bool died_of_loss(const struct rg_facts *facts, const struct rg_fact *fact)
{
    /* A circle has no end. */
    for (int n = 0; fact && n < facts->nranks; n++) {
        if (fact->end.end == RG_END_LOST)
            return true;
        fact = cut_by(facts, fact);
    }
    return false;
}

static struct rg_fact *find_first(struct rg_facts *facts)
{
    struct rg_fact *first = NULL, *circle = NULL;

    for (int i = 0; i < facts->nranks; i++) {
        struct rg_fact *fact = &facts->ranks[i];
        fact->end.consequence = rg_verdict_is_consequence(facts, i);
        if (has_failed(fact) && !fact->end.consequence && earlier(fact, first))
            first = fact;
        if (has_failed(fact) && !was_made_to_end(fact) && earlier(fact, circle) &&
            !died_of_loss(facts, fact))
            circle = fact;
        struct rg_fact *other = cut_by(facts, fact);
        if (other && deserted(other, fact) && earlier(other, first))
            first = other;
    }
    if (!first && circle && !facts->own_first) {
        first = circle;
        first->end.consequence = false;
    }
    return first;
}

/* It was stopped while it was on its way out by the error that the first had ended by. */
static bool was_failing(const struct rg_fact *first, const struct rg_fact *fact)
{
    return fact->ended && fact->signalled && fact->traceback && first->traceback &&
           fact->error == first->error && !fact->cut_by && !fact->end.oom &&
           fact->end.end != RG_END_LOST;
}

static bool had_same_error(const struct rg_fact *first, const struct rg_fact *fact)
{
    if (was_failing(first, fact))
        return true;
    if (!fact->ended || fact->end.end != RG_END_EXIT || fact->end.value != first->end.value ||
        fact->end.oom || fact->signalled || fact->cut_by || fact->error != first->error ||
        fact->end.at_ns > first->end.at_ns + SAME_NS)
        return false;
    return fact->error || (!fact->told && fact->lines == first->lines);
}

static void mark_same(struct rg_facts *facts, struct rg_fact *first)
{
    bool usable = first->end.end == RG_END_EXIT && first->end.value != 0 && !first->end.oom &&
                  !first->signalled && !first->cut_by;

    for (int i = 0; usable && i < facts->nranks; i++) {
        struct rg_fact *fact = &facts->ranks[i];
        if (fact == first || !had_same_error(first, fact))
            continue;
        first->end.same = fact->end.same = true;
        fact->end.consequence = false;
    }
}

/* The earliest of those that first deserted; it is there, or first would not be first. */
static struct rg_fact *first_victim(const struct rg_facts *facts, struct rg_fact *first)
{
    struct rg_fact *victim = NULL;

    for (int i = 0; i < facts->nranks; i++) {
        struct rg_fact *fact = &facts->ranks[i];
        if (cut_by(facts, fact) == first && deserted(first, fact) && earlier(fact, victim))
            victim = fact;
    }
    return victim ? victim : first;
}

/* Nothing but consequences, and no cause of our own: whoever ended badly first must do. */
static struct rg_fact *find_any_failed(struct rg_facts *facts)
{
    struct rg_fact *any = NULL;

    for (int i = 0; i < facts->nranks; i++) {
        if (has_failed(&facts->ranks[i]) && earlier(&facts->ranks[i], any))
            any = &facts->ranks[i];
    }
    return any;
}

/* By the exit code that says so. */
static bool has_saved(const struct rg_fact *fact)
{
    return fact->end.end == RG_END_EXIT && fact->end.value == RG_EXIT_PREEMPTED;
}

static void judge_own(struct rg_facts *facts, struct rg_verdict *verdict)
{
    bool all_well = true, all_saved = facts->own_is_signal;

    for (int i = 0; i < facts->nranks; i++) {
        struct rg_fact *fact = &facts->ranks[i];
        bool failed = has_failed(fact);
        all_well &= fact->ended && !failed;
        all_saved &= !failed || has_saved(fact);
        fact->end.consequence = failed;
    }
    if (facts->own_is_signal && all_well)
        return;
    verdict->ok = false;
    verdict->exit_code = all_saved ? RG_EXIT_PREEMPTED : facts->own_exit_code;
    verdict->cause = facts->own_cause;
}

/* 1 is also what Open MPI's mpirun says when it is told to end, and 128 + n what a shell says of a
 * program that died: nobody has chosen these. */
static bool script_decides(const struct rg_facts *facts)
{
    return facts->own_is_signal && facts->script && facts->ranks[0].ended &&
           facts->ranks[0].end.end == RG_END_EXIT && facts->ranks[0].end.value != 1 &&
           facts->ranks[0].end.value <= RG_EXIT_SIGNAL;
}

void rg_verdict_judge(struct rg_facts *facts, char cause[RG_CAUSE_MAX],
                      struct rg_verdict *ret_verdict)
{
    struct rg_fact *first = find_first(facts);

    ret_verdict->ok = true;
    ret_verdict->exit_code = 0;
    ret_verdict->cause = "";
    ret_verdict->first = ret_verdict->code_of = NULL;
    if (*facts->own_cause && (facts->own_first || !first) && !script_decides(facts)) {
        judge_own(facts, ret_verdict);
    } else if (first || (first = find_any_failed(facts))) {
        struct rg_fact *victim = has_failed(first) ? first : first_victim(facts, first);
        describe(first, cause, RG_CAUSE_MAX);
        if (victim != first)
            snprintf(cause + strlen(cause), RG_CAUSE_MAX - strlen(cause),
                     ", while others waited for it");
        mark_same(facts, first);
        ret_verdict->ok = false;
        ret_verdict->exit_code = exit_code_of(victim);
        ret_verdict->cause = cause;
        ret_verdict->first = &first->end;
        ret_verdict->code_of = &victim->end;
    }
    if (ret_verdict->ok && *facts->output_lost) {
        ret_verdict->ok = false;
        ret_verdict->exit_code = RG_EXIT_OUTPUT_LOST;
        ret_verdict->cause = facts->output_lost;
    }
}
