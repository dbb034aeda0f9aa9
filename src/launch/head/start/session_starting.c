/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that cannot be started: who repairs them wants to read of all of them at once, and which of
 * the others are well. */
#include "launch/head/start/session_starting.h"

#include <stdio.h>
#include <string.h>

#include "launch/head/core/session_end.h"
#include "launch/head/core/session_input.h"

#define OTHERS_MS 12000 /* for the other hosts to come or fail, when one cannot be started */
#define NAMED_MAX 16 /* hosts of a kind whose names are told */
#define TOLD_MAX 8   /* causes that are told */

struct session_starting {
    int exit_code; /* of the first host that could not be started; 0: none */
    struct rg_timer others_timer;
};

int session_starting_create(struct rg_session *session)
{
    session->starting = calloc(1, sizeof(*session->starting));
    return session->starting ? 0 : -ENOMEM;
}

void session_starting_destroy(struct rg_session *session)
{
    if (session->starting)
        rg_timer_stop(&session->starting->others_timer);
    free(session->starting);
}

/* --- the message ------------------------------------------------------------------------------ */

/* Whether two hosts failed alike, whatever their own names in the texts are. */
static bool is_alike(const char *a, const char *a_name, const char *b, const char *b_name)
{
    size_t na = strlen(a_name), nb = strlen(b_name);

    while (*a || *b) {
        if (strncmp(a, a_name, na) == 0 && strncmp(b, b_name, nb) == 0) {
            a += na;
            b += nb;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return true;
}

/* "a, b, c and 4 more" */
static void put_name(struct rg_buf *text, int before, const char *name)
{
    if (before < NAMED_MAX)
        rg_buf_printf(text, "%s%s", before ? ", " : "", name);
}

static void put_rest(struct rg_buf *text, int count)
{
    if (count > NAMED_MAX)
        rg_buf_printf(text, " and %d more", count - NAMED_MAX);
}

/* The hosts that failed as this one did, from it on, and why. */
static void put_cause(const struct rg_session *session, int first, bool *told, struct rg_buf *text)
{
    const struct session_host *hosts = session->hosts;
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    int count = 0;

    for (int i = first; i < session->o.plan->nhosts; i++) {
        if (told[i] || !hosts[i].unstarted ||
            !is_alike(hosts[first].unstarted, session_host_name(&hosts[first]), hosts[i].unstarted,
                      session_host_name(&hosts[i])))
            continue;
        told[i] = true;
        put_name(&names, count++, session_host_name(&hosts[i]));
    }
    put_rest(&names, count);
    rg_buf_printf(text, "%s %s: %s", count == 1 ? "host" : "hosts", rg_buf_text(&names),
                  hosts[first].unstarted);
}

static void put_others(const struct rg_session *session, bool ready, struct rg_buf *text)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    int count = 0;

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        const struct session_host *host = &session->hosts[i];
        if (host->state == (ready ? HOST_READY : HOST_AWAITED))
            put_name(&names, count++, session_host_name(host));
    }
    put_rest(&names, count);
    if (count)
        rg_buf_printf(text, "\n  %s: %s", ready ? "reached" : "not reached so far",
                      rg_buf_text(&names));
}

static void blame_unstarted(struct rg_session *session)
{
    int nhosts = session->o.plan->nhosts, ntold = 0, nleft = 0;
    rg_autofree bool *told = calloc((size_t) nhosts + 1, sizeof(*told));
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    for (int i = 0; told && i < nhosts; i++) {
        if (told[i] || !session->hosts[i].unstarted)
            continue;
        if (ntold == TOLD_MAX) {
            nleft++;
            continue;
        }
        rg_buf_printf(&text, "%s", ntold++ ? "\n  " : "");
        put_cause(session, i, told, &text);
    }
    if (nleft)
        rg_buf_printf(&text, "\n  and %d more host%s could not be started", nleft,
                      nleft == 1 ? "" : "s");
    put_others(session, true, &text);
    put_others(session, false, &text);
    session_set_cause(session, session->starting->exit_code, "%s", rg_buf_text(&text));
}

/* --- when ------------------------------------------------------------------------------------- */

void session_blame_unstarted(struct rg_session *session)
{
    if (session->state == STATE_STARTING && session->starting->exit_code)
        blame_unstarted(session);
}

/* Whether it can still turn out soon that it cannot be started. An image takes its time. */
static bool is_open(const struct session_host *host)
{
    return host->state == HOST_AWAITED &&
           (host->phase != RG_PHASE_PULLING || host->session->o.doctor);
}

static void others_due(void *arg)
{
    struct rg_session *session = arg;

    if (session->state != STATE_STARTING || !session->starting->exit_code)
        return;
    blame_unstarted(session);
    session_begin_end(session);
}

void session_settle_start(struct rg_session *session)
{
    struct rg_timer *timer = &session->starting->others_timer;

    if (session->state != STATE_STARTING || !session->starting->exit_code)
        return;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (!is_open(&session->hosts[i]))
            continue;
        if (!session->o.doctor && !rg_timer_active(timer))
            rg_timer_start(timer, session->o.loop, OTHERS_MS, 0, others_due, session);
        return;
    }
    others_due(session);
}

void session_host_unstarted(struct session_host *host, int exit_code, const char *how)
{
    struct session_starting *starting = host->session->starting;

    host->unstarted = strdup(how);
    if (!starting->exit_code)
        starting->exit_code = exit_code;
}

void session_start_ranks(struct rg_session *session)
{
    const struct rg_session_options *o = &session->o;

    session->state = STATE_RUNNING;
    session_broadcast(session, RG_MSG_START, NULL);
    for (int i = 0; i < o->plan->nhosts; i++)
        session_host_set_phase(&session->hosts[i], RG_PHASE_RUNNING, "");
    if (session->paused)
        session_pause(session, true);
    session_input_start(session);
    if (o->ops->on_running)
        o->ops->on_running(o->arg);
}
