/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/show/lines.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_whole_however_bytes_arrive),
        cmocka_unit_test(long_lines_come_in_pieces_and_no_byte_is_lost),
        cmocka_unit_test(nothing_comes_of_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
