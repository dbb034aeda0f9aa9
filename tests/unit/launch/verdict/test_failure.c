/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "base/cleanup.h"
#include "launch/verdict/failure.h"
#include "unit.h"

#define LINES_MAX 16
#define S RG_NS_PER_S

static char texts[2][4096];
static const char *lists[2][LINES_MAX];

/* Its lines, each ended by a newline. */
static struct rg_failure_lines split(int i, const char *text)
{
    struct rg_failure_lines lines = { lists[i], 0 };
    char *at = texts[i];

    snprintf(texts[i], sizeof(texts[i]), "%s", text);
    for (char *line; (line = strsep(&at, "\n")) && at;)
        lists[i][lines.nlines++] = line;
    return lines;
}

struct end {
    int rank;
    const char *host;
    enum rg_end end;
    int value;
    bool oom;
    const char *errors; /* of standard error */
    const char *steps;  /* of any rank */
    uint64_t ran_ns;
};

static struct rg_failure take(const struct end *of)
{
    struct rg_rank_end end = { .rank = of->rank, .host = of->host ? of->host : "a",
                               .end = of->end, .value = of->value, .oom = of->oom };
    struct rg_failure_lines errors = split(0, of->errors ? of->errors : "");
    struct rg_failure_lines steps = split(1, of->steps ? of->steps : "");
    struct rg_failure failure;
    struct rg_marks marks = { 0 };

    rg_failure_take(&end, of->rank, of->ran_ns, &errors, &steps, &failure);
    if (of->steps && *of->steps)
        rg_marks_put(&marks, 1, of->steps, strlen(of->steps));
    rg_marks_take(&marks, &failure.far);
    rg_marks_fini(&marks);
    return failure;
}

#define EXIT(...) { .end = RG_END_EXIT, .value = 1, __VA_ARGS__ }
#define SIGNAL(signo, ...) { .end = RG_END_SIGNAL, .value = (signo), __VA_ARGS__ }
#define RAISED(line, error)                                                                     \
    "Traceback (most recent call last):\n"                                                      \
    "  File \"/data/train.py\", line " line ", in <module>\n    train()\n"                       \
    "  File \"/data/train.py\", line 7, in train\n    x = 1 / n\n        ~~^~~\n" error "\n"

static const struct {
    const char *name;
    struct end before, now;
    bool same, blames_host;
} pairs[] = {
    { "an exception, on another rank of another host",
      EXIT(.rank = 1, .host = "b", .errors = RAISED("9", "ZeroDivisionError: division by zero")),
      EXIT(.rank = 3, .host = "c", .errors = RAISED("9", "ZeroDivisionError: division by zero")),
      true, false },
    { "numbers, addresses and names of temporary files differ",
      EXIT(.errors = RAISED("9", "OSError: [Errno 2] No such file: '/tmp/tmpab3x/17' at 0x7f01")),
      EXIT(.errors = RAISED("9", "OSError: [Errno 2] No such file: '/tmp/tmpq_9z/4' at 0xffe2a")),
      true, false },
    { "PyTorch puts the rank in front, and warns after it",
      EXIT(.rank = 1, .errors = "[rank1]:   File \"t.py\", line 1, in f\n[rank1]:     f()\n"
                                "[rank1]: ValueError: no\n[rank1]:[W1128 10:00] Warning: late\n"),
      EXIT(.rank = 0, .errors = "[rank0]:   File \"t.py\", line 1, in f\n[rank0]:     f()\n"
                                "[rank0]: ValueError: no\n"), true, false },
    { "another exception", EXIT(.errors = RAISED("9", "ZeroDivisionError: division by zero")),
      EXIT(.errors = RAISED("9", "KeyError: 'a'")), false, false },
    { "the same exception, raised by another function",
      EXIT(.errors = "  File \"t.py\", line 1, in f\n    x\nKeyError: 'a'\n"),
      EXIT(.errors = "  File \"t.py\", line 1, in g\n    x\nKeyError: 'a'\n"), false, false },
    { "another code", EXIT(.errors = "cannot\n"),
      { .end = RG_END_EXIT, .value = 2, .errors = "cannot\n" }, false, false },
    { "the last line of a program that is no Python", EXIT(.errors = "at 12:30:01\ncannot: 3\n"),
      EXIT(.rank = 2, .errors = "at 12:31:44\ncannot: 44.5e-3\n\n"), true, false },
    { "without a word, the same rank", EXIT(.rank = 2), EXIT(.rank = 2), true, false },
    { "without a word, another rank", EXIT(.rank = 2), EXIT(.rank = 1), false, false },
    { "it only had something to say once", EXIT(.errors = "cannot\n"), EXIT(.rank = 0), false,
      false },
    { "a crash", SIGNAL(SIGSEGV), SIGNAL(SIGSEGV), true, false },
    { "another crash", SIGNAL(SIGSEGV), SIGNAL(SIGABRT), false, false },
    { "killed from outside", SIGNAL(SIGKILL), SIGNAL(SIGKILL), false, false },
    { "a shell's word for it", { .end = RG_END_EXIT, .value = 137 },
      { .end = RG_END_EXIT, .value = 137 }, false, false },
    { "it asks to be started again", { .end = RG_END_EXIT, .value = 75 },
      { .end = RG_END_EXIT, .value = 75 }, false, false },
    { "lost with its host", { .end = RG_END_LOST }, { .end = RG_END_LOST }, false, false },
    { "not started", { .end = RG_END_NOT_STARTED, .value = 2 },
      { .end = RG_END_NOT_STARTED, .value = 2 }, false, false },
    { "out of memory", SIGNAL(SIGKILL, .oom = true), SIGNAL(SIGKILL, .oom = true), true, true },
    { "a bus error", SIGNAL(SIGBUS, .host = "b"), SIGNAL(SIGBUS, .host = "b"), true, true },
    { "a bus error of another rank there", SIGNAL(SIGBUS, .rank = 4), SIGNAL(SIGBUS, .rank = 5),
      false, true },
    { "a bus error on another host", SIGNAL(SIGBUS, .host = "b"), SIGNAL(SIGBUS, .host = "c"),
      true, false },
    { "a broken device, once in other words",
      EXIT(.errors = RAISED("3", "RuntimeError: CUDA error: uncorrectable ECC error encountered")),
      SIGNAL(SIGBUS), false, true },
};

static void failures_are_compared(void **state)
{
    (void) state;
    for (size_t i = 0; i < rg_array_len(pairs); i++) {
        struct rg_failure before = take(&pairs[i].before), now = take(&pairs[i].now);
        if (rg_failure_is_same(&before, &now) != pairs[i].same ||
            rg_failure_blames_host(&before, &now) != pairs[i].blames_host)
            fail_msg("%s: same %d, blames its host %d", pairs[i].name,
                     rg_failure_is_same(&before, &now), rg_failure_blames_host(&before, &now));
    }
}

static const struct {
    struct { const char *steps; uint64_t ran_ns; } before, now;
    bool further;
} progress[] = {
    { { "step 3 size 2\n", S }, { "step 4 size 2\n", S }, true },
    { { "step 3\nstep 4\n", S }, { "step 3\n", 50 * S }, false },
    { { "step 9\n", S }, { "step 9\n", 50 * S }, false },
    { { "epoch 1/9, step 900/999\n", S }, { "Epoch: 2/9, step 1/999\n", S }, true },
    { { "[epoch 2] iter=5\n", S }, { "[epoch 1] iter=7\n", 50 * S }, false },
    { { "epoch 1\nglobal_step=5\n", S }, { "epoch 1\nglobal_step=6\n", S }, true },
    { { "Epoch [1/5], Iteration [10]\n", S }, { "Epoch [1/5], Iteration [20]\n", S }, true },
    /* Only time is known. */
    { { "", 10 * S }, { "", 21 * S }, true },
    { { "", 10 * S }, { "", 19 * S }, false },
    { { "", S / 10 }, { "", S }, false },
    { { "step 3\n", 10 * S }, { "", 21 * S }, true },
    /* These are times, and words in which others are. */
    { { "step 0.3 s\n", S }, { "step 0.4 s\n", S }, false },
    { { "step_ms 3, footstep 3\n", S }, { "step_ms 4, footstep 4\n", S }, false },
    { { "step 99999999999999999999999\n", S }, { "step 3\n", S }, false },
};

static void progress_is_seen(void **state)
{
    (void) state;
    for (size_t i = 0; i < rg_array_len(progress); i++) {
        struct end end = EXIT(.steps = progress[i].before.steps, .errors = "cannot\n",
                              .ran_ns = progress[i].before.ran_ns);
        struct rg_failure before = take(&end);
        end.steps = progress[i].now.steps;
        end.ran_ns = progress[i].now.ran_ns;
        struct rg_failure now = take(&end);
        if (rg_failure_got_further(&before, &now) != progress[i].further)
            fail_msg("number %zu: %s -> %s", i, progress[i].before.steps, progress[i].now.steps);
        assert_int_equal(rg_failure_is_vain(&before, &now), !progress[i].further);
    }
}

static void error_is_told_as_it_was_written(void **state)
{
    struct end end = EXIT(.rank = 3, .host = "b", .errors = RAISED("9", "ValueError: 17 is odd"),
                          .steps = "epoch 2 step 40\n", .ran_ns = 5);
    struct rg_failure failure = take(&end);

    (void) state;
    assert_string_equal(failure.error, "ValueError: 17 is odd");
    assert_string_equal(failure.host, "b");
    assert_string_equal(rg_failure_kind_name(failure.kind), "error");
    assert_int_equal(failure.rank, 3);
    assert_true(failure.far.epoch == 2);
    assert_int_equal(failure.far.step, 40);
    assert_int_equal(failure.ran_ns, 5);
}

static void standard_output_counts_where_nothing_else_is(void **state)
{
    struct end end = EXIT(.steps = "cannot open the data\n");
    struct rg_failure failure = take(&end);

    (void) state;
    assert_string_equal(failure.error, "cannot open the data");
}

static const char *normal(const char *line)
{
    static char text[64];

    rg_failure_normalize(line, text, sizeof(text));
    return text;
}

static void numbers_and_names_by_chance_are_left_out(void **state)
{
    (void) state;
    assert_string_equal(normal("rank 3:  loss 1234.5e-7,\tat 12:30:01 "), "rank #: loss #, at #");
    assert_string_equal(normal("<T object at 0x7f12ab>"), "<T object at #>");
    assert_string_equal(normal("/tmp/tmpx1_a/f.pt, /data/f.pt"), "/tmp/#/f.pt, /data/f.pt");
    assert_string_equal(normal("/proc/4711/maps"), "/proc/#/maps");
    assert_string_equal(normal("commit a1b2c3d4e5 of facade"), "commit # of facade");
    assert_string_equal(normal("1, 2e, 3e+, 0x"), "#, #e, #e+, #");
    assert_string_equal(normal("[rank3]: [rank0]: x"), "x");
    assert_string_equal(normal(""), "");
    assert_int_equal(strlen(normal("a line that is longer than there is room for in the text, "
                                   "so it is cut")), 62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_are_compared),
        cmocka_unit_test(progress_is_seen),
        cmocka_unit_test(error_is_told_as_it_was_written),
        cmocka_unit_test(standard_output_counts_where_nothing_else_is),
        cmocka_unit_test(numbers_and_names_by_chance_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
