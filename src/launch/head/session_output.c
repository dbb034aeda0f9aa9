/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "launch/head/session_internal.h"

/* Acknowledging each chunk would double the messages; a quarter of the window keeps the agent busy.
 * */
#define CREDIT_STEP (RG_MSG_OUTPUT_WINDOW / 4)

static void acknowledge(struct session_host *host, size_t nbytes)
{
    host->uncredited += nbytes;
    if (host->uncredited < CREDIT_STEP || !host->channel)
        return;
    rg_msg_send(host->channel, RG_MSG_CREDIT, &(struct rg_msg_bytes){ host->uncredited });
    host->outstanding -= host->uncredited;
    host->uncredited = 0;
}

static void deliver(struct session_host *host, int rank, int stream, const uint8_t *data,
                    size_t nbytes)
{
    struct rg_session *session = host->session;

    if (session->ops->on_output)
        session->ops->on_output(session->o.arg, rank, stream, data, nbytes);
    acknowledge(host, nbytes);
}

static int keep(struct session_host *host, int rank, int stream, struct rg_span *take_data)
{
    struct rg_session *session = host->session;
    struct session_chunk *chunk = calloc(1, sizeof(*chunk));

    if (!chunk)
        return -ENOMEM;
    chunk->host = host->index;
    chunk->rank = rank;
    chunk->stream = stream;
    chunk->data = rg_steal_ptr(&take_data->data);
    chunk->nbytes = take_data->nbytes;
    take_data->nbytes = 0;
    *session->chunks_end = chunk;
    session->chunks_end = &chunk->next;
    return 0;
}

static struct session_chunk *take_first(struct rg_session *session)
{
    struct session_chunk *chunk = session->chunks;

    session->chunks = chunk->next;
    if (!session->chunks)
        session->chunks_end = &session->chunks;
    return chunk;
}

/* The owner wants the end at once and takes nothing: what its ranks still say is let go. */
static bool is_unwanted(const struct rg_session *session)
{
    return session->discarding || (session->abandoned && session->output_paused);
}

int session_on_output(struct session_host *host, int rank, int stream, struct rg_span *take_data)
{
    struct rg_session *session = host->session;
    struct session_rank *r = &session->ranks[rank];

    host->outstanding += take_data->nbytes;
    if (r->stream_ended[stream - 1] || host->outstanding > RG_MSG_OUTPUT_WINDOW)
        return -EBADMSG;
    if (!take_data->nbytes)
        r->stream_ended[stream - 1] = true;
    rg_tail_put(&r->tail, stream, take_data->data, take_data->nbytes);
    if (stream == 2)
        rg_tail_put(&r->errors, stream, take_data->data, take_data->nbytes);
    if (is_unwanted(session))
        acknowledge(host, take_data->nbytes);
    else if (session->output_paused || session->chunks || session->delivering)
        return keep(host, rank, stream, take_data);
    else
        deliver(host, rank, stream, take_data->data, take_data->nbytes);
    return 0;
}

void session_end_streams(struct session_host *host)
{
    struct rg_session *session = host->session;
    const struct rg_plan_host *planned = &session->o.plan->hosts[host->index];

    for (int i = 0; i < planned->nranks; i++) {
        int rank = session->o.plan->by_host[planned->first_rank_index + i];
        for (int stream = 1; stream <= 2; stream++) {
            struct rg_span nothing = { NULL, 0 };
            if (session->ranks[rank].started && !session->ranks[rank].stream_ended[stream - 1])
                session_on_output(host, rank, stream, &nothing);
        }
    }
}

void session_drop_output(struct rg_session *session)
{
    while (session->chunks) {
        struct session_chunk *chunk = take_first(session);
        acknowledge(&session->hosts[chunk->host], chunk->nbytes);
        free(chunk->data);
        free(chunk);
    }
}

void rg_session_pause_output(struct rg_session *session, bool pause)
{
    session->output_paused = pause;
    if (pause && session->abandoned)
        session_drop_output(session);
    if (pause || session->delivering)
        return;
    session->delivering = true;
    while (session->chunks && !session->output_paused) {
        struct session_chunk *chunk = take_first(session);
        deliver(&session->hosts[chunk->host], chunk->rank, chunk->stream, chunk->data,
                chunk->nbytes);
        free(chunk->data);
        free(chunk);
    }
    session->delivering = false;
    session_check_end(session);
}
