/* SPDX-License-Identifier: Apache-2.0 */
#include "job/engine.h"
#include "unit.h"

static void make(struct rg_job *job, enum rg_engine engine, const char *command)
{
    rg_job_init(job);
    job->engine = engine;
    assert_int_equal(rg_strv_add(&job->command, command), 0);
}

static void auto_is_told_by_the_commands_name(void **state)
{
    static const struct { const char *command, *engine, *program; } cases[] = {
        { "mpirun", "mpirun", "mpirun" },
        { "/opt/intel/bin/mpiexec.hydra", "mpirun", "mpiexec.hydra" },
        { "./prterun", "mpirun", "prterun" },
        { "pdsh", "mpirun", "pdsh" },
        { "python", "native", "python" },
        { "mpirun.sh", "native", "mpirun.sh" },
        { "mpirun/train", "native", "train" },
        { "mpirun mpiexec", "native", "mpirun mpiexec" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_job job;
        make(&job, RG_ENGINE_AUTO, cases[i].command);
        assert_string_equal(rg_job_engine_name(&job), cases[i].engine);
        assert_string_equal(rg_job_engine_program(&job), cases[i].program);
        assert_int_equal(rg_job_has_engine(&job), strcmp(cases[i].engine, "native") != 0);
        rg_job_fini(&job);
    }
}

static void a_named_engine_wins_over_the_commands_name(void **state)
{
    struct rg_job job;

    (void) state;
    make(&job, RG_ENGINE_NATIVE, "mpirun");
    assert_false(rg_job_has_engine(&job));
    rg_job_fini(&job);
    make(&job, RG_ENGINE_SCRIPT, "./job.sh");
    assert_string_equal(rg_job_engine_name(&job), "script");
    assert_string_equal(rg_job_engine_program(&job), "job.sh");
    rg_job_fini(&job);
    make(&job, RG_ENGINE_HYDRA, "train");
    assert_string_equal(rg_job_engine_program(&job), "mpirun");
    rg_job_fini(&job);
}

static void what_does_not_go_together_is_refused(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_job job;

    (void) state;
    make(&job, RG_ENGINE_OPENMPI, "mpirun");
    assert_int_equal(rg_job_check(&job, &err), -EINVAL);
    assert_contains(err.text, "--engine openmpi calls mpirun itself");
    rg_job_fini(&job);
    make(&job, RG_ENGINE_SCRIPT, "x");
    assert_int_equal(rg_strv_add(&job.engine_options, "-v"), 0);
    assert_int_equal(rg_job_check(&job, &err), -EINVAL);
    assert_contains(err.text, "--engine-option -v: only");
    rg_job_fini(&job);
    make(&job, RG_ENGINE_AUTO, "mpirun");
    job.tf_config = true;
    assert_int_equal(rg_job_check(&job, &err), -EINVAL);
    assert_contains(err.text, "--engine native");
    rg_job_fini(&job);
}

static void check_options(enum rg_engine engine, enum rg_bind bind, enum rg_map map,
                          const char *wanted)
{
    rg_autostrv struct rg_strv options = RG_STRV_INIT;
    char text[256] = "";
    struct rg_job job;

    make(&job, engine, "x");
    job.bind = bind;
    job.map = map;
    assert_int_equal(rg_strv_add(&job.engine_options, "-v"), 0);
    assert_int_equal(rg_job_engine_options(&job, &options), 0);
    for (size_t i = 0; i < options.count; i++) {
        strcat(text, i ? " " : "");
        strcat(text, options.v[i]);
    }
    assert_string_equal(text, wanted);
    rg_job_fini(&job);
}

static void each_engine_gets_binding_and_mapping_in_its_own_words(void **state)
{
    (void) state;
    check_options(RG_ENGINE_OPENMPI, RG_BIND_CORE, RG_MAP_NODE, "--bind-to core --map-by node -v");
    check_options(RG_ENGINE_HYDRA, RG_BIND_SOCKET, RG_MAP_NODE, "-bind-to socket -ppn 1 -v");
    check_options(RG_ENGINE_OPENMPI, RG_BIND_NONE, RG_MAP_SLOT, "-v");
    check_options(RG_ENGINE_SCRIPT, RG_BIND_CORE, RG_MAP_NODE, "-v");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_is_told_by_the_commands_name),
        cmocka_unit_test(a_named_engine_wins_over_the_commands_name),
        cmocka_unit_test(what_does_not_go_together_is_refused),
        cmocka_unit_test(each_engine_gets_binding_and_mapping_in_its_own_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
