/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of membership.h about machines that are drained, and ranks that wait. */
#include "rules.h"

static int without(int name)
{
    return rg_membership_without(m, &name, 1);
}

RULE(ranks_that_outstay_a_drain_are_ended_without_a_failure)
{
    run_two_by_two();
    assert_int_equal(without(1), 2);
    assert_string_equal(STEP(RG_MEMBERSHIP_DRAIN, .name = 1, .until_ns = now + 30 * S),
                        "update 1");
    meets(2, 1, false);
    assert_string_equal(after(30 * S), "term 2, term 3");
    ends(2, false);
    ends(3, false);
    meets(0, 1, true);
    assert_string_equal(meets(1, 1, true), "epoch 2/1: 0 1");
    assert_int_equal(without(1), 2);
    struct rg_membership_aside aside;
    assert_true(rg_membership_aside(m, 1, &aside));
    assert_int_equal(aside.why, RG_MEMBERSHIP_DRAINED);
    assert_int_equal(aside.failures, 0);
}

RULE(room_without_several_machines_is_what_all_others_have)
{
    WANTED(2, 3, 4);
    assert_int_equal(rg_membership_without(m, NULL, 0), 9);
    assert_int_equal(rg_membership_without(m, (int[]){ 0, 2 }, 2), 3);
    assert_int_equal(rg_membership_without(m, (int[]){ 1, 1, 7 }, 3), 6);
    STEP(RG_MEMBERSHIP_DRAIN, .name = 0);
    assert_int_equal(rg_membership_without(m, (int[]){ 0, 1 }, 2), 4);
}

RULE(drain_that_leaves_too_few_waits_for_others_or_its_deadline)
{
    rules.min_np = 3;
    rules.np = 3;
    run_two_by_two();
    assert_int_equal(without(0), 2);
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

RULE(ranks_that_outstay_a_platforms_notice_are_ended_and_others_follow)
{
    run_two_by_two();
    assert_string_equal(STEP(RG_MEMBERSHIP_HOST_GOES, .host = 1, .until_ns = now + 20 * S),
                        "update 1");
    STEP(RG_MEMBERSHIP_HOST_GOES, .host = 1, .until_ns = now + 90 * S);
    assert_string_equal(after(20 * S), "term 2, term 3");
    ends(2, false);
    ends(3, false);
    assert_string_equal(lost(1, false), "+2:1*2");
    meets(0, 1, true);
    assert_string_equal(meets(1, 1, true), "epoch 2/1: 0 1");
    ready(2);
    assert_string_equal(after(90 * S), "");
    meets(4, 0, false);
    assert_string_equal(meets(5, 0, false), "update 2");
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

/* Machines 0 to 2 with one slot each, of which the last one has the spare rank. */
static void run_two_and_a_spare(void)
{
    rules.max_np = 2;
    rules.spares = 1;
    assert_string_equal(WANTED(1, 1, 1, 1), "+0:0*1, +1:1*1, +2:2*1");
    ready(0);
    assert_string_equal(ready(1), "epoch 1/1: 0 1, start 0, start 1");
    assert_string_equal(ready(2), "");
    assert_string_equal(elastic(0), "start 2");
    elastic(1);
}

RULE(spares_wait_without_disturbing_the_others)
{
    run_two_and_a_spare();
    struct rg_membership_seat seat = rg_membership_seat(m, 2);
    assert_int_equal(seat.rank, 1);
    assert_int_equal(seat.size, 2);
    assert_string_equal(meets(2, 0, false), "");
    assert_int_equal(rg_membership_rank(m, 2), -1);
    assert_int_equal(rg_membership_deadline_ns(m), RG_NEVER_NS);
}

RULE(spare_takes_the_seat_of_who_is_lost_in_the_same_epoch)
{
    run_two_and_a_spare();
    meets(2, 0, false);
    assert_string_equal(fails(1), "aside 1, +3:3*1, free 1");
    assert_string_equal(meets(0, 1, true), "epoch 2/1: 0 2");
    assert_string_equal(ready(3), "start 3");
    assert_string_equal(meets(3, 0, false), "");
}

RULE(spare_that_is_not_there_yet_is_not_waited_for)
{
    run_two_and_a_spare();
    fails(1);
    assert_string_equal(meets(0, 1, true), "epoch 2/1: 0");
    elastic(0);
    assert_string_equal(meets(2, 0, false), "update 2");
    assert_string_equal(meets(0, 2, false), "epoch 3/1: 0 2");
}

RULE(spare_that_has_come_to_wait_was_of_use_when_its_host_is_lost)
{
    run_two_and_a_spare();
    for (int i = 2; i < 5; i++) {
        char again[64];

        snprintf(again, sizeof(again), "+%d:2*1", i + 1);
        meets(i, 0, false);
        assert_string_equal(lost(i, false), again);
        ready(i + 1);
    }
}

RULE(spare_takes_over_from_a_drained_machine)
{
    run_two_and_a_spare();
    meets(2, 0, false);
    assert_string_equal(STEP(RG_MEMBERSHIP_DRAIN, .name = 1), "+3:3*1, update 3");
    meets(0, 1, false);
    assert_string_equal(meets(1, 1, false), "epoch 2/1: 0 2, term 1");
}

RULE(spares_end_with_the_others)
{
    run_two_and_a_spare();
    meets(2, 0, false);
    assert_string_equal(ends(0, true), "term 2");
    ends(2, false);
    assert_string_equal(ends(1, true), "end all done");
}

RULE(spare_hosts_of_programs_that_cannot_meet_start_nothing)
{
    rules.way = RG_MEMBERSHIP_RESTART;
    rules.max_np = 2;
    rules.spares = 1;
    WANTED(1, 1, 1);
    ready(0);
    assert_string_equal(ready(2), "epoch 1/1: 0 2, start 0, start 2");
    assert_string_equal(ready(1), "");
    assert_string_equal(fails(0), "aside 0, free 0, restart, term 2");
    assert_string_equal(ends(2, false), "epoch 2/1: 2 1, start 1, start 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranks_that_outstay_a_drain_are_ended_without_a_failure),
        TEST(room_without_several_machines_is_what_all_others_have),
        TEST(drain_that_leaves_too_few_waits_for_others_or_its_deadline),
        TEST(ranks_that_outstay_a_platforms_notice_are_ended_and_others_follow),
        TEST(drain_of_programs_that_cannot_meet_starts_them_again),
        TEST(spares_wait_without_disturbing_the_others),
        TEST(spare_takes_the_seat_of_who_is_lost_in_the_same_epoch),
        TEST(spare_that_is_not_there_yet_is_not_waited_for),
        TEST(spare_that_has_come_to_wait_was_of_use_when_its_host_is_lost),
        TEST(spare_takes_over_from_a_drained_machine), TEST(spares_end_with_the_others),
        TEST(spare_hosts_of_programs_that_cannot_meet_start_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
