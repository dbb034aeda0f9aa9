/* SPDX-License-Identifier: Apache-2.0 */
#include "head/show/lines.h"
#include "unit.h"

struct seen {
    struct rg_buf bytes; /* all bytes again, newlines put back */
    int nlines, npieces, ncontinued;
    size_t longest;
};

static void see(void *arg, const struct rg_line *line)
{
    struct seen *seen = arg;

    rg_buf_put(&seen->bytes, line->data, line->nbytes);
    if (line->newline)
        rg_buf_put(&seen->bytes, "\n", 1);
    seen->nlines += line->newline;
    seen->npieces += !line->newline;
    seen->ncontinued += line->continued;
    seen->longest = line->nbytes > seen->longest ? line->nbytes : seen->longest;
}

static void feed_in_steps(const char *text, size_t nbytes, size_t step, struct seen *seen)
{
    struct rg_lines lines = { 0 };

    *seen = (struct seen){ 0 };
    for (size_t at = 0; at < nbytes; at += step) {
        size_t n = nbytes - at < step ? nbytes - at : step;
        assert_int_equal(rg_lines_feed(&lines, (const uint8_t *) text + at, n, see, seen), 0);
        assert_true(rg_buf_nbytes(&lines.partial) <= RG_LINE_MAX);
    }
    rg_lines_finish(&lines, see, seen);
    assert_int_equal(rg_buf_nbytes(&seen->bytes), nbytes);
    assert_memory_equal(rg_buf_bytes(&seen->bytes), text, nbytes);
    rg_buf_fini(&seen->bytes);
}

static void lines_come_whole_however_bytes_arrive(void **state)
{
    static const char text[] = "one\n\ntwo two\nlast";

    (void) state;
    for (size_t step = 1; step <= sizeof text - 1; step++) {
        struct seen seen;
        feed_in_steps(text, sizeof text - 1, step, &seen);
        assert_int_equal(seen.nlines, 3);
        assert_int_equal(seen.npieces, 1);
        assert_int_equal(seen.ncontinued, 0);
    }
}

/* A line of each length around the cap, in steps that hit its edges. */
static void long_lines_come_in_pieces_and_no_byte_is_lost(void **state)
{
    static const size_t steps[] = {1000,    4096, RG_LINE_MAX - 1, RG_LINE_MAX, RG_LINE_MAX + 1,
                                   1u << 20};
    static const size_t lengths[] = {RG_LINE_MAX - 1, RG_LINE_MAX,         RG_LINE_MAX + 1,
                                     2 * RG_LINE_MAX, 2 * RG_LINE_MAX + 1, 5 * RG_LINE_MAX + 77};
    char *text = malloc(8u * RG_LINE_MAX);

    (void) state;
    for (size_t l = 0; l < rg_array_len(lengths); l++) {
        size_t n = 0;
        text[n++] = 'x';
        text[n++] = '\n';
        for (size_t i = 0; i < lengths[l]; i++)
            text[n++] = (char) ('a' + i % 26);
        text[n++] = '\n';
        text[n++] = 'y';
        for (size_t s = 0; s < rg_array_len(steps); s++) {
            struct seen seen;
            feed_in_steps(text, n, steps[s], &seen);
            assert_int_equal(seen.nlines, 2);
            assert_int_equal(seen.ncontinued, (lengths[l] - 1) / RG_LINE_MAX);
            assert_true(seen.longest <= RG_LINE_MAX);
        }
    }
    free(text);
}

static void nothing_comes_of_nothing(void **state)
{
    struct rg_lines lines = { 0 };
    struct seen seen = { 0 };

    (void) state;
    assert_int_equal(rg_lines_feed(&lines, NULL, 0, see, &seen), 0);
    rg_lines_finish(&lines, see, &seen);
    assert_int_equal(seen.nlines + seen.npieces, 0);
}

static void what_is_written_over_does_not_come_out(void **state)
{
    static const struct { const char *text, *wanted; } rows[] = {
        { "\r  0%\r 50%\r100%\nend\n", "100%\nend\n" },
        { "loading \rloaded\n", "loaded\n" },
        { "a\r\nb\r\n", "a\r\nb\r\n" }, /* as other systems end lines */
        { "one\r\r\ntwo\n", "one\r\ntwo\n" },
        { "bar 10%\r       \rword\nbar 20%", "word\nbar 20%" },
        { "last\r", "last" },
        { "\r\r\r", "" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(rows); i++) {
        size_t nbytes = strlen(rows[i].text);

        for (size_t step = 1; step <= nbytes; step++) {
            struct rg_lines lines = { .redraws = true };
            struct seen seen = { 0 };

            for (size_t at = 0; at < nbytes; at += step) {
                size_t n = nbytes - at < step ? nbytes - at : step;
                assert_int_equal(rg_lines_feed(&lines, (const uint8_t *) rows[i].text + at, n, see,
                                               &seen), 0);
            }
            rg_lines_finish(&lines, see, &seen);
            assert_string_equal(rg_buf_text(&seen.bytes), rows[i].wanted);
            rg_buf_fini(&seen.bytes);
        }
    }
}

static void feed_text(struct rg_lines *lines, const char *text, struct seen *seen)
{
    assert_int_equal(rg_lines_feed(lines, (const uint8_t *) text, strlen(text), see, seen), 0);
}

static void a_row_that_was_seen_does_not_come_out_once_more(void **state)
{
    struct rg_lines lines = { .redraws = true };
    struct seen seen = { 0 };
    struct rg_line row;

    (void) state;
    feed_text(&lines, "no row", &seen);
    assert_false(rg_lines_row(&lines, &row));
    feed_text(&lines, "\r50%", &seen);
    assert_true(rg_lines_row(&lines, &row));
    assert_memory_equal(row.data, "50%", row.nbytes);
    rg_lines_row_shown(&lines, 1);
    assert_false(rg_lines_row(&lines, &row));
    feed_text(&lines, "\r60%", &seen);
    assert_true(rg_lines_row(&lines, &row));
    feed_text(&lines, "\r70%", &seen);
    rg_lines_row_shown(&lines, 2);
    feed_text(&lines, "\nnext\n", &seen);
    assert_string_equal(rg_buf_text(&seen.bytes), "next\n");
    assert_false(rg_lines_row(&lines, &row));
    rg_lines_finish(&lines, see, &seen);
    rg_buf_fini(&seen.bytes);
}

static void for_events_a_row_goes_out_in_pieces(void **state)
{
    struct rg_lines lines = { 0 };
    struct seen seen = { 0 };

    (void) state;
    feed_text(&lines, "begun", &seen);
    rg_lines_flush_row(&lines, see, &seen);
    assert_int_equal(seen.npieces, 0);
    feed_text(&lines, "\r50%", &seen);
    rg_lines_flush_row(&lines, see, &seen);
    feed_text(&lines, "\r60%\n", &seen);
    assert_string_equal(rg_buf_text(&seen.bytes), "begun\r50%\r60%\n");
    assert_int_equal(seen.npieces, 1);
    assert_int_equal(seen.ncontinued, 1);
    rg_lines_finish(&lines, see, &seen);
    rg_buf_fini(&seen.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_whole_however_bytes_arrive),
        cmocka_unit_test(long_lines_come_in_pieces_and_no_byte_is_lost),
        cmocka_unit_test(nothing_comes_of_nothing),
        cmocka_unit_test(what_is_written_over_does_not_come_out),
        cmocka_unit_test(a_row_that_was_seen_does_not_come_out_once_more),
        cmocka_unit_test(for_events_a_row_goes_out_in_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
