/* SPDX-License-Identifier: Apache-2.0 */
/* What a launcher keeps of its ranks' numbers. */
#include <errno.h>
#include <jansson.h>
#include <math.h>

#include "launch/numbers/numbers.h"
#include "unit.h"

#define S UINT64_C(1000000000)
#define START (100 * S)

static struct rg_numbers_store *store;

static int begin(void **state)
{
    (void) state;
    return rg_numbers_store_create(3000, &store);
}

static int end(void **state)
{
    (void) state;
    rg_numbers_store_destroy(store);
    return 0;
}

/* A rank that has done so many steps of 10 ms, in each of which it waited for 4 and caused 2. */
static struct rg_numbers after(uint32_t rank, uint64_t steps)
{
    return (struct rg_numbers){
        .rank = rank, .operations = 3 * steps, .nbytes = 1000 * steps, .steps = steps,
        .step_ns = S / 100, .blocked_ns = steps * S / 125,
        .waited_ns = steps * S / 250, .caused_ns = steps * S / 500, .cpu_ns = steps * S / 200,
        .resident_nbytes = 1 << 20,
    };
}

static void add(uint32_t epoch, uint64_t now_ns, uint32_t rank, uint64_t steps)
{
    struct rg_numbers numbers = after(rank, steps);

    assert_int_equal(rg_numbers_store_add(store, epoch, now_ns, &numbers), 0);
}

static struct rg_rates rates(uint32_t rank, uint64_t now_ns, uint64_t *ret_steps)
{
    struct rg_numbers numbers;
    struct rg_rates rates;
    uint64_t age_ns;

    assert_true(rg_numbers_store_get(store, rank, now_ns, &numbers, &rates, &age_ns));
    assert_int_equal(numbers.rank, rank);
    *ret_steps = numbers.steps;
    return rates;
}

static void rates_are_of_the_last_seconds(void **state)
{
    uint64_t steps;

    (void) state;
    add(0, START, 7, 50);
    assert_true(rates(7, START, &steps).steps == 0);
    for (uint64_t s = 1; s <= 20; s++)
        add(0, START + s * S, 7, 50 + 100 * s);
    struct rg_rates now = rates(7, START + 20 * S, &steps);
    assert_int_equal(steps, 2050);
    assert_true(now.steps == 100 && now.operations == 300 && now.nbytes == 100000);
    assert_true(now.blocked > 0.799 && now.blocked < 0.801);
    assert_true(now.waiting > 0.399 && now.waiting < 0.401);
    assert_true(now.causing > 0.199 && now.causing < 0.201);
    assert_true(now.cpu > 0.499 && now.cpu < 0.501);
    /* It stands still: what it did before is forgotten. */
    for (uint64_t s = 21; s <= 32; s++)
        add(0, START + s * S, 7, 2050);
    assert_true(rates(7, START + 32 * S, &steps).steps == 0);
}

static void no_rate_is_of_less_than_half_a_second_or_of_what_was_before(void **state)
{
    struct rg_numbers first = after(7, 0);
    uint64_t steps;

    (void) state;
    assert_int_equal(rg_numbers_store_add(store, 0, START, &first), 0);
    add(0, START + S, 7, 1000); /* its processor time is of minutes, perhaps */
    assert_true(rates(7, START + S, &steps).cpu == 0);
    add(0, START + S + S / 1000, 7, 1001);
    assert_true(rates(7, START + S, &steps).steps == 0);
    add(0, START + 2 * S, 7, 1100);
    assert_true(rates(7, START + 2 * S, &steps).steps == 100);
}

/* Its numbers were up to date when the first ones came, and 0.8 s before the last ones did. */
static void what_a_rank_told_late_is_of_its_own_seconds(void **state)
{
    struct rg_numbers nothing = { .rank = 5 }, first = after(5, 100), last = after(5, 520);
    struct rg_load load;
    uint64_t steps;

    (void) state;
    first.at_ns = 77 * S;
    last.at_ns = first.at_ns + 21 * S / 5;
    last.timed_ns = 21 * S / 5;
    last.computed_ns = last.timed_ns / 2;
    assert_int_equal(rg_numbers_store_add(store, 0, START - S, &nothing), 0);
    assert_int_equal(rg_numbers_store_add(store, 0, START, &first), 0);
    assert_int_equal(rg_numbers_store_add(store, 0, START + 5 * S, &last), 0);
    assert_true(fabs(rates(5, START + 5 * S, &steps).steps - 100) < 1e-9);
    assert_true(rg_numbers_store_load(store, 5, START + 5 * S, &load));
    assert_true(load.timed && fabs(load.computing - 0.5) < 1e-9);
    assert_true(fabs(load.blocked - 0.8) < 1e-9 && fabs(load.operations - 300) < 1e-9);
    assert_true(fabs(load.causing - 420 / 500.0 / 5) < 1e-9); /* others say that, as it happens */
}

static void what_a_thread_computes_is_of_the_time_that_is_known(void **state)
{
    struct rg_numbers first = after(5, 100), last = after(5, 600);
    struct rg_load load;

    (void) state;
    last.timed_ns = 6 * S; /* it was brought up to date between two of its numbers */
    last.computed_ns = 3 * S;
    assert_int_equal(rg_numbers_store_add(store, 0, START, &first), 0);
    assert_int_equal(rg_numbers_store_add(store, 0, START + 5 * S, &last), 0);
    assert_true(rg_numbers_store_load(store, 5, START + 5 * S, &load));
    assert_true(load.timed && fabs(load.computing - 0.5) < 1e-9);
}

static void a_new_epoch_and_a_new_process_begin_anew(void **state)
{
    struct rg_numbers numbers = after(0, 1);
    struct rg_rates now;
    uint64_t steps, age_ns;

    (void) state;
    add(1, START, 0, 10);
    add(1, START, 1, 10);
    add(2, START + S, 1, 3);
    assert_false(rg_numbers_store_get(store, 0, START + S, &numbers, &now, &age_ns));
    add(1, START + 2 * S, 0, 20); /* late */
    assert_false(rg_numbers_store_get(store, 0, START + 2 * S, &numbers, &now, &age_ns));
    add(2, START + 2 * S, 1, 5);
    assert_true(rates(1, START + 2 * S, &steps).steps == 2);
    add(2, START + 3 * S, 1, 1);
    assert_true(rates(1, START + 3 * S, &steps).steps == 0);
    assert_int_equal(steps, 1);
    assert_true(rg_numbers_store_get(store, 1, START + 5 * S, &numbers, &now, &age_ns));
    assert_int_equal(age_ns, 2 * S);
}

static void a_rank_that_cannot_be_is_refused(void **state)
{
    struct rg_numbers numbers = after(3000, 1);

    (void) state;
    assert_int_equal(rg_numbers_store_add(store, 0, START, &numbers), -EBADMSG);
    numbers.rank = UINT32_MAX;
    assert_int_equal(rg_numbers_store_add(store, 0, START, &numbers), -EBADMSG);
}

static json_t *page(uint32_t from)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_numbers_store_put(store, from, START + S, &text);
    assert_int_equal(rg_buf_status(&text), 0);
    assert_true(rg_buf_nbytes(&text) < 400 << 10);
    json_t *json = json_loadb((const char *) rg_buf_bytes(&text), rg_buf_nbytes(&text), 0, NULL);
    assert_non_null(json);
    return json;
}

static void pages_have_all_ranks_that_were_heard(void **state)
{
    size_t nrows[] = { RG_NUMBERS_PAGE, RG_NUMBERS_PAGE - 1, 500 };

    (void) state;
    for (uint32_t rank = 0; rank < 2500; rank++) {
        if (rank != 1234)
            add(0, START, rank, UINT64_C(1) << 40);
    }
    for (uint32_t i = 0; i < 3; i++) {
        json_t *json = page(i * RG_NUMBERS_PAGE);
        json_t *rows = json_object_get(json, "rows");

        assert_int_equal(json_array_size(rows), nrows[i]);
        assert_int_equal(json_array_size(json_array_get(rows, 0)),
                         json_array_size(json_object_get(json, "columns")));
        json_decref(json);
    }
    json_t *json = page(3 * RG_NUMBERS_PAGE);
    assert_int_equal(json_array_size(json_object_get(json, "rows")), 0);
    assert_null(json_object_get(json, "next"));
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rates_are_of_the_last_seconds, begin, end),
        cmocka_unit_test_setup_teardown(
            no_rate_is_of_less_than_half_a_second_or_of_what_was_before, begin, end),
        cmocka_unit_test_setup_teardown(what_a_rank_told_late_is_of_its_own_seconds, begin, end),
        cmocka_unit_test_setup_teardown(what_a_thread_computes_is_of_the_time_that_is_known, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_new_epoch_and_a_new_process_begin_anew, begin, end),
        cmocka_unit_test_setup_teardown(a_rank_that_cannot_be_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(pages_have_all_ranks_that_were_heard, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
