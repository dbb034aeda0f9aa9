/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks gets an answer at once: what follows from it is seen in the next one. */
#include "launch/session/elastic/session_control.h"

#include <stdio.h>
#include <string.h>

#include "launch/session/elastic/report.h"
#include "launch/session/meet/meet.h"

static void answer(void *arg, const struct rg_control_request *request, struct rg_buf *text)
{
    (void) request;
    session_report_put(arg, text);
}

/* A job runs without that as well. */
void session_control_open(struct rg_session *session)
{
    char text[128];
    int r = rg_control_listen(session->o.loop, session->o.plan->job_id, answer, session,
                              &session->elastic->control);

    if (r == 0)
        return;
    snprintf(text, sizeof(text), "reigen status will not show this job's epochs: %s", strerror(-r));
    session_remark(session, -1, text);
}

void session_control_close(struct rg_session *session)
{
    struct session_elastic *elastic = session->elastic;

    rg_control_close(elastic->control);
    for (size_t i = 0; i < elastic->nmachines; i++)
        free(elastic->machines[i].reason);
}

void session_control_set_aside(struct rg_session *session, int name, int place, const char *why)
{
    struct machine *machine = &session->elastic->machines[name];

    free(machine->reason);
    machine->reason = strdup(why);
    machine->rank = place < 0 ? -1 : session_rank_of(session, place);
}
