/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a fence is as large as the job. So it is made once, and each agent gets it in
 * parts, as fast as its link takes them: what waits here is one answer and each link's backlog. */
#include "launch/head/session_fence.h"

#include "base/time.h"
#include "launch/head/fence.h"
#include "wire/rankmsg.h"

struct session_fences {
    struct rg_fence *fence;
    struct rg_timer timer;
    bool met;
    uint32_t generation;  /* of the answer */
    struct rg_buf answer; /* the blobs; empty once all hosts have it, or it is void */
    size_t sent[];        /* bytes of it, to each host */
};

int session_fences_create(struct rg_session *session)
{
    size_t nhosts = (size_t) session->o.plan->nhosts;
    struct session_fences *fences = session->fences =
        calloc(1, sizeof(*fences) + nhosts * sizeof(fences->sent[0]));

    return fences ? rg_fence_create(session->o.plan->nranks, &fences->fence) : -ENOMEM;
}

void session_fences_destroy(struct rg_session *session)
{
    struct session_fences *fences = session->fences;

    if (!fences)
        return;
    rg_timer_stop(&fences->timer);
    rg_fence_destroy(fences->fence);
    rg_buf_fini(&fences->answer);
    free(fences);
}

/* --- failures --------------------------------------------------------------------------------- */

/* Who has not all of an answer hears that there is none. */
static void fail(struct rg_session *session, uint32_t generation, struct rg_error *err)
{
    struct rg_rankmsg_fence_failed msg = { generation, (uint32_t) err->errnum, err->text };

    rg_buf_fini(&session->fences->answer);
    session_broadcast(session, RG_MSG_FENCE_FAILED, &msg);
    rg_timer_stop(&session->fences->timer);
}

static void due(void *arg);

static void watch(struct rg_session *session)
{
    struct session_fences *fences = session->fences;
    uint64_t deadline_ns = rg_fence_deadline_ns(fences->fence);
    uint64_t now = rg_now_ns();

    if (deadline_ns == RG_NEVER_NS)
        rg_timer_stop(&fences->timer);
    else
        rg_timer_start(&fences->timer, session->o.loop,
                       deadline_ns > now ? (deadline_ns - now) / RG_NS_PER_MS + 1 : 0, 0, due,
                       session);
}

static void due(void *arg)
{
    struct rg_session *session = arg;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_fence_deadline_ns(session->fences->fence) > rg_now_ns())
        watch(session);
    else if (rg_fence_expire(session->fences->fence, &err) < 0)
        fail(session, 0, &err);
}

void session_fence_rank_ended(struct rg_session *session, int rank, const char *how)
{
    struct rg_error err = RG_ERROR_INIT;

    if (rg_fence_rank_ended(session->fences->fence, rank, how, &err) < 0)
        fail(session, 0, &err);
}

/* --- the answer ------------------------------------------------------------------------------- */

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
            { (uint8_t *) rg_buf_bytes(&fences->answer) + *sent, n }
        };
        *sent += n;
        if (session_send(host, RG_MSG_FENCE_DONE, &part) < 0)
            return; /* its link tells */
    }
}

void session_fence_go_on(struct session_host *host)
{
    struct session_fences *fences = host->session->fences;

    if (!rg_buf_nbytes(&fences->answer))
        return;
    send_parts(host);
    if (all_have_it(host->session))
        rg_buf_fini(&fences->answer);
}

static void answer(struct rg_session *session)
{
    struct session_fences *fences = session->fences;
    struct rg_error err = RG_ERROR_INIT;

    rg_buf_fini(&fences->answer);
    fences->generation = rg_fence_take(fences->fence, &fences->answer);
    rg_timer_stop(&fences->timer);
    if (rg_buf_status(&fences->answer) < 0) {
        rg_error_set(&err, ENOMEM, "no memory for the ranks' meeting");
        fail(session, fences->generation, &err);
        return;
    }
    fences->met = true;
    for (int i = 0; i < session->o.plan->nhosts; i++)
        fences->sent[i] = 0;
    for (int i = 0; i < session->o.plan->nhosts; i++)
        send_parts(&session->hosts[i]);
    if (all_have_it(session))
        rg_buf_fini(&fences->answer);
}

void session_on_fence(struct session_host *host, const struct rg_msg_fence *msg)
{
    struct rg_session *session = host->session;
    struct rg_error err = RG_ERROR_INIT;
    uint64_t deadline_ns = msg->timeout_ms ? rg_now_ns() + msg->timeout_ms * RG_NS_PER_MS
                                           : RG_NEVER_NS;
    int r = rg_fence_arrive(session->fences->fence, (int) msg->rank, msg->generation, deadline_ns,
                            msg->blob.data, msg->blob.nbytes, &err);

    if (r < 0)
        fail(session, msg->generation, &err);
    else if (r == 0)
        watch(session);
    else
        answer(session);
}

bool session_have_met(const struct rg_session *session)
{
    return session->fences->met;
}
