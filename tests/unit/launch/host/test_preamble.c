/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/host/driver.h"
#include "launch/host/preamble.h"
#include "unit.h"

/* Feed a whole text; the lines of ours that it holds, each kind and text once. Returns the last
 * result of feed. */
struct heard {
    enum rg_preamble_kind kinds[16];
    char texts[16][128];
    int codes[16], phases[16], count;
    size_t taken;
};

static int listen(struct rg_preamble *preamble, const char *text, size_t step, struct heard *heard)
{
    size_t left = strlen(text);
    struct rg_preamble_line line;

    *heard = (struct heard){ .count = 0 };
    while (left > 0) {
        size_t n = rg_preamble_peek(text, left < step ? left : step);
        int r = rg_preamble_feed(preamble, text, n, &line);
        if (r < 0)
            return r;
        text += n;
        left -= n;
        heard->taken += n;
        if (r == 0 || line.kind == RG_PREAMBLE_NOISE)
            continue;
        heard->kinds[heard->count] = line.kind;
        heard->codes[heard->count] = line.exit_code;
        heard->phases[heard->count] = line.phase;
        snprintf(heard->texts[heard->count++], 128, "%s", line.text);
        if (line.kind == RG_PREAMBLE_LINK)
            break;
    }
    return 0;
}

/* A line of noise. */
static void hear(struct rg_preamble *preamble, const char *text)
{
    struct rg_preamble_line line;

    rg_preamble_feed(preamble, text, strlen(text), &line);
    assert_int_equal(rg_preamble_feed(preamble, "\n", 1, &line), 1);
    assert_int_equal(line.kind, RG_PREAMBLE_NOISE);
}

static void every_line_is_understood_however_the_bytes_are_cut(void **state)
{
    static const char text[] = "Last login: yesterday\r\nreigen-boot need agent aarch64\n"
                               "reigen-boot ready\nreigen-boot phase pulling image:1 2 of 3\n"
                               "reigen-boot need bundle\nreigen-boot note be careful\n"
                               "reigen-boot phase creating\nreigen-boot error 125 no docker\n"
                               "reigen-boot link\nreigen";
    static const enum rg_preamble_kind kinds[] = {
        RG_PREAMBLE_NEED_AGENT, RG_PREAMBLE_READY, RG_PREAMBLE_PHASE, RG_PREAMBLE_NEED_BUNDLE,
        RG_PREAMBLE_NOTE,       RG_PREAMBLE_PHASE, RG_PREAMBLE_ERROR, RG_PREAMBLE_LINK,
    };

    (void) state;
    for (size_t step = 1; step < sizeof(text); step++) {
        struct rg_preamble preamble = { .length = 0 };
        struct heard heard;
        assert_int_equal(listen(&preamble, text, step, &heard), 0);
        assert_int_equal(heard.count, rg_array_len(kinds));
        for (size_t i = 0; i < rg_array_len(kinds); i++)
            assert_int_equal(heard.kinds[i], kinds[i]);
        assert_string_equal(heard.texts[0], "aarch64");
        assert_string_equal(heard.texts[2], "image:1 2 of 3");
        assert_int_equal(heard.phases[2], RG_PHASE_PULLING);
        assert_int_equal(heard.phases[5], RG_PHASE_STARTING);
        assert_int_equal(heard.codes[6], 125);
        assert_string_equal(heard.texts[6], "no docker");
        /* What follows is the link's, and was not touched. */
        assert_string_equal(text + heard.taken, "reigen");
    }
}

static void what_is_not_ours_is_kept_for_a_message_without_what_steers_terminals(void **state)
{
    struct rg_preamble preamble = { .length = 0 };
    struct heard heard;
    char quote[256];

    (void) state;
    assert_int_equal(listen(&preamble, "\033[2Jhello\n\n  \nworld\nreigen-boots\n", 7, &heard), 0);
    assert_int_equal(heard.count, 0);
    assert_string_equal(rg_preamble_quote(&preamble, quote, sizeof(quote)),
                        " [2Jhello; world; reigen-boots");
    for (int i = 0; i < 1000; i++)
        hear(&preamble, "line after line");
    assert_true(strlen(preamble.noise) <= RG_PREAMBLE_NOISE_MAX);
    assert_null(strstr(preamble.noise, "world"));
    assert_string_equal(rg_preamble_quote(&preamble, quote, 10), "line af");
}

static void broken_lines_and_endless_ones_are_refused(void **state)
{
    static const char *const broken[] = {
        "reigen-boot \n",           "reigen-boot hello\n",      "reigen-boot link now\n",
        "reigen-boot phase up\n",   "reigen-boot error\n",      "reigen-boot error x y\n",
        "reigen-boot error 0 y\n",  "reigen-boot error 256 y\n", "reigen-boot error 123456789 y\n",
        "reigen-boot error 125\n",  "reigen-boot ready \n",
    };
    struct heard heard;
    static char endless[RG_PREAMBLE_LINE_MAX];
    struct rg_preamble_line line;

    (void) state;
    for (size_t i = 0; i < rg_array_len(broken); i++) {
        struct rg_preamble preamble = { .length = 0 };
        assert_int_equal(listen(&preamble, broken[i], 100, &heard), -EBADMSG);
        preamble = (struct rg_preamble){ .length = 0 };
        rg_autofree char *behind = rg_strf("x %s", broken[i]); /* then it is noise */
        assert_int_equal(listen(&preamble, behind, 100, &heard), 0);
        assert_int_equal(heard.count, 0);
    }
    /* A line that is too long is noise, also where it begins as ours. */
    struct rg_preamble preamble = { .length = 0 };
    memset(endless, 'x', sizeof(endless));
    assert_int_equal(rg_preamble_feed(&preamble, "reigen-boot note ", 17, &line), 0);
    assert_int_equal(rg_preamble_feed(&preamble, endless, sizeof(endless), &line), 0);
    assert_int_equal(rg_preamble_feed(&preamble, "\n", 1, &line), 1);
    assert_int_equal(line.kind, RG_PREAMBLE_NOISE);
    int r = 0;
    for (size_t n = 0; r == 0 && n <= RG_PREAMBLE_MAX; n += sizeof(endless))
        r = rg_preamble_feed(&preamble, endless, sizeof(endless), &line);
    assert_int_equal(r, -EMSGSIZE);
}

/* Start files that set a terminal's title write no newline; others write what they like. */
static void our_words_are_found_behind_anything_in_the_same_line(void **state)
{
    static const char title[] = "\033]0;alice@node2\007";
    static const char binary[] = "\0\377\200\001reigen-boo reigen-boot";
    static const char wrong[] = "reigen reigen-boot up reigen-boot ";
    static char longer[3 * RG_PREAMBLE_LINE_MAX + 17];
    const struct {
        const char *bytes;
        size_t nbytes;
    } before[] = {
        { title, sizeof(title) - 1 },    { binary, sizeof(binary) - 1 },
        { wrong, sizeof(wrong) - 1 },    { longer, sizeof(longer) },
        { longer, RG_PREAMBLE_LINE_MAX - 5 }, { longer, RG_PREAMBLE_LINE_MAX },
    };
    static const char ours[] = "reigen-boot need agent x86_64\r\n";
    static const size_t steps[] = { 1, 7, 4096 };

    (void) state;
    memset(longer, 'x', sizeof(longer));
    for (size_t i = 0; i < rg_array_len(before) * rg_array_len(steps); i++) {
        static char text[sizeof(longer) + sizeof(ours)];
        struct rg_preamble preamble = { .length = 0 };
        struct rg_preamble_line line = { .kind = RG_PREAMBLE_NOISE };
        size_t n = before[i / 3].nbytes, step = steps[i % 3];
        int r = 0;
        memcpy(text, before[i / 3].bytes, n);
        memcpy(text + n, ours, sizeof(ours) - 1);
        n += sizeof(ours) - 1;
        for (size_t at = 0; at < n; at += step) {
            assert_int_equal(r, 0);
            r = rg_preamble_feed(&preamble, text + at, n - at < step ? n - at : step, &line);
        }
        assert_int_equal(r, 1);
        assert_int_equal(line.kind, RG_PREAMBLE_NEED_AGENT);
        assert_string_equal(line.text, "x86_64");
    }
}

static void the_first_words_and_the_last_ones_are_quoted(void **state)
{
    struct rg_preamble preamble = { .length = 0 };
    char quote[RG_PREAMBLE_QUOTE_MAX], line[64];
    struct heard heard;

    (void) state;
    assert_string_equal(rg_preamble_quote_all(&preamble, quote, sizeof(quote)), "");
    assert_int_equal(listen(&preamble, "one\ntwo\n\033]0;title", 5, &heard), 0);
    assert_string_equal(rg_preamble_quote_all(&preamble, quote, sizeof(quote)),
                        "one; two;  ]0;title");
    assert_int_equal(listen(&preamble, "\n", 5, &heard), 0);
    for (int i = 0; i < 1000; i++) {
        snprintf(line, sizeof(line), "line %d", i);
        hear(&preamble, line);
    }
    rg_preamble_quote_all(&preamble, quote, sizeof(quote));
    assert_int_equal(strncmp(quote, "one; two;  ]0;title; line 0; line 1; ", 37), 0);
    assert_contains(quote, "; ...; line ");
    assert_contains(quote, "; line 998; line 999");
    /* Nothing twice where all of it has room. */
    memset(&preamble, 0, sizeof(preamble));
    for (int i = 0; i < 100; i++) {
        snprintf(line, sizeof(line), "line %d", i);
        hear(&preamble, line);
    }
    rg_preamble_quote_all(&preamble, quote, sizeof(quote));
    assert_null(strstr(quote, "..."));
    assert_ptr_equal(strstr(quote, "line 90;"), strstr(strstr(quote, "line 89;"), "line 90;"));
    assert_null(strstr(strstr(quote, "line 90;") + 1, "line 90;"));
}

static void what_agents_and_guards_say_is_told_from_the_rest(void **state)
{
    int length = 0;

    (void) state;
    assert_true(rg_preamble_is_remark("reigen-agent: warning: a word"));
    assert_false(rg_preamble_is_remark("a reigen-agent: warning: no word of ours"));
    assert_null(rg_preamble_guard("last login: today", &length));
    const char *word = rg_preamble_guard("a greeting; reigen-guard: its agent ended; bye", &length);
    assert_int_equal(length, 15);
    assert_memory_equal(word, "its agent ended", 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_words_are_found_behind_anything_in_the_same_line),
        cmocka_unit_test(the_first_words_and_the_last_ones_are_quoted),
        cmocka_unit_test(every_line_is_understood_however_the_bytes_are_cut),
        cmocka_unit_test(what_is_not_ours_is_kept_for_a_message_without_what_steers_terminals),
        cmocka_unit_test(what_agents_and_guards_say_is_told_from_the_rest),
        cmocka_unit_test(broken_lines_and_endless_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
