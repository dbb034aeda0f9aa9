/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine (spec/engine.h) says of its own end is not enough: Open MPI 5 ends with 0 when one
 * of its daemons is killed, and Hydra waits for ever. Its daemons are remote commands, so we see
 * each of them end. */
#include <stdio.h>
#include <string.h>

#include "base/spawn.h"
#include "base/time.h"
#include "launch/exitcode.h"
#include "launch/session_internal.h"
#include "spec/engine.h"

#define GRACE_MS 3000 /* for an engine that has lost a daemon to end by itself */
#define SIGNAL_MAX 64 /* a shell's exit code for a signal is 128 more */
#define LATE_MS 1500  /* after the engine's end: agents leave daemons longer than this in peace */

const char *session_engine_daemon(const char *command)
{
    static const char *const names[] = { "orted", "prted", "hydra_pmi_proxy",
                                         "hydra_bstrap_proxy" };

    for (size_t i = 0; i < rg_array_len(names); i++) {
        if (strstr(command, names[i]))
            return names[i];
    }
    return NULL;
}

static void grace_due(void *arg)
{
    struct rg_session *session = arg;

    if (session->state != STATE_RUNNING || session->released)
        return;
    session_set_cause(session, RG_EXIT_HOST_LOST, "%s, and %s has not ended because of it",
                      session->engine_trouble, session->o.plan->engine);
    session_begin_end(session);
}

/* Nothing that we did is the reason of what happens now. */
static bool is_undisturbed(const struct rg_session *session)
{
    if (session->stopping || session->killing || session->user_signo)
        return false;
    return session->state == STATE_RUNNING ||
           (session->released && rg_now_ns() < session->released_ns + LATE_MS * RG_NS_PER_MS);
}

static bool is_signal(int code)
{
    return code > RG_EXIT_SIGNAL && code <= RG_EXIT_SIGNAL + SIGNAL_MAX;
}

/* A script may well know what to do about an mpirun that fails; but none hears of a death that its
 * mpirun keeps quiet about. */
static bool is_scripts_business(const struct rg_session *session, int code)
{
    return session->o.job->engine == RG_ENGINE_SCRIPT && !is_signal(code);
}

static void give_grace(struct rg_session *session)
{
    if (session->state == STATE_RUNNING && !rg_timer_active(&session->engine_timer))
        rg_timer_start(&session->engine_timer, session->o.loop, GRACE_MS, 0, grace_due, session);
}

void session_engine_daemon_ended(struct session_host *host, const char *daemon, int status)
{
    struct rg_session *session = host->session;
    const struct rg_plan *plan = session->o.plan;
    const char *name = plan->hosts[host->index].name;
    int code = rg_status_code(status);
    char how[64];

    if (!is_undisturbed(session) || !plan->engine || !daemon || code == 0 ||
        *session->engine_trouble || is_scripts_business(session, code))
        return;
    snprintf(session->engine_trouble, sizeof(session->engine_trouble),
             "host %s: %s, which %s had started there, ended: %s", name, daemon, plan->engine,
             rg_status_text(status, how, sizeof(how)));
    if (code == RG_EXIT_NOT_FOUND || code == RG_EXIT_NOT_EXECUTABLE)
        session_set_cause(session, code,
                          "host %s: %s, which %s on host %s wanted to start there, is not "
                          "installed: the same MPI must be on all hosts, in the same place",
                          name, daemon, plan->engine, plan->hosts[0].name);
    else if (is_signal(code))
        session_set_cause(session, RG_EXIT_HOST_LOST, "%s", session->engine_trouble);
    give_grace(session);
}

void session_engine_refused(struct session_host *client, const char *name, const char *command)
{
    struct rg_session *session = client->session;
    const char *daemon = session_engine_daemon(command);

    if (session->state != STATE_RUNNING || !session->o.plan->engine || !daemon ||
        *session->engine_trouble || is_scripts_business(session, RG_ENGINE_LOST))
        return;
    snprintf(session->engine_trouble, sizeof(session->engine_trouble),
             "%s wanted to start %s on %.255s, which is no host of this job",
             session->o.plan->engine, daemon, name);
    give_grace(session);
}
