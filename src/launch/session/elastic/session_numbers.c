/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks there are is known here; what the numbers mean is not. */
#include <stdlib.h>

#include "base/json.h"
#include "base/time.h"
#include "launch/numbers/numbers.h"
#include "launch/session/elastic/elastic_state.h"
#include "launch/session/elastic/session_numbers.h"
#include "launch/session/meet/meet.h"

#define TALLY_NS (3 * RG_NS_PER_S) /* of a longer silence no more is counted */

/* The rank that reports does so of all that share memory with it, and two hosts of the plan may be
 * one computer: so a host is believed about each rank. What is of another epoch is of no use. */
static bool is_known(const struct rg_session *session, uint32_t epoch, uint32_t rank)
{
    bool elastic = session->o.job->elastic.on;
    int nranks = elastic ? session->o.plan->room_ranks : session->o.plan->nranks;
    uint32_t now = elastic ? session_epoch(session) : 0;

    return rank < (uint32_t) nranks && epoch == now;
}

static void tally(struct rg_session *session, uint64_t now_ns);

void session_on_numbers(struct session_host *host, const struct rg_rankmsg_numbers *msg)
{
    struct rg_reader reader = rg_reader_make(msg->ranks.data, msg->ranks.nbytes);
    struct rg_session *session = host->session;
    struct rg_numbers_store *store = session->elastic->numbers;

    for (int i = 0; store && i < RG_NUMBERS_RANKS_MAX && reader.nbytes > 0; i++) {
        struct rg_numbers numbers;

        rg_numbers_take(&reader, msg->row_nbytes, &numbers);
        if (reader.bad)
            break;
        if (is_known(session, msg->epoch, numbers.rank))
            rg_numbers_store_add(store, msg->epoch, rg_now_ns(), &numbers);
    }
    if (store)
        tally(session, rg_now_ns());
}

/* --- where they are --------------------------------------------------------------------------- */

/* The rank of the i-th place of a host; -1: nobody has it now. */
static int rank_at(const struct rg_session *session, const struct rg_plan_host *host, int i)
{
    int place = host->first_rank_index + i;

    return session->o.job->elastic.on
               ? rg_membership_rank(session->elastic->membership, place)
               : session->o.plan->by_host[place];
}

/* As runs: ["a",0,4,8,1] is ranks 0 to 3 and 8. */
static void put_ranks(const struct rg_session *session, const struct rg_plan_host *host,
                      struct rg_buf *json)
{
    int first = -1, count = 0;

    for (int i = 0; i < host->nranks; i++) {
        int rank = rank_at(session, host, i);
        if (rank < 0)
            continue;
        if (first >= 0 && rank == first + count) {
            count++;
            continue;
        }
        if (first >= 0)
            rg_buf_printf(json, ",%d,%d", first, count);
        first = rank;
        count = 1;
    }
    if (first >= 0)
        rg_buf_printf(json, ",%d,%d", first, count);
}

static void put_places(const struct rg_session *session, struct rg_buf *json)
{
    const struct rg_plan *plan = session->o.plan;

    rg_buf_printf(json, "\"places\":[");
    for (int i = 0; i < plan->nhosts; i++) {
        rg_buf_printf(json, i ? ",[" : "[");
        rg_json_put_text(json, plan->hosts[i].name);
        put_ranks(session, &plan->hosts[i], json);
        rg_buf_printf(json, "]");
    }
    rg_buf_printf(json, "]");
}

/* --- why they are waited for ------------------------------------------------------------------ */

/* By rank; of those that there are not nothing is known. */
static void fill(const struct rg_session *session, uint64_t now_ns, struct rg_load *loads,
                 int nranks)
{
    const struct rg_plan *plan = session->o.plan;

    for (int rank = 0; rank < nranks; rank++)
        rg_numbers_store_load(session->elastic->numbers, (uint32_t) rank, now_ns, &loads[rank]);
    for (int h = 0; h < plan->nhosts; h++) {
        for (int i = 0; i < plan->hosts[h].nranks; i++) {
            int rank = rank_at(session, &plan->hosts[h], i);
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

    if (!loads || !hosts || !session->elastic->numbers)
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
    if (rg_tally_holds(&session->elastic->tally, ret_diagnosis))
        return true;
    if (ret_diagnosis->cause == RG_CAUSE_SLOW_LINK)
        ret_diagnosis->late = (struct rg_late){ .rank = -1, .host = -1 };
    ret_diagnosis->cause = RG_CAUSE_UNKNOWN;
    ret_diagnosis->to = -1;
    return true;
}

/* At most once a second, whichever host tells its numbers. */
static void tally(struct rg_session *session, uint64_t now_ns)
{
    struct session_elastic *elastic = session->elastic;
    uint64_t passed_ns = now_ns - elastic->tallied_ns;
    struct rg_lateness diagnosis;

    uint32_t epoch = rg_numbers_store_epoch(elastic->numbers);

    if (elastic->tallied_ns && passed_ns < RG_NS_PER_S)
        return;
    if (epoch != elastic->tallied_epoch)
        elastic->tally = (struct rg_tally){ .seconds = 0 };
    elastic->tallied_epoch = epoch;
    if (elastic->tallied_ns && find_cause(session, now_ns, &diagnosis))
        rg_tally_add(&elastic->tally, &diagnosis,
                     (double) (passed_ns < TALLY_NS ? passed_ns : TALLY_NS) / RG_NS_PER_S);
    elastic->tallied_ns = now_ns;
}

bool session_slowed(const struct rg_session *session, struct rg_lateness *ret_diagnosis)
{
    return rg_tally_find(&session->elastic->tally, ret_diagnosis);
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

static void put_diagnosis(const struct rg_session *session, struct rg_buf *json)
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

/* The first page has them in front of all; not where an answer has no room for so many names. */
void session_numbers_put(const struct rg_session *session, uint32_t from, struct rg_buf *json)
{
    rg_autobuf struct rg_buf page = RG_BUF_INIT, places = RG_BUF_INIT;

    if (!session->elastic->numbers)
        return;
    rg_numbers_store_put(session->elastic->numbers, from, rg_now_ns(), &page);
    if (from == 0) {
        put_diagnosis(session, &places);
        put_places(session, &places);
    }
    if (from == 0 && rg_buf_nbytes(&places) + rg_buf_nbytes(&page) < RG_CONTROL_ANSWER_MAX) {
        rg_buf_printf(json, "{");
        rg_buf_put(json, rg_buf_bytes(&places), rg_buf_nbytes(&places));
        rg_buf_printf(json, ",");
        rg_buf_consume(&page, 1);
    }
    rg_buf_put(json, rg_buf_bytes(&page), rg_buf_nbytes(&page));
}

bool session_numbers_get(const struct rg_session *session, uint32_t rank,
                         struct rg_numbers *ret_numbers, uint64_t *ret_age_ns)
{
    const struct rg_numbers_store *store = session->elastic->numbers;
    struct rg_rates rates;

    return store && is_known(session, rg_numbers_store_epoch(store), rank) &&
           rg_numbers_store_get(store, rank, rg_now_ns(), ret_numbers, &rates, ret_age_ns);
}
