/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "coll/observe/stall_facts.h"
#include "coll/observe/stuck.h"
#include "unit.h"

static void set(struct rg_stall_facts *facts, const char *name, uint64_t age_ms,
                const char *states)
{
    struct rg_stall_op *op = rg_stall_facts_op(facts, name);

    assert_non_null(op);
    assert_int_equal(strlen(states), facts->nranks);
    op->age_ms = age_ms;
    strcpy(op->states, states);
}

static void assert_told(const struct rg_stall_facts *facts, const char *expected)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;

    rg_stall_facts_tell(facts, 1000, &out);
    assert_string_equal(rg_buf_text(&out), expected);
}

static void ranks_are_put_together_and_numbered_as_in_the_job(void **state)
{
    static const int world[] = { 1, 2, 3, 5, 6, 8 };
    struct rg_stall_facts facts;
    rg_autobuf struct rg_buf list = RG_BUF_INIT;

    (void) state;
    assert_int_equal(rg_stall_facts_init(&facts, 6, world), 0);
    set(&facts, "allreduce.a", 5000, "ooowoj");
    set(&facts, "allreduce.young", 10, "owwwww");
    set(&facts, "allreduce.done", 5000, "wwwwww");
    facts.who[4].detail = strdup("on b: process 7 is stopped");
    assert_told(&facts, "Ranks 1-3, 6 have not called allreduce.a.\n"
                        "Rank 6 on b: process 7 is stopped.\n");
    rg_stall_facts_list(&facts, 1000, &list);
    assert_string_equal(rg_buf_text(&list), "\n1: [allreduce.a]\n2: [allreduce.a]\n"
                                            "3: [allreduce.a]\n6: [allreduce.a]");
    rg_stall_facts_fini(&facts);
}

static void a_group_is_named_for_people_but_not_in_the_list_for_programs(void **state)
{
    struct rg_stall_facts facts;
    rg_autobuf struct rg_buf list = RG_BUF_INIT, names = RG_BUF_INIT, one = RG_BUF_INIT;

    (void) state;
    assert_int_equal(rg_stall_facts_init(&facts, 2, NULL), 0);
    set(&facts, "allreduce.2.bias+3:ebd1a9cbc3180515", 5000, "ow");
    set(&facts, "allreduce.a+b", 5000, "ow");
    set(&facts, "allgather.a+1:b", 5000, "wo");
    assert_told(&facts, "Rank 0 has not called allreduce of 2.bias and 3 more, allreduce.a+b; it "
                        "has called allgather of a and 1 more.\n"
                        "Rank 1 has not called allgather of a and 1 more; it has called allreduce "
                        "of 2.bias and 3 more, allreduce.a+b.\n");
    rg_stall_key_print("allreduce.2.bias+0:ebd1a9cbc3180515", &one);
    assert_string_equal(rg_buf_text(&one), "allreduce.2.bias");
    rg_stall_facts_name(&facts, 1000, &names);
    assert_string_equal(rg_buf_text(&names), "allreduce of 2.bias and 3 more, allreduce.a+b, "
                                             "allgather of a and 1 more");
    rg_stall_facts_list(&facts, 1000, &list);
    assert_string_equal(rg_buf_text(&list),
                        "\n0: [allreduce.2.bias+3:ebd1a9cbc3180515, allreduce.a+b]"
                        "\n1: [allgather.a+1:b]");
    rg_stall_facts_fini(&facts);
}

static void who_fails_is_told_of_in_one_line(void **state)
{
    static const int all[] = { 0, 1, 2 };
    struct rg_stall_facts facts, there;
    rg_autobuf struct rg_buf out = RG_BUF_INIT, text = RG_BUF_INIT;

    (void) state;
    assert_int_equal(rg_stall_facts_init(&facts, 3, NULL), 0);
    assert_int_equal(rg_stall_facts_init(&there, 3, NULL), 0);
    set(&facts, "allreduce.a", 5000, "owo");
    facts.who[0].fails = true;
    assert_false(rg_stall_facts_tell_failing(&facts, 1000, 5, &out));
    facts.who[2].fails = true;
    rg_stall_facts_put(&facts, all, 3, &text);
    rg_stall_facts_take(&there, all, 3, rg_buf_text(&text));
    assert_true(rg_stall_facts_tell_failing(&there, 1000, 5, &out));
    assert_string_equal(rg_buf_text(&out), "ranks 0 and 2 have failed by an error that nobody "
                        "caught, and have not ended yet; others have waited for 5 s\n");
    facts.who[2].fails = false; /* another one is missing, too: all is told */
    rg_buf_clear(&out);
    rg_stall_facts_tell(&facts, 1000, &out);
    assert_string_equal(rg_buf_text(&out), "Ranks 0 and 2 have not called allreduce.a.\n"
                        "Rank 0 failed by an error that nobody caught, and has not ended yet.\n");
    set(&facts, "allreduce.a", 5000, "www");
    assert_false(rg_stall_facts_tell_failing(&facts, 1000, 5, &out));
    rg_stall_facts_fini(&facts);
    rg_stall_facts_fini(&there);
}

static void who_comes_and_goes_is_told_of_once(void **state)
{
    struct rg_stall_facts facts;
    uint64_t told[4] = { 0 };

    (void) state;
    assert_int_equal(rg_stall_facts_init(&facts, 3, NULL), 0);
    set(&facts, "allreduce.a", 5000, "woo");
    assert_true(rg_stall_facts_is_news(&facts, 1000, told));
    assert_false(rg_stall_facts_is_news(&facts, 1000, told));
    facts.who[0].blocked = true; /* it waits, and no longer only has called */
    set(&facts, "allreduce.a", 8000, "wwo");
    assert_false(rg_stall_facts_is_news(&facts, 1000, told));
    set(&facts, "allreduce.a", 9000, "woo");
    set(&facts, "allreduce.b", 8000, "woo");
    assert_false(rg_stall_facts_is_news(&facts, 1000, told));
    set(&facts, "allreduce.a", 9000, "ooo");
    assert_true(rg_stall_facts_is_news(&facts, 1000, told));
    set(&facts, "allreduce.a", 9000, "wwo");
    set(&facts, "allreduce.c", 9500, "wwo");
    assert_true(rg_stall_facts_is_news(&facts, 1000, told));
    facts.who[2].blocked = true; /* now they wait for each other, and that once */
    set(&facts, "allreduce.d", 5000, "oww");
    assert_true(rg_stall_facts_is_news(&facts, 1000, told));
    facts.who[2].blocked = false;
    assert_false(rg_stall_facts_is_news(&facts, 1000, told));
    facts.who[2].blocked = true;
    assert_false(rg_stall_facts_is_news(&facts, 1000, told));
    rg_stall_facts_fini(&facts);
}

static void who_has_ended_a_loop_may_have_had_fewer_batches(void **state)
{
    static const char all[] = "Rank 0 has not called allreduce.val; it waits in allreduce.grad.\n"
                              "Rank 1 has not called allreduce.grad; it waits in allreduce.val.\n"
                              "This is a deadlock: ranks 0 and 1 wait for each other, and none of "
                              "them can go on. ";
    static const char branch[] = "All ranks must call the same operations: look for a branch that "
                                 "differs between ranks.\n";
    static const char fewer[] = "Rank 1 may have had fewer batches than the others: give all as "
                                "many (drop_last=True), or call join() behind the loop. Else look "
                                "for a branch that differs between ranks.\n";
    static const struct {
        uint64_t grad, val;
        const char *says;
    } cases[] = { { 0, 0, branch }, { 1, 0, branch }, { 20, 20, branch },
                  { 20, 0, fewer }, { 40, 1, fewer } };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_stall_facts facts;
        rg_autobuf struct rg_buf expected = RG_BUF_INIT;

        assert_int_equal(rg_stall_facts_init(&facts, 2, NULL), 0);
        facts.who[0].blocked = facts.who[1].blocked = true;
        set(&facts, "allreduce.grad", 5000, "wo");
        facts.ops[0].times = cases[i].grad;
        set(&facts, "allreduce.val", 5000, "ow");
        facts.ops[1].times = cases[i].val;
        rg_buf_printf(&expected, "%s%s", all, cases[i].says);
        assert_told(&facts, rg_buf_text(&expected));
        rg_stall_facts_fini(&facts);
    }
}

static void a_deadlock_needs_ranks_that_wait_for_each_other(void **state)
{
    struct rg_stall_facts facts;

    (void) state;
    assert_int_equal(rg_stall_facts_init(&facts, 3, NULL), 0);
    set(&facts, "allreduce.x", 5000, "wow");
    set(&facts, "allreduce.y", 5000, "owo");
    facts.who[0].blocked = true;
    facts.who[2].blocked = true;
    assert_told(&facts, "Ranks 0 and 2 have not called allreduce.y; they wait in allreduce.x.\n"
                        "Rank 1 has not called allreduce.x; it has called allreduce.y.\n");
    facts.who[1].blocked = true;
    assert_told(&facts, "Ranks 0 and 2 have not called allreduce.y; they wait in allreduce.x.\n"
                        "Rank 1 has not called allreduce.x; it waits in allreduce.y.\n"
                        "This is a deadlock: ranks 0-2 wait for each other, and none of them can "
                        "go on. All ranks must call the same operations: look for a branch that "
                        "differs between ranks.\n");
    /* It is at rest only when none of them can do anything else. */
    facts.who[0].rests = facts.who[1].rests = true;
    assert_true(rg_stall_facts_is_deadlock(&facts, 1000, false));
    assert_false(rg_stall_facts_is_deadlock(&facts, 1000, true));
    facts.who[2].rests = true;
    assert_true(rg_stall_facts_is_deadlock(&facts, 1000, true));
    assert_false(rg_stall_facts_is_deadlock(&facts, 9000, true));
    /* All wait, in the end for the last one, who is not in. */
    set(&facts, "allreduce.x", 5000, "woo");
    set(&facts, "allreduce.y", 5000, "wwo");
    facts.who[2].blocked = false;
    assert_told(&facts, "Rank 1 has not called allreduce.x; it waits in allreduce.y.\n"
                        "Rank 2 has not called allreduce.x, allreduce.y.\n");
    rg_stall_facts_fini(&facts);
}

static void ranks_at_one_place_stand_in_one_line(void **state)
{
    struct rg_stall_facts facts;
    rg_autobuf struct rg_buf out = RG_BUF_INIT;

    (void) state;
    assert_int_equal(rg_stall_facts_init(&facts, 5, NULL), 0);
    set(&facts, "allreduce.grad", 5000, "wwwoo");
    for (int r = 0; r < 3; r++) {
        facts.who[r].blocked = true;
        rg_stall_facts_place(&facts, r, "train.py:57 in step", "");
    }
    rg_stall_facts_place(&facts, 3, "train.py:41 in load\nbatch", "read(/data/a)");
    rg_stall_facts_place(&facts, 4, "", "futex()");
    assert_told(&facts, "Ranks 3 and 4 have not called allreduce.grad.\n"
                        "Ranks 0-2 wait in allreduce.grad, at train.py:57 in step.\n"
                        "Rank 3 is at train.py:41 in load?batch, in read(/data/a).\n"
                        "Rank 4 is in futex().\n");
    rg_stall_facts_sum_up(&facts, 1000, &out);
    assert_string_equal(rg_buf_text(&out), "Ranks 3 and 4 have not called allreduce.grad. Rank 3 "
                                           "is at train.py:41 in load?batch.");
    rg_stall_facts_fini(&facts);
}

static bool is_over(const char *name, const char *states, int here, int nmissing)
{
    struct rg_stall_facts facts;
    bool over;

    assert_int_equal(rg_stall_facts_init(&facts, (int) strlen(states), NULL), 0);
    set(&facts, name, 2000, states);
    over = rg_stall_op_is_over(&facts.ops[0], here, nmissing);
    rg_stall_facts_fini(&facts);
    return over;
}

/* Leaders answer one after another. */
static void what_got_done_meanwhile_is_owed_by_nobody(void **state)
{
    (void) state;
    assert_true(is_over("allreduce.x", "?ww?", 0, 0));
    assert_true(is_over("allreduce.x", "ww?", 2, 0));
    assert_false(is_over("allreduce.x", "?ww?", 0, 1)); /* someone's offer is missing */
    assert_false(is_over("allreduce.x", "?wo?", 0, 0)); /* a rank says that it owes it */
    assert_false(is_over("allreduce.x", "www?", 0, 0)); /* this node waits for it, too */
    assert_false(is_over("allreduce.\n", "?ww?", 0, 0)); /* it may be known by another name */
}

static void what_a_node_says_is_understood_elsewhere(void **state)
{
    static const int theirs[] = { 1, 3 };
    struct rg_stall_facts from, to;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    assert_int_equal(rg_stall_facts_init(&from, 4, NULL), 0);
    assert_int_equal(rg_stall_facts_init(&to, 4, NULL), 0);
    set(&from, "allreduce.two words\n", 2500, "?w?o");
    from.who[3].blocked = true;
    from.who[3].detail = strdup("on c: process 9 is running");
    rg_stall_facts_place(&from, 3, "a.py:1 in f", "poll()");
    from.ops[0].times = 7;
    rg_stall_facts_unrest(&from, 3, "uses a\nprocessor");
    rg_stall_facts_put(&from, theirs, 2, &text);
    rg_stall_facts_take(&to, theirs, 2, rg_buf_text(&text));
    rg_stall_facts_take(&to, theirs, 2, "at x\ty\nat\nop\nop x\nop 5 w a\nop 5 wwa\nrank\n"
                        "rank b\nop 99\ntimes\ntimes 3\ntimes x y\ntimes 3 allreduce.two words?\n");
    assert_int_equal(to.ops[0].times, 7);
    assert_int_equal(to.nops, 1);
    assert_string_equal(to.ops[0].name, "allreduce.two words?");
    assert_string_equal(to.ops[0].states, "?w?o");
    assert_int_equal(to.ops[0].age_ms, 2500);
    assert_true(to.who[3].blocked && !to.who[1].blocked);
    assert_string_equal(to.who[3].detail, "on c: process 9 is running");
    assert_string_equal(to.who[3].place, "a.py:1 in f");
    assert_string_equal(to.who[3].call, "poll()");
    assert_string_equal(to.who[3].unrest, "uses a?processor");
    assert_true(!to.who[1].place && !to.who[1].call);
    rg_stall_facts_fini(&from);
    rg_stall_facts_fini(&to);
}

/* A frame has room for 64 KiB, and names may be long. */
static void what_a_node_says_of_processes_leaves_room_for_operations(void **state)
{
    struct rg_stall_facts facts;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int ranks[64];
    char states[65] = "";

    (void) state;
    assert_int_equal(rg_stall_facts_init(&facts, 64, NULL), 0);
    for (int r = 0; r < 64; r++) {
        ranks[r] = r;
        states[r] = r ? 'w' : 'o';
        facts.who[r].detail = rg_strf("on a: process 9 is sleeping; it called %0900d last", r);
    }
    set(&facts, "allreduce.a", 5000, states);
    rg_stall_facts_put(&facts, ranks, 64, &text);
    assert_contains(rg_buf_text(&text), " allreduce.a\n");
    assert_contains(rg_buf_text(&text), "called 0000");
    assert_true(rg_buf_nbytes(&text) < 16000);
    rg_stall_facts_fini(&facts);
}

static void who_is_stopped_is_looked_for_until_that_was_told(void **state)
{
    struct rg_stuck stuck = { 0 };

    (void) state;
    assert_false(rg_stuck_is_due(&stuck, 0, 3000));
    assert_false(rg_stuck_is_due(&stuck, 2900, 3000));
    for (uint64_t ms = 3900; ms < 50000; ms += 1000)
        assert_true(rg_stuck_is_due(&stuck, ms, 3000)); /* nobody is stopped, and nothing told */
    atomic_store(&stuck.told, true);
    for (uint64_t ms = 50000; ms < 96000; ms += 1000)
        assert_false(rg_stuck_is_due(&stuck, ms, 3000));
    assert_true(rg_stuck_is_due(&stuck, 96000, 3000));
    atomic_store(&stuck.told, true);
    assert_false(rg_stuck_is_due(&stuck, 97000, 3000));
    assert_false(rg_stuck_is_due(&stuck, 500, 3000)); /* the next operation */
    assert_true(rg_stuck_is_due(&stuck, 3500, 3000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_put_together_and_numbered_as_in_the_job),
        cmocka_unit_test(a_group_is_named_for_people_but_not_in_the_list_for_programs),
        cmocka_unit_test(who_fails_is_told_of_in_one_line),
        cmocka_unit_test(who_comes_and_goes_is_told_of_once),
        cmocka_unit_test(who_has_ended_a_loop_may_have_had_fewer_batches),
        cmocka_unit_test(a_deadlock_needs_ranks_that_wait_for_each_other),
        cmocka_unit_test(ranks_at_one_place_stand_in_one_line),
        cmocka_unit_test(what_got_done_meanwhile_is_owed_by_nobody),
        cmocka_unit_test(what_a_node_says_is_understood_elsewhere),
        cmocka_unit_test(what_a_node_says_of_processes_leaves_room_for_operations),
        cmocka_unit_test(who_is_stopped_is_looked_for_until_that_was_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
