/* SPDX-License-Identifier: Apache-2.0 */
/* When a stall is reported, by whom, and what of. */
#include "coll/observe/stall.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "coll/boot/boot.h"
#include "coll/ground/config.h"
#include "coll/ground/report.h"
#include "coll/negotiate/order.h"
#include "coll/observe/deadlock.h"
#include "coll/observe/stall_facts.h"
#include "coll/observe/stuck.h"
#include "coll/observe/where.h"
#include "coll/progress/progress.h"

#define OPS_MAX 256
#define BLOCKED_NS (4 * RG_NS_PER_S)
#define BLOCKED_BUSY_NS (10 * RG_NS_PER_S)
#define GATHER_NS (700 * RG_NS_PER_MS) /* for other leaders to answer */
#define LEARNT_MIN_MS 3000  /* a wait is first seen up to a second late */
#define LEARNT_MAX_MS 30000 /* the same, where steps are long */
#define TOLD_SLACK_MS 3000
#define LEADER_MS 4000 /* for the coordinator to end the job */
#define DYING_MS 60000 /* who fails has so long to end, until more is said of where it is */
#define OFFERED_MS 60000 /* a time after which people may want such a job to end */

/* At the coordinator, under the drive lock: a report that waits for the other leaders' answers. */
struct gathering {
    uint64_t deadline_ns; /* 0: there is none */
    uint64_t longest_ms;
    bool quiet;           /* nothing is said, unless it is a deadlock at rest */
    char **answers; /* by node; owned */
    int nnodes, nanswers;
};

struct rg_stall {
    struct rg_stall *world;   /* of a process set: that of all ranks */
    pthread_mutex_t lock;
    uint64_t next_ms; /* report when the oldest has waited so long; 0: not yet set */
    _Atomic uint64_t asked_ms; /* leader: the driver is to see to a wait so long; 0: nothing */
    struct gathering gathering;
    uint64_t due_ms; /* a report of a wait so long is due, when ranks have said where they are */
    bool due_quiet;  /* as in gathering */
    struct rg_where_question question, asked_by_others;
    struct rg_deadlock deadlock;
    _Atomic uint64_t due_since_ns; /* leader: when the wait began that the driver has told of */
    _Atomic bool over;      /* leader: it has ended, which the driver is to tell */
    uint64_t *told;         /* what was reported, as rg_stall_facts_is_news has it; owned */
    bool telling;           /* that goes on */
    uint64_t told_since_ns; /* when that wait began */
    bool told_end; /* of all ranks: how the wait may end has been said */
    struct rg_stuck stuck;
    uint64_t told_ms, told_ns; /* coordinator: how long a wait was reported last, and when */
};

int rg_stall_create(struct rg_stall *world, struct rg_stall **ret_stall)
{
    struct rg_stall *stall = calloc(1, sizeof(*stall));

    if (!stall)
        return -ENOMEM;
    stall->world = world;
    pthread_mutex_init(&stall->lock, NULL);
    *ret_stall = stall;
    return 0;
}

static void drop_gathered(struct gathering *gathering)
{
    for (int node = 0; node < gathering->nnodes; node++)
        free(gathering->answers[node]);
    free(gathering->answers);
    *gathering = (struct gathering){ 0 };
}

void rg_stall_destroy(struct rg_stall *stall)
{
    if (!stall)
        return;
    pthread_mutex_destroy(&stall->lock);
    drop_gathered(&stall->gathering);
    free(stall->told);
    free(stall);
}

/* What is waited for so long may be reported, whatever steps have taken. */
static uint64_t least_ms(const struct rg_config *config)
{
    uint64_t ms = config->stall_learns ? LEARNT_MIN_MS : config->stall_ms;

    return config->stall_learns && config->stall_shutdown_ms && config->stall_shutdown_ms < ms
               ? config->stall_shutdown_ms
               : ms;
}

/* What is waited for so long is reported. Ranks that wait for each other in each step do so for a
 * part of it. */
static uint64_t limit_ms(const struct rg_progress *progress)
{
    const struct rg_config *config = progress->config;
    uint64_t step_ms = rg_waits_step_ns(progress) / RG_NS_PER_MS, ms = config->stall_ms;

    if (!config->stall_learns)
        return ms;
    if (rg_waits_step_ns(progress))
        ms = step_ms / 2 < LEARNT_MIN_MS   ? LEARNT_MIN_MS
             : step_ms / 2 > LEARNT_MAX_MS ? LEARNT_MAX_MS
                                           : step_ms / 2;
    return config->stall_shutdown_ms && config->stall_shutdown_ms < ms ? config->stall_shutdown_ms
                                                                       : ms;
}

/* For who.detail; NULL: no memory. */
static char *describe_rank(struct rg_progress *progress, int r, uint64_t now)
{
    const struct rg_view *view = &progress->view;
    uint32_t last = atomic_load(&view->rows[r].last_id);
    rg_autobuf struct rg_buf out = RG_BUF_INIT;

    rg_stuck_put_process(&out, &progress->team->peers[view->ranks[r]]);
    rg_buf_printf(&out, last ? "; it called " : "; it has called nothing yet");
    if (last) {
        rg_stall_key_print(view->entries[last - 1].key, &out);
        rg_buf_printf(&out, " last, about %llu s ago",
                      (unsigned long long) ((now - rg_waits_active_ns(progress, r, now)) /
                                            RG_NS_PER_S));
    }
    return rg_buf_status(&out) < 0 ? NULL : strdup(rg_buf_text(&out));
}

/* A thread of the rank waits, and it calls nothing. While it computes, another thread may be about
 * to call something. */
static bool is_blocked(struct rg_progress *progress, int r, uint64_t now)
{
    uint64_t limit = least_ms(progress->config) * RG_NS_PER_MS / 2;

    limit = limit > BLOCKED_NS ? BLOCKED_NS : limit;
    if (atomic_load(&progress->view.rows[r].computes))
        limit = BLOCKED_BUSY_NS;
    return rg_waits_blocked(progress, r, now, limit);
}

static uint64_t wait_ms(const struct rg_wait *wait, uint64_t now)
{
    uint64_t here = wait->epoch ? rg_wait_age_ns(now, wait->since_ns) : 0;
    uint64_t elsewhere = wait->offered_ns ? rg_wait_age_ns(now, wait->offered_ns) : 0;

    return (here > elsewhere ? here : elsewhere) / RG_NS_PER_MS;
}

static void note_op(struct rg_progress *progress, struct rg_stall_facts *facts,
                    const struct rg_wait *wait, uint64_t now)
{
    const struct rg_view *view = &progress->view;
    struct rg_stall_op *op = rg_stall_facts_op(facts, view->entries[wait->id].key);

    if (!op)
        return;
    op->age_ms = wait_ms(wait, now);
    op->times = atomic_load(&rg_view_place(view, view->me, wait->id)->done);
    for (int r = 0; r < view->n; r++) {
        bool owes = wait->epoch && rg_view_owes(view, r, wait->id, wait->epoch);

        op->states[view->ranks[r]] = atomic_load(&view->rows[r].joined) ? RG_STALL_JOINED
                                     : owes                            ? RG_STALL_OWES
                                                                       : RG_STALL_CALLED;
    }
}

/* Those that have waited for long, or the others. The former come first: there is room for OPS_MAX,
 * and a rank may have called many more a moment ago. */
static void note_ops(struct rg_progress *progress, struct rg_stall_facts *facts, uint64_t now,
                     bool old)
{
    uint64_t than_ms = least_ms(progress->config) / 2;
    struct rg_wait wait = { .id = 0 };

    for (; facts->nops < OPS_MAX && rg_waits_next(progress, &wait); wait.id++) {
        if ((wait_ms(&wait, now) >= than_ms) == old)
            note_op(progress, facts, &wait, now);
    }
}

/* What is known of this node's ranks. Under the lock, after a look. */
static void collect(struct rg_progress *progress, struct rg_stall_facts *facts, uint64_t now)
{
    const struct rg_view *view = &progress->view;

    for (int r = 0; r < view->n; r++) {
        struct rg_stall_who *who = &facts->who[view->ranks[r]];
        const struct rg_where *where = rg_where_of(progress, r);

        who->blocked = is_blocked(progress, r, now);
        who->rests = who->blocked && rg_deadlock_rests(progress, r, now);
        who->fails = atomic_load(&view->rows[r].fails) != 0;
        free(who->detail);
        who->detail = describe_rank(progress, r, now);
        if (where) {
            rg_stall_facts_place(facts, view->ranks[r], where->place, where->call);
            rg_stall_facts_unrest(facts, view->ranks[r], where->unrest);
        }
    }
    note_ops(progress, facts, now, true);
    note_ops(progress, facts, now, false);
}

/* --- several nodes: the coordinator asks the other leaders first ------------------------------ */

/* The ranks of a node, ascending; how many. */
static int ranks_of(const struct rg_team *team, int node, int *ret_ranks)
{
    int n = 0;

    for (int rank = 0; rank < team->size; rank++) {
        if (team->peers[rank].node == node)
            ret_ranks[n++] = rank;
    }
    return n;
}

/* The node nearest to this one which all that it says comes by, and which does not answer; 0: there
 * is none. */
static int cut_off_by(struct rg_progress *progress, const struct gathering *gathering, int node)
{
    while ((node = rg_order_above(rg_multi_order(progress), node)) > 0)
        if (!gathering->answers[node])
            return node;
    return 0;
}

/* Ranks of whose nodes nothing is known of an operation: those that are cut off, or the others. All
 * of a node have called it where their leader has offered it, else none has. Those that are cut off
 * may have called it: they are named only where nobody else is. */
static void guess_op(struct rg_progress *progress, const struct gathering *gathering,
                     struct rg_stall_op *op, const bool *owing, bool cut_off)
{
    const struct rg_team *team = progress->team;
    bool blames = !cut_off || !strchr(op->states, RG_STALL_OWES);

    for (int rank = 0; rank < team->size; rank++) {
        int node = team->peers[rank].node;
        bool is_cut_off = node != team->node && !gathering->answers[node] &&
                          cut_off_by(progress, gathering, node) > 0;

        if (op->states[rank] != RG_STALL_UNKNOWN || is_cut_off != cut_off)
            continue;
        if (!owing[node])
            op->states[rank] = RG_STALL_CALLED;
        else if (blames)
            op->states[rank] = RG_STALL_OWES;
    }
}

/* By node: who is behind with this operation, as far as nobody has said so himself. Others have
 * answered at different moments, and meanwhile it may have got done here: then only who does not
 * answer may still be behind. */
static void find_missing(struct rg_progress *progress, const struct gathering *gathering,
                         const struct rg_stall_op *op, bool *missing)
{
    const struct rg_team *team = progress->team;
    int nmissing;

    memset(missing, true, (size_t) team->nnodes * sizeof(*missing));
    nmissing = rg_order_missing(rg_multi_order(progress), op->name, missing);
    if (!rg_stall_op_is_over(op, progress->view.ranks[0], nmissing))
        return;
    for (int node = 0; node < team->nnodes; node++)
        missing[node] = node != team->node && !gathering->answers[node];
}

static void guess(struct rg_progress *progress, const struct gathering *gathering,
                  struct rg_stall_facts *facts, bool *missing)
{
    for (int i = 0; i < facts->nops; i++) {
        find_missing(progress, gathering, &facts->ops[i], missing);
        guess_op(progress, gathering, &facts->ops[i], missing, false);
        guess_op(progress, gathering, &facts->ops[i], missing, true);
    }
}

/* Of ranks that do not answer. */
static void describe_silent(struct rg_progress *progress, const struct gathering *gathering,
                            struct rg_stall_facts *facts, const int *ranks, int n)
{
    const struct rg_team *team = progress->team;
    int by = cut_off_by(progress, gathering, team->peers[ranks[0]].node);

    for (int k = 0; k < n; k++) {
        rg_autobuf struct rg_buf out = RG_BUF_INIT;

        rg_stuck_put_process(&out, &team->peers[ranks[k]]);
        if (by > 0)
            rg_buf_printf(&out, "; what it says comes by way of rank %d, which does not answer",
                          rg_team_world_rank(team, team->leaders[by]));
        facts->who[ranks[k]].detail = strdup(rg_buf_text(&out));
    }
}

static void collect_nodes(struct rg_progress *progress, const struct gathering *gathering,
                          struct rg_stall_facts *facts)
{
    const struct rg_team *team = progress->team;
    rg_autofree int *list = calloc((size_t) team->size, sizeof(*list));
    rg_autofree bool *missing = calloc((size_t) team->nnodes, sizeof(*missing));

    for (int node = 0; list && node < team->nnodes; node++) {
        int n = ranks_of(team, node, list);

        if (node == team->node)
            continue;
        if (gathering->answers[node]) {
            rg_stall_facts_take(facts, list, n, gathering->answers[node]);
            continue;
        }
        describe_silent(progress, gathering, facts, list, n);
    }
    if (missing)
        guess(progress, gathering, facts, missing);
}

/* So long a wait ends the job. */
static bool ends_job(const struct rg_progress *progress, uint64_t longest_ms)
{
    const struct rg_config *config = progress->config;

    return config->stall_shutdown_ms && longest_ms >= config->stall_shutdown_ms;
}

/* How the wait may end; once in a job. */
static void put_end(const struct rg_progress *progress, struct rg_stall *stall,
                    const struct rg_stall_facts *facts, struct rg_buf *out)
{
    const struct rg_config *config = progress->config;
    uint64_t offered_ms = 2 * config->stall_ms;
    uint64_t seconds = (offered_ms > OFFERED_MS ? offered_ms : OFFERED_MS) / 1000;

    if (stall->world)
        stall = stall->world;
    if (stall->told_end)
        return;
    stall->told_end = true;
    if (config->stall_shutdown_ms)
        rg_buf_printf(out, "Such a wait ends the job after %.6g s "
                      "(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS).\n",
                      (double) config->stall_shutdown_ms / 1000);
    else if (!rg_deadlock_warn(progress, facts, least_ms(config) / 2, out))
        rg_buf_printf(out, "The job waits for ever by default.%s "
                      "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=%llu ends it by itself.\n",
                      rg_stuck_has_launcher(progress)
                          ? " Ctrl-C ends it and shows each rank's line;" : "",
                      (unsigned long long) seconds);
}

/* Horovod's own words, for who asks for its log: programs look for them. */
static void put_words(const struct rg_progress *progress, const struct rg_stall_facts *facts,
                      uint64_t longest_ms, struct rg_buf *out)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;

    if (!progress->config->log.asked || progress->config->log.level < RG_LOG_WARN)
        return;
    rg_stall_facts_list(facts, least_ms(progress->config) / 2, &list);
    rg_buf_printf(out,
                  "In Horovod's words: One or more tensors were submitted to be reduced, "
                  "gathered or broadcasted by subset of ranks and are waiting for remainder "
                  "of ranks for more than %llu seconds.\nMissing ranks:%s",
                  (unsigned long long) longest_ms / 1000, rg_buf_text(&list));
}

/* The report that ends the job. */
static void put_last(const struct rg_progress *progress, const struct rg_stall_facts *facts,
                     const char *set, uint64_t longest_ms, bool all, struct rg_buf *out)
{
    uint64_t than_ms = least_ms(progress->config) / 2;
    rg_autobuf struct rg_buf told = RG_BUF_INIT, names = RG_BUF_INIT;

    rg_stall_facts_name(facts, than_ms, &names);
    rg_buf_printf(out, "One or more rank is stalled for longer than %llu seconds. Will "
                  "shutdown.%s%s%s%s\n", (unsigned long long) longest_ms / 1000, set,
                  rg_buf_nbytes(&names) ? " It is stalled in " : "", rg_buf_text(&names),
                  rg_buf_nbytes(&names) ? "." : "");
    rg_stall_facts_tell(facts, than_ms, &told);
    if (rg_buf_nbytes(&told) == 0 && !all && progress->team->nnodes > 1)
        rg_buf_printf(&told, "Ranks of other hosts are waited for; the host of rank %d, which "
                      "could say more, does not answer.\n", rg_team_world_rank(progress->team, 0));
    rg_buf_printf(out, "%s", rg_buf_text(&told));
}

/* Told once, and then in one line, as long as nothing has changed; so it is with an evaluation that
 * one rank alone has in each epoch. */
static void put_remark(struct rg_progress *progress, struct rg_stall *stall,
                       const struct rg_stall_facts *facts, const char *set, uint64_t longest_ms,
                       struct rg_buf *out)
{
    uint64_t than_ms = least_ms(progress->config) / 2;
    unsigned long long seconds = longest_ms / 1000;

    if (longest_ms < least_ms(progress->config) + DYING_MS &&
        rg_stall_facts_tell_failing(facts, than_ms, seconds, out)) {
        stall->telling = true;
        return;
    }
    if (!stall->told)
        stall->told = calloc((size_t) progress->team->size + 1, sizeof(*stall->told));
    if (stall->told && !rg_stall_facts_is_news(facts, than_ms, stall->told)) {
        rg_buf_printf(out, "%s, %llu s%s: ", stall->telling ? "still" : "again", seconds, set);
        stall->telling = true;
        rg_stall_facts_sum_up(facts, than_ms, out);
        rg_deadlock_explain(progress, facts, longest_ms, out);
        return;
    }
    stall->telling = true;
    rg_buf_printf(out, "ranks have waited for others for more than %llu s%s:\n", seconds, set);
    rg_stall_facts_tell(facts, than_ms, out);
    rg_deadlock_explain(progress, facts, longest_ms, out);
    put_end(progress, stall, facts, out);
    put_words(progress, facts, longest_ms, out);
}

/* " (process set 3)", or "" for all ranks. */
static void print_set(const struct rg_progress *progress, char *ret_text, size_t nbytes)
{
    ret_text[0] = '\0';
    if (progress->process_set)
        snprintf(ret_text, nbytes, " (process set %d)", progress->process_set);
}

/* What is to be said. all: of the other nodes too, as far as they have answered. False: nothing, as
 * whoever was missing has come; or as quiet asks for nothing else than a deadlock. */
static bool put_report(struct rg_progress *progress, struct rg_stall *stall, struct rg_buf *out,
                       uint64_t now, uint64_t longest_ms, bool all, bool quiet)
{
    struct rg_stall_facts facts;
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    bool some;
    char set[40];

    print_set(progress, set, sizeof(set));
    if (rg_stall_facts_init(&facts, progress->team->size, progress->team->world_ranks) == 0) {
        collect(progress, &facts, now);
        if (all)
            collect_nodes(progress, &stall->gathering, &facts);
    }
    rg_stall_facts_name(&facts, least_ms(progress->config) / 2, &names);
    some = rg_buf_nbytes(&names) > 0;
    rg_deadlock_find(progress, &stall->deadlock, &facts, out);
    if (stall->deadlock.found || quiet)
        ;
    else if (ends_job(progress, longest_ms))
        put_last(progress, &facts, set, longest_ms, all, out);
    else if (some)
        put_remark(progress, stall, &facts, set, longest_ms, out);
    rg_stall_facts_fini(&facts);
    return rg_buf_nbytes(out) > 0;
}

/* One report for the job; the last one ends it. */
static void report(struct rg_progress *progress, struct rg_stall *stall, uint64_t now,
                   uint64_t longest_ms, bool all, bool quiet)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;
    rg_autofree char *text = NULL;

    if (put_report(progress, stall, &out, now, longest_ms, all, quiet))
        text = strdup(rg_buf_text(&out));
    if (!text)
        return;
    for (size_t length = strlen(text); length && text[length - 1] == '\n'; length--)
        text[length - 1] = '\0';
    if (stall->deadlock.found && rg_stuck_has_launcher(progress)) {
        rg_boot_deadlock(progress->boot, text);
        return;
    }
    if (stall->deadlock.found || ends_job(progress, longest_ms)) {
        /* The launcher shows what it ends with. */
        if (!rg_stuck_has_launcher(progress))
            rg_report(RG_LOG_WARN, "%s", text);
        rg_progress_abort(progress, ETIMEDOUT, text);
        return;
    }
    stall->told_since_ns = now - longest_ms * RG_NS_PER_MS;
    rg_stuck_say(progress, text);
}

/* What was reported has ended, and nothing was lost. */
static void tell_end(struct rg_progress *progress, struct rg_stall *stall, uint64_t now)
{
    char text[100], set[40];

    if (!stall->telling)
        return;
    print_set(progress, set, sizeof(set));
    snprintf(text, sizeof(text), "the job goes on after %llu s%s",
             (unsigned long long) (rg_wait_age_ns(now, stall->told_since_ns) / RG_NS_PER_S), set);
    stall->telling = false;
    rg_stuck_say(progress, text);
}

/* A rank that speaks for a leader which is stopped speaks for its own node only. */
static bool owes_anything(struct rg_progress *progress, uint64_t now)
{
    uint64_t limit_ns = least_ms(progress->config) * RG_NS_PER_MS;
    struct rg_wait wait = { .id = 0 };

    for (; rg_waits_next(progress, &wait); wait.id++) {
        if (wait.epoch && rg_wait_age_ns(now, wait.since_ns) >= limit_ns)
            return true;
    }
    return false;
}

/* Between reports. */
static void look_for_deadlock(struct rg_progress *progress, struct rg_stall *stall,
                              uint64_t longest_ms)
{
    if (progress->multi) {
        atomic_store(&stall->deadlock.asked_ms, longest_ms);
    } else if (!stall->due_ms) {
        stall->due_ms = longest_ms;
        stall->due_quiet = true;
        rg_where_ask(progress, &stall->question);
    }
}

/* Ranks are asked where they are; then the report is written, at a leader by its driver, so that
 * the job hears of it once. Under the lock. */
static void act(struct rg_progress *progress, struct rg_stall *stall, uint64_t now,
                uint64_t longest_ms)
{
    uint64_t patience_ms = progress->multi ? LEADER_MS : 0;

    if (ends_job(progress, longest_ms) &&
        longest_ms >= progress->config->stall_shutdown_ms + patience_ms) {
        report(progress, stall, now, longest_ms, false, false);
        return;
    }
    if (!ends_job(progress, longest_ms) && longest_ms < stall->next_ms) {
        if (rg_deadlock_is_due(progress, &stall->deadlock, now, longest_ms))
            look_for_deadlock(progress, stall, longest_ms);
        return;
    }
    if (progress->multi) {
        atomic_store(&stall->due_since_ns, now - longest_ms * RG_NS_PER_MS);
        atomic_store(&stall->asked_ms, longest_ms);
    } else if (owes_anything(progress, now)) {
        stall->due_ms = longest_ms;
        stall->due_quiet = false;
        rg_where_ask(progress, &stall->question);
    }
    while (stall->next_ms && stall->next_ms <= longest_ms)
        stall->next_ms *= 2;
}

/* Nothing waits for so long that it is reported; a deadlock may be, without a stall check. */
static void rest(struct rg_progress *progress, struct rg_stall *stall, uint64_t now,
                 uint64_t longest_ms)
{
    if (rg_deadlock_is_due(progress, &stall->deadlock, now, longest_ms))
        look_for_deadlock(progress, stall, longest_ms);
    else if (longest_ms < stall->deadlock.looked_ms || !stall->due_quiet)
        stall->due_ms = stall->deadlock.looked_ms = 0;
    if (!progress->multi)
        tell_end(progress, stall, now);
    else if (atomic_exchange(&stall->due_since_ns, 0))
        atomic_store(&stall->over, true);
}

void rg_stall_tick(struct rg_progress *progress, struct rg_stall *stall, uint64_t now,
                   uint64_t longest_ms, bool reporter)
{
    uint64_t limit = limit_ms(progress);

    rg_deadlock_note(progress, &stall->deadlock, now);
    pthread_mutex_lock(&stall->lock);
    if (limit == 0 || longest_ms < limit || !reporter) {
        stall->next_ms = limit;
        if (reporter)
            rest(progress, stall, now, longest_ms);
    } else {
        act(progress, stall, now, longest_ms);
    }
    if (limit)
        rg_stuck_tick(progress, &stall->stuck, now, limit, reporter);
    pthread_mutex_unlock(&stall->lock);
}

void rg_stall_glance(struct rg_progress *progress, struct rg_stall *stall)
{
    rg_where_answer(progress, &stall->deadlock.rest);
    pthread_mutex_lock(&stall->lock);
    if (stall->due_ms && rg_where_is_over(progress, &stall->question)) {
        report(progress, stall, rg_now_ns(), stall->due_ms, false, stall->due_quiet);
        stall->due_ms = 0;
    }
    pthread_mutex_unlock(&stall->lock);
}

void rg_stall_answer(struct rg_progress *progress, struct rg_stall *stall, struct rg_buf *out)
{
    struct rg_stall_facts facts;

    pthread_mutex_lock(&stall->lock);
    if (rg_stall_facts_init(&facts, progress->team->size, NULL) == 0) {
        collect(progress, &facts, rg_now_ns());
        rg_stall_facts_put(&facts, progress->view.ranks, progress->view.n, out);
        rg_stall_facts_fini(&facts);
    }
    pthread_mutex_unlock(&stall->lock);
}

/* Another leader may have seen the same as this one a moment ago. */
static bool was_told(const struct rg_stall *stall, uint64_t now, uint64_t longest_ms)
{
    return stall->told_ms && longest_ms + TOLD_SLACK_MS >= stall->told_ms &&
           rg_wait_age_ns(now, stall->told_ns) < stall->told_ms * RG_NS_PER_MS / 4 * 3;
}

static void gather(struct rg_progress *progress, struct rg_stall *stall, uint64_t now,
                   uint64_t longest_ms, bool quiet)
{
    int nnodes = progress->team->nnodes;
    char **answers;

    if (stall->gathering.deadline_ns ||
        (!quiet && was_told(stall, now, longest_ms) && !ends_job(progress, longest_ms)))
        return;
    answers = calloc((size_t) nnodes, sizeof(*answers));
    if (!answers)
        return;
    stall->gathering = (struct gathering){ now + GATHER_NS, longest_ms, quiet, answers, nnodes,
                                           0 };
    rg_where_ask(progress, &stall->question);
    rg_order_stall_query(rg_multi_order(progress));
}

static void tell_gathered(struct rg_progress *progress, struct rg_stall *stall, uint64_t now)
{
    struct gathering *gathering = &stall->gathering;

    if (!gathering->deadline_ns)
        return;
    if (gathering->nanswers < progress->team->nnodes - 1 && now < gathering->deadline_ns)
        return;
    if (stall->question.deadline_ns && !rg_where_is_over(progress, &stall->question))
        return;
    pthread_mutex_lock(&stall->lock);
    if (!rg_view_aborted(&progress->view))
        report(progress, stall, now, gathering->longest_ms, true, gathering->quiet);
    pthread_mutex_unlock(&stall->lock);
    if (!gathering->quiet) {
        stall->told_ms = gathering->longest_ms;
        stall->told_ns = now;
    }
    drop_gathered(gathering);
}

/* One leader of those below it says that another one, by way of which they agree with all others,
 * does not even say that it lives. The coordinator cannot say it of itself, and the ranks of this
 * node know of nobody else. */
static bool tell_silence(struct rg_progress *progress, struct rg_stall *stall, uint64_t longest_ms)
{
    const struct rg_team *team = progress->team;
    const struct rg_order *order = rg_multi_order(progress);
    int above = rg_order_above(order, team->node), leader = above < 0 ? -1 : team->leaders[above];
    uint64_t now = rg_now_ns(), silent_ns = rg_order_silent_ns(order, above, now);
    rg_autobuf struct rg_buf out = RG_BUF_INIT;
    char set[40];

    if (leader < 0 || silent_ns < RG_STUCK_SILENT_NS ||
        rg_order_above(order, team->node - 1) == above)
        return false;
    print_set(progress, set, sizeof(set));
    rg_buf_printf(&out, "%s for others for more than %llu s%s:\nRank %d, by way of which hosts "
                  "agree, has said nothing for %llu s.\nRank %d ",
                  stall->telling ? "ranks still wait" : "ranks have waited",
                  (unsigned long long) longest_ms / 1000, set, rg_team_world_rank(team, leader),
                  (unsigned long long) (silent_ns / RG_NS_PER_S), rg_team_world_rank(team, leader));
    rg_stuck_put_process(&out, &team->peers[leader]);
    rg_buf_printf(&out, ".");
    pthread_mutex_lock(&stall->lock);
    stall->told_since_ns = now - longest_ms * RG_NS_PER_MS;
    stall->telling = true;
    if (rg_buf_status(&out) == 0)
        rg_stuck_say(progress, rg_buf_text(&out));
    pthread_mutex_unlock(&stall->lock);
    return true;
}

/* To the coordinator, unasked; or by itself, at the coordinator. */
static void tell_due(struct rg_progress *progress, struct rg_stall *stall, uint64_t longest_ms)
{
    char text[40];

    if (rg_order_decides(rg_multi_order(progress))) {
        gather(progress, stall, rg_now_ns(), longest_ms, false);
        return;
    }
    if (!ends_job(progress, longest_ms) && tell_silence(progress, stall, longest_ms))
        return;
    snprintf(text, sizeof(text), "due %llu\n", (unsigned long long) longest_ms);
    rg_order_stall_reply(rg_multi_order(progress), text);
}

static void tell_over(struct rg_progress *progress, struct rg_stall *stall)
{
    if (!rg_order_decides(rg_multi_order(progress)))
        rg_order_stall_reply(rg_multi_order(progress), "over\n");
    pthread_mutex_lock(&stall->lock);
    tell_end(progress, stall, rg_now_ns());
    pthread_mutex_unlock(&stall->lock);
    stall->told_ms = 0;
}

void rg_stall_drive(struct rg_progress *progress, struct rg_stall *stall)
{
    if (stall->gathering.deadline_ns)
        tell_gathered(progress, stall, rg_now_ns());
    if (atomic_load_explicit(&stall->asked_ms, memory_order_relaxed))
        tell_due(progress, stall, atomic_exchange(&stall->asked_ms, 0));
    /* The coordinator's own ranks wait as well where all do. */
    if (atomic_load_explicit(&stall->deadlock.asked_ms, memory_order_relaxed) &&
        rg_order_decides(rg_multi_order(progress)))
        gather(progress, stall, rg_now_ns(), atomic_exchange(&stall->deadlock.asked_ms, 0), true);
    if (atomic_load_explicit(&stall->over, memory_order_relaxed) &&
        atomic_exchange(&stall->over, false))
        tell_over(progress, stall);
    rg_stuck_drive(progress, &stall->stuck);
}

void rg_stall_ask(struct rg_progress *progress, struct rg_stall *stall)
{
    rg_where_ask(progress, &stall->asked_by_others);
}

bool rg_stall_can_answer(struct rg_progress *progress, struct rg_stall *stall)
{
    return stall->asked_by_others.deadline_ns &&
           rg_where_is_over(progress, &stall->asked_by_others);
}

/* "due 12000", from who was not asked. */
static bool take_due(struct rg_progress *progress, struct rg_stall *stall, const char *text)
{
    unsigned long long longest_ms;

    if (sscanf(text, "due %llu\n", &longest_ms) != 1)
        return false;
    if (longest_ms >= least_ms(progress->config))
        gather(progress, stall, rg_now_ns(), longest_ms, false);
    return true;
}

void rg_stall_heard(struct rg_progress *progress, struct rg_stall *stall, int node,
                    const char *text, size_t nbytes)
{
    struct gathering *gathering = &stall->gathering;

    if (strcmp(text, "over\n") == 0) {
        tell_over(progress, stall);
        return;
    }
    if (take_due(progress, stall, text) || !gathering->deadline_ns || gathering->answers[node])
        return;
    gathering->answers[node] = strndup(text, nbytes);
    gathering->nanswers++;
}
