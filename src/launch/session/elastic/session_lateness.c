/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks are is known here; what makes one late launch/diagnosis finds. */
#include "launch/session/elastic/session_lateness.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/time.h"
#include "launch/numbers/numbers.h"
#include "launch/session/elastic/elastic_state.h"
#include "launch/session/elastic/session_numbers.h"

#define TALLY_NS (3 * RG_NS_PER_S) /* of a longer silence no more is counted */

/* By rank; of those that there are not nothing is known. */
static void fill(const struct rg_session *session, uint64_t now_ns, struct rg_load *loads,
                 int nranks)
{
    const struct rg_plan *plan = session->o.plan;

    for (int rank = 0; rank < nranks; rank++)
        rg_numbers_store_load(session->elastic->numbers.store, (uint32_t) rank, now_ns,
                              &loads[rank]);
    for (int h = 0; h < plan->nhosts; h++) {
        for (int i = 0; i < plan->hosts[h].nranks; i++) {
            int rank = session_rank_at(session, &plan->hosts[h], i);
            if (rank >= 0 && rank < nranks)
                loads[rank].host = h;
        }
    }
    for (int rank = 0; rank < nranks; rank++) {
        int to = loads[rank].sent_to;
        loads[rank].sent_to = to >= 0 && to < nranks ? loads[to].host : -1;
    }
}

static bool find_cause(const struct rg_session *session, uint64_t now_ns,
                       struct rg_lateness *ret_diagnosis)
{
    const struct rg_plan *plan = session->o.plan;
    int nranks = session->o.job->elastic.on ? plan->room_ranks : plan->nranks;
    size_t n = (size_t) nranks, nhosts = (size_t) plan->nhosts;
    rg_autofree struct rg_load *loads = calloc(n + 1, sizeof(*loads));
    rg_autofree struct rg_load_host *hosts = calloc(nhosts + 1, sizeof(*hosts));
    struct rg_late late;

    if (!loads || !hosts || !session->elastic->numbers.store)
        return false;
    fill(session, now_ns, loads, nranks);
    rg_late_find(loads, n, hosts, nhosts, &late);
    rg_late_explain(loads, n, hosts, nhosts, &late, ret_diagnosis);
    return true;
}

/* The cause of a moment is none. */
bool session_diagnose(const struct rg_session *session, uint64_t now_ns,
                      struct rg_lateness *ret_diagnosis)
{
    if (!find_cause(session, now_ns, ret_diagnosis))
        return false;
    if (rg_tally_holds(&session->elastic->numbers.tally, ret_diagnosis))
        return true;
    if (ret_diagnosis->cause == RG_CAUSE_SLOW_LINK)
        ret_diagnosis->late = (struct rg_late){ .rank = -1, .host = -1 };
    ret_diagnosis->cause = RG_CAUSE_UNKNOWN;
    ret_diagnosis->to = -1;
    return true;
}

/* At most once a second, whichever host tells its numbers. */
void session_lateness_count(struct rg_session *session, uint64_t now_ns)
{
    struct session_numbers *numbers = &session->elastic->numbers;
    uint64_t passed_ns = now_ns - numbers->tallied_ns;
    struct rg_lateness diagnosis;

    if (!numbers->store)
        return;
    uint32_t epoch = rg_numbers_store_epoch(numbers->store);
    if (numbers->tallied_ns && passed_ns < RG_NS_PER_S)
        return;
    if (epoch != numbers->tallied_epoch)
        numbers->tally = (struct rg_tally){ .seconds = 0 };
    numbers->tallied_epoch = epoch;
    if (numbers->tallied_ns && find_cause(session, now_ns, &diagnosis))
        rg_tally_add(&numbers->tally, &diagnosis,
                     (double) (passed_ns < TALLY_NS ? passed_ns : TALLY_NS) / RG_NS_PER_S);
    numbers->tallied_ns = now_ns;
}

bool session_slowed(const struct rg_session *session, struct rg_lateness *ret_diagnosis)
{
    return rg_tally_find(&session->elastic->numbers.tally, ret_diagnosis);
}

static void put_host(const struct rg_session *session, const char *name, int host,
                     struct rg_buf *json)
{
    rg_buf_printf(json, ",\"%s\":", name);
    if (host >= 0)
        rg_json_put_text(json, session->o.plan->hosts[host].name);
    else
        rg_buf_printf(json, "null");
}

void session_lateness_put(const struct rg_session *session, struct rg_buf *json)
{
    struct rg_lateness diagnosis;

    if (!session_diagnose(session, rg_now_ns(), &diagnosis) || !diagnosis.cause)
        return;
    rg_buf_printf(json, "\"diagnosis\":{\"cause\":\"%s\",\"rank\":",
                  rg_cause_name(diagnosis.cause));
    rg_buf_printf(json, diagnosis.late.rank < 0 ? "null" : "%d", diagnosis.late.rank);
    put_host(session, "host", diagnosis.late.host, json);
    put_host(session, "to", diagnosis.to, json);
    rg_buf_printf(json, ",\"share\":%.4g,\"value\":%.6g,\"usual\":%.6g},", diagnosis.share,
                  diagnosis.value, diagnosis.usual);
}
