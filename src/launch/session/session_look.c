/* SPDX-License-Identifier: Apache-2.0 */
/* What can be counted of a session while it runs, for who shows it. */
#include "base/time.h"
#include "launch/session/core/session_facts.h"
#include "launch/session/core/session_stream.h"
#include "launch/session/elastic/session_lateness.h"
#include "launch/session/elastic/session_numbers.h"
#include "launch/session/meet/meet.h"
#include "launch/session/session.h"

/* The number of who is in this place; -1: nobody with a number. */
static int number_of(const struct rg_session *session, int place)
{
    return session->o.job->elastic.on ? session_rank_of(session, place) : place;
}

/* RG_RANKS_STATES: it is not to be counted. */
static enum rg_ranks_state state_of(const struct rg_session *session, int place)
{
    const struct rg_fact *fact = &session->facts[place];
    bool started = session_has_started(session, place);

    if (number_of(session, place) < 0)
        return started && !fact->ended ? RG_RANKS_SPARE : RG_RANKS_STATES;
    if (fact->ended)
        return rg_end_is_good(&fact->end) ? RG_RANKS_SUCCEEDED : RG_RANKS_FAILED;
    return started ? RG_RANKS_RUNNING : RG_RANKS_WAITING;
}

void rg_session_count(const struct rg_session *session, struct rg_session_counts *ret_counts)
{
    const struct rg_plan *plan = session->o.plan;
    struct rg_session_counts counts = { .epoch = session_epoch(session) };

    for (int place = 0; place < plan->nranks; place++) {
        enum rg_ranks_state state = state_of(session, place);
        if (state < RG_RANKS_STATES)
            counts.ranks[state]++;
    }
    for (int host = 0; host < plan->nhosts; host++)
        counts.hosts[session->hosts[host].phase]++;
    *ret_counts = counts;
}

bool rg_session_numbers(const struct rg_session *session, int place,
                        struct rg_session_rank *ret_rank)
{
    struct rg_session_rank told = { .host = session->o.plan->ranks[place].host,
                                    .ended = session->facts[place].ended };
    int rank = number_of(session, place);

    if (rank < 0 ||
        !session_numbers_get(session, (uint32_t) rank, &told.numbers, &told.age_ns))
        return false;
    *ret_rank = told;
    return true;
}

int rg_session_number(const struct rg_session *session, int place)
{
    return number_of(session, place);
}

size_t rg_session_last_lines(const struct rg_session *session, int place,
                             const char *ret_lines[RG_TAIL_LINES])
{
    return session_output_last_lines(session, place, ret_lines);
}

bool rg_session_diagnose(const struct rg_session *session, struct rg_lateness *ret_diagnosis)
{
    return session_diagnose(session, rg_now_ns(), ret_diagnosis) &&
           (ret_diagnosis->late.rank >= 0 || ret_diagnosis->late.host >= 0 ||
            ret_diagnosis->cause != RG_CAUSE_UNKNOWN);
}

bool rg_session_slowed(const struct rg_session *session, struct rg_lateness *ret_diagnosis)
{
    return session_slowed(session, ret_diagnosis);
}
