/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "coll/progress/autotune.h"
#include "unit.h"

#define STEP_NBYTES 1000000u

/* A job of steps of three operations whose time depends on the parameters in force. */
struct job {
    struct rg_autotune *autotune;
    struct rg_tuning tuning;
    uint64_t now_ns, nbytes, random;
    int nchanges;
};

static uint64_t step_us(struct job *job)
{
    uint64_t us = 1000;

    if (job->tuning.fusion_nbytes != 8u << 20)
        us += job->tuning.fusion_nbytes < 8u << 20 ? 400 : 150;
    us += rg_tuning_spin_us(job->tuning.spin) == 0 ? 0 : 100;
    job->random = job->random * 6364136223846793005u + 1442695040888963407u;
    /* Noise, and now and then a step that is far off: the median does not mind. */
    return us + (job->random >> 33) % 60 + (job->random >> 60 == 0 ? 50000 : 0);
}

static void run(struct job *job, int nsteps)
{
    for (int i = 0; i < nsteps; i++) {
        uint64_t us = step_us(job);

        for (uint32_t id = 0; id < 3; id++) {
            job->nbytes += STEP_NBYTES / 3;
            job->now_ns += us * 1000 / 3;
            job->nchanges += rg_autotune_saw(job->autotune, id, job->nbytes, job->now_ns,
                                             &job->tuning);
        }
    }
}

static struct rg_autotune_options options_of(const char *log)
{
    return (struct rg_autotune_options){ .first = { RG_TUNING_FUSION_DEFAULT, 0 },
                                         .several_nodes = true,
                                         .warmup_samples = 2,
                                         .steps_per_sample = 5,
                                         .max_samples = 20,
                                         .log = log };
}

static void start(struct job *job, const struct rg_autotune_options *options)
{
    int log_errno = -1;

    *job = (struct job){ .tuning = options->first, .now_ns = 1, .random = 7 };
    assert_int_equal(rg_autotune_create(options, &job->autotune, &log_errno), 0);
    assert_int_equal(log_errno, 0);
}

static void the_best_of_the_grid_is_found_despite_noise(void **state)
{
    struct rg_autotune_options options = options_of("");
    struct job job;

    (void) state;
    start(&job, &options);
    run(&job, 400);
    assert_true(rg_autotune_done(job.autotune));
    assert_int_equal(job.tuning.fusion_nbytes, 8u << 20);
    assert_int_equal(rg_tuning_spin_us(job.tuning.spin), 0);
    assert_true(job.nchanges <= 21);
    rg_autotune_destroy(job.autotune);
}

static void what_the_user_has_set_is_not_changed(void **state)
{
    struct rg_autotune_options options = options_of("");
    struct job job;

    (void) state;
    options.first.fusion_nbytes = 12345;
    options.fusion_fixed = true;
    start(&job, &options);
    for (int i = 0; i < 200; i++) {
        run(&job, 1);
        assert_int_equal(job.tuning.fusion_nbytes, 12345);
    }
    assert_true(rg_autotune_done(job.autotune));
    rg_autotune_destroy(job.autotune);
    options.spin_fixed = true;
    start(&job, &options);
    assert_true(rg_autotune_done(job.autotune));
    rg_autotune_destroy(job.autotune);
}

static void samples_are_not_more_than_allowed(void **state)
{
    struct rg_autotune_options options = options_of("");
    struct job job;

    (void) state;
    options.max_samples = 3;
    start(&job, &options);
    run(&job, (2 + 3) * 6 + 2);
    assert_true(rg_autotune_done(job.autotune));
    rg_autotune_destroy(job.autotune);
}

static void names_that_never_come_again_make_steps_too(void **state)
{
    struct rg_autotune_options options = options_of("");
    struct job job;

    (void) state;
    options.warmup_samples = 0;
    options.max_samples = 1;
    start(&job, &options);
    for (uint32_t id = 0; id < 7 * RG_AUTOTUNE_STEP_RUNS; id++)
        rg_autotune_saw(job.autotune, id, id * 100u, id * 1000u, &job.tuning);
    assert_true(rg_autotune_done(job.autotune));
    rg_autotune_destroy(job.autotune);
}

static void log_has_horovods_columns_and_ends_with_the_best(void **state)
{
    char path[] = "/tmp/reigen-autotune-XXXXXX";
    int fd = mkstemp(path);
    struct rg_autotune_options options = options_of(path);
    struct job job;
    rg_autofree char *text = NULL;
    const char *last;

    (void) state;
    assert_true(fd >= 0);
    close(fd);
    start(&job, &options);
    run(&job, 400);
    rg_autotune_destroy(job.autotune);
    assert_int_equal(rg_read_file(path, 1 << 20, &text, NULL), 0);
    unlink(path);
    assert_contains(text, "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,"
                          "cache_enabled,cycle_time_ms,tensor_fusion_threshold,score,spin_us\n");
    text[strlen(text) - 1] = '\0';
    last = strrchr(text, '\n');
    assert_true(last && strncmp(last + 1, "0,0,0,1,0,8388608,", 18) == 0);
}

static void log_that_cannot_be_written_is_told_and_nothing_else_happens(void **state)
{
    struct rg_autotune_options options = options_of("/nonexistent/log");
    struct rg_autotune *autotune = NULL;
    int log_errno = 0;

    (void) state;
    assert_int_equal(rg_autotune_create(&options, &autotune, &log_errno), 0);
    assert_int_equal(log_errno, ENOENT);
    rg_autotune_destroy(autotune);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_of_the_grid_is_found_despite_noise),
        cmocka_unit_test(what_the_user_has_set_is_not_changed),
        cmocka_unit_test(samples_are_not_more_than_allowed),
        cmocka_unit_test(names_that_never_come_again_make_steps_too),
        cmocka_unit_test(log_has_horovods_columns_and_ends_with_the_best),
        cmocka_unit_test(log_that_cannot_be_written_is_told_and_nothing_else_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
