/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include "base/fd.h"
#include "base/log.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_record_says_who_and_how_bad), TEST(further_lines_are_indented),
        TEST(errno_survives),                TEST(lines_of_threads_stay_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
