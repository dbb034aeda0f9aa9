/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine (job/engine.h) says of its own end is not enough: Open MPI 5 ends with 0
 * when one of its daemons is killed, and Hydra waits for ever. Its daemons are remote commands,
 * so we see each of them end. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/process/spawn.h"
#include "base/time.h"
#include "launch/session/core/session_end.h"
#include "launch/session/remote/remote.h"
#include "job/engine.h"

#define GRACE_MS 3000 /* for an engine that has lost a daemon to end by itself */
#define SIGNAL_MAX 64 /* a shell's exit code for a signal is 128 more */
#define LATE_MS 1500  /* after the engine's end: agents leave daemons longer than this in peace */

struct session_engine {
    char program[200];          /* the engine's own, by where its daemons are; "": not known */
    char trouble[RG_CAUSE_MAX]; /* how a daemon failed first, or "" */
    struct rg_timer timer;      /* while the engine may end by itself */
    uint64_t released_ns;       /* when RELEASE was sent; 0: it was not */
};

static void fini(struct rg_session *session)
{
    rg_timer_stop(&session->engine->timer);
}

const struct session_part session_engine_part = {
    SESSION_PART(engine), .fini = fini,
};

/* --- daemons ---------------------------------------------------------------------------------- */

static bool is_of_word(char c)
{
    return isalnum((unsigned char) c) || c == '_' || c == '-' || c == '.';
}

/* Where it stands as a word of its own, perhaps behind a path ("sorted" is none), or NULL. */
static const char *find_daemon(const char *command, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = command; (p = strstr(p, name)); p++) {
        if ((p == command || !is_of_word(p[-1])) && !is_of_word(p[n]))
            return p;
    }
    return NULL;
}

const char *session_engine_daemon(const char *command)
{
    static const char *const names[] = { "orted", "prted", "hydra_pmi_proxy",
                                         "hydra_bstrap_proxy" };

    for (size_t i = 0; i < rg_array_len(names); i++) {
        if (find_daemon(command, names[i]))
            return names[i];
    }
    return NULL;
}

/* A daemon is started by its full path where the engine knows it: beside it is the engine, and
 * shall be the same one on every host. */
void session_engine_started(struct rg_session *session, const char *command, const char *daemon)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_./+-";
    const char *end = find_daemon(command, daemon), *start = end;
    char *program = session->engine->program;
    size_t room = sizeof(session->engine->program);

    while (start > command && strchr(allowed, start[-1]))
        start--;
    if (!*program && end - start < (int) room - 16)
        snprintf(program, room, "%.*s%s", (int) (end - start), start,
                 rg_str_starts(daemon, "hydra") ? "mpiexec.hydra" : "mpirun");
}

const char *session_engine_program(const struct rg_session *session)
{
    return session->engine->program;
}

static void grace_due(void *arg)
{
    struct rg_session *session = arg;

    if (session->state != STATE_RUNNING || session->engine->released_ns)
        return;
    session_set_cause(session, RG_EXIT_HOST_LOST, "%s, and %s has not ended because of it",
                      session->engine->trouble, session->o.plan->engine);
    session_begin_end(session);
}

/* Nothing that we did is the reason of what happens now. */
static bool is_undisturbed(const struct rg_session *session)
{
    uint64_t released_ns = session->engine->released_ns;

    if (session->state >= STATE_STOPPING || session_was_signalled(session))
        return false;
    return session->state == STATE_RUNNING ||
           (released_ns && rg_now_ns() < released_ns + LATE_MS * RG_NS_PER_MS);
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
    if (session->state == STATE_RUNNING && !rg_timer_active(&session->engine->timer))
        rg_timer_start(&session->engine->timer, session->o.loop, GRACE_MS, 0, grace_due, session);
}

void session_engine_daemon_ended(struct session_host *host, const char *daemon, int status)
{
    struct rg_session *session = host->session;
    const struct rg_plan *plan = session->o.plan;
    const char *name = session_host_name(host);
    int code = rg_status_code(status);
    char how[64];

    if (!plan->engine || !daemon || code == 0 || !is_undisturbed(session) ||
        *session->engine->trouble || is_scripts_business(session, code))
        return;
    snprintf(session->engine->trouble, sizeof(session->engine->trouble),
             "host %s: %s, which %s had started there, ended: %s", name, daemon, plan->engine,
             rg_status_text(status, how, sizeof(how)));
    if (code == RG_EXIT_NOT_FOUND || code == RG_EXIT_NOT_EXECUTABLE)
        session_set_cause(session, code,
                          "host %s: %s, which %s on host %s wanted to start there, is not "
                          "installed: the same MPI must be on all hosts, in the same place",
                          name, daemon, plan->engine, plan->hosts[0].name);
    else if (is_signal(code))
        session_set_cause(session, RG_EXIT_HOST_LOST, "%s", session->engine->trouble);
    give_grace(session);
}

void session_engine_refused(struct session_host *client, const char *name, const char *command)
{
    struct rg_session *session = client->session;
    const char *daemon = session_engine_daemon(command);

    if (session->state != STATE_RUNNING || !session->o.plan->engine || !daemon ||
        *session->engine->trouble || is_scripts_business(session, RG_ENGINE_LOST))
        return;
    snprintf(session->engine->trouble, sizeof(session->engine->trouble),
             "%s wanted to start %s on %.255s, which is no host of this job",
             session->o.plan->engine, daemon, name);
    give_grace(session);
}

void session_engine_release(struct rg_session *session)
{
    const struct rg_job *job = session->o.job;

    if (session->engine->released_ns || (!rg_job_has_engine(job) && !job->elastic.on))
        return;
    session->engine->released_ns = rg_now_ns();
    session_broadcast(session, RG_MSG_RELEASE, NULL);
}
