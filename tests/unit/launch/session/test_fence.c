/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"
#include "launch/session/meet/fence.h"
#include "unit.h"
#include "wire/rankmsg.h"

static struct rg_fence *fence;
static struct rg_error err;

static int make_fence(void **state)
{
    (void) state;
    memset(&err, 0, sizeof(err));
    return rg_fence_create(3, &fence);
}

static int free_fence(void **state)
{
    (void) state;
    rg_fence_destroy(fence);
    return 0;
}

static int arrive(int rank, uint32_t generation, const char *blob)
{
    return rg_fence_arrive(fence, rank, generation, 100 + (uint64_t) rank, blob, strlen(blob),
                           &err);
}

static void assert_blobs(uint32_t generation, const char *const *blobs)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    size_t nbytes;

    assert_int_equal(rg_fence_take(fence, &buf), generation);
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(&buf), rg_buf_nbytes(&buf));
    for (int i = 0; i < 3; i++) {
        const uint8_t *blob = rg_reader_span(&reader, RG_RANKMSG_BLOB_MAX, &nbytes);
        assert_int_equal(nbytes, strlen(blobs[i]));
        assert_memory_equal(blob, blobs[i], nbytes);
    }
    assert_int_equal(rg_reader_done(&reader), 0);
}

static void blobs_come_in_order_of_rank_fence_after_fence(void **state)
{
    (void) state;
    for (uint32_t g = 1; g < 4; g++) {
        assert_int_equal(arrive(2, g, "two"), 0);
        assert_int_equal(arrive(0, g, ""), 0);
        assert_int_equal(arrive(1, g, "one"), 1);
        assert_blobs(g, (const char *const[]){ "", "one", "two" });
        assert_int_equal(rg_fence_deadline_ns(fence), RG_NEVER_NS);
    }
}

static void rank_that_comes_again_replaces_its_blob(void **state)
{
    (void) state;
    assert_int_equal(arrive(0, 1, "old"), 0);
    assert_int_equal(arrive(1, 1, "b"), 0);
    assert_int_equal(arrive(0, 1, "new"), 0);
    assert_int_equal(arrive(2, 1, "c"), 1);
    assert_blobs(1, (const char *const[]){ "new", "b", "c" });
}

static void end_of_a_rank_fails_those_who_wait_and_names_it(void **state)
{
    (void) state;
    assert_int_equal(arrive(0, 1, "a"), 0);
    assert_int_equal(rg_fence_rank_ended(fence, 1, "exit code 3", &err), -ECONNRESET);
    assert_contains(err.text, "rank 1 has ended (exit code 3)");
    assert_int_equal(rg_fence_expire(fence, &err), 0); /* it is empty */
}

static void rank_that_comes_after_an_end_is_told_at_once(void **state)
{
    (void) state;
    assert_int_equal(rg_fence_rank_ended(fence, 2, "signal 9 (Killed)", &err), 0);
    assert_int_equal(arrive(0, 1, "a"), -ECONNRESET);
    assert_contains(err.text, "rank 2 has ended (signal 9 (Killed))");
}

static void rank_that_ends_while_it_waits_fails_the_others(void **state)
{
    (void) state;
    assert_int_equal(arrive(0, 1, "a"), 0);
    assert_int_equal(arrive(1, 1, "b"), 0);
    assert_int_equal(rg_fence_rank_ended(fence, 0, "exit code 1", &err), -ECONNRESET);
    assert_int_equal(rg_fence_deadline_ns(fence), RG_NEVER_NS);
}

static void different_generations_are_told_apart(void **state)
{
    (void) state;
    assert_int_equal(arrive(0, 2, "a"), 0);
    assert_int_equal(arrive(1, 1, "b"), -ECANCELED);
    assert_contains(err.text, "rank 1");
    /* What failed is forgotten: all can come anew. */
    assert_int_equal(arrive(0, 3, "a"), 0);
    assert_int_equal(arrive(1, 3, "b"), 0);
    assert_int_equal(arrive(2, 3, "c"), 1);
}

static void deadline_is_the_earliest_and_names_who_is_missing(void **state)
{
    (void) state;
    assert_int_equal(arrive(2, 1, "c"), 0);
    assert_int_equal(rg_fence_deadline_ns(fence), 102);
    assert_int_equal(arrive(0, 1, "a"), 0);
    assert_int_equal(rg_fence_deadline_ns(fence), 100);
    assert_int_equal(rg_fence_expire(fence, &err), -ETIMEDOUT);
    assert_contains(err.text, "1 of 3 ranks");
    assert_contains(err.text, "rank 1");
}

static void blobs_beyond_the_limit_are_refused(void **state)
{
    static uint8_t blob[RG_RANKMSG_BLOB_MAX];
    struct rg_fence *large;
    int n = RG_FENCE_NBYTES_MAX / RG_RANKMSG_BLOB_MAX + 1;

    (void) state;
    assert_int_equal(rg_fence_create(n, &large), 0);
    for (int i = 0; i < n - 1; i++)
        assert_int_equal(rg_fence_arrive(large, i, 1, 1, blob, sizeof(blob), &err), 0);
    assert_int_equal(rg_fence_arrive(large, n - 1, 1, 1, blob, sizeof(blob), &err), -EMSGSIZE);
    assert_int_equal(rg_fence_arrive(large, n, 1, 1, blob, 1, &err), -EINVAL);
    rg_fence_destroy(large);
    rg_fence_destroy(NULL);
}

static void who_waits_and_who_does_not_is_known(void **state)
{
    uint32_t generation = 0;

    (void) state;
    assert_int_equal(rg_fence_nwaiting(fence, &generation), 0);
    assert_int_equal(arrive(1, 7, "one"), 0);
    assert_int_equal(rg_fence_nwaiting(fence, &generation), 1);
    assert_int_equal(generation, 7);
    assert_true(rg_fence_waits(fence, 1));
    assert_false(rg_fence_waits(fence, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blobs_come_in_order_of_rank_fence_after_fence, make_fence,
                                        free_fence),
        cmocka_unit_test_setup_teardown(rank_that_comes_again_replaces_its_blob, make_fence,
                                        free_fence),
        cmocka_unit_test_setup_teardown(end_of_a_rank_fails_those_who_wait_and_names_it,
                                        make_fence, free_fence),
        cmocka_unit_test_setup_teardown(rank_that_comes_after_an_end_is_told_at_once, make_fence,
                                        free_fence),
        cmocka_unit_test_setup_teardown(rank_that_ends_while_it_waits_fails_the_others, make_fence,
                                        free_fence),
        cmocka_unit_test_setup_teardown(different_generations_are_told_apart, make_fence,
                                        free_fence),
        cmocka_unit_test_setup_teardown(deadline_is_the_earliest_and_names_who_is_missing,
                                        make_fence, free_fence),
        cmocka_unit_test_setup_teardown(who_waits_and_who_does_not_is_known, make_fence,
                                        free_fence),
        cmocka_unit_test(blobs_beyond_the_limit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
