/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine (job/engine.h) says of its own end is not enough: Open MPI 5 ends with 0
 * when one of its daemons is killed, and Hydra waits for ever. Its daemons are remote commands,
 * so we see each of them end. And it fails in ways that nobody understands when hosts have
 * different versions of it: so when it has failed, all are asked for theirs before they may go. */
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
#define ASK_MS 1500   /* for all hosts to say which engine they have */
#define LATE_MS 1500  /* after the engine's end: agents leave daemons longer than this in peace */

struct version {
    char said[160]; /* by the engine's program */
    size_t nbytes;
    char text[160]; /* the version in it; "": not known */
};

struct session_engine {
    char program[200];          /* the engine's own, by where its daemons are; "": not known */
    char trouble[RG_CAUSE_MAX]; /* how a daemon failed first, or "" */
    struct rg_timer timer;      /* while the engine may end by itself */
    uint64_t released_ns;       /* when RELEASE was sent; 0: it was not */
    bool asked;                 /* the hosts, for their versions */
    int nasked;                 /* those that have not answered */
    struct rg_timer ask_timer;
    struct version versions[];
};

static void fini(struct rg_session *session)
{
    rg_timer_stop(&session->engine->timer);
    rg_timer_stop(&session->engine->ask_timer);
}

const struct session_part session_engine_part = {
    SESSION_PART(engine), .nbytes_per_host = sizeof(struct version), .fini = fini,
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

/* --- the end ---------------------------------------------------------------------------------- */

/* A host whose engine is another than the first host's; -1: none, as far as is known. */
static int find_other(const struct rg_session *session)
{
    const struct version *hosts = session->engine->versions;

    for (int i = 1; *hosts[0].text && i < session->o.plan->nhosts; i++) {
        if (*hosts[i].text && strcmp(hosts[i].text, hosts[0].text) != 0)
            return i;
    }
    return -1;
}

static void release(struct rg_session *session)
{
    if (session->engine->released_ns || !rg_job_has_engine(session->o.job))
        return;
    session->engine->released_ns = rg_now_ns();
    session_broadcast(session, RG_MSG_RELEASE, NULL);
}

static void all_answered(void *arg)
{
    struct rg_session *session = arg;
    struct session_engine *engine = session->engine;
    int code = session->facts[0].end.value, other = find_other(session);

    rg_timer_stop(&engine->ask_timer);
    engine->nasked = 0;
    if (other >= 0 && session->state < STATE_STOPPING) {
        const char *first = session_host_name(&session->hosts[0]);
        const char *second = session_host_name(&session->hosts[other]);

        session_set_cause(session, code,
                          "%s on %s failed (exit code %d); host %s has \"%s\", host %s has \"%s\": "
                          "the same MPI must be on all hosts",
                          session->o.plan->engine, first, code, first, engine->versions[0].text,
                          second, engine->versions[other].text);
        session_cause_was_first(session);
    }
    release(session);
}

void session_engine_answered(struct session_host *host, const uint8_t *text, size_t nbytes)
{
    struct session_engine *engine = host->session->engine;
    struct version *v = &engine->versions[host->index];
    size_t room = sizeof(v->said) - 1 - v->nbytes, n = nbytes < room ? nbytes : room;

    if (nbytes) {
        memcpy(v->said + v->nbytes, text, n);
        v->nbytes += n;
        return;
    }
    rg_version_line(v->said, v->text, sizeof(v->text));
    for (char *c = v->text; *c; c++)
        *c = *c < ' ' || *c > '~' ? ' ' : *c; /* people read it */
    if (engine->nasked > 0 && --engine->nasked == 0)
        all_answered(host->session);
}

/* False: there is nothing to ask. */
static bool ask(struct rg_session *session)
{
    const struct rg_plan *plan = session->o.plan;
    const struct rg_rank_end *end = &session->facts[0].end;
    struct session_engine *engine = session->engine;
    char command[256];

    if (!plan->engine || plan->nhosts < 2 || session->o.job->engine == RG_ENGINE_SCRIPT ||
        end->end != RG_END_EXIT || end->value == 0 || session_has_cause(session) ||
        session->state >= STATE_STOPPING || !*session_engine_program(session))
        return false;
    /* Hydra says it in the second line. */
    snprintf(command, sizeof(command), "%s --version </dev/null 2>/dev/null | head -n 2",
             session_engine_program(session));
    for (int i = 0; i < plan->nhosts; i++)
        engine->nasked += session_remote_ask(&session->hosts[i], command) == 0;
    if (engine->nasked)
        rg_timer_start(&engine->ask_timer, session->o.loop, ASK_MS, 0, all_answered, session);
    return engine->nasked > 0;
}

void session_release(struct rg_session *session)
{
    struct session_engine *engine = session->engine;
    bool waits = engine->asked ? engine->nasked > 0 : ask(session);

    engine->asked = true;
    if (!waits)
        release(session);
}
