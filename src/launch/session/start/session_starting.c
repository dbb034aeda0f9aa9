/* SPDX-License-Identifier: Apache-2.0 */
/* A job that would fail an hour later fails now: before START, hosts are looked at where the user
 * requires something of them, or asks the doctor. And of hosts that cannot be started, who repairs
 * them wants to read of all at once, and which of the others are well. */
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "launch/doctor/doctor.h"
#include "launch/session/core/session_end.h"
#include "launch/session/core/session_stream.h"
#include "launch/session/start/start.h"

#define INSPECT_LIMIT_MS 30000 /* python and nvidia-smi from a slow file system */
#define OTHERS_MS 12000 /* for the other hosts to come or fail, when one cannot be started */
#define NAMED_MAX 16 /* hosts of a kind whose names are told */
#define TOLD_MAX 8   /* causes that are told */

struct examined {
    uint64_t asked_ns, asked_realtime_ns; /* when INSPECT was sent; 0: it was not */
    char *facts;                          /* of INSPECTED; NULL before it came */
    int64_t clock_ns;                     /* its clock minus ours, plus or minus the bound */
    uint64_t clock_bound_ns;
};

struct session_starting {
    int exit_code; /* of the first host that could not be started; 0: none */
    struct rg_timer others_timer;
    const struct rg_network *network; /* borrowed; NULL: none connects the hosts */
    const struct rg_error *network_err;
    int nexamined; /* hosts that have said what they are like */
    struct examined hosts[];
};

static void fini(struct rg_session *session)
{
    rg_timer_stop(&session->starting->others_timer);
    for (int i = 0; i < session->o.plan->nhosts; i++)
        free(session->starting->hosts[i].facts);
}

const struct session_part session_starting_part = {
    SESSION_PART(starting), .nbytes_per_host = sizeof(struct examined), .fini = fini,
};

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

/* --- the last look, and START -----------------------------------------------------------------*/

static void judge(struct rg_session *session)
{
    const struct session_starting *starting = session->starting;
    const struct rg_plan *plan = session->o.plan;
    rg_autofree struct rg_doctor_host *hosts = calloc((size_t) plan->nhosts, sizeof(*hosts));
    struct rg_error err = RG_ERROR_INIT;
    struct rg_doctor_input input = { .hosts = hosts, .nhosts = plan->nhosts,
                                     .contained = session->o.job->container.image != NULL,
                                     .network = starting->network,
                                     .network_err = starting->network_err,
                                     .required = &session->o.job->require };

    if (!hosts) {
        session_end_by_error(session, &(struct rg_error){ ENOMEM, 0, "out of memory" });
        return;
    }
    for (int i = 0; i < plan->nhosts; i++) {
        const struct examined *host = &starting->hosts[i];
        hosts[i] = (struct rg_doctor_host){
            .name = plan->hosts[i].name, .facts = host->facts,
            .addresses = &session->hosts[i].hello.addresses,
            .nranks = plan->hosts[i].nplanned, .clock_ns = host->clock_ns,
            .clock_bound_ns = host->clock_bound_ns,
        };
    }
    if (session->o.doctor) {
        session->o.ops->on_examined(session->o.arg, &input);
        session_set_cause(session, RG_EXIT_OK, "examined");
        session_begin_end(session);
    } else if (rg_doctor_require(&input, &err) < 0) {
        session_end_by_error(session, &err);
    } else {
        session->on_fit(session);
    }
}

void session_examine(struct rg_session *session, const struct rg_network *network,
                     const struct rg_error *network_err)
{
    struct session_starting *starting = session->starting;

    if (!session->o.doctor && !session->o.job->require.count) {
        session->on_fit(session);
        return;
    }
    starting->network = network;
    starting->network_err = network_err;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        starting->hosts[i].asked_ns = rg_now_ns();
        starting->hosts[i].asked_realtime_ns = rg_wall_ns();
        session_send(&session->hosts[i], RG_MSG_INSPECT,
                    &(struct rg_msg_inspect){ INSPECT_LIMIT_MS });
    }
}

/* Its clock was read somewhere between our question and its answer. */
void session_on_clock(struct session_host *host, const struct rg_msg_clock *msg)
{
    struct examined *examined = &host->session->starting->hosts[host->index];
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
    struct session_starting *starting = session->starting;
    struct examined *examined = &starting->hosts[host->index];

    if (!examined->asked_ns || examined->facts)
        return -EBADMSG;
    examined->facts = take_msg->text ? rg_steal_ptr(&take_msg->text) : strdup("");
    if (!examined->facts)
        return -ENOMEM;
    if (++starting->nexamined == session->o.plan->nhosts && session->state == STATE_STARTING)
        judge(session);
    return 0;
}
