/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/planes/plane_checks.h"

#include <stdlib.h>
#include <string.h>

#include "coll/reduce/reduce.h"

/* Small integers: sums and products stay exact in every type, so that a reference may use another
 * order. They repeat, so that a check of many elements is one of memory. */
enum { PERIOD = 5 };

static int value_of(int rank, size_t i)
{
    return (int) ((i * 7 + (size_t) rank * 3) % PERIOD) + 1;
}

static void put(int dtype, void *at, size_t i, double value)
{
    switch (dtype) {
    case REIGEN_FLOAT32:
        ((float *) at)[i] = (float) value;
        break;
    case REIGEN_FLOAT64:
        ((double *) at)[i] = value;
        break;
    case REIGEN_INT64:
        ((int64_t *) at)[i] = (int64_t) value;
        break;
    case REIGEN_INT32:
        ((int32_t *) at)[i] = (int32_t) value;
        break;
    default:
        ((uint8_t *) at)[i] = (uint8_t) value;
    }
}

/* One period of what elements are to be. */
struct values {
    double of[PERIOD];
};

static struct values values_of(int rank, double added)
{
    struct values values;

    for (size_t i = 0; i < PERIOD; i++)
        values.of[i] = value_of(rank, i) + added;
    return values;
}

static struct values reduced(int op, int n)
{
    struct values result = values_of(0, 0);

    for (int r = 1; r < n; r++)
        for (size_t i = 0; i < PERIOD; i++) {
            double *at = &result.of[i], v = value_of(r, i);

            *at = op == REIGEN_SUM ? *at + v : op == REIGEN_PRODUCT ? *at * v
                  : op == REIGEN_MIN ? (v < *at ? v : *at) : (v > *at ? v : *at);
        }
    return result;
}

/* Fill count elements with values, of which the first one stands at `start` of the period. */
static void repeat(void *at, int dtype, struct values values, size_t start, size_t count)
{
    size_t each = rg_dtype_nbytes(dtype), made = count < PERIOD ? count : PERIOD;

    for (size_t i = 0; i < made; i++)
        put(dtype, at, i, values.of[(start + i) % PERIOD]);
    for (size_t more; made < count; made += more) {
        more = made < count - made ? made : count - made;
        memcpy((char *) at + made * each, at, more * each);
    }
}

/* Whether these elements are such values. */
static bool are(const void *at, int dtype, struct values values, size_t start, size_t count)
{
    size_t nbytes = count * rg_dtype_nbytes(dtype);
    void *wanted = malloc(nbytes + 1);
    bool same;

    repeat(wanted, dtype, values, start, count);
    same = memcmp(at, wanted, nbytes) == 0;
    free(wanted);
    return same;
}

static void *filled(int dtype, int rank, size_t count)
{
    void *at = malloc(count * rg_dtype_nbytes(dtype) + 1);

    repeat(at, dtype, values_of(rank, 0), 0, count);
    return at;
}

static const size_t sizes[] = { 0, 1, 2, 7, 1000, 8192, 8193, 65536 + 3, 300001 };
static const int dtypes[] = { REIGEN_FLOAT32, REIGEN_FLOAT64, REIGEN_INT64, REIGEN_INT32 };

int plane_check_allreduce(struct place *place)
{
    static const int ops[] = { REIGEN_SUM, REIGEN_PRODUCT, REIGEN_MIN, REIGEN_MAX };
    void *state = plane_bundle.open(place);
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

            bad |= sockets_check(place, plane_bundle.run(place, state, &coll) == 0);
            bad = bad ||
                  sockets_check(place, are(out, dtype, reduced(op, place->n), 0, count));
            if (!in_place)
                free(out);
            free(in);
        }
    plane_bundle.close(state);
    return bad;
}

/* What is expected with rank 1 joined: the sum by a factor, or an integer's average. */
static struct values scaled(int n, int kind)
{
    struct values result;

    for (size_t i = 0; i < PERIOD; i++) {
        int sum = 0;

        for (int r = 0; r < n; r++)
            sum += r == 1 ? 0 : value_of(r, i);
        result.of[i] = kind == 0 ? sum * 0.5 : sum / 3;
    }
    return result;
}

/* Scales, integer averages, a rank that has joined (no in), one that drops the result (no out). */
int plane_check_scaled(struct place *place)
{
    void *state = plane_bundle.open(place);
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

            bad |= sockets_check(place, plane_bundle.run(place, state, &coll) == 0);
            struct values expected = scaled(place->n, kind);

            if (!bad && coll.out)
                bad = sockets_check(place, are(out, dtype, expected, 0, count));
            free(in);
            free(out);
        }
    plane_bundle.close(state);
    return bad;
}

int plane_check_rooted(struct place *place)
{
    void *state = plane_bundle.open(place);
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

            bad |= sockets_check(place, plane_bundle.run(place, state, &coll) == 0);
            bad = bad ||
                  sockets_check(place, are(out, REIGEN_INT32, values_of(root, 0), 0, count));
            coll.kind = RG_COLL_REDUCE;
            coll.op = REIGEN_SUM;
            coll.in = in;
            coll.out = place->me == root ? (s % 2 ? in : out) : NULL;
            coll.scale.post = 2.0;
            bad |= sockets_check(place, plane_bundle.run(place, state, &coll) == 0);
            struct values twice = reduced(REIGEN_SUM, place->n);

            for (size_t i = 0; i < PERIOD; i++)
                twice.of[i] *= 2;
            if (!bad && place->me == root)
                bad = sockets_check(place, are(coll.out, REIGEN_INT32, twice, 0, count));
            free(in);
            free(out);
        }
    plane_bundle.close(state);
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

    bad |= sockets_check(place, plane_bundle.run(place, state, &coll) == 0);
    for (int r = 0; r < place->n && !bad; r++) {
        bad |= sockets_check(place, are(at, REIGEN_INT64, values_of(r, 0), 0, counts[r]));
        at += counts[r];
    }
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

    bad |= sockets_check(place, plane_bundle.run(place, state, &coll) == 0);
    struct values half = reduced(REIGEN_SUM, place->n);

    for (size_t i = 0; i < PERIOD; i++)
        half.of[i] = (int) half.of[i] / 2;
    bad = bad || sockets_check(place, are(out, REIGEN_INT32, half, start, counts[place->me]));
    bad = bad || sockets_check(place, are(in, REIGEN_INT32, values_of(place->me, 0), 0, total));
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

    for (int j = 0; j < place->n; from += counts[j++])
        repeat(from, REIGEN_INT32, values_of(0, place->me * 1000 + j * 100), 0, counts[j]);
    struct rg_coll coll = { .kind = RG_COLL_ALLTOALLV, .dtype = REIGEN_INT32, .counts = counts,
                            .recv_counts = recv_counts, .in = in, .out = out,
                            .scale = { 1.0, 1.0, 1 } };

    bad |= sockets_check(place, plane_bundle.run(place, state, &coll) == 0);
    for (int j = 0; j < place->n && !bad; at += recv_counts[j++])
        bad |= sockets_check(place, are(at, REIGEN_INT32, values_of(0, j * 1000 + place->me * 100),
                                        0, recv_counts[j]));
    free(in);
    free(out);
    return bad;
}

int plane_check_counted(struct place *place)
{
    static const size_t bases[] = { 0, 3, 1000, 100000 };
    void *state = plane_bundle.open(place);
    int bad = 0;

    for (size_t b = 0; b < rg_array_len(bases) && !bad; b++) {
        bad |= check_allgatherv(place, state, bases[b]);
        bad = bad || check_reducescatterv(place, state, bases[b]);
        bad = bad || check_alltoallv(place, state, bases[b]);
    }
    plane_bundle.close(state);
    return bad;
}

uint8_t plane_bits[SOCKETS_MAX][PLANE_BITS_NBYTES];

/* Values whose sums depend on the order of addition. */
int plane_check_bits(struct place *place)
{
    static const size_t counts[] = { 5, 70000 };
    void *state = plane_bundle.open(place);
    float *in = malloc(70000 * sizeof(float));
    int bad = 0;

    for (size_t i = 0; i < 70000; i++)
        in[i] = 1.0f / (float) (i + 1 + (size_t) place->me * 3) * (i % 2 ? 1e6f : 1e-3f);
    size_t *count = place->arg;
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = counts[*count], .in = in, .out = plane_bits[place->me],
                            .scale = { 1.0, 1.0 / 3, 1 } };

    bad |= sockets_check(place, plane_bundle.run(place, state, &coll) == 0);
    plane_bundle.close(state);
    free(in);
    return bad;
}
