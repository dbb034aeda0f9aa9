/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/session/elastic/epoch.h"
#include "unit.h"

static struct rg_plan plan;
static struct rg_epoch_seats seats;

static int set_up(void **state)
{
    (void) state;
    plan = (struct rg_plan){ 0 };
    seats = (struct rg_epoch_seats){ 0 };
    return rg_plan_open(&plan, 4, 8) == 0 ? rg_epoch_seats_init(&seats, 8) : -1;
}

static int tear_down(void **state)
{
    (void) state;
    rg_epoch_seats_fini(&seats);
    rg_plan_fini(&plan);
    return 0;
}

static void add(const char *name, int nslots)
{
    assert_int_equal(rg_plan_add_host(&plan, name, NULL, nslots), 0);
}

static void take(uint32_t number, const int *places, int size)
{
    struct rg_membership_epoch epoch = { .number = number, .size = size, .places = places };

    assert_int_equal(rg_epoch_seats_take(&seats, &epoch, &plan), 0);
}

static void assert_seat(int rank, int local_rank, int local_size, int cross_rank, int cross_size,
                        int group)
{
    const struct rg_plan_seat *seat = &seats.seats[rank];

    assert_int_equal(seat->rank, rank);
    assert_int_equal(seat->size, seats.nseats);
    assert_int_equal(seat->local_rank, local_rank);
    assert_int_equal(seat->local_size, local_size);
    assert_int_equal(seat->cross_rank, cross_rank);
    assert_int_equal(seat->cross_size, cross_size);
    assert_int_equal(seat->group, group);
}

static void hosts_and_places_are_appended_while_there_is_room(void **state)
{
    (void) state;
    add("a", 2);
    add("b", 3);
    assert_int_equal(plan.nhosts, 2);
    assert_int_equal(plan.nranks, 5);
    assert_int_equal(plan.ranks[4].host, 1);
    assert_int_equal(plan.ranks[4].local_rank, 2);
    assert_int_equal(plan.hosts[1].first_rank_index, 2);
    assert_int_equal(rg_plan_add_host(&plan, "c", "me", 4), -ENOSPC);
    add("c", 3);
    add("a", 0);
    assert_int_equal(rg_plan_add_host(&plan, "d", NULL, 0), -ENOSPC);
    assert_string_equal(plan.hosts[3].name, "a");
}

static void ranks_are_numbered_within_and_across_hosts(void **state)
{
    (void) state;
    add("a", 2);
    add("b", 3);
    add("c", 1);
    take(1, (const int[]){ 0, 1, 2, 3, 4, 5 }, 6);
    assert_seat(0, 0, 2, 0, 3, 0);
    assert_seat(1, 1, 2, 0, 2, 0);
    assert_seat(3, 1, 3, 1, 2, 1);
    assert_seat(4, 2, 3, 0, 1, 1);
    assert_seat(5, 0, 1, 2, 3, 2);
    assert_int_equal(seats.first_host, 0);
}

static void the_next_epoch_knows_nothing_of_those_that_left(void **state)
{
    (void) state;
    add("a", 2);
    add("b", 2);
    take(1, (const int[]){ 0, 1, 2, 3 }, 4);
    add("c", 2);
    take(2, (const int[]){ 3, 2, 5 }, 3);
    assert_int_equal(seats.rank_of[0], -1);
    assert_int_equal(seats.rank_of[4], -1);
    assert_int_equal(seats.rank_of[3], 0);
    assert_seat(0, 0, 2, 0, 2, 0);
    assert_seat(1, 1, 2, 0, 1, 0);
    assert_seat(2, 0, 1, 1, 2, 1);
    assert_int_equal(seats.first_host, 1);
}

static void a_host_is_told_of_its_own_places_alone(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    add("a", 2);
    add("b", 2);
    take(7, (const int[]){ 2, 3, 1 }, 3);
    rg_epoch_seats_of(&seats, &plan, 1, &text);
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(&text), rg_buf_nbytes(&text));
    const uint32_t numbers[] = { 2, 0, 0, 2, 0, 2, 3, 1, 1, 2, 0, 1 };
    for (size_t i = 0; i < rg_array_len(numbers); i++)
        assert_int_equal(rg_reader_u32(&reader), numbers[i]);
    assert_int_equal(rg_reader_done(&reader), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hosts_and_places_are_appended_while_there_is_room, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(ranks_are_numbered_within_and_across_hosts, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_next_epoch_knows_nothing_of_those_that_left, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_host_is_told_of_its_own_places_alone, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
