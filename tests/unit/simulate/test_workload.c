/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/workload.h"
#include "unit.h"

/* Parameters as torchvision's models and Hugging Face's BertModel have them, the tensors that they
 * are in, and the multiplications and additions of a forward pass as the papers give them. */
static const struct {
    const char *name;
    uint64_t nparameters;
    size_t ntensors;
    double gflops_min, gflops_max; /* for one sample */
} published[] = {
    { "resnet50", 25557032, 161, 7.6, 8.3 },    /* 4.1e9 multiplications, each with an addition */
    { "resnet101", 44549160, 314, 15.0, 16.0 }, /* 7.8e9 */
    { "vgg16", 138357544, 32, 30.5, 31.5 },     /* 15.5e9 */
    { "inception3", 23834568, 284, 11.0, 11.9 }, /* 5.7e9 */
    { "bert-large", 335141888, 391, 300, 370 },
};

static void sums_are_the_published_ones(void **state)
{
    (void) state;
    for (size_t i = 0; i < rg_array_len(published); i++) {
        rg_cleanup(rg_workload_fini) struct rg_workload w;
        uint64_t nparameters = 0;
        assert_string_equal(rg_workload_name((int) i), published[i].name);
        assert_int_equal(rg_workload_make(published[i].name, &w, NULL), 0);
        for (size_t k = 0; k < w.ntensors; k++)
            nparameters += w.tensors[k].count;
        assert_int_equal(nparameters, published[i].nparameters);
        assert_int_equal(w.nparameters, published[i].nparameters);
        assert_int_equal(w.ntensors, published[i].ntensors);
        assert_true(w.flops / 1e9 > published[i].gflops_min);
        assert_true(w.flops / 1e9 < published[i].gflops_max);
    }
}

static void newer_ones_are_even(void **state)
{
    rg_cleanup(rg_workload_fini) struct rg_workload w, odd;

    (void) state;
    assert_int_equal(rg_workload_make("llama3-405b", &w, NULL), 0);
    assert_int_equal(w.nparameters, 405000000000);
    assert_int_equal(w.ntensors, 6 * 126);
    assert_true(w.tensors[4].count > 3 * w.tensors[3].count);
    assert_int_equal(rg_workload_make_even("x", 1000003, 7, &odd), 0);
    assert_int_equal(odd.nparameters, 1000003);
    assert_string_equal(odd.name, "x");
}

static void a_name_that_is_not_known_is_told_with_the_nearest(void **state)
{
    struct rg_workload w;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(rg_workload_make("resnet-50", &w, &err), -EINVAL);
    assert_contains(err.text, "did you mean resnet50?");
    assert_int_equal(rg_workload_make("transformer", &w, &err), -EINVAL);
    assert_contains(err.text, "bert-large");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_the_published_ones),
        cmocka_unit_test(newer_ones_are_even),
        cmocka_unit_test(a_name_that_is_not_known_is_told_with_the_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
