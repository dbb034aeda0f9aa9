/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include "base/fd.h"
#include "base/log.h"
#include "unit.h"

static int fds[2];
static char text[1 << 16];

static const char *logged(void)
{
    ssize_t n = read(fds[0], text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void open_log(struct rg_log_options options)
{
    options.fd = fds[1];
    options.name = "reigen";
    rg_log_open(&options);
}

static int make_pipe(void **state)
{
    (void) state;
    return rg_pipe(fds) || rg_fd_set_nonblock(fds[0], true);
}

static int close_pipe(void **state)
{
    (void) state;
    close(fds[0]);
    close(fds[1]);
    return 0;
}

static void records_above_the_level_are_dropped(void **state)
{
    (void) state;
    open_log((struct rg_log_options) { .level = RG_LOG_INFO });
    rg_log(RG_LOG_DEBUG, "hidden");
    assert_string_equal(logged(), "");
    rg_log(RG_LOG_ERROR, "a %d", 1);
    rg_log(RG_LOG_WARN, "b");
    rg_log(RG_LOG_INFO, "c");
    assert_string_equal(logged(), "reigen: error: a 1\nreigen: warning: b\nreigen: c\n");
    assert_true(rg_log_enabled(RG_LOG_INFO));
    assert_false(rg_log_enabled(RG_LOG_DEBUG));
}

static void further_lines_are_indented(void **state)
{
    (void) state;
    open_log((struct rg_log_options) { .level = RG_LOG_TRACE });
    rg_log(RG_LOG_DEBUG, "one\ntwo\n\nfour\n");
    assert_string_equal(logged(), "reigen: debug: one\n    two\n    \n    four\n");
}

static void colours_and_times_come_on_request(void **state)
{
    unsigned s, ms;

    (void) state;
    open_log((struct rg_log_options) { .level = RG_LOG_WARN, .colour = true });
    rg_log(RG_LOG_ERROR, "x");
    assert_string_equal(logged(), "reigen: \033[1;31merror: \033[0mx\n");
    open_log((struct rg_log_options) { .level = RG_LOG_INFO, .timestamps = true });
    rg_log(RG_LOG_INFO, "x");
    assert_int_equal(sscanf(logged(), "%u.%u reigen: x\n", &s, &ms), 2);
    assert_true(s < 60 && ms < 1000);
}

static void errno_survives(void **state)
{
    (void) state;
    open_log((struct rg_log_options) { .level = RG_LOG_INFO });
    close(fds[0]);
    fds[0] = -1;
    signal(SIGPIPE, SIG_IGN);
    errno = ENOENT;
    rg_log(RG_LOG_INFO, "nobody reads this");
    assert_int_equal(errno, ENOENT);
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 200; i++)
        rg_log(RG_LOG_INFO, "%s", (const char *) arg);
    return NULL;
}

static void lines_of_threads_stay_whole(void **state)
{
    pthread_t threads[2];
    size_t a = 0, b = 0;

    (void) state;
    open_log((struct rg_log_options) { .level = RG_LOG_INFO });
    pthread_create(&threads[0], NULL, log_many, (void *) "aaaaaaaaaaaaaaaa");
    pthread_create(&threads[1], NULL, log_many, (void *) "bbbbbbbbbbbbbbbb");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    logged();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        a += strcmp(line, "reigen: aaaaaaaaaaaaaaaa") == 0;
        b += strcmp(line, "reigen: bbbbbbbbbbbbbbbb") == 0;
    }
    assert_int_equal(a, 200);
    assert_int_equal(b, 200);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_pipe, close_pipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_above_the_level_are_dropped), TEST(further_lines_are_indented),
        TEST(colours_and_times_come_on_request),   TEST(errno_survives),
        TEST(lines_of_threads_stay_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
