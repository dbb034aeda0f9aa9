/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that the tcp plane reduces together, each where it lies. */
#include "unit.h"

#include <poll.h>

#include "coll/planes/plane.h"
#include "coll/planes/tcp/tcp_op.h"
#include "coll/sockets.h"

extern const struct rg_plane_ops rg_plane_tcp;

/* More than go to the kernel at once. */
enum { TENSORS_MAX = 150 };

/* What the members of a run fuse. */
struct trial {
    enum rg_algorithm algorithm;
    int ntensors, nsockets;
    int dtype, op;            /* float32 and the sum, int64 and the least, uint8 and the greatest */
    struct rg_scale scale;
    bool odd;     /* member 0 gives zeros for some and drops the result of others */
    int joined;   /* gives zeros for all and knows only their sum; -1: none */
};

static size_t count_of(int tensor)
{
    return tensor % 7 == 3 ? 0 : (size_t) (tensor * 997 % 5003 + 1);
}

static int value_of(int member, int tensor, size_t i)
{
    return (int) ((i * 7 + (size_t) member * 3 + (size_t) tensor * 5) % 11);
}

static void put(int dtype, void *memory, size_t i, int value)
{
    if (dtype == REIGEN_FLOAT32)
        ((float *) memory)[i] = (float) value;
    else if (dtype == REIGEN_INT64)
        ((int64_t *) memory)[i] = value;
    else
        ((uint8_t *) memory)[i] = (uint8_t) value;
}

static double get(int dtype, const void *memory, size_t i)
{
    return dtype == REIGEN_FLOAT32 ? ((const float *) memory)[i]
           : dtype == REIGEN_INT64 ? (double) ((const int64_t *) memory)[i]
                                   : ((const uint8_t *) memory)[i];
}

static bool gives_zeros(const struct trial *trial, int member, int tensor)
{
    return member == trial->joined || (trial->odd && member == 0 && tensor % 4 == 2);
}

static bool drops(const struct trial *trial, int member, int tensor)
{
    return trial->odd && member == 0 && tensor % 5 == 4;
}

static double expected(const struct trial *trial, int n, int tensor, size_t i)
{
    double result = 0;

    for (int m = 0; m < n; m++) {
        double value = gives_zeros(trial, m, tensor) ? 0 : value_of(m, tensor, i);

        if (m == 0)
            result = value;
        else if (trial->op == REIGEN_SUM)
            result += value;
        else if ((trial->op == REIGEN_MIN) == (value < result))
            result = value;
    }
    return result * trial->scale.pre * trial->scale.post;
}

static int finish(struct place *place, void *state)
{
    struct rg_error err = RG_ERROR_INIT;
    bool moved = true;
    int r;

    while ((r = rg_plane_tcp.progress(state, &moved, &err)) == 0) {
        struct pollfd pfds[64];
        unsigned events[64];
        int fds[64];
        int n = moved ? 0 : rg_plane_tcp.wait_fds(state, fds, events, 64);

        for (int i = 0; i < n; i++)
            pfds[i] = (struct pollfd){ fds[i], (short) events[i], 0 };
        if (n > 0 && poll(pfds, (nfds_t) n, 20000) <= 0)
            return sockets_fail(place, __LINE__, "something to wait for");
        moved = false;
    }
    if (r < 0)
        fprintf(stderr, "rank %d: %s\n", place->me, err.text);
    return r == 1 ? 0 : -1;
}

static void prepare(const struct trial *trial, int me, int tensor, struct rg_coll *coll)
{
    size_t count = count_of(tensor), nbytes = count * rg_dtype_nbytes(trial->dtype) + 1;
    void *in = malloc(nbytes), *out = tensor % 2 ? in : malloc(nbytes);

    for (size_t i = 0; i < count; i++)
        put(trial->dtype, in, i, value_of(me, tensor, i));
    *coll = (struct rg_coll){ .kind = RG_COLL_ALLREDUCE, .dtype = (uint8_t) trial->dtype,
                              .op = (uint8_t) trial->op, .count = count, .in = in, .out = out,
                              .scale = trial->scale };
}

static int post(void *state, const struct trial *trial, int me, const struct rg_coll *tensors)
{
    struct rg_coll given[TENSORS_MAX], zeros = tensors[0];

    zeros.count = 0;
    for (int t = 0; t < trial->ntensors; t++) {
        given[t] = tensors[t];
        zeros.count += tensors[t].count;
        if (gives_zeros(trial, me, t))
            given[t].in = NULL;
        if (drops(trial, me, t))
            given[t].out = NULL;
    }
    zeros.in = zeros.out = NULL;
    return me == trial->joined ? rg_plane_tcp.post(state, &zeros)
                               : rg_plane_tcp.post_fused(state, given, trial->ntensors);
}

/* The result, and what was given, which stays as it is. */
static int check(struct place *place, int tensor, const struct rg_coll *coll)
{
    const struct trial *trial = place->arg;
    bool dropped = drops(trial, place->me, tensor) || place->me == trial->joined;
    int bad = 0;

    for (size_t i = 0; i < coll->count && !bad; i++) {
        if (!dropped)
            bad |= sockets_check(place, get(trial->dtype, coll->out, i) ==
                                            expected(trial, place->n, tensor, i));
        if (coll->out != coll->in)
            bad |= sockets_check(place, get(trial->dtype, coll->in, i) ==
                                            value_of(place->me, tensor, i));
    }
    return bad;
}

static int member(struct place *place)
{
    const struct trial *trial = place->arg;
    struct rg_plane_options options = { .team = &place->team, .config = &place->config,
                                        .group = { .nmembers = place->n, .me = place->me } };
    struct rg_coll tensors[TENSORS_MAX];
    void *state = NULL;
    int bad = 0;

    place->config.algorithms[RG_MODEL_ALLREDUCE] = trial->algorithm;
    place->config.sockets_per_pair = trial->nsockets;
    bad |= sockets_check(place, rg_plane_tcp.open(&options, &state, NULL) == 0);
    for (int round = 0; round < 2 && !bad; round++) {
        for (int t = 0; t < trial->ntensors; t++)
            prepare(trial, place->me, t, &tensors[t]);
        bad |= sockets_check(place, post(state, trial, place->me, tensors) == 0) ||
               finish(place, state);
        for (int t = 0; t < trial->ntensors; t++) {
            const struct rg_coll *coll = &tensors[t];

            bad = bad || check(place, t, coll);
            if (coll->out != coll->in)
                free((void *) (uintptr_t) coll->in);
            free(coll->out);
        }
    }
    rg_plane_tcp.close(state, 2000);
    return bad;
}

static const struct rg_scale plain = { 1.0, 1.0, 1 }, scaled = { 0.5, 4.0, 1 };

static void every_algorithm_reduces_each_tensor_where_it_lies(void **unused)
{
    static const int ntensors[] = { 2, 5, TENSORS_MAX };

    (void) unused;
    for (int a = RG_ALGORITHM_AUTO; a < RG_NALGORITHMS; a++)
        for (size_t k = 0; k < rg_array_len(ntensors); k++)
            for (int n = 1; n <= 5; n++) {
                struct trial trial = { .algorithm = (enum rg_algorithm) a,
                                       .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                                       .ntensors = ntensors[k], .scale = n % 2 ? scaled : plain,
                                       .joined = -1 };

                if (a == RG_ALGORITHM_AUTO || rg_algorithm_does(trial.algorithm,
                                                                RG_MODEL_ALLREDUCE))
                    assert_int_equal(sockets_run(n, member, &trial), 0);
            }
}

static void a_tensor_may_lack_what_others_have(void **unused)
{
    (void) unused;
    for (int a = RG_ALGORITHM_DOUBLING; a < RG_NALGORITHMS; a++)
        for (int joined = -1; joined < 2; joined++) {
            struct trial trial = { .algorithm = (enum rg_algorithm) a,
                                   .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM, .ntensors = 40,
                                   .scale = scaled, .odd = true, .joined = joined };

            if (rg_algorithm_does(trial.algorithm, RG_MODEL_ALLREDUCE))
                assert_int_equal(sockets_run(3, member, &trial), 0);
        }
}

static void pieces_end_with_an_element_of_any_size(void **unused)
{
    (void) unused;
    for (int a = RG_ALGORITHM_DOUBLING; a < RG_NALGORITHMS; a++)
        for (int k = 0; k < 2; k++) {
            struct trial trial = { .algorithm = (enum rg_algorithm) a, .ntensors = 90,
                                   .dtype = k ? REIGEN_UINT8 : REIGEN_INT64,
                                   .op = k ? REIGEN_MAX : REIGEN_MIN, .scale = plain, .odd = true,
                                   .joined = -1 };

            if (rg_algorithm_does(trial.algorithm, RG_MODEL_ALLREDUCE))
                assert_int_equal(sockets_run(3, member, &trial), 0);
        }
}

static void pieces_and_stripes_end_where_they_like(void **unused)
{
    struct trial trial = { .algorithm = RG_ALGORITHM_RING, .dtype = REIGEN_FLOAT32,
                           .op = REIGEN_SUM, .ntensors = TENSORS_MAX, .nsockets = 3,
                           .scale = plain, .joined = -1 };

    (void) unused;
    assert_int_equal(sockets_run(2, member, &trial), 0);
    assert_int_equal(sockets_run(4, member, &trial), 0);
}

/* ------------------------------------------------------------ areas */

static void an_area_counts_through_its_pieces(void **unused)
{
    char memory[100];
    struct rg_tcp_area area = { 0 };
    struct iovec iov[4];
    size_t nbytes;

    (void) unused;
    assert_int_equal(rg_tcp_area_clear(&area, 4), 0);
    rg_tcp_area_add(&area, memory + 50, 10);
    rg_tcp_area_add(&area, memory, 0);
    rg_tcp_area_add(&area, memory + 7, 1);
    rg_tcp_area_add(&area, memory + 20, 5);
    assert_int_equal(area.nbytes, 16);
    for (size_t i = 0; i < 16; i++) {
        char *at = i < 10 ? memory + 50 + i : i < 11 ? memory + 7 : memory + 20 + i - 11;

        nbytes = 3;
        assert_ptr_equal(rg_tcp_area_at(&(struct rg_tcp_place){ &area, i }, &nbytes), at);
        assert_int_equal(nbytes, i < 8 ? 3 : i < 10 ? 10 - i : i < 11 ? 1 : i < 13 ? 3 : 16 - i);
    }
    assert_int_equal(rg_tcp_area_cut(&(struct rg_tcp_place){ &area, 9 }, 4, 4, iov), 3);
    assert_ptr_equal(iov[0].iov_base, memory + 59);
    assert_int_equal(iov[0].iov_len, 1);
    assert_ptr_equal(iov[1].iov_base, memory + 7);
    assert_int_equal(iov[1].iov_len, 1);
    assert_ptr_equal(iov[2].iov_base, memory + 20);
    assert_int_equal(iov[2].iov_len, 2);
    /* No more than there is room for. */
    assert_int_equal(rg_tcp_area_cut(&(struct rg_tcp_place){ &area, 0 }, 16, 2, iov), 2);
    assert_int_equal(iov[0].iov_len + iov[1].iov_len, 11);
    /* It is used again. */
    assert_int_equal(rg_tcp_area_clear(&area, 1), 0);
    rg_tcp_area_add(&area, memory, 2);
    nbytes = 9;
    assert_ptr_equal(rg_tcp_area_at(&(struct rg_tcp_place){ &area, 1 }, &nbytes), memory + 1);
    assert_int_equal(nbytes, 1);
    rg_tcp_area_fini(&area);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_reduces_each_tensor_where_it_lies),
        cmocka_unit_test(a_tensor_may_lack_what_others_have),
        cmocka_unit_test(pieces_end_with_an_element_of_any_size),
        cmocka_unit_test(pieces_and_stripes_end_where_they_like),
        cmocka_unit_test(an_area_counts_through_its_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
