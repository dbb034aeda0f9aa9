/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/plan/plan.h"
#include "job/hostlist.h"
#include "unit.h"

/* A master and two workers on two hosts; a worker's data ports are free ones, its web ports not. */
static void make(struct rg_job *job, struct rg_plan *plan)
{
    struct rg_error err = RG_ERROR_INIT;

    rg_job_init(job);
    assert_int_equal(rg_hostlist_parse(job, "-H", "a,b", NULL), 0);
    assert_non_null(rg_job_add_role(job, "master"));
    assert_non_null(rg_job_add_role(job, "worker"));
    job->roles[1].ntasks = 2;
    for (int i = 0; i < 2; i++)
        assert_int_equal(rg_role_add_port(&job->roles[i], "http", 0, 1), 0);
    assert_int_equal(rg_role_add_port(&job->roles[1], "web", 80, 2), 0);
    assert_int_equal(rg_role_add_port(&job->roles[1], "data", 0, 2), 0);
    rg_strv_add(&job->roles[1].env, "OWN=yes");
    rg_strv_add(&job->command, "sh");
    job->engine = RG_ENGINE_SCRIPT;
    job->np = rg_job_ntasks(job);
    job->ranks_per_host = 1;
    job->oversubscribe = true;
    if (rg_plan_make(job, plan, &err) < 0)
        fail_msg("%s", err.text);
}

static void clear(struct rg_job *job, struct rg_plan *plan)
{
    rg_plan_fini(plan);
    rg_job_fini(job);
}

static void tasks_have_names_and_hosts(void **state)
{
    static const char *const names[] = { "master-0", "worker-0", "worker-1" };
    struct rg_job job;
    struct rg_plan plan;
    int index;

    (void) state;
    make(&job, &plan);
    assert_int_equal(plan.nranks, 3); /* though they are an engine's */
    for (int r = 0; r < 3; r++) {
        assert_string_equal(plan.ranks[r].task, names[r]);
        assert_int_equal(plan.ranks[r].host, r % 2);
        assert_int_equal(rg_plan_find_task(&plan, names[r]), r);
    }
    assert_int_equal(rg_plan_find_task(&plan, "worker-2"), -1);
    assert_ptr_equal(rg_job_role_of(&job, 2, &index), &job.roles[1]);
    assert_int_equal(index, 1);
    assert_null(rg_job_role_of(&job, 3, &index));
    clear(&job, &plan);
}

static void hosts_are_asked_for_free_ports_alone(void **state)
{
    struct rg_job job;
    struct rg_plan plan;

    (void) state;
    make(&job, &plan);
    assert_int_equal(rg_plan_count_ports(&plan, &job, 0), 1 + 3);
    assert_int_equal(rg_plan_count_ports(&plan, &job, 1), 3);
    clear(&job, &plan);
}

static void variables_tell_where_all_are(void **state)
{
    static const char *const expected[][2] = {
        { "PAI_HOST_IP_master_0", "10.0.0.1" },
        { "PAI_HOST_IP_worker_0", "b" },
        { "PAI_PORT_LIST_master_0_http", "1001" },
        { "PAI_PORT_LIST_worker_0_http", "2001" },
        { "PAI_PORT_LIST_worker_0_web", "80,81" },
        { "PAI_PORT_LIST_worker_0_data", "2002,2003" },
        { "PAI_worker_1_data_PORT", "1003,1004" },
        { "PAI_TASK_ROLE_worker_HOST_LIST", "b:2001,10.0.0.1:1002" },
        { "PAI_TASK_INDEX", "1" },
        { "PAI_CONTAINER_HOST_IP", "10.0.0.1" },
        { "PAI_CONTAINER_HOST_PORT", "1002" },
        { "PAI_CONTAINER_HOST_PORT_LIST", "http:1002;web:80,81;data:1003,1004" },
        { "PAI_CONTAINER_HOST_data_PORT_LIST", "1003,1004" },
        { "PAI_CONTAINER_ID", "worker-1" },
        { RG_ROLE_VARIABLE, "1" },
        { "OWN", "yes" },
    };
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    struct rg_job job;
    struct rg_plan plan;
    int *const found[] = { (int[]){ 1001, 1002, 1003, 1004 }, (int[]){ 2001, 2002, 2003 } };

    (void) state;
    make(&job, &plan);
    rg_strv_add(&job.env, "PAI_CONTAINER_SSH_PORT=22");
    plan.hosts[0].address = strdup("10.0.0.1");
    assert_int_equal(rg_plan_set_ports(&plan, &job, found), 0);
    assert_int_equal(plan.ntask_ports, 1 + 2 * 5);
    assert_int_equal(rg_plan_task_env(&plan, &job, 2, &env), 0);
    for (size_t i = 0; i < rg_array_len(expected); i++) {
        if (!rg_env_get(&env, expected[i][0]))
            fail_msg("no %s", expected[i][0]);
        assert_string_equal(rg_env_get(&env, expected[i][0]), expected[i][1]);
    }
    assert_null(rg_env_get(&env, "PAI_CONTAINER_SSH_PORT")); /* the user says it */
    clear(&job, &plan);
}

static void without_ports_nothing_is_said_of_them(void **state)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    struct rg_job job;
    struct rg_plan plan;

    (void) state;
    make(&job, &plan);
    assert_int_equal(rg_plan_task_env(&plan, &job, 0, &env), 0);
    assert_string_equal(rg_env_get(&env, "PAI_HOST_IP_worker_1"), "a");
    for (size_t i = 0; i < env.count; i++)
        assert_null(strstr(env.v[i], "PORT"));
    clear(&job, &plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_have_names_and_hosts),
        cmocka_unit_test(hosts_are_asked_for_free_ports_alone),
        cmocka_unit_test(variables_tell_where_all_are),
        cmocka_unit_test(without_ports_nothing_is_said_of_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
