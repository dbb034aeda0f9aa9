/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of each rank: whether it was started, its runtime's last note, and the fact that
 * the verdict judges. */
#include "launch/session/core/session_facts.h"

#include <string.h>

#include "launch/session/core/session_stream.h"

struct rank {
    char *note;   /* the runtime's last; end.note points here */
    char *place;  /* likewise end.place */
    bool started; /* STARTED or NOT_STARTED came */
};

struct session_ranks {
    int nstarted;
    struct rank ranks[];
};

static int init(struct rg_session *session)
{
    session->facts = calloc((size_t) session->o.plan->room_ranks, sizeof(*session->facts));
    if (!session->facts)
        return -ENOMEM;
    session_added(session, 0, 0);
    return 0;
}

static void clear(struct rg_session *session, int rank)
{
    struct rg_fact *fact = &session->facts[rank];

    free(rg_steal_ptr(&session->ranks->ranks[rank].note));
    free(rg_steal_ptr(&session->ranks->ranks[rank].place));
    free(rg_steal_ptr(&fact->text));
    free(rg_steal_ptr(&fact->end.memory));
    free(rg_steal_ptr(&fact->end.sshd_host));
}

static void fini(struct rg_session *session)
{
    for (int i = 0; session->facts && i < session->o.plan->nranks; i++)
        clear(session, i);
    free(session->facts);
}

const struct session_part session_ranks_part = {
    SESSION_PART(ranks), .nbytes_per_rank = sizeof(struct rank), .init = init, .fini = fini,
};

bool session_has_started(const struct rg_session *session, int rank)
{
    return session->ranks->ranks[rank].started;
}

void session_count_started(struct rg_session *session, int rank)
{
    struct rank *r = &session->ranks->ranks[rank];

    session->ranks->nstarted += !r->started;
    r->started = true;
}

void session_renew_rank(struct rg_session *session, int rank)
{
    struct rg_fact *fact = &session->facts[rank];
    struct rg_rank_end end = { .rank = rank, .host = fact->end.host, .engine = fact->end.engine,
                               .note = "" };

    session->nended -= fact->ended;
    session->ranks->nstarted -= session->ranks->ranks[rank].started;
    session->ranks->ranks[rank].started = false;
    clear(session, rank);
    *fact = (struct rg_fact){ .end = end };
}

void session_note_rank(struct rg_session *session, int rank, const char *text)
{
    char *copy = strndup(text, RG_MSG_TEXT_MAX);

    if (!copy)
        return;
    free(session->ranks->ranks[rank].note);
    session->ranks->ranks[rank].note = copy;
    session->facts[rank].end.note = copy;
}

bool session_note_place(struct rg_session *session, int rank, const char *text)
{
    struct rank *r = &session->ranks->ranks[rank];

    if (r->place)
        return false;
    r->place = strndup(text, RG_MSG_TEXT_MAX);
    session->facts[rank].end.place = r->place;
    return true;
}

void session_each_started(struct session_host *host,
                          void (*f)(struct session_host *host, int rank))
{
    const struct rg_plan *plan = host->session->o.plan;
    const struct rg_plan_host *planned = &plan->hosts[host->index];

    for (int i = 0; i < planned->nranks; i++) {
        int rank = plan->by_host[planned->first_rank_index + i];
        if (host->session->ranks->ranks[rank].started)
            f(host, rank);
    }
}

void session_end_streams(struct session_host *host)
{
    session_each_started(host, session_output_end);
}

void session_accuse(struct rg_session *session, int place)
{
    for (int i = 0; i < session->o.plan->nranks; i++) {
        struct rg_fact *fact = &session->facts[i];
        if (fact->ended && (i == place || fact->end.at_ns >= session->began_ns))
            fact->excused = fact->end.borne = false;
    }
}

bool session_all_started(const struct rg_session *session)
{
    return session->ranks->nstarted == session->o.plan->nranks;
}

bool session_none_runs(const struct rg_session *session)
{
    return session->nended == (session->o.job->elastic.on ? session->ranks->nstarted
                                                          : session->o.plan->nranks);
}

bool session_all_started_on(const struct session_host *host)
{
    const struct rg_plan *plan = host->session->o.plan;
    const struct rg_plan_host *planned = &plan->hosts[host->index];

    for (int i = 0; i < planned->nranks; i++) {
        if (!host->session->ranks->ranks[plan->by_host[planned->first_rank_index + i]].started)
            return false;
    }
    return true;
}
