/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine (spec/job/engine.h) says of its own end is not enough: Open MPI 5 ends with 0
 * when one of its daemons is killed, and Hydra waits for ever. Its daemons are remote commands,
 * so we see each of them end. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/spawn.h"
#include "base/time.h"
#include "base/exitcode.h"
#include "launch/head/session_internal.h"
#include "spec/job/engine.h"

#define GRACE_MS 3000 /* for an engine that has lost a daemon to end by itself */
#define ASK_MS 1500   /* for all hosts to say which engine they have */
#define SIGNAL_MAX 64 /* a shell's exit code for a signal is 128 more */
#define LATE_MS 1500  /* after the engine's end: agents leave daemons longer than this in peace */

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

    while (start > command && strchr(allowed, start[-1]))
        start--;
    if (!*session->engine_program && end - start < (int) sizeof(session->engine_program) - 16)
        snprintf(session->engine_program, sizeof(session->engine_program), "%.*s%s",
                 (int) (end - start), start,
                 rg_str_starts(daemon, "hydra") ? "mpiexec.hydra" : "mpirun");
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

/* --- different engines ------------------------------------------------------------------------ */

static const char *name_of(const struct session_host *host)
{
    return host->session->o.plan->hosts[host->index].name;
}

/* A host whose engine is another than the first host's; NULL: none, as far as is known. */
static const struct session_host *find_other(const struct rg_session *session)
{
    for (int i = 1; *session->hosts[0].version && i < session->o.plan->nhosts; i++) {
        const struct session_host *host = &session->hosts[i];
        if (*host->version && strcmp(host->version, session->hosts[0].version) != 0)
            return host;
    }
    return NULL;
}

static void all_answered(void *arg)
{
    struct rg_session *session = arg;
    const struct session_host *other = find_other(session);
    const struct rg_rank_end *end = &session->facts[0].end;
    int code = end->end == RG_END_SIGNAL ? RG_EXIT_SIGNAL + end->value : end->value;

    rg_timer_stop(&session->engine_timer);
    session->engine_nasked = 0;
    if (other && !session->stopping && !session->killing) {
        session_set_cause(session, code,
                          "%s on %s failed (exit code %d); host %s has \"%s\", host %s has \"%s\": "
                          "the same MPI must be on all hosts",
                          session->o.plan->engine, name_of(&session->hosts[0]), code,
                          name_of(&session->hosts[0]), session->hosts[0].version, name_of(other),
                          other->version);
        session->own_first = true;
    }
    session_release(session);
}

bool session_engine_ask(struct rg_session *session)
{
    const struct rg_plan *plan = session->o.plan;
    const struct rg_rank_end *end = &session->facts[0].end;
    char command[256];

    if (session->engine_asked)
        return session->engine_nasked > 0;
    session->engine_asked = true;
    if (!plan->engine || plan->nhosts < 2 || session->o.job->engine == RG_ENGINE_SCRIPT ||
        end->end != RG_END_EXIT || end->value == 0 || *session->own_cause || session->stopping ||
        session->killing || !*session->engine_program)
        return false;
    /* Hydra says it in the second line. */
    snprintf(command, sizeof(command), "%s --version </dev/null 2>/dev/null | head -n 2",
             session->engine_program);
    for (int i = 0; i < plan->nhosts; i++)
        session->engine_nasked += session_remote_ask(&session->hosts[i], command) == 0;
    if (session->engine_nasked)
        rg_timer_start(&session->engine_timer, session->o.loop, ASK_MS, 0, all_answered, session);
    return session->engine_nasked > 0;
}

/* What people may read, blanks as one, no control characters. */
void session_engine_answer(struct session_host *host, const uint8_t *text, size_t nbytes)
{
    for (size_t i = 0; i < nbytes && host->nversion + 1 < sizeof(host->version); i++) {
        bool blank = text[i] <= ' ' || text[i] > '~';
        if (blank && (!host->nversion || host->version[host->nversion - 1] == ' '))
            continue;
        host->version[host->nversion++] = blank ? ' ' : (char) text[i];
    }
}

/* "HYDRA build details: Version: 4.0.2" is HYDRA 4.0.2. */
static void drop_heading(char *version)
{
    static const char heading[] = " build details: Version:";
    char *at = strstr(version, heading);

    if (at)
        memmove(at, at + strlen(heading), strlen(at + strlen(heading)) + 1);
}

void session_engine_answered(struct session_host *host)
{
    struct rg_session *session = host->session;

    while (host->nversion && host->version[host->nversion - 1] == ' ')
        host->version[--host->nversion] = '\0';
    drop_heading(host->version);
    if (session->engine_nasked > 0 && --session->engine_nasked == 0)
        all_answered(session);
}
