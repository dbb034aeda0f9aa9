/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/time.h"
#include "coll/negotiate/order_decide.h"
#include "coll/negotiate/order_frames.h"
#include "coll/negotiate/order_known.h"
#include "coll/node/signature.h"

static struct rg_signature allreduce_of(int64_t count)
{
    return (struct rg_signature) { .kind = REIGEN_ALLREDUCE, .dtype = REIGEN_FLOAT32,
                                   .op = REIGEN_SUM, .ndim = 1, .prescale = 1.0,
                                   .postscale = 1.0, .shape = { count } };
}

static const int leaders[] = { 0, 2, 4, 6 };

static struct rg_decider *new_decider(int nnodes, size_t fusion_nbytes, int capacity)
{
    struct rg_decider_options options = { .nnodes = nnodes,
                                          .leaders = leaders,
                                          .fusion_nbytes = fusion_nbytes,
                                          .capacity = capacity };
    struct rg_decider *decider;

    assert_int_equal(rg_decider_create(&options, &decider), 0);
    return decider;
}

/* Of one node, which has heard of all decisions. */
static int offer(struct rg_decider *decider, int node, const char *name,
                 const struct rg_signature *sig, const char *text)
{
    struct rg_order_frame frame = { .type = RG_ORDER_OFFER_NEW, .epoch = UINT64_MAX, .name = name,
                                    .sig = *sig, .text = text };

    return rg_decider_offer(decider, &node, 1, &frame, 0);
}

static int offer_id(struct rg_decider *decider, int node, uint32_t id)
{
    struct rg_order_frame frame = { .type = RG_ORDER_OFFER, .epoch = UINT64_MAX };

    return rg_decider_offer(decider, &node, 1, &frame, id);
}

static void expect_none(struct rg_decider *decider)
{
    struct rg_order_frame frame;

    assert_int_equal(rg_decider_next(decider, &frame), 0);
}

static struct rg_order_frame expect(struct rg_decider *decider, int type)
{
    struct rg_order_frame frame = { 0 };

    assert_int_equal(rg_decider_next(decider, &frame), 1);
    assert_int_equal(frame.type, type);
    return frame;
}

static void an_operation_is_decided_when_all_nodes_have_offered_it(void **state)
{
    struct rg_decider *decider = new_decider(3, 0, 16);
    struct rg_signature sig = allreduce_of(4);
    bool missing[3];

    (void) state;
    assert_int_equal(rg_decider_missing(decider, "allreduce.a", missing), 0);
    for (int node = 0; node < 3; node++) {
        expect_none(decider);
        assert_int_equal(offer(decider, node, "allreduce.a", &sig, ""), 0);
        assert_int_equal(rg_decider_missing(decider, "allreduce.a", missing), 2 - node);
        for (int other = 0; other < 3; other++)
            assert_int_equal(missing[other], other > node);
    }
    struct rg_order_frame frame = expect(decider, RG_ORDER_DECIDED_NEW);

    assert_string_equal(frame.name, "allreduce.a");
    assert_string_equal(frame.text, "");
    assert_int_equal(frame.id, 1);
    expect_none(decider);
    /* The second time it goes by number, whoever offers how. */
    assert_int_equal(offer_id(decider, 2, 1), 0);
    assert_int_equal(offer_id(decider, 1, 1), 0);
    assert_int_equal(offer(decider, 0, "allreduce.a", &sig, ""), 0);
    frame = expect(decider, RG_ORDER_DECIDED);
    assert_int_equal(frame.id, 1);
    rg_decider_destroy(decider);
}

static void a_mismatch_between_nodes_names_both_ranks_and_the_job_goes_on(void **state)
{
    struct rg_decider *decider = new_decider(2, 0, 16);
    struct rg_signature a = allreduce_of(4), b = a;

    (void) state;
    b.dtype = REIGEN_INT64;
    offer(decider, 0, "allreduce.a", &a, "");
    offer(decider, 1, "allreduce.a", &b, "");
    struct rg_order_frame frame = expect(decider, RG_ORDER_DECIDED_NEW);

    assert_int_equal(frame.id, 0);
    assert_string_equal(frame.text, "allreduce.a: Mismatched data types: One rank had type "
                                    "float32, but another rank had type int64. (rank 0: "
                                    "float32, rank 2: int64)");
    expect_none(decider);
    assert_int_equal(rg_decider_count(decider), 0);
    offer(decider, 0, "allreduce.a", &a, "");
    offer(decider, 1, "allreduce.a", &a, "");
    frame = expect(decider, RG_ORDER_DECIDED_NEW);
    assert_string_equal(frame.text, "");
    expect_none(decider);
    rg_decider_destroy(decider);
}

static void an_error_found_inside_a_node_reaches_all(void **state)
{
    struct rg_decider *decider = new_decider(2, 0, 16);
    struct rg_signature sig = allreduce_of(4);

    (void) state;
    offer(decider, 1, "allreduce.a", &sig, "broken inside");
    offer(decider, 0, "allreduce.a", &sig, "");
    assert_string_equal(expect(decider, RG_ORDER_DECIDED_NEW).text, "broken inside");
    rg_decider_destroy(decider);
}

static void offering_twice_or_an_unknown_number_is_refused(void **state)
{
    struct rg_decider *decider = new_decider(2, 0, 16);
    struct rg_signature sig = allreduce_of(4);

    (void) state;
    assert_int_equal(offer_id(decider, 0, 1), -EPROTO);
    assert_int_equal(offer_id(decider, 0, 0), -EPROTO);
    assert_int_equal(offer(decider, 0, "x", &sig, ""), 0);
    assert_int_equal(offer(decider, 0, "x", &sig, ""), -EPROTO);
    assert_int_equal(rg_decider_evicted(decider, 7, 1), -EPROTO);
    rg_decider_destroy(decider);
}

static void joined_nodes_count_as_arrived_for_allreduces_only(void **state)
{
    struct rg_decider *decider = new_decider(2, 0, 16);
    struct rg_signature sum = allreduce_of(4), gather = sum;

    (void) state;
    gather.kind = REIGEN_ALLGATHER;
    offer(decider, 0, "allreduce.a", &sum, "");
    expect_none(decider);
    assert_int_equal(rg_decider_join(decider, 1, 3, true), 0);
    assert_int_equal(rg_decider_join(decider, 1, 3, true), -EPROTO);
    assert_string_equal(expect(decider, RG_ORDER_DECIDED_NEW).text, "");
    expect_none(decider);
    offer(decider, 0, "allgather.b", &gather, "");
    assert_string_equal(expect(decider, RG_ORDER_DECIDED_NEW).text,
                        "Allgather is not supported with Join at this time. Specify "
                        "sparse_to_dense=True if using DistributedOptimizer");
    expect_none(decider);
    assert_int_equal(rg_decider_join(decider, 0, 1, true), 0);
    assert_int_equal(expect(decider, RG_ORDER_JOINED).rank, 1);
    expect_none(decider);
    /* All are back. */
    offer(decider, 0, "allreduce.a", &sum, "");
    expect_none(decider);
    rg_decider_destroy(decider);
}

static void what_is_ready_together_is_fused_up_to_the_threshold(void **state)
{
    struct rg_decider *decider = new_decider(1, 100, 16);
    struct rg_signature small = allreduce_of(10), other = small, large = allreduce_of(1000);
    /* 40 bytes each: two fit, a third begins a run of its own; another type never joins in. */
    const struct { const char *name; const struct rg_signature *sig; int more; } list[] = {
        { "a", &small, 1 }, { "b", &small, 0 }, { "c", &small, 0 },
        { "d", &other, 0 }, { "e", &large, 0 }, { "f", &small, 0 } };

    (void) state;
    other.dtype = REIGEN_INT32;
    for (size_t i = 0; i < rg_array_len(list); i++)
        offer(decider, 0, list[i].name, list[i].sig, "");
    for (size_t i = 0; i < rg_array_len(list); i++) {
        struct rg_order_frame frame = expect(decider, RG_ORDER_DECIDED_NEW);

        assert_string_equal(frame.name, list[i].name);
        assert_int_equal(frame.flags & RG_ORDER_MORE, list[i].more);
    }
    rg_decider_destroy(decider);
}

static void ever_new_names_do_not_pile_up(void **state)
{
    struct rg_decider *decider = new_decider(2, 0, 16);
    struct rg_signature sig = allreduce_of(4);
    struct rg_order_frame frame;
    char name[32];

    (void) state;
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "allreduce.%d", i);
        offer(decider, 0, name, &sig, "");
        offer(decider, 1, name, &sig, "");
        while (rg_decider_next(decider, &frame) > 0)
            if (frame.type == RG_ORDER_EVICT)
                for (int node = 0; node < 2; node++)
                    assert_int_equal(rg_decider_evicted(decider, frame.id, 1), 0);
        assert_true(rg_decider_count(decider) < 40);
    }
    rg_decider_destroy(decider);
}

static void an_offer_by_a_number_called_in_is_still_understood(void **state)
{
    struct rg_decider *decider = new_decider(2, 0, 1);
    struct rg_signature sig = allreduce_of(4);
    struct rg_order_frame frame;
    uint32_t evicted = 0;
    char name[32];

    (void) state;
    for (int i = 0; !evicted && i < 20; i++) {
        snprintf(name, sizeof(name), "allreduce.%d", i);
        offer(decider, 0, name, &sig, "");
        offer(decider, 1, name, &sig, "");
        while (rg_decider_next(decider, &frame) > 0)
            if (frame.type == RG_ORDER_EVICT)
                evicted = frame.id;
    }
    assert_int_equal(evicted, 1);
    assert_int_equal(offer_id(decider, 1, evicted), 0);
    for (int node = 0; node < 2; node++)
        assert_int_equal(rg_decider_evicted(decider, evicted, 1), 0);
    assert_int_equal(offer(decider, 0, "allreduce.0", &sig, ""), 0);
    frame = expect(decider, RG_ORDER_DECIDED_NEW);
    assert_string_equal(frame.name, "allreduce.0");
    rg_decider_destroy(decider);
}

/* ------------------------------------------------------------ direct uses */

enum { DIRECTLY = RG_DIRECT_DOUBLING << RG_ORDER_WAY_SHIFT };

static uint8_t by_doubling(void *arg, const struct rg_signature *sig)
{
    (void) arg, (void) sig;
    return RG_DIRECT_DOUBLING;
}

/* A decider by which allreduce.a has number 1 and goes directly from use 1 on. */
static struct rg_decider *new_direct(int nnodes, int capacity)
{
    struct rg_decider_options options = { .nnodes = nnodes,
                                          .leaders = leaders,
                                          .capacity = capacity,
                                          .direct = by_doubling };
    struct rg_signature sig = allreduce_of(4);
    struct rg_decider *decider;
    struct rg_order_frame frame;

    assert_int_equal(rg_decider_create(&options, &decider), 0);
    for (int node = 0; node < nnodes; node++)
        assert_int_equal(offer(decider, node, "allreduce.a", &sig, ""), 0);
    frame = expect(decider, RG_ORDER_DECIDED_NEW);
    assert_int_equal(frame.id, 1);
    assert_int_equal(frame.seq, 1);
    assert_int_equal(frame.flags, DIRECTLY);
    expect_none(decider);
    return decider;
}

static void offer_everywhere(struct rg_decider *decider, const char *name,
                             const struct rg_signature *sig)
{
    for (int node = 0; node < 2; node++)
        assert_int_equal(offer(decider, node, name, sig, ""), 0);
}

static void groups_are_fused_like_tensors(void **state)
{
    struct rg_decider *decider = new_decider(2, 100, 16);
    struct rg_signature group = allreduce_of(0), tensor = allreduce_of(4);

    (void) state;
    group.group_size = 3;
    group.group_count = 15; /* 60 bytes */
    offer_everywhere(decider, "allreduce.a", &group);
    offer_everywhere(decider, "allreduce.b", &tensor);
    offer_everywhere(decider, "allreduce.c", &group);
    assert_true(expect(decider, RG_ORDER_DECIDED_NEW).flags & RG_ORDER_MORE);
    assert_false(expect(decider, RG_ORDER_DECIDED_NEW).flags & RG_ORDER_MORE);
    assert_false(expect(decider, RG_ORDER_DECIDED_NEW).flags & RG_ORDER_MORE);
    rg_decider_destroy(decider);
}

static void allreduces_are_held_until_more_come_and_nothing_else_waits(void **state)
{
    struct rg_decider *decider = new_decider(2, 100, 16);
    struct rg_signature sig = allreduce_of(4), other = sig;

    (void) state;
    other.kind = REIGEN_BROADCAST;
    rg_decider_hold(decider, true);
    offer_everywhere(decider, "broadcast.a", &other);
    assert_string_equal(expect(decider, RG_ORDER_DECIDED_NEW).name, "broadcast.a");
    offer_everywhere(decider, "allreduce.a", &sig);
    expect_none(decider);
    offer_everywhere(decider, "allreduce.b", &sig);
    expect_none(decider);
    rg_decider_hold(decider, false);
    assert_true(expect(decider, RG_ORDER_DECIDED_NEW).flags & RG_ORDER_MORE);
    /* What is promised to come is not held. */
    rg_decider_hold(decider, true);
    assert_false(expect(decider, RG_ORDER_DECIDED_NEW).flags & RG_ORDER_MORE);
    /* The end of the job does not wait for what is held. */
    offer_everywhere(decider, "allreduce.a", &sig);
    rg_decider_shutdown(decider, 1);
    expect(decider, RG_ORDER_DECIDED);
    expect(decider, RG_ORDER_SHUTDOWN);
    expect_none(decider);
    rg_decider_destroy(decider);
}

static void refuse(struct rg_decider *decider, int node, const struct rg_signature *sig,
                   uint32_t seq)
{
    assert_int_equal(rg_decider_refuse(decider, node, "allreduce.a", 1, seq), 0);
    assert_int_equal(offer(decider, node, "allreduce.a", sig, ""), 0);
}

static void only_allreduces_that_are_not_large_and_barriers_may_go_directly(void **state)
{
    struct rg_signature small = allreduce_of(131072), large = allreduce_of(131073), other = small;

    (void) state;
    assert_true(rg_signature_is_direct(&small));
    assert_false(rg_signature_is_direct(&large));
    other.op = REIGEN_ADASUM;
    assert_false(rg_signature_is_direct(&other));
    other = small;
    other.memory = RG_MEMORY_CUDA;
    assert_false(rg_signature_is_direct(&other));
    other = small;
    other.kind = REIGEN_BROADCAST;
    assert_false(rg_signature_is_direct(&other));
    other.kind = REIGEN_BARRIER;
    assert_true(rg_signature_is_direct(&other));
    other = small;
    other.group_size = 3;
    other.group_count = 131073;
    assert_false(rg_signature_is_direct(&other));
}

static void what_is_fused_goes_directly_only_if_it_is_small(void **state)
{
    static const char *const names[] = { "allreduce.a", "allreduce.b", "allreduce.c" };
    struct rg_decider_options options = { .nnodes = 2, .leaders = leaders, .capacity = 16,
                                          .fusion_nbytes = 1 << 20, .direct = by_doubling };
    struct rg_signature small = allreduce_of(8192), more = allreduce_of(8193);
    struct rg_decider *decider;

    (void) state;
    assert_int_equal(rg_decider_create(&options, &decider), 0);
    for (int i = 0; i < 3; i++)
        for (int node = 0; node < 2; node++)
            offer(decider, node, names[i], i == 1 ? &small : &more, "");
    assert_int_equal(expect(decider, RG_ORDER_DECIDED_NEW).flags, RG_ORDER_MORE);
    assert_int_equal(expect(decider, RG_ORDER_DECIDED_NEW).flags, RG_ORDER_MORE | DIRECTLY);
    assert_int_equal(expect(decider, RG_ORDER_DECIDED_NEW).flags, 0);
    expect_none(decider);
    /* It comes alone. */
    for (int node = 0; node < 2; node++)
        offer(decider, node, names[2], &more, "");
    assert_int_equal(expect(decider, RG_ORDER_DECIDED).flags, DIRECTLY);
    expect_none(decider);
    rg_decider_destroy(decider);
}

static void what_one_refuses_is_void_and_decided_when_all_have_answered(void **state)
{
    struct rg_decider *decider = new_direct(3, 16);
    struct rg_signature sig = allreduce_of(4), other = allreduce_of(5);
    struct rg_order_frame frame;

    (void) state;
    /* Uses 1 to 6 went directly; node 2 means something else by the seventh. */
    for (uint32_t seq = 1; seq < 7; seq++)
        rg_decider_used(decider, 1, seq);
    refuse(decider, 2, &other, 7);
    frame = expect(decider, RG_ORDER_VOID);
    assert_int_equal(frame.id, 1);
    assert_int_equal(frame.seq, 7);
    expect_none(decider);
    /* Node 0 had begun it, and offers by number; node 1 lacks it, and comes to it later. */
    assert_int_equal(offer_id(decider, 0, 1), 0);
    assert_int_equal(rg_decider_lack(decider, 1, 1, 7), 0);
    expect_none(decider);
    assert_int_equal(offer_id(decider, 1, 1), 0);
    frame = expect(decider, RG_ORDER_DECIDED_NEW);
    assert_int_equal(frame.id, 0);
    assert_non_null(strstr(frame.text, "Mismatched ALLREDUCE tensor shapes"));
    expect_none(decider);
    /* It goes on as it was. */
    for (int node = 0; node < 3; node++)
        assert_int_equal(offer(decider, node, "allreduce.a", &sig, ""), 0);
    frame = expect(decider, RG_ORDER_DECIDED);
    assert_int_equal(frame.flags, DIRECTLY);
    assert_int_equal(frame.seq, 8);
    rg_decider_destroy(decider);
}

static void a_joined_node_answers_before_a_void_use_is_decided(void **state)
{
    struct rg_decider *decider = new_direct(3, 16);
    struct rg_signature sig = allreduce_of(4);

    (void) state;
    /* Node 1 has joined with its own part in flight, node 2 with none. */
    assert_int_equal(rg_decider_join(decider, 1, 2, false), 0);
    assert_int_equal(rg_decider_join(decider, 2, 4, true), 0);
    refuse(decider, 0, &sig, 1);
    expect(decider, RG_ORDER_VOID);
    assert_int_equal(rg_decider_lack(decider, 2, 1, 1), 0);
    expect_none(decider);
    assert_int_equal(offer_id(decider, 1, 1), 0);
    assert_string_equal(expect(decider, RG_ORDER_DECIDED).name, "allreduce.a");
    rg_decider_destroy(decider);
}

static void no_round_of_joins_ends_while_something_is_in_flight(void **state)
{
    struct rg_decider *decider = new_direct(2, 16);

    (void) state;
    assert_int_equal(rg_decider_clear(decider, 0), -EPROTO);
    assert_int_equal(rg_decider_join(decider, 0, 1, false), 0);
    assert_int_equal(rg_decider_join(decider, 1, 2, true), 0);
    expect_none(decider);
    assert_int_equal(rg_decider_clear(decider, 0), 0);
    assert_int_equal(expect(decider, RG_ORDER_JOINED).rank, 2);
    rg_decider_destroy(decider);
}

static void who_takes_long_is_waited_for_by_those_who_say_so(void **state)
{
    struct rg_decider *decider = new_direct(3, 16);
    struct rg_signature gather = allreduce_of(4);
    struct rg_error err = RG_ERROR_INIT;
    bool missing[3];

    (void) state;
    assert_int_equal(rg_decider_missing(decider, "allreduce.a", missing), 0);
    rg_decider_waiting(decider, 0, 1, 1);
    rg_decider_waiting(decider, 2, 1, 1);
    assert_int_equal(rg_decider_missing(decider, "allreduce.a", missing), 1);
    assert_true(missing[1] && !missing[0] && !missing[2]);
    /* Node 1 waits in an allgather of this name. */
    gather.kind = REIGEN_ALLGATHER;
    assert_int_equal(offer(decider, 1, "allgather.a", &gather, ""), 0);
    for (int node = 0; node < 3; node++)
        rg_decider_blocked(decider, node, true);
    assert_true(rg_decider_crossed(decider, rg_now_ns() + RG_NS_PER_S, &err));
    assert_string_equal(err.text, "a: Mismatched operations: One rank did an ALLREDUCE, but "
                                  "another rank did an ALLGATHER. (rank 0: ALLREDUCE, rank 2: "
                                  "ALLGATHER)");
    /* It is over: nobody waits. */
    rg_decider_used(decider, 1, 1);
    assert_int_equal(rg_decider_missing(decider, "allreduce.a", missing), 0);
    rg_decider_destroy(decider);
}

/* Other names are used until number 1 is called in. */
static struct rg_decider *new_called_in(void)
{
    struct rg_decider *decider = new_direct(2, 1);
    struct rg_signature sig = allreduce_of(4);
    struct rg_order_frame frame;
    uint32_t evicted = 0;
    char name[32];

    for (int i = 0; !evicted && i < 20; i++) {
        snprintf(name, sizeof(name), "allgather.%d", i);
        sig.kind = REIGEN_ALLGATHER;
        offer(decider, 0, name, &sig, "");
        offer(decider, 1, name, &sig, "");
        while (rg_decider_next(decider, &frame) > 0)
            if (frame.type == RG_ORDER_EVICT && frame.id == 1)
                evicted = frame.id;
    }
    assert_int_equal(evicted, 1);
    return decider;
}

static void a_number_is_kept_until_its_void_use_is_told(void **state)
{
    struct rg_decider *decider = new_called_in();
    struct rg_signature sig = allreduce_of(4), gather = sig;
    struct rg_order_frame frame;

    (void) state;
    gather.kind = REIGEN_ALLGATHER;
    /* This one is decided first, and gets a number when that is told. */
    for (int node = 0; node < 2; node++)
        assert_int_equal(offer(decider, node, "allgather.new", &gather, ""), 0);
    assert_int_equal(rg_decider_evicted(decider, 1, 1), 0);
    for (int node = 0; node < 2; node++)
        refuse(decider, node, &sig, 1);
    assert_int_equal(rg_decider_evicted(decider, 1, 1), 0);
    frame = expect(decider, RG_ORDER_DECIDED_NEW);
    assert_string_equal(frame.name, "allgather.new");
    assert_int_not_equal(frame.id, 1);
    assert_int_equal(expect(decider, RG_ORDER_VOID).id, 1);
    assert_string_equal(expect(decider, RG_ORDER_DECIDED_NEW).name, "allreduce.a");
    rg_decider_destroy(decider);
}

static void a_number_is_kept_until_nobody_owes_an_answer(void **state)
{
    struct rg_decider *decider = new_called_in();
    struct rg_signature sig = allreduce_of(4);
    struct rg_order_frame frame;

    (void) state;
    /* Node 1 has joined, and uses it no more; what node 0 has begun is void. */
    assert_int_equal(rg_decider_join(decider, 1, 2, true), 0);
    assert_int_equal(rg_decider_evicted(decider, 1, 5), 0);
    assert_int_equal(rg_decider_lack(decider, 1, 1, 5), 0);
    assert_int_equal(expect(decider, RG_ORDER_VOID).seq, 5);
    assert_int_equal(offer(decider, 0, "allreduce.a", &sig, ""), 0);
    assert_int_equal(rg_decider_evicted(decider, 1, 6), 0);
    frame = expect(decider, RG_ORDER_DECIDED_NEW);
    assert_string_equal(frame.name, "allreduce.a");
    /* With a new number, or the old one: no use that was void comes again. */
    assert_true(frame.id != 1 || frame.seq >= 6);
    rg_decider_destroy(decider);
}

static void ways_that_part_again_and_again_are_agreed_on(void **state)
{
    struct rg_decider *decider = new_direct(2, 16);
    struct rg_order_frame frame;
    int ndirect = 0;

    (void) state;
    for (int use = 0; use < 100; use++) {
        struct rg_signature sig = allreduce_of(5 + use % 7);

        for (int node = 0; node < 2; node++) {
            if (use == 0 || frame.flags & DIRECTLY)
                rg_decider_refuse(decider, node, "allreduce.a", 1, use == 0 ? 1 : frame.seq);
            assert_int_equal(offer(decider, node, "allreduce.a", &sig, ""), 0);
        }
        do {
            assert_int_equal(rg_decider_next(decider, &frame), 1);
        } while (frame.type == RG_ORDER_VOID);
        ndirect += (frame.flags & DIRECTLY) != 0;
    }
    assert_in_range(ndirect, 2, 8);
    rg_decider_destroy(decider);
}

static void after_a_shutdown_what_not_all_have_begun_is_void(void **state)
{
    struct rg_decider *decider = new_direct(2, 16);

    (void) state;
    assert_int_equal(rg_decider_shutdown(decider, 1), 0);
    assert_int_equal(expect(decider, RG_ORDER_SHUTDOWN).rank, 1);
    assert_int_equal(rg_decider_have(decider, 0, 1, 4), 0);
    assert_int_equal(rg_decider_frozen(decider, 0), 0);
    assert_int_equal(rg_decider_frozen(decider, 0), -EPROTO);
    expect_none(decider);
    assert_int_equal(rg_decider_have(decider, 1, 1, 3), 0);
    assert_int_equal(rg_decider_frozen(decider, 1), 0);
    assert_int_equal(expect(decider, RG_ORDER_VOID).seq, 4);
    expect(decider, RG_ORDER_ENDED);
    expect_none(decider);
    rg_decider_destroy(decider);
}

/* ------------------------------------------------------------ what a leader knows */

static void ignore_decision(void *arg, const char *name, const struct rg_signature *sig,
                            const char *text, bool more, uint8_t way)
{
    (void) arg, (void) name, (void) sig, (void) text, (void) more, (void) way;
}

static void learn(struct rg_known *known, uint32_t id, uint32_t seq, const char *name)
{
    struct rg_order_frame frame = { .type = RG_ORDER_DECIDED_NEW, .id = id, .seq = seq,
                                    .flags = DIRECTLY, .name = name, .text = "",
                                    .sig = allreduce_of(4) };

    assert_int_equal(rg_known_decided(known, &frame, ignore_decision, NULL, NULL), 0);
}

static void uses_end_before_their_count_comes_round(void **state)
{
    struct rg_signature sig = allreduce_of(4);
    struct rg_use use, refused;
    struct rg_known *known;

    (void) state;
    assert_int_equal(rg_known_create(&known), 0);
    learn(known, 3, RG_ORDER_USES_MAX - 1, "a");
    assert_int_equal(rg_known_begin(known, "a", &sig, &use), 1);
    rg_known_done(known, 3, &use);
    assert_int_equal(rg_known_begin(known, "a", &sig, &use), 0);
    /* It is offered, and so refuses the use. */
    assert_int_equal(rg_known_number(known, "a", &sig, &refused), 0);
    assert_true(refused.id == 3 && refused.seq == RG_ORDER_USES_MAX);
    rg_known_destroy(known);
}

static void a_use_is_begun_once_and_is_over_or_void(void **state)
{
    struct rg_signature sig = allreduce_of(4), other = allreduce_of(5);
    struct rg_use use, refused;
    struct rg_known *known;

    (void) state;
    assert_int_equal(rg_known_create(&known), 0);
    assert_int_equal(rg_known_begin(known, "a", &sig, &use), 0);
    learn(known, 3, 10, "a");
    assert_int_equal(rg_known_begin(known, "a", &other, &use), 0);
    assert_int_equal(rg_known_number(known, "a", &other, &refused), 0);
    assert_true(refused.id == 3 && refused.seq == 10);
    assert_int_equal(rg_known_begin(known, "a", &sig, &use), 1);
    assert_true(use.id == 3 && use.seq == 10);
    assert_int_equal(rg_known_begin(known, "a", &sig, &use), -EAGAIN);
    assert_int_equal(rg_known_nbegun(known, true), 1);
    /* Who has seen its end refuses the next one. */
    assert_int_equal(rg_known_void(known, (struct rg_use) { 3, 11 }), RG_BEGUN_VOID);
    assert_int_equal(rg_known_void(known, (struct rg_use) { 3, 12 }), -EPROTO);
    assert_false(rg_known_void_is_due(known, 3));
    assert_false(rg_known_done(known, 3, &use));
    assert_int_equal(use.seq, 11);
    assert_true(rg_known_void_is_due(known, 3));
    assert_int_equal(rg_known_void(known, use), RG_BEGUN_NOT);
    assert_int_equal(rg_known_void(known, use), RG_BEGUN_VOID);
    assert_int_equal(rg_known_begin(known, "a", &sig, &use), 0);
    assert_int_equal(rg_known_number(known, "a", &sig, &refused), 3);
    assert_int_equal(rg_known_nbegun(known, false), 0);
    rg_known_destroy(known);
}

static void a_number_that_is_called_in_lends_nothing(void **state)
{
    struct rg_signature sig = allreduce_of(4), lent;
    struct rg_use use, refused;
    struct rg_known *known;

    (void) state;
    assert_int_equal(rg_known_create(&known), 0);
    learn(known, 3, 10, "a");
    assert_int_equal(rg_known_lend(known, (struct rg_use) { 3, 11 }, &lent), 0);
    assert_int_equal(rg_known_lend(known, (struct rg_use) { 3, 10 }, &lent), 1);
    assert_int_equal(rg_known_nbegun(known, true), 0);
    assert_int_equal(rg_known_nbegun(known, false), 1);
    assert_false(rg_known_retire(known, 3, &use));
    assert_true(rg_known_done(known, 3, &use));
    assert_int_equal(use.seq, 11);
    assert_int_equal(rg_known_lend(known, use, &lent), -ESTALE);
    assert_int_equal(rg_known_begin(known, "a", &sig, &use), 0);
    assert_int_equal(rg_known_number(known, "a", &sig, &refused), 0);
    assert_int_equal(refused.seq, 11);
    /* The same number may come back to it. */
    learn(known, 3, 12, "a");
    assert_int_equal(rg_known_begin(known, "a", &sig, &use), 1);
    assert_int_equal(use.seq, 12);
    rg_known_destroy(known);
}

static void frames_refuse_every_cut_and_damage(void **state)
{
    struct rg_order_frame frame = { .type = RG_ORDER_DECIDED_NEW, .id = 7, .flags = 1,
                                    .name = "allreduce.x", .text = "why", .sig = allreduce_of(5) };
    struct rg_order_frame back;
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    uint16_t type = RG_ORDER_DECIDED_NEW;

    (void) state;
    rg_order_frame_put(&frame, &buf);
    for (size_t n = 0; n < rg_buf_nbytes(&buf); n++)
        assert_int_equal(rg_order_frame_get(type, rg_buf_bytes(&buf), n, &back), -EBADMSG);
    assert_int_equal(rg_order_frame_get(type, rg_buf_bytes(&buf), rg_buf_nbytes(&buf), &back), 0);
    assert_int_equal(back.id, 7);
    assert_string_equal(back.name, "allreduce.x");
    assert_string_equal(back.text, "why");
    assert_memory_equal(&back.sig, &frame.sig, sizeof(frame.sig));
    rg_order_frame_fini(&back);
    assert_int_equal(rg_order_frame_get(99, rg_buf_bytes(&buf), rg_buf_nbytes(&buf), &back),
                     -EBADMSG);
    assert_int_equal(rg_order_frame_get(type + 256, rg_buf_bytes(&buf), rg_buf_nbytes(&buf),
                                        &back), -EBADMSG);
    rg_buf_put_u8(&buf, 0);
    assert_int_equal(rg_order_frame_get(type, rg_buf_bytes(&buf), rg_buf_nbytes(&buf), &back),
                     -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_is_decided_when_all_nodes_have_offered_it),
        cmocka_unit_test(a_mismatch_between_nodes_names_both_ranks_and_the_job_goes_on),
        cmocka_unit_test(an_error_found_inside_a_node_reaches_all),
        cmocka_unit_test(offering_twice_or_an_unknown_number_is_refused),
        cmocka_unit_test(joined_nodes_count_as_arrived_for_allreduces_only),
        cmocka_unit_test(what_is_ready_together_is_fused_up_to_the_threshold),
        cmocka_unit_test(groups_are_fused_like_tensors),
        cmocka_unit_test(allreduces_are_held_until_more_come_and_nothing_else_waits),
        cmocka_unit_test(ever_new_names_do_not_pile_up),
        cmocka_unit_test(an_offer_by_a_number_called_in_is_still_understood),
        cmocka_unit_test(only_allreduces_that_are_not_large_and_barriers_may_go_directly),
        cmocka_unit_test(what_is_fused_goes_directly_only_if_it_is_small),
        cmocka_unit_test(what_one_refuses_is_void_and_decided_when_all_have_answered),
        cmocka_unit_test(a_joined_node_answers_before_a_void_use_is_decided),
        cmocka_unit_test(no_round_of_joins_ends_while_something_is_in_flight),
        cmocka_unit_test(who_takes_long_is_waited_for_by_those_who_say_so),
        cmocka_unit_test(a_number_is_kept_until_its_void_use_is_told),
        cmocka_unit_test(a_number_is_kept_until_nobody_owes_an_answer),
        cmocka_unit_test(ways_that_part_again_and_again_are_agreed_on),
        cmocka_unit_test(after_a_shutdown_what_not_all_have_begun_is_void),
        cmocka_unit_test(uses_end_before_their_count_comes_round),
        cmocka_unit_test(a_use_is_begun_once_and_is_over_or_void),
        cmocka_unit_test(a_number_that_is_called_in_lends_nothing),
        cmocka_unit_test(frames_refuse_every_cut_and_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
