/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks of all hosts meet. The answer to a fence is as large as the job: so it is made
 * once, and each agent gets it in parts, as fast as its link takes them. What waits is one answer
 * and each link's backlog. */
#include "launch/session/meet/meet.h"

#include "base/time.h"
#include "launch/session/core/session_end.h"
#include "launch/session/meet/fence.h"

struct session_fences {
    struct rg_fence *fence; /* NULL before the first epoch */
    uint32_t epoch;         /* 0: the job is not elastic */
    const int *rank_of;     /* by place; NULL: places are ranks */
    struct rg_timer timer;
    bool met;
    uint32_t generation;  /* of the answer */
    struct rg_buf answer; /* the blobs; empty once all hosts have it, or it is void */
    size_t sent[];        /* bytes of it, to each host */
};

static int init_fences(struct rg_session *session)
{
    return session->o.job->elastic.on
               ? 0 : rg_fence_create(session->o.plan->nranks, &session->fences->fence);
}

static void fini_fences(struct rg_session *session)
{
    rg_timer_stop(&session->fences->timer);
    rg_fence_destroy(session->fences->fence);
    rg_buf_fini(&session->fences->answer);
}

const struct session_part session_fences_part = {
    SESSION_PART(fences), .nbytes_per_host = sizeof(size_t), .init = init_fences,
    .fini = fini_fences,
};

/* Who has not all of an answer hears that there is none. */
static void fail_fence(struct rg_session *session, uint32_t generation, struct rg_error *err)
{
    struct rg_rankmsg_fence_failed msg = { generation, (uint32_t) err->errnum, err->text,
                                          session->fences->epoch };

    rg_buf_fini(&session->fences->answer);
    session_broadcast(session, RG_MSG_FENCE_FAILED, &msg);
    rg_timer_stop(&session->fences->timer);
}

static void fence_due(void *arg);

static void watch_fence(struct rg_session *session)
{
    struct session_fences *fences = session->fences;
    uint64_t deadline_ns = rg_fence_deadline_ns(fences->fence);
    uint64_t now = rg_now_ns();

    if (deadline_ns == RG_NEVER_NS)
        rg_timer_stop(&fences->timer);
    else
        rg_timer_start(&fences->timer, session->o.loop,
                       deadline_ns > now ? (deadline_ns - now) / RG_NS_PER_MS + 1 : 0, 0, fence_due,
                       session);
}

static void fence_due(void *arg)
{
    struct rg_session *session = arg;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_fence_deadline_ns(session->fences->fence) > rg_now_ns())
        watch_fence(session);
    else if (rg_fence_expire(session->fences->fence, &err) < 0)
        fail_fence(session, 0, &err);
}

int session_rank_of(const struct rg_session *session, int place)
{
    const struct session_fences *fences = session->fences;

    if (!fences->fence)
        return -1;
    return fences->rank_of ? fences->rank_of[place] : place;
}

int session_place_of(const struct rg_session *session, uint32_t rank)
{
    const struct rg_plan *plan = session->o.plan;

    for (int place = 0; rank < (uint32_t) plan->nranks && place < plan->nranks; place++) {
        if (session_rank_of(session, place) == (int) rank)
            return place;
    }
    return -1;
}

uint32_t session_epoch(const struct rg_session *session)
{
    return session->fences->epoch;
}

/* Who waits will hear that it waits in vain for the rank at ended. In an elastic job that is no
 * failure: it comes to meet the others of the next epoch. */
static void cut_off_waiting(struct rg_session *session, int ended)
{
    if (session->o.job->elastic.on)
        return;
    for (int i = 0; i < session->o.plan->nranks; i++) {
        if (i != ended && rg_fence_waits(session->fences->fence, i))
            session->facts[i].cut_by = 1 + ended;
    }
}

/* It has come when another one had ended. */
static void cut_off_late(struct rg_session *session, int rank)
{
    int ended = 0;

    while (ended < session->o.plan->nranks && !session->facts[ended].ended)
        ended++;
    if (!session->o.job->elastic.on && ended < session->o.plan->nranks)
        session->facts[rank].cut_by = 1 + ended;
}

void session_leave_fence(struct rg_session *session, int place, const char *how)
{
    int rank = session_rank_of(session, place);
    struct rg_error err = RG_ERROR_INIT;

    cut_off_waiting(session, place);
    if (rank >= 0 && rg_fence_rank_ended(session->fences->fence, rank, how, &err) < 0)
        fail_fence(session, 0, &err);
}

static bool all_have_it(const struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (session_host_listens(&session->hosts[i]) &&
            session->fences->sent[i] < rg_buf_nbytes(&session->fences->answer))
            return false;
    }
    return true;
}

static void send_parts(struct session_host *host)
{
    struct session_fences *fences = host->session->fences;
    size_t all = rg_buf_nbytes(&fences->answer), *sent = &fences->sent[host->index];

    while (*sent < all && session_host_listens(host) && !rg_channel_congested(host->channel)) {
        size_t n = all - *sent < RG_FENCE_PART_MAX ? all - *sent : RG_FENCE_PART_MAX;
        struct rg_rankmsg_fence_done part = {
            fences->generation, (uint32_t) (all - *sent - n),
            { (uint8_t *) rg_buf_bytes(&fences->answer) + *sent, n }, fences->epoch
        };
        *sent += n;
        if (session_send(host, RG_MSG_FENCE_DONE, &part) < 0)
            return; /* its link tells */
    }
}

void session_fence_go_on(void *arg)
{
    struct session_host *host = arg;
    struct session_fences *fences = host->session->fences;

    if (!rg_buf_nbytes(&fences->answer))
        return;
    send_parts(host);
    if (all_have_it(host->session))
        rg_buf_fini(&fences->answer);
}

static void answer_fence(struct rg_session *session)
{
    struct session_fences *fences = session->fences;
    struct rg_error err = RG_ERROR_INIT;

    rg_buf_fini(&fences->answer);
    fences->generation = rg_fence_take(fences->fence, &fences->answer);
    rg_timer_stop(&fences->timer);
    if (rg_buf_status(&fences->answer) < 0) {
        rg_error_set(&err, ENOMEM, "no memory for the ranks' meeting");
        fail_fence(session, fences->generation, &err);
        return;
    }
    fences->met = true;
    for (int i = 0; i < session->o.plan->nhosts; i++)
        fences->sent[i] = 0;
    for (int i = 0; i < session->o.plan->nhosts; i++)
        send_parts(&session->hosts[i]);
    if (all_have_it(session))
        rg_buf_fini(&fences->answer);
    session_end_met(session);
}

void session_on_fence(struct session_host *host, const struct rg_msg_fence *msg)
{
    struct rg_session *session = host->session;
    struct rg_error err = RG_ERROR_INIT;
    uint64_t deadline_ns = msg->timeout_ms ? rg_now_ns() + msg->timeout_ms * RG_NS_PER_MS
                                           : RG_NEVER_NS;
    int rank = session_rank_of(session, (int) msg->rank);

    /* One that is late: it hears of the new epoch when it comes to meet the others. */
    if (msg->epoch != session->fences->epoch || rank < 0)
        return;
    int r = rg_fence_arrive(session->fences->fence, rank, msg->generation, deadline_ns,
                            msg->blob.data, msg->blob.nbytes, &err);

    if (r == -ECONNRESET)
        cut_off_late(session, rank);
    if (r < 0)
        fail_fence(session, msg->generation, &err);
    else if (r == 0)
        watch_fence(session);
    else
        answer_fence(session);
}

const struct rg_fence *session_fence(const struct rg_session *session)
{
    return session->fences->fence;
}

bool session_have_met(const struct rg_session *session)
{
    return session->fences->met;
}

int session_open_fence(struct rg_session *session, uint32_t epoch, int nranks, const int *rank_of)
{
    struct session_fences *fences = session->fences;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_fence *fence;

    if (rg_fence_create(nranks, &fence) < 0)
        return -ENOMEM;
    if (fences->fence) {
        rg_error_set(&err, ECONNRESET, "epoch %u is over", fences->epoch);
        fail_fence(session, 0, &err);
    }
    rg_fence_destroy(fences->fence);
    fences->fence = fence;
    fences->epoch = epoch;
    fences->rank_of = rank_of;
    fences->met = false;
    return 0;
}
