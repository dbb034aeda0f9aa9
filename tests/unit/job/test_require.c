/* SPDX-License-Identifier: Apache-2.0 */
#include "job/require.h"

#include "job/options/apply.h"
#include "job/horovodrun/horovodrun.h"
#include "job/request/request.h"
#include "unit.h"

static void words_have_the_amounts_that_people_write(void **state)
{
    static const struct {
        const char *word, *name;
        uint64_t amount;
    } cases[] = {
        { "rdma", "rdma", 1 },
        { "gpu", "gpu", 1 },
        { "gpu=8", "gpu", 8 },
        { "shm=1g", "shm", UINT64_C(1) << 30 },
        { "shm=512M", "shm", UINT64_C(512) << 20 },
        { "shm=64MiB", "shm", UINT64_C(64) << 20 },
        { "shm=2kb", "shm", 2048 },
        { "disk=100", "disk", 100 },
        { "disk=100b", "disk", 100 },
        { "memory=8388607t", "memory", UINT64_C(8388607) << 40 },
        { "memlock=unlimited", "memlock", UINT64_MAX },
        { "cpus=4", "cpus", 4 },
        { "clock=10ms", "clock", 10 },
        { "clock=2s", "clock", 2000 },
        { "tensorflow", "tensorflow", 1 },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_requirement found = { NULL, 0 };
        struct rg_error err = RG_ERROR_INIT;
        if (rg_requirement_parse("--require", cases[i].word, &found, &err) < 0)
            fail_msg("%s: %s", cases[i].word, err.text);
        assert_string_equal(found.name, cases[i].name);
        assert_int_equal(found.amount, cases[i].amount);
    }
}

static void broken_words_are_named(void **state)
{
    static const char *const words[] = {
        "", "shm=", "shm=1x", "shm=1gg", "shm=1gibs", "shm=-1", "shm=0", "shm=8388608t",
        "shm=99999999999999999999", "gpu=x", "gpu=", "cpus", "cpus=1000000001", "clock", "clock=-1",
        "rdma=1", "rdm", "shm =1g",
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(words); i++) {
        struct rg_requirement found = { NULL, 7 };
        struct rg_error err = RG_ERROR_INIT;
        int r = rg_requirement_parse("--require", words[i], &found, &err);
        if (r != -EINVAL && r != -ERANGE)
            fail_msg("%s is taken", words[i]);
        assert_true(rg_str_starts(err.text, "--require "));
        assert_int_equal(found.amount, 7);
    }
}

static void networks_that_are_none_are_refused(void **state)
{
    static const char *const good[] = { "eth0", "10.0.0.0/8", "a=10.0.0.7", "a=fd00::/64" };
    static const char *const bad[] = { "10.0.0.0/99", "10.0.0/8", "a=fd00::/129", "eth0/8", "/8",
                                       "=eth0", "a=", "10.0.0.0/", "eth0,,eth1" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(good) + rg_array_len(bad); i++) {
        bool fine = i < rg_array_len(good);
        const char *word = fine ? good[i] : bad[i - rg_array_len(good)];
        struct rg_request request;
        struct rg_error err = RG_ERROR_INIT;

        rg_request_init(&request);
        int r = rg_apply_network_interface(&request, "--network-interface", word, &err);
        if (r != (fine ? 0 : -EINVAL))
            fail_msg("%s: %d", word, r);
        rg_request_fini(&request);
    }
}

static void options_add_up_and_split_at_commas(void **state)
{
    char *argv[] = { (char *) "run", (char *) "--require", (char *) "shm=1g,rdma",
                     (char *) "--require=mpi", (char *) "--network-interface",
                     (char *) "eth0,b=ib0", (char *) "--network-interfaces=10.0.0.0/8",
                     (char *) "true", NULL };
    struct rg_request request;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    rg_request_init(&request);
    assert_int_equal(rg_request_parse(&request, 8, argv, &err), 0);
    assert_int_equal(request.job.require.count, 3);
    assert_string_equal(request.job.require.v[1], "rdma");
    assert_int_equal(request.job.network_interfaces.count, 3);
    assert_string_equal(request.job.network_interfaces.v[1], "b=ib0");
    rg_request_fini(&request);
}

static void horovodruns_first_interface_is_the_jobs(void **state)
{
    char *argv[] = { (char *) "horovodrun", (char *) "-np", (char *) "2",
                     (char *) "--network-interface", (char *) "eth0",
                     (char *) "--network-interface", (char *) "eth1", (char *) "true", NULL };
    struct rg_horovodrun run;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    rg_horovodrun_init(&run);
    assert_int_equal(rg_horovodrun_parse(&run, 8, argv, &err), 0);
    assert_int_equal(run.request.job.network_interfaces.count, 1);
    assert_string_equal(run.request.job.network_interfaces.v[0], "eth0");
    rg_horovodrun_fini(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_have_the_amounts_that_people_write),
        cmocka_unit_test(broken_words_are_named),
        cmocka_unit_test(networks_that_are_none_are_refused),
        cmocka_unit_test(options_add_up_and_split_at_commas),
        cmocka_unit_test(horovodruns_first_interface_is_the_jobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
