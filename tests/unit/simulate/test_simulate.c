/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulate.h"

#include <math.h>

#include "base/time.h"
#include "coll/ground/config.h"
#include "unit.h"

/* Three layers, the last of which does half of the arithmetic. */
static struct rg_workload_tensor tensors[] = { { 1000, 10 }, { 2000, 20 }, { 3000, 30 } };
static const struct rg_workload three = { .name = "three", .tensors = tensors, .ntensors = 3,
                                          .nparameters = 6000, .flops = 60 };

static struct rg_simulation simulation(const struct rg_model *model, int nhosts)
{
    return (struct rg_simulation){ .model = model, .workload = &three, .nhosts = nhosts,
                                   .ranks_per_host = 1, .element_nbytes = 4,
                                   .fusion_nbytes = 128 << 20, .compute_s = 0.3,
                                   .fan_out = RG_MODEL_FAN_OUT };
}

static void assert_near(double found, double right)
{
    if (fabs(found - right) > 1e-9 + 1e-6 * fabs(right))
        fail_msg("%.12g is not %.12g", found, right);
}

static double allreduce_s(const struct rg_model *model, int nhosts, uint64_t count)
{
    struct rg_model_task task = { .kind = RG_MODEL_ALLREDUCE, .nhosts = nhosts,
                                  .ranks_per_host = 1, .nbytes = count * 4 };

    return (double) rg_model_job_ns(model, &task, NULL) / 1e9;
}

static void one_rank_has_nothing_to_wait_for(void **state)
{
    struct rg_simulation s = simulation(&rg_model_assumed, 1);
    struct rg_simulated r;

    (void) state;
    assert_int_equal(rg_simulate(&s, &r), 0);
    assert_near(r.step_s, 0.3);
    assert_near(r.efficiency, 1);
    assert_int_equal(r.nruns, 0);
}

/* The backward pass goes from 0.1 s to 0.3 s, and hides all but what comes after its end: the first
 * layer's gradient, agreed on and sent. */
static void a_quick_network_hides_all_but_the_first_layer(void **state)
{
    struct rg_simulation s = simulation(&rg_model_assumed, 2);
    struct rg_simulated r;

    (void) state;
    assert_int_equal(rg_simulate(&s, &r), 0);
    assert_int_equal(r.nruns, 3);
    assert_near(r.step_s, 0.3 + r.agree_s + allreduce_s(s.model, 2, 1000));
    assert_near(r.busy_s, allreduce_s(s.model, 2, 1000) + allreduce_s(s.model, 2, 2000) +
                              allreduce_s(s.model, 2, 3000));
    assert_int_equal(r.largest_nbytes, 12000);
}

/* While the last layer's gradient is on its way the others come, and go as one. */
static void what_comes_meanwhile_is_fused(void **state)
{
    struct rg_model slow = rg_model_assumed;
    struct rg_simulated r;

    (void) state;
    slow.net.beta_ps = 20000000; /* 20 us a byte */
    struct rg_simulation s = simulation(&slow, 2);
    assert_int_equal(rg_simulate(&s, &r), 0);
    assert_int_equal(r.nruns, 2);
    assert_near(r.step_s, 0.1 + 0.1 + r.agree_s + allreduce_s(&slow, 2, 3000) +
                              allreduce_s(&slow, 2, 3000));
    s.fusion_nbytes = 8000;
    assert_int_equal(rg_simulate(&s, &r), 0);
    assert_int_equal(r.nruns, 3);
    s.fusion_nbytes = 12000;
    assert_int_equal(rg_simulate(&s, &r), 0);
    assert_int_equal(r.nruns, 2);
}

static void more_hosts_never_take_less_time(void **state)
{
    (void) state;
    for (int i = 0; rg_workload_name(i); i++) {
        rg_cleanup(rg_workload_fini) struct rg_workload w;
        struct rg_simulation s = simulation(&rg_model_assumed, 1);
        struct rg_simulated r;
        double last = 0;
        assert_int_equal(rg_workload_make(rg_workload_name(i), &w, NULL), 0);
        s.workload = &w;
        s.ranks_per_host = 4;
        for (int n = 1; n <= 16384; n *= 4) {
            s.nhosts = n;
            assert_int_equal(rg_simulate(&s, &r), 0);
            /* Large gradients may go by another algorithm, whose chunks fit them better. */
            assert_true(r.step_s >= last * 0.95);
            assert_true(r.step_s >= s.compute_s);
            assert_true(r.efficiency <= 1);
            last = r.step_s;
        }
    }
}

static double cpu_s(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double) used.tv_sec + (double) used.tv_nsec / 1e9;
}

static void hundred_thousand_ranks_take_less_than_two_seconds(void **state)
{
    rg_cleanup(rg_workload_fini) struct rg_workload w;
    struct rg_simulation s = simulation(&rg_model_assumed, RG_SIMULATE_RANKS_MAX / 8);
    struct rg_simulated r;
    double began_s = cpu_s();

    (void) state;
    assert_int_equal(rg_workload_make("inception3", &w, NULL), 0);
    s.workload = &w;
    s.ranks_per_host = 8;
    assert_int_equal(rg_simulate(&s, &r), 0);
    assert_true(r.nruns > 0);
    assert_true(cpu_s() < began_s + 2);
}

/* A message takes 30 us, and 5 us of the processor. */
static void leaders_agree_by_one_or_by_a_tree(void **state)
{
    struct rg_model model = rg_model_assumed;

    (void) state;
    model.net.alpha_ns = 30000;
    model.net.message_ns = 5000;
    assert_int_equal(RG_MODEL_FAN_OUT, RG_TREE_DEGREE);
    assert_near(rg_simulate_agreement_s(&model, 1, 16), 0);
    assert_near(rg_simulate_agreement_s(&model, 2, 16), 70e-6);
    assert_near(rg_simulate_agreement_s(&model, 17, 16), 60e-6 + 17 * 5e-6);
    assert_near(rg_simulate_agreement_s(&model, 18, 16), 2 * (60e-6 + 17 * 5e-6));
    assert_near(rg_simulate_agreement_s(&model, 1024, 16), 3 * (60e-6 + 17 * 5e-6));
    assert_near(rg_simulate_agreement_s(&model, 1001, 1000), 60e-6 + 1001 * 5e-6);
    assert_near(rg_simulate_agreement_s(&model, 1001, 10), 3 * (60e-6 + 11 * 5e-6));
    assert_near(rg_simulate_agreement_s(&model, 5, 10), 60e-6 + 5 * 5e-6);
}

/* The means of the largest of so many normal values, as tables have them (Harter 1961). */
static void the_slowest_of_many_is_as_tables_have_it(void **state)
{
    static const struct { int n; double mean; } known[] = {
        { 5, 1.1630 }, { 10, 1.5388 }, { 100, 2.5076 }, { 400, 2.9682 }
    };

    (void) state;
    assert_near(rg_simulate_slowest(1), 0);
    for (size_t i = 0; i < rg_array_len(known); i++)
        assert_true(fabs(rg_simulate_slowest(known[i].n) / known[i].mean - 1) < 0.02);
}

static void jitter_makes_the_step_wait_for_the_slowest(void **state)
{
    struct rg_simulation s = simulation(&rg_model_assumed, 100);
    struct rg_simulated r;

    (void) state;
    s.jitter = 0.1;
    assert_int_equal(rg_simulate(&s, &r), 0);
    assert_true(r.compute_s > 0.3 * 1.24 && r.compute_s < 0.3 * 1.26);
    assert_true(r.step_s > r.compute_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_has_nothing_to_wait_for),
        cmocka_unit_test(a_quick_network_hides_all_but_the_first_layer),
        cmocka_unit_test(what_comes_meanwhile_is_fused),
        cmocka_unit_test(more_hosts_never_take_less_time),
        cmocka_unit_test(hundred_thousand_ranks_take_less_than_two_seconds),
        cmocka_unit_test(leaders_agree_by_one_or_by_a_tree),
        cmocka_unit_test(the_slowest_of_many_is_as_tables_have_it),
        cmocka_unit_test(jitter_makes_the_step_wait_for_the_slowest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
