/* SPDX-License-Identifier: Apache-2.0 */
/* An operation in flight, and who does nothing for it. */
#include "coll/observe/stuck.h"

#include <stdio.h>

#include "coll/boot/boot.h"
#include "coll/ground/report.h"
#include "coll/negotiate/order.h"
#include "coll/observe/process.h"
#include "coll/observe/stall_facts.h"
#include "coll/progress/progress.h"

#define SHOWN 4 /* ranks */

bool rg_stuck_has_launcher(const struct rg_progress *progress)
{
    return progress->boot && rg_boot_way(progress->boot)->shows_notes;
}

void rg_stuck_say(struct rg_progress *progress, const char *text)
{
    if (!rg_stuck_has_launcher(progress))
        rg_report(RG_LOG_WARN, "%s", text);
    if (progress->boot)
        rg_boot_note(progress->boot, 2, text);
}

void rg_stuck_put_process(struct rg_buf *out, const struct rg_team_peer *peer)
{
    struct rg_proc_state process;

    rg_buf_printf(out, "on %s: ", peer->host[0] ? peer->host : "this host");
    if (peer->pid <= 0) {
        rg_buf_printf(out, "its process cannot be seen from here");
        return;
    }
    rg_proc_state_read(peer->pid, &process);
    rg_buf_printf(out, "process %d is %s", (int) peer->pid, process.word);
    if (process.where[0])
        rg_buf_printf(out, " in %s", process.where);
}

static void put_rank(struct rg_progress *progress, struct rg_buf *out, int rank)
{
    rg_buf_printf(out, "\nRank %d does not go on with it; ",
                  rg_team_world_rank(progress->team, rank));
    rg_stuck_put_process(out, &progress->team->peers[rank]);
    rg_buf_printf(out, ".");
}

/* Ranks of this node that are stopped, appended; how many. */
static int put_here(struct rg_progress *progress, uint64_t now, struct rg_buf *out)
{
    const struct rg_view *view = &progress->view;
    int n = 0;

    for (int r = 0; r < view->n; r++) {
        if (r != view->me && rg_waits_stopped(view, r, now) && ++n <= SHOWN)
            put_rank(progress, out, view->ranks[r]);
    }
    return n;
}

/* Leaders beside this one in the tree that are silent; of those below one the first one tells. */
static int put_beside(struct rg_progress *progress, uint64_t now, struct rg_buf *out)
{
    const struct rg_team *team = progress->team;
    const struct rg_order *order = rg_multi_order(progress);
    int above = rg_order_above(order, team->node), n = 0;
    bool first = team->node > 0 && rg_order_above(order, team->node - 1) != above;

    for (int node = 0; node < team->nnodes; node++) {
        if ((node != above || first) &&
            rg_order_silent_ns(order, node, now) >= RG_STUCK_SILENT_NS && ++n <= SHOWN)
            put_rank(progress, out, team->leaders[node]);
    }
    return n;
}

/* Whether there was anything to say, as n ranks do nothing: who has their lines. */
static bool tell(struct rg_progress *progress, uint64_t now, uint64_t ms, int n,
                 struct rg_buf *who)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;
    uint32_t id = 0;
    char set[40] = "";

    if (n == 0 || rg_waits_running_ns(progress, now, &id) == 0)
        return false;
    if (progress->process_set)
        snprintf(set, sizeof(set), " (process set %d)", progress->process_set);
    rg_buf_printf(&out, "ranks have waited for others for more than %llu s%s:\nAll have called ",
                  (unsigned long long) ms / 1000, set);
    rg_stall_key_print(progress->view.entries[id].key, &out);
    rg_buf_printf(&out, ", and it is not done yet.%s%s", rg_buf_text(who),
                  n > SHOWN ? "\nOther ranks do not go on with it either." : "");
    if (rg_buf_status(&out) == 0)
        rg_stuck_say(progress, rg_buf_text(&out));
    return true;
}

bool rg_stuck_leaving(struct rg_progress *progress, uint64_t waited_ns)
{
    rg_autobuf struct rg_buf who = RG_BUF_INIT, out = RG_BUF_INIT;

    if (put_beside(progress, rg_now_ns(), &who) == 0)
        return false;
    rg_buf_printf(&out, "ranks have waited in shutdown for %llu s:%s",
                  (unsigned long long) (waited_ns / RG_NS_PER_S), rg_buf_text(&who));
    if (rg_buf_status(&out) == 0)
        rg_stuck_say(progress, rg_buf_text(&out));
    return true;
}

/* It goes on, or the rank is at something else. */
static void rest(struct rg_progress *progress, struct rg_stuck *stuck, uint64_t now)
{
    uint64_t told_ns = atomic_exchange(&stuck->told_ns, 0);
    uint64_t since_ns = stuck->since_ns ? stuck->since_ns : told_ns;
    char text[80];

    stuck->since_ns = 0;
    atomic_store(&stuck->asked_ms, 0);
    atomic_store(&stuck->told, false);
    if (since_ns == 0)
        return;
    snprintf(text, sizeof(text), "the job goes on after %llu s",
             (unsigned long long) (rg_wait_age_ns(now, since_ns) / RG_NS_PER_S));
    rg_stuck_say(progress, text);
}

bool rg_stuck_is_due(struct rg_stuck *stuck, uint64_t ms, uint64_t limit_ms)
{
    if (ms < limit_ms || stuck->next_ms < limit_ms)
        stuck->next_ms = limit_ms;
    if (ms >= limit_ms && atomic_exchange(&stuck->told, false)) {
        while (stuck->next_ms <= ms)
            stuck->next_ms *= 2;
    }
    return ms >= stuck->next_ms;
}

void rg_stuck_tick(struct rg_progress *progress, struct rg_stuck *stuck, uint64_t now,
                   uint64_t limit_ms, bool reporter)
{
    rg_autobuf struct rg_buf who = RG_BUF_INIT;
    uint32_t id = 0;
    uint64_t ns = rg_waits_running_ns(progress, now, &id), ms = ns / RG_NS_PER_MS;

    if (ms < limit_ms)
        rest(progress, stuck, now);
    if (!rg_stuck_is_due(stuck, ms, limit_ms) || !reporter)
        return;
    int n = put_here(progress, now, &who);

    if (tell(progress, now, ms, n, &who)) {
        stuck->since_ns = now - ns;
        atomic_store(&stuck->told, true);
    } else if (progress->multi) {
        atomic_store(&stuck->asked_ms, ms);
    }
}

void rg_stuck_drive(struct rg_progress *progress, struct rg_stuck *stuck)
{
    rg_autobuf struct rg_buf who = RG_BUF_INIT;
    uint64_t ms = atomic_load_explicit(&stuck->asked_ms, memory_order_relaxed);

    if (ms == 0)
        return;
    ms = atomic_exchange(&stuck->asked_ms, 0);
    uint64_t now = rg_now_ns();
    int n = ms ? put_beside(progress, now, &who) : 0;

    if (tell(progress, now, ms, n, &who)) {
        atomic_store(&stuck->told_ns, now - ms * RG_NS_PER_MS);
        atomic_store(&stuck->told, true);
    }
}
