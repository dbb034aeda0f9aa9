/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "launch/verdict/tail.h"
#include "unit.h"

static struct rg_tail tail;

static int empty_tail(void **state)
{
    (void) state;
    rg_tail_fini(&tail);
    return 0;
}

static void put(int stream, const char *text)
{
    if (*text)
        rg_tail_put(&tail, stream, text, strlen(text));
    else
        rg_tail_put(&tail, stream, NULL, 0);
}

/* The lines, each followed by "|". */
static const char *lines(void)
{
    static char text[RG_TAIL_LINES * (RG_TAIL_LINE_MAX + 2)];
    const char *list[RG_TAIL_LINES];
    size_t count = rg_tail_lines(&tail, list);

    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        strcat(strcat(text, list[i]), "|");
    return text;
}

static void lines_are_put_together_per_stream(void **state)
{
    (void) state;
    put(1, "a");
    put(2, "err");
    put(1, "b\nc");
    put(2, "or\n");
    assert_string_equal(lines(), "ab|error|");
    put(1, "");
    put(2, "");
    assert_string_equal(lines(), "ab|error|c|");
}

static void only_the_last_ten_stay(void **state)
{
    char text[32];

    (void) state;
    for (int i = 0; i < 25; i++) {
        snprintf(text, sizeof(text), "%d\n", i);
        put(1, text);
    }
    assert_string_equal(lines(), "15|16|17|18|19|20|21|22|23|24|");
}

static void last_ten_of_one_large_chunk_are_the_right_ones(void **state)
{
    static char chunk[60000];
    size_t used = 0;

    (void) state;
    put(1, "torn ");
    for (int i = 0; i < 5000; i++)
        used += (size_t) snprintf(chunk + used, sizeof(chunk) - used, "line %d\n", i);
    snprintf(chunk + used, sizeof(chunk) - used, "rest");
    put(1, chunk);
    assert_string_equal(lines(), "line 4990|line 4991|line 4992|line 4993|line 4994|line 4995|"
                                 "line 4996|line 4997|line 4998|line 4999|");
    put(1, "");
    assert_contains(lines(), "line 4999|rest|");
}

static void long_line_keeps_its_beginning(void **state)
{
    static char chunk[5000];

    (void) state;
    memset(chunk, 'x', sizeof(chunk) - 1);
    chunk[0] = 'A';
    for (int i = 0; i < 100; i++)
        put(2, chunk);
    put(2, "\nnext\n");
    assert_int_equal(strlen(lines()), RG_TAIL_LINE_MAX + 1 + strlen("next|"));
    assert_int_equal(lines()[0], 'A');
}

static void odd_bytes_do_no_harm(void **state)
{
    (void) state;
    rg_tail_put(&tail, 1, "a\0b\r\r\n\n", 7);
    assert_string_equal(lines(), "a b||");
}

static void of_a_bar_the_last_text_is_kept(void **state)
{
    static const char text[] = "\r  0%\r 50%\r\r100%\r\nb\r 10%\r";

    (void) state;
    for (size_t step = 1; step <= sizeof(text); step++) {
        rg_tail_fini(&tail);
        for (size_t at = 0; at < sizeof(text) - 1; at += step)
            rg_tail_put(&tail, 1, text + at,
                        sizeof(text) - 1 - at < step ? sizeof(text) - 1 - at : step);
        rg_tail_put(&tail, 1, NULL, 0);
        assert_string_equal(lines(), "100%| 10%|");
    }
}

/* A loop in a loop, as tqdm draws it, and one that leaves the cursor below its rows. */
static void of_bars_of_several_rows_each_row_is_kept_once(void **state)
{
    char text[64];

    (void) state;
    put(1, "said\n");
    put(2, "\repoch 0%");
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof(text), "\n\rbatch %d\033[A", i);
        put(2, text);
        if (i % 5 == 4)
            put(2, "\n\r        \033[A\repoch more");
    }
    assert_string_equal(lines(), "said|epoch more||");
    put(2, "\repoch 100%\n");
    put(2, "an error\n");
    put(2, "another\n");
    assert_string_equal(lines(), "said|epoch 100%|an error|another|");
    rg_tail_fini(&tail);
    put(1, "a 0\nb 0\n");
    for (int i = 1; i < 20; i++) {
        snprintf(text, sizeof(text), "\033[2Aa %d\nb %d\n", i, i);
        put(1, text);
        put(2, i == 9 ? "warning\n" : "\033[99A");
    }
    put(1, "\033[3mend\033[");
    put(1, "");
    assert_string_equal(lines(), "a 19|b 19|warning|\033[3mend\033[|");
}

static uint64_t hash_error(const char *text)
{
    rg_tail_fini(&tail);
    if (*text)
        put(2, text);
    return rg_tail_hash_error(&tail);
}

static void equal_errors_have_equal_hashes(void **state)
{
    static const char traceback[] = "Traceback (most recent call last):\n  File\nValueError: a\n";
    char text[128];

    (void) state;
    snprintf(text, sizeof(text), "a warning of one rank\n%s\n", traceback);
    assert_int_equal(hash_error(text), hash_error(traceback));
    assert_int_not_equal(hash_error("ValueError: a\n"), hash_error(traceback));
    assert_int_equal(hash_error("3\nboom\n"), hash_error("4\nboom\n\n"));
    assert_int_not_equal(hash_error("boom\n"), hash_error("bang\n"));
    assert_int_equal(hash_error(""), 0);
    assert_false(rg_tail_is_traceback(&tail));
    hash_error(traceback);
    assert_true(rg_tail_is_traceback(&tail));
    hash_error("[rank3]:   File \"a.py\", line 1\n[rank3]:     f()\n[rank3]: KeyError: 'x'\n");
    assert_true(rg_tail_is_traceback(&tail));
    hash_error("Traceback (most recent call last):\n  File \"a.py\"\n    f()\n"); /* not yet */
    assert_false(rg_tail_is_traceback(&tail));
    hash_error("epoch 3\nloss 4\n");
    assert_false(rg_tail_is_traceback(&tail));
    hash_error("3\nboom\n");
    uint64_t all = rg_tail_hash(&tail);
    hash_error("4\nboom\n");
    assert_int_not_equal(rg_tail_hash(&tail), all);
}

static void the_prefix_of_pytorch_is_a_rank_number_and_no_more(void **state)
{
    static const struct { const char *line; size_t nbytes; } table[] = {
        { "[rank0]: ValueError: x", 9 },
        { "[rank12345]:   File", 13 },
        { "[rank3]: ", 9 },
        { "[rank1]: [rank10]: ValueError: x", 19 },
        { "[rank1]: [rank10] ", 9 },
        { "[rank3]:", 0 },
        { "[rank3]", 0 },
        { "[rank", 0 },
        { "", 0 },
        { "[rank3]:[W1128 17:00:00.1 ProcessGroup.cpp:1] Warning", 0 },
        { "[rank3]:[E1128 17:00:00.1 ProcessGroup.cpp:1] failed", 0 },
        { "[rankings]: x", 0 },
        { "[rank-1]: x", 0 },
        { " [rank3]: x", 0 },
        { "[Rank 3]: x", 0 },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(table); i++)
        assert_int_equal(rg_tail_prefix(table[i].line, strlen(table[i].line)), table[i].nbytes);
    assert_int_equal(rg_tail_prefix("[rank3]: x", 8), 0); /* nothing beyond its end is read */
}

static void errors_are_equal_whatever_rank_pytorch_names(void **state)
{
    static const struct { const char *a, *b; bool equal; } table[] = {
        { "[rank0]: ValueError: x\n", "[rank10]: ValueError: x\n", true },
        { "[rank0]: ValueError: x\n", "[rank1]: ValueError: y\n", false },
        { "one\n[rank0]: Traceback (most recent call last):\n[rank0]:   File\n[rank0]: E\n",
          "two\n[rank7]: Traceback (most recent call last):\n[rank7]:   File\n[rank7]: E\n", true },
        { "[rank0]: Traceback (most recent call last):\n[rank0]:   File\n[rank0]: E\n",
          "[rank1]: Traceback (most recent call last):\n[rank1]:   Other\n[rank1]: E\n", false },
        { "[rank0]:[W1 a.cpp:1] x\n", "[rank1]:[W1 a.cpp:1] x\n", false },
    };
    char of_9[RG_TAIL_LINE_MAX + 100], of_10[sizeof of_9];

    (void) state;
    for (size_t i = 0; i < rg_array_len(table); i++)
        assert_int_equal(hash_error(table[i].a) == hash_error(table[i].b), table[i].equal);
    snprintf(of_9, sizeof of_9, "[rank9]: %0*d\n", RG_TAIL_LINE_MAX, 1); /* both are cut */
    snprintf(of_10, sizeof of_10, "[rank10]: %0*d\n", RG_TAIL_LINE_MAX, 1);
    assert_int_equal(hash_error(of_9), hash_error(of_10));
    hash_error("[rank0]: E\n");
    assert_string_equal(lines(), "[rank0]: E|"); /* quoted as it was written */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(lines_are_put_together_per_stream, empty_tail),
        cmocka_unit_test_teardown(only_the_last_ten_stay, empty_tail),
        cmocka_unit_test_teardown(last_ten_of_one_large_chunk_are_the_right_ones, empty_tail),
        cmocka_unit_test_teardown(long_line_keeps_its_beginning, empty_tail),
        cmocka_unit_test_teardown(odd_bytes_do_no_harm, empty_tail),
        cmocka_unit_test_teardown(of_a_bar_the_last_text_is_kept, empty_tail),
        cmocka_unit_test_teardown(of_bars_of_several_rows_each_row_is_kept_once, empty_tail),
        cmocka_unit_test_teardown(equal_errors_have_equal_hashes, empty_tail),
        cmocka_unit_test(the_prefix_of_pytorch_is_a_rank_number_and_no_more),
        cmocka_unit_test_teardown(errors_are_equal_whatever_rank_pytorch_names, empty_tail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
