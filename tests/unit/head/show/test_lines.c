/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"
#include "head/show/lines.h"
#include "unit.h"

#define QUIET_NS (RG_LINES_QUIET_MS * RG_NS_PER_MS)

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
        assert_true(rg_buf_nbytes(&lines.now.text) <= RG_LINE_MAX);
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
        { "bar 10%\r       \r", "" },
        { "bar 10%\033[2K\rword\033[K\n", "word\n" },
        { "\033[31mred\033[0m \033[38;2;255;100;0m\033[K\033]0;title\a.\n",
          "\033[31mred\033[0m \033[38;2;255;100;0m\033[K\033]0;title\a.\n" },
        { "\033[?25lhid\033[?25hden\033", "hidden\033" },
        /* A loop in a loop, as tqdm draws it. */
        { "\ra 0%\n\rb 0%\033[A\n\rb 9%\033[A\n\r    \033[A\ra 5%\n\rb 0%\033[A\ra 9%\nend\n",
          "a 0%\na 9%\nend\n" },
        { "\ra 0%\n\rb 0%\033[A\n\n\rc 0%\033[A\033[A", "a 0%\nb 0%\nc 0%\n" },
        /* Rows that are all drawn anew, with a line above them, as Rich does it. */
        { "a 0%\nb 0%\r\033[2K\033[1A\033[2Ka 5%\nb 5%\r\033[2K\033[1A\033[2Kword\na 9%\nb 9%"
          "\r\033[2K\033[1A\033[2Ka 10%\nb 10%\n", "a 0%\nword\na 10%\nb 10%\n" },
        { "a\nb\n\033[99Ac\n", "a\nb\nc\n" },
        { "a\nb\033[2A\033[J\033[Bc", "a\nc\n" },
        { "a 0%\nb 0%\n\033[2Fa 1%\033[Eb 1%\n", "a 0%\nb 0%\na 1%\nb 1%\n" },
        { "one\033[Etwo\n", "two\n" },
        /* Colours behind a way back. */
        { "loading\r\033[0m\nend\n", "loading\r\nend\n" },
        { "50%\r\033[K\033[0m", "" },
        { "50%\r\033[1m\033[38;2;255;100;0m\033[K60%\033[0m\n",
          "\033[1m\033[38;2;255;100;0m60%\033[0m\n" },
        { "50%\r\033[38;5;100m\033[38;5;101m\033[38;5;102m\033[38;5;103m\033[38;5;104m"
          "\033[38;5;105m\033[38;5;106m60%\n", "\033[38;5;105m\033[38;5;106m60%\n" },
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

static void see_row(const struct rg_lines *lines, int i, const char *wanted, bool wanted_news)
{
    struct rg_line row;
    bool news;

    assert_true(rg_lines_row(lines, i, &row, &news));
    assert_int_equal(row.nbytes, strlen(wanted));
    assert_memory_equal(row.data, wanted, row.nbytes);
    assert_int_equal(news, wanted_news);
}

static void a_row_that_was_seen_does_not_come_out_once_more(void **state)
{
    struct rg_lines lines = { .redraws = true };
    struct seen seen = { 0 };

    (void) state;
    feed_text(&lines, "no row", &seen);
    assert_int_equal(rg_lines_nrows(&lines), 0);
    feed_text(&lines, "\r50%", &seen);
    assert_int_equal(rg_lines_nrows(&lines), 1);
    see_row(&lines, 0, "50%", true);
    rg_lines_row_shown(&lines, 0, 1);
    see_row(&lines, 0, "50%", false);
    feed_text(&lines, "\r60%", &seen);
    see_row(&lines, 0, "60%", true);
    feed_text(&lines, "\r70%", &seen);
    rg_lines_row_shown(&lines, 0, 2);
    feed_text(&lines, "\nnext\n", &seen);
    assert_string_equal(rg_buf_text(&seen.bytes), "next\n");
    assert_int_equal(rg_lines_nrows(&lines), 0);
    rg_lines_finish(&lines, see, &seen);
    rg_buf_fini(&seen.bytes);
}

static void rows_of_a_loop_in_a_loop_stand_until_they_end(void **state)
{
    struct rg_lines lines = { .redraws = true };
    struct seen seen = { 0 };
    struct rg_line row;
    bool news;

    (void) state;
    feed_text(&lines, "\repoch 0%\n\rbatch 0%\033[A", &seen);
    assert_string_equal(rg_buf_text(&seen.bytes), "epoch 0%\n");
    assert_int_equal(rg_lines_nrows(&lines), 2);
    assert_false(rg_lines_row(&lines, 0, &row, &news)); /* that went out */
    see_row(&lines, 1, "batch 0%", true);
    feed_text(&lines, "\repoch 50%\n\rbatch 9%\033[A", &seen);
    see_row(&lines, 0, "epoch 50%", true);
    rg_lines_row_shown(&lines, 0, 1);
    rg_lines_settle(&lines, 1, see, &seen);
    rg_lines_settle(&lines, 1 + QUIET_NS, see, &seen); /* the cursor is not below them */
    feed_text(&lines, "\n\r        \033[A", &seen);
    assert_false(rg_lines_row(&lines, 1, &row, &news));
    see_row(&lines, 0, "epoch 50%", false);
    feed_text(&lines, "\repoch 100%\n", &seen);
    rg_lines_settle(&lines, 1, see, &seen);
    rg_lines_settle(&lines, 1 + QUIET_NS, see, &seen);
    assert_string_equal(rg_buf_text(&seen.bytes), "epoch 0%\nepoch 100%\n");
    assert_int_equal(rg_lines_nrows(&lines), 0);
    feed_text(&lines, "word\n", &seen);
    assert_string_equal(rg_buf_text(&seen.bytes), "epoch 0%\nepoch 100%\nword\n");
    rg_lines_finish(&lines, see, &seen);
    rg_buf_fini(&seen.bytes);
}

/* Some leave the cursor below, and go up for the next time. */
static void rows_above_the_cursor_end_when_nothing_has_followed_for_a_while(void **state)
{
    struct rg_lines lines = { .redraws = true };
    struct seen seen = { 0 };
    uint64_t now_ns = 1;

    (void) state;
    feed_text(&lines, "\n\n", &seen);
    for (int i = 0; i < 20; i++, now_ns += QUIET_NS / 2) {
        feed_text(&lines, "\033[2Aa\nb\n", &seen);
        rg_lines_settle(&lines, now_ns, see, &seen);
        rg_lines_settle(&lines, now_ns + QUIET_NS - 1, see, &seen);
        assert_string_equal(rg_buf_text(&seen.bytes), "\n\n");
        see_row(&lines, 1, "b", true);
    }
    rg_lines_settle(&lines, now_ns + QUIET_NS, see, &seen);
    assert_string_equal(rg_buf_text(&seen.bytes), "\n\na\nb\n");
    assert_int_equal(rg_lines_nrows(&lines), 0);
    rg_lines_finish(&lines, see, &seen);
    rg_buf_fini(&seen.bytes);
}

static void a_bar_that_lasts_is_shown_more_seldom(void **state)
{
    struct rg_lines lines = { .redraws = true };
    struct seen seen = { 0 };
    int count = 0;

    (void) state;
    feed_text(&lines, "\r50%", &seen);
    for (uint64_t now = 1; now < 86400; now++) { /* a day, in units of the pause */
        if (rg_lines_due(&lines, 1, now)) {
            rg_lines_row_shown(&lines, 0, now);
            count++;
        }
        assert_true(now > 60 || count == (int) now);
    }
    assert_in_range(count, 300, 600);
    feed_text(&lines, "\n\r0%", &seen);
    assert_true(rg_lines_due(&lines, 1, lines.shown_ns + 1));
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
        cmocka_unit_test(rows_of_a_loop_in_a_loop_stand_until_they_end),
        cmocka_unit_test(rows_above_the_cursor_end_when_nothing_has_followed_for_a_while),
        cmocka_unit_test(a_bar_that_lasts_is_shown_more_seldom),
        cmocka_unit_test(for_events_a_row_goes_out_in_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
