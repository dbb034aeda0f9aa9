/* SPDX-License-Identifier: Apache-2.0 */
/* Records that are cut off, odd, or of several lives, and the figures that follow from them. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/report/html.h"
#include "cmd/report/read/figures.h"
#include "cmd/report/read/reader.h"
#include "head/record/files.h"
#include "unit.h"

#define FIRST "{\"record\":1,\"event\":\"record\",\"time\":100,\"version\":\"1\"}\n"

static struct rg_recorded read_text(const char *events, const char *samples)
{
    struct rg_recorded record = { 0 };
    struct rg_error err = RG_ERROR_INIT;

    assert_int_equal(rg_recorded_parse(events, samples, "", &record, &err), 0);
    return record;
}

/* A line with one rank. */
static void put(struct rg_buf *text, double at_s, int epoch, double steps, double age_s,
                double blocked_s)
{
    rg_buf_printf(text, "{\"time\":%g,\"start\":0,\"epoch\":%d,\"hosts\":[\"a\"],\"rows\":[[0,0,"
                        "%g,%g,%g,%g,0.1,%g,0,0,0,1000,0]]}\n",
                  at_s, epoch, steps, steps * 8, steps, age_s, blocked_s);
}

static void what_is_no_record_is_refused(void **state)
{
    static const char *const bad[] = { "", "\n", "{}\n", "record\n", "{\"record\":\"1\"}\n",
                                       "{\"record\":2}\n", "[1]\n" };
    struct rg_recorded record = { 0 };

    (void) state;
    for (size_t i = 0; i < rg_array_len(bad); i++) {
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_recorded_parse(bad[i], "", "", &record, &err), -EBADMSG);
        assert_int_equal(err.exit_code, 2);
    }
}

static void a_line_that_is_cut_off_is_passed_over(void **state)
{
    struct rg_recorded record = read_text(FIRST "{\"event\":\"verdict\",\"time\":1", "{\"ti");

    (void) state;
    assert_true(!record.verdict && record.nskipped == 2 && record.nsamples == 0);
    assert_true(record.began_s == 100 && record.last_s == 100);
    rg_recorded_fini(&record);
}

static void a_start_forgets_the_processes_before_it(void **state)
{
    struct rg_recorded record = read_text(
        FIRST "{\"event\":\"start\",\"time\":101,\"ranks\":2,\"hosts\":[{\"name\":\"a\"}]}\n"
              "{\"event\":\"rank-started\",\"rank\":1,\"host\":\"a\",\"pid\":5}\n"
              "{\"event\":\"restart\",\"restart\":1}\n"
              "{\"event\":\"start\",\"time\":105,\"ranks\":2,\"hosts\":[{\"name\":\"a\"}]}\n"
              "{\"event\":\"rank-started\",\"rank\":0,\"host\":\"a\",\"pid\":6}\n", "");

    (void) state;
    assert_true(record.nstarts == 2 && record.nhosts == 1 && record.nranks == 1);
    assert_true(record.ranks[0].pid == 6 && record.starts[0].failure && !record.starts[1].failure);
    rg_recorded_fini(&record);
}

static void rates_are_of_the_time_at_which_sums_were_so(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_figures figures;

    (void) state;
    put(&text, 110, 0, 50, 1, 2);    /* at 109 s */
    put(&text, 120, 0, 160, 0, 7.5); /* at 120 s: 110 steps in 11 s */
    struct rg_recorded record = read_text(FIRST, rg_buf_text(&text));
    assert_int_equal(rg_figures_make(&record, &figures), 0);
    assert_true(fabs(figures.steps_per_s - 10) < 1e-9 && figures.steps == 160);
    assert_true(fabs(figures.communication - 0.5) < 1e-9);
    assert_true(fabs(figures.nbytes_per_s - 80) < 1e-9);
    assert_true(figures.npoints == 1 && figures.points[0].from_s == 10);
    rg_figures_fini(&figures);
    rg_recorded_fini(&record);
}

static void lives_are_added_up_and_not_compared(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_figures figures;

    (void) state;
    put(&text, 110, 1, 10, 0, 0);
    put(&text, 120, 1, 110, 0, 0);
    put(&text, 130, 2, 200, 0, 0); /* another epoch, whose sums are larger by chance */
    put(&text, 140, 2, 300, 0, 0);
    put(&text, 150, 2, 5, 0, 0);   /* a process that began anew */
    struct rg_recorded record = read_text(FIRST, rg_buf_text(&text));
    assert_int_equal(rg_figures_make(&record, &figures), 0);
    for (size_t i = 0; i < figures.npoints; i++)
        assert_true(fabs(figures.points[i].steps.mean - 10) < 1e-9);
    assert_true(figures.npoints == 2 && figures.points[1].begins);
    assert_true(figures.ranks[0].steps == 110 + 300 + 5);
    assert_true(fabs(figures.ranks[0].seen_s - 20) < 1e-9);
    rg_figures_fini(&figures);
    rg_recorded_fini(&record);
}

static void who_is_heard_of_later_has_rates(void **state)
{
    struct rg_recorded record = read_text(
        FIRST, "{\"time\":110,\"rows\":[[0,0,0,0,0,0,0,0,0,0,0,0,0]]}\n"
               "{\"time\":111,\"rows\":[[0,0,9,9,10,0,0,0,0,0,0,0,0],"
               "[1,0,5,5,5,0,0,0,0,0,0,0,0]]}\n"
               "{\"time\":121,\"rows\":[[1,0,9,9,105,0,0,0,0,2,0,0,0]]}\n");
    struct rg_figures figures;

    (void) state;
    assert_int_equal(rg_figures_make(&record, &figures), 0);
    assert_true(figures.nranks == 2 && figures.nrated == 2);
    assert_true(fabs(figures.ranks[0].steps_per_s - 10) < 1e-9 && figures.ranks[0].steps == 10);
    assert_true(fabs(figures.ranks[1].steps_per_s - 10) < 1e-9 && figures.ranks[1].steps == 105);
    assert_true(fabs(figures.ranks[1].causing - 0.2) < 1e-9);
    rg_figures_fini(&figures);
    rg_recorded_fini(&record);
}

static void many_samples_become_some_points(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_figures figures;

    (void) state;
    for (int i = 0; i < 720; i++)
        put(&text, 110 + i, 0, 10.0 * i, 0, 0);
    struct rg_recorded record = read_text(FIRST, rg_buf_text(&text));
    assert_int_equal(rg_figures_make(&record, &figures), 0);
    assert_true(figures.npoints > 60 && figures.npoints <= RG_FIGURES_POINTS);
    assert_true(fabs(figures.points[60].steps.mean - 10) < 1e-9);
    rg_figures_fini(&figures);
    rg_recorded_fini(&record);
}

static void more_samples_than_a_launcher_keeps_are_thinned_out(void **state)
{
    enum { MANY = 30000, ROWS = 20000, WIDE = 60 };
    rg_autobuf struct rg_buf text = RG_BUF_INIT, wide = RG_BUF_INIT;

    (void) state;
    for (int i = 0; i < MANY; i++)
        put(&text, 110 + i, 0, i, 0, 0);
    struct rg_recorded record = read_text(FIRST, rg_buf_text(&text));
    assert_true(record.nsamples > 1000 && record.nsamples <= 4096);
    assert_true(record.nrows == record.nsamples && record.last_s == 110 + MANY - 1);
    assert_true(record.samples[0].at_s == 110);
    for (size_t i = 1; i < record.nsamples; i++)
        assert_true(record.samples[i].at_s > record.samples[i - 1].at_s);
    rg_recorded_fini(&record);

    for (int i = 0; i < WIDE; i++) {
        rg_buf_printf(&wide, "{\"time\":%d,\"rows\":[", 110 + i);
        for (int k = 0; k < ROWS; k++)
            rg_buf_printf(&wide, "%s[%d,0,1,1,1,0,0,0,0,0,0,0,0]", k ? "," : "", k);
        rg_buf_printf(&wide, "]}\n");
    }
    record = read_text(FIRST, rg_buf_text(&wide));
    assert_true(record.nrows <= 500000 && record.nrows == ROWS * record.nsamples);
    assert_true(record.nsamples > 10 && record.last_s == 110 + WIDE - 1);
    rg_recorded_fini(&record);
}

static void looking_whether_a_job_is_recorded_is_not_in_its_way(void **state)
{
    char path[] = "/tmp/rg-record-lock-XXXXXX";
    int writer = mkstemp(path), reader = open(path, O_RDONLY), second = open(path, O_RDWR);

    (void) state;
    assert_true(writer >= 0 && reader >= 0 && second >= 0);
    assert_false(rg_record_is_locked(reader));
    assert_int_equal(rg_record_lock(writer), 0);
    assert_true(rg_record_is_locked(reader));
    assert_int_equal(rg_record_lock(second), -EWOULDBLOCK);
    close(writer);
    assert_false(rg_record_is_locked(reader));
    assert_int_equal(rg_record_lock(second), 0);
    close(second);
    close(reader);
    unlink(path);
}

static void words_are_escaped_and_can_be_read(void **state)
{
    rg_autobuf struct rg_buf page = RG_BUF_INIT;

    (void) state;
    rg_html_text(&page, "<a b='\"'>&\x1b[1;31mred\x1b[0m\x01\xff\xef\xbf\xbf\x1b[");
    assert_string_equal(rg_buf_text(&page),
                        "&lt;a b=&#39;&quot;&#39;&gt;&amp;red\\x01\\xff?\\x1b[");
}

static void numbers_are_for_people(void **state)
{
    char buf[RG_HTML_WORD];

    (void) state;
    assert_string_equal(rg_html_seconds(0, buf), "0 s");
    assert_string_equal(rg_html_seconds(0.0123, buf), "12 ms");
    assert_string_equal(rg_html_seconds(0.9996, buf), "1.0 s");
    assert_string_equal(rg_html_seconds(192.4, buf), "3:12 min");
    assert_string_equal(rg_html_seconds(3600, buf), "1:00:00 h");
    assert_string_equal(rg_html_waited(192.4, buf), "192 s");
    assert_string_equal(rg_html_number(1234567, buf), "1,234,567");
    assert_string_equal(rg_html_number(8.916, buf), "8.92");
    assert_string_equal(rg_html_bytes_per_s(1536, buf), "1.5 KiB/s");
    assert_string_equal(rg_html_share(0.634, buf), "63 %");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_record_is_refused),
        cmocka_unit_test(a_line_that_is_cut_off_is_passed_over),
        cmocka_unit_test(a_start_forgets_the_processes_before_it),
        cmocka_unit_test(rates_are_of_the_time_at_which_sums_were_so),
        cmocka_unit_test(lives_are_added_up_and_not_compared),
        cmocka_unit_test(who_is_heard_of_later_has_rates),
        cmocka_unit_test(many_samples_become_some_points),
        cmocka_unit_test(more_samples_than_a_launcher_keeps_are_thinned_out),
        cmocka_unit_test(looking_whether_a_job_is_recorded_is_not_in_its_way),
        cmocka_unit_test(words_are_escaped_and_can_be_read),
        cmocka_unit_test(numbers_are_for_people),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
