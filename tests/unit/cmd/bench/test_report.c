/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/bench/report/report.h"

#include "base/cleanup.h"
#include "cmd/bench/report/plot.h"
#include "reigen/reigen.h"
#include "unit.h"

static const bool types[REIGEN_NDTYPES] = { [REIGEN_FLOAT32] = true };
static struct rg_report report;

static int make_report(void **state)
{
    (void) state;
    report = (struct rg_report){ .types = types, .rounds = 5, .described = "plane shm: 2 ranks\n",
                                 .version = "1.2.3", .nranks = 4, .nhosts = 2, .nmeasured = 2,
                                 .names = { "reigen", "a<b" } };
    for (size_t nbytes = 4; nbytes <= 4 << 20; nbytes *= 32) {
        struct rg_measure_row row = {
            .what = { .op = RG_BENCH_ALLREDUCE, .type = REIGEN_FLOAT32, .reduction = REIGEN_SUM,
                      .group = 1, .count = nbytes / 4, .part = nbytes / 4, .nbytes = nbytes },
            .results = { { .measured = true, .median_s = 1e-5 + (double) nbytes * 1e-9,
                           .min_s = 1e-5, .max_s = 1e-2, .algorithm_gbps = 1, .bus_gbps = 1.5,
                           .checked = true, .nwrong = nbytes == 4 ? 3 : 0 },
                         { .note = "has none" } },
        };
        assert_int_equal(rg_report_add(&report, &row), 0);
    }
    return 0;
}

static int free_report(void **state)
{
    (void) state;
    rg_report_fini(&report);
    return 0;
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, part)); p++)
        n++;
    return n;
}

static void the_page_is_one_file_with_two_plots_and_a_table(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    rg_report_html(&text, &report);
    const char *page = rg_buf_text(&text);
    assert_int_equal(count(page, "<svg "), 2);
    assert_int_equal(count(page, "</svg>"), 2);
    assert_int_equal(count(page, "<circle "), 2 * report.nrows);
    assert_int_equal(count(page, "<tr>"), report.nrows + 1);
    assert_contains(page, "prefers-color-scheme:dark");
    assert_contains(page, "a&lt;b");
    assert_contains(page, "<p>plane shm: 2 ranks</p>");
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "http"));
    assert_null(strstr(page, "nan"));
}

static void the_table_has_a_row_for_each_size_and_marks_what_is_missing(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    rg_report_row(&text, &report, &report.rows[0], false);
    assert_contains(rg_buf_text(&text), "float32  allreduce sum");
    assert_contains(rg_buf_text(&text), " 3 ");
    assert_contains(rg_buf_text(&text), "-      -\n");
    rg_buf_clear(&text);
    struct rg_measure_row row = report.rows[0]; /* beside one that takes 500 times as long */
    row.results[1] = (struct rg_measure_result){ .measured = true,
                                                 .median_s = 500 * row.results[0].median_s };
    row.results[0].algorithm_gbps = 3.7e-6;
    rg_report_row(&text, &report, &row, false);
    assert_contains(rg_buf_text(&text), " 0.0020\n");
    assert_contains(rg_buf_text(&text), "  3.7e-06     1.50 ");
    rg_buf_clear(&text);
    rg_report_notes(&text, &report);
    assert_string_equal(rg_buf_text(&text), "# has none\n");
    rg_buf_clear(&text);
    report.nmeasured = 3; /* another one that has none, for another reason */
    for (size_t i = 0; i < report.nrows; i++)
        report.rows[i].results[2] = (struct rg_measure_result){ .note = "nor has this" };
    rg_report_notes(&text, &report);
    report.nmeasured = 2;
    assert_string_equal(rg_buf_text(&text), "# has none\n# nor has this\n");
}

static void bus_bandwidths_are_those_of_the_nccl_tests(void **state)
{
    (void) state;
    assert_true(rg_measure_bus_factor(RG_BENCH_ALLREDUCE, 4) == 1.5);
    assert_true(rg_measure_bus_factor(RG_BENCH_ALLGATHER, 4) == 0.75);
    assert_true(rg_measure_bus_factor(RG_BENCH_REDUCESCATTER_INTO, 2) == 0.5);
    assert_true(rg_measure_bus_factor(RG_BENCH_ALLTOALL, 4) == 0.75);
    assert_true(rg_measure_bus_factor(RG_BENCH_BROADCAST, 4) == 1);
}

static void sizes_have_an_element_for_each_rank_where_there_are_parts(void **state)
{
    const struct rg_bench_case asked = { .reduction = REIGEN_SUM, .group = 1 };
    struct rg_bench_case gather, reduce;

    (void) state;
    gather = rg_bench_case_make(&asked, RG_BENCH_ALLGATHER, REIGEN_FLOAT32, 4, 3);
    assert_int_equal(gather.part, 1);
    assert_int_equal(gather.nbytes, 12);
    gather = rg_bench_case_make(&asked, RG_BENCH_ALLGATHER, REIGEN_INT64, 1000, 3);
    assert_int_equal(gather.part, 41);
    assert_int_equal(gather.count, 123);
    reduce = rg_bench_case_make(&asked, RG_BENCH_ALLREDUCE, REIGEN_FLOAT16, 1000, 3);
    assert_int_equal(reduce.count, 500);
    assert_int_equal(reduce.part, 500);
}

static void the_model_is_fitted_to_all_that_it_knows(void **state)
{
    struct rg_fit_sample samples[16];

    (void) state;
    assert_int_equal(rg_report_samples(&report, samples), report.nrows);
    assert_int_equal(samples[0].task.nhosts, 2);
    assert_int_equal(samples[0].task.ranks_per_host, 2);
    assert_int_equal(samples[0].task.nbytes, 4);
    assert_true(samples[0].ns > 1e4);
}

static void medians_are_in_the_middle(void **state)
{
    double odd[] = { 3, 1, 2 }, even[] = { 4, 1, 3, 2 };

    (void) state;
    assert_true(rg_measure_median(odd, 3) == 2);
    assert_true(rg_measure_median(even, 4) == 2.5);
    assert_true(even[0] == 1 && even[3] == 4);
}

static void the_document_takes_any_text_of_a_peers(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    snprintf(report.rows[0].results[1].note, RG_MEASURE_NOTE_MAX, "cut off: \xc3");
    rg_report_json(&text, &report);
    assert_contains(rg_buf_text(&text), "cut off: ");
    snprintf(report.rows[0].results[1].note, RG_MEASURE_NOTE_MAX, "has none");
}

static void values_stand_in_the_largest_unit_that_fits(void **state)
{
    char text[32];

    (void) state;
    assert_string_equal(rg_plot_bytes(4, text, sizeof(text)), "4 B");
    assert_string_equal(rg_plot_bytes(1024, text, sizeof(text)), "1 KiB");
    assert_string_equal(rg_plot_bytes(1536.0 * (1 << 20), text, sizeof(text)), "1.5 GiB");
    assert_string_equal(rg_plot_seconds(1e-3, text, sizeof(text)), "1 ms");
    assert_string_equal(rg_plot_seconds(12.34e-6, text, sizeof(text)), "12.3 us");
    assert_string_equal(rg_plot_seconds(5000, text, sizeof(text)), "5e+03 s");
    assert_string_equal(rg_plot_gbps(1, text, sizeof(text)), "1 GB/s");
}

static void what_has_no_tensor_has_no_group(void **state)
{
    const struct rg_bench_case grouped = { .reduction = REIGEN_SUM, .group = 8 };

    (void) state;
    assert_int_equal(rg_bench_case_make(&grouped, RG_BENCH_BARRIER, 0, 4, 2).group, 1);
    assert_int_equal(rg_bench_case_make(&grouped, RG_BENCH_BROADCAST, REIGEN_INT32, 4, 2).group, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_is_one_file_with_two_plots_and_a_table),
        cmocka_unit_test(the_table_has_a_row_for_each_size_and_marks_what_is_missing),
        cmocka_unit_test(bus_bandwidths_are_those_of_the_nccl_tests),
        cmocka_unit_test(sizes_have_an_element_for_each_rank_where_there_are_parts),
        cmocka_unit_test(the_model_is_fitted_to_all_that_it_knows),
        cmocka_unit_test(medians_are_in_the_middle),
        cmocka_unit_test(the_document_takes_any_text_of_a_peers),
        cmocka_unit_test(values_stand_in_the_largest_unit_that_fits),
        cmocka_unit_test(what_has_no_tensor_has_no_group),
    };

    return cmocka_run_group_tests(tests, make_report, free_report);
}
