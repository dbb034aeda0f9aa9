/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/fit.h"

#include <math.h>

#include "base/buf.h"
#include "unit.h"

#define SAMPLES_MAX 64

/* What a network with this model would show: three operations, 4 B to 64 MiB, so many hosts. */
static size_t make_samples(const struct rg_model *model, int nhosts, int ranks_per_host,
                           struct rg_fit_sample *ret_samples)
{
    static const enum rg_model_kind kinds[] = { RG_MODEL_ALLREDUCE, RG_MODEL_BROADCAST,
                                                RG_MODEL_ALLGATHER };
    size_t n = 0;

    for (size_t k = 0; k < rg_array_len(kinds); k++) {
        for (size_t nbytes = 4; nbytes <= 64 << 20; nbytes *= 8) {
            struct rg_model_task task = { .kind = kinds[k], .nhosts = nhosts,
                                          .ranks_per_host = ranks_per_host, .nbytes = nbytes };
            ret_samples[n++] = (struct rg_fit_sample){ task, rg_fit_predict(model, &task) };
        }
    }
    return n;
}

/* From the assumed 10 Gb/s and 30 us to another network, whose times alone are given. */
static void a_network_is_found_by_its_times(void **state)
{
    struct rg_fit_sample samples[SAMPLES_MAX];
    struct rg_model real = rg_model_assumed, model = rg_model_assumed;

    (void) state;
    real.net.alpha_ns = 1000000;
    real.net.beta_ps = 8000;
    size_t n = make_samples(&real, 4, 1, samples);
    double before = rg_fit_error(&model, samples, n);
    double error = rg_fit(&model, samples, n);
    assert_true(before > 1);
    assert_true(error < 0.05);
    assert_true(fabs(log(model.net.alpha_ns / 1e6)) < 0.1);
    assert_true(fabs(log(model.net.beta_ps / 8e3)) < 0.1);
}

/* Ranks of one host say nothing of the network. */
static void what_no_sample_depends_on_stays(void **state)
{
    struct rg_fit_sample samples[SAMPLES_MAX];
    struct rg_model real = rg_model_assumed, model = rg_model_assumed;

    (void) state;
    real.node.alpha_ns *= 20;
    real.node.beta_ps *= 3;
    size_t n = make_samples(&real, 1, 4, samples);
    assert_true(rg_fit(&model, samples, n) < 0.05);
    assert_memory_equal(&model.net, &rg_model_assumed.net, sizeof(model.net));
    assert_int_equal(model.crowding_pct, rg_model_assumed.crowding_pct);
    assert_int_not_equal(model.node.alpha_ns, rg_model_assumed.node.alpha_ns);
}

static void what_fits_is_left_as_it_is(void **state)
{
    struct rg_fit_sample samples[SAMPLES_MAX];
    struct rg_model model = rg_model_assumed;
    size_t n = make_samples(&model, 8, 2, samples);

    (void) state;
    assert_true(rg_fit(&model, samples, n) == 0);
    assert_memory_equal(&model, &rg_model_assumed, sizeof(model));
}

/* Times that nothing explains: the parameters go as far as they may, and the file can be read. */
static void what_is_found_can_be_read_from_a_file(void **state)
{
    static const double times[] = { 1, 1e17 };

    (void) state;
    for (size_t i = 0; i < rg_array_len(times); i++) {
        struct rg_fit_sample samples[SAMPLES_MAX];
        struct rg_model model = rg_model_assumed, back = rg_model_assumed;
        rg_autobuf struct rg_buf text = RG_BUF_INIT;
        struct rg_error err = RG_ERROR_INIT;
        size_t n = make_samples(&model, 4, 1, samples);

        n += make_samples(&model, 1, 4, samples + n);
        for (size_t k = 0; k < n; k++)
            samples[k].ns = times[i];
        rg_fit(&model, samples, n);
        rg_model_format(&model, &text);
        assert_int_equal(rg_model_parse("f", rg_buf_text(&text), &back, &err), 0);
        assert_memory_equal(&back, &model, sizeof(model));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_is_found_by_its_times),
        cmocka_unit_test(what_no_sample_depends_on_stays),
        cmocka_unit_test(what_fits_is_left_as_it_is),
        cmocka_unit_test(what_is_found_can_be_read_from_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
