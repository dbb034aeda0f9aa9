/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank of a host gets which GPUs, by what is visible and by what nvidia-smi lists. */
#include <fcntl.h>
#include <sys/stat.h>

#include "agent/engine/engine.h"
#include "agent/ranks/agent.h"
#include "agent/ranks/gpus.h"
#include "base/fd.h"
#include "unit.h"

#define TASKS 4

static struct rg_task tasks[TASKS];
static struct rg_task *list[TASKS] = { &tasks[0], &tasks[1], &tasks[2], &tasks[3] };
static struct rg_agent agent = { .tasks = list, .setup = { .host = (char *) "node1" } };
static bool engine;

/* agent/engine's, which the division asks alone. */
bool rg_engine_used(const struct rg_msg_setup *setup)
{
    return setup && engine;
}

/* seen: in the ranks' environment. NULL: not set. */
static int divide(int nranks, const char *each, const char *seen, struct rg_error *err)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    for (int i = 0; i < TASKS; i++)
        free(rg_steal_ptr(&tasks[i].gpus));
    agent.ntasks = (size_t) nranks;
    rg_strv_fini(&agent.setup.env);
    if (each)
        rg_env_set(&agent.setup.env, "REIGEN_GPUS_PER_RANK", each);
    if (seen)
        rg_env_set(&env, "CUDA_VISIBLE_DEVICES", seen);
    return rg_gpus_divide(&agent, &env, err);
}

static void check(const char *a, const char *b)
{
    a ? assert_string_equal(tasks[0].gpus, a) : assert_null(tasks[0].gpus);
    b ? assert_string_equal(tasks[1].gpus, b) : assert_null(tasks[1].gpus);
}

static void put_smi(const char *text)
{
    rg_autofree char *path = rg_strf("%s/nvidia-smi", getenv("SMI_DIR"));
    rg_autofree char *script = rg_strf("#!/bin/sh\n%s\n", text);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

    assert_true(fd >= 0 && write(fd, script, strlen(script)) == (ssize_t) strlen(script));
    close(fd);
}

static void nothing_is_divided_where_nobody_asks_for_it(void **state)
{
    (void) state;
    assert_int_equal(divide(2, NULL, "0,1", NULL), 0);
    check(NULL, NULL);
    engine = true; /* mpirun's ranks are not ours */
    assert_int_equal(divide(2, "1", "0,1", NULL), 0);
    check(NULL, NULL);
    engine = false;
    assert_int_equal(divide(0, "1", "", NULL), 0);
}

static void what_is_visible_is_divided_in_its_order(void **state)
{
    (void) state;
    assert_int_equal(divide(2, "1", "3,1,2", NULL), 0);
    check("3", "1");
    assert_int_equal(divide(2, "2", "3,1,2,0", NULL), 0);
    check("3,1", "2,0");
    assert_int_equal(divide(2, "all", "GPU-a,GPU-b,GPU-c,GPU-d,GPU-e", NULL), 0);
    check("GPU-a,GPU-b", "GPU-c,GPU-d");
    assert_int_equal(divide(2, "1", "MIG-GPU-a/1/0,MIG-GPU-a/2/0", NULL), 0);
    check("MIG-GPU-a/1/0", "MIG-GPU-a/2/0");
    setenv("CUDA_VISIBLE_DEVICES", "6,7", 1); /* the agent's own: Slurm's */
    assert_int_equal(divide(2, "1", NULL, NULL), 0);
    check("6", "7");
    assert_int_equal(divide(2, "1", "4,5", NULL), 0);
    check("4", "5");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void too_few_are_told_with_their_number(void **state)
{
    static const struct { const char *seen; int nranks; const char *each, *told; } cases[] = {
        { "0", 2, "1", "node1 (2): CUDA_VISIBLE_DEVICES shows 1" },
        { "0,1,2", 2, "2", "node1 (2): CUDA_VISIBLE_DEVICES shows 3" },
        { "0,1,2", 4, "all", "node1 (4): CUDA_VISIBLE_DEVICES shows 3" },
        { "", 1, "1", "shows 0" },
        { "0,-1,1", 1, "2", "shows 1" }, /* CUDA sees nothing behind it */
        { "NoDevFiles", 1, "all", "shows 0" },
        { "0", 1, "18446744073709551615", "shows 1" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(divide(cases[i].nranks, cases[i].each, cases[i].seen, &err), -ENODEV);
        assert_int_equal(err.exit_code, 69);
        assert_contains(err.text, cases[i].told);
        check(NULL, NULL);
    }
}

static void without_a_list_nvidia_smi_is_asked(void **state)
{
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    put_smi("echo 'GPU 0: NVIDIA H200 (UUID: GPU-a)'\n"
            "echo 'GPU 1: NVIDIA H200 (UUID: GPU-b)'");
    assert_int_equal(divide(2, "1", NULL, NULL), 0);
    check("GPU-a", "GPU-b");
    put_smi("exit 9");
    assert_int_equal(divide(1, "all", NULL, &err), -ENODEV);
    assert_contains(err.text, "nvidia-smi -L shows 0");
    put_smi("printf 'GPU 0: NVIDIA H200 (UUID:'");
    assert_int_equal(divide(1, "all", NULL, &err), -ENODEV);
    assert_contains(err.text, "nvidia-smi -L shows 0");
    put_smi("echo \"GPU 0: NVIDIA H200 (UUID: GPU-a\nno more: (UUID: \"");
    assert_int_equal(divide(1, "1", NULL, NULL), 0);
    check("GPU-a", NULL);
}

static void the_parts_of_a_gpu_take_its_place(void **state)
{
    (void) state;
    put_smi("echo 'GPU 0: NVIDIA H200 (UUID: GPU-a)'\n"
            "echo '  MIG 1g.18gb     Device  0: (UUID: MIG-b)'\n"
            "echo '  MIG 1g.18gb     Device  1: (UUID: MIG-c)'\n"
            "echo 'GPU 1: NVIDIA H200 (UUID: GPU-d)'");
    assert_int_equal(divide(3, "1", NULL, NULL), 0);
    check("MIG-b", "MIG-c");
    assert_string_equal(tasks[2].gpus, "GPU-d");
    assert_int_equal(divide(1, "all", NULL, NULL), 0);
    check("MIG-b,MIG-c,GPU-d", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_divided_where_nobody_asks_for_it),
        cmocka_unit_test(what_is_visible_is_divided_in_its_order),
        cmocka_unit_test(too_few_are_told_with_their_number),
        cmocka_unit_test(without_a_list_nvidia_smi_is_asked),
        cmocka_unit_test(the_parts_of_a_gpu_take_its_place),
    };
    char dir[] = "/tmp/reigen-gpus-XXXXXX", path[256];

    unsetenv("CUDA_VISIBLE_DEVICES");
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof(path), "%s:/usr/bin:/bin", dir);
    setenv("SMI_DIR", dir, 1);
    setenv("PATH", path, 1);
    int r = cmocka_run_group_tests(tests, NULL, NULL);

    divide(0, NULL, NULL, NULL);
    snprintf(path, sizeof(path), "%s/nvidia-smi", dir);
    unlink(path);
    rmdir(dir);
    return r;
}
