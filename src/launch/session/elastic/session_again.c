/* SPDX-License-Identifier: Apache-2.0 */
/* What fails twice in the same way is the program's fault, or the host's: of the program's nothing
 * helps but its author, of the host's another one. */
#include "launch/session/elastic/session_again.h"

#include <string.h>

#include "launch/session/core/session_failure.h"
#include "launch/session/meet/meet.h"

/* Who is to blame for this place's end: itself, or whoever cut it off. -1: not known yet, or it
 * has not ended. */
static int blamed_by(const struct rg_session *session, int place)
{
    int other = session->facts[place].cut_by - 1;

    if (other < 0 || other >= session->o.plan->nranks)
        other = place;
    return session->facts[other].ended && !rg_end_is_good(&session->facts[other].end) ? other : -1;
}

static struct rg_failure failure_of(const struct rg_session *session, int place)
{
    struct rg_failure failure = { .kind = RG_FAILURE_UNKNOWN, .far = { -1, -1 } };
    int blamed = place < 0 ? -1 : blamed_by(session, place);

    if (blamed >= 0)
        session_failure_take(session, blamed, session_rank_of(session, blamed), &failure);
    return failure;
}

/* Machines have the numbers in which they came; several users of one host are several. -1 */
static int machine_of(const struct rg_session *session, int place)
{
    const struct session_elastic *elastic = session->elastic;
    const struct rg_plan_host *host =
        &session->o.plan->hosts[session->o.plan->ranks[place].host];

    for (size_t i = 0; i < elastic->nmachines; i++) {
        if (strcmp(elastic->machines[i].name, host->name) == 0)
            return (int) i;
    }
    return -1;
}

bool session_again_blames_host(struct rg_session *session, int place)
{
    const struct session_elastic *elastic = session->elastic;

    if (elastic->failures[0].kind < RG_FAILURE_MEMORY || session->facts[place].cut_by)
        return false;
    struct rg_failure now = failure_of(session, place);
    int machine = machine_of(session, place);

    return rg_failure_blames_host(&elastic->failures[0], &now) && machine >= 0 &&
           rg_membership_without(elastic->membership, &machine, 1) >=
               session->o.job->elastic.min_np;
}

/* The host is not used any more, so the next attempt is another one. */
static bool is_mended(const struct rg_session *session, int place)
{
    const struct session_elastic *elastic = session->elastic;
    int machine = machine_of(session, place);
    struct rg_membership_aside aside;

    return machine >= 0 && rg_failure_blames_host(&elastic->failures[0], &elastic->failures[1]) &&
           rg_membership_aside(elastic->membership, machine, &aside);
}

void session_again_lost(struct rg_session *session)
{
    session_failure_came_from_outside(session, &session->elastic->failures[0]);
}

static bool compare(struct rg_session *session, int place)
{
    struct session_elastic *elastic = session->elastic;

    elastic->failures[1] = failure_of(session, place);
    session_failure_note_steps(session, &elastic->failures[1]);
    if (!session->o.job->restart_always && place >= 0 && !is_mended(session, place) &&
        rg_failure_is_vain(&elastic->failures[0], &elastic->failures[1])) {
        session->twice = elastic->failures;
        return true;
    }
    elastic->failures[0] = elastic->failures[1];
    return false;
}

/* 1 + who cut that place off and is still on its way out; 0: nobody. */
static int culprit_of(const struct rg_session *session, int place)
{
    int other = place < 0 ? -1 : session->facts[place].cut_by - 1;

    return other >= 0 && other < session->o.plan->nranks && !session->facts[other].ended
               ? 1 + other : 0;
}

bool session_again_is_vain(struct rg_session *session, int place)
{
    struct session_elastic *elastic = session->elastic;

    elastic->culprit = culprit_of(session, place);
    return !elastic->culprit && compare(session, place);
}

bool session_again_explains(struct rg_session *session, int rank)
{
    struct session_elastic *elastic = session->elastic;
    struct rg_fact *fact = &session->facts[rank];

    if (elastic->culprit != 1 + rank)
        return false;
    elastic->culprit = 0;
    if (rg_end_is_good(&fact->end) ||
        (fact->end.end == RG_END_SIGNAL && (uint32_t) fact->end.value == fact->signalled))
        return false; /* what it would have ended with, it could not show */
    if (!compare(session, rank))
        return false;
    fact->signalled = 0; /* it had left its victim before it was told to end */
    return true;
}
