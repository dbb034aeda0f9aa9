/* SPDX-License-Identifier: Apache-2.0 */
/* Facts, last lines and times lie in different parts of the session: here they come together. */
#include "launch/session/core/session_failure.h"

#include "launch/session/core/session_stream.h"
#include "launch/verdict/tail.h"

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
