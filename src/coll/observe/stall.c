/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/observe/stall.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/time.h"
#include "coll/progress/deadlock.h"
#include "coll/observe/diagnose.h"
#include "coll/progress/progress.h"
#include "coll/observe/stall_facts.h"

#define OPS_MAX 256
#define BLOCKED_NS (4 * RG_NS_PER_S)
#define GATHER_NS RG_NS_PER_S /* for other leaders to answer */
#define TOLD_SLACK_MS 3000
#define LEADER_MS 4000 /* for the coordinator to end the job */
#define OFFERED_MS 60000 /* a time after which people may want such a job to end */
#define TICK_NS RG_NS_PER_S
#define STOPPED_NS (3 * RG_NS_PER_S) /* a rank that has not looked for so long does not report */

struct seen {
    uint64_t epoch, since_ns; /* waits for ranks of this node; 0: nothing */
    uint64_t offered, offered_ns; /* waits for other nodes; 0: nothing */
};

struct activity {
    uint64_t nsubmitted, since_ns;
};

/* At the coordinator, under the drive lock: a report that waits for the other leaders' answers. */
struct gathering {
    uint64_t deadline_ns; /* 0: there is none */
    uint64_t longest_ms;
    char **answers; /* by node; owned */
    int nnodes, nanswers;
};

struct rg_stall {
    pthread_mutex_t lock;
    struct seen seen[RG_ENTRIES_MAX];
    struct activity *ranks; /* of the node */
    uint64_t looked_ns;
    uint64_t next_ms; /* report when the oldest has waited so long; 0: not yet set */
    _Atomic uint64_t asked_ms; /* leader: the driver is to see to a wait so long; 0: nothing */
    struct gathering gathering;
    bool told_end; /* of all ranks' progress engine: how the wait may end has been said */
    uint64_t told_ms, told_ns; /* coordinator: how long a wait was reported last, and when */
};

int rg_stall_create(struct rg_stall **ret_stall)
{
    struct rg_stall *stall = calloc(1, sizeof(*stall));

    if (!stall)
        return -ENOMEM;
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
    free(stall->ranks);
    free(stall);
}

bool rg_view_owes(const struct rg_view *view, int r, uint32_t id, uint64_t epoch)
{
    return atomic_load(&rg_view_place(view, r, id)->posted) < epoch &&
           !atomic_load(&view->rows[r].joined);
}

/* The epoch of an entry that some ranks have announced and others owe; 0: none. */
static uint64_t owed(const struct rg_view *view, uint32_t id)
{
    uint64_t top = 0;

    if (!atomic_load(&view->entries[id].version))
        return 0;
    for (int r = 0; r < view->n; r++) {
        uint64_t posted = atomic_load(&rg_view_place(view, r, id)->posted);

        top = posted > top ? posted : top;
    }
    for (int r = 0; r < view->n; r++) {
        if (rg_view_owes(view, r, id, top))
            return top;
    }
    return 0;
}

/* Whoever offers something notes the time by himself, maybe later than now was taken. */
static uint64_t age_ns(uint64_t now, uint64_t since_ns)
{
    return now > since_ns ? now - since_ns : 0;
}

/* Note what waits since when; the longest wait. */
static uint64_t look(struct rg_stall *stall, const struct rg_view *view, uint64_t now)
{
    uint64_t longest = 0;

    for (uint32_t id = 0; id < atomic_load(&view->shared->nentries); id++) {
        struct seen *seen = &stall->seen[id];
        uint64_t epoch = owed(view, id);

        if (epoch != seen->epoch) {
            seen->epoch = epoch;
            seen->since_ns = now;
        }
        if (epoch && age_ns(now, seen->since_ns) > longest)
            longest = age_ns(now, seen->since_ns);
        if (seen->offered && age_ns(now, seen->offered_ns) > longest)
            longest = age_ns(now, seen->offered_ns);
    }
    for (int r = 0; stall->ranks && r < view->n; r++) {
        uint64_t n = atomic_load(&view->rows[r].nsubmitted);

        if (n != stall->ranks[r].nsubmitted || stall->ranks[r].since_ns == 0)
            stall->ranks[r] = (struct activity){ n, now };
    }
    return longest / RG_NS_PER_MS;
}

static const char *state_name(char state)
{
    switch (state) {
    case 'R': return "running";
    case 'S': return "sleeping";
    case 'D': return "waiting for a device or file system";
    case 'T': return "stopped (SIGSTOP or Ctrl-Z)";
    case 't': return "stopped by a debugger";
    case 'Z': return "a zombie: it has died";
    default: return "in an unknown state";
    }
}

void rg_proc_state_read(pid_t pid, struct rg_proc_state *ret_process)
{
    char path[64];
    rg_autofree char *stat = NULL;
    rg_autofree char *wchan = NULL;
    const char *after;

    *ret_process = (struct rg_proc_state){ 'X', "gone", "" };
    snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    if (rg_read_file(path, 4096, &stat, NULL) < 0)
        return;
    after = strrchr(stat, ')');
    ret_process->state = after && after[1] ? after[2] : '?';
    ret_process->word = state_name(ret_process->state);
    snprintf(path, sizeof(path), "/proc/%d/wchan", (int) pid);
    if (rg_read_file(path, 256, &wchan, NULL) == 0 && wchan[0] && strcmp(wchan, "0") != 0)
        snprintf(ret_process->where, sizeof(ret_process->where), "%s", wchan);
}

static void tell_process(struct rg_buf *out, const struct rg_team_peer *peer)
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

/* For who.detail; NULL: no memory. */
static char *describe_rank(struct rg_progress *progress, int r, uint64_t now)
{
    const struct rg_view *view = &progress->view;
    uint32_t last = atomic_load(&view->rows[r].last_id);
    rg_autobuf struct rg_buf out = RG_BUF_INIT;

    tell_process(&out, &progress->team->peers[view->ranks[r]]);
    rg_buf_printf(&out, last ? "; it called " : "; it has called nothing yet");
    if (last) {
        rg_stall_key_print(view->entries[last - 1].key, &out);
        rg_buf_printf(&out, " last, about %llu s ago",
                      (unsigned long long) (age_ns(now, progress->stall->ranks[r].since_ns) /
                                            RG_NS_PER_S));
    }
    return rg_buf_status(&out) < 0 ? NULL : strdup(rg_buf_text(&out));
}

/* A thread of the rank waits, and it calls nothing. */
static bool is_blocked(const struct rg_progress *progress, int r, uint64_t now)
{
    uint64_t since = atomic_load(&progress->view.rows[r].waits_ns);
    uint64_t limit = progress->config->stall_ms * RG_NS_PER_MS / 2;

    limit = limit > BLOCKED_NS ? BLOCKED_NS : limit;
    return since && age_ns(now, since) >= limit &&
           age_ns(now, progress->stall->ranks[r].since_ns) >= limit;
}

static uint64_t wait_ms(const struct seen *seen, uint64_t now)
{
    uint64_t here = seen->epoch ? age_ns(now, seen->since_ns) : 0;
    uint64_t elsewhere = seen->offered ? age_ns(now, seen->offered_ns) : 0;

    return (here > elsewhere ? here : elsewhere) / RG_NS_PER_MS;
}

static void note_op(struct rg_progress *progress, struct rg_stall_facts *facts, uint32_t id,
                    uint64_t now)
{
    const struct rg_view *view = &progress->view;
    const struct seen *seen = &progress->stall->seen[id];
    struct rg_stall_op *op = rg_stall_facts_op(facts, view->entries[id].key);

    if (!op)
        return;
    op->age_ms = wait_ms(seen, now);
    for (int r = 0; r < view->n; r++) {
        bool owes = seen->epoch && rg_view_owes(view, r, id, seen->epoch);

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
    uint64_t than_ms = progress->config->stall_ms / 2;

    for (uint32_t id = 0; id < atomic_load(&progress->view.shared->nentries); id++) {
        const struct seen *seen = &progress->stall->seen[id];

        if ((seen->epoch || seen->offered) && (wait_ms(seen, now) >= than_ms) == old &&
            facts->nops < OPS_MAX)
            note_op(progress, facts, id, now);
    }
}

/* What is known of this node's ranks. Under the lock, after a look. */
static void collect(struct rg_progress *progress, struct rg_stall_facts *facts, uint64_t now)
{
    const struct rg_view *view = &progress->view;

    for (int r = 0; r < view->n; r++) {
        struct rg_stall_who *who = &facts->who[view->ranks[r]];

        who->blocked = is_blocked(progress, r, now);
        free(who->detail);
        who->detail = describe_rank(progress, r, now);
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

/* A node that said nothing of an operation: all its ranks have called it where their leader has
 * offered it, else none has. */
static void guess(struct rg_progress *progress, struct rg_stall_facts *facts, int *nodes)
{
    const struct rg_team *team = progress->team;

    for (int i = 0; i < facts->nops; i++) {
        struct rg_stall_op *op = &facts->ops[i];
        int n = rg_order_missing(progress->order, op->name, nodes, team->nnodes);

        for (int rank = 0; rank < team->size; rank++) {
            bool offered = n > 0;

            if (op->states[rank] != RG_STALL_UNKNOWN)
                continue;
            for (int k = 0; k < n && k < team->nnodes; k++)
                offered = offered && nodes[k] != team->peers[rank].node;
            op->states[rank] = offered ? RG_STALL_CALLED : RG_STALL_OWES;
        }
    }
}

static void collect_nodes(struct rg_progress *progress, struct rg_stall_facts *facts)
{
    const struct rg_team *team = progress->team;
    struct gathering *gathering = &progress->stall->gathering;
    rg_autofree int *list = calloc((size_t) team->size + (size_t) team->nnodes, sizeof(*list));

    for (int node = 0; list && node < team->nnodes; node++) {
        int n = ranks_of(team, node, list);

        if (node == team->node)
            continue;
        if (gathering->answers[node]) {
            rg_stall_facts_take(facts, list, n, gathering->answers[node]);
            continue;
        }
        for (int k = 0; k < n; k++) {
            rg_autobuf struct rg_buf out = RG_BUF_INIT;

            tell_process(&out, &team->peers[list[k]]);
            facts->who[list[k]].detail = strdup(rg_buf_text(&out));
        }
    }
    if (list)
        guess(progress, facts, list);
}

/* So long a wait ends the job. */
static bool ends_job(const struct rg_progress *progress, uint64_t longest_ms)
{
    const struct rg_config *config = progress->config;

    return config->stall_shutdown_ms && longest_ms >= config->stall_shutdown_ms;
}

/* " (process set 3)", or nothing. */
static const char *name_set(const struct rg_progress *progress, char *text, size_t room)
{
    text[0] = '\0';
    if (progress->process_set)
        snprintf(text, room, " (process set %d)", progress->process_set);
    return text;
}

static bool has_launcher(const struct rg_progress *progress)
{
    return progress->boot && rg_boot_shows_notes(progress->boot);
}

/* How the wait may end; once in a job. */
static void put_end(struct rg_progress *progress, struct rg_buf *out)
{
    struct rg_stall *stall = (progress->world ? progress->world : progress)->stall;
    const struct rg_config *config = progress->config;
    uint64_t least_ms = 2 * config->stall_ms;

    if (stall->told_end)
        return;
    stall->told_end = true;
    if (config->stall_shutdown_ms)
        rg_buf_printf(out, "Such a wait ends the job after %.6g s "
                      "(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS).\n",
                      (double) config->stall_shutdown_ms / 1000);
    else
        rg_buf_printf(out, "The job waits for ever by default.%s "
                      "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=%llu ends it by itself.\n",
                      has_launcher(progress) ? " Ctrl-C ends it and shows each rank's line;" : "",
                      (unsigned long long) (least_ms > OFFERED_MS ? least_ms : OFFERED_MS) / 1000);
}

/* What is to be said. all: of the other nodes too, as far as they have answered. False: nothing, as
 * whoever was missing has come. */
static bool put_report(struct rg_progress *progress, struct rg_buf *out, uint64_t now,
                       uint64_t longest_ms, bool all)
{
    struct rg_stall_facts facts;
    bool last = ends_job(progress, longest_ms);
    uint64_t than_ms = progress->config->stall_ms / 2;
    unsigned long long seconds = longest_ms / 1000;
    rg_autobuf struct rg_buf told = RG_BUF_INIT, list = RG_BUF_INIT, names = RG_BUF_INIT;
    char set[40];

    name_set(progress, set, sizeof(set));
    if (rg_stall_facts_init(&facts, progress->team->size, progress->team->world_ranks) == 0) {
        collect(progress, &facts, now);
        if (all)
            collect_nodes(progress, &facts);
    }
    rg_stall_facts_name(&facts, than_ms, &names);
    if (last)
        rg_buf_printf(out, "One or more rank is stalled for longer than %llu seconds. Will "
                      "shutdown.%s%s%s%s\n", seconds, set,
                      rg_buf_nbytes(&names) ? " It is stalled in " : "", rg_buf_text(&names),
                      rg_buf_nbytes(&names) ? "." : "");
    else
        rg_buf_printf(out, "ranks have waited for others for more than %llu s%s:\n", seconds, set);
    rg_stall_facts_tell(&facts, than_ms, &told);
    rg_stall_facts_list(&facts, than_ms, &list);
    rg_stall_facts_fini(&facts);
    if (rg_buf_nbytes(&told) == 0 && last && !all && progress->team->nnodes > 1)
        rg_buf_printf(&told, "Ranks of other hosts are waited for; the host of rank %d, which "
                      "could say more, does not answer.\n", rg_team_world_rank(progress->team, 0));
    rg_buf_printf(out, "%s", rg_buf_text(&told));
    if (!last && rg_buf_nbytes(&told))
        put_end(progress, out);
    if (!last)
        rg_buf_printf(out,
                      "In Horovod's words: One or more tensors were submitted to be reduced, "
                      "gathered or broadcasted by subset of ranks and are waiting for remainder "
                      "of ranks for more than %llu seconds.\nMissing ranks:%s",
                      seconds, rg_buf_text(&list));
    return rg_buf_nbytes(&told) > 0;
}

/* One report for the job; the last one ends it. */
static void report(struct rg_progress *progress, uint64_t now, uint64_t longest_ms, bool all)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;
    rg_autofree char *text = NULL;

    if (put_report(progress, &out, now, longest_ms, all))
        text = strdup(rg_buf_text(&out));
    if (!text)
        return;
    for (size_t length = strlen(text); length && text[length - 1] == '\n'; length--)
        text[length - 1] = '\0';
    /* The launcher shows notes; saying it on standard error too would show it twice. */
    if (!has_launcher(progress))
        rg_report(RG_LOG_WARN, "%s", text);
    if (ends_job(progress, longest_ms)) {
        if (rg_view_abort(&progress->view, ETIMEDOUT, -1, text) && progress->boot)
            rg_boot_note(progress->boot, 0, text);
        rg_progress_ring_all(progress, true);
        return;
    }
    if (progress->boot)
        rg_boot_note(progress->boot, 2, text);
}

/* The lowest rank of the node that is not stopped itself. */
static bool is_reporter(const struct rg_view *view, uint64_t now)
{
    for (int r = 0; r < view->me; r++) {
        uint64_t watched = atomic_load(&view->rows[r].watched_ns);

        if (watched > now || now - watched < STOPPED_NS)
            return false;
    }
    return true;
}

/* A rank that speaks for a leader which is stopped speaks for its own node only. */
static bool owes_anything(const struct rg_progress *progress, uint64_t now)
{
    for (uint32_t id = 0; id < atomic_load(&progress->view.shared->nentries); id++) {
        const struct seen *seen = &progress->stall->seen[id];

        if (seen->epoch && age_ns(now, seen->since_ns) >= progress->config->stall_ms * RG_NS_PER_MS)
            return true;
    }
    return false;
}

/* Something has waited for too long: at a leader its driver goes on, so that the job hears of it
 * once. Under the lock. */
static void act(struct rg_progress *progress, uint64_t now, uint64_t longest_ms)
{
    struct rg_stall *stall = progress->stall;
    uint64_t patience_ms = progress->order ? LEADER_MS : 0;

    if (ends_job(progress, longest_ms) &&
        longest_ms >= progress->config->stall_shutdown_ms + patience_ms) {
        report(progress, now, longest_ms, false);
        return;
    }
    if (!ends_job(progress, longest_ms) && longest_ms < stall->next_ms)
        return;
    if (progress->order)
        atomic_store(&stall->asked_ms, longest_ms);
    else if (owes_anything(progress, now))
        report(progress, now, longest_ms, false);
    while (stall->next_ms && stall->next_ms <= longest_ms)
        stall->next_ms *= 2;
}

void rg_stall_tick(struct rg_progress *progress)
{
    struct rg_stall *stall = progress->stall;
    const struct rg_config *config = progress->config;
    uint64_t now = rg_now_ns(), longest_ms;
    bool reporter = is_reporter(&progress->view, now);

    if (now - stall->looked_ns < TICK_NS)
        return;
    atomic_store(&progress->view.rows[progress->view.me].watched_ns, now);
    pthread_mutex_lock(&stall->lock);
    stall->looked_ns = now;
    if (!stall->ranks)
        stall->ranks = calloc((size_t) progress->view.n, sizeof(*stall->ranks));
    longest_ms = stall->ranks ? look(stall, &progress->view, now) : 0;
    if (config->stall_ms == 0 || longest_ms < config->stall_ms || !reporter)
        stall->next_ms = config->stall_ms;
    else
        act(progress, now, longest_ms);
    pthread_mutex_unlock(&stall->lock);
    rg_deadlock_look(progress, now, reporter);
}

/* To the coordinator; due_ms: unasked, as something has waited so long here. Under the drive
 * lock. */
static void answer(struct rg_progress *progress, uint64_t due_ms)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;
    struct rg_stall *stall = progress->stall;
    struct rg_stall_facts facts;

    if (due_ms) {
        rg_buf_printf(&out, "due %llu\n", (unsigned long long) due_ms);
        rg_order_stall_reply(progress->order, rg_buf_text(&out));
        return;
    }
    pthread_mutex_lock(&stall->lock);
    if (!stall->ranks)
        stall->ranks = calloc((size_t) progress->view.n, sizeof(*stall->ranks));
    if (stall->ranks && rg_stall_facts_init(&facts, progress->team->size, NULL) == 0) {
        collect(progress, &facts, rg_now_ns());
        rg_stall_facts_put(&facts, progress->view.ranks, progress->view.n, &out);
        rg_stall_facts_fini(&facts);
    }
    pthread_mutex_unlock(&stall->lock);
    rg_diagnose_answer(progress, &out);
    rg_order_stall_reply(progress->order, rg_buf_text(&out));
}

/* Another leader may have seen the same as this one a moment ago. */
static bool was_told(const struct rg_stall *stall, uint64_t now, uint64_t longest_ms)
{
    return stall->told_ms && longest_ms + TOLD_SLACK_MS >= stall->told_ms &&
           age_ns(now, stall->told_ns) < stall->told_ms * RG_NS_PER_MS / 4 * 3;
}

static void gather(struct rg_progress *progress, uint64_t now, uint64_t longest_ms)
{
    struct gathering *gathering = &progress->stall->gathering;

    if (gathering->deadline_ns ||
        (was_told(progress->stall, now, longest_ms) && !ends_job(progress, longest_ms)))
        return;
    gathering->answers = calloc((size_t) progress->team->nnodes, sizeof(char *));
    if (!gathering->answers)
        return;
    gathering->nnodes = progress->team->nnodes;
    gathering->nanswers = 0;
    gathering->longest_ms = longest_ms;
    gathering->deadline_ns = now + GATHER_NS;
    rg_order_stall_query(progress->order);
}

static void tell_gathered(struct rg_progress *progress, uint64_t now)
{
    struct rg_stall *stall = progress->stall;
    struct gathering *gathering = &stall->gathering;

    if (!gathering->deadline_ns ||
        (gathering->nanswers < progress->team->nnodes - 1 && now < gathering->deadline_ns))
        return;
    pthread_mutex_lock(&stall->lock);
    if (!stall->ranks)
        stall->ranks = calloc((size_t) progress->view.n, sizeof(*stall->ranks));
    if (stall->ranks && !rg_view_aborted(&progress->view))
        report(progress, now, gathering->longest_ms, true);
    pthread_mutex_unlock(&stall->lock);
    stall->told_ms = gathering->longest_ms;
    stall->told_ns = now;
    drop_gathered(gathering);
}

void rg_stall_drive(struct rg_progress *progress)
{
    struct rg_stall *stall = progress->stall;
    uint64_t longest_ms;

    rg_diagnose_drive(progress);
    rg_deadlock_drive(progress);
    if (stall->gathering.deadline_ns)
        tell_gathered(progress, rg_now_ns());
    if (atomic_load_explicit(&stall->asked_ms, memory_order_relaxed) == 0)
        return;
    longest_ms = atomic_exchange(&stall->asked_ms, 0);
    if (rg_order_decides(progress->order))
        gather(progress, rg_now_ns(), longest_ms);
    else
        answer(progress, longest_ms);
}

void rg_stall_look(struct rg_progress *progress)
{
    struct rg_stall *stall = progress->stall;

    pthread_mutex_lock(&stall->lock);
    if (!stall->ranks)
        stall->ranks = calloc((size_t) progress->view.n, sizeof(*stall->ranks));
    look(stall, &progress->view, rg_now_ns());
    pthread_mutex_unlock(&stall->lock);
}

bool rg_stall_waits(struct rg_stall *stall, uint32_t id, uint64_t *ret_epoch,
                    uint64_t *ret_since_ns)
{
    bool waits;

    pthread_mutex_lock(&stall->lock);
    waits = stall->seen[id].epoch != 0;
    if (waits) {
        *ret_epoch = stall->seen[id].epoch;
        *ret_since_ns = stall->seen[id].since_ns;
    }
    pthread_mutex_unlock(&stall->lock);
    return waits;
}

bool rg_stall_offered_since(struct rg_stall *stall, uint32_t id, uint64_t *ret_since_ns)
{
    bool offered;

    pthread_mutex_lock(&stall->lock);
    offered = stall->seen[id].offered != 0;
    if (offered)
        *ret_since_ns = stall->seen[id].offered_ns;
    pthread_mutex_unlock(&stall->lock);
    return offered;
}

uint64_t rg_stall_active_since(struct rg_stall *stall, int r, uint64_t now)
{
    uint64_t since = now;

    pthread_mutex_lock(&stall->lock);
    if (stall->ranks && stall->ranks[r].since_ns < now)
        since = stall->ranks[r].since_ns;
    pthread_mutex_unlock(&stall->lock);
    return since;
}

void rg_stall_offered(struct rg_stall *stall, uint32_t id, uint64_t epoch)
{
    pthread_mutex_lock(&stall->lock);
    stall->seen[id].offered = epoch;
    stall->seen[id].offered_ns = rg_now_ns();
    pthread_mutex_unlock(&stall->lock);
}

int rg_stall_take_offer(struct rg_stall *stall, uint32_t id, uint64_t *ret_epoch)
{
    int r = -ENOENT;

    pthread_mutex_lock(&stall->lock);
    if (stall->seen[id].offered) {
        *ret_epoch = stall->seen[id].offered;
        stall->seen[id].offered = 0;
        r = 0;
    }
    pthread_mutex_unlock(&stall->lock);
    return r;
}

void rg_stall_answer(struct rg_progress *progress)
{
    answer(progress, 0);
}

/* "due 12000", from who was not asked. */
static bool take_due(struct rg_progress *progress, const char *text)
{
    unsigned long long longest_ms;

    if (sscanf(text, "due %llu\n", &longest_ms) != 1)
        return false;
    if (longest_ms >= progress->config->stall_ms)
        gather(progress, rg_now_ns(), longest_ms);
    return true;
}

void rg_stall_heard(struct rg_progress *progress, int node, const char *text)
{
    struct gathering *gathering = &progress->stall->gathering;
    const char *mark = strchr(text, RG_DIAGNOSE_MARK);

    if (take_due(progress, text))
        return;
    if (mark)
        rg_diagnose_heard(progress, node, mark + 1);
    if (!gathering->deadline_ns || gathering->answers[node])
        return;
    gathering->answers[node] = strndup(text, mark ? (size_t) (mark - text) : strlen(text));
    gathering->nanswers++;
}
