/* SPDX-License-Identifier: Apache-2.0 */
/* A platform says that it takes a host away; how long that takes, it has said before or never. */
#include "launch/session/elastic/notice.h"

#include "base/exitcode.h"
#include "launch/session/core/session_end.h"
#include "launch/session/core/session_facts.h"
#include "launch/session/elastic/elastic_state.h"
#include "launch/session/remote/remote.h"

#define NOTICE_MS 25000 /* of the 30 s that most platforms leave between SIGTERM and SIGKILL */

/* More for ranks that are given more, and less in a job that gives them little. */
static uint64_t guess_ms(const struct rg_job *job)
{
    uint64_t ms = job->grace_ms < NOTICE_MS / 5 ? job->grace_ms * 5 : NOTICE_MS;

    return job->grace_ms > ms ? job->grace_ms : ms;
}

uint64_t session_notice_until_ns(const struct rg_session *session)
{
    const struct rg_job *job = session->o.job;
    uint64_t ms = job->notice_ms ? rg_job_until_term_ms(job, job->notice_ms) : guess_ms(job);

    return elastic_now_ns(session) + ms * RG_NS_PER_MS;
}

void session_notice_given(struct rg_session *session, const char *what, uint64_t within_ms)
{
    const struct rg_elastic *asked = &session->o.job->elastic;

    if (!session_is_open(session) || rg_membership_finishing(session->elastic->membership))
        return;
    int has = rg_membership_without(session->elastic->membership, NULL, 0);
    if (has >= asked->min_np)
        return;
    if (asked->discovery || asked->cooldown_max_ms) {
        elastic_tell(session, RG_UPDATE_AT_RISK);
        return;
    }
    session_set_cause(session, RG_EXIT_PREEMPTED,
                      "%s, there is room for %d rank%s without it, and it takes %d (--min-np)",
                      what, has, has == 1 ? "" : "s", asked->min_np);
    session_begin_stop(session, within_ms);
    if (session_none_runs(session))
        session_release(session);
}
