/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/verdict/marks.h"

#include "base/cleanup.h"
#include "unit.h"

static struct rg_mark read_all(const char *text)
{
    struct rg_marks marks = { 0 };
    struct rg_mark mark = { -1, -1 };

    rg_marks_put(&marks, 1, text, strlen(text));
    rg_marks_put(&marks, 1, "", 0);
    rg_marks_take(&marks, &mark);
    rg_marks_fini(&marks);
    return mark;
}

static const struct { const char *line; struct rg_mark mark; } lines[] = {
    { "epoch 3/10", { 3, -1 } },
    { "Epoch [1/5], Iteration [10]", { 1, 10 } },
    { "[epoch 2] iter=5", { 2, 5 } },
    { "global_step=7", { -1, 7 } },
    { "update: 12", { -1, 12 } },
    { "{'loss': 0.51, 'epoch': 3.0}", { 3, -1 } },
    { "{'loss': 0.51, 'epoch': 2.25}", { 2.25, -1 } },
    { "{\"step\": 4, \"loss\": 0.5}", { -1, 4 } },
    { "{\"step\": 4.0}", { -1, 4 } },
    { "step 99999999999999999999999", { -1, 1000000000000000 } },
    /* Numbers that do not grow. */
    { "max_epoch=10", { -1, -1 } },
    { "--max-epoch=10", { -1, -1 } },
    { "epochs: 90", { -1, -1 } },
    { "epoch_max: 10", { -1, -1 } },
    { "total step: 900", { -1, -1 } },
    { "num_iter 5, cfg.max_iter.step 7", { -1, -1 } },
    { "steps_per_epoch=100", { -1, -1 } },
    { "step 3 of max step 10", { -1, 3 } },
    /* Times, and words in which others are. */
    { "step 0.3 s", { -1, -1 } },
    { "step 5 ms, iter 12s, epoch 2.5 s", { -1, -1 } },
    { "step_ms 3, footstep 3", { -1, -1 } },
    { "step x", { -1, -1 } },
    { "step", { -1, -1 } },
    { "", { -1, -1 } },
};

static void marks_are_read_from_lines(void **state)
{
    (void) state;
    for (size_t i = 0; i < rg_array_len(lines); i++) {
        struct rg_mark mark = read_all(lines[i].line);
        if (mark.epoch < lines[i].mark.epoch || mark.epoch > lines[i].mark.epoch ||
            mark.step != lines[i].mark.step)
            fail_msg("%s: epoch %g, step %lld", lines[i].line, mark.epoch, (long long) mark.step);
    }
}

static void other_output_hides_no_mark(void **state)
{
    struct rg_marks marks = { 0 };
    struct rg_mark mark = { -1, -1 };
    static char flood[3 * RG_MARKS_CHUNK_MAX];

    (void) state;
    rg_marks_put(&marks, 1, "step 7\n", 7);
    for (int i = 0; i < 100; i++)
        rg_marks_put(&marks, 2, "  File \"train.py\", line 3, in f\n", 32);
    memset(flood, 'x', sizeof(flood));
    memcpy(flood, "step 8\n", 7);
    memcpy(flood + sizeof(flood) - 7, "\nstep 9", 7);
    rg_marks_put(&marks, 1, flood, sizeof(flood));
    rg_marks_take(&marks, &mark);
    assert_int_equal(mark.step, 8);
    rg_marks_put(&marks, 1, "0\r", 2); /* a line comes in parts, and is drawn anew */
    rg_marks_take(&marks, &mark);
    assert_int_equal(mark.step, 90);
    rg_marks_fini(&marks);
}

static void what_was_told_long_ago_does_not_count(void **state)
{
    char text[512] = "will end at epoch 90\n";

    (void) state;
    for (int i = 0; i < RG_MARKS_LINES; i++)
        sprintf(text + strlen(text), "epoch %d step %d\n", 1 + i / 8, i % 8);
    struct rg_mark mark = read_all(text);
    assert_true(mark.epoch == 2);
    assert_int_equal(mark.step, 1);
}

static void long_line_counts_by_its_beginning(void **state)
{
    static char text[4 * RG_MARKS_LINE_MAX];

    (void) state;
    memset(text, ' ', sizeof(text) - 1);
    memcpy(text, "step 3,", 7);
    memcpy(text + 2 * RG_MARKS_LINE_MAX, "step 4", 6);
    assert_int_equal(read_all(text).step, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_are_read_from_lines),
        cmocka_unit_test(other_output_hides_no_mark),
        cmocka_unit_test(what_was_told_long_ago_does_not_count),
        cmocka_unit_test(long_line_counts_by_its_beginning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
