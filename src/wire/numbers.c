/* SPDX-License-Identifier: Apache-2.0 */
/* A list of equal records, for which the codec's tables have no field. */
#include "wire/numbers.h"

void rg_numbers_put(struct rg_buf *buf, const struct rg_numbers *numbers)
{
    rg_buf_put_u32(buf, numbers->rank);
    rg_buf_put_u64(buf, numbers->operations);
    rg_buf_put_u64(buf, numbers->nbytes);
    rg_buf_put_u64(buf, numbers->steps);
    rg_buf_put_u64(buf, numbers->step_ns);
    rg_buf_put_u64(buf, numbers->blocked_ns);
    rg_buf_put_u64(buf, numbers->waited_ns);
    rg_buf_put_u64(buf, numbers->caused_ns);
    rg_buf_put_u64(buf, numbers->cpu_ns);
    rg_buf_put_u64(buf, numbers->resident_nbytes);
    rg_buf_put_u64(buf, numbers->squares_us2);
    rg_buf_put_u64(buf, numbers->timed_ns);
    rg_buf_put_u64(buf, numbers->computed_ns);
    rg_buf_put_u64(buf, numbers->delayed_ns);
    rg_buf_put_u64(buf, numbers->throttled_ns);
    rg_buf_put_u64(buf, numbers->faults);
    rg_buf_put_u64(buf, numbers->refaults);
    rg_buf_put_u64(buf, numbers->sent_nbytes);
    rg_buf_put_u64(buf, numbers->sending_ns);
    rg_buf_put_u32(buf, numbers->sent_to);
    rg_buf_put_u32(buf, numbers->cpus);
    rg_buf_put_u64(buf, numbers->at_ns);
}

static void take_done(struct rg_reader *row, struct rg_numbers *numbers)
{
    numbers->rank = rg_reader_u32(row);
    numbers->operations = rg_reader_u64(row);
    numbers->nbytes = rg_reader_u64(row);
    numbers->steps = rg_reader_u64(row);
    numbers->step_ns = rg_reader_u64(row);
    numbers->blocked_ns = rg_reader_u64(row);
    numbers->waited_ns = rg_reader_u64(row);
    numbers->caused_ns = rg_reader_u64(row);
    numbers->cpu_ns = rg_reader_u64(row);
    numbers->resident_nbytes = rg_reader_u64(row);
}

static void take_why(struct rg_reader *row, struct rg_numbers *numbers)
{
    numbers->squares_us2 = rg_reader_u64(row);
    numbers->timed_ns = rg_reader_u64(row);
    numbers->computed_ns = rg_reader_u64(row);
    numbers->delayed_ns = rg_reader_u64(row);
    numbers->throttled_ns = rg_reader_u64(row);
    numbers->faults = rg_reader_u64(row);
    numbers->refaults = rg_reader_u64(row);
    numbers->sent_nbytes = rg_reader_u64(row);
    numbers->sending_ns = rg_reader_u64(row);
    numbers->sent_to = rg_reader_u32(row);
    numbers->cpus = rg_reader_u32(row);
}

void rg_numbers_take(struct rg_reader *reader, uint32_t row_nbytes,
                     struct rg_numbers *ret_numbers)
{
    const uint8_t *bytes = rg_reader_bytes(reader, row_nbytes);
    struct rg_reader row = rg_reader_make(bytes, bytes ? row_nbytes : 0);

    *ret_numbers = (struct rg_numbers){ .sent_to = RG_NUMBERS_NO_RANK };
    take_done(&row, ret_numbers);
    if (row_nbytes >= RG_NUMBERS_WHY_NBYTES)
        take_why(&row, ret_numbers);
    if (row_nbytes >= RG_NUMBERS_NBYTES)
        ret_numbers->at_ns = rg_reader_u64(&row);
    reader->bad = reader->bad || row.bad || row_nbytes > RG_NUMBERS_MOST_NBYTES;
}
