/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that are found in what a rank has submitted, and what becomes of them elsewhere. */
#include <math.h>

#include "base/buf.h"
#include "simulate/profile.h"
#include "simulate/simulate.h"
#include "unit.h"

/* A timeline that is made up, at the time `now`, in seconds. */
struct made {
    struct rg_traced traced;
    char names[64][32];
    double now;
};

static uint32_t lane_of(struct made *made, const char *name)
{
    struct rg_traced *t = &made->traced;

    for (size_t i = 0; i < t->nnames; i++) {
        if (strcmp(t->names[i], name) == 0)
            return (uint32_t) i;
    }
    assert_int_equal(rg_grow(&t->names, &t->names_room, t->nnames + 1), 0);
    t->names[t->nnames] = strdup(name);
    return (uint32_t) t->nnames++;
}

/* Compute so long, and submit; the operation takes so long. */
static void submit(struct made *made, const char *name, double compute_s, uint64_t nbytes,
                   double takes_s)
{
    struct rg_traced *t = &made->traced;

    made->now += compute_s;
    assert_int_equal(rg_grow(&t->ops, &t->ops_room, t->nops + 1), 0);
    assert_int_equal(rg_grow(&t->arrivals, &t->arrivals_room, t->narrivals + 1), 0);
    t->arrivals[t->narrivals] = (struct rg_traced_arrival){ 0, made->now };
    t->ops[t->nops++] = (struct rg_traced_op){
        .lane = lane_of(made, name), .kind = "ALLREDUCE", .type = "float32", .nbytes = nbytes,
        .ntensors = 1, .all_s = made->now, .end_s = made->now + takes_s, .first = t->narrivals++,
        .narrivals = 1,
    };
}

/* Wait for the last one. */
static void await(struct made *made)
{
    struct rg_traced *t = &made->traced;

    made->now += 1e-6;
    assert_int_equal(rg_grow(&t->waits, &t->waits_room, t->nwaits + 1), 0);
    t->waits[t->nwaits++] = made->now;
    if (t->ops[t->nops - 1].end_s > made->now)
        made->now = t->ops[t->nops - 1].end_s;
}

static void step(struct made *made, double takes_s)
{
    submit(made, "allreduce.c", 0.040, 4000, takes_s);
    submit(made, "allreduce.b", 0.020, 4000, takes_s);
    submit(made, "allreduce.a", 0.010, 400, takes_s);
    await(made);
    submit(made, "allreduce.loss", 0.002, 4, takes_s);
    await(made);
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-5;
}

static void check_step(const struct rg_profile *profile, int nsteps)
{
    assert_int_equal(profile->nops, 4);
    assert_int_equal(profile->nsteps, nsteps);
    assert_string_equal(profile->ops[0].name, "allreduce.c");
    assert_string_equal(profile->ops[3].name, "allreduce.loss");
    assert_true(near(profile->ops[0].compute_s, 0.040) && near(profile->ops[1].compute_s, 0.020));
    assert_true(near(profile->ops[3].compute_s, 0.002) && near(profile->compute_s, 0.072));
    assert_true(profile->ops[0].waits && !profile->ops[1].waits && !profile->ops[2].waits);
    assert_true(profile->ops[3].waits);
}

static void a_step_is_what_comes_again(void **state)
{
    static const double takes[] = { 0, 0.005, 0.3 }; /* which is not computing */

    (void) state;
    for (int i = 0; i < 3; i++) {
        struct made made = { .now = 1 };
        struct rg_profile profile;
        for (int k = 0; k < 3; k++)
            submit(&made, "broadcast.once", 0.5, 77, 0), await(&made);
        for (int k = 0; k < 12; k++)
            step(&made, takes[i]);
        submit(&made, "allreduce.c", 0.040, 4000, 0); /* of one that has just begun */
        assert_int_equal(rg_profile_make(&made.traced, 0, 10, &profile), 0);
        check_step(&profile, 10);
        assert_true(near(profile.step_s, 0.072 + 2 * takes[i]));
        rg_profile_fini(&profile);
        assert_int_equal(rg_profile_make(&made.traced, 1, 10, &profile), -EAGAIN);
        rg_traced_fini(&made.traced);
    }
}

/* Gradients that are ready by chance are fused: of several forms the commonest one is the step. */
static void a_step_may_come_in_several_forms(void **state)
{
    static const char forms[] = "FSTFFSFSTTFFSF"; /* which never comes three times in a row */
    struct made made = { .now = 1 };
    struct rg_profile profile;

    (void) state;
    for (const char *form = forms; *form; form++) {
        if (*form == 'F')
            submit(&made, "allreduce.c+2", 0.070, 8400, 0);
        if (*form == 'S')
            submit(&made, "allreduce.c+1", 0.060, 8000, 0);
        if (*form == 'T')
            submit(&made, "allreduce.c", 0.040, 4000, 0), submit(&made, "b+1", 0.030, 4400, 0);
        if (*form == 'S')
            submit(&made, "allreduce.a", 0.010, 400, 0);
        await(&made);
        submit(&made, "allreduce.loss", 0.002, 4, 0);
        await(&made);
    }
    assert_int_equal(rg_profile_make(&made.traced, 0, 10, &profile), 0);
    assert_int_equal(profile.nops, 2);
    assert_int_equal(profile.nsteps, 6 - 1); /* one of seven has no end; one warms up */
    assert_string_equal(profile.ops[0].name, "allreduce.c+2");
    assert_true(near(profile.compute_s, 0.072) && near(profile.step_s, 0.072));
    rg_profile_fini(&profile);
    rg_traced_fini(&made.traced);
}

/* Names that were made count on; and layers that are alike are no steps. */
static void names_that_count_on_are_alike(void **state)
{
    struct made made = { .now = 1 };
    struct rg_profile profile;
    int number = 0;

    (void) state;
    for (int k = 0; k < 4; k++) {
        for (int layer = 0; layer < 6; layer++) {
            char name[32];
            snprintf(name, sizeof(name), "allreduce.noname.%d", number++);
            submit(&made, name, layer ? 0.001 : 0.1, 800, 0);
        }
        await(&made);
    }
    assert_int_equal(rg_profile_make(&made.traced, 0, 10, &profile), 0);
    assert_true(profile.nops == 6 && near(profile.ops[0].compute_s, 0.1));
    rg_profile_fini(&profile);
    rg_traced_fini(&made.traced);
}

/* What is over when the program begins to wait has cost it nothing. */
static void computing_before_a_wait_counts(void **state)
{
    struct made made = { .now = 1 };
    struct rg_profile profile;

    (void) state;
    for (int k = 0; k < 8; k++) {
        submit(&made, "allreduce.x", 0.010, 400, 0.005);
        made.now += 0.020;
        await(&made);
    }
    assert_int_equal(rg_profile_make(&made.traced, 0, 10, &profile), 0);
    assert_true(profile.nops == 1 && near(profile.compute_s, 0.030));
    rg_profile_fini(&profile);
    rg_traced_fini(&made.traced);
}

/* As of TensorFlow's threads, whose operations nobody waits for. */
static void a_step_may_come_in_any_order(void **state)
{
    static const char *const names[] = { "allreduce.a", "allreduce.b", "allreduce.c" };
    static const int firsts[] = { 0, 1, 2, 1, 0, 0, 2, 1, 1, 2 };
    struct made made = { .now = 1 };
    struct rg_profile profile;

    (void) state;
    for (int k = 0; k < 10; k++) {
        for (int i = 0; i < 3; i++)
            submit(&made, names[(i + firsts[k]) % 3], i ? 0.001 : 0.1, 800, 0.01);
    }
    assert_int_equal(rg_profile_make(&made.traced, 0, 10, &profile), 0);
    assert_true(profile.nops == 3 && profile.ops[0].waits && near(profile.compute_s, 0.102));
    assert_true(near(profile.ops[0].compute_s, 0.1));
    rg_profile_fini(&profile);
    rg_traced_fini(&made.traced);
}

static void what_does_not_come_again_is_no_step(void **state)
{
    struct made made = { .now = 1 };
    struct rg_profile profile;

    (void) state;
    assert_int_equal(rg_profile_make(&made.traced, 0, 10, &profile), -EAGAIN);
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof(name), "allreduce.%d", i);
        submit(&made, name, 0.01, 100 + (uint64_t) i, 0);
    }
    step(&made, 0);
    step(&made, 0);
    assert_int_equal(rg_profile_make(&made.traced, 0, 10, &profile), -EAGAIN);
    rg_traced_fini(&made.traced);
}

static struct rg_simulated simulate(const struct rg_profile *profile, int nhosts)
{
    struct rg_workload workload;
    struct rg_model model = rg_model_assumed;
    struct rg_simulated result;

    rg_workload_of_profile("made", profile, &workload);
    const struct rg_simulation simulation = {
        .model = &model, .workload = &workload, .nhosts = nhosts, .ranks_per_host = 1,
        .element_nbytes = 4, .fusion_nbytes = 64 << 20, .compute_s = profile->compute_s,
        .fan_out = 16,
    };
    assert_int_equal(rg_simulate(&simulation, &result), 0);
    return result;
}

/* The same bytes take longer where the program waits for them than where it computes meanwhile. */
static void what_is_waited_for_is_not_hidden(void **state)
{
    struct rg_profile_op ops[] = {
        { "allreduce.a", "ALLREDUCE", "float32", 40 << 20, 0.2, true },
        { "allreduce.b", "ALLREDUCE", "float32", 4000, 0.2, false },
    };
    struct rg_profile profile = { ops, 2, 0.4, 0, 0.4, 10 };

    (void) state;
    struct rg_simulated alone = simulate(&profile, 1), hidden = simulate(&profile, 8);
    ops[1].waits = true;
    struct rg_simulated waited = simulate(&profile, 8);
    assert_true(alone.step_s == 0.4 && alone.efficiency == 1);
    assert_true(hidden.step_s < 0.41 && waited.step_s > 0.4 + 0.9 * hidden.busy_s);
    assert_true(hidden.nruns == 2 && waited.nruns == 2);
}

static void only_the_like_are_fused(void **state)
{
    struct rg_profile_op ops[] = {
        { "allreduce.a", "ALLREDUCE", "float32", 4000, 0.1, true },
        { "allreduce.b", "ALLREDUCE", "float32", 4000, 0, false },
        { "allreduce.c", "ALLREDUCE", "float16", 4000, 0, false },
        { "allgather.d", "ALLGATHER", "float16", 4000, 0, false },
    };
    struct rg_profile profile = { ops, 4, 0.1, 0, 0.1, 10 };

    (void) state;
    assert_int_equal(simulate(&profile, 8).nruns, 3);
    assert_int_equal(simulate(&profile, 1).nruns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_what_comes_again),
        cmocka_unit_test(a_step_may_come_in_several_forms),
        cmocka_unit_test(names_that_count_on_are_alike),
        cmocka_unit_test(computing_before_a_wait_counts),
        cmocka_unit_test(a_step_may_come_in_any_order),
        cmocka_unit_test(what_does_not_come_again_is_no_step),
        cmocka_unit_test(what_is_waited_for_is_not_hidden),
        cmocka_unit_test(only_the_like_are_fused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
