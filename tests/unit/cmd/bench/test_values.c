/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/bench/measure/values.h"

#include "base/cleanup.h"
#include "reigen/reigen.h"
#include "unit.h"

#define COUNT 100

/* A tensor of `count` elements as a right allreduce would leave it. */
static void fill_right(int dtype, const double *table, void *data)
{
    for (size_t i = 0; i < COUNT; i++)
        rg_value_store(dtype, data, i, table[i % RG_VALUES_PERIOD]);
}

static void right_results_have_no_wrong_element_and_others_have(void **state)
{
    (void) state;
    for (int dtype = 0; dtype < REIGEN_NDTYPES; dtype++) {
        for (int op = REIGEN_AVERAGE; op <= REIGEN_PRODUCT; op++) {
            double table[RG_VALUES_PERIOD], data[COUNT];
            double tolerance = rg_values_tolerance(dtype, op, 4);
            rg_values_reduced(dtype, op, 4, table);
            fill_right(dtype, table, data);
            assert_int_equal(rg_values_wrong(dtype, data, COUNT, 0, table, tolerance), 0);
            rg_value_store(dtype, data, 41, table[41 % RG_VALUES_PERIOD] ? 0 : 1);
            assert_int_equal(rg_values_wrong(dtype, data, COUNT, 0, table, tolerance), 1);
        }
    }
}

/* What ranks 0 to n - 1 have, combined one after the other. */
static void the_table_is_what_ranks_values_make(void **state)
{
    double sums[RG_VALUES_PERIOD], averages[RG_VALUES_PERIOD], least[RG_VALUES_PERIOD];

    (void) state;
    rg_values_reduced(REIGEN_FLOAT64, REIGEN_SUM, 5, sums);
    rg_values_reduced(REIGEN_INT32, REIGEN_AVERAGE, 5, averages);
    rg_values_reduced(REIGEN_INT8, REIGEN_MIN, 5, least);
    for (size_t i = 0; i < RG_VALUES_PERIOD; i++) {
        double sum = 0, smallest = 100;
        for (int rank = 0; rank < 5; rank++) {
            double value = rg_value_of(REIGEN_SUM, rank, i);
            sum += value;
            smallest = value < smallest ? value : smallest;
        }
        assert_true(sums[i] == sum);
        assert_true(averages[i] == (double) ((int) sum / 5));
        assert_true(least[i] == smallest);
    }
}

static void integers_wrap_around_and_bool_is_a_bit(void **state)
{
    double table[RG_VALUES_PERIOD];

    (void) state;
    rg_values_reduced(REIGEN_INT8, REIGEN_SUM, 1000, table);
    for (size_t i = 0; i < RG_VALUES_PERIOD; i++)
        assert_true(table[i] >= -128 && table[i] <= 127);
    rg_values_reduced(REIGEN_BOOL, REIGEN_SUM, 2, table);
    assert_true(table[0] == 1);
    rg_values_reduced(REIGEN_BOOL, REIGEN_MIN, 2, table);
    assert_true(table[0] == 0);
}

static void half_types_keep_small_whole_numbers(void **state)
{
    static const double numbers[] = { 0, 1, -1, 2, 3, 6, 7, 42, 100, 255, 256, 0.5, -0.25 };
    uint16_t room;

    (void) state;
    for (size_t i = 0; i < rg_array_len(numbers); i++) {
        rg_value_store(REIGEN_FLOAT16, &room, 0, numbers[i]);
        assert_true(rg_value_load(REIGEN_FLOAT16, &room, 0) == numbers[i]);
        rg_value_store(REIGEN_BFLOAT16, &room, 0, numbers[i]);
        assert_true(rg_value_load(REIGEN_BFLOAT16, &room, 0) == numbers[i]);
    }
    rg_value_store(REIGEN_FLOAT16, &room, 0, 1);
    assert_int_equal(room, 0x3c00); /* IEEE 754 */
    rg_value_store(REIGEN_BFLOAT16, &room, 0, 1);
    assert_int_equal(room, 0x3f80);
}

static void a_nan_is_wrong(void **state)
{
    const double table[RG_VALUES_PERIOD] = { 1, 1, 1, 1, 1, 1, 1 };
    const float data[] = { 1, __builtin_nanf(""), 1 };

    (void) state;
    assert_int_equal(rg_values_wrong(REIGEN_FLOAT32, data, 3, 0, table, 0.05), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_results_have_no_wrong_element_and_others_have),
        cmocka_unit_test(the_table_is_what_ranks_values_make),
        cmocka_unit_test(integers_wrap_around_and_bool_is_a_bit),
        cmocka_unit_test(half_types_keep_small_whole_numbers),
        cmocka_unit_test(a_nan_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
