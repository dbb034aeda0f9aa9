/* SPDX-License-Identifier: Apache-2.0 */
/* Who may speak for which rank is known here; what the numbers mean is not. */
#include <errno.h>

#include "base/time.h"
#include "launch/numbers/numbers.h"
#include "launch/session/elastic/elastic_state.h"
#include "launch/session/elastic/session_numbers.h"

/* In an elastic job a rank is where its epoch says, and it may have moved since. */
static bool may_tell(const struct session_host *host, uint32_t epoch, uint32_t rank)
{
    const struct rg_session *session = host->session;

    if (session->o.job->elastic.on)
        return epoch > 0 && rank < (uint32_t) session->o.plan->room_ranks;
    return epoch == 0 && session_host_has_rank(host, rank);
}

int session_on_numbers(struct session_host *host, const struct rg_rankmsg_numbers *msg)
{
    struct rg_reader reader = rg_reader_make(msg->ranks.data, msg->ranks.nbytes);
    struct rg_numbers_store *store = host->session->elastic->numbers;
    int r = 0;

    if (!store)
        return 0;
    if (msg->ranks.nbytes > RG_NUMBERS_RANKS_MAX * RG_NUMBERS_NBYTES)
        return -EBADMSG;
    while (r == 0 && reader.nbytes > 0) {
        struct rg_numbers numbers;

        rg_numbers_take(&reader, &numbers);
        if (reader.bad || !may_tell(host, msg->epoch, numbers.rank))
            return -EBADMSG;
        r = rg_numbers_store_add(store, msg->epoch, rg_now_ns(), &numbers);
    }
    return r;
}

void session_numbers_put(const struct rg_session *session, uint32_t from, struct rg_buf *json)
{
    if (session->elastic->numbers)
        rg_numbers_store_put(session->elastic->numbers, from, rg_now_ns(), json);
}
