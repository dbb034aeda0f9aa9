/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks gets an answer at once: what follows from it is seen in the next one. */
#include "launch/session/elastic/session_control.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/time.h"
#include "launch/session/elastic/notice.h"
#include "launch/session/elastic/report.h"
#include "launch/session/elastic/session_lateness.h"
#include "launch/session/elastic/session_numbers.h"
#include "launch/session/meet/meet.h"

#define REASON_MAX 256 /* bytes of it; the remark has had all */

/* --- reigen drain ----------------------------------------------------------------------------- */

/* The first machine from this one on that is meant by NAME or USER@NAME; nmachines: none is. */
static size_t find(const struct session_elastic *elastic, const char *host, size_t from)
{
    const struct machine *machines = elastic->machines;

    while (from < elastic->nmachines &&
           !session_report_means(host, machines[from].name, machines[from].user))
        from++;
    return from;
}

static void put_no_host(const struct session_elastic *elastic, struct rg_buf *text)
{
    rg_buf_printf(text, "{\"error\":\"no-host\",\"hosts\":[");
    for (size_t i = 0; i < elastic->nmachines; i++) {
        rg_buf_printf(text, i ? "," : "");
        rg_json_put_text(text, elastic->machines[i].name);
    }
    rg_buf_printf(text, "]}");
}

/* Ranks that there would be room for without all machines that are meant; INT_MAX: none of them is
 * in use, so nothing is lost with them. -ENOMEM. */
static int room_without(const struct session_elastic *elastic, const char *host)
{
    rg_autofree int *names = calloc(elastic->nmachines, sizeof(*names));
    struct rg_membership_aside aside;
    size_t n = 0;

    for (size_t i = find(elastic, host, 0); names && i < elastic->nmachines;
         i = find(elastic, host, i + 1)) {
        if (!rg_membership_aside(elastic->membership, (int) i, &aside))
            names[n++] = (int) i;
    }
    if (!names)
        return -ENOMEM;
    return n ? rg_membership_without(elastic->membership, names, n) : INT_MAX;
}

/* Whether the machines that are meant may go; else why not is the answer. */
static bool may_go(const struct rg_session *session, const struct rg_control_request *request,
                   struct rg_buf *text)
{
    const struct session_elastic *elastic = session->elastic;
    int needs = session->o.job->elastic.min_np;

    if (find(elastic, request->host, 0) == elastic->nmachines) {
        put_no_host(elastic, text);
        return false;
    }
    int has = room_without(elastic, request->host);
    if (request->force || has >= needs)
        return true;
    rg_buf_printf(text, "{\"error\":\"too-few\",\"has\":%d,\"needs\":%d}", has < 0 ? 0 : has,
                  needs);
    return false;
}

static void drain(struct rg_session *session, const struct rg_control_request *request)
{
    const struct session_elastic *elastic = session->elastic;
    const char *host = request->host;
    uint64_t ms = request->deadline_ms;
    char text[RG_CONTROL_HOST_MAX + 128], until[64] = "";

    if (ms)
        snprintf(until, sizeof(until), ", in %.6g s at the latest", (double) ms / 1000.0);
    snprintf(text, sizeof(text), "host %s is drained, by reigen drain: its ranks leave it%s", host,
             until);
    session_remark(session, -1, text);
    for (size_t i = find(elastic, host, 0); i < elastic->nmachines; i = find(elastic, host, i + 1))
        elastic->drain(session, (int) i, ms ? elastic_now_ns(session) + ms * RG_NS_PER_MS : 0);
    if (!request->force)
        return;
    snprintf(text, sizeof(text), "host %s is drained, by reigen drain --force", host);
    session_notice_given(session, text, ms ? ms + session->o.job->grace_ms : 0);
}

/* --- questions -------------------------------------------------------------------------------- */

static void put_numbers(const struct rg_session *session, uint32_t from, struct rg_buf *text)
{
    rg_autobuf struct rg_buf diagnosis = RG_BUF_INIT;

    if (from == 0)
        session_lateness_put(session, &diagnosis);
    session_numbers_put(session, from, &diagnosis, text);
}

static void put_record(const struct rg_session *session, struct rg_buf *text)
{
    const char *record = session->o.job->record;
    rg_autofree char *path = record ? realpath(record, NULL) : NULL;

    rg_buf_printf(text, "%s", path ? path : "{\"error\":\"unrecorded\"}");
}

static void answer(void *arg, const struct rg_control_request *request, struct rg_buf *text)
{
    const struct rg_session *session = arg;

    if (request->question == RG_CONTROL_NUMBERS) {
        put_numbers(session, request->from, text);
    } else if (request->question == RG_CONTROL_RECORD) {
        put_record(session, text);
    } else if (!session->o.job->elastic.on) {
        rg_buf_printf(text, "{\"error\":\"fixed\"}");
    } else if (request->question == RG_CONTROL_STATUS) {
        session_report_put(arg, request->host, text);
    } else if (request->question != RG_CONTROL_DRAIN) {
        rg_buf_printf(text, "{\"error\":\"version\"}");
    } else if (may_go(arg, request, text)) {
        rg_buf_printf(text, "{}");
        drain(arg, request);
    }
}

/* Two pods with the host's network may be of one name in two namespaces, and so may be jobs of two
 * clusters on one node. */
static void open_known(struct rg_session *session)
{
    char text[512];
    const char *name = session->o.known_as;
    int r = rg_control_listen(session->o.loop, name, answer, session, &session->elastic->known);

    if (r == 0)
        return;
    if (r == -EADDRINUSE)
        snprintf(text, sizeof(text), "reigen top %s will not show this job, %s: another job that "
                 "is called %s runs in the same network%s", name, session->o.plan->job_id, name,
                 session->o.known_by_name ? "; give one of them another name" : "");
    else
        snprintf(text, sizeof(text), "reigen top %s will not show this job: %s", name,
                 strerror(-r));
    session_remark(session, -1, text);
}

/* A job runs without that as well. */
void session_control_open(struct rg_session *session, session_drain *drain_machine)
{
    char text[128];

    session->elastic->drain = drain_machine;
    int r = rg_control_listen(session->o.loop, session->o.plan->job_id, answer, session,
                              &session->elastic->control);

    if (session->o.known_as)
        open_known(session);
    if (r == 0 || !session->o.job->elastic.on)
        return;
    snprintf(text, sizeof(text), "reigen status will not show this job's epochs: %s", strerror(-r));
    session_remark(session, -1, text);
}

void session_control_close(struct rg_session *session)
{
    struct session_elastic *elastic = session->elastic;

    rg_control_close(elastic->control);
    rg_control_close(elastic->known);
    for (size_t i = 0; i < elastic->nmachines; i++)
        free(elastic->machines[i].reason);
}

void session_control_set_aside(struct rg_session *session, int name, int place, const char *why)
{
    struct machine *machine = &session->elastic->machines[name];

    free(machine->reason);
    machine->reason = strndup(why, REASON_MAX);
    machine->rank = place < 0 ? -1 : session_rank_of(session, place);
}
