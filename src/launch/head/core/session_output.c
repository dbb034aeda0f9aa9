/* SPDX-License-Identifier: Apache-2.0 */
/* A slow owner must delay neither the ranks' ends nor each other's output without bound: what it
 * does not take waits here, and its senders run out of credit. */
#include "launch/head/core/session_output.h"

#include <string.h>

#include "launch/verdict/tail.h"

/* Acknowledging each chunk would double the messages; a quarter of the window keeps the agent
 * busy. */
#define CREDIT_STEP (RG_MSG_OUTPUT_WINDOW / 4)

/* Output that came while the owner wanted none. At most the hosts' windows. */
struct chunk {
    struct chunk *next;
    int host, rank, stream;
    struct rg_span data;
};

struct output_host {
    uint64_t outstanding; /* bytes that came and were not acknowledged */
    uint64_t uncredited;  /* the part of them that was delivered */
};

struct output_rank {
    struct rg_tail tail;
    struct rg_tail errors; /* of its standard error alone */
    bool ended[2];         /* streams */
};

struct session_output {
    struct output_host *hosts;
    struct chunk *chunks, **chunks_end;
    bool paused;     /* by the owner */
    bool delivering; /* what was kept: the owner is being called */
    bool discarding; /* what comes is let go */
    struct output_rank ranks[];
};

static int init(struct rg_session *session)
{
    struct session_output *output = session->output;

    output->chunks_end = &output->chunks;
    output->hosts = calloc((size_t) session->o.plan->nhosts, sizeof(*output->hosts));
    return output->hosts ? 0 : -ENOMEM;
}

static void acknowledge(struct session_host *host, size_t nbytes)
{
    struct output_host *o = &host->session->output->hosts[host->index];

    o->uncredited += nbytes;
    if (o->uncredited < CREDIT_STEP || !host->channel)
        return;
    session_send(host, RG_MSG_CREDIT, &(struct rg_msg_bytes){ o->uncredited });
    o->outstanding -= o->uncredited;
    o->uncredited = 0;
}

static void deliver(struct session_host *host, int rank, int stream, const struct rg_span *data)
{
    const struct rg_session_options *o = &host->session->o;

    if (o->ops->on_output)
        o->ops->on_output(o->arg, rank, stream, data->data, data->nbytes);
    acknowledge(host, data->nbytes);
}

static int keep(struct session_host *host, int rank, int stream, struct rg_span *take_data)
{
    struct session_output *output = host->session->output;
    struct chunk *chunk = calloc(1, sizeof(*chunk));

    if (!chunk)
        return -ENOMEM;
    *chunk = (struct chunk){ .host = host->index, .rank = rank, .stream = stream,
                             .data = *take_data };
    *take_data = (struct rg_span){ NULL, 0 };
    *output->chunks_end = chunk;
    output->chunks_end = &chunk->next;
    return 0;
}

static struct chunk *take_first(struct session_output *output)
{
    struct chunk *chunk = output->chunks;

    output->chunks = chunk->next;
    if (!output->chunks)
        output->chunks_end = &output->chunks;
    return chunk;
}

static void free_chunk(struct chunk *chunk)
{
    free(chunk->data.data);
    free(chunk);
}

/* The owner wants the end at once and takes nothing: what its ranks still say is let go. */
static bool is_unwanted(const struct rg_session *session)
{
    return session->output->discarding ||
           (session->state == STATE_ABANDONED && session->output->paused);
}

int session_on_output(struct session_host *host, int rank, int stream, struct rg_span *take_data)
{
    struct session_output *output = host->session->output;
    struct output_rank *r = &output->ranks[rank];
    uint64_t *outstanding = &output->hosts[host->index].outstanding;

    *outstanding += take_data->nbytes;
    if (r->ended[stream - 1] || *outstanding > RG_MSG_OUTPUT_WINDOW)
        return -EBADMSG;
    if (!take_data->nbytes)
        r->ended[stream - 1] = true;
    rg_tail_put(&r->tail, stream, take_data->data, take_data->nbytes);
    if (stream == 2)
        rg_tail_put(&r->errors, stream, take_data->data, take_data->nbytes);
    if (is_unwanted(host->session))
        acknowledge(host, take_data->nbytes);
    else if (output->paused || output->chunks || output->delivering)
        return keep(host, rank, stream, take_data);
    else
        deliver(host, rank, stream, take_data);
    return 0;
}

void session_output_end(struct session_host *host, int rank)
{
    for (int stream = 1; stream <= 2; stream++) {
        if (!host->session->output->ranks[rank].ended[stream - 1])
            session_on_output(host, rank, stream, &(struct rg_span){ NULL, 0 });
    }
}

void session_output_drop(struct rg_session *session, bool discard)
{
    struct session_output *output = session->output;

    output->discarding |= discard;
    while (output->chunks && is_unwanted(session)) {
        struct chunk *chunk = take_first(output);
        acknowledge(&session->hosts[chunk->host], chunk->data.nbytes);
        free_chunk(chunk);
    }
}

void session_output_pause(struct rg_session *session, bool pause)
{
    struct session_output *output = session->output;

    output->paused = pause;
    session_output_drop(session, false);
    if (pause || output->delivering)
        return;
    output->delivering = true;
    while (output->chunks && !output->paused) {
        struct chunk *chunk = take_first(output);
        deliver(&session->hosts[chunk->host], chunk->rank, chunk->stream, &chunk->data);
        free_chunk(chunk);
    }
    output->delivering = false;
}

bool session_output_waits(const struct rg_session *session)
{
    return session->output->chunks != NULL;
}

void session_output_hash(struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nranks; i++) {
        session->facts[i].lines = rg_tail_hash(&session->output->ranks[i].tail);
        session->facts[i].error = rg_tail_hash_error(&session->output->ranks[i].errors);
    }
}

size_t session_output_last_lines(const struct rg_session *session, int rank, const char **ret_lines)
{
    return rg_tail_lines(&session->output->ranks[rank].tail, ret_lines);
}

static void fini(struct rg_session *session)
{
    struct session_output *output = session->output;

    while (output->chunks)
        free_chunk(take_first(output));
    for (int i = 0; i < session->o.plan->nranks; i++) {
        rg_tail_fini(&output->ranks[i].tail);
        rg_tail_fini(&output->ranks[i].errors);
    }
    free(output->hosts);
}

const struct session_part session_output_part = {
    SESSION_PART(output), .nbytes_per_rank = sizeof(struct output_rank), .init = init, .fini = fini,
};
