/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "base/time.h"
#include "launch/session/harness.h"
#include "base/exitcode.h"

static void job_of_four_ends_well(void **state)
{
    struct harness *h = harness_make(4, "echo out $HOROVOD_RANK; echo err $HOROVOD_RANK >&2");
    char text[32];

    (void) state;
    run_job(h);
    assert_int_equal(h->create_result, 0);
    assert_true(h->verdict.ok);
    assert_int_equal(h->verdict.exit_code, 0);
    assert_string_equal(h->cause, "");
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof(text), "out %d\n", i);
        assert_string_equal(output_of(h, i, 1), text);
        snprintf(text, sizeof(text), "err %d\n", i);
        assert_string_equal(output_of(h, i, 2), text);
        assert_int_equal(h->nends[i][0], 1);
        assert_int_equal(h->nends[i][1], 1);
        assert_true(h->pids[i] > 0);
        assert_int_equal(h->ends[i].end, RG_END_EXIT);
        assert_int_equal(h->ends[i].value, 0);
    }
    assert_string_equal(h->phases, "0:1 0:3 0:4 0:5 0:6 ");
    harness_free(h);
}

static void first_failure_is_named_with_its_last_lines(void **state)
{
    struct harness *h = harness_make(
        4, "if [ $HOROVOD_RANK = 2 ]; then echo last words; exit 7; fi; sleep 30");

    (void) state;
    run_job(h);
    assert_false(h->verdict.ok);
    assert_int_equal(h->verdict.exit_code, 7);
    assert_int_equal(h->first, 2);
    assert_string_equal(h->cause, "rank 2 on localhost: exit code 7");
    assert_int_equal(h->nlines, 1);
    assert_string_equal(h->lines[0], "last words");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(h->ends[i].consequence, i != 2);
        if (i != 2) {
            assert_int_equal(h->ends[i].end, RG_END_SIGNAL);
            assert_int_equal(h->ends[i].value, SIGTERM);
        }
    }
    harness_free(h);
}

static void ranks_that_ignore_sigterm_are_killed_after_the_grace_time(void **state)
{
    struct harness *h =
        harness_make(2, "[ $HOROVOD_RANK = 1 ] && { sleep 0.2; exit 3; }; trap '' TERM; "
                        "while :; do sleep 0.05; done");

    (void) state;
    h->job.grace_ms = 300;
    run_job(h);
    assert_int_equal(h->verdict.exit_code, 3);
    assert_int_equal(h->ends[0].value, SIGKILL);
    assert_true(h->ends[0].consequence);
    assert_true(h->verdict.elapsed_ns >= 450 * RG_NS_PER_MS);
    assert_true(h->verdict.elapsed_ns < 4000 * RG_NS_PER_MS);
    harness_free(h);
}

static void command_that_is_not_there_is_127(void **state)
{
    struct harness *h = harness_make(3, NULL);

    (void) state;
    rg_strv_add(&h->job.command, "no-such-program-of-ours");
    run_job(h);
    assert_int_equal(h->verdict.exit_code, 127);
    assert_int_equal(h->first, 0);
    assert_int_equal(h->ends[0].end, RG_END_NOT_STARTED);
    assert_int_equal(h->ends[0].value, ENOENT);
    assert_non_null(strstr(h->cause, "no-such-program-of-ours"));
    assert_non_null(strstr(h->cause, "PATH"));
    assert_true(h->ends[1].consequence);
    harness_free(h);
}

static void command_that_is_not_executable_is_126(void **state)
{
    struct harness *h = harness_make(1, NULL);

    (void) state;
    rg_strv_add(&h->job.command, "/etc/passwd");
    run_job(h);
    assert_int_equal(h->verdict.exit_code, 126);
    assert_non_null(strstr(h->cause, "/etc/passwd"));
    harness_free(h);
}

static void what_a_rank_leaves_behind_is_gone_at_the_end(void **state)
{
    const char *mark = unique_text();
    char script[512];

    (void) state;
    snprintf(script, sizeof(script),
             "(setsid sh -c 'sleep 60; : %s' &) ; (sh -c 'trap \"\" TERM HUP; sleep 60; : %s' &) ; "
             "sleep 0.1; exit 0",
             mark, mark);
    struct harness *h = harness_make(2, script);
    run_job(h);
    assert_true(h->verdict.ok);
    assert_int_equal(count_with(mark), 0);
    harness_free(h);
}

static void send_term(void *arg)
{
    rg_session_signal(((struct harness *) arg)->session, SIGTERM);
}

static void after_200_ms(struct harness *h)
{
    rg_timer_start(&h->timer, h->loop, 200, 0, send_term, h);
}

static void signal_to_reigen_reaches_every_rank(void **state)
{
    struct harness *h =
        harness_make(3, "trap 'echo got it; exit 9' TERM; while :; do sleep 0.02; done");

    (void) state;
    h->on_running = after_200_ms;
    run_job(h);
    assert_int_equal(h->verdict.exit_code, 128 + SIGTERM);
    assert_int_equal(h->first, -1);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(output_of(h, i, 1), "got it\n");
        assert_true(h->ends[i].consequence);
    }
    harness_free(h);
}

static void good_end_after_a_signal_is_good(void **state)
{
    struct harness *h = harness_make(2, "trap 'exit 0' TERM; while :; do sleep 0.02; done");

    (void) state;
    h->on_running = after_200_ms;
    run_job(h);
    assert_true(h->verdict.ok);
    assert_int_equal(h->verdict.exit_code, 0);
    harness_free(h);
}

static void stopped_rank_ends_at_the_time_limit(void **state)
{
    struct harness *h = harness_make(2, "kill -STOP $$; echo never");

    (void) state;
    h->job.timeout_ms = 300;
    h->job.grace_ms = 500;
    run_job(h);
    assert_int_equal(h->verdict.exit_code, RG_EXIT_TIMEOUT);
    assert_non_null(strstr(h->cause, "--timeout"));
    assert_true(h->verdict.elapsed_ns < 4000 * RG_NS_PER_MS);
    harness_free(h);
}

static void kill_agent(void *arg)
{
    struct harness *h = arg;
    char path[64], line[256] = "";
    int parent = 0;

    /* The parent of a rank is its agent. */
    snprintf(path, sizeof(path), "/proc/%d/stat", h->pids[0]);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof(line), f));
    fclose(f);
    assert_int_equal(sscanf(strrchr(line, ')') + 1, " %*c %d", &parent), 1);
    kill(parent, SIGKILL);
}

static void kill_agent_soon(struct harness *h)
{
    rg_timer_start(&h->timer, h->loop, 300, 0, kill_agent, h);
}

static void death_of_the_agent_is_a_lost_host_and_leaves_nothing(void **state)
{
    const char *mark = unique_text();
    char script[512];

    (void) state;
    snprintf(script, sizeof(script),
             "(setsid sh -c 'sleep 60; : %s' &) ; (sh -c 'sleep 60; : %s' &); sleep 60; : %s", mark,
             mark, mark);
    struct harness *h = harness_make(2, script);
    h->on_running = kill_agent_soon;
    run_job(h);
    assert_int_equal(h->verdict.exit_code, RG_EXIT_HOST_LOST);
    assert_non_null(strstr(h->cause, "host localhost: its agent"));
    assert_non_null(strstr(h->cause, "signal 9"));
    assert_int_equal(h->ends[0].end, RG_END_LOST);
    assert_int_equal(h->first, -1);
    assert_int_equal(count_with(mark), 0);
    harness_free(h);
}

static void two_hosts_meet_in_one_job(void **state)
{
    struct harness *h = harness_make(0, "echo $HOROVOD_RANK $HOROVOD_LOCAL_RANK; sleep 0.1");

    (void) state;
    rg_job_add_host(&h->job, "localhost", 2, NULL);
    rg_job_add_host(&h->job, "127.0.0.1", 1, NULL);
    run_job(h);
    assert_true(h->verdict.ok);
    assert_string_equal(output_of(h, 1, 1), "1 1\n");
    assert_string_equal(output_of(h, 2, 1), "2 0\n");
    harness_free(h);
}

static void go_on(void *arg)
{
    rg_session_pause_output(((struct harness *) arg)->session, false);
}

static void pause_soon(struct harness *h, int rank, int stream, size_t nbytes)
{
    static uint64_t before;

    (void) rank;
    (void) stream;
    (void) nbytes;
    if (before == h->nbytes_out || h->nbytes_out % 3)
        return;
    before = h->nbytes_out;
    rg_session_pause_output(h->session, true);
    rg_timer_start(&h->timer, h->loop, 20, 0, go_on, h);
}

static void slow_consumer_loses_nothing(void **state)
{
    struct harness *h = harness_make(2, "head -c 4000001 /dev/zero");

    (void) state;
    h->on_output = pause_soon;
    run_job(h);
    assert_true(h->verdict.ok);
    assert_int_equal(h->nbytes_out, 2 * 4000001);
    assert_int_equal(rg_buf_nbytes(&h->out[1][0]), 4000001);
    harness_free(h);
}

static void environment_is_whole_and_shared_values_arrive(void **state)
{
    struct harness *h = harness_make(1, "echo \"$INHERITED|$NAMED|$SECRET|$TAKEN|$REIGEN_SIZE\"");

    (void) state;
    setenv("INHERITED", "a b", 1);
    setenv("TAKEN", "c", 1);
    setenv("SECRET", "s3", 1);
    rg_strv_add(&h->job.env, "NAMED=x=y");
    rg_strv_add(&h->job.env, "TAKEN");
    rg_strv_add(&h->job.share_env, "SECRET");
    run_job(h);
    assert_string_equal(output_of(h, 0, 1), "a b|x=y|s3|c|1\n");
    harness_free(h);
}

static void variable_that_is_not_there_is_refused(void **state)
{
    struct harness *h = harness_make(1, "true");

    (void) state;
    rg_strv_add(&h->job.env, "NO_SUCH_VARIABLE_OF_OURS");
    run_job(h);
    assert_int_equal(h->create_result, -EINVAL);
    assert_int_equal(h->create_err.exit_code, 2);
    assert_non_null(strstr(h->create_err.text, "NO_SUCH_VARIABLE_OF_OURS"));
    harness_free(h);
}

#define INPUT_NBYTES 12000000

/* As much as it takes; it says itself when to come again. */
static void give_input(struct harness *h)
{
    static const char bytes[60000];
    static size_t given;
    int n = 1;

    while (n > 0 && given < INPUT_NBYTES) {
        size_t left = INPUT_NBYTES - given;
        n = rg_session_input(h->session, bytes, left < sizeof(bytes) ? left : sizeof(bytes));
        assert_true(n >= 0);
        given += (size_t) n;
    }
    if (given == INPUT_NBYTES)
        assert_int_equal(rg_session_input(h->session, NULL, 0), 0);
}

static void input_reaches_all_ranks_whole(void **state)
{
    struct harness *h = harness_make(3, "[ $HOROVOD_RANK = 1 ] && sleep 0.2; wc -c");

    (void) state;
    h->job.stdin_mode = RG_STDIN_ALL;
    h->on_running = h->on_input_ready = give_input;
    run_job(h);
    assert_true(h->verdict.ok);
    for (int i = 0; i < 3; i++)
        assert_string_equal(output_of(h, i, 1), "12000000\n");
    harness_free(h);
}

static int last_input;

static void input_until_refused(struct harness *h)
{
    static const char bytes[60000];

    do
        last_input = rg_session_input(h->session, bytes, sizeof(bytes));
    while (last_input > 0);
    if (last_input < 0)
        rg_session_signal(h->session, SIGTERM);
}

static void input_that_nobody_reads_is_refused(void **state)
{
    struct harness *h = harness_make(1, "exec <&-; sleep 30");

    (void) state;
    h->job.stdin_mode = RG_STDIN_RANK;
    h->on_running = h->on_input_ready = input_until_refused;
    run_job(h);
    assert_int_equal(last_input, -EPIPE);
    harness_free(h);
}

static void terminal_is_given_to_rank_0_only(void **state)
{
    struct harness *h = harness_make(2, "test -t 0 && test -t 1 && echo tty || echo none");

    (void) state;
    h->job.pty = true;
    run_job(h);
    assert_true(h->verdict.ok);
    assert_string_equal(output_of(h, 0, 1), "tty\r\n");
    assert_string_equal(output_of(h, 1, 1), "none\n");
    harness_free(h);
}

static const char *typed;

static void type_it(struct harness *h)
{
    size_t nbytes = strlen(typed);

    if (nbytes)
        assert_int_equal(rg_session_input(h->session, typed, nbytes), nbytes);
    assert_int_equal(rg_session_input(h->session, NULL, 0), 0);
}

static void end_of_input_ends_the_reader_of_a_terminal(void **state)
{
    static const char *const texts[] = { "", "a\n", "a\nb" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(texts); i++) {
        struct harness *h = harness_make(1, "stty -echo; cat; echo; cat && echo twice");
        typed = texts[i];
        h->job.pty = true;
        h->job.stdin_mode = RG_STDIN_RANK;
        h->on_running = type_it;
        h->job.timeout_ms = 1000; /* the second cat waits for another end, which must not come */
        h->job.grace_ms = 200;
        run_job(h);
        assert_int_equal(h->verdict.exit_code, RG_EXIT_TIMEOUT);
        assert_null(strstr(output_of(h, 0, 1), "twice"));
        if (i == 2)
            assert_contains(output_of(h, 0, 1), "b\r\n");
        harness_free(h);
    }
}

static void missing_agent_is_unavailable(void **state)
{
    struct harness *h = harness_make(1, "true");
    char before[4096];

    (void) state;
    snprintf(before, sizeof(before), "%s", getenv("REIGEN_AGENT"));
    setenv("REIGEN_AGENT", "/rg-not-there/agent", 1);
    run_job(h);
    setenv("REIGEN_AGENT", before, 1);
    assert_int_equal(h->create_result, -ENOENT);
    assert_int_equal(h->create_err.exit_code, RG_EXIT_UNAVAILABLE);
    harness_free(h);
}

static void agent_that_never_speaks_is_named_at_the_start_limit(void **state)
{
    struct harness *h = harness_make(1, "true");
    char before[4096];

    (void) state;
    snprintf(before, sizeof(before), "%s", getenv("REIGEN_AGENT"));
    setenv("REIGEN_AGENT", "/usr/bin/yes", 1); /* lives, and says nothing on the link */
    h->job.start_timeout_ms = 200;
    run_job(h);
    setenv("REIGEN_AGENT", before, 1);
    assert_int_equal(h->verdict.exit_code, RG_EXIT_TIMEOUT);
    assert_non_null(strstr(h->cause, "localhost (connecting)"));
    assert_non_null(strstr(h->cause, "0.2 s"));
    harness_free(h);
}

static void kill_now(void *arg)
{
    rg_session_kill(((struct harness *) arg)->session, "enough");
}

static void pause_for_ever(struct harness *h, int rank, int stream, size_t nbytes)
{
    (void) rank;
    (void) stream;
    (void) nbytes;
    rg_session_pause_output(h->session, true);
    if (!rg_timer_active(&h->timer))
        rg_timer_start(&h->timer, h->loop, 100, 0, kill_now, h);
}

static void kill_ends_even_what_nobody_reads(void **state)
{
    struct harness *h = harness_make(2, "exec cat /dev/zero");

    (void) state;
    h->on_output = pause_for_ever;
    run_job(h);
    assert_int_equal(h->verdict.exit_code, 137);
    assert_string_equal(h->cause, "enough");
    harness_free(h);
}

static void lose_output(struct harness *h)
{
    rg_session_output_lost(h->session, "no space left in /tmp/x");
}

static void lost_output_is_74(void **state)
{
    struct harness *h = harness_make(1, "true");

    (void) state;
    h->on_running = lose_output;
    run_job(h);
    assert_int_equal(h->verdict.exit_code, RG_EXIT_OUTPUT_LOST);
    assert_string_equal(h->cause, "no space left in /tmp/x");
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_of_four_ends_well),
        cmocka_unit_test(first_failure_is_named_with_its_last_lines),
        cmocka_unit_test(ranks_that_ignore_sigterm_are_killed_after_the_grace_time),
        cmocka_unit_test(command_that_is_not_there_is_127),
        cmocka_unit_test(command_that_is_not_executable_is_126),
        cmocka_unit_test(what_a_rank_leaves_behind_is_gone_at_the_end),
        cmocka_unit_test(signal_to_reigen_reaches_every_rank),
        cmocka_unit_test(good_end_after_a_signal_is_good),
        cmocka_unit_test(stopped_rank_ends_at_the_time_limit),
        cmocka_unit_test(death_of_the_agent_is_a_lost_host_and_leaves_nothing),
        cmocka_unit_test(two_hosts_meet_in_one_job),
        cmocka_unit_test(slow_consumer_loses_nothing),
        cmocka_unit_test(environment_is_whole_and_shared_values_arrive),
        cmocka_unit_test(variable_that_is_not_there_is_refused),
        cmocka_unit_test(input_reaches_all_ranks_whole),
        cmocka_unit_test(input_that_nobody_reads_is_refused),
        cmocka_unit_test(terminal_is_given_to_rank_0_only),
        cmocka_unit_test(end_of_input_ends_the_reader_of_a_terminal),
        cmocka_unit_test(missing_agent_is_unavailable),
        cmocka_unit_test(agent_that_never_speaks_is_named_at_the_start_limit),
        cmocka_unit_test(kill_ends_even_what_nobody_reads),
        cmocka_unit_test(lost_output_is_74),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
