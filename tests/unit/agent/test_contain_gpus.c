/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs a container gets in Slurm, by Slurm's own numbers and by those that processes see. */
#include "agent/contain.h"
#include "unit.h"

static struct rg_contain contain;

static int limit(const char *given, const char *seen, const char *wanted, struct rg_error *err)
{
    free(rg_steal_ptr(&contain.container.gpus));
    free(rg_steal_ptr(&contain.own_gpus));
    unsetenv("SLURM_JOB_GPUS");
    unsetenv("NV_GPU");
    unsetenv("NVIDIA_VISIBLE_DEVICES");
    given ? setenv("SLURM_STEP_GPUS", given, 1) : unsetenv("SLURM_STEP_GPUS");
    seen ? setenv("CUDA_VISIBLE_DEVICES", seen, 1) : unsetenv("CUDA_VISIBLE_DEVICES");
    contain.container.gpus = wanted ? strdup(wanted) : NULL;
    return rg_contain_limit_gpus(&contain, err);
}

static void check(const char *gpus, const char *own)
{
    gpus ? assert_string_equal(contain.container.gpus, gpus) : assert_null(contain.container.gpus);
    own ? assert_string_equal(contain.own_gpus, own) : assert_null(contain.own_gpus);
}

static void confined_processes_count_their_gpus_from_0_on(void **state)
{
    (void) state;
    assert_int_equal(limit("4,5,6", "0,1,2", NULL, NULL), 0);
    check("4,5,6", "0,1,2");
    assert_int_equal(limit("4,5,6", "0,1,2", "2", NULL), 0);
    check("4,5", "0,1");
    assert_int_equal(limit("4,5,6", "0,1,2", "6,4", NULL), 0);
    check("6,4", "2,0");
    assert_int_equal(limit("7", "0", NULL, NULL), 0);
    check("7,", "0,"); /* a name, not how many */
    assert_int_equal(limit("2,3", "2,3", NULL, NULL), 0); /* Slurm confines nothing */
    check("2,3", "2,3");
}

static void without_both_lists_nothing_is_renumbered(void **state)
{
    (void) state;
    assert_int_equal(limit("4,5", NULL, NULL, NULL), 0);
    check("4,5", NULL);
    assert_int_equal(limit("4,5", "0", NULL, NULL), 0);
    check("4,5", NULL);
    assert_int_equal(limit("4,5", "GPU garbage", NULL, NULL), 0);
    check("4,5", NULL);
    assert_int_equal(limit(NULL, NULL, "2", NULL), 0); /* Slurm counts no GPUs */
    check("2", NULL);
}

static void what_slurm_did_not_give_is_refused(void **state)
{
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(limit("4,5", "0,1", "3", &err), -EPERM);
    assert_int_equal(err.exit_code, 77);
    assert_int_equal(limit("4,5", "0,1", "0,", &err), -EPERM);
    assert_contains(err.text, "has not given the GPU 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(confined_processes_count_their_gpus_from_0_on),
        cmocka_unit_test(without_both_lists_nothing_is_renumbered),
        cmocka_unit_test(what_slurm_did_not_give_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
