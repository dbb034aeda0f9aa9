/* SPDX-License-Identifier: Apache-2.0 */
/* How a job on OpenPAI has ended, by what the server says of it and of its tasks. */
#include <string.h>

#include "base/exitcode.h"
#include "platform/openpai/outside/internal.h"
#include "unit.h"

#define NONE INT32_MIN /* no exit code */

struct case_of_end {
    int version;
    enum pai_state state;
    struct { enum pai_state state; int code; } head, worker;
    const char *trigger; /* role; its task is 0 */
    int wanted;
    const char *words;   /* "": nothing is said */
};

/* Texts are borrowed, so it is not to be freed. */
static void set_task(struct pai_task *task, const char *role, enum pai_state state, int code)
{
    *task = (struct pai_task){ .role = (char *) role, .state = state, .has_exit = code != NONE,
                               .exit_code = code, .ip = (char *) "", .log = (char *) "",
                               .said = (char *) "", .container = (char *) "" };
}

static void check(const struct case_of_end *c)
{
    struct pai_task tasks[2];
    struct rg_error err = RG_ERROR_INIT;
    struct pai_job job = { .name = (char *) "night", .state = c->state, .tasks = tasks, .ntasks = 2,
                           .said = (char *) "", .trigger_role = (char *) c->trigger };

    set_task(&tasks[0], PAI_WORKER, c->worker.state, c->worker.code);
    set_task(&tasks[1], PAI_MASTER, c->head.state, c->head.code);
    const struct pai_task *trigger = strcmp(c->trigger, PAI_WORKER) == 0 ? &tasks[0] : &tasks[1];
    job.has_exit = *c->trigger && trigger->has_exit;
    job.exit_code = trigger->exit_code;
    assert_int_equal(pai_verdict(c->version, &job, &err), c->wanted);
    if (!*c->words)
        assert_int_equal(err.errnum, 0);
    else
        assert_contains(err.text, c->words);
}

static void the_heads_own_code_counts_first(void **state)
{
    static const struct case_of_end cases[] = {
        { 2, PAI_SUCCEEDED, { PAI_SUCCEEDED, 0 }, { PAI_STOPPED, -220 }, "master", 0, "" },
        { 1, PAI_SUCCEEDED, { PAI_SUCCEEDED, 0 }, { PAI_STOPPED, -7400 }, "master", 0, "" },
        { 2, PAI_FAILED, { PAI_FAILED, 7 }, { PAI_STOPPED, -220 }, "master", 7, "" },
        { 1, PAI_FAILED, { PAI_FAILED, 124 }, { PAI_STOPPED, -7400 }, "master", 124, "" },
        { 2, PAI_FAILED, { PAI_FAILED, 7 }, { PAI_FAILED, 75 }, "worker", 7, "" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++)
        check(&cases[i]);
}

static void what_the_platform_did_is_said(void **state)
{
    static const struct case_of_end cases[] = {
        { 2, PAI_STOPPED, { PAI_STOPPED, 143 }, { PAI_STOPPED, -220 }, "master", RG_EXIT_PREEMPTED,
          "job night was stopped on OpenPAI, by reigen stop or in another way" },
        { 1, PAI_STOPPED, { PAI_STOPPED, -7400 }, { PAI_STOPPED, -7400 }, "", RG_EXIT_PREEMPTED,
          "was stopped on OpenPAI" },
        { 2, PAI_FAILED, { PAI_STOPPED, -220 }, { PAI_FAILED, 9 }, "worker", 9,
          "OpenPAI has ended the job for worker-0: it failed (exit code 9)" },
        { 2, PAI_FAILED, { PAI_STOPPED, -220 }, { PAI_FAILED, 9 }, "", 9, "for worker-0" },
        { 2, PAI_FAILED, { PAI_FAILED, 0 }, { PAI_STOPPED, -220 }, "master", 1,
          "OpenPAI has ended the job for master-0" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++)
        check(&cases[i]);
}

static void hosts_begin_with_the_head(void **state)
{
    struct pai_task tasks[3];
    const struct pai_job job = { .tasks = tasks, .ntasks = 3 }, none = { .ntasks = 0 };
    char name[PAI_HOST_MAX];

    (void) state;
    set_task(&tasks[0], PAI_WORKER, PAI_RUNNING, NONE);
    set_task(&tasks[1], PAI_WORKER, PAI_RUNNING, NONE);
    set_task(&tasks[2], PAI_MASTER, PAI_RUNNING, NONE);
    tasks[1].index = 1;
    assert_ptr_equal(pai_head_of(&job), &tasks[2]);
    assert_int_equal(pai_host_of(&job, &tasks[2]), 0);
    assert_int_equal(pai_host_of(&job, &tasks[0]), 1);
    assert_int_equal(pai_host_of(&job, &tasks[1]), 2);
    assert_string_equal(pai_task_name(&tasks[1], name), "worker-1");
    tasks[2].role = (char *) "ps"; /* somebody's own job */
    assert_ptr_equal(pai_head_of(&job), &tasks[0]);
    assert_int_equal(pai_host_of(&job, &tasks[2]), 2);
    assert_null(pai_head_of(&none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_heads_own_code_counts_first),
        cmocka_unit_test(what_the_platform_did_is_said),
        cmocka_unit_test(hosts_begin_with_the_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
