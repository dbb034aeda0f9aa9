/* SPDX-License-Identifier: Apache-2.0 */
#include "job/hostlist.h"
#include "unit.h"

static void check_host(const struct rg_job *job, size_t i, const char *name, int nslots)
{
    assert_true(i < job->nhosts);
    assert_string_equal(job->hosts[i].name, name);
    assert_int_equal(job->hosts[i].nslots, nslots);
}

static void lists_keep_order_and_slots(void **state)
{
    RG_AUTO_JOB struct rg_job job;

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_hostlist_parse(&job, "-H", "b:2, a ,c.d-e_f:16", NULL), 0);
    assert_int_equal(job.nhosts, 3);
    check_host(&job, 0, "b", 2);
    check_host(&job, 1, "a", 0);
    check_host(&job, 2, "c.d-e_f", 16);
}

static void ipv6_addresses_stand_bare_or_in_brackets(void **state)
{
    RG_AUTO_JOB struct rg_job job;

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_hostlist_parse(&job, "-H", "::1,[fe80::1%eth0]:3,[::2]", NULL), 0);
    check_host(&job, 0, "::1", 0);
    check_host(&job, 1, "fe80::1%eth0", 3);
    check_host(&job, 2, "::2", 0);
}

static void brackets_in_a_name_stand_for_several_hosts(void **state)
{
    RG_AUTO_JOB struct rg_job job;
    RG_AUTO_JOB struct rg_job file;

    (void) state;
    rg_job_init(&job);
    rg_job_init(&file);
    assert_int_equal(rg_hostlist_parse(&job, "-H", "n[1-2]:2,a@x[08-10,12]-ib:4 ,[::1]:3,b[3].c",
                                       NULL), 0);
    assert_int_equal(job.nhosts, 8);
    check_host(&job, 0, "n1", 2);
    check_host(&job, 1, "n2", 2);
    check_host(&job, 2, "x08-ib", 4);
    assert_string_equal(job.hosts[2].user, "a");
    check_host(&job, 4, "x10-ib", 4);
    check_host(&job, 5, "x12-ib", 4);
    assert_string_equal(job.hosts[5].user, "a");
    check_host(&job, 6, "::1", 3);
    check_host(&job, 7, "b3.c", 0);
    static const char text[] = "n[1-2,5]:3\nr[1-2]n[1-2] slots=4\n[::1]:2\n";
    assert_int_equal(rg_hostfile_parse(&file, "hosts", text, sizeof text - 1, NULL), 0);
    assert_int_equal(file.nhosts, 8);
    check_host(&file, 2, "n5", 3);
    check_host(&file, 6, "r2n2", 4);
    check_host(&file, 7, "::1", 2);
}

static void broken_ranges_are_refused_by_name(void **state)
{
    static const char *const texts[] = { "n[1-", "n[1-2", "n[]", "n[2-1]:2", "n[a-b]", "n]1[",
                                         "n[1-2]]", "n[[1-2]]", "n[1,2", "n[1-2]:2:3", "n[1-2]/x",
                                         "n[1-99999]", "n[1-9999][1-9999]", "n:1:2",
                                         "a@n:1:2" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(texts); i++) {
        RG_AUTO_JOB struct rg_job job;
        struct rg_error err = RG_ERROR_INIT;
        rg_job_init(&job);
        assert_true(rg_hostlist_parse(&job, "-H", texts[i], &err) < 0);
        assert_contains(err.text, "-H");
    }
}

static void host_files_of_all_three_origins_are_read(void **state)
{
    static const char text[] = "# a comment\n"
                               "a slots=2 max_slots=4   # Open MPI\r\n"
                               "\n"
                               "\tb:3\n"
                               "c\n"
                               "c\n"
                               "d slots=1\n"
                               "::1 slots=5";
    RG_AUTO_JOB struct rg_job job;

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_hostfile_parse(&job, "hosts", text, sizeof text - 1, NULL), 0);
    assert_int_equal(job.nhosts, 5);
    check_host(&job, 0, "a", 2);
    check_host(&job, 1, "b", 3);
    check_host(&job, 2, "c", 2);
    check_host(&job, 3, "d", 1);
    check_host(&job, 4, "::1", 5);
}

/* What Open MPI's own parser takes, and addresses in brackets. */
static void words_behind_a_host_may_be_spaced_and_have_other_names(void **state)
{
    static const char text[] = "a slots = 2\tmax_slots= 4\n"
                               "b  cpu=3 slots_max=3\n"
                               "c count =4 username = bob\n"
                               "[::1] slots=5\n"
                               "amy@[2001:db8::6]:2\n"
                               "amy@2001:db8::7 slots=1\n";
    RG_AUTO_JOB struct rg_job job;

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_hostfile_parse(&job, "hosts", text, sizeof text - 1, NULL), 0);
    assert_int_equal(job.nhosts, 6);
    check_host(&job, 0, "a", 2);
    check_host(&job, 1, "b", 3);
    check_host(&job, 2, "c", 4);
    assert_string_equal(job.hosts[2].user, "bob");
    check_host(&job, 3, "::1", 5);
    check_host(&job, 4, "2001:db8::6", 2);
    assert_string_equal(job.hosts[4].user, "amy");
    check_host(&job, 5, "2001:db8::7", 1);
    assert_string_equal(job.hosts[5].user, "amy");
}

static void errors_of_host_files_name_file_line_and_value(void **state)
{
    static const struct { const char *text, *says; } cases[] = {
        { "a\nb slots=x\n", "hosts:2: slots of host b" },
        { "a slots=0", "hosts:1: slots of host a" },
        { "a\n\n#\nb cores=3", "hosts:4: \"cores\"" },
        { "a,b", "one host per line" },
        { "n[1,2],b", "one host per line" },
        { "a slots", "hosts:1: \"slots\"" },
        { "a slots =", "hosts:1: \"slots\"" },
        { "a port=2222", "hosts:1: \"port\"" },
        { "a 2", "hosts:1: \"2\"" },
        { "a/b", "hosts:1: host \"a/b\"" },
        { "", "no host in it" },
        { "# only\n\n", "no host in it" },
        { "a:2\n[::1", "hosts:2: \"[::1\"" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        RG_AUTO_JOB struct rg_job job;
        struct rg_error err = RG_ERROR_INIT;
        rg_job_init(&job);
        int rc = rg_hostfile_parse(&job, "hosts", cases[i].text, strlen(cases[i].text), &err);
        assert_true(rc == -EINVAL || rc == -ERANGE);
        assert_contains(err.text, cases[i].says);
    }
}

static void a_missing_host_file_is_a_usage_error_that_names_it(void **state)
{
    RG_AUTO_JOB struct rg_job job;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_hostfile_read(&job, "/rg-not-there/hosts", &err), -ENOENT);
    assert_int_equal(err.exit_code, 2);
    assert_contains(err.text, "/rg-not-there/hosts");
}

static void only_names_of_this_computer_are_local(void **state)
{
    char own[256];

    (void) state;
    assert_true(rg_host_is_local("localhost"));
    assert_true(rg_host_is_local("127.0.0.1"));
    assert_true(rg_host_is_local("127.1.2.3"));
    assert_true(rg_host_is_local("::1"));
    assert_int_equal(gethostname(own, sizeof own), 0);
    assert_true(rg_host_is_local(own));
    assert_false(rg_host_is_local("127.example.org"));
    assert_false(rg_host_is_local("surely-not-this-one.example"));
    assert_false(rg_host_is_local("10.0.0.1"));
    assert_false(rg_host_is_local(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_keep_order_and_slots),
        cmocka_unit_test(ipv6_addresses_stand_bare_or_in_brackets),
        cmocka_unit_test(brackets_in_a_name_stand_for_several_hosts),
        cmocka_unit_test(broken_ranges_are_refused_by_name),
        cmocka_unit_test(host_files_of_all_three_origins_are_read),
        cmocka_unit_test(words_behind_a_host_may_be_spaced_and_have_other_names),
        cmocka_unit_test(errors_of_host_files_name_file_line_and_value),
        cmocka_unit_test(a_missing_host_file_is_a_usage_error_that_names_it),
        cmocka_unit_test(only_names_of_this_computer_are_local),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
