/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job.h"
#include "unit.h"

static void a_new_job_has_the_documented_defaults(void **state)
{
    RG_AUTO_JOB struct rg_job job;

    (void) state;
    rg_job_init(&job);
    assert_int_equal(job.np, 0);
    assert_int_equal(job.start_timeout_ms, 300000);
    assert_int_equal(job.grace_ms, 5000);
    assert_int_equal(job.lease_ms, 30000);
    assert_int_equal(job.timeout_ms, 0);
    assert_int_equal(job.tag, RG_TAG_AUTO);
    assert_int_equal(job.stdin_mode, RG_STDIN_RANK);
    assert_int_equal(job.stdin_rank, 0);
}

static void ranks_are_sorted_and_joined(void **state)
{
    struct rg_ranks ranks = { 0 };

    (void) state;
    assert_int_equal(rg_ranks_parse("9,0000000003-00000000005,6,1,4-4", &ranks, NULL), 0);
    assert_int_equal(ranks.count, 3);
    assert_int_equal(ranks.range[1].first, 3);
    assert_int_equal(ranks.range[1].last, 6);
    for (int i = 0; i < 12; i++)
        assert_int_equal(rg_ranks_has(&ranks, i), i == 1 || (i >= 3 && i <= 6) || i == 9);
    rg_ranks_fini(&ranks);
    assert_true(rg_ranks_has(&ranks, 12345)); /* none named: all */
}

static void broken_sets_of_ranks_are_refused_with_the_text(void **state)
{
    static const char *const texts[] = {"",        ",",   "1,",    ",1",
                                        "a",       "1-",  "-1",    "5-3",
                                        "1--2",    "1 2", "131072", "99999999999999999999",
                                        "1-131072", "0x1", "1,,2"};

    (void) state;
    for (size_t i = 0; i < rg_array_len(texts); i++) {
        struct rg_ranks ranks = { 0 };
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_ranks_parse(texts[i], &ranks, &err), -EINVAL);
        assert_contains(err.text, texts[i]);
        assert_contains(err.text, "0,3-5");
        assert_null(ranks.range);
    }
}

static void a_host_named_again_gets_the_slots_added(void **state)
{
    RG_AUTO_JOB struct rg_job job;

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_job_add_host(&job, "a", 2, NULL), 0);
    assert_int_equal(rg_job_add_host(&job, "b", 0, NULL), 0);
    assert_int_equal(rg_job_add_host(&job, "a", 3, NULL), 0);
    assert_int_equal(rg_job_add_host(&job, "b", 0, NULL), 0);
    assert_int_equal(job.nhosts, 2);
    assert_int_equal(job.hosts[0].nslots, 5);
    assert_int_equal(job.hosts[1].nslots, 2);
}

static void slots_and_hosts_are_capped(void **state)
{
    RG_AUTO_JOB struct rg_job job;
    struct rg_error err = RG_ERROR_INIT;
    char name[32];

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_job_add_host(&job, "a", RG_JOB_SLOTS_MAX, &err), 0);
    assert_int_equal(rg_job_add_host(&job, "a", 1, &err), -EINVAL);
    assert_int_equal(rg_job_add_host(&job, "b", -1, &err), -EINVAL);
    for (int i = 1; i < RG_JOB_HOSTS_MAX; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(rg_job_add_host(&job, name, 1, &err), 0);
    }
    assert_int_equal(rg_job_add_host(&job, "one-more", 1, &err), -E2BIG);
    assert_contains(err.text, "one-more");
}

static void fini_can_be_called_twice(void **state)
{
    struct rg_job job;

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_job_add_host(&job, "a", 2, NULL), 0);
    rg_job_fini(&job);
    rg_job_fini(&job);
    rg_job_fini(NULL);
    assert_null(job.hosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_job_has_the_documented_defaults),
        cmocka_unit_test(ranks_are_sorted_and_joined),
        cmocka_unit_test(broken_sets_of_ranks_are_refused_with_the_text),
        cmocka_unit_test(a_host_named_again_gets_the_slots_added),
        cmocka_unit_test(slots_and_hosts_are_capped),
        cmocka_unit_test(fini_can_be_called_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
