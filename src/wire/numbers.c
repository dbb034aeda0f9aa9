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
}

void rg_numbers_take(struct rg_reader *reader, struct rg_numbers *ret_numbers)
{
    ret_numbers->rank = rg_reader_u32(reader);
    ret_numbers->operations = rg_reader_u64(reader);
    ret_numbers->nbytes = rg_reader_u64(reader);
    ret_numbers->steps = rg_reader_u64(reader);
    ret_numbers->step_ns = rg_reader_u64(reader);
    ret_numbers->blocked_ns = rg_reader_u64(reader);
    ret_numbers->waited_ns = rg_reader_u64(reader);
    ret_numbers->caused_ns = rg_reader_u64(reader);
    ret_numbers->cpu_ns = rg_reader_u64(reader);
    ret_numbers->resident_nbytes = rg_reader_u64(reader);
    ret_numbers->squares_us2 = rg_reader_u64(reader);
    ret_numbers->timed_ns = rg_reader_u64(reader);
    ret_numbers->computed_ns = rg_reader_u64(reader);
    ret_numbers->delayed_ns = rg_reader_u64(reader);
    ret_numbers->throttled_ns = rg_reader_u64(reader);
    ret_numbers->faults = rg_reader_u64(reader);
    ret_numbers->refaults = rg_reader_u64(reader);
    ret_numbers->sent_nbytes = rg_reader_u64(reader);
    ret_numbers->sending_ns = rg_reader_u64(reader);
    ret_numbers->sent_to = rg_reader_u32(reader);
    ret_numbers->cpus = rg_reader_u32(reader);
}
