/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "base/exitcode.h"
#include "head/show/verdict.h"
#include "unit.h"

static struct rg_rank_end ends[4];
static struct rg_plan plan = { .nranks = 4, .np = 4 };

static struct rg_rank_end ended(int rank, enum rg_end how, int value, bool consequence)
{
    return (struct rg_rank_end){ .rank = rank, .host = "localhost", .end = how, .value = value,
                                 .consequence = consequence, .note = "", .at_ns = 12300000000ull };
}

static const char *print(const struct rg_verdict *v, struct rg_verdict_style style,
                         struct rg_buf *text)
{
    style.exit_code = style.exit_code ? style.exit_code : v->exit_code;
    rg_verdict_print(v, &plan, &style, text);
    return rg_buf_text(text);
}

static void the_first_is_named_with_host_how_and_last_lines(void **state)
{
    static const char *const lines[] = { "line one", "Traceback\033[2J" };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_verdict v = { .exit_code = 7, .cause = "rank 2", .first = &ends[2],
                            .code_of = &ends[2], .ends = ends, .last_lines = lines,
                            .nlast_lines = 2 };

    (void) state;
    ends[0] = ended(0, RG_END_SIGNAL, SIGTERM, true);
    ends[1] = ended(1, RG_END_SIGNAL, SIGTERM, true);
    ends[2] = ended(2, RG_END_EXIT, 7, false);
    ends[3] = ended(3, RG_END_EXIT, 0, false);
    const char *got = print(&v, (struct rg_verdict_style){ 0 }, &text);
    assert_contains(got, "reigen: rank 2 on localhost failed first: exit code 7, after 12.3 s\n");
    assert_contains(got, "    | line one\n");
    assert_contains(got, "Traceback\\x1b[2J\n"); /* no escape reaches the terminal */
    assert_contains(got, "died of it: ranks 0-1: signal 15 (Terminated)");
    assert_contains(got, "reigen: exit code 7, the rank's own\n");
    assert_null(strstr(got, "rank 3"));
    assert_null(strchr(got, '\033'));
    rg_buf_clear(&text);
    got = print(&v, (struct rg_verdict_style){ .nshown = 1 }, &text);
    assert_contains(got, "its last lines:\n    | Traceback");
    assert_null(strstr(got, "line one")); /* it stands right above */
    rg_buf_clear(&text);
    got = print(&v, (struct rg_verdict_style){ .nshown = 2 }, &text);
    assert_null(strstr(got, "last lines"));
}

static void places_are_told_of_ranks_that_had_to_end(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_verdict v = { .exit_code = 143, .cause = "told to stop", .ends = ends, .nends = 4 };

    (void) state;
    for (int r = 0; r < 4; r++) {
        ends[r] = ended(r, RG_END_SIGNAL, SIGTERM, true);
        ends[r].place = r == 2 ? "train.py:3 in load" : "train.py:7 in step";
    }
    const char *got = print(&v, (struct rg_verdict_style){ 0 }, &text);
    assert_contains(got, "\n  ranks 0-1, 3 were at train.py:7 in step\n"
                         "  rank 2 was at train.py:3 in load\n");
    ends[0].end = ends[1].end = RG_END_EXIT; /* it has done, and saved, its work */
    ends[0].value = 0;
    ends[1].value = RG_EXIT_PREEMPTED;
    ends[2].place = "";
    rg_buf_clear(&text);
    got = print(&v, (struct rg_verdict_style){ 0 }, &text);
    assert_contains(got, "\n  rank 3 was at train.py:7 in step\n");
    assert_null(strstr(got, "rank 2"));
    assert_null(strstr(got, "ranks"));
}

static void ranks_that_had_the_same_error_are_named_together(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_verdict v = { .exit_code = 1, .cause = "rank 1", .first = &ends[1],
                            .code_of = &ends[1], .ends = ends };

    (void) state;
    for (int r = 0; r < 4; r++) {
        ends[r] = ended(r, RG_END_EXIT, 1, false);
        ends[r].same = r != 2;
    }
    const char *got = print(&v, (struct rg_verdict_style){ 0 }, &text);
    assert_string_equal(got, "reigen: ranks 0-1, 3 of 4 failed with the same error: exit code 1, "
                             "after 12.3 s\n  also failed: rank 2: exit code 1\n"
                             "reigen: exit code 1, the ranks' own\n");
    ends[2].same = true;
    rg_buf_clear(&text);
    got = print(&v, (struct rg_verdict_style){ 0 }, &text);
    assert_string_equal(got, "reigen: all 4 ranks failed with the same error: exit code 1, after "
                             "12.3 s\nreigen: exit code 1, the ranks' own\n");
}

static void missing_packages_of_ours_lead_to_the_option_that_brings_them(void **state)
{
    const char *lines[] = { "ModuleNotFoundError: No module named 'horovod.torch'" };
    rg_autobuf struct rg_buf text = RG_BUF_INIT, other = RG_BUF_INIT;
    struct rg_verdict v = { .exit_code = 1, .cause = "rank 0", .first = &ends[0],
                            .code_of = &ends[0], .last_lines = lines, .nlast_lines = 1 };

    (void) state;
    ends[0] = ended(0, RG_END_EXIT, 1, false);
    assert_contains(print(&v, (struct rg_verdict_style){ 0 }, &text), "run --inject-runtime\n");
    lines[0] = "ModuleNotFoundError: No module named 'horovod_utils'";
    assert_null(strstr(print(&v, (struct rg_verdict_style){ 0 }, &other), "--inject-runtime"));
}

static void a_good_end_says_nothing_unless_asked(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_verdict v = { .ok = true, .cause = "", .ends = ends, .elapsed_ns = 1500000000 };

    (void) state;
    assert_string_equal(print(&v, (struct rg_verdict_style){ 0 }, &text), "");
    assert_contains(print(&v, (struct rg_verdict_style){ .verbose = true }, &text),
                    "4 ranks ended well after 1.5 s");
}

static void causes_without_a_rank_are_named(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_verdict v = { .exit_code = 124, .cause = "not done within 5 s (--timeout)" };

    (void) state;
    const char *got = print(&v, (struct rg_verdict_style){ 0 }, &text);
    assert_contains(got, "not done within 5 s");
    assert_contains(got, "exit code 124 (timeout); reigen explain 124");
}

static void memory_notes_and_lost_ranks_are_told(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_verdict v = { .exit_code = 137, .cause = "x", .first = &ends[0],
                            .code_of = &ends[0], .ends = ends };

    (void) state;
    ends[0] = ended(0, RG_END_SIGNAL, SIGKILL, false);
    ends[0].oom = true;
    ends[0].memory = "limit 2 GiB of x";
    ends[0].note = "stalled for 10 s";
    ends[1] = ended(1, RG_END_LOST, 0, true);
    ends[2] = ended(2, RG_END_EXIT, 3, false);
    ends[3] = ended(3, RG_END_NOT_STARTED, ENOENT, true);
    const char *got = print(&v, (struct rg_verdict_style){ .colour = true }, &text);
    assert_contains(got, "signal 9 (Killed), because memory ran out (limit 2 GiB of x)");
    assert_contains(got, "or give it more: --mem of Slurm");
    assert_contains(got, "its runtime reported: stalled for 10 s");
    assert_contains(got, "also failed: rank 2: exit code 3");
    assert_contains(got, "died of it: rank 1: lost with its host");
    assert_contains(got, "rank 3: not started any more");
    assert_contains(got, "\033[1;31m");
}

static const char *print_script(const char *last_line, int code, const char *sshd_host,
                                struct rg_buf *text)
{
    const char *const lines[] = { "before", last_line };
    struct rg_verdict v = { .exit_code = code, .cause = "x", .first = &ends[0],
                            .code_of = &ends[0], .ends = ends, .last_lines = lines,
                            .nlast_lines = 2 };
    static const struct rg_plan alone = { .nranks = 1, .np = 1 };
    struct rg_verdict_style style = { .exit_code = code };

    ends[0] = ended(0, RG_END_EXIT, code, false);
    ends[0].engine = "job.sh";
    ends[0].sshd_host = (char *) sshd_host;
    ends[0].sshd_port = 12345;
    rg_buf_fini(text);
    rg_verdict_print(&v, &alone, &style, text);
    return rg_buf_text(text);
}

static void an_sshd_that_did_not_come_up_is_named_instead_of_the_script(void **state)
{
    static const char said[] = "reigen: host node2: sshd does not listen on port 12345; if it is";
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    const char *got = print_script(said, 69, "node2", &text);
    assert_contains(got, "sshd on node2, port 12345, failed, and job.sh did not begin: exit code "
                         "69, after");
    assert_null(strstr(got, "job.sh's own"));
    assert_null(strstr(got, "last lines"));
    assert_contains(print_script(said, 69, NULL, &text), "exit code 69, job.sh's");
    assert_contains(rg_buf_text(&text), said);
}

static void who_left_others_waiting_is_named_and_whose_the_code_is(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT, horovod = RG_BUF_INIT;
    struct rg_verdict v = { .exit_code = 5, .cause = "x", .first = &ends[1], .code_of = &ends[2],
                            .ends = ends };

    (void) state;
    ends[0] = ended(0, RG_END_EXIT, 5, true);
    ends[1] = ended(1, RG_END_EXIT, 0, false);
    ends[1].in_runtime = true;
    ends[2] = ended(2, RG_END_EXIT, 5, true);
    ends[3] = ended(3, RG_END_EXIT, 0, false);
    const char *got = print(&v, (struct rg_verdict_style){ 0 }, &text);
    assert_contains(got, "rank 1 on localhost left first: exit code 0, without reigen_shutdown, "
                         "while others waited for it, after 12.3 s\n");
    assert_contains(got, "died of it: ranks 0, 2: exit code 5\n");
    assert_contains(got, "reigen: exit code 5, rank 2's own\n");
    rg_verdict_print_horovod(&v, &horovod);
    assert_contains(rg_buf_text(&horovod), "Process name: 2\nExit code: 5\n");
    assert_null(strstr(got, "batches"));
    /* By its program's end, as of one that has had all its batches. */
    ends[1].in_runtime = false;
    got = print(&v, (struct rg_verdict_style){ 0 }, &text);
    assert_contains(got, "waited for it, after 12.3 s\n  If it had fewer batches than they: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_named_with_host_how_and_last_lines),
        cmocka_unit_test(places_are_told_of_ranks_that_had_to_end),
        cmocka_unit_test(ranks_that_had_the_same_error_are_named_together),
        cmocka_unit_test(missing_packages_of_ours_lead_to_the_option_that_brings_them),
        cmocka_unit_test(a_good_end_says_nothing_unless_asked),
        cmocka_unit_test(causes_without_a_rank_are_named),
        cmocka_unit_test(memory_notes_and_lost_ranks_are_told),
        cmocka_unit_test(who_left_others_waiting_is_named_and_whose_the_code_is),
        cmocka_unit_test(an_sshd_that_did_not_come_up_is_named_instead_of_the_script),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
