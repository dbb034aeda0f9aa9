/* SPDX-License-Identifier: Apache-2.0 */
/* A slow owner must delay neither the ranks' ends nor each other's output without bound: what it
 * does not take waits here, and its senders run out of credit. Standard input waits where the
 * slowest reader sets the pace. */
#include "launch/session/core/session_stream.h"

#include "launch/verdict/marks.h"
#include "launch/verdict/tail.h"

/* Acknowledging each chunk would double the messages; a quarter of the window keeps the agent
 * busy. */
#define CREDIT_STEP (RG_MSG_OUTPUT_WINDOW / 4)
/* All hosts together hold at most so much input here and on the way, or INPUT_LEAST each where that
 * is more. */
#define INPUT_MEMORY (64u << 20)
#define INPUT_LEAST (256u << 10)

/* --- output ----------------------------------------------------------------------------------- */

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
    struct rg_marks marks;
};

struct session_output {
    struct output_host *hosts;
    struct chunk *chunks, **chunks_end;
    bool paused;     /* by the owner */
    bool delivering; /* what was kept: the owner is being called */
    bool discarding; /* what comes is let go */
    struct output_rank ranks[];
};

static int init_output(struct rg_session *session)
{
    struct session_output *output = session->output;

    output->chunks_end = &output->chunks;
    output->hosts = calloc((size_t) session->o.plan->room_hosts, sizeof(*output->hosts));
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

static void mark(const struct rg_session *session, struct output_rank *r, int stream,
                 const struct rg_span *data)
{
    if (session->o.job->max_restarts || session->o.job->elastic.on)
        rg_marks_put(&r->marks, stream, data->data, data->nbytes);
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
    mark(host->session, r, stream, take_data);
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

void session_output_begin(struct rg_session *session, int rank)
{
    struct output_rank *r = &session->output->ranks[rank];

    r->ended[0] = r->ended[1] = false;
    rg_tail_fini(&r->tail); /* of the process that was there before */
    rg_tail_fini(&r->errors);
    rg_marks_fini(&r->marks);
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
        session->facts[i].traceback = rg_tail_is_traceback(&session->output->ranks[i].errors);
    }
}

size_t session_output_last_lines(const struct rg_session *session, int rank, const char **ret_lines)
{
    return rg_tail_lines(&session->output->ranks[rank].tail, ret_lines);
}

size_t session_output_last_errors(const struct rg_session *session, int rank,
                                  const char **ret_lines)
{
    return rg_tail_lines(&session->output->ranks[rank].errors, ret_lines);
}

void session_output_marks(const struct rg_session *session, int rank, struct rg_mark *ret_mark)
{
    rg_marks_take(&session->output->ranks[rank].marks, ret_mark);
}

static void fini_output(struct rg_session *session)
{
    struct session_output *output = session->output;

    while (output->chunks)
        free_chunk(take_first(output));
    for (int i = 0; i < session->o.plan->nranks; i++) {
        rg_tail_fini(&output->ranks[i].tail);
        rg_tail_fini(&output->ranks[i].errors);
        rg_marks_fini(&output->ranks[i].marks);
    }
    free(output->hosts);
}

const struct session_part session_output_part = {
    SESSION_PART(output), .nbytes_per_rank = sizeof(struct output_rank), .init = init_output,
    .fini = fini_output,
};

/* --- input ------------------------------------------------------------------------------------ */

struct input_host {
    bool takes, closed;
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
    uint64_t share = INPUT_MEMORY / (uint64_t) (n > 0 ? n : 1);

    if (share < INPUT_LEAST)
        share = INPUT_LEAST;
    return share < RG_MSG_INPUT_WINDOW ? share : RG_MSG_INPUT_WINDOW;
}

static int init_input(struct rg_session *session)
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
    SESSION_PART(input), .nbytes_per_host = sizeof(struct input_host), .init = init_input,
};

/* As far as is known, some rank there still reads. */
static bool reads(const struct rg_session *session, int host)
{
    const struct input_host *input = &session->input->hosts[host];

    return input->takes && !input->closed && session->hosts[host].state <= HOST_READY;
}

/* nbytes: of their credit. */
static void send_to_readers(struct rg_session *session, enum rg_msg_type type, const void *msg,
                            size_t nbytes)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (!reads(session, i) || !session->hosts[i].channel)
            continue;
        session->input->hosts[i].credit -= nbytes;
        session_send(&session->hosts[i], type, msg);
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
        send_to_readers(session, RG_MSG_INPUT_EOF, NULL, 0);
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

int session_input_put(struct rg_session *session, const void *data, size_t nbytes)
{
    struct session_input *input = session->input;
    int64_t can = room(session);
    size_t sent = 0;

    if (can < 0 || input->eof || session->state == STATE_ENDED)
        return -EPIPE;
    if (!nbytes) {
        input->eof = true;
        if (session->state != STATE_STARTING)
            send_to_readers(session, RG_MSG_INPUT_EOF, NULL, 0);
        return 0;
    }
    input->waits = session->state == STATE_STARTING || (uint64_t) can < nbytes;
    if (session->state == STATE_STARTING)
        return 0;
    if ((uint64_t) can < nbytes)
        nbytes = (size_t) can;
    while (sent < nbytes) {
        size_t chunk = nbytes - sent < RG_MSG_CHUNK_MAX ? nbytes - sent : RG_MSG_CHUNK_MAX;
        struct rg_msg_data msg = { { (uint8_t *) data + sent, chunk } };
        send_to_readers(session, RG_MSG_INPUT, &msg, chunk);
        sent += chunk;
    }
    return (int) nbytes;
}
