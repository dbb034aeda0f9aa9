/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of docs/elastic.md about machines that are drained, and ranks that wait. */
#include "rules.h"

RULE(ranks_that_outstay_a_drain_are_ended_without_a_failure)
{
    run_two_by_two();
    assert_int_equal(rg_membership_without(m, 1), 2);
    assert_string_equal(STEP(RG_MEMBERSHIP_DRAIN, .name = 1, .until_ns = now + 30 * S),
                        "update 1");
    meets(2, 1, false);
    assert_string_equal(after(30 * S), "term 2, term 3");
    ends(2, false);
    ends(3, false);
    meets(0, 1, true);
    assert_string_equal(meets(1, 1, true), "epoch 2/1: 0 1");
    assert_int_equal(rg_membership_without(m, 1), 2);
    struct rg_membership_aside aside;
    assert_true(rg_membership_aside(m, 1, &aside));
    assert_int_equal(aside.why, RG_MEMBERSHIP_DRAINED);
    assert_int_equal(aside.failures, 0);
}

RULE(drain_that_leaves_too_few_waits_for_others_or_its_deadline)
{
    rules.min_np = 3;
    rules.np = 3;
    run_two_by_two();
    assert_int_equal(rg_membership_without(m, 0), 2);
    assert_string_equal(STEP(RG_MEMBERSHIP_DRAIN, .name = 0, .until_ns = now + 30 * S), "");
    assert_string_equal(after(30 * S), "term 0, term 1");
    ends(0, false);
    assert_string_equal(ends(1, false), "free 0");
    meets(2, 1, true);
    assert_string_equal(meets(3, 1, true), "");
    assert_string_equal(WANTED(0, 2, 2), "+2:2*2");
    ready(2);
    meets(4, 0, false);
    assert_string_equal(meets(5, 0, false), "epoch 2/1: 2 3 4 5");
}

RULE(drain_of_programs_that_cannot_meet_starts_them_again)
{
    rules.way = RG_MEMBERSHIP_RESTART;
    WANTED(2, 2);
    ready(0);
    ready(1);
    assert_string_equal(STEP(RG_MEMBERSHIP_DRAIN, .name = 1),
                        "restart, term 0, term 1, term 2, term 3");
    for (int i = 0; i < 3; i++)
        ends(i, false);
    assert_string_equal(ends(3, false), "free 1, epoch 2/1: 0 1, start 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranks_that_outstay_a_drain_are_ended_without_a_failure),
        TEST(drain_that_leaves_too_few_waits_for_others_or_its_deadline),
        TEST(drain_of_programs_that_cannot_meet_starts_them_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
