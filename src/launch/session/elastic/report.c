/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that are gone are left out, so that what is told does not grow with the job's age. */
#include "launch/session/elastic/report.h"

#include <string.h>

#include "base/json.h"

static void put_int_or_null(struct rg_buf *text, const char *name, int value, bool known)
{
    rg_buf_printf(text, known ? ",\"%s\":%d" : ",\"%s\":null", name, value);
}

static void put_host(const struct rg_session *session, int host, struct rg_buf *text)
{
    static const char *const states[] = {
        [RG_MEMBERSHIP_HOST_STARTS] = "starting", [RG_MEMBERSHIP_HOST_IS_READY] = "ready",
        [RG_MEMBERSHIP_HOST_LEAVES] = "leaving",  [RG_MEMBERSHIP_HOST_IS_FREE] = "free",
    };
    const struct rg_membership *membership = session->elastic->membership;
    const struct rg_plan_host *planned = &session->o.plan->hosts[host];
    int nranks = 0, nwait = 0;

    rg_buf_printf(text, "{\"host\":");
    rg_json_put_text(text, planned->name);
    rg_buf_printf(text, ",\"state\":\"%s\",\"slots\":%d,\"ranks\":[",
                  states[rg_membership_host_state(membership, host)], planned->nranks);
    for (int i = 0; i < planned->nranks; i++) {
        int rank = rg_membership_rank(membership, planned->first_rank_index + i);
        if (rank >= 0)
            rg_buf_printf(text, nranks++ ? ",%d" : "%d", rank);
        nwait += rg_membership_waits(membership, planned->first_rank_index + i);
    }
    rg_buf_printf(text, "],\"waiting\":%d}", nwait);
}

static void put_aside(const struct machine *machine, const struct rg_membership_aside *aside,
                      uint64_t now_ns, struct rg_buf *text)
{
    static const char *const whys[] = {
        [RG_MEMBERSHIP_RANK_FAILED] = "rank-failed", [RG_MEMBERSHIP_AGENT_LOST] = "agent-lost",
        [RG_MEMBERSHIP_NEVER_CAME] = "never-came",   [RG_MEMBERSHIP_NEVER_MET] = "never-met",
        [RG_MEMBERSHIP_DRAINED] = "drained",
    };
    bool drained = aside->why == RG_MEMBERSHIP_DRAINED;

    rg_buf_printf(text, "{\"host\":");
    rg_json_put_text(text, machine->name);
    rg_buf_printf(text, ",\"why\":\"%s\",\"failures\":%d", whys[aside->why], aside->failures);
    put_int_or_null(text, "rank", machine->rank, !drained && machine->rank >= 0);
    rg_buf_printf(text, ",\"reason\":");
    rg_json_put_text(text, !drained && machine->reason ? machine->reason : "");
    if (aside->until_ns == RG_NEVER_NS)
        rg_buf_printf(text, ",\"left_s\":null}");
    else
        rg_buf_printf(text, ",\"left_s\":%.3f}",
                      aside->until_ns > now_ns
                          ? (double) (aside->until_ns - now_ns) / (double) RG_NS_PER_S : 0.0);
}

bool session_report_means(const char *host, const char *name, const char *user)
{
    const char *at = strrchr(host, '@');
    size_t n = at ? (size_t) (at - host) : 0;

    return strcmp(name, at ? at + 1 : host) == 0 &&
           (!at || (user && strncmp(user, host, n) == 0 && !user[n]));
}

void session_report_put(const struct rg_session *session, const char *only, struct rg_buf *text)
{
    const struct session_elastic *elastic = session->elastic;
    const struct rg_membership *membership = elastic->membership;
    const struct rg_elastic *asked = &session->o.job->elastic;
    struct rg_membership_epoch epoch = rg_membership_epoch(membership);
    uint64_t age_ns = session_elapsed_ns(session) - session->began_ns;
    struct rg_membership_aside aside;
    int count = 0;

    rg_buf_printf(text, "{\"epoch\":%u,\"size\":%d,\"epoch_s\":%.3f,\"min_np\":%d", epoch.number,
                  epoch.size, (double) age_ns / (double) RG_NS_PER_S, asked->min_np);
    put_int_or_null(text, "max_np", asked->max_np, asked->max_np > 0);
    rg_buf_printf(text, ",\"in_place\":%s,\"restarts\":%d,\"hosts\":[",
                  rg_membership_in_place(membership) ? "true" : "false",
                  rg_membership_restarts(membership));
    for (int host = 0; host < session->o.plan->nhosts; host++) {
        const struct rg_plan_host *planned = &session->o.plan->hosts[host];
        if (rg_membership_host_state(membership, host) == RG_MEMBERSHIP_HOST_IS_GONE ||
            (*only && !session_report_means(only, planned->name, planned->user)))
            continue;
        rg_buf_printf(text, count++ ? "," : "");
        put_host(session, host, text);
    }
    rg_buf_printf(text, "],\"aside\":[");
    count = 0;
    for (size_t name = 0; name < elastic->nmachines; name++) {
        if (*only || !rg_membership_aside(membership, (int) name, &aside))
            continue;
        rg_buf_printf(text, count++ ? "," : "");
        put_aside(&elastic->machines[name], &aside, elastic_now_ns(session), text);
    }
    rg_buf_printf(text, "]}");
}
