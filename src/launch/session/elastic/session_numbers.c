/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks there are is known here; what the numbers mean is not. */
#include "launch/session/elastic/session_numbers.h"

#include "base/json.h"
#include "base/time.h"
#include "launch/numbers/numbers.h"
#include "launch/session/elastic/elastic_state.h"
#include "launch/session/meet/meet.h"

/* The rank that reports does so of all that share memory with it, and two hosts of the plan may be
 * one computer: so a host is believed about each rank. What is of another epoch is of no use. */
static bool is_known(const struct rg_session *session, uint32_t epoch, uint32_t rank)
{
    bool elastic = session->o.job->elastic.on;
    int nranks = elastic ? session->o.plan->room_ranks : session->o.plan->nranks;
    uint32_t now = elastic ? session_epoch(session) : 0;

    return rank < (uint32_t) nranks && epoch == now;
}

int session_numbers_open(struct rg_session *session)
{
    return rg_numbers_store_create((uint32_t) session->o.plan->room_ranks,
                                   &session->elastic->numbers.store);
}

void session_numbers_close(struct rg_session *session)
{
    if (session->elastic)
        rg_numbers_store_destroy(session->elastic->numbers.store);
}

void session_on_numbers(struct session_host *host, const struct rg_rankmsg_numbers *msg)
{
    struct rg_reader reader = rg_reader_make(msg->ranks.data, msg->ranks.nbytes);
    struct rg_session *session = host->session;
    struct rg_numbers_store *store = session->elastic->numbers.store;

    for (int i = 0; store && i < RG_NUMBERS_RANKS_MAX && reader.nbytes > 0; i++) {
        struct rg_numbers numbers;

        rg_numbers_take(&reader, msg->row_nbytes, &numbers);
        if (reader.bad)
            break;
        if (is_known(session, msg->epoch, numbers.rank))
            rg_numbers_store_add(store, msg->epoch, rg_now_ns(), &numbers);
    }
}

/* --- where they are --------------------------------------------------------------------------- */

int session_rank_at(const struct rg_session *session, const struct rg_plan_host *host, int i)
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
        int rank = session_rank_at(session, host, i);
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

/* The first page has them in front of all; not where an answer has no room for so many names. */
void session_numbers_put(const struct rg_session *session, uint32_t from,
                         const struct rg_buf *first, struct rg_buf *json)
{
    rg_autobuf struct rg_buf page = RG_BUF_INIT, places = RG_BUF_INIT;

    if (!session->elastic->numbers.store)
        return;
    rg_numbers_store_put(session->elastic->numbers.store, from, rg_now_ns(), &page);
    if (from == 0) {
        rg_buf_put(&places, rg_buf_bytes(first), rg_buf_nbytes(first));
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
    const struct rg_numbers_store *store = session->elastic->numbers.store;
    struct rg_rates rates;

    return store && is_known(session, rg_numbers_store_epoch(store), rank) &&
           rg_numbers_store_get(store, rank, rg_now_ns(), ret_numbers, &rates, ret_age_ns);
}
