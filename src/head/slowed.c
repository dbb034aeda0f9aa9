/* SPDX-License-Identifier: Apache-2.0 */
/* One line at the end: while the job runs, reigen top tells more. */
#include "head/slowed.h"

#include "base/say.h"

static const char *name_of(const struct rg_plan *plan, int host)
{
    return host >= 0 && host < plan->nhosts ? plan->hosts[host].name : NULL;
}

/* "rank 3 on node2 was waited for 31 % of the time: slow input: ..." */
static void put_words(const struct rg_lateness *diagnosis, const char *host, const char *to,
                      struct rg_buf *words)
{
    int rank = diagnosis->late.rank;
    double percent = 100 * diagnosis->share;

    if (rank >= 0)
        rg_shown_printf(words, "reigen: rank %d%s%s", rank, host ? " on " : "", host ? host : "");
    else if (host && diagnosis->cause != RG_CAUSE_SLOW_LINK)
        rg_shown_printf(words, "reigen: host %s", host);
    else
        rg_shown_printf(words, "reigen: ranks");
    rg_shown_printf(words, diagnosis->cause == RG_CAUSE_SLOW_LINK ? " waited %.0f %% of the time"
                           : rank >= 0 || host ? " was waited for %.0f %% of the time"
                                               : " waited for each other %.0f %% of the time",
                    percent);
    if (diagnosis->cause) {
        rg_shown_printf(words, ": ");
        rg_lateness_put(diagnosis, host ? host : "?", to ? to : "?", words);
    }
    rg_shown_printf(words, "\n");
}

void rg_head_slowed_tell(const struct rg_session *session, struct rg_presenter *shown,
                         struct rg_buf *words)
{
    const struct rg_plan *plan = &shown->planned->plan;
    struct rg_lateness diagnosis;

    if (!session || !rg_session_slowed(session, &diagnosis))
        return;
    const char *host = name_of(plan, diagnosis.late.host), *to = name_of(plan, diagnosis.to);

    if (shown->ops->slowed)
        shown->ops->slowed(shown, &diagnosis, host, to);
    if (words)
        put_words(&diagnosis, host, to, words);
}
