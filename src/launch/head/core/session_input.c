/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of standard input have to wait where the slowest reader sets the pace: credit bounds what
 * is under way to each host. */
#include "launch/head/core/session_input.h"

struct input_host {
    bool takes, closed, eof_sent;
    uint64_t credit;
};

struct session_input {
    bool eof;
    bool waits; /* the owner had more bytes than there was room for */
    struct input_host hosts[];
};

/* What may be under way to each of n hosts. */
static uint64_t window_of(int n)
{
    uint64_t share = RG_INPUT_MEMORY / (uint64_t) (n > 0 ? n : 1);

    if (share < RG_INPUT_LEAST)
        share = RG_INPUT_LEAST;
    return share < RG_MSG_INPUT_WINDOW ? share : RG_MSG_INPUT_WINDOW;
}

static int init(struct rg_session *session)
{
    const struct rg_job *job = session->o.job;
    const struct rg_plan *plan = session->o.plan;
    bool all = job->stdin_mode == RG_STDIN_ALL;

    for (int i = 0; i < plan->nhosts; i++)
        session->input->hosts[i] = (struct input_host){
            .takes = all, .credit = window_of(all ? plan->nhosts : 1),
        };
    if (job->stdin_mode == RG_STDIN_RANK && job->stdin_rank >= 0 && job->stdin_rank < plan->nranks)
        session->input->hosts[plan->ranks[job->stdin_rank].host].takes = true;
    return 0;
}

const struct session_part session_input_part = {
    SESSION_PART(input), .nbytes_per_host = sizeof(struct input_host), .init = init,
};

/* As far as is known, some rank there still reads. */
static bool reads(const struct rg_session *session, int host)
{
    const struct input_host *input = &session->input->hosts[host];

    return input->takes && !input->closed && session->hosts[host].state <= HOST_READY;
}

static void send_eof(struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (!reads(session, i) || !session->hosts[i].channel || session->input->hosts[i].eof_sent)
            continue;
        session->input->hosts[i].eof_sent = true;
        session_send(&session->hosts[i], RG_MSG_INPUT_EOF, NULL);
    }
}

/* What the slowest host can take; -EPIPE when none reads. */
static int64_t room(const struct rg_session *session)
{
    int64_t least = -EPIPE;

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        int64_t credit = (int64_t) session->input->hosts[i].credit;
        if (reads(session, i) && (least < 0 || credit < least))
            least = credit;
    }
    return least;
}

void session_input_go_on(struct rg_session *session)
{
    if (!session->input->waits || room(session) == 0)
        return;
    session->input->waits = false;
    if (session->o.ops->on_input_ready)
        session->o.ops->on_input_ready(session->o.arg);
}

void session_input_start(struct rg_session *session)
{
    if (session->input->eof)
        send_eof(session);
    session_input_go_on(session);
}

int session_on_input_credit(struct session_host *host, uint64_t nbytes)
{
    uint64_t *credit = &host->session->input->hosts[host->index].credit;

    if (nbytes > RG_MSG_INPUT_WINDOW || *credit + nbytes > RG_MSG_INPUT_WINDOW)
        return -EBADMSG;
    *credit += nbytes;
    session_input_go_on(host->session);
    return 0;
}

void session_on_input_closed(struct session_host *host)
{
    host->session->input->hosts[host->index].closed = true;
    session_input_go_on(host->session);
}

static void send_chunk(struct rg_session *session, const uint8_t *data, size_t nbytes)
{
    struct rg_msg_data msg = { { (uint8_t *) data, nbytes } };

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (!reads(session, i) || !session->hosts[i].channel)
            continue;
        session->input->hosts[i].credit -= nbytes;
        session_send(&session->hosts[i], RG_MSG_INPUT, &msg);
    }
}

int session_input_put(struct rg_session *session, const void *data, size_t nbytes)
{
    struct session_input *input = session->input;
    const uint8_t *bytes = data;
    int64_t can = room(session);
    size_t sent = 0;

    if (can < 0 || input->eof || session->state == STATE_ENDED)
        return -EPIPE;
    if (!nbytes) {
        input->eof = true;
        if (session->state != STATE_STARTING)
            send_eof(session);
        return 0;
    }
    input->waits = session->state == STATE_STARTING || (uint64_t) can < nbytes;
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
