/* SPDX-License-Identifier: Apache-2.0 */
/* Before START, hosts are looked at where the user requires something of them, or asks the doctor:
 * a job that would fail an hour later fails now. */
#include "launch/head/start/session_examination.h"

#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "launch/doctor/doctor.h"
#include "launch/head/core/session_end.h"
#include "launch/head/start/session_starting.h"

#define INSPECT_LIMIT_MS 30000 /* python and nvidia-smi from a slow file system */

struct examined {
    uint64_t asked_ns, asked_realtime_ns; /* when INSPECT was sent; 0: it was not */
    char *facts;                          /* of INSPECTED; NULL before it came */
    int64_t clock_ns;                     /* its clock minus ours, plus or minus the bound */
    uint64_t clock_bound_ns;
};

struct session_examination {
    const struct rg_network *network; /* borrowed; NULL: none connects the hosts */
    const struct rg_error *network_err;
    struct examined hosts[];
};

int session_examination_create(struct rg_session *session)
{
    size_t nhosts = (size_t) session->o.plan->nhosts;

    session->examination = calloc(1, sizeof(*session->examination) +
                                     nhosts * sizeof(session->examination->hosts[0]));
    return session->examination ? 0 : -ENOMEM;
}

void session_examination_destroy(struct rg_session *session)
{
    for (int i = 0; session->examination && i < session->o.plan->nhosts; i++)
        free(session->examination->hosts[i].facts);
    free(session->examination);
}

static void refuse(struct rg_session *session, const struct rg_error *err)
{
    session_set_cause(session, err->exit_code ? err->exit_code : RG_EXIT_INTERNAL, "%s", err->text);
    session_begin_end(session);
}

static void judge(struct rg_session *session)
{
    const struct session_examination *examination = session->examination;
    const struct rg_plan *plan = session->o.plan;
    rg_autofree struct rg_doctor_host *hosts = calloc((size_t) plan->nhosts, sizeof(*hosts));
    struct rg_error err = RG_ERROR_INIT;
    struct rg_doctor_input input = { .hosts = hosts, .nhosts = plan->nhosts,
                                     .contained = session->o.job->container.image != NULL,
                                     .network = examination->network,
                                     .network_err = examination->network_err,
                                     .required = &session->o.job->require };

    if (!hosts) {
        refuse(session, &(struct rg_error){ ENOMEM, 0, "out of memory" });
        return;
    }
    for (int i = 0; i < plan->nhosts; i++) {
        const struct examined *host = &examination->hosts[i];
        hosts[i] = (struct rg_doctor_host){
            .name = plan->hosts[i].name, .facts = host->facts,
            .addresses = &session->hosts[i].addresses,
            .nranks = plan->hosts[i].nplanned, .clock_ns = host->clock_ns,
            .clock_bound_ns = host->clock_bound_ns,
        };
    }
    if (session->o.doctor) {
        session->o.ops->on_examined(session->o.arg, &input);
        session_set_cause(session, RG_EXIT_OK, "examined");
        session_begin_end(session);
    } else if (rg_doctor_require(&input, &session->o.job->require, &err) < 0) {
        refuse(session, &err);
    } else {
        session_start_ranks(session);
    }
}

void session_examine(struct rg_session *session, const struct rg_network *network,
                     const struct rg_error *network_err)
{
    struct session_examination *examination = session->examination;

    if (!session->o.doctor && !session->o.job->require.count) {
        session_start_ranks(session);
        return;
    }
    examination->network = network;
    examination->network_err = network_err;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        examination->hosts[i].asked_ns = rg_now_ns();
        examination->hosts[i].asked_realtime_ns = rg_wall_ns();
        session_send(&session->hosts[i], RG_MSG_INSPECT,
                    &(struct rg_msg_inspect){ INSPECT_LIMIT_MS });
    }
}

/* Its clock was read somewhere between our question and its answer. */
void session_on_clock(struct session_host *host, const struct rg_msg_clock *msg)
{
    struct examined *examined = &host->session->examination->hosts[host->index];
    uint64_t took_ns = rg_now_ns() - examined->asked_ns;

    if (!examined->asked_ns || examined->facts)
        return;
    examined->clock_bound_ns = took_ns / 2;
    examined->clock_ns =
        (int64_t) (msg->realtime_ns - examined->asked_realtime_ns - took_ns / 2);
}

int session_on_inspected(struct session_host *host, struct rg_msg_inspected *take_msg)
{
    struct rg_session *session = host->session;
    struct examined *hosts = session->examination->hosts, *examined = &hosts[host->index];

    if (!examined->asked_ns || examined->facts)
        return -EBADMSG;
    examined->facts = take_msg->text ? rg_steal_ptr(&take_msg->text) : strdup("");
    if (!examined->facts)
        return -ENOMEM;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (!hosts[i].facts)
            return 0;
    }
    if (session->state == STATE_STARTING)
        judge(session);
    return 0;
}
