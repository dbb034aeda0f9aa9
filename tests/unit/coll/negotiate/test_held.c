/* SPDX-License-Identifier: Apache-2.0 */
/* What goes up of what several sources offer, and the tree that they stand in. */
#include "unit.h"

#include "base/time.h"
#include "coll/negotiate/order_held.h"
#include "coll/negotiate/tree_shape.h"

enum { NSOURCES = 3, TOLD_MAX = 64 };

/* Of children 1 and 2, the second has one below it. */
static const int nnodes[NSOURCES] = { 1, 1, 2 };

struct told {
    int n;
    struct {
        int source, type, nnumbers;
        uint32_t numbers[8];
        uint64_t epoch;
        char name[24], text[24];
    } frames[TOLD_MAX];
};

static void tell(void *arg, int source, const struct rg_order_frame *frame)
{
    struct told *told = arg;
    int i = told->n++;

    assert_true(told->n < TOLD_MAX && frame->nnumbers <= 8);
    told->frames[i].source = source;
    told->frames[i].type = frame->type;
    told->frames[i].epoch = frame->epoch;
    told->frames[i].nnumbers = (int) frame->nnumbers;
    if (frame->nnumbers)
        memcpy(told->frames[i].numbers, frame->numbers, frame->nnumbers * sizeof(uint32_t));
    snprintf(told->frames[i].name, 24, "%s", frame->name ? frame->name : "");
    snprintf(told->frames[i].text, 24, "%s", frame->text ? frame->text : "");
}

static struct rg_held *new_held(struct told *told)
{
    struct rg_held_options options = { .nsources = NSOURCES, .nnodes = nnodes, .tell = tell,
                                       .arg = told };
    struct rg_held *held;

    memset(told, 0, sizeof(*told));
    assert_int_equal(rg_held_create(&options, &held), 0);
    return held;
}

static void expect_numbers(const struct told *told, int i, int source, int n, const uint32_t *ids)
{
    assert_true(i < told->n);
    assert_int_equal(told->frames[i].source, source);
    assert_int_equal(told->frames[i].type, RG_ORDER_OFFER);
    assert_int_equal(told->frames[i].nnumbers, n);
    assert_memory_equal(told->frames[i].numbers, ids, (size_t) n * sizeof(*ids));
}

static struct rg_order_frame new_offer(const char *name, int64_t count)
{
    return (struct rg_order_frame) {
        .type = RG_ORDER_OFFER_NEW, .name = name, .text = "",
        .sig = { .kind = REIGEN_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM, .ndim = 1,
                 .prescale = 1.0, .postscale = 1.0, .shape = { count } },
    };
}

static void one_offer_speaks_for_all_and_numbers_travel_together(void **state)
{
    struct told told;
    struct rg_held *held = new_held(&told);

    (void) state;
    for (int source = NSOURCES - 1; source >= 0; source--) {
        assert_int_equal(rg_held_offer(held, source, 7, 0), 0);
        assert_int_equal(rg_held_offer(held, source, 5, 0), 0);
        assert_int_equal(told.n, 0);
    }
    assert_int_equal(rg_held_offer(held, 1, 9, 0), 0);
    rg_held_flush(held);
    assert_int_equal(told.n, 1);
    expect_numbers(&told, 0, RG_HELD_WHOLE, 2, (const uint32_t[]) { 7, 5 });
    rg_held_flush(held);
    assert_int_equal(told.n, 1);
    rg_held_destroy(held);
}

static void who_offers_twice_or_late_is_refused(void **state)
{
    struct told told;
    struct rg_held *held = new_held(&told);

    (void) state;
    assert_int_equal(rg_held_offer(held, 1, 4, 0), 0);
    assert_int_equal(rg_held_offer(held, 1, 4, 0), -EPROTO);
    assert_int_equal(rg_held_offer(held, 0, 4, 0), 0);
    assert_int_equal(rg_held_offer(held, 2, 4, 0), 0);
    assert_int_equal(rg_held_offer(held, 1, 4, 0), -EPROTO);
    rg_held_decided(held, 4, "a");
    assert_int_equal(told.n, 1);
    assert_int_equal(told.frames[0].epoch, 0);
    /* It had not heard of the decision. */
    assert_int_equal(rg_held_offer(held, 1, 4, 0), -EPROTO);
    assert_int_equal(rg_held_offer(held, 1, 4, 1), 0);
    assert_int_equal(rg_held_epoch(held), 1);
    rg_held_destroy(held);
}

static void what_waits_for_long_goes_by_itself_and_once(void **state)
{
    struct told told;
    struct rg_held *held = new_held(&told);
    uint64_t now_ns = rg_now_ns();

    (void) state;
    rg_held_offer(held, 0, 1, 0);
    rg_held_offer(held, 2, 1, 0);
    rg_held_look(held, now_ns);
    assert_int_equal(told.n, 0);
    rg_held_look(held, rg_now_ns() + RG_HELD_NS + 1);
    assert_int_equal(told.n, 2);
    expect_numbers(&told, 0, 0, 1, (const uint32_t[]) { 1 });
    expect_numbers(&told, 1, 2, 1, (const uint32_t[]) { 1 });
    rg_held_look(held, rg_now_ns() + 2 * RG_HELD_NS);
    assert_int_equal(told.n, 2);
    /* The last one makes it whole, for the leaders above. */
    rg_held_offer(held, 1, 1, 0);
    rg_held_flush(held);
    assert_int_equal(told.n, 3);
    expect_numbers(&told, 2, RG_HELD_WHOLE, 1, (const uint32_t[]) { 1 });
    rg_held_decided(held, 1, "a");
    rg_held_offer(held, 1, 1, 1);
    rg_held_flush(held);
    assert_int_equal(told.n, 3);
    rg_held_destroy(held);
}

static void what_could_be_overtaken_is_told_first(void **state)
{
    struct told told;
    struct rg_held *held = new_held(&told);

    (void) state;
    rg_held_offer(held, 0, 1, 0);
    rg_held_offer(held, 2, 1, 0);
    rg_held_offer(held, 2, 2, 0);
    rg_held_spill(held, 2);
    assert_int_equal(told.n, 1);
    expect_numbers(&told, 0, 2, 2, (const uint32_t[]) { 1, 2 });
    rg_held_offer(held, 1, 1, 0);
    rg_held_flush(held);
    assert_int_equal(told.n, 2);
    expect_numbers(&told, 1, RG_HELD_WHOLE, 1, (const uint32_t[]) { 1 });
    rg_held_destroy(held);
}

static void who_has_joined_is_not_waited_for(void **state)
{
    struct told told;
    struct rg_held *held = new_held(&told);

    (void) state;
    rg_held_offer(held, 0, 1, 0);
    rg_held_offer(held, 1, 1, 0);
    rg_held_join(held, 2);
    rg_held_flush(held);
    assert_int_equal(told.n, 0); /* one of two */
    rg_held_join(held, 2);
    rg_held_flush(held);
    assert_int_equal(told.n, 1);
    expect_numbers(&told, 0, RG_HELD_WHOLE, 1, (const uint32_t[]) { 1 });
    rg_held_new_round(held);
    rg_held_decided(held, 1, "a");
    rg_held_offer(held, 0, 1, 1);
    rg_held_offer(held, 1, 1, 1);
    rg_held_flush(held);
    assert_int_equal(told.n, 1);
    rg_held_destroy(held);
}

/* Of what it had begun directly before it joined, and what is void now. */
static void who_has_joined_offers_by_itself(void **state)
{
    struct rg_order_frame a = new_offer("a", 4);
    struct told told;
    struct rg_held *held = new_held(&told);

    (void) state;
    rg_held_join(held, 0);
    assert_int_equal(rg_held_offer(held, 0, 1, 0), 0);
    rg_held_flush(held);
    assert_int_equal(told.n, 1);
    expect_numbers(&told, 0, 0, 1, (const uint32_t[]) { 1 });
    assert_int_equal(rg_held_offer(held, 1, 1, 0), 0);
    assert_int_equal(rg_held_offer(held, 2, 1, 0), 0);
    rg_held_flush(held);
    assert_int_equal(told.n, 2);
    expect_numbers(&told, 1, RG_HELD_WHOLE, 1, (const uint32_t[]) { 1 });
    /* And after the others have offered all that they owe. */
    assert_int_equal(rg_held_offer(held, 1, 2, 0), 0);
    assert_int_equal(rg_held_offer(held, 2, 2, 0), 0);
    assert_int_equal(rg_held_offer(held, 0, 2, 0), 0);
    assert_int_equal(rg_held_offer(held, 0, 2, 0), -EPROTO);
    rg_held_flush(held);
    assert_int_equal(told.n, 4);
    expect_numbers(&told, 2, 0, 1, (const uint32_t[]) { 2 });
    expect_numbers(&told, 3, RG_HELD_WHOLE, 1, (const uint32_t[]) { 2 });
    assert_int_equal(rg_held_offer_new(held, 1, &a), 0);
    assert_int_equal(rg_held_offer_new(held, 2, &a), 0);
    assert_int_equal(rg_held_offer_new(held, 0, &a), 0);
    assert_int_equal(told.n, 6);
    assert_int_equal(told.frames[4].source, RG_HELD_WHOLE);
    assert_int_equal(told.frames[5].source, 0);
    rg_held_destroy(held);
}

static void a_number_that_is_called_in_is_not_kept_back(void **state)
{
    struct told told;
    struct rg_held *held = new_held(&told);

    (void) state;
    rg_held_offer(held, 1, 1, 0);
    rg_held_evict(held, 1);
    assert_int_equal(told.n, 1);
    rg_held_offer(held, 2, 1, 0);
    rg_held_flush(held);
    assert_int_equal(told.n, 2);
    expect_numbers(&told, 1, 2, 1, (const uint32_t[]) { 1 });
    /* It stands for another name. */
    rg_held_decided(held, 1, "b");
    rg_held_offer(held, 2, 1, 1);
    rg_held_flush(held);
    assert_int_equal(told.n, 2);
    rg_held_destroy(held);
}

static void what_went_up_as_a_whole_is_not_told_again_when_its_number_is_called_in(void **state)
{
    struct told told;
    struct rg_held *held = new_held(&told);

    (void) state;
    for (int source = 0; source < 3; source++)
        rg_held_offer(held, source, 1, 0);
    rg_held_flush(held);
    assert_int_equal(told.n, 1);
    rg_held_evict(held, 1); /* said before that offer came to where it is decided */
    assert_int_equal(told.n, 1);
    rg_held_destroy(held);
}

static void names_come_together_but_for_what_differs(void **state)
{
    struct rg_order_frame a = new_offer("a", 4), other = new_offer("a", 5), bad = new_offer("b", 4);
    struct told told;
    struct rg_held *held = new_held(&told);

    (void) state;
    bad.text = "broken";
    assert_int_equal(rg_held_offer_new(held, 0, &a), 0);
    assert_int_equal(rg_held_offer_new(held, 1, &a), 0);
    assert_int_equal(rg_held_offer_new(held, 1, &a), -EPROTO);
    assert_int_equal(told.n, 0);
    assert_int_equal(rg_held_offer_new(held, 2, &other), 0);
    assert_int_equal(told.n, 2);
    assert_int_equal(told.frames[0].source, 2);
    assert_int_equal(told.frames[1].source, RG_HELD_WHOLE);
    assert_string_equal(told.frames[1].name, "a");
    rg_held_decided(held, 0, "a");
    assert_int_equal(rg_held_offer_new(held, 1, &a), 0);
    assert_int_equal(rg_held_offer_new(held, 1, &bad), 0);
    assert_int_equal(told.n, 3);
    assert_int_equal(told.frames[2].source, 1);
    assert_string_equal(told.frames[2].text, "broken");
    rg_held_destroy(held);
}

static void all_leaders_stand_below_their_parents(void **state)
{
    static const int sizes[] = { 1, 2, 3, 4, 8, 17, 18, 64, 273, 1024 };
    int below[1024];

    (void) state;
    for (int degree = 2; degree <= 32; degree += degree < 4 ? 1 : 7)
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            int n = sizes[k], seen = 1;

            for (int node = 0; node < n; node++) {
                int first = -1, count = rg_tree_children(degree, n, node, &first), sum = 1;

                assert_in_range(count, 0, degree);
                for (int i = 0; i < count; i++) {
                    assert_int_equal(rg_tree_parent(degree, first + i), node);
                    sum += rg_tree_below(degree, n, first + i, NULL);
                }
                seen += count;
                assert_int_equal(rg_tree_below(degree, n, node, below), sum);
                for (int i = 0; i < sum; i++) {
                    assert_true(rg_tree_is_below(degree, below[i], node));
                    assert_true(i == 0 || below[i] > below[i - 1]);
                }
            }
            assert_int_equal(seen, n);
            assert_int_equal(rg_tree_below(degree, n, 0, NULL), n);
        }
    assert_false(rg_tree_is_below(2, 2, 1));
    assert_false(rg_tree_is_below(2, 0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_offer_speaks_for_all_and_numbers_travel_together),
        cmocka_unit_test(who_offers_twice_or_late_is_refused),
        cmocka_unit_test(what_waits_for_long_goes_by_itself_and_once),
        cmocka_unit_test(what_could_be_overtaken_is_told_first),
        cmocka_unit_test(who_has_joined_is_not_waited_for),
        cmocka_unit_test(who_has_joined_offers_by_itself),
        cmocka_unit_test(a_number_that_is_called_in_is_not_kept_back),
        cmocka_unit_test(what_went_up_as_a_whole_is_not_told_again_when_its_number_is_called_in),
        cmocka_unit_test(names_come_together_but_for_what_differs),
        cmocka_unit_test(all_leaders_stand_below_their_parents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
