/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/stall.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/time.h"
#include "coll/crossed.h"
#include "coll/diagnose.h"
#include "coll/engine.h"

#define NAMES_SHOWN 6
#define TICK_NS RG_NS_PER_S
#define STOPPED_NS (3 * RG_NS_PER_S) /* a rank that has not looked for so long does not report */

struct seen {
    uint64_t epoch, since_ns; /* waits for ranks of this node; 0: nothing */
    uint64_t offered, offered_ns; /* waits for other nodes; 0: nothing */
};

struct activity {
    uint64_t nsubmitted, since_ns;
};

struct rg_stall {
    pthread_mutex_t lock;
    struct seen seen[RG_ENTRIES_MAX];
    struct activity *ranks; /* of the node */
    uint64_t looked_ns;
    uint64_t next_ms; /* report when the oldest has waited so long; 0: not yet set */
    _Atomic uint64_t asked_ms; /* coordinator: the driver is to report a wait so long; 0: nothing */
};

/* What the ranks of another node owe, as far as the coordinator knows. */
struct absence {
    int count;
    struct rg_buf names;
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

void rg_stall_destroy(struct rg_stall *stall)
{
    if (!stall)
        return;
    pthread_mutex_destroy(&stall->lock);
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

void rg_process_look(pid_t pid, struct rg_process *ret_process)
{
    char path[64];
    rg_autofree char *stat = NULL;
    rg_autofree char *wchan = NULL;
    const char *after;

    *ret_process = (struct rg_process){ 'X', "gone", "" };
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

static void tell_process(struct rg_buf *out, pid_t pid)
{
    struct rg_process process;

    if (pid <= 0)
        return;
    rg_process_look(pid, &process);
    rg_buf_printf(out, "process %d is %s", (int) pid, process.word);
    if (process.where[0])
        rg_buf_printf(out, " in %s", process.where);
}

static void tell_rank(struct rg_engine *engine, struct rg_buf *out, int r, uint64_t now)
{
    const struct rg_view *view = &engine->view;
    const struct rg_team_peer *peer = &engine->team->peers[view->ranks[r]];
    uint32_t last = atomic_load(&view->rows[r].last_id);
    const struct rg_stall *stall = engine->stall;

    rg_buf_printf(out, "\nRank %d on %s: ", rg_view_shown_rank(view, r),
                  peer->host[0] ? peer->host : "this host");
    tell_process(out, peer->pid);
    if (last == 0)
        rg_buf_printf(out, "; it has submitted nothing yet");
    else
        rg_buf_printf(out, "; it last submitted %s, about %llu s ago", view->entries[last - 1].key,
                      (unsigned long long) (age_ns(now, stall->ranks[r].since_ns) / RG_NS_PER_S));
}

/* "2: [allreduce.a, allreduce.b]" for each rank of this node that others wait for. */
static void tell_missing(struct rg_engine *engine, struct rg_buf *out, uint64_t now,
                         uint64_t than_ms, bool *ret_missing)
{
    const struct rg_view *view = &engine->view;
    const struct rg_stall *stall = engine->stall;
    uint32_t nentries = atomic_load(&view->shared->nentries);

    for (int r = 0; r < view->n; r++) {
        int shown = 0;

        for (uint32_t id = 0; id < nentries; id++) {
            const struct seen *seen = &stall->seen[id];

            if (!seen->epoch || age_ns(now, seen->since_ns) < than_ms * RG_NS_PER_MS ||
                !rg_view_owes(view, r, id, seen->epoch))
                continue;
            if (shown < NAMES_SHOWN && shown == 0)
                rg_buf_printf(out, "\n%d: [%s", rg_view_shown_rank(view, r),
                              view->entries[id].key);
            else if (shown < NAMES_SHOWN)
                rg_buf_printf(out, ", %s", view->entries[id].key);
            shown++;
        }
        if (shown)
            rg_buf_printf(out, "%s]", shown > NAMES_SHOWN ? " ..." : "");
        ret_missing[r] = shown > 0;
    }
}

static void tell_offered(struct rg_engine *engine, struct rg_buf *out, uint64_t now,
                         uint64_t than_ms)
{
    const struct rg_view *view = &engine->view;
    int shown = 0;

    for (uint32_t id = 0; id < atomic_load(&view->shared->nentries); id++) {
        const struct seen *seen = &engine->stall->seen[id];

        if (!seen->offered || age_ns(now, seen->offered_ns) < than_ms * RG_NS_PER_MS)
            continue;
        if (shown < NAMES_SHOWN)
            rg_buf_printf(out, "%s%s", shown ? ", " : "\nWaiting for ranks of other hosts: [",
                          view->entries[id].key);
        shown++;
    }
    if (shown)
        rg_buf_printf(out, "%s]", shown > NAMES_SHOWN ? " ..." : "");
}

static void note_absence(struct absence *absence, const char *key)
{
    if (absence->count < NAMES_SHOWN)
        rg_buf_printf(&absence->names, "%s%s", absence->count ? ", " : "", key);
    absence->count++;
}

/* By node: what has been offered here and is missing there. At the coordinator, under the drive
 * lock. */
static void find_absences(struct rg_engine *engine, struct absence *absences, int *nodes,
                          uint64_t now, uint64_t than_ms)
{
    const struct rg_view *view = &engine->view;

    for (uint32_t id = 0; id < atomic_load(&view->shared->nentries); id++) {
        const struct seen *seen = &engine->stall->seen[id];
        int n;

        if (!seen->offered || age_ns(now, seen->offered_ns) < than_ms * RG_NS_PER_MS)
            continue;
        n = rg_order_missing(engine->order, view->entries[id].key, nodes, view->nnodes);
        for (int i = 0; i < n && i < view->nnodes; i++)
            note_absence(&absences[nodes[i]], view->entries[id].key);
    }
}

static void tell_absence(const struct rg_team *team, struct rg_buf *out,
                         struct absence *absences)
{
    for (int rank = 0; rank < team->size; rank++) {
        struct absence *absence = &absences[team->peers[rank].node];

        if (absence->count)
            rg_buf_printf(out, "\n%d: [%s%s]", rg_team_world_rank(team, rank),
                          rg_buf_text(&absence->names),
                          absence->count > NAMES_SHOWN ? " ..." : "");
    }
    for (int rank = 0; rank < team->size; rank++) {
        const struct rg_team_peer *peer = &team->peers[rank];

        if (!absences[peer->node].count || peer->pid <= 0)
            continue;
        rg_buf_printf(out, "\nRank %d on %s: ", rg_team_world_rank(team, rank), peer->host);
        tell_process(out, peer->pid);
    }
}

/* The ranks of other nodes; a node that has not offered an operation owes it with all its ranks, as
 * far as can be told from here. */
static void tell_nodes(struct rg_engine *engine, struct rg_buf *out, uint64_t now,
                       uint64_t than_ms)
{
    size_t n = (size_t) engine->view.nnodes;
    rg_autofree struct absence *absences = calloc(n, sizeof(*absences));
    rg_autofree int *nodes = calloc(n, sizeof(*nodes));

    if (!absences || !nodes)
        return;
    find_absences(engine, absences, nodes, now, than_ms);
    tell_absence(engine->team, out, absences);
    for (size_t i = 0; i < n; i++)
        rg_buf_fini(&absences[i].names);
}

static void tell_all(struct rg_engine *engine, struct rg_buf *out, uint64_t now, uint64_t than_ms)
{
    bool *missing = calloc((size_t) engine->view.n, sizeof(*missing));

    if (!missing)
        return;
    tell_missing(engine, out, now, than_ms, missing);
    for (int r = 0; r < engine->view.n; r++) {
        if (missing[r])
            tell_rank(engine, out, r, now);
    }
    free(missing);
}

/* " (process set 3)", or nothing. */
static const char *name_set(const struct rg_engine *engine, char *text, size_t room)
{
    text[0] = '\0';
    if (engine->process_set)
        snprintf(text, room, " (process set %d)", engine->process_set);
    return text;
}

/* nodes: at the coordinator, under the drive lock: the other nodes too. */
static void report(struct rg_engine *engine, uint64_t now, uint64_t longest_ms, bool nodes)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;
    char set[40];

    rg_buf_printf(&out,
                  "One or more tensors were submitted to be reduced, gathered or broadcasted by "
                  "subset of ranks and are waiting for remainder of ranks for more than %llu "
                  "seconds. The others may be slow, stopped, or not about to submit them at all."
                  "%s\n"
                  "Missing ranks:",
                  (unsigned long long) (longest_ms / 1000),
                  name_set(engine, set, sizeof(set)));
    tell_all(engine, &out, now, engine->config->stall_ms);
    if (nodes)
        tell_nodes(engine, &out, now, engine->config->stall_ms);
    /* The launcher shows notes; saying it on standard error too would show it twice. */
    if (!engine->boot || strcmp(rg_boot_name(engine->boot), "agent") != 0)
        rg_report(RG_LOG_WARN, "%s", rg_buf_text(&out));
    if (engine->boot)
        rg_boot_note(engine->boot, 1, rg_buf_text(&out));
}

static void give_up(struct rg_engine *engine, uint64_t now, uint64_t longest_ms)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;
    char set[40];

    rg_buf_printf(&out,
                  "One or more rank is stalled for longer than %llu seconds. Will shutdown.%s\n"
                  "Missing ranks:",
                  (unsigned long long) (longest_ms / 1000), name_set(engine, set, sizeof(set)));
    tell_all(engine, &out, now, engine->config->stall_shutdown_ms);
    tell_offered(engine, &out, now, engine->config->stall_shutdown_ms);
    if (rg_view_abort(&engine->view, ETIMEDOUT, -1, rg_buf_text(&out)) && engine->boot)
        rg_boot_note(engine->boot, 0, rg_buf_text(&out));
    rg_engine_ring_all(engine, true);
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

/* A leader that is not the coordinator speaks for its own node only. */
static bool owes_anything(const struct rg_engine *engine, uint64_t now)
{
    for (uint32_t id = 0; id < atomic_load(&engine->view.shared->nentries); id++) {
        const struct seen *seen = &engine->stall->seen[id];

        if (seen->epoch && age_ns(now, seen->since_ns) >= engine->config->stall_ms * RG_NS_PER_MS)
            return true;
    }
    return false;
}

void rg_stall_tick(struct rg_engine *engine)
{
    struct rg_stall *stall = engine->stall;
    const struct rg_config *config = engine->config;
    uint64_t now = rg_now_ns(), longest_ms;
    bool reporter = is_reporter(&engine->view, now);

    if (now - stall->looked_ns < TICK_NS)
        return;
    atomic_store(&engine->view.rows[engine->view.me].watched_ns, now);
    pthread_mutex_lock(&stall->lock);
    stall->looked_ns = now;
    if (!stall->ranks)
        stall->ranks = calloc((size_t) engine->view.n, sizeof(*stall->ranks));
    longest_ms = stall->ranks ? look(stall, &engine->view, now) : 0;
    if (config->stall_ms == 0 || longest_ms < config->stall_ms) {
        stall->next_ms = config->stall_ms;
    } else if (!reporter) {
        stall->next_ms = config->stall_ms;
    } else if (config->stall_shutdown_ms && longest_ms >= config->stall_shutdown_ms) {
        give_up(engine, now, longest_ms);
    } else if (longest_ms >= stall->next_ms) {
        if (engine->order && engine->team->node == 0)
            atomic_store(&stall->asked_ms, longest_ms);
        else if (owes_anything(engine, now))
            report(engine, now, longest_ms, false);
        while (stall->next_ms && stall->next_ms <= longest_ms)
            stall->next_ms *= 2;
    }
    pthread_mutex_unlock(&stall->lock);
    rg_crossed_look(engine, now, reporter);
}

void rg_stall_drive(struct rg_engine *engine)
{
    struct rg_stall *stall = engine->stall;
    uint64_t longest_ms = atomic_load(&stall->asked_ms);

    rg_diagnose_drive(engine);
    rg_crossed_drive(engine);
    if (longest_ms == 0)
        return;
    atomic_store(&stall->asked_ms, 0);
    pthread_mutex_lock(&stall->lock);
    report(engine, rg_now_ns(), longest_ms, true);
    pthread_mutex_unlock(&stall->lock);
    rg_order_stall_query(engine->order);
}

void rg_stall_look(struct rg_engine *engine)
{
    struct rg_stall *stall = engine->stall;

    pthread_mutex_lock(&stall->lock);
    if (!stall->ranks)
        stall->ranks = calloc((size_t) engine->view.n, sizeof(*stall->ranks));
    look(stall, &engine->view, rg_now_ns());
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

void rg_stall_answer(struct rg_engine *engine)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;
    struct rg_stall *stall = engine->stall;

    pthread_mutex_lock(&stall->lock);
    if (!stall->ranks)
        stall->ranks = calloc((size_t) engine->view.n, sizeof(*stall->ranks));
    if (stall->ranks)
        tell_all(engine, &out, rg_now_ns(), engine->config->stall_ms / 2);
    pthread_mutex_unlock(&stall->lock);
    rg_diagnose_answer(engine, &out);
    rg_order_stall_reply(engine->order, rg_buf_text(&out));
}

void rg_stall_heard(struct rg_engine *engine, int node, const char *text)
{
    const char *answer = strchr(text, RG_DIAGNOSE_MARK);
    int nbytes = (int) (answer ? (size_t) (answer - text) : strlen(text));

    if (answer && rg_diagnose_heard(engine, node, answer + 1))
        return;
    if (nbytes > 0)
        rg_report(RG_LOG_WARN, "what the ranks of host %s wait for:%.*s",
                  engine->team->peers[engine->team->leaders[node]].host, nbytes, text);
}
