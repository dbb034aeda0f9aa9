/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks there are is known here; what the numbers mean is not. */
#include "base/time.h"
#include "launch/numbers/numbers.h"
#include "launch/session/elastic/elastic_state.h"
#include "launch/session/elastic/session_numbers.h"
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

void session_on_numbers(struct session_host *host, const struct rg_rankmsg_numbers *msg)
{
    struct rg_reader reader = rg_reader_make(msg->ranks.data, msg->ranks.nbytes);
    const struct rg_session *session = host->session;
    struct rg_numbers_store *store = session->elastic->numbers;

    for (int i = 0; store && i < RG_NUMBERS_RANKS_MAX && reader.nbytes > 0; i++) {
        struct rg_numbers numbers;

        rg_numbers_take(&reader, &numbers);
        if (reader.bad)
            break;
        if (is_known(session, msg->epoch, numbers.rank))
            rg_numbers_store_add(store, msg->epoch, rg_now_ns(), &numbers);
    }
}

void session_numbers_put(const struct rg_session *session, uint32_t from, struct rg_buf *json)
{
    if (session->elastic->numbers)
        rg_numbers_store_put(session->elastic->numbers, from, rg_now_ns(), json);
}

bool session_numbers_get(const struct rg_session *session, uint32_t rank,
                         struct rg_numbers *ret_numbers, uint64_t *ret_age_ns)
{
    const struct rg_numbers_store *store = session->elastic->numbers;
    struct rg_rates rates;

    return store && is_known(session, rg_numbers_store_epoch(store), rank) &&
           rg_numbers_store_get(store, rank, rg_now_ns(), ret_numbers, &rates, ret_age_ns);
}
