/* SPDX-License-Identifier: Apache-2.0 */
#include "base/exitcode.h"
#include "platform/drivers.h"
#include "platform/openpai/inside/tasks.h"
#include "platform/openpai/inside/tasks_driver.h"
#include "unit.h"

extern char **environ;

/* NAME=VALUE each, and nothing else that begins with PAI_ or REIGEN_. */
static void set_env(const char *const *entries)
{
    char *own[64] = { NULL };
    size_t n = 0;

    for (char **e = environ; *e && n < 63; e++) {
        if (strncmp(*e, "PAI_", 4) == 0 || strncmp(*e, "REIGEN_", 7) == 0)
            own[n++] = strndup(*e, strcspn(*e, "="));
    }
    while (n) {
        unsetenv(own[--n]);
        free(own[n]);
    }
    for (; *entries; entries++) {
        char *name = strndup(*entries, strcspn(*entries, "="));
        setenv(name, strchr(*entries, '=') + 1, 1);
        free(name);
    }
}

#define ENV(...) set_env((const char *const[]){ __VA_ARGS__, NULL })
#define V2(...)                                                                                    \
    ENV("PAI_CURRENT_TASK_ROLE_NAME=worker", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=1",         \
        "PAI_TASK_ROLE_LIST=ps,worker,master", "PAI_TASK_ROLE_TASK_COUNT_ps=1",                    \
        "PAI_TASK_ROLE_TASK_COUNT_worker=2", "PAI_TASK_ROLE_TASK_COUNT_master=1",                  \
        "PAI_RESOURCE_worker=4,8,1024,64", "PAI_RESOURCE_ps=0,1,64,64",                            \
        "PAI_HOST_IP_master_0=10.0.0.7", "PAI_PORT_LIST_master_0_http=4000", __VA_ARGS__)

static void the_head_comes_first_then_the_roles_in_their_order(void **state)
{
    static const char *const names[] = { "master-0", "ps-0", "worker-0", "worker-1" };
    static const int slots[] = { 1, 1, 4, 4 };
    RG_AUTO_TASKS struct rg_tasks tasks = RG_TASKS_INIT;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    V2("PAI_PORT_LIST_ps_0_ssh=1", "PAI_PORT_LIST_worker_0_ssh=2");
    assert_true(rg_tasks_here());
    assert_int_equal(rg_tasks_read(&tasks, &err), 0);
    assert_int_equal(tasks.names.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(tasks.names.v[i], names[i]);
        assert_int_equal(tasks.nslots[i], slots[i]);
    }
    assert_int_equal(tasks.own, 3);
    assert_false(tasks.ssh); /* worker-1 has no port for it */
}

/* Those of version 2 are pods. */
static void a_task_that_is_a_pod_has_a_pod_s_time(void **state)
{
    (void) state;
    V2("REIGEN_POD_PORT=1");
    assert_int_equal(rg_tasks_notice_ms(), 0);
    setenv("FC_POD_UID", "1", 1);
    assert_int_equal(rg_tasks_notice_ms(), 25000);
    unsetenv("FC_POD_UID");
}

static void older_names_and_lists_tell_the_same(void **state)
{
    RG_AUTO_TASKS struct rg_tasks tasks = RG_TASKS_INIT;
    char address[RG_TASKS_ADDRESS_MAX];

    (void) state;
    ENV("PAI_TASK_ROLE_NAME=a", "PAI_TASK_ROLE_INDEX=0", "PAI_JOB_TASK_ROLE_LIST=a,b",
        "PAI_TASK_ROLE_a_HOST_LIST=10.1.0.1:80",
        "PAI_TASK_ROLE_b_HOST_LIST=10.1.0.2:81,10.1.0.3:82",
        "PAI_TASK_GPU_NUM=2", "PAI_a_0_http_PORT=8080,8081", "PAI_PORT_LIST_b_0_ssh=1",
        "PAI_PORT_LIST_b_1_ssh=1");
    assert_int_equal(rg_tasks_read(&tasks, NULL), 0);
    assert_int_equal(tasks.names.count, 3);
    assert_string_equal(tasks.names.v[2], "b-1");
    assert_int_equal(tasks.nslots[2], 2);
    assert_int_equal(tasks.own, 0);
    assert_true(tasks.ssh);
    assert_int_equal(rg_tasks_head(address, NULL), 0);
    assert_string_equal(address, "10.1.0.1:8080");
}

static void the_port_is_reigen_s_or_the_user_s_own(void **state)
{
    char address[RG_TASKS_ADDRESS_MAX];

    (void) state;
    V2("PAI_TASK_INDEX=1");
    assert_int_equal(rg_tasks_head(address, NULL), 0);
    assert_string_equal(address, "10.0.0.7:4000");
    V2("PAI_PORT_LIST_master_0_reigen=5000,5001");
    assert_int_equal(rg_tasks_head(address, NULL), 0);
    assert_string_equal(address, "10.0.0.7:5000");
    V2("REIGEN_POD_PORT=6000", "PAI_HOST_IP_master_0=fd00::7");
    assert_int_equal(rg_tasks_head(address, NULL), 0);
    assert_string_equal(address, "[fd00::7]:6000");
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *entry, *said;
    } cases[] = {
        { "PAI_TASK_ROLE_LIST=", "PAI_TASK_ROLE_LIST is not set" },
        { "PAI_TASK_ROLE_LIST=a b", "PAI_TASK_ROLE_LIST a b: no list" },
        { "PAI_TASK_ROLE_LIST=master,other", "PAI_TASK_ROLE_TASK_COUNT_other is not set" },
        { "PAI_TASK_ROLE_TASK_COUNT_ps=x", "PAI_TASK_ROLE_TASK_COUNT_ps x" },
        { "PAI_TASK_ROLE_TASK_COUNT_ps=16384", "more than 16384 tasks" },
        { "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=2", "tell of no such task" },
        { "PAI_CURRENT_TASK_ROLE_NAME=Worker", "PAI_CURRENT_TASK_ROLE_NAME Worker" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        RG_AUTO_TASKS struct rg_tasks tasks = RG_TASKS_INIT;
        struct rg_error err = RG_ERROR_INIT;
        V2(cases[i].entry);
        assert_true(rg_tasks_read(&tasks, &err) < 0);
        assert_int_equal(err.exit_code, RG_EXIT_USAGE);
        assert_contains(err.text, cases[i].said);
    }
}

/* Where no host is named, and only on the head. */
static void the_master_s_jobs_are_the_tasks(void **state)
{
    RG_AUTO_JOB struct rg_job job;

    (void) state;
    rg_job_init(&job);
    V2("PAI_TASK_INDEX=1");
    assert_ptr_not_equal(rg_driver_choose(&job), &rg_driver_openpai_tasks);
    V2("PAI_CURRENT_TASK_ROLE_NAME=master", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=0");
    assert_ptr_equal(rg_driver_choose(&job), &rg_driver_openpai_tasks);
    assert_int_equal(rg_driver_openpai_tasks.discover(NULL, &job, NULL), 0);
    assert_int_equal(job.nhosts, 4);
    assert_string_equal(job.hosts[3].name, "worker-1");
    assert_int_equal(job.hosts[3].nslots, 4);
    assert_string_equal(job.on, "openpai-tasks");
    V2("PAI_CURRENT_TASK_ROLE_NAME=");
    rg_job_fini(&job);
    rg_job_init(&job);
    assert_ptr_not_equal(rg_driver_choose(&job), &rg_driver_openpai_tasks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_head_comes_first_then_the_roles_in_their_order),
        cmocka_unit_test(a_task_that_is_a_pod_has_a_pod_s_time),
        cmocka_unit_test(older_names_and_lists_tell_the_same),
        cmocka_unit_test(the_port_is_reigen_s_or_the_user_s_own),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(the_master_s_jobs_are_the_tasks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
