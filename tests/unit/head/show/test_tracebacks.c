/* SPDX-License-Identifier: Apache-2.0 */
#include "head/show/tracebacks.h"
#include "unit.h"

#define BEGIN "Traceback (most recent call last):"

static struct rg_buf seen;

static void show(void *arg, int rank, const struct rg_line *line)
{
    (void) arg;
    rg_buf_printf(&seen, "%d %.*s\n", rank, (int) line->nbytes, (const char *) line->data);
}

static void begin(struct rg_tracebacks *all, int nranks)
{
    rg_buf_fini(&seen);
    assert_int_equal(rg_tracebacks_init(all, nranks, show, NULL), 0);
}

static void put(struct rg_tracebacks *all, int rank, const char *text)
{
    const struct rg_line line = { .data = (const uint8_t *) text, .nbytes = strlen(text),
                                  .newline = true };

    rg_tracebacks_line(all, rank, &line, 0);
}

/* What has been shown since the last look. */
static void expect(const char *wanted)
{
    assert_string_equal(rg_buf_text(&seen), wanted);
    rg_buf_clear(&seen);
}

static void expect_told(const struct rg_tracebacks *all, const char *wanted)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_tracebacks_tell(all, &text);
    assert_string_equal(rg_buf_text(&text), wanted);
}

static void end(struct rg_tracebacks *all)
{
    rg_tracebacks_expire(all, UINT64_MAX);
    assert_int_equal(all->nheld, 0);
    rg_tracebacks_fini(all);
    rg_buf_fini(&seen);
}

/* Rank 0 failed; the others lost it, and say so at the same time, line by line. */
static void equal_ones_are_shown_once_whoever_is_ahead(void **state)
{
    struct rg_tracebacks all;

    (void) state;
    begin(&all, 5);
    put(&all, 0, BEGIN);
    put(&all, 0, "NameError: x");
    expect("0 " BEGIN "\n0 NameError: x\n");
    for (int r = 1; r < 4; r++)
        put(&all, r, BEGIN);
    put(&all, 4, "a word before it");
    put(&all, 4, BEGIN);
    expect("4 a word before it\n");
    for (int r = 4; r > 0; r--)
        put(&all, r, "Lost: rank 0");
    expect("4 " BEGIN "\n4 Lost: rank 0\n");
    for (int r = 4; r >= 0; r--)
        rg_tracebacks_end(&all, r);
    expect("");
    expect_told(&all, "reigen: ranks 1-3: the same traceback as rank 4's\n");
    assert_int_equal(rg_tracebacks_shown_by(&all, 2), 4);
    assert_int_equal(rg_tracebacks_shown_by(&all, 0), 0);
    end(&all);
}

static void what_differs_at_last_is_shown_whole(void **state)
{
    struct rg_tracebacks all;

    (void) state;
    begin(&all, 4);
    put(&all, 0, BEGIN);
    put(&all, 0, "Error");
    put(&all, 0, "and a word after it");
    rg_buf_clear(&seen);
    put(&all, 1, BEGIN); /* ends where rank 0 went on */
    put(&all, 1, "Error");
    put(&all, 2, BEGIN); /* goes on where rank 0 ended */
    put(&all, 2, "Error");
    put(&all, 2, "and a word after it");
    put(&all, 3, BEGIN); /* differs in its last byte */
    put(&all, 3, "Error");
    put(&all, 3, "and a word after iT");
    expect("3 " BEGIN "\n3 Error\n3 and a word after iT\n");
    rg_tracebacks_end(&all, 1);
    expect("1 " BEGIN "\n1 Error\n");
    rg_tracebacks_end(&all, 0);
    expect("");
    put(&all, 2, "more");
    expect("2 " BEGIN "\n2 Error\n2 and a word after it\n2 more\n");
    expect_told(&all, "");
    end(&all);
}

static void a_rank_that_lives_on_is_heard_in_time(void **state)
{
    struct rg_tracebacks all;

    (void) state;
    begin(&all, 2);
    put(&all, 0, BEGIN);
    put(&all, 1, BEGIN);
    put(&all, 1, "Error");
    rg_buf_clear(&seen);
    rg_tracebacks_expire(&all, RG_TRACEBACKS_HOLD_NS - 1);
    expect("");
    rg_tracebacks_expire(&all, RG_TRACEBACKS_HOLD_NS);
    expect("1 " BEGIN "\n1 Error\n");
    put(&all, 1, "goes on");
    expect("1 goes on\n");
    end(&all);
}

/* Caught and printed in each step: what came before the last one is shown, too. */
static void only_the_last_one_is_left_out(void **state)
{
    struct rg_tracebacks all;

    (void) state;
    begin(&all, 2);
    for (int step = 0; step < 2; step++) {
        for (int r = 0; r < 2; r++) {
            put(&all, r, BEGIN);
            put(&all, r, "Error");
        }
    }
    expect("0 " BEGIN "\n0 Error\n0 " BEGIN "\n0 Error\n1 " BEGIN "\n1 Error\n");
    rg_tracebacks_end(&all, 0);
    rg_tracebacks_end(&all, 1);
    expect_told(&all, "reigen: rank 1: the same traceback as rank 0's\n");
    end(&all);
}

static void errors_that_came_of_another_stay_together(void **state)
{
    static const char *const lines[] = {
        BEGIN, "First", "",
        "During handling of the above exception, another exception occurred:", "", BEGIN, "Second",
    };
    struct rg_tracebacks all;

    (void) state;
    begin(&all, 2);
    for (int r = 0; r < 2; r++) {
        for (size_t i = 0; i < rg_array_len(lines); i++)
            put(&all, r, lines[i]);
        rg_tracebacks_end(&all, r);
    }
    assert_null(strstr(rg_buf_text(&seen), "1 "));
    assert_contains(rg_buf_text(&seen), "0 First\n");
    expect_told(&all, "reigen: rank 1: the same traceback as rank 0's\n");
    end(&all);
}

/* Let rank say each of lines, in which @ stands for its number, and end. */
static void say_all(struct rg_tracebacks *all, int rank, const char *const *lines)
{
    for (; *lines; lines++) {
        rg_autobuf struct rg_buf text = RG_BUF_INIT;

        for (const char *c = *lines; *c; c++) {
            if (*c == '@')
                rg_buf_printf(&text, "%d", rank);
            else
                rg_buf_put(&text, c, 1);
        }
        put(all, rank, rg_buf_text(&text));
    }
    rg_tracebacks_end(all, rank);
}

#define RANK "[rank@]: "

/* PyTorch writes the rank's number before each line that is not empty. */
static void number_of_pytorch_makes_no_difference(void **state)
{
    static const struct { const char *lines[9]; bool equal; } table[] = {
        { { RANK BEGIN, RANK "  File", RANK "ValueError: x" }, true },
        { { RANK BEGIN, RANK "ValueError: x", "a line without it" }, true },
        { { RANK BEGIN, RANK "ValueError: lost [rank@]: x" }, false },
        { { RANK BEGIN, RANK "ValueError: x", "[rank@]:[W1128 a.cpp:1] Warning" }, false },
        { { RANK BEGIN, RANK "ValueError: x", "[rank7]: x" }, true },
        { { BEGIN, RANK "a line of the script's" }, false },
        { { RANK BEGIN, RANK "First", "",
            RANK "During handling of the above exception, another exception occurred:", "",
            RANK BEGIN, RANK "Second" }, true },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(table); i++) {
        struct rg_tracebacks all;

        begin(&all, 12);
        say_all(&all, 11, table[i].lines);
        say_all(&all, 0, table[i].lines);
        say_all(&all, 9, table[i].lines);
        assert_int_equal(rg_tracebacks_shown_by(&all, 0) == 11, table[i].equal);
        expect_told(&all, table[i].equal
                          ? "reigen: ranks 0, 9: the same traceback as rank 11's\n" : "");
        end(&all);
    }
}

static void number_of_pytorch_is_shown_as_it_was_written(void **state)
{
    static const char *const lines[] = { RANK BEGIN, "", RANK "Error", NULL };
    struct rg_tracebacks all;

    (void) state;
    begin(&all, 3);
    say_all(&all, 2, lines);
    expect("2 [rank2]: " BEGIN "\n2 \n2 [rank2]: Error\n");
    put(&all, 1, "[rank1]: " BEGIN);
    put(&all, 1, "");
    put(&all, 1, "[rank1]: Error");
    put(&all, 0, "[rank0]: " BEGIN);
    expect("");
    put(&all, 1, "[rank0]: is lost"); /* what was held */
    expect("1 [rank1]: " BEGIN "\n1 \n1 [rank1]: Error\n1 [rank0]: is lost\n");
    put(&all, 0, "");
    put(&all, 0, "[rank0]: Error");
    put(&all, 0, "[rank1]: is lost"); /* says another thing than rank 1 does */
    rg_tracebacks_end(&all, 1);
    rg_tracebacks_end(&all, 0);
    expect("0 [rank0]: " BEGIN "\n0 \n0 [rank0]: Error\n0 [rank1]: is lost\n");
    expect_told(&all, "");
    end(&all);
}

static void what_is_too_long_or_cut_is_shown(void **state)
{
    static char line[RG_LINE_MAX];
    struct rg_tracebacks all;

    (void) state;
    memset(line, 'x', sizeof line - 1);
    begin(&all, 2);
    for (int r = 0; r < 2; r++) {
        put(&all, r, BEGIN);
        put(&all, r, line);
        put(&all, r, "end");
        rg_tracebacks_end(&all, r);
    }
    assert_contains(rg_buf_text(&seen), "1 " BEGIN "\n1 xxx");
    assert_contains(rg_buf_text(&seen), "xxx\n1 end\n");
    expect_told(&all, "");
    end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_ones_are_shown_once_whoever_is_ahead),
        cmocka_unit_test(what_differs_at_last_is_shown_whole),
        cmocka_unit_test(a_rank_that_lives_on_is_heard_in_time),
        cmocka_unit_test(only_the_last_one_is_left_out),
        cmocka_unit_test(errors_that_came_of_another_stay_together),
        cmocka_unit_test(number_of_pytorch_makes_no_difference),
        cmocka_unit_test(number_of_pytorch_is_shown_as_it_was_written),
        cmocka_unit_test(what_is_too_long_or_cut_is_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
