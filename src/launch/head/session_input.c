/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/head/session_internal.h"

/* What may be under way to each of n hosts. */
static uint64_t window_of(int n)
{
    uint64_t share = RG_INPUT_MEMORY / (uint64_t) (n > 0 ? n : 1);

    if (share < RG_INPUT_LEAST)
        share = RG_INPUT_LEAST;
    return share < RG_MSG_INPUT_WINDOW ? share : RG_MSG_INPUT_WINDOW;
}

void session_input_init(struct rg_session *session)
{
    const struct rg_job *job = session->o.job;
    const struct rg_plan *plan = session->o.plan;
    bool all = job->stdin_mode == RG_STDIN_ALL;

    for (int i = 0; i < plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        host->takes_input = all;
        host->input_credit = window_of(all ? plan->nhosts : 1);
    }
    if (job->stdin_mode == RG_STDIN_RANK && job->stdin_rank >= 0 && job->stdin_rank < plan->nranks)
        session->hosts[plan->ranks[job->stdin_rank].host].takes_input = true;
}

static bool reads(const struct session_host *host)
{
    return host->takes_input && !host->input_closed && host->channel && !host->lost;
}

static void send_eof(struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        if (!reads(host) || host->input_eof_sent)
            continue;
        host->input_eof_sent = true;
        rg_msg_send(host->channel, RG_MSG_INPUT_EOF, NULL);
    }
}

/* What the slowest host can take; -EPIPE when none reads. */
static int64_t room(const struct rg_session *session)
{
    int64_t least = -EPIPE;

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        const struct session_host *host = &session->hosts[i];
        if (!host->takes_input || host->input_closed || host->lost || host->bye)
            continue;
        if (least < 0 || (int64_t) host->input_credit < least)
            least = (int64_t) host->input_credit;
    }
    return least;
}

void session_input_go_on(struct rg_session *session)
{
    if (!session->input_waits || room(session) == 0)
        return;
    session->input_waits = false;
    if (session->ops->on_input_ready)
        session->ops->on_input_ready(session->o.arg);
}

void session_input_start(struct rg_session *session)
{
    if (session->input_eof)
        send_eof(session);
    session_input_go_on(session);
}

static void send_chunk(struct rg_session *session, const uint8_t *data, size_t nbytes)
{
    struct rg_msg_data msg = { { (uint8_t *) data, nbytes } };

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        if (!reads(host))
            continue;
        host->input_credit -= nbytes;
        rg_msg_send(host->channel, RG_MSG_INPUT, &msg);
    }
}

int rg_session_input(struct rg_session *session, const void *data, size_t nbytes)
{
    const uint8_t *bytes = data;
    int64_t can = room(session);
    size_t sent = 0;

    if (can < 0 || session->input_eof || session->state == STATE_ENDED)
        return -EPIPE;
    if (!nbytes) {
        session->input_eof = true;
        if (session->state != STATE_STARTING)
            send_eof(session);
        return 0;
    }
    session->input_waits = session->state == STATE_STARTING || (uint64_t) can < nbytes;
    if (session->state == STATE_STARTING)
        return 0;
    if ((uint64_t) can < nbytes)
        nbytes = (size_t) can;
    while (sent < nbytes) {
        size_t chunk = nbytes - sent < RG_MSG_CHUNK_MAX ? nbytes - sent : RG_MSG_CHUNK_MAX;
        send_chunk(session, bytes + sent, chunk);
        sent += chunk;
    }
    return (int) nbytes;
}
