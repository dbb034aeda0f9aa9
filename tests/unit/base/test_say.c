/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/say.h"
#include "unit.h"

static int fds[2], before;
static char text[1 << 16];

static const char *logged(void)
{
    ssize_t n = read(fds[0], text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

static int make_pipe(void **state)
{
    (void) state;
    before = dup(2);
    return rg_pipe(fds) || rg_fd_set_nonblock(fds[0], true) || dup2(fds[1], 2) < 0;
}

static int close_pipe(void **state)
{
    (void) state;
    dup2(before, 2);
    close(before);
    close(fds[0]);
    close(fds[1]);
    return 0;
}

static void a_record_says_who_and_how_bad(void **state)
{
    (void) state;
    rg_log(RG_LOG_ERROR, "a %d", 1);
    rg_log(RG_LOG_WARN, "b");
    assert_string_equal(logged(), "reigen-agent: error: a 1\nreigen-agent: warning: b\n");
}

static void further_lines_are_indented(void **state)
{
    (void) state;
    rg_log(RG_LOG_WARN, "one\ntwo\n\nfour\n");
    assert_string_equal(logged(), "reigen-agent: warning: one\n    two\n    \n    four\n");
}

static void a_record_steers_no_terminal(void **state)
{
    (void) state;
    rg_log_as("who", "%s: %d", "a\x1b[2J\rb", 1);
    assert_string_equal(logged(), "who: a\\x1b[2J\\x0db: 1\n");
}

static void errno_survives(void **state)
{
    (void) state;
    close(fds[0]);
    fds[0] = -1;
    signal(SIGPIPE, SIG_IGN);
    errno = ENOENT;
    rg_log(RG_LOG_WARN, "nobody reads this");
    assert_int_equal(errno, ENOENT);
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 200; i++)
        rg_log(RG_LOG_WARN, "%s", (const char *) arg);
    return NULL;
}

static void lines_of_threads_stay_whole(void **state)
{
    pthread_t threads[2];
    size_t a = 0, b = 0;

    (void) state;
    pthread_create(&threads[0], NULL, log_many, (void *) "aaaaaaaaaaaaaaaa");
    pthread_create(&threads[1], NULL, log_many, (void *) "bbbbbbbbbbbbbbbb");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    logged();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        a += strcmp(line, "reigen-agent: warning: aaaaaaaaaaaaaaaa") == 0;
        b += strcmp(line, "reigen-agent: warning: bbbbbbbbbbbbbbbb") == 0;
    }
    assert_int_equal(a, 200);
    assert_int_equal(b, 200);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_pipe, close_pipe)

/* Both from the same bytes: what a person sees, and the string in JSON. */
static const struct {
    const char *bytes, *shown, *json;
} cases[] = {
    { "plain words, \\ and \"", "plain words, \\ and \"", "\"plain words, \\\\ and \\\"\"" },
    { "a\tb\nc", "a\tb\nc", "\"a\\u0009b\\u000ac\"" },
    { "\x1b]52;c;Zm9v\a", "\\x1b]52;c;Zm9v\\x07", "\"\\u001b]52;c;Zm9v\\u0007\"" },
    { "50 %\r100 %\r\n", "50 %\\x0d100 %\n", "\"50 %\\u000d100 %\\u000d\\u000a\"" },
    { "end\r", "end", "\"end\\u000d\"" },
    { "\b\x7f", "\\x08\\x7f", "\"\\u0008\\u007f\"" },
    /* UTF-8 as it is: two, three, four bytes, and marks of direction that only stand beside. */
    { "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x99\x82 \xe2\x80\x8f",
      "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x99\x82 \xe2\x80\x8f",
      "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x99\x82 \xe2\x80\x8f\"" },
    /* CSI of C1, in UTF-8 and as a byte; NEL. */
    { "\xc2\x9b" "2J\x9b" "2J\xc2\x85", "\\u009b2J\\x9b2J\\u0085", "\"\\u009b2J?2J\\u0085\"" },
    { "\xc2\xa0", "\xc2\xa0", "\"\xc2\xa0\"" },
    /* An override, an isolate, and a separator of lines. */
    { "\xe2\x80\xae" "exe.\xe2\x81\xa6" "a\xe2\x80\xa8", "\\u202eexe.\\u2066a\\u2028",
      "\"\\u202eexe.\\u2066a\\u2028\"" },
    { "\xe2\x80\xaf\xe2\x81\xaa", "\xe2\x80\xaf\xe2\x81\xaa", "\"\xe2\x80\xaf\xe2\x81\xaa\"" },
    /* Latin-1, a character that is cut off, and ESC in a longer form than needed. */
    { "caf\xe9", "caf\\xe9", "\"caf?\"" },
    { "\xe2\x82", "\\xe2\\x82", "\"??\"" },
    { "\xc0\x9b", "\\xc0\\x9b", "\"??\"" },
};

static void what_steers_a_terminal_is_shown(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        rg_autobuf struct rg_buf once = RG_BUF_INIT, twice = RG_BUF_INIT, json = RG_BUF_INIT;
        rg_shown_put(&once, cases[i].bytes, strlen(cases[i].bytes));
        assert_string_equal(rg_buf_text(&once), cases[i].shown);
        rg_shown_printf(&twice, "%s", rg_buf_text(&once));
        assert_string_equal(rg_buf_text(&twice), cases[i].shown);
        rg_json_put_text(&json, cases[i].bytes);
        assert_string_equal(rg_buf_text(&json), cases[i].json);
    }
}

static void a_line_stays_one(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    (void) state;
    rg_shown_line(&buf, "one\ntwo\tthree\r\n\x1b");
    assert_string_equal(rg_buf_text(&buf), "one two three \\x1b");
}

static void a_nul_is_shown_too(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    (void) state;
    rg_shown_put(&buf, "a\0b", 3);
    assert_string_equal(rg_buf_text(&buf), "a\\x00b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_record_says_who_and_how_bad), TEST(further_lines_are_indented),
        TEST(a_record_steers_no_terminal),
        TEST(errno_survives),                TEST(lines_of_threads_stay_whole),
        cmocka_unit_test(what_steers_a_terminal_is_shown),
        cmocka_unit_test(a_line_stays_one),
        cmocka_unit_test(a_nul_is_shown_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
