/* SPDX-License-Identifier: Apache-2.0 */
/* What hosts tell of their ranks' numbers: each begins with a byte that is its epoch, and one for
 * its length. What is kept fits into an answer. */
#include "fuzz.h"
#include "launch/numbers/numbers.h"

#define RANKS 1500

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_reader reader = rg_reader_make(data, nbytes);
    struct rg_numbers_store *store = NULL;
    uint64_t now_ns = 1;

    must(rg_numbers_store_create(RANKS, &store) == 0);
    while (reader.nbytes > 0) {
        uint32_t epoch = rg_reader_u8(&reader);
        struct rg_numbers numbers;

        rg_numbers_take(&reader, RG_NUMBERS_LEAST_NBYTES + rg_reader_u8(&reader), &numbers);
        if (reader.bad)
            break;
        int r = rg_numbers_store_add(store, epoch, now_ns += 1000000000, &numbers);
        must(r == (numbers.rank < RANKS ? 0 : -EBADMSG));
    }
    for (uint32_t from = 0; from < 2 * RANKS; from += RG_NUMBERS_PAGE) {
        rg_autobuf struct rg_buf json = RG_BUF_INIT;

        rg_numbers_store_put(store, from, now_ns, &json);
        must(rg_buf_status(&json) == 0 && rg_buf_nbytes(&json) <= 400 << 10);
    }
    rg_numbers_store_destroy(store);
    return 0;
}
