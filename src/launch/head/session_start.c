/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that cannot be started: who repairs them wants to read of all of them at once, and which of
 * the others are well. */
#include <stdio.h>
#include <string.h>

#include "launch/head/session_internal.h"

#define NAMED_MAX 16 /* hosts of a kind whose names are told */
#define TOLD_MAX 8   /* causes that are told */

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

static const char *name_of(const struct rg_session *session, int host)
{
    return session->o.plan->hosts[host].name;
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
            !is_alike(hosts[first].unstarted, name_of(session, first), hosts[i].unstarted,
                      name_of(session, i)))
            continue;
        told[i] = true;
        put_name(&names, count++, name_of(session, i));
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
        if (!host->lost && host->ready == ready)
            put_name(&names, count++, name_of(session, i));
    }
    put_rest(&names, count);
    if (count)
        rg_buf_printf(text, "\n  %s: %s", ready ? "reached" : "not reached so far",
                      rg_buf_text(&names));
}

void session_blame_unstarted(struct rg_session *session)
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
    session_set_cause(session, session->unstarted_exit_code, "%s", rg_buf_text(&text));
}

const char *rg_session_unstarted(const struct rg_session *session, int host)
{
    return session->hosts[host].unstarted;
}
