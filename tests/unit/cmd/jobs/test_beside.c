/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <signal.h>

#include "base/fd.h"
#include "cmd/jobs/beside.h"

#define LONG_MS 60000 /* for a program that ends by itself */
#define SOME_MS 3000  /* for one that is told to end, and has so long for that, too */
#define SHORT_MS 20   /* for one that does not end */

struct asked {
    struct rg_loop *loop;
    struct rg_jobs_beside *beside;
    struct rg_io io;
    struct rg_buf answer;
    int result;
};

static void start(struct asked *asked, const char *script, uint64_t end_ms)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;

    *asked = (struct asked){ .answer = RG_BUF_INIT };
    rg_strv_add(&words, "sh");
    rg_strv_add(&words, "-c");
    rg_strv_add(&words, script);
    assert_int_equal(rg_loop_create(&asked->loop), 0);
    assert_int_equal(rg_jobs_beside_create(asked->loop, &words, end_ms, &asked->beside, &err),
                     0);
}

static void on_answer(void *arg, int events)
{
    struct asked *asked = arg;

    (void) events;
    asked->result = rg_jobs_beside_take(asked->beside, &asked->answer);
    if (asked->result != -EAGAIN)
        rg_loop_stop(asked->loop);
}

/* What rg_jobs_beside_take gives in the end. */
static int ask(struct asked *asked)
{
    int fd = rg_jobs_beside_ask(asked->beside, 0);

    assert_true(fd >= 0);
    rg_io_start(&asked->io, asked->loop, fd, RG_IO_READ, on_answer, asked);
    rg_loop_run(asked->loop);
    rg_io_stop(&asked->io);
    return asked->result;
}

static void finish(struct asked *asked)
{
    rg_jobs_beside_destroy(asked->beside);
    rg_buf_fini(&asked->answer);
    rg_loop_destroy(asked->loop);
}

static void test_an_answer_comes_however_much_is_said_before_it(void **state)
{
    struct asked asked;

    (void) state;
    start(&asked, "echo the first line >&2; head -c 4000000 /dev/zero >&2; read n; echo $n-th; "
                  "read n", LONG_MS);
    assert_int_equal(ask(&asked), 0);
    assert_string_equal(rg_buf_text(&asked.answer), "0-th");
    rg_autofree char *verdict = rg_jobs_beside_verdict(asked.beside, "j");
    assert_contains(verdict, "says how the job does (the first line)");
    finish(&asked);
}

static void test_what_is_said_at_the_end_is_told(void **state)
{
    struct asked asked;

    (void) state;
    start(&asked, "read n; head -c 2000 /dev/zero | tr '\\0' x >&2", LONG_MS);
    assert_int_equal(ask(&asked), -ECONNRESET);
    rg_autofree char *verdict = rg_jobs_beside_verdict(asked.beside, "j");
    assert_contains(verdict, "(xxxxx");
    assert_in_range(strlen(verdict), 511, 650);
    finish(&asked);
}

/* The first line of its answer is its number. */
static pid_t number_of(struct asked *asked)
{
    assert_int_equal(ask(asked), 0);
    return (pid_t) atoi(rg_buf_text(&asked->answer));
}

static void check_gone(pid_t pid)
{
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void test_a_program_that_hangs_is_told_to_end(void **state)
{
    char folder[] = "/tmp/rg-beside-XXXXXX";
    struct asked asked;

    (void) state;
    assert_non_null(mkdtemp(folder));
    rg_autofree char *mark = rg_strf("%s/told", folder);
    rg_autofree char *script = rg_strf("trap 'echo >%s; exit' TERM; echo $$; while :; do "
                                       "sleep 0.01; done", mark);
    start(&asked, script, SOME_MS);
    pid_t pid = number_of(&asked);
    finish(&asked);
    assert_int_equal(unlink(mark), 0);
    assert_int_equal(rmdir(folder), 0);
    check_gone(pid);
}

static void test_a_program_that_does_not_listen_is_ended(void **state)
{
    struct asked asked;

    (void) state;
    start(&asked, "trap '' TERM; echo $$; while :; do sleep 0.01; done", SHORT_MS);
    pid_t pid = number_of(&asked);
    finish(&asked);
    check_gone(pid);
}

static void test_a_program_that_writes_on_is_ended(void **state)
{
    struct asked asked;

    (void) state;
    start(&asked, "read n; echo $$; exec yes", SHORT_MS);
    pid_t pid = number_of(&asked);
    finish(&asked);
    check_gone(pid);
}

static void test_a_program_that_ends_with_its_input_is_told_nothing(void **state)
{
    char folder[] = "/tmp/rg-beside-XXXXXX";
    struct asked asked;

    (void) state;
    assert_non_null(mkdtemp(folder));
    rg_autofree char *mark = rg_strf("%s/end", folder);
    rg_autofree char *script = rg_strf("trap 'exit 1' TERM; read n; echo $$; while read n; do :; "
                                       "done; echo >%s", mark);
    start(&asked, script, LONG_MS);
    assert_true(number_of(&asked) > 0);
    finish(&asked);
    assert_int_equal(unlink(mark), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_comes_however_much_is_said_before_it),
        cmocka_unit_test(test_what_is_said_at_the_end_is_told),
        cmocka_unit_test(test_a_program_that_hangs_is_told_to_end),
        cmocka_unit_test(test_a_program_that_does_not_listen_is_ended),
        cmocka_unit_test(test_a_program_that_writes_on_is_ended),
        cmocka_unit_test(test_a_program_that_ends_with_its_input_is_told_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
