/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <poll.h>

#include "base/time.h"
#include "coll/plane.h"
#include "coll/reduce/reduce.h"
#include "sockets.h"

/* Sleeps on the plane's descriptors as the engine does: a missing one makes the test time out. */
static int finish(struct place *place, void *state, struct rg_error *err)
{
    int quiet = 0;

    for (;;) {
        int fds[64], r, n;
        unsigned events[64];
        struct pollfd pfds[64];
        bool moved = false;

        r = rg_plane_tcp.progress(state, &moved, err);
        if (r != 0)
            return r < 0 ? r : 0;
        if (moved)
            continue;
        n = rg_plane_tcp.wait_fds(state, fds, events, 64);
        for (int i = 0; i < n; i++)
            pfds[i] = (struct pollfd) { fds[i], (short) events[i], 0 };
        /* With a lost socket there is nothing to wait for but the clock. */
        if (n == 0 && ++quiet < 40) {
            rg_sleep_ms(100);
            continue;
        }
        if (n == 0 || poll(pfds, (nfds_t) n, 20000) <= 0)
            return sockets_fail(place, __LINE__, "something to wait for");
    }
}

static int run(struct place *place, void *state, const struct rg_coll *coll)
{
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_plane_tcp.post(state, coll);

    if (r == 0)
        r = finish(place, state, &err);
    if (r != 0)
        fprintf(stderr, "rank %d: %s\n", place->me, err.text);
    return r;
}

static void *open_plane(struct place *place)
{
    struct rg_plane_options options = { .team = &place->team, .config = &place->config,
                                        .group = { NULL, place->n, place->me } };
    void *state = NULL;

    rg_plane_tcp.open(&options, &state, NULL);
    return state;
}

/* Small integers: sums and products stay exact in every type, so that a reference may use another
 * order. */
static int value_of(int rank, size_t i)
{
    return (int) ((i * 7 + (size_t) rank * 3) % 5) + 1;
}

static void put(int dtype, void *at, size_t i, int value)
{
    switch (dtype) {
    case REIGEN_FLOAT32:
        ((float *) at)[i] = (float) value;
        break;
    case REIGEN_FLOAT64:
        ((double *) at)[i] = value;
        break;
    case REIGEN_INT64:
        ((int64_t *) at)[i] = value;
        break;
    case REIGEN_INT32:
        ((int32_t *) at)[i] = value;
        break;
    default:
        ((uint8_t *) at)[i] = (uint8_t) value;
    }
}

static double get(int dtype, const void *at, size_t i)
{
    switch (dtype) {
    case REIGEN_FLOAT32:
        return ((const float *) at)[i];
    case REIGEN_FLOAT64:
        return ((const double *) at)[i];
    case REIGEN_INT64:
        return (double) ((const int64_t *) at)[i];
    case REIGEN_INT32:
        return ((const int32_t *) at)[i];
    default:
        return ((const uint8_t *) at)[i];
    }
}

static double reduced(int op, int n, size_t i)
{
    double result = value_of(0, i);

    for (int r = 1; r < n; r++) {
        double v = value_of(r, i);

        result = op == REIGEN_SUM ? result + v : op == REIGEN_PRODUCT ? result * v
                 : op == REIGEN_MIN ? (v < result ? v : result) : (v > result ? v : result);
    }
    return result;
}

static void *filled(int dtype, int rank, size_t count)
{
    void *at = malloc(count * rg_dtype_nbytes(dtype) + 1);

    for (size_t i = 0; i < count; i++)
        put(dtype, at, i, value_of(rank, i));
    return at;
}

static const size_t sizes[] = { 0, 1, 2, 7, 1000, 8192, 8193, 65536 + 3, 300001 };
static const int dtypes[] = { REIGEN_FLOAT32, REIGEN_FLOAT64, REIGEN_INT64, REIGEN_INT32 };

static int check_allreduce(struct place *place)
{
    static const int ops[] = { REIGEN_SUM, REIGEN_PRODUCT, REIGEN_MIN, REIGEN_MAX };
    void *state = open_plane(place);
    int bad = 0, round = 0;

    for (size_t s = 0; s < rg_array_len(sizes) && !bad; s++)
        for (size_t d = 0; d < rg_array_len(dtypes) && !bad; d++) {
            int op = ops[round % 4], dtype = dtypes[d];
            bool in_place = round++ % 3 == 0;
            size_t count = sizes[s];
            void *in = filled(dtype, place->me, count);
            void *out = in_place ? in : malloc(count * rg_dtype_nbytes(dtype) + 1);
            struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = (uint8_t) dtype,
                                    .op = (uint8_t) op, .count = count, .in = in, .out = out,
                                    .scale = { 1.0, 1.0, 1 } };

            bad |= sockets_check(place, run(place, state, &coll) == 0);
            for (size_t i = 0; i < count && !bad; i++)
                bad |= sockets_check(place, get(dtype, out, i) == reduced(op, place->n, i));
            if (!in_place)
                free(out);
            free(in);
        }
    rg_plane_tcp.close(state, 2000);
    return bad;
}

/* Scales, integer averages, a rank that has joined (no in), one that drops the result (no out). */
static int check_scaled(struct place *place)
{
    void *state = open_plane(place);
    int bad = 0;

    for (size_t s = 1; s < rg_array_len(sizes) && !bad; s++)
        for (int kind = 0; kind < 2 && !bad; kind++) {
            int dtype = kind == 0 ? REIGEN_FLOAT32 : REIGEN_INT32;
            size_t count = sizes[s];
            void *in = filled(dtype, place->me, count);
            void *out = malloc(count * rg_dtype_nbytes(dtype));
            bool joined = place->me == 1;
            struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = (uint8_t) dtype,
                                    .op = REIGEN_SUM, .count = count, .in = joined ? NULL : in,
                                    .out = place->me == 2 ? NULL : out,
                                    .scale = { kind == 0 ? 2.0 : 1.0, kind == 0 ? 0.25 : 1.0,
                                               kind == 0 ? 1 : 3 } };

            bad |= sockets_check(place, run(place, state, &coll) == 0);
            for (size_t i = 0; i < count && !bad && coll.out; i++) {
                double sum = 0;

                for (int r = 0; r < place->n; r++)
                    sum += r == 1 ? 0 : value_of(r, i);
                double expected = kind == 0 ? sum * 0.5 : (double) ((int) sum / 3);

                bad |= sockets_check(place, get(dtype, out, i) == expected);
            }
            free(in);
            free(out);
        }
    rg_plane_tcp.close(state, 2000);
    return bad;
}

static int check_rooted(struct place *place)
{
    void *state = open_plane(place);
    int bad = 0;

    for (size_t s = 0; s < rg_array_len(sizes) && !bad; s++)
        for (int root = 0; root < place->n && !bad; root++) {
            size_t count = sizes[s];
            int32_t *in = filled(REIGEN_INT32, place->me, count);
            int32_t *out = calloc(count + 1, sizeof(*out));
            struct rg_coll coll = { .kind = RG_COLL_BROADCAST, .dtype = REIGEN_INT32,
                                    .root = root, .count = count,
                                    .in = place->me == root ? in : NULL, .out = out,
                                    .scale = { 1.0, 1.0, 1 } };

            bad |= sockets_check(place, run(place, state, &coll) == 0);
            for (size_t i = 0; i < count && !bad; i++)
                bad |= sockets_check(place, out[i] == value_of(root, i));
            coll.kind = RG_COLL_REDUCE;
            coll.op = REIGEN_SUM;
            coll.in = in;
            coll.out = place->me == root ? (s % 2 ? in : out) : NULL;
            coll.scale.post = 2.0;
            bad |= sockets_check(place, run(place, state, &coll) == 0);
            for (size_t i = 0; i < count && !bad && place->me == root; i++)
                bad |= sockets_check(place, ((int32_t *) coll.out)[i] ==
                                                2 * reduced(REIGEN_SUM, place->n, i));
            free(in);
            free(out);
        }
    rg_plane_tcp.close(state, 2000);
    return bad;
}

static size_t uneven(size_t base, int i)
{
    return i == 1 ? 0 : base + (size_t) i;
}

static int check_allgatherv(struct place *place, void *state, size_t base)
{
    size_t counts[SOCKETS_MAX], total = 0;
    int bad = 0;

    for (int i = 0; i < place->n; i++)
        total += counts[i] = uneven(base, i);
    int64_t *in = filled(REIGEN_INT64, place->me, counts[place->me]);
    int64_t *out = calloc(total + 1, sizeof(*out)), *at = out;
    struct rg_coll coll = { .kind = RG_COLL_ALLGATHERV, .dtype = REIGEN_INT64, .counts = counts,
                            .in = in, .out = out, .scale = { 1.0, 1.0, 1 } };

    bad |= sockets_check(place, run(place, state, &coll) == 0);
    for (int r = 0; r < place->n && !bad; r++)
        for (size_t i = 0; i < counts[r] && !bad; i++)
            bad |= sockets_check(place, *at++ == value_of(r, i));
    free(in);
    free(out);
    return bad;
}

static int check_reducescatterv(struct place *place, void *state, size_t base)
{
    size_t counts[SOCKETS_MAX], total = 0, start = 0;
    int bad = 0;

    for (int i = 0; i < place->n; i++) {
        start = i == place->me ? total : start;
        total += counts[i] = uneven(base, i);
    }
    int32_t *in = filled(REIGEN_INT32, place->me, total);
    int32_t *out = calloc(counts[place->me] + 1, sizeof(*out));
    struct rg_coll coll = { .kind = RG_COLL_REDUCESCATTERV, .dtype = REIGEN_INT32,
                            .op = REIGEN_SUM, .counts = counts, .in = in, .out = out,
                            .scale = { 1.0, 1.0, 2 } };

    bad |= sockets_check(place, run(place, state, &coll) == 0);
    for (size_t i = 0; i < counts[place->me] && !bad; i++)
        bad |= sockets_check(place, out[i] == (int) reduced(REIGEN_SUM, place->n, start + i) / 2);
    for (size_t i = 0; i < total && !bad; i++)
        bad |= sockets_check(place, in[i] == value_of(place->me, i));
    free(in);
    free(out);
    return bad;
}

/* Rank i sends uneven(base, i + j) elements to rank j. */
static int check_alltoallv(struct place *place, void *state, size_t base)
{
    size_t counts[SOCKETS_MAX], recv_counts[SOCKETS_MAX], total = 0, recv_total = 0;
    int bad = 0;

    for (int i = 0; i < place->n; i++) {
        total += counts[i] = uneven(base, place->me + i);
        recv_total += recv_counts[i] = uneven(base, i + place->me);
    }
    int32_t *in = calloc(total + 1, sizeof(*in)), *from = in;
    int32_t *out = calloc(recv_total + 1, sizeof(*out)), *at = out;

    for (int j = 0; j < place->n; j++)
        for (size_t i = 0; i < counts[j]; i++)
            *from++ = place->me * 1000 + j * 100 + value_of(0, i);
    struct rg_coll coll = { .kind = RG_COLL_ALLTOALLV, .dtype = REIGEN_INT32, .counts = counts,
                            .recv_counts = recv_counts, .in = in, .out = out,
                            .scale = { 1.0, 1.0, 1 } };

    bad |= sockets_check(place, run(place, state, &coll) == 0);
    for (int j = 0; j < place->n && !bad; j++)
        for (size_t i = 0; i < recv_counts[j] && !bad; i++)
            bad |= sockets_check(place, *at++ == j * 1000 + place->me * 100 + value_of(0, i));
    free(in);
    free(out);
    return bad;
}

static int check_counted(struct place *place)
{
    static const size_t bases[] = { 0, 3, 1000, 100000 };
    void *state = open_plane(place);
    int bad = 0;

    for (size_t b = 0; b < rg_array_len(bases) && !bad; b++) {
        bad |= check_allgatherv(place, state, bases[b]);
        bad = bad || check_reducescatterv(place, state, bases[b]);
        bad = bad || check_alltoallv(place, state, bases[b]);
    }
    rg_plane_tcp.close(state, 2000);
    return bad;
}

static uint8_t all_bits[SOCKETS_MAX][70000 * 4];

/* Values whose sums depend on the order of addition. */
static int check_bits(struct place *place)
{
    static const size_t counts[] = { 5, 70000 };
    void *state = open_plane(place);
    float *in = malloc(70000 * sizeof(float));
    int bad = 0;

    for (size_t i = 0; i < 70000; i++)
        in[i] = 1.0f / (float) (i + 1 + (size_t) place->me * 3) * (i % 2 ? 1e6f : 1e-3f);
    size_t *count = place->arg;
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = counts[*count], .in = in, .out = all_bits[place->me],
                            .scale = { 1.0, 1.0 / 3, 1 } };

    bad |= sockets_check(place, run(place, state, &coll) == 0);
    rg_plane_tcp.close(state, 2000);
    free(in);
    return bad;
}

static void all_ranks_get_the_same_bits(void **unused)
{
    (void) unused;
    for (size_t count = 0; count < 2; count++)
        for (int n = 2; n <= 5; n++) {
            assert_int_equal(sockets_run(n, check_bits, &count), 0);
            for (int i = 1; i < n; i++)
                assert_memory_equal(all_bits[0], all_bits[i], count ? sizeof(all_bits[0]) : 20);
        }
}

/* Rank 1 leaves in the middle: the others hear of it by name, and do not hang. */
static int check_leaver(struct place *place)
{
    size_t count = 1 << 20;
    float *data = calloc(count, sizeof(*data));
    struct rg_error err = RG_ERROR_INIT;
    void *state = open_plane(place);
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = 4, .in = data, .out = data, .scale = { 1.0, 1.0, 1 } };
    int bad = sockets_check(place, run(place, state, &coll) == 0);

    coll.count = count;
    if (place->me != 1 && !bad) {
        bad |= sockets_check(place, rg_plane_tcp.post(state, &coll) == 0);
        bad |= sockets_check(place, finish(place, state, &err) == -ECONNRESET);
        bad |= sockets_check(place, strstr(err.text, "connection to rank 1 on here") != NULL);
    }
    rg_plane_tcp.close(state, 0);
    free(data);
    return bad;
}

static void a_member_that_leaves_is_named(void **unused)
{
    (void) unused;
    assert_int_equal(sockets_run(2, check_leaver, NULL), 0);
}

/* Rank 1 posts something else: both are told what each is doing. */
static int check_lost_step(struct place *place)
{
    float data[8] = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    void *state = open_plane(place);
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = place->me == 1 ? 8 : 4, .in = data, .out = data,
                            .scale = { 1.0, 1.0, 1 } };
    int bad = sockets_check(place, rg_plane_tcp.post(state, &coll) == 0);

    bad |= sockets_check(place, finish(place, state, &err) == -EPROTO);
    bad |= sockets_check(place, strstr(err.text, "allreduce of 32 bytes") != NULL);
    bad |= sockets_check(place, strstr(err.text, "allreduce of 16 bytes") != NULL);
    rg_plane_tcp.close(state, 1000);
    return bad;
}

static void members_that_lost_step_fail_instead_of_mixing_data(void **unused)
{
    (void) unused;
    assert_int_equal(sockets_run(2, check_lost_step, NULL), 0);
}

static int check_wrong_key(struct place *place)
{
    float data[4] = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = 4, .in = data, .out = data, .scale = { 1.0, 1.0, 1 } };
    void *state = open_plane(place);
    int bad;

    if (place->me == 1) {
        uint64_t until_ns = rg_now_ns() + RG_NS_PER_S;
        bool moved = false;

        bad = sockets_check(place, rg_plane_tcp.post(state, &coll) == 0);
        while (rg_now_ns() < until_ns && !bad)
            bad |= sockets_check(place, rg_plane_tcp.progress(state, &moved, &err) == 0);
    } else {
        memset(place->team.data_key, 8, sizeof(place->team.data_key));
        bad = sockets_check(place, rg_plane_tcp.post(state, &coll) == 0);
        bad |= sockets_check(place, finish(place, state, &err) == -EACCES);
        bad |= sockets_check(place, strstr(err.text, "rank 1 on here has another key") != NULL);
    }
    rg_plane_tcp.close(state, 0);
    return bad;
}

static void a_wrong_key_opens_no_connection(void **unused)
{
    (void) unused;
    assert_int_equal(sockets_run(2, check_wrong_key, NULL), 0);
}

static void for_all_sizes(int (*fn)(struct place *place), int least)
{
    for (int n = least; n <= 5; n++)
        assert_int_equal(sockets_run(n, fn, NULL), 0);
}

static void allreduce_matches_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(check_allreduce, 1);
}

static void scales_and_joined_ranks_match_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(check_scaled, 1);
}

static void broadcast_and_reduce_match_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(check_rooted, 1);
}

static void allgather_alltoall_reducescatter_match_the_reference(void **unused)
{
    (void) unused;
    for_all_sizes(check_counted, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_matches_the_reference),
        cmocka_unit_test(scales_and_joined_ranks_match_the_reference),
        cmocka_unit_test(broadcast_and_reduce_match_the_reference),
        cmocka_unit_test(allgather_alltoall_reducescatter_match_the_reference),
        cmocka_unit_test(all_ranks_get_the_same_bits),
        cmocka_unit_test(a_member_that_leaves_is_named),
        cmocka_unit_test(members_that_lost_step_fail_instead_of_mixing_data),
        cmocka_unit_test(a_wrong_key_opens_no_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
