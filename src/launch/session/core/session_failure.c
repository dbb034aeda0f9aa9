/* SPDX-License-Identifier: Apache-2.0 */
/* Facts, last lines and times lie in different parts of the session: here they come together. */
#include "launch/session/core/session_failure.h"

#include "launch/session/core/session_stream.h"
#include "launch/verdict/tail.h"

/* Whoever computed with ranks of a host that is gone may have failed for that, whatever its own
 * words are, and is heard first where the host is only silent. */
static bool some_were_lost(const struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nranks; i++) {
        const struct rg_rank_end *end = &session->facts[i].end;
        if (session->facts[i].ended && end->end == RG_END_LOST && end->at_ns >= session->began_ns)
            return true;
    }
    return false;
}

void session_failure_came_from_outside(const struct rg_session *session,
                                       struct rg_failure *failure)
{
    if ((failure->kind == RG_FAILURE_ERROR || failure->kind == RG_FAILURE_CRASH) &&
        some_were_lost(session))
        failure->kind = RG_FAILURE_OUTSIDE;
}

void session_failure_take(const struct rg_session *session, int place, int rank,
                          struct rg_failure *ret_failure)
{
    const struct rg_rank_end *end = &session->facts[place].end;
    const char *errors[RG_TAIL_LINES], *lines[RG_TAIL_LINES];
    struct rg_failure_lines of_errors = {
        errors, session_output_last_errors(session, place, errors) };
    struct rg_failure_lines all = { lines, session_output_last_lines(session, place, lines) };
    uint64_t ran_ns = end->at_ns > session->began_ns ? end->at_ns - session->began_ns : 0;

    rg_failure_take(end, rank, ran_ns, &of_errors, &all, ret_failure);
    session_failure_came_from_outside(session, ret_failure);
}

void session_failure_note_steps(const struct rg_session *session, struct rg_failure *failure)
{
    for (int i = 0; i < session->o.plan->nranks; i++) {
        const struct rg_fact *fact = &session->facts[i];
        if (fact->ended && fact->end.at_ns < session->began_ns) /* in an attempt before */
            continue;
        session_output_marks(session, i, &failure->far);
    }
}
