/* SPDX-License-Identifier: Apache-2.0 */
/* The few things that every part of the session does with its hosts. */
#include "launch/session/core/session_core.h"

#include <stdio.h>

#include "base/time.h"

int session_part_create(struct rg_session *session, const struct session_part *part)
{
    void **state = (void **) ((char *) session + part->at);

    *state = calloc(1, part->nbytes + (size_t) session->o.plan->room_hosts * part->nbytes_per_host +
                       (size_t) session->o.plan->room_ranks * part->nbytes_per_rank);
    if (!*state)
        return -ENOMEM;
    return part->init ? part->init(session) : 0;
}

void session_part_destroy(struct rg_session *session, const struct session_part *part)
{
    void **state = (void **) ((char *) session + part->at);

    if (*state && part->fini)
        part->fini(session);
    free(rg_steal_ptr(state));
}

void session_added(struct rg_session *session, int first_host, int first_rank)
{
    const struct rg_plan *plan = session->o.plan;

    for (int i = first_host; i < plan->nhosts; i++) {
        session->hosts[i].session = session;
        session->hosts[i].index = i;
    }
    for (int i = first_rank; i < plan->nranks; i++)
        session->facts[i].end = (struct rg_rank_end){
            .rank = i, .host = plan->hosts[plan->ranks[i].host].name, .note = "",
            .engine = plan->ranks[i].task ? plan->ranks[i].task : plan->engine,
        };
}

bool session_host_listens(const struct session_host *host)
{
    return host->state == HOST_READY && host->channel;
}

bool session_host_has_rank(const struct session_host *host, uint32_t rank)
{
    const struct rg_plan *plan = host->session->o.plan;

    return rank < (uint32_t) plan->nranks && plan->ranks[rank].host == host->index;
}

const char *session_host_name(const struct session_host *host)
{
    return host->session->o.plan->hosts[host->index].name;
}

void session_host_set_phase(struct session_host *host, enum rg_host_phase phase,
                            const char *reason)
{
    const struct rg_session_options *o = &host->session->o;

    host->phase = phase;
    snprintf(host->reason, sizeof(host->reason), "%s", reason);
    if (o->ops->on_phase)
        o->ops->on_phase(o->arg, host->index, phase, reason);
}

const char *session_host_unseen(const struct session_host *host)
{
    const struct rg_session *session = host->session;

    return session->o.driver->unseen && session->driver_state
               ? session->o.driver->unseen(session->driver_state, host->index) : NULL;
}

int session_send(const struct session_host *host, enum rg_msg_type type, const void *object)
{
    return rg_msg_send(host->channel, (uint32_t) host->index, type, object);
}

void session_broadcast(struct rg_session *session, enum rg_msg_type type, const void *object)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (session_host_listens(&session->hosts[i]))
            rg_msg_send(session->hosts[i].channel, RG_MSG_ANY_HOST, type, object);
    }
}

bool session_is_script(const struct rg_session *session)
{
    return session->o.plan->engine && session->o.job->engine == RG_ENGINE_SCRIPT;
}

uint64_t session_elapsed_ns(const struct rg_session *session)
{
    return rg_now_ns() - session->start_ns;
}

void session_remark(struct rg_session *session, int rank, const char *text)
{
    if (session->o.ops->on_note)
        session->o.ops->on_note(session->o.arg, rank, text);
}
