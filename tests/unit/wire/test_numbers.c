/* SPDX-License-Identifier: Apache-2.0 */
/* Who sends may know fewer of a rank's numbers than who reads, or more. */
#include "unit.h"
#include "wire/numbers.h"

static struct rg_numbers numbers_of(uint32_t rank)
{
    return (struct rg_numbers){ .rank = rank, .operations = 10 + rank, .resident_nbytes = 20 + rank,
                                .squares_us2 = 30 + rank, .sending_ns = 40 + rank,
                                .sent_to = 50 + rank, .cpus = 60 + rank,
                                .at_ns = 70 + rank };
}

/* Two ranks in a buffer, of so many bytes each: cut off, or with others behind. */
static void put_rows(struct rg_buf *buf, size_t row_nbytes)
{
    static const uint8_t beyond[RG_NUMBERS_MOST_NBYTES] = { 0xff, 0xff, 0xff, 0xff };

    for (uint32_t rank = 0; rank < 2; rank++) {
        rg_autobuf struct rg_buf row = RG_BUF_INIT;
        struct rg_numbers numbers = numbers_of(rank);

        rg_numbers_put(&row, &numbers);
        assert_int_equal(rg_buf_nbytes(&row), RG_NUMBERS_NBYTES);
        rg_buf_put(&row, beyond, sizeof(beyond));
        rg_buf_put(buf, rg_buf_bytes(&row), row_nbytes);
    }
}

static void take_rows(size_t row_nbytes, bool knows_why, bool knows_when)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    put_rows(&buf, row_nbytes);
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(&buf), rg_buf_nbytes(&buf));
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct rg_numbers sent = numbers_of(rank), got;

        rg_numbers_take(&reader, (uint32_t) row_nbytes, &got);
        assert_int_equal(got.rank, rank);
        assert_int_equal(got.operations, sent.operations);
        assert_int_equal(got.resident_nbytes, sent.resident_nbytes);
        assert_int_equal(got.squares_us2, knows_why ? sent.squares_us2 : 0);
        assert_int_equal(got.sending_ns, knows_why ? sent.sending_ns : 0);
        assert_int_equal(got.sent_to, knows_why ? sent.sent_to : RG_NUMBERS_NO_RANK);
        assert_int_equal(got.cpus, knows_why ? sent.cpus : 0);
        assert_int_equal(got.at_ns, knows_when ? sent.at_ns : 0);
    }
    assert_int_equal(rg_reader_done(&reader), 0);
}

static void numbers_come_back_as_they_were(void **state)
{
    (void) state;
    take_rows(RG_NUMBERS_NBYTES, true, true);
}

static void an_older_sender_knows_less_and_a_newer_one_more(void **state)
{
    (void) state;
    take_rows(RG_NUMBERS_LEAST_NBYTES, false, false);
    take_rows(RG_NUMBERS_WHY_NBYTES - 4, false, false);
    take_rows(RG_NUMBERS_WHY_NBYTES, true, false);
    take_rows(RG_NUMBERS_NBYTES - 4, true, false);
    take_rows(RG_NUMBERS_NBYTES + 12, true, true);
    take_rows(RG_NUMBERS_MOST_NBYTES, true, true);
}

static void a_length_that_cannot_be_is_bad(void **state)
{
    static const uint32_t bad[] = { 0, 1, RG_NUMBERS_LEAST_NBYTES - 1, RG_NUMBERS_MOST_NBYTES + 1,
                                    UINT32_MAX };
    static const uint8_t bytes[2 * RG_NUMBERS_MOST_NBYTES];

    (void) state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct rg_reader reader = rg_reader_make(bytes, sizeof(bytes));
        struct rg_numbers numbers;

        rg_numbers_take(&reader, bad[i], &numbers);
        assert_int_equal(rg_reader_done(&reader), -EBADMSG);
    }
    struct rg_reader reader = rg_reader_make(bytes, RG_NUMBERS_NBYTES - 1);
    struct rg_numbers numbers;
    rg_numbers_take(&reader, RG_NUMBERS_NBYTES, &numbers);
    assert_int_equal(rg_reader_done(&reader), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_back_as_they_were),
        cmocka_unit_test(an_older_sender_knows_less_and_a_newer_one_more),
        cmocka_unit_test(a_length_that_cannot_be_is_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
