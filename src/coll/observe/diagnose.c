/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of each node, and how the coordinator puts the nodes together. */
#include "coll/observe/diagnose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/time.h"
#include "coll/negotiate/order.h"
#include "coll/observe/process.h"
#include "coll/progress/progress.h"

#define PENDING_MAX 64          /* operations told of each node */
#define ANSWER_NBYTES_MAX 60000 /* fits a frame, with a stall report in front */
#define ASK_AGAIN_MS 2

/* One that waits for answers; lives in rg_diagnose, reached under the progress engine's lock. */
struct rg_diagnosis {
    _Atomic bool asked;    /* the driver has sent the question */
    _Atomic int nanswers;
    char **answers;        /* by node; owned */
    struct rg_buf offered; /* what waits for other nodes */
};

static void put_seconds(struct rg_buf *out, const char *name, uint64_t ns)
{
    rg_buf_printf(out, ",\"%s\":%llu.%03u", name, (unsigned long long) (ns / RG_NS_PER_S),
                  (unsigned) (ns % RG_NS_PER_S / RG_NS_PER_MS));
}

/* What is known of any rank. */
static void put_peer(const struct rg_progress *progress, struct rg_buf *out, int rank, bool known)
{
    const struct rg_team_peer *peer = &progress->team->peers[rank];

    rg_buf_printf(out, "%s{\"rank\":%d,\"node\":%d,\"known\":%s,\"host\":",
                  rg_buf_nbytes(out) ? "," : "", rg_team_world_rank(progress->team, rank),
                  peer->node, known ? "true" : "false");
    rg_json_put_text(out, peer->host);
}

static void put_process(struct rg_buf *out, pid_t pid)
{
    struct rg_proc_state look;

    if (pid <= 0)
        return;
    rg_proc_state_read(pid, &look);
    rg_buf_printf(out, ",\"pid\":%d,\"alive\":%s,\"stopped\":%s,\"state\":", (int) pid,
                  look.state == 'X' || look.state == 'Z' ? "false" : "true",
                  look.state == 'T' || look.state == 't' ? "true" : "false");
    rg_json_put_text(out, look.word);
    if (look.where[0]) {
        rg_buf_printf(out, ",\"waits_in\":");
        rg_json_put_text(out, look.where);
    }
}

static void put_rank(struct rg_progress *progress, struct rg_buf *out, int r, uint64_t now)
{
    const struct rg_view *view = &progress->view;
    const struct rg_row *row = &view->rows[r];
    uint32_t last = atomic_load(&row->last_id);
    pid_t pid = progress->team->peers[view->ranks[r]].pid;

    put_peer(progress, out, view->ranks[r], true);
    put_process(out, r == view->me ? getpid() : pid);
    rg_buf_printf(out, ",\"joined\":%s,\"left\":%s,\"operations\":%llu,\"last\":",
                  atomic_load(&row->joined) ? "true" : "false",
                  atomic_load(&row->left) ? "true" : "false",
                  (unsigned long long) atomic_load(&row->nsubmitted));
    if (last)
        rg_json_put_text(out, view->entries[last - 1].key);
    else
        rg_buf_printf(out, "null");
    put_seconds(out, "idle_seconds", now - rg_waits_active_ns(progress, r, now));
    rg_buf_printf(out, "}");
}

/* missing: by rank, who has not submitted it. */
static void put_op(struct rg_progress *progress, struct rg_buf *out, uint32_t id,
                   uint64_t waited_ns, const bool *missing)
{
    const struct rg_team *team = progress->team;
    const char *comma = "";

    rg_buf_printf(out, "%s{\"name\":", rg_buf_nbytes(out) ? "," : "");
    rg_json_put_text(out, progress->view.entries[id].key);
    rg_buf_printf(out, ",\"node\":%d", team->node);
    put_seconds(out, "seconds", waited_ns);
    rg_buf_printf(out, ",\"missing\":[");
    for (int rank = 0; rank < team->size; rank++) {
        if (missing[rank]) {
            rg_buf_printf(out, "%s%d", comma, rg_team_world_rank(team, rank));
            comma = ",";
        }
    }
    rg_buf_printf(out, "]}");
}

/* What some ranks of this node have submitted and others have not. */
static void put_pending(struct rg_progress *progress, struct rg_buf *out, uint64_t now)
{
    const struct rg_view *view = &progress->view;
    rg_autofree bool *missing = calloc((size_t) progress->team->size, sizeof(*missing));
    struct rg_wait wait = { .id = 0 };

    for (int n = 0; missing && n < PENDING_MAX && rg_waits_next(progress, &wait); wait.id++) {
        if (!wait.epoch)
            continue;
        for (int r = 0; r < view->n; r++)
            missing[view->ranks[r]] = rg_view_owes(view, r, wait.id, wait.epoch);
        put_op(progress, out, wait.id, rg_wait_age_ns(now, wait.since_ns), missing);
        n++;
    }
}

static void put_node(struct rg_progress *progress, struct rg_buf *ranks, struct rg_buf *pending)
{
    uint64_t now;

    rg_waits_look(progress, rg_now_ns());
    now = rg_now_ns();
    for (int r = 0; r < progress->view.n; r++)
        put_rank(progress, ranks, r, now);
    put_pending(progress, pending, now);
}

void rg_diagnose_answer(struct rg_progress *progress, struct rg_buf *out)
{
    rg_autobuf struct rg_buf ranks = RG_BUF_INIT, pending = RG_BUF_INIT;
    size_t nbytes;

    put_node(progress, &ranks, &pending);
    nbytes = rg_buf_nbytes(out) + rg_buf_nbytes(&ranks);
    if (nbytes > ANSWER_NBYTES_MAX)
        return;
    if (nbytes + rg_buf_nbytes(&pending) > ANSWER_NBYTES_MAX)
        rg_buf_clear(&pending);
    rg_buf_printf(out, "%c%s%c%s", RG_DIAGNOSE_MARK, rg_buf_text(&ranks), RG_DIAGNOSE_MARK,
                  rg_buf_text(&pending));
}

/* ---- several nodes, at the coordinator */

/* What all ranks of this node have submitted, and other nodes have not. */
static void put_offered(struct rg_progress *progress, struct rg_buf *out)
{
    const struct rg_team *team = progress->team;
    rg_autofree bool *nodes = calloc((size_t) team->nnodes, sizeof(*nodes));
    rg_autofree bool *missing = calloc((size_t) team->size, sizeof(*missing));
    struct rg_wait wait = { .id = 0 };
    uint64_t now = rg_now_ns();

    for (int n = 0; nodes && missing && n < PENDING_MAX && rg_waits_next(progress, &wait);
         wait.id++) {
        int count;

        if (!wait.offered_ns)
            continue;
        count = rg_order_missing(rg_multi_order(progress), progress->view.entries[wait.id].key,
                                 nodes);
        for (int rank = 0; rank < team->size; rank++)
            missing[rank] = count > 0 && nodes[team->peers[rank].node];
        put_op(progress, out, wait.id, rg_wait_age_ns(now, wait.offered_ns), missing);
        n++;
    }
}

void rg_diagnose_drive(struct rg_progress *progress, struct rg_diagnoses *diagnoses)
{
    rg_autobuf struct rg_buf offered = RG_BUF_INIT;
    struct rg_diagnosis *diagnosis;
    bool wanted;

    if (!atomic_load(&diagnoses->now))
        return;
    pthread_mutex_lock(&progress->lock);
    diagnosis = atomic_load(&diagnoses->now);
    wanted = diagnosis && !atomic_exchange(&diagnosis->asked, true);
    pthread_mutex_unlock(&progress->lock);
    if (!wanted)
        return;
    put_offered(progress, &offered);
    pthread_mutex_lock(&progress->lock);
    diagnosis = atomic_load(&diagnoses->now);
    if (diagnosis)
        rg_buf_printf(&diagnosis->offered, "%s", rg_buf_text(&offered));
    pthread_mutex_unlock(&progress->lock);
    rg_order_stall_query(rg_multi_order(progress));
}

void rg_diagnose_heard(struct rg_progress *progress, struct rg_diagnoses *diagnoses, int node,
                       const char *answer)
{
    struct rg_diagnosis *diagnosis;

    pthread_mutex_lock(&progress->lock);
    diagnosis = atomic_load(&diagnoses->now);
    if (diagnosis && !diagnosis->answers[node]) {
        diagnosis->answers[node] = strdup(answer);
        atomic_fetch_add(&diagnosis->nanswers, 1);
    }
    pthread_mutex_unlock(&progress->lock);
}

/* Wait for the other nodes. Only one diagnosis at a time. */
static void ask(struct rg_progress *progress, struct rg_diagnoses *diagnoses,
                struct rg_diagnosis *diagnosis, uint64_t deadline_ns)
{
    struct rg_diagnosis *nobody = NULL;

    while (!atomic_compare_exchange_strong(&diagnoses->now, &nobody, diagnosis)) {
        if (rg_now_ns() >= deadline_ns)
            return;
        nobody = NULL;
        rg_sleep_ms(ASK_AGAIN_MS);
    }
    do {
        rg_wake_ring(&progress->wake, progress->view.me, true);
        rg_progress_poll(progress);
        if (atomic_load(&diagnosis->nanswers) == progress->team->nnodes - 1)
            break;
        rg_sleep_ms(ASK_AGAIN_MS);
    } while (rg_now_ns() < deadline_ns && !atomic_load(&progress->view.shared->aborted) &&
             !atomic_load(&progress->view.shared->closed_by) && !atomic_load(&progress->abandoned));
    pthread_mutex_lock(&progress->lock);
    atomic_store(&diagnoses->now, NULL);
    pthread_mutex_unlock(&progress->lock);
}

/* Another node's ranks: as it has answered, else that nobody knows. True when it has answered. */
static bool put_other(struct rg_progress *progress, struct rg_buf *ranks, struct rg_buf *pending,
                      int node, char *answer)
{
    char *second = answer ? strchr(answer, RG_DIAGNOSE_MARK) : NULL;

    if (second) {
        *second++ = '\0';
        rg_buf_printf(ranks, "%s%s", rg_buf_nbytes(ranks) ? "," : "", answer);
        rg_buf_printf(pending, "%s%s", rg_buf_nbytes(pending) && *second ? "," : "", second);
        return true;
    }
    for (int rank = 0; rank < progress->team->size; rank++) {
        if (progress->team->peers[rank].node != node)
            continue;
        put_peer(progress, ranks, rank, false);
        put_process(ranks, progress->team->peers[rank].pid);
        rg_buf_printf(ranks, "}");
    }
    return false;
}

static int put_all(struct rg_progress *progress, struct rg_diagnosis *diagnosis, char **ret_json)
{
    rg_autobuf struct rg_buf ranks = RG_BUF_INIT, pending = RG_BUF_INIT, out = RG_BUF_INIT;
    bool complete = true;
    char *json;

    put_node(progress, &ranks, &pending);
    if (rg_buf_nbytes(&diagnosis->offered))
        rg_buf_printf(&pending, "%s%s", rg_buf_nbytes(&pending) ? "," : "",
                      rg_buf_text(&diagnosis->offered));
    for (int node = 0; node < progress->team->nnodes; node++) {
        if (node != progress->team->node)
            complete &= put_other(progress, &ranks, &pending, node, diagnosis->answers[node]);
    }
    rg_buf_printf(&out, "{\"rank\":%d,\"size\":%d,\"nodes\":%d,\"complete\":%s,\"failure\":",
                  rg_team_world_rank(progress->team, progress->team->rank), progress->team->size,
                  progress->team->nnodes, complete ? "true" : "false");
    if (rg_view_aborted(&progress->view))
        rg_json_put_text(&out, rg_view_abort_text(&progress->view));
    else
        rg_buf_printf(&out, "null");
    rg_buf_printf(&out, ",\"ranks\":[%s],\"pending\":[%s]}", rg_buf_text(&ranks),
                  rg_buf_text(&pending));
    if (rg_buf_status(&out) < 0 || rg_buf_status(&ranks) < 0 || rg_buf_status(&pending) < 0)
        return -ENOMEM;
    json = strdup(rg_buf_text(&out));
    if (!json)
        return -ENOMEM;
    *ret_json = json;
    return 0;
}

int rg_diagnose(struct rg_progress *progress, struct rg_diagnoses *diagnoses, uint64_t deadline_ns,
                char **ret_json)
{
    int nnodes = progress->team->nnodes, r;
    struct rg_diagnosis diagnosis = { .offered = RG_BUF_INIT };

    diagnosis.answers = calloc((size_t) nnodes, sizeof(*diagnosis.answers));
    if (!diagnosis.answers)
        return -ENOMEM;
    if (progress->multi && rg_order_decides(rg_multi_order(progress)))
        ask(progress, diagnoses, &diagnosis, deadline_ns);
    r = put_all(progress, &diagnosis, ret_json);
    for (int node = 0; node < nnodes; node++)
        free(diagnosis.answers[node]);
    free(diagnosis.answers);
    rg_buf_fini(&diagnosis.offered);
    return r;
}
