/* SPDX-License-Identifier: Apache-2.0 */
/* An engine fails in ways that nobody understands when hosts have different versions of it: so when
 * it has failed, all are asked for theirs before they may go. */
#include <stdio.h>
#include <string.h>

#include "base/process/spawn.h"
#include "launch/session/core/session_end.h"
#include "launch/session/remote/remote.h"

#define ASK_MS 1500 /* for all hosts to say which engine they have */

struct version {
    char said[160]; /* by the engine's program */
    size_t nbytes;
    char text[160]; /* the version in it; "": not known */
};

struct session_versions {
    bool asked; /* the hosts, for theirs */
    int nasked; /* those that have not answered */
    struct rg_timer timer;
    struct version hosts[];
};

static void fini(struct rg_session *session)
{
    rg_timer_stop(&session->versions->timer);
}

const struct session_part session_versions_part = {
    SESSION_PART(versions), .nbytes_per_host = sizeof(struct version), .fini = fini,
};

/* A host whose engine is another than the first host's; -1: none, as far as is known. */
static int find_other(const struct rg_session *session)
{
    const struct version *hosts = session->versions->hosts;

    for (int i = 1; *hosts[0].text && i < session->o.plan->nhosts; i++) {
        if (*hosts[i].text && strcmp(hosts[i].text, hosts[0].text) != 0)
            return i;
    }
    return -1;
}

static void all_answered(void *arg)
{
    struct rg_session *session = arg;
    struct session_versions *versions = session->versions;
    int code = session->facts[0].end.value, other = find_other(session);

    rg_timer_stop(&versions->timer);
    versions->nasked = 0;
    if (other >= 0 && session->state < STATE_STOPPING) {
        const char *first = session_host_name(&session->hosts[0]);
        const char *second = session_host_name(&session->hosts[other]);

        session_set_cause(session, code,
                          "%s on %s failed (exit code %d); host %s has \"%s\", host %s has \"%s\": "
                          "the same MPI must be on all hosts",
                          session->o.plan->engine, first, code, first, versions->hosts[0].text,
                          second, versions->hosts[other].text);
        session_cause_was_first(session);
    }
    session_engine_release(session);
}

static void answered(struct session_host *host, const uint8_t *text, size_t nbytes)
{
    struct session_versions *versions = host->session->versions;
    struct version *v = &versions->hosts[host->index];
    size_t room = sizeof(v->said) - 1 - v->nbytes, n = nbytes < room ? nbytes : room;

    if (nbytes) {
        memcpy(v->said + v->nbytes, text, n);
        v->nbytes += n;
        return;
    }
    rg_version_line(v->said, v->text, sizeof(v->text));
    for (char *c = v->text; *c; c++)
        *c = *c < ' ' || *c > '~' ? ' ' : *c; /* people read it */
    if (versions->nasked > 0 && --versions->nasked == 0)
        all_answered(host->session);
}

/* False: there is nothing to ask. */
static bool ask(struct rg_session *session)
{
    const struct rg_plan *plan = session->o.plan;
    const struct rg_rank_end *end = &session->facts[0].end;
    struct session_versions *versions = session->versions;
    char command[256];

    if (!plan->engine || plan->nhosts < 2 || session->o.job->engine == RG_ENGINE_SCRIPT ||
        end->end != RG_END_EXIT || end->value == 0 || session_has_cause(session) ||
        session->state >= STATE_STOPPING || !*session_engine_program(session))
        return false;
    /* Hydra says it in the second line. */
    snprintf(command, sizeof(command), "%s --version </dev/null 2>/dev/null | head -n 2",
             session_engine_program(session));
    for (int i = 0; i < plan->nhosts; i++)
        versions->nasked += session_remote_ask(&session->hosts[i], command, answered) == 0;
    if (versions->nasked)
        rg_timer_start(&versions->timer, session->o.loop, ASK_MS, 0, all_answered, session);
    return versions->nasked > 0;
}

void session_release(struct rg_session *session)
{
    struct session_versions *versions = session->versions;
    bool waits = versions->asked ? versions->nasked > 0 : ask(session);

    versions->asked = true;
    if (!waits)
        session_engine_release(session);
}
