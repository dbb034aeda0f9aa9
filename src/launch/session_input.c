/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/session_internal.h"

void session_input_init(struct rg_session *session)
{
    const struct rg_job *job = session->o.job;
    const struct rg_plan *plan = session->o.plan;

    for (int i = 0; i < plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        host->takes_input = job->stdin_mode == RG_STDIN_ALL;
        host->input_credit = RG_MSG_INPUT_WINDOW;
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

void session_input_start(struct rg_session *session)
{
    if (session->input_eof)
        send_eof(session);
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
