/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "model/model.h"

/* A line of 1 ns per byte and 10 us, and a processor that costs nothing. */
static const struct rg_model plain = { .net = { .alpha_ns = 10000, .beta_ps = 1000 },
                                       .node = { .alpha_ns = 1000, .beta_ps = 100 },
                                       .crowding_pct = 100 };

static uint64_t time_of(const struct rg_model *model, enum rg_model_kind kind, int n,
                        enum rg_algorithm algorithm, size_t nbytes)
{
    struct rg_model_task task = { kind, n, 1, nbytes };

    return rg_model_ns(model, &task, algorithm, RG_MODEL_CHUNK_MIN);
}

static void formulas_give_what_is_known(void **unused)
{
    size_t small = 1000, large = 64 << 20;

    (void) unused;
    /* log2 n exchanges of all; folding adds two. */
    assert_int_equal(time_of(&plain, RG_MODEL_ALLREDUCE, 8, RG_ALGORITHM_DOUBLING, small), 33000);
    assert_int_equal(time_of(&plain, RG_MODEL_ALLREDUCE, 9, RG_ALGORITHM_DOUBLING, small), 45000);
    /* 2 (n - 1) / n of the bytes on the line, whatever the way round. */
    uint64_t line = 2 * (uint64_t) large / 8 * 7;

    for (int a = RG_ALGORITHM_HALVING; a <= RG_ALGORITHM_RING; a++) {
        uint64_t ns = time_of(&plain, RG_MODEL_ALLREDUCE, 8, (enum rg_algorithm) a, large);

        assert_true(ns > line && ns < line + line / 100);
    }
    /* Rings take 2 (n - 1) messages one after another, halving 2 log2 n. */
    assert_int_equal(time_of(&plain, RG_MODEL_ALLREDUCE, 8, RG_ALGORITHM_RING, 8), 14 * 10001);
    assert_int_equal(time_of(&plain, RG_MODEL_ALLREDUCE, 8, RG_ALGORITHM_HALVING, 8),
                     6 * 10000 + 10 * 1 - 4);
    assert_int_equal(time_of(&plain, RG_MODEL_BROADCAST, 5, RG_ALGORITHM_TREE, small), 23000);
    uint64_t chain = time_of(&plain, RG_MODEL_BROADCAST, 5, RG_ALGORITHM_CHAIN, large);

    assert_true(chain > large && chain < large + large / 100);
}

static void what_an_algorithm_does_not_do_takes_for_ever(void **unused)
{
    (void) unused;
    assert_true(time_of(&plain, RG_MODEL_BROADCAST, 4, RG_ALGORITHM_RING, 8) == RG_MODEL_NEVER);
    assert_true(time_of(&plain, RG_MODEL_ALLREDUCE, 4, RG_ALGORITHM_AUTO, 8) == RG_MODEL_NEVER);
    for (int kind = 0; kind < RG_MODEL_NKINDS; kind++) {
        struct rg_model_task task = { (enum rg_model_kind) kind, 4, 1, 1000 };
        struct rg_model_choice choice = rg_model_choose(&plain, &task, RG_ALGORITHM_AUTO);

        assert_true(rg_algorithm_does(choice.algorithm, task.kind));
        assert_true(choice.ns > 0 && choice.ns < RG_MODEL_NEVER);
        task.nhosts = 1;
        assert_int_equal(rg_model_choose(&plain, &task, RG_ALGORITHM_AUTO).ns, 0);
    }
}

/* More bytes, more members or a slower network are never quicker, and nothing overflows. */
static void times_grow_with_what_they_depend_on(void **unused)
{
    struct rg_model slow = rg_model_assumed;

    (void) unused;
    slow.net.alpha_ns *= 100;
    slow.net.beta_ps *= 100;
    slow.net.copy_ps *= 100;
    slow.gamma_ps *= 100;
    for (int kind = 0; kind < RG_MODEL_NKINDS; kind++)
        for (int hosts = 2; hosts < 100000; hosts = hosts * 2 + 1) {
            uint64_t before = 0;

            for (size_t nbytes = 0; nbytes <= (size_t) 1 << 42; nbytes = nbytes * 4 + 4) {
                struct rg_model_task task = { (enum rg_model_kind) kind, hosts, 1, nbytes };
                uint64_t ns = rg_model_choose(&rg_model_assumed, &task, RG_ALGORITHM_AUTO).ns;

                assert_true(ns >= before);
                assert_true(rg_model_choose(&slow, &task, RG_ALGORITHM_AUTO).ns >= ns);
                before = ns;
            }
        }
}

/* The slowest network that a file can describe, and the most crowded cores. */
static void no_time_overflows(void **unused)
{
    const struct rg_model slowest = {
        .net = { RG_MODEL_ALPHA_MAX_NS, RG_MODEL_RATE_MAX_PS, RG_MODEL_ALPHA_MAX_NS,
                 RG_MODEL_RATE_MAX_PS },
        .node = { RG_MODEL_ALPHA_MAX_NS, RG_MODEL_RATE_MAX_PS, RG_MODEL_ALPHA_MAX_NS,
                  RG_MODEL_RATE_MAX_PS },
        .gamma_ps = RG_MODEL_RATE_MAX_PS, .crowding_pct = RG_MODEL_CROWDING_MAX_PCT
    };

    (void) unused;
    for (int kind = 0; kind < RG_MODEL_NKINDS; kind++)
        for (int a = RG_ALGORITHM_DOUBLING; a < RG_NALGORITHMS; a++)
            for (size_t nbytes = (size_t) 1 << 20, before = 0; nbytes > 0; nbytes <<= 4) {
                struct rg_model_task task = { (enum rg_model_kind) kind, 24, 4096, nbytes };
                uint64_t ns = rg_model_ns(&slowest, &task, (enum rg_algorithm) a,
                                          RG_MODEL_CHUNK_MIN);

                assert_true(ns >= before && (ns == RG_MODEL_NEVER || ns < UINT64_MAX / 2));
                before = ns;
            }
}

/* Whatever the size: a quicker ring or chain must not take the place of what was asked for. */
static void who_wants_an_algorithm_gets_it_for_every_size(void **unused)
{
    (void) unused;
    for (int kind = 0; kind < RG_MODEL_NKINDS; kind++)
        for (int a = RG_ALGORITHM_DOUBLING; a < RG_NALGORITHMS; a++)
            for (size_t nbytes = 1; nbytes <= 1 << 30; nbytes *= 8) {
                struct rg_model_task task = { (enum rg_model_kind) kind, 4, 1, nbytes };
                struct rg_model_choice choice =
                    rg_model_choose(&rg_model_assumed, &task, (enum rg_algorithm) a);

                if (rg_algorithm_does((enum rg_algorithm) a, task.kind))
                    assert_int_equal(choice.algorithm, a);
            }
}

static enum rg_algorithm chosen(enum rg_model_kind kind, int n, size_t nbytes)
{
    struct rg_model_task task = { kind, n, 1, nbytes };

    return rg_model_choose(&rg_model_assumed, &task, RG_ALGORITHM_AUTO).algorithm;
}

static void the_choice_goes_from_few_messages_to_few_bytes(void **unused)
{
    struct rg_model_task task = { RG_MODEL_ALLREDUCE, 8, 1, 8 };

    (void) unused;
    assert_int_equal(chosen(RG_MODEL_ALLREDUCE, 8, 8), RG_ALGORITHM_DOUBLING);
    assert_int_equal(chosen(RG_MODEL_ALLREDUCE, 8, 1 << 20), RG_ALGORITHM_HALVING);
    assert_int_equal(chosen(RG_MODEL_ALLREDUCE, 8, 64 << 20), RG_ALGORITHM_RING);
    assert_int_equal(chosen(RG_MODEL_ALLGATHER, 8, 1 << 10), RG_ALGORITHM_HALVING);
    assert_int_equal(chosen(RG_MODEL_BROADCAST, 8, 8), RG_ALGORITHM_TREE);
    assert_int_equal(chosen(RG_MODEL_BROADCAST, 8, 64 << 20), RG_ALGORITHM_CHAIN);
    assert_int_equal(chosen(RG_MODEL_BROADCAST, 64, 1 << 20), RG_ALGORITHM_SCATTER);
    /* Who wants another one gets it, for kinds that it does. */
    assert_int_equal(rg_model_choose(&plain, &task, RG_ALGORITHM_RING).algorithm,
                     RG_ALGORITHM_RING);
    assert_int_equal(rg_model_choose(&plain, &task, RG_ALGORITHM_TREE).algorithm,
                     RG_ALGORITHM_DOUBLING);
}

/* Where members are counted host by host, far exchanges share the line, near ones do not. */
static void ranks_of_a_host_share_its_line(void **unused)
{
    struct rg_model_task one = { RG_MODEL_ALLGATHER, 8, 1, 8 << 20 };
    struct rg_model_task four = { RG_MODEL_ALLGATHER, 2, 4, 8 << 20 };

    (void) unused;
    assert_true(rg_model_ns(&plain, &four, RG_ALGORITHM_HALVING, 32768) >
                2 * rg_model_ns(&plain, &one, RG_ALGORITHM_HALVING, 32768));
    assert_true(rg_model_ns(&plain, &four, RG_ALGORITHM_RING, 32768) ==
                rg_model_ns(&plain, &one, RG_ALGORITHM_RING, 32768));
    assert_int_equal(rg_model_choose(&plain, &four, RG_ALGORITHM_AUTO).algorithm,
                     RG_ALGORITHM_RING);
}

static void a_jobs_operation_is_the_sum_of_its_steps(void **unused)
{
    struct rg_model_task task = { RG_MODEL_ALLREDUCE, 4, 1, 1 << 20 };
    struct rg_model_choice between;
    uint64_t leaders = rg_model_job_ns(&plain, &task, &between);

    (void) unused;
    assert_int_equal(leaders, between.ns);
    task.ranks_per_host = 2;
    assert_int_equal(rg_model_job_ns(&plain, &task, NULL),
                     leaders + 2 * (1000 + (1 << 20) / 10));
    task.nhosts = 1;
    assert_int_equal(rg_model_job_ns(&plain, &task, &between), 2 * (1000 + (1 << 20) / 10));
    assert_int_equal(between.ns, 0);
}

static enum rg_model_direct way_of(const struct rg_model *model, int nhosts, size_t nbytes)
{
    const struct rg_model_task task = { RG_MODEL_ALLREDUCE, nhosts, 1, nbytes };

    return rg_model_direct(model, &task);
}

/* The more of them share a core, the more shots must save, which wake so many. */
static void hosts_that_share_cores_take_doubling(void **unused)
{
    struct rg_model near = rg_model_assumed, middle = rg_model_assumed;

    (void) unused;
    middle.net.alpha_ns = 200000;
    middle.net.beta_ps = 4500;
    assert_int_equal(way_of(&middle, 8, 4), RG_MODEL_DIRECT_ONE_SHOT);
    assert_int_equal(way_of(&middle, 8, 65536), RG_MODEL_DIRECT_TWO_SHOT);
    near.crowding_pct = middle.crowding_pct = 400;
    assert_int_equal(way_of(&near, 8, 65536), RG_MODEL_DIRECT_DOUBLING);
    assert_int_equal(way_of(&middle, 8, 4), RG_MODEL_DIRECT_DOUBLING);
    assert_int_equal(way_of(&middle, 8, 65536), RG_MODEL_DIRECT_DOUBLING);
    middle.net.alpha_ns = 1000000;
    assert_int_equal(way_of(&middle, 8, 4), RG_MODEL_DIRECT_ONE_SHOT);
}

static void what_saves_the_agreement_goes_directly(void **unused)
{
    struct rg_model near = rg_model_assumed, far = rg_model_assumed;
    const struct rg_model_task task = { RG_MODEL_ALLREDUCE, 4, 1, 4 };

    (void) unused;
    far.net.alpha_ns = 1000000;
    far.net.beta_ps = 8000;
    /* Delays: two of the agreement, and the doubling's. */
    assert_in_range(rg_model_direct_ns(&far, &task, RG_MODEL_AGREED), 4000000, 4200000);
    assert_in_range(rg_model_direct_ns(&far, &task, RG_MODEL_DIRECT_DOUBLING), 2000000, 2100000);
    assert_in_range(rg_model_direct_ns(&far, &task, RG_MODEL_DIRECT_ONE_SHOT), 1000000, 1100000);
    assert_in_range(rg_model_direct_ns(&far, &task, RG_MODEL_DIRECT_TWO_SHOT), 2000000, 2200000);
    for (int n = 2; n <= 64; n *= 2) {
        size_t limit = 4;

        /* What is small always does, what is large never. */
        for (size_t nbytes = 4; nbytes <= RG_MODEL_DIRECT_SMALL; nbytes *= 2)
            assert_true(way_of(&near, n, nbytes) != RG_MODEL_AGREED);
        assert_int_equal(way_of(&far, n, RG_MODEL_DIRECT_MAX + 1), RG_MODEL_AGREED);
        /* Between them it does so the more the longer the way is. */
        for (size_t nbytes = 65536; nbytes <= RG_MODEL_DIRECT_MAX; nbytes *= 2)
            if (way_of(&near, n, nbytes) != RG_MODEL_AGREED)
                limit = nbytes;
        assert_in_range(limit, 4, 131072);
        assert_true((way_of(&far, n, RG_MODEL_DIRECT_MAX) != RG_MODEL_AGREED) ==
                    (n <= RG_MODEL_SHOTS_MAX));
    }
    assert_int_equal(way_of(&far, 2, 262144), RG_MODEL_DIRECT_DOUBLING);
    assert_int_equal(way_of(&far, 4, 4), RG_MODEL_DIRECT_ONE_SHOT);
    assert_int_equal(way_of(&far, 4, 262144), RG_MODEL_DIRECT_TWO_SHOT);
    assert_int_equal(way_of(&near, 4, 4), RG_MODEL_DIRECT_DOUBLING);
    assert_int_equal(way_of(&near, 3, 16384), RG_MODEL_DIRECT_DOUBLING);
    assert_int_equal(way_of(&near, 2, 65536), RG_MODEL_DIRECT_DOUBLING);
    assert_int_equal(way_of(&near, 4, 65536), RG_MODEL_DIRECT_TWO_SHOT);
    near.net.alpha_ns = 49000;
    assert_int_equal(way_of(&near, 4, 262144), RG_MODEL_AGREED);
    near.net.alpha_ns = 50000;
    assert_int_equal(way_of(&near, 4, 262144), RG_MODEL_DIRECT_TWO_SHOT);
    far.net.alpha_ns = 100000;
    assert_int_equal(way_of(&far, 4, 4), RG_MODEL_DIRECT_DOUBLING);
    assert_int_equal(way_of(&far, RG_MODEL_SHOTS_MAX + 1, 4), RG_MODEL_DIRECT_DOUBLING);
    assert_int_equal(rg_model_direct_ns(&far, &(struct rg_model_task) { 0, 17, 1, 4 },
                                        RG_MODEL_DIRECT_TWO_SHOT), RG_MODEL_NEVER);
    assert_int_equal(rg_model_direct_ns(&far, &(struct rg_model_task) { 0, 1, 8, 4 },
                                        RG_MODEL_AGREED), 0);
}

/* One rank of each host reduces what the others have: among many that takes longer than all do. */
static void many_ranks_of_a_host_prefer_to_agree(void **unused)
{
    struct rg_model_task task = { RG_MODEL_ALLREDUCE, 2, 1, 262144 };
    struct rg_model model = rg_model_assumed;

    (void) unused;
    model.net.alpha_ns = 100000;
    assert_int_equal(rg_model_direct(&model, &task), RG_MODEL_DIRECT_DOUBLING);
    task.ranks_per_host = 32;
    assert_int_equal(rg_model_direct(&model, &task), RG_MODEL_AGREED);
    task.nbytes = 4096;
    assert_int_equal(rg_model_direct(&model, &task), RG_MODEL_DIRECT_DOUBLING);
}

static void a_file_is_read_as_it_was_written(void **unused)
{
    struct rg_model model = rg_model_assumed, back = plain;
    rg_autobuf struct rg_buf text = { 0 };

    (void) unused;
    model.net.alpha_ns = 123456;
    model.crowding_pct = 200;
    rg_model_format(&model, &text);
    assert_int_equal(rg_model_parse("f", rg_buf_text(&text), &back, NULL), 0);
    assert_memory_equal(&back, &model, sizeof(model));
    assert_int_equal(rg_model_parse("f", "\n  # only this\nnet.beta_ps 8000 # slow", &back, NULL),
                     0);
    assert_int_equal(back.net.beta_ps, 8000);
    assert_int_equal(back.net.alpha_ns, 123456);
}

#define BLANKS "                                                                "
#define LONG_LINE "gamma_ps " BLANKS BLANKS BLANKS BLANKS "100"

static void bad_files_are_refused_by_their_line(void **unused)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "net.alpha_ns 1\nfast yes\n", "f, line 2: fast is no parameter of the model" },
        { "net.alpha_ns", "f, line 1: net.alpha_ns" },
        { "net.alpha_ns 1.5", "f, line 1: net.alpha_ns" },
        { "gamma_ps 1000001", "f, line 1: gamma_ps" },
        { LONG_LINE, "f, line 1: it is longer than 255 bytes" },
        { "gamma_ps 00000000000000000000000000000000000000000001000001", "f, line 1: gamma_ps" },
        { "gamma_ps 1 2", "f, line 1: \"2\" after the value of gamma_ps" },
    };
    struct rg_model model = plain;

    (void) unused;
    for (size_t i = 0; i < rg_array_len(bad); i++) {
        struct rg_error err = RG_ERROR_INIT;

        assert_int_equal(rg_model_parse("f", bad[i].text, &model, &err), -EINVAL);
        assert_contains(err.text, bad[i].says);
        assert_memory_equal(&model, &plain, sizeof(model));
    }
}

static void a_file_that_is_not_there_changes_nothing(void **unused)
{
    char path[] = "/tmp/test_model.XXXXXX";
    struct rg_model model = plain;
    struct rg_error err = RG_ERROR_INIT;
    rg_autoclose int fd = mkstemp(path);

    (void) unused;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "gamma_ps 7\n", 11), 11);
    assert_int_equal(rg_model_read(path, &model, &err), 0);
    assert_int_equal(model.gamma_ps, 7);
    assert_int_equal(ftruncate(fd, RG_MODEL_FILE_MAX + 1), 0);
    assert_int_equal(rg_model_read(path, &model, &err), -EFBIG);
    unlink(path);
    assert_int_equal(rg_model_read(path, &model, &err), -ENOENT);
    assert_contains(err.text, path);
    assert_int_equal(model.gamma_ps, 7);
}

static void algorithms_are_read(void **unused)
{
    enum rg_algorithm wanted[RG_MODEL_NKINDS] = { RG_ALGORITHM_AUTO };
    struct rg_error err = RG_ERROR_INIT;

    (void) unused;
    assert_int_equal(rg_algorithms_parse("V", "ring,broadcast=tree", wanted, &err), 0);
    assert_int_equal(wanted[RG_MODEL_ALLREDUCE], RG_ALGORITHM_RING);
    assert_int_equal(wanted[RG_MODEL_REDUCESCATTER], RG_ALGORITHM_RING);
    assert_int_equal(wanted[RG_MODEL_BROADCAST], RG_ALGORITHM_TREE);
    assert_int_equal(wanted[RG_MODEL_REDUCE], RG_ALGORITHM_AUTO);
    assert_int_equal(rg_algorithms_parse("V", "allreduce=auto", wanted, &err), 0);
    assert_int_equal(wanted[RG_MODEL_ALLREDUCE], RG_ALGORITHM_AUTO);
    assert_int_equal(rg_algorithms_parse("V", "quick", wanted, &err), -EINVAL);
    assert_contains(err.text, "V=quick: quick is no algorithm; give one of auto, doubling, ");
    assert_int_equal(rg_algorithms_parse("V", "broadcast=ring", wanted, &err), -EINVAL);
    assert_contains(err.text, "ring is no algorithm for broadcast; give one of auto, tree, chain, "
                              "scatter");
    assert_int_equal(rg_algorithms_parse("V", "sum=ring", wanted, &err), -EINVAL);
    assert_contains(err.text, "sum is no operation");
    assert_int_equal(wanted[RG_MODEL_ALLGATHER], RG_ALGORITHM_RING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_give_what_is_known),
        cmocka_unit_test(what_an_algorithm_does_not_do_takes_for_ever),
        cmocka_unit_test(times_grow_with_what_they_depend_on),
        cmocka_unit_test(no_time_overflows),
        cmocka_unit_test(who_wants_an_algorithm_gets_it_for_every_size),
        cmocka_unit_test(the_choice_goes_from_few_messages_to_few_bytes),
        cmocka_unit_test(ranks_of_a_host_share_its_line),
        cmocka_unit_test(a_jobs_operation_is_the_sum_of_its_steps),
        cmocka_unit_test(hosts_that_share_cores_take_doubling),
        cmocka_unit_test(what_saves_the_agreement_goes_directly),
        cmocka_unit_test(many_ranks_of_a_host_prefer_to_agree),
        cmocka_unit_test(a_file_is_read_as_it_was_written),
        cmocka_unit_test(bad_files_are_refused_by_their_line),
        cmocka_unit_test(a_file_that_is_not_there_changes_nothing),
        cmocka_unit_test(algorithms_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
