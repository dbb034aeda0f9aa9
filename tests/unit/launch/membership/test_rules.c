/* SPDX-License-Identifier: Apache-2.0 */
/* One rule of membership.h at a time. */
#include "rules.h"

/* --- the beginning ---------------------------------------------------------------------------- */

RULE(all_slots_are_used_and_the_epoch_comes_before_its_ranks)
{
    run_two_by_two();
    assert_int_equal(rg_membership_rank(m, 2), 2);
    assert_int_equal(rg_membership_host(m, 2), 1);
    struct rg_membership_seat seat = rg_membership_seat(m, 3);
    assert_int_equal(seat.epoch, 1);
    assert_int_equal(seat.rank, 3);
    assert_int_equal(seat.size, 4);
    assert_int_equal(seat.local_rank, 1);
    assert_int_equal(seat.local_size, 2);
    assert_int_equal(rg_membership_deadline_ns(m), RG_NEVER_NS);
}

RULE(max_np_bounds_what_is_used)
{
    rules.max_np = 3;
    assert_string_equal(WANTED(2, 2, 2), "+0:0*2, +1:1*1");
    assert_string_equal(lost(0, true), "aside 0, +2:1*1, +3:2*1");
}

RULE(hosts_that_are_late_are_waited_for_briefly)
{
    WANTED(2, 2);
    assert_string_equal(ready(1), "");
    assert_int_equal(rg_membership_deadline_ns(m), now + 5 * S);
    assert_string_equal(after(5 * S), "epoch 1/1: 2 3, start 1");
}

RULE(fewer_than_np_end_the_job_in_time)
{
    rules.np = 3;
    WANTED(2);
    assert_string_equal(ready(0), "");
    assert_int_equal(rg_membership_deadline_ns(m), now + 600 * S);
    assert_string_equal(after(600 * S), "end too few");
    assert_string_equal(after(S), "");
}

RULE(what_one_list_cannot_give_is_not_waited_for)
{
    rules.np = 3;
    rules.wanted_once = true;
    assert_string_equal(WANTED(2), "+0:0*2, end too few");
}

RULE(machines_that_cannot_be_reached_are_set_aside)
{
    WANTED(2, 2);
    assert_string_equal(lost(0, true), "aside 0");
    struct rg_membership_aside aside;
    assert_true(rg_membership_aside(m, 0, &aside));
    assert_int_equal(aside.why, RG_MEMBERSHIP_NEVER_CAME);
    assert_string_equal(lost(1, true), "aside 1, end all aside");
}

RULE(hosts_that_are_lost_in_vain_again_and_again_set_their_machine_aside)
{
    WANTED(2, 2);
    assert_string_equal(lost(0, false), "+2:0*2"); /* before it was ready, */
    ready(2);
    assert_string_equal(lost(2, false), "+3:0*2"); /* and after */
    assert_string_equal(lost(3, false), "aside 0");
}

RULE(hosts_that_are_lost_now_and_then_are_no_sign)
{
    rules.timeout_ns = 0;
    WANTED(2, 2);
    assert_string_equal(lost(0, false), "+2:0*2");
    ready(2);
    assert_string_equal(lost(2, false), "+3:0*2");
    now += 601 * S;
    assert_string_equal(lost(3, false), "+4:0*2");
    assert_string_equal(lost(4, false), "+5:0*2");
    assert_string_equal(lost(5, false), "aside 0");
}

RULE(machine_that_is_listed_twice_has_both_slots)
{
    const struct rg_membership_machine list[] = { { 3, 1 }, { 1, 1 }, { 3, 1 } };

    assert_int_equal(rg_membership_create(&rules, now, &m), 0);
    assert_string_equal(STEP(RG_MEMBERSHIP_WANTED, .wanted = list, .nwanted = 3),
                        "+0:3*2, +1:1*1");
}

/* --- failures, in place ----------------------------------------------------------------------- */

RULE(who_has_come_to_meet_and_who_is_awaited_is_known)
{
    run_two_by_two();
    fails(1);
    ends(0, false);
    assert_int_equal(rg_membership_meeting(m, 2), RG_MEMBERSHIP_AWAITED);
    meets(2, 1, true);
    assert_int_equal(rg_membership_meeting(m, 1), RG_MEMBERSHIP_ELSEWHERE);
    assert_int_equal(rg_membership_meeting(m, 2), RG_MEMBERSHIP_COME);
    assert_int_equal(rg_membership_meeting(m, 3), RG_MEMBERSHIP_AWAITED);
    meets(3, 1, true);
    assert_int_equal(rg_membership_meeting(m, 2), RG_MEMBERSHIP_AWAITED);
}

RULE(failure_sets_its_machine_aside_and_survivors_meet)
{
    run_two_by_two();
    assert_string_equal(fails(1), "term 0, aside 0");
    assert_string_equal(ends(0, false), "free 0");
    assert_string_equal(meets(2, 1, true), "");
    assert_string_equal(meets(3, 1, true), "epoch 2/1: 2 3");
    assert_int_equal(rg_membership_rank(m, 0), -1);
    assert_int_equal(rg_membership_host_state(m, 0), RG_MEMBERSHIP_HOST_IS_FREE);
    assert_string_equal(lost(0, false), "");
    assert_int_equal(rg_membership_host_state(m, 0), RG_MEMBERSHIP_HOST_IS_GONE);
}

RULE(lost_host_is_a_failure_of_all_its_ranks)
{
    run_two_by_two();
    assert_string_equal(lost(1, true), "aside 1");
    meets(1, 1, true);
    assert_string_equal(meets(0, 1, true), "epoch 2/1: 0 1");
}

RULE(who_does_not_come_to_meet_is_ended)
{
    run_two_by_two();
    lost(1, true);
    meets(1, 1, true);
    assert_string_equal(after(600 * S), "term 0, term 1, aside 0, end too few");
}

RULE(host_that_is_released_early_is_released_again_when_it_is_ready)
{
    WANTED(2, 2, 1);
    assert_string_equal(WANTED(2, 2), "free 2");
    assert_string_equal(ready(2), "free 2");
    assert_string_equal(lost(2, false), "");
    assert_string_equal(ready(2), "");
}

RULE(without_a_grace_the_kill_follows_at_once)
{
    rules.grace_ns = 0;
    run_two_by_two();
    assert_string_equal(fails(1), "term 0, aside 0");
    assert_int_equal(rg_membership_deadline_ns(m), now + 1);
    assert_string_equal(after(1), "kill 0");
}

RULE(who_does_not_end_is_killed)
{
    run_two_by_two();
    fails(1);
    assert_string_equal(after(10 * S), "kill 0");
    assert_string_equal(after(10 * S), "");
}

RULE(too_few_survivors_wait_for_others)
{
    rules.min_np = 3;
    rules.np = 4;
    run_two_by_two();
    lost(1, true);
    meets(0, 1, true);
    assert_string_equal(meets(1, 1, true), "");
    assert_int_equal(rg_membership_deadline_ns(m), now + 600 * S);
    assert_string_equal(WANTED(2, 2, 1), "+2:2*1");
    assert_string_equal(ready(2), "start 2");
    assert_string_equal(meets(4, 0, false), "epoch 2/1: 0 1 4");
}

RULE(all_that_failed_end_the_job)
{
    run_two_by_two();
    lost(0, true);
    assert_string_equal(fails(3), "term 2, aside 1");
    assert_string_equal(ends(2, false), "free 1, end all failed");
}

RULE(others_go_on_by_themselves_when_all_have_failed)
{
    rules.max_np = 2;
    WANTED(2, 2);
    ready(0);
    elastic(0);
    assert_string_equal(lost(0, true), "aside 0, +1:1*2");
    assert_string_equal(ready(1), "start 1");
    meets(2, 0, false);
    assert_string_equal(meets(3, 0, false), "epoch 2/1: 2 3");
}

RULE(cooldown_ends_and_doubles)
{
    rules.cooldown_min_ns = 10 * S;
    rules.cooldown_max_ns = 30 * S;
    run_two_by_two();
    assert_string_equal(lost(1, true), "aside 1");
    assert_string_equal(after(10 * S), "back 1, +2:1*2");
    lost(2, true);
    struct rg_membership_aside aside;
    assert_true(rg_membership_aside(m, 1, &aside));
    assert_int_equal(aside.until_ns, now + 20 * S);
    assert_int_equal(aside.failures, 2);
    assert_string_equal(after(20 * S), "back 1, +3:1*2");
    assert_false(rg_membership_aside(m, 1, &aside));
    lost(3, true);
    assert_true(rg_membership_aside(m, 1, &aside));
    assert_int_equal(aside.until_ns, now + 30 * S);
}

RULE(further_tries_use_other_places)
{
    rules.tries = 2;
    run_two_by_two();
    assert_string_equal(fails(1), "+2:0*1");
    assert_string_equal(fails(0), "aside 0, free 0, free 2");
}

RULE(reset_limit_ends_the_change_that_is_too_much)
{
    rules.reset_limit = 1;
    run_two_by_two();
    lost(1, true);
    meets(0, 1, true);
    meets(1, 1, true);
    assert_string_equal(fails(1), "term 0, aside 0, end reset limit");
}

/* --- the state -------------------------------------------------------------------------------- */

RULE(rank_0_is_one_that_has_the_state)
{
    run_two_by_two();
    lost(0, true);
    WANTED(0, 2, 1);
    ready(2);
    meets(4, 0, false);
    meets(2, 1, true);
    assert_string_equal(meets(3, 1, true), "epoch 2/1: 2 3 4");
}

RULE(who_never_got_it_is_as_new)
{
    run_two_by_two();
    lost(1, true);
    STEP(RG_MEMBERSHIP_RANK_MEETS, .place = 0, .epoch = 1, .failed = true, .lacks = true);
    assert_string_equal(meets(1, 1, true), "epoch 2/1: 1 0");
}

RULE(no_sync_where_all_have_left_in_order)
{
    run_two_by_two();
    assert_string_equal(WANTED(2), "update 1");
    for (int i = 0; i < 3; i++)
        assert_string_equal(meets(i, 1, false), "");
    assert_string_equal(meets(3, 1, false), "epoch 2/0: 0 1, term 2, term 3");
    ends(2, false);
    assert_string_equal(ends(3, false), "free 1");
}

RULE(machine_that_goes_hands_the_state_over)
{
    WANTED(2);
    ready(0);
    elastic(0);
    elastic(1);
    assert_string_equal(WANTED(0, 2), "+1:1*2");
    assert_string_equal(ready(1), "start 1");
    assert_string_equal(meets(2, 0, false), "");
    assert_string_equal(meets(3, 0, false), "update 3");
    meets(0, 1, false);
    assert_string_equal(meets(1, 1, false), "epoch 2/1: 0 2 3, term 1");
    elastic(2);
    assert_string_equal(elastic(3), "update 1");
    meets(2, 2, false);
    meets(3, 2, false);
    assert_string_equal(meets(0, 2, false), "epoch 3/0: 2 3, term 0");
}

/* --- machines come and go --------------------------------------------------------------------- */

RULE(joiners_are_announced_when_all_of_them_have_come)
{
    run_two_by_two();
    assert_string_equal(WANTED(2, 2, 2), "+2:2*2");
    assert_string_equal(ready(2), "start 2");
    struct rg_membership_seat seat = rg_membership_seat(m, 5);
    assert_int_equal(seat.epoch, 2);
    assert_int_equal(seat.rank, 5);
    assert_int_equal(seat.size, 6);
    assert_string_equal(meets(5, 0, false), "");
    assert_string_equal(meets(4, 0, false), "update 2");
    for (int i = 0; i < 3; i++)
        meets(i, 1, false);
    assert_string_equal(meets(3, 1, false), "epoch 2/1: 0 1 2 3 4 5");
}

RULE(machines_that_come_together_are_taken_together)
{
    run_two_by_two();
    WANTED(2, 2, 1, 1);
    ready(2);
    assert_string_equal(meets(4, 0, false), "");
    assert_string_equal(ready(3), "start 3");
    assert_string_equal(meets(5, 0, false), "update 2");
}

RULE(but_not_longer_than_gather_ns)
{
    run_two_by_two();
    WANTED(2, 2, 1, 1);
    ready(2);
    meets(4, 0, false);
    assert_string_equal(after(5 * S), "update 2");
}

RULE(joiner_that_never_comes_is_ended)
{
    run_two_by_two();
    WANTED(2, 2, 1);
    ready(2);
    assert_string_equal(after(700 * S), "term 4, aside 2");
}

RULE(who_could_still_compute_alone_is_waited_for)
{
    rules.np = 1;
    assert_string_equal(WANTED(1), "+0:0*1");
    assert_string_equal(ready(0), "epoch 1/1: 0, start 0");
    elastic(0);
    WANTED(0, 2);
    ready(1);
    meets(1, 0, false);
    assert_string_equal(after(5 * S), "");
    assert_string_equal(lost(0, true), "");
    assert_string_equal(after(5 * S), "epoch 2/1: 1");
    elastic(1);
    assert_string_equal(WANTED(0, 2, 1), "+2:2*1");
    ready(2);
    assert_string_equal(fails(2), "term 1, aside 1");
    assert_string_equal(meets(3, 0, false), "");
    assert_string_equal(ends(1, false), "free 1, epoch 3/1: 3");
}

RULE(joiner_that_fails_takes_the_members_of_its_machine_with_it)
{
    rules.np = 1;
    WANTED(1);
    ready(0);
    elastic(0);
    WANTED(1, 2);
    ready(1);
    meets(1, 0, false);
    assert_string_equal(meets(0, 1, true), "epoch 2/1: 0 1");
    assert_string_equal(fails(2), "term 1, aside 1");
    assert_string_equal(ends(1, false), "free 1");
    assert_int_equal(rg_membership_deadline_ns(m), now + 600 * S);
    assert_string_equal(meets(0, 2, true), "epoch 3/1: 0");
}

RULE(machine_that_goes_and_dies_has_not_failed)
{
    run_two_by_two();
    assert_string_equal(WANTED(2), "update 1");
    assert_string_equal(fails(3), "");
    struct rg_membership_aside aside;
    assert_false(rg_membership_aside(m, 1, &aside));
}

RULE(no_machine_goes_below_min_np)
{
    rules.min_np = 3;
    rules.np = 4;
    run_two_by_two();
    assert_string_equal(WANTED(2), "");
    assert_string_equal(WANTED(2, 0, 1), "+2:2*1");
    ready(2);
    assert_string_equal(meets(4, 0, false), "update 3");
}

RULE(slots_shrink_from_the_last_and_grow_as_a_new_host)
{
    run_two_by_two();
    assert_string_equal(WANTED(2, 1), "update 1");
    for (int i = 0; i < 3; i++)
        meets(i, 1, false);
    assert_string_equal(meets(3, 1, false), "epoch 2/0: 0 1 2, term 3");
    assert_string_equal(WANTED(3, 1), "+2:0*1");
}

RULE(drained_machine_is_replaced_and_not_used_again)
{
    rules.max_np = 4;
    assert_string_equal(WANTED(2, 2, 2), "+0:0*2, +1:1*2");
    ready(0);
    ready(1);
    for (int i = 0; i < 4; i++)
        elastic(i);
    assert_string_equal(STEP(RG_MEMBERSHIP_DRAIN, .name = 1), "+2:2*2");
    ready(2);
    meets(4, 0, false);
    assert_string_equal(meets(5, 0, false), "update 3");
    for (int i = 0; i < 3; i++)
        meets(i, 1, false);
    assert_string_equal(meets(3, 1, false), "epoch 2/1: 0 1 4 5, term 2, term 3");
    assert_string_equal(WANTED(0, 4, 2), "");
}

RULE(updates_wait_until_all_can_hear_them)
{
    WANTED(2, 2);
    ready(0);
    ready(1);
    elastic(0);
    assert_string_equal(WANTED(2), "");
    assert_string_equal(after(30 * S), "update 1");
}

/* --- restarts --------------------------------------------------------------------------------- */

RULE(ranks_that_cannot_meet_are_all_started_again)
{
    WANTED(2, 2);
    ready(0);
    ready(1);
    assert_string_equal(fails(3), "term 2, aside 1, restart, term 0, term 1");
    assert_int_equal(rg_membership_restarts(m), 1);
    ends(0, false);
    assert_string_equal(ends(2, false), "free 1");
    assert_string_equal(ends(1, false), "epoch 2/1: 0 1, start 0");
}

RULE(in_a_restart_only_the_first_failure_counts)
{
    WANTED(2, 2);
    ready(0);
    ready(1);
    fails(3);
    assert_string_equal(fails(0), "");
    struct rg_membership_aside aside;
    assert_false(rg_membership_aside(m, 0, &aside));
}

RULE(who_was_cut_off_is_not_to_blame)
{
    struct rg_membership_aside aside;

    WANTED(2, 2);
    ready(0);
    ready(1);
    assert_string_equal(STEP(RG_MEMBERSHIP_RANK_ENDED, .place = 0, .cut_by = 3),
                        "restart, term 1, term 2, term 3");
    assert_string_equal(fails(3), "aside 1");
    assert_false(rg_membership_aside(m, 0, &aside));
}

RULE(accuser_is_to_blame_if_the_accused_was_well)
{
    WANTED(2, 2);
    ready(0);
    ready(1);
    STEP(RG_MEMBERSHIP_RANK_ENDED, .place = 0, .cut_by = 3);
    assert_string_equal(ends(3, false), "aside 0");
}

RULE(new_machine_waits_until_it_is_clear_who_can_meet)
{
    WANTED(2, 2);
    ready(0);
    ready(1);
    WANTED(2, 2, 2);
    assert_string_equal(ready(2), "");
    assert_string_equal(after(30 * S), "restart, term 0, term 1, term 2, term 3");
}

RULE(restart_keeps_the_machine_that_has_tries_left)
{
    rules.way = RG_MEMBERSHIP_RESTART;
    rules.tries = 0;
    rules.reset_limit = 1;
    WANTED(2);
    ready(0);
    assert_string_equal(fails(1), "restart, term 0");
    assert_string_equal(ends(0, false), "epoch 2/1: 0 1, start 0");
    assert_string_equal(fails(0), "end reset limit");
}

RULE(restart_leaves_the_machine_that_is_at_fault)
{
    rules.way = RG_MEMBERSHIP_RESTART;
    rules.tries = 0;
    rules.cooldown_min_ns = 60 * S;
    rules.cooldown_max_ns = 60 * S;
    WANTED(1, 1);
    ready(0);
    ready(1);
    assert_string_equal(STEP(RG_MEMBERSHIP_RANK_ENDED, .place = 1, .cut_by = -1, .faulty = true),
                        "aside 1, free 1, restart, term 0");
    assert_string_equal(ends(0, false), "epoch 2/1: 0, start 0");
    lost(1, false);
    assert_string_equal(after(60 * S), "back 1, +2:1*1");
}

RULE(machine_at_fault_has_no_tries_left)
{
    rules.tries = 2;
    run_two_by_two();
    assert_string_equal(STEP(RG_MEMBERSHIP_RANK_ENDED, .place = 2, .cut_by = -1, .faulty = true),
                        "term 3, aside 1");
}

/* --- the end ---------------------------------------------------------------------------------- */

RULE(all_that_end_well_are_done)
{
    run_two_by_two();
    assert_string_equal(ends(2, true), "");
    assert_string_equal(WANTED(2, 2, 2), "");
    ends(0, true);
    ends(3, true);
    assert_string_equal(ends(1, true), "end all done");
}

RULE(joiners_are_not_wanted_once_one_has_finished)
{
    run_two_by_two();
    WANTED(2, 2, 1);
    ready(2);
    assert_string_equal(ends(2, true), "term 4");
}

RULE(the_rest_meets_however_few_they_are)
{
    rules.min_np = 2;
    run_two_by_two();
    ends(2, true);
    assert_string_equal(lost(0, true), "aside 0");
    assert_string_equal(meets(3, 1, true), "epoch 2/1: 3");
    assert_string_equal(ends(3, true), "end all done");
}

RULE(failure_that_leaves_nobody_is_the_jobs)
{
    run_two_by_two();
    ends(0, true);
    ends(1, true);
    ends(2, true);
    assert_string_equal(fails(3), "aside 1, free 1, end all failed");
}

RULE(nothing_starts_again_where_some_have_ended_well)
{
    WANTED(2, 2);
    ready(0);
    ready(1);
    ends(0, true);
    assert_string_equal(fails(1), "aside 0, free 0, end one failed");
}

RULE(nothing_follows_a_stop)
{
    run_two_by_two();
    assert_string_equal(STEP(.type = RG_MEMBERSHIP_STOP), "");
    assert_string_equal(fails(1), "");
}

/* --- the fixed job ---------------------------------------------------------------------------- */

static void fix(int np)
{
    rules.elastic = false;
    rules.np = rules.min_np = rules.max_np = np;
    rules.timeout_ns = 0;
}

RULE(fixed_job_begins_when_all_are_there)
{
    fix(3);
    assert_string_equal(WANTED(2, 1), "+0:0*2, +1:1*1");
    assert_string_equal(ready(0), "");
    assert_int_equal(rg_membership_deadline_ns(m), RG_NEVER_NS);
    assert_string_equal(ready(1), "start 0, start 1");
    assert_int_equal(rg_membership_rank(m, 2), 2);
    assert_int_equal(rg_membership_epoch(m).number, 0);
    ends(0, true);
    ends(2, true);
    assert_string_equal(ends(1, true), "end all done");
}

RULE(fixed_job_ends_with_its_first_failure)
{
    fix(3);
    WANTED(2, 1);
    ready(0);
    ready(1);
    ends(0, true);
    assert_string_equal(fails(1), "end one failed");
    assert_string_equal(fails(2), "");
}

RULE(fixed_job_ends_with_the_first_lost_host)
{
    fix(3);
    WANTED(2, 1);
    assert_string_equal(lost(1, true), "end one failed");
}

/* --- bad input -------------------------------------------------------------------------------- */

RULE(what_cannot_be_changes_nothing)
{
    run_two_by_two();
    assert_string_equal(fails(-1), "");
    assert_string_equal(fails(4), "");
    assert_string_equal(lost(-1, true), "");
    assert_string_equal(lost(2, true), "");
    assert_string_equal(ready(0), "");
    assert_string_equal(meets(0, 0, true), "");
    assert_string_equal(meets(0, 7, true), "");
    assert_string_equal(STEP(RG_MEMBERSHIP_DRAIN, .name = -1), "");
    assert_string_equal(STEP(RG_MEMBERSHIP_DRAIN, .name = 32), "");
    const struct rg_membership_machine list[] = { { -1, 1 }, { 40, 1 }, { 1, -5 }, { 0, 2 },
                                                  { 1, 2 } };
    assert_string_equal(STEP(RG_MEMBERSHIP_WANTED, .wanted = list, .nwanted = 5), "");
    assert_int_equal(rg_membership_deadline_ns(m), RG_NEVER_NS); /* nobody has met, or is lost */
}

RULE(room_that_is_used_up_is_said)
{
    rules.room_hosts = 1;
    rules.np = 3;
    assert_string_equal(WANTED(2, 1), "+0:0*2");
    rules.room_places = 3;
    assert_string_equal(after(600 * S), "end no room");
}

static void refuse(struct rg_membership_rules contradiction)
{
    assert_int_equal(rg_membership_create(&contradiction, now, &m), -EINVAL);
    assert_null(m);
}

RULE(rules_that_contradict_each_other_are_refused)
{
    struct rg_membership_rules sound = { .np = 2, .min_np = 2, .max_np = 2, .room_hosts = 1,
                                         .room_places = 2, .tries = 1 };

#define REFUSE(field, value)                                                                     \
    rules = sound, rules.field = value;                                                          \
    refuse(rules)

    REFUSE(min_np, 0);
    REFUSE(min_np, 3);
    REFUSE(max_np, 1);
    REFUSE(room_places, 1);
    REFUSE(room_hosts, 0);
    REFUSE(tries, 0);
    REFUSE(reset_limit, -2);
    REFUSE(spares, -1);
    sound.max_np = 0;
    REFUSE(spares, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_slots_are_used_and_the_epoch_comes_before_its_ranks),
        TEST(max_np_bounds_what_is_used), TEST(hosts_that_are_late_are_waited_for_briefly),
        TEST(fewer_than_np_end_the_job_in_time), TEST(what_one_list_cannot_give_is_not_waited_for),
        TEST(machines_that_cannot_be_reached_are_set_aside),
        TEST(hosts_that_are_lost_in_vain_again_and_again_set_their_machine_aside),
        TEST(hosts_that_are_lost_now_and_then_are_no_sign),
        TEST(machine_that_is_listed_twice_has_both_slots),
        TEST(who_has_come_to_meet_and_who_is_awaited_is_known),
        TEST(failure_sets_its_machine_aside_and_survivors_meet),
        TEST(lost_host_is_a_failure_of_all_its_ranks), TEST(who_does_not_come_to_meet_is_ended),
        TEST(who_does_not_end_is_killed),
        TEST(host_that_is_released_early_is_released_again_when_it_is_ready),
        TEST(without_a_grace_the_kill_follows_at_once), TEST(too_few_survivors_wait_for_others),
        TEST(all_that_failed_end_the_job), TEST(others_go_on_by_themselves_when_all_have_failed),
        TEST(cooldown_ends_and_doubles), TEST(further_tries_use_other_places),
        TEST(reset_limit_ends_the_change_that_is_too_much), TEST(rank_0_is_one_that_has_the_state),
        TEST(who_never_got_it_is_as_new), TEST(no_sync_where_all_have_left_in_order),
        TEST(machine_that_goes_hands_the_state_over),
        TEST(joiners_are_announced_when_all_of_them_have_come),
        TEST(machines_that_come_together_are_taken_together), TEST(but_not_longer_than_gather_ns),
        TEST(joiner_that_never_comes_is_ended), TEST(who_could_still_compute_alone_is_waited_for),
        TEST(joiner_that_fails_takes_the_members_of_its_machine_with_it),
        TEST(machine_that_goes_and_dies_has_not_failed), TEST(no_machine_goes_below_min_np),
        TEST(slots_shrink_from_the_last_and_grow_as_a_new_host),
        TEST(drained_machine_is_replaced_and_not_used_again),
        TEST(updates_wait_until_all_can_hear_them),
        TEST(ranks_that_cannot_meet_are_all_started_again),
        TEST(in_a_restart_only_the_first_failure_counts), TEST(who_was_cut_off_is_not_to_blame),
        TEST(accuser_is_to_blame_if_the_accused_was_well),
        TEST(new_machine_waits_until_it_is_clear_who_can_meet),
        TEST(restart_keeps_the_machine_that_has_tries_left),
        TEST(restart_leaves_the_machine_that_is_at_fault),
        TEST(machine_at_fault_has_no_tries_left), TEST(all_that_end_well_are_done),
        TEST(joiners_are_not_wanted_once_one_has_finished),
        TEST(the_rest_meets_however_few_they_are), TEST(failure_that_leaves_nobody_is_the_jobs),
        TEST(nothing_starts_again_where_some_have_ended_well), TEST(nothing_follows_a_stop),
        TEST(fixed_job_begins_when_all_are_there), TEST(fixed_job_ends_with_its_first_failure),
        TEST(fixed_job_ends_with_the_first_lost_host), TEST(what_cannot_be_changes_nothing),
        TEST(room_that_is_used_up_is_said), TEST(rules_that_contradict_each_other_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
