/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank looks at its own process only, and all that is put together is their word. */
#include "coll/observe/deadlock.h"

#include <string.h>

#include "base/time.h"
#include "coll/ground/config.h"
#include "coll/progress/progress.h"

#define LONG_NS RG_NS_PER_S /* shorter waits cost no look at threads */
#define NEAR_NS (6 * RG_NS_PER_S) /* before the limit threads are looked at each second */
#define LATER_PART 8 /* of a wait, until one is looked for again */

static uint64_t limit_ms(const struct rg_progress *progress)
{
    return progress->world ? 0 : progress->config->deadlock_ms;
}

/* This rank has not yet carried out all that is decided. */
static bool is_at_work(const struct rg_progress *progress)
{
    const struct rg_view *view = &progress->view;

    return rg_runlog_tail(&view->log) > atomic_load(&view->rows[view->me].consumed);
}

/* Something of this process set is waited for, or carried out. */
static bool is_set_used(struct rg_progress *progress)
{
    struct rg_wait wait = { .id = 0 };

    return is_at_work(progress) || atomic_load(&progress->wake.nwaiters) > 0 ||
           atomic_load(&progress->polled.n) > 0 || rg_waits_next(progress, &wait);
}

void rg_deadlock_note(struct rg_progress *progress, struct rg_deadlock *deadlock, uint64_t now)
{
    struct rg_row *row = &progress->view.rows[progress->view.me];
    uint64_t since = atomic_load(&row->waits_ns), rests = atomic_load(&row->rests_ns);
    uint64_t done = atomic_load(&row->nsubmitted) + atomic_load(&row->consumed);
    bool waits = since && rg_wait_age_ns(now, since) >= LONG_NS &&
                 (atomic_load(&progress->wake.nwaiters) > 0 || rg_rest_goes_on()) &&
                 !is_at_work(progress);
    bool near = rests && rg_wait_age_ns(now, rests) + NEAR_NS >= limit_ms(progress) * RG_NS_PER_MS;

    if (limit_ms(progress))
        atomic_store(&row->rests_ns, rg_rest_look(&deadlock->rest, now, waits, done, near));
    else if (progress->config->deadlock_ms && is_set_used(progress))
        rg_rest_stir();
}

bool rg_deadlock_rests(const struct rg_progress *progress, int r, uint64_t now)
{
    uint64_t since = atomic_load(&progress->view.rows[r].rests_ns);
    uint64_t limit_ns = limit_ms(progress) * RG_NS_PER_MS;

    return limit_ns && since && rg_wait_age_ns(now, since) >= limit_ns &&
           !rg_waits_stopped(&progress->view, r, now);
}

bool rg_deadlock_is_due(const struct rg_progress *progress, struct rg_deadlock *deadlock,
                        uint64_t now, uint64_t longest_ms)
{
    if (!limit_ms(progress) || longest_ms < limit_ms(progress) ||
        longest_ms < deadlock->looked_ms + deadlock->looked_ms / LATER_PART)
        return false;
    for (int r = 0; r < progress->view.n; r++) {
        if (!rg_deadlock_rests(progress, r, now))
            return false;
    }
    deadlock->looked_ms = longest_ms;
    return true;
}

void rg_deadlock_find(const struct rg_progress *progress, struct rg_deadlock *deadlock,
                      const struct rg_stall_facts *facts, struct rg_buf *out)
{
    uint64_t than_ms = limit_ms(progress);
    rg_autobuf struct rg_buf told = RG_BUF_INIT;

    deadlock->found = than_ms && rg_stall_facts_is_deadlock(facts, than_ms, true);
    if (!deadlock->found)
        return;
    rg_buf_printf(out, "all ranks have waited for each other for more than %.6g s, and nothing "
                  "else runs in them (--deadlock-timeout):\n",
                  (double) than_ms / 1000);
    rg_stall_facts_tell(facts, than_ms, &told);
    for (const char *line = rg_buf_text(&told); *line; line += strcspn(line, "\n") + 1)
        rg_buf_printf(out, "  %.*s\n", (int) strcspn(line, "\n"), line);
}

bool rg_deadlock_warn(const struct rg_progress *progress, const struct rg_stall_facts *facts,
                      uint64_t than_ms, struct rg_buf *out)
{
    if (!limit_ms(progress) || !rg_stall_facts_is_deadlock(facts, than_ms, false))
        return false;
    rg_buf_printf(out, "If nothing else runs in any rank, this ends the job after %.6g s "
                  "(--deadlock-timeout).\n", (double) limit_ms(progress) / 1000);
    return true;
}

void rg_deadlock_explain(const struct rg_progress *progress, const struct rg_stall_facts *facts,
                         uint64_t longest_ms, struct rg_buf *out)
{
    uint64_t than_ms = limit_ms(progress);
    rg_autobuf struct rg_buf why = RG_BUF_INIT;

    if (!than_ms || longest_ms < than_ms || !rg_stall_facts_is_deadlock(facts, than_ms, false))
        return;
    rg_stall_facts_tell_unrest(facts, &why);
    if (rg_buf_nbytes(&why) == 0)
        return;
    if (rg_buf_nbytes(out) && rg_buf_text(out)[rg_buf_nbytes(out) - 1] != '\n')
        rg_buf_printf(out, "\n");
    rg_buf_printf(out, "--deadlock-timeout does not end this: %s.\n", rg_buf_text(&why));
}
