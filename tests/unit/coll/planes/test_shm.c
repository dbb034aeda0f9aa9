/* SPDX-License-Identifier: Apache-2.0 */
/* The shm plane against a reference that each member computes by itself from all members' inputs:
 * the same bytes as the reference on every member are also the same bytes on all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/members.h"
#include "coll/planes/shm.h"
#include "coll/reduce/reduce.h"
#include "help/unwatched.h"

enum { MISALIGNED = 1, IN_PLACE = 2, ONE_NULL = 4, NO_OUTPUT = 8 };

/* One operation, as every member sees it. */
struct trial {
    enum rg_coll_kind kind;
    int dtype, op, root, flags;
    size_t count;
    struct rg_scale scale;
};

struct bench {
    struct trial trials[512];
    int ntrials;
};

static const struct rg_scale NO_SCALE = { 1.0, 1.0, 1 };

/* Values that stay finite and exact enough in all types; floats are filled as numbers, not as
 * bits. */
static UNIT_UNWATCHED void fill(void *data, int dtype, size_t count, unsigned seed)
{
    uint32_t x = seed * 2654435761u + 12345;

    for (size_t i = 0; i < count; i++) {
        x = x * 1664525u + 1013904223u;
        int v = (int) (x >> 24) % 7 + 1;
        float f = (float) v / 4;
        uint32_t bits;
        uint16_t half = (uint16_t) (0x3c00 + (v << 6)), brain;

        memcpy(&bits, &f, sizeof(bits));
        brain = (uint16_t) (bits >> 16);
        char *at = (char *) data + i * rg_dtype_nbytes(dtype);

        switch (dtype) {
        case REIGEN_FLOAT16: memcpy(at, &half, 2); break;
        case REIGEN_BFLOAT16: memcpy(at, &brain, 2); break;
        case REIGEN_FLOAT32: memcpy(at, &f, 4); break;
        case REIGEN_FLOAT64: memcpy(at, &(double){ f }, 8); break;
        case REIGEN_BOOL: *at = (char) (v & 1); break;
        default: memcpy(at, &(int64_t){ v - 2 }, rg_dtype_nbytes(dtype));
        }
    }
}

/* Uneven, with zeros: what member `from` has for member `to`. */
static size_t pair_count(size_t count, int from, int to)
{
    return (from + to) % 3 == 2 ? 0 : count / (size_t) (1 + (from * 3 + to) % 4);
}

static size_t gather_count(size_t count, int from)
{
    return pair_count(count, from, 0);
}

static bool is_null(const struct trial *t, int member)
{
    return (t->flags & ONE_NULL) && member == 0;
}

struct buffers {
    void *in, *out, *expected; /* in: of this member, or NULL */
    char *memory[3 + MEMBERS_MAX];
    const void *all[MEMBERS_MAX]; /* inputs of all members, NULL where they have none */
    size_t counts[MEMBERS_MAX], recv_counts[MEMBERS_MAX];
    size_t in_count, out_count;
};

static size_t input_count(const struct trial *t, int n, int member)
{
    size_t sum = 0;

    switch (t->kind) {
    case RG_COLL_ALLGATHERV:
        return gather_count(t->count, member);
    case RG_COLL_ALLTOALLV:
        for (int i = 0; i < n; i++)
            sum += pair_count(t->count, member, i);
        return sum;
    case RG_COLL_REDUCESCATTERV:
        for (int i = 0; i < n; i++)
            sum += gather_count(t->count, i);
        return sum;
    default:
        return t->count;
    }
}

static size_t output_count(const struct trial *t, int n, int me)
{
    size_t sum = 0;

    switch (t->kind) {
    case RG_COLL_ALLGATHERV:
        for (int i = 0; i < n; i++)
            sum += gather_count(t->count, i);
        return sum;
    case RG_COLL_ALLTOALLV:
        for (int i = 0; i < n; i++)
            sum += pair_count(t->count, i, me);
        return sum;
    case RG_COLL_REDUCESCATTERV:
        return gather_count(t->count, me);
    default:
        return t->count;
    }
}

static void expect(const struct trial *t, const struct member *m, struct buffers *b)
{
    size_t element = rg_dtype_nbytes(t->dtype), at = 0, start = 0;
    const void *srcs[MEMBERS_MAX];

    switch (t->kind) {
    case RG_COLL_ALLREDUCE:
    case RG_COLL_REDUCE:
        rg_reduce(t->dtype, t->op, b->expected, b->all, m->n, t->count, &t->scale);
        break;
    case RG_COLL_BROADCAST:
        memcpy(b->expected, b->all[t->root], t->count * element);
        break;
    case RG_COLL_ALLGATHERV:
        for (int i = 0; i < m->n; i++) {
            memcpy((char *) b->expected + at * element, b->all[i], b->counts[i] * element);
            at += b->counts[i];
        }
        break;
    case RG_COLL_ALLTOALLV:
        for (int i = 0; i < m->n; i++) {
            start = 0;
            for (int j = 0; j < m->me; j++)
                start += pair_count(t->count, i, j);
            memcpy((char *) b->expected + at * element, (const char *) b->all[i] + start * element,
                   b->recv_counts[i] * element);
            at += b->recv_counts[i];
        }
        break;
    case RG_COLL_REDUCESCATTERV:
        for (int i = 0; i < m->me; i++)
            start += b->counts[i];
        for (int i = 0; i < m->n; i++)
            srcs[i] = b->all[i] ? (const char *) b->all[i] + start * element : NULL;
        rg_reduce(t->dtype, t->op, b->expected, srcs, m->n, b->counts[m->me], &t->scale);
        break;
    }
}

static void prepare(const struct trial *t, const struct member *m, struct buffers *b)
{
    size_t element = rg_dtype_nbytes(t->dtype), shift = (t->flags & MISALIGNED) ? 1 : 0;

    memset(b, 0, sizeof(*b));
    for (int i = 0; i < m->n; i++) {
        size_t count = input_count(t, m->n, i);

        b->memory[3 + i] = malloc(count * element + 1);
        fill(b->memory[3 + i], t->dtype, count, (unsigned) (i + 1));
        b->all[i] = is_null(t, i) ? NULL : b->memory[3 + i];
        b->counts[i] = t->kind == RG_COLL_ALLTOALLV ? pair_count(t->count, m->me, i)
                                                    : gather_count(t->count, i);
        b->recv_counts[i] = pair_count(t->count, i, m->me);
    }
    b->in_count = input_count(t, m->n, m->me);
    b->out_count = output_count(t, m->n, m->me);
    b->memory[0] = malloc(b->in_count * element + 1);
    b->memory[1] = malloc(b->out_count * element + 1);
    b->memory[2] = malloc(b->out_count * element + 1);
    b->out = b->memory[1] + shift;
    b->expected = b->memory[2];
    b->in = (t->flags & IN_PLACE) ? b->out : b->memory[0] + shift;
    memset(b->out, 0x5a, b->out_count * element);
    if (is_null(t, m->me))
        b->in = NULL;
    else
        memcpy(b->in, b->all[m->me], b->in_count * element);
    expect(t, m, b);
}

static int run_trial(struct member *m, void *state, const struct trial *t)
{
    struct buffers b;
    struct rg_coll coll;
    size_t nbytes;
    bool no_output = (t->flags & NO_OUTPUT) && m->me == m->n - 1;
    int result = 0;

    prepare(t, m, &b);
    coll = (struct rg_coll){ .kind = t->kind, .dtype = (uint8_t) t->dtype, .op = (uint8_t) t->op,
                             .root = t->root, .count = t->count, .counts = b.counts,
                             .recv_counts = b.recv_counts, .in = b.in,
                             .out = no_output ? NULL : b.out, .scale = t->scale };
    if (rg_plane_shm.post(state, &coll) != 0 ||
        members_wait(m, rg_plane_shm.progress, state) != 0)
        result = 1;
    nbytes = b.out_count * rg_dtype_nbytes(t->dtype);
    if (!no_output && (t->kind != RG_COLL_REDUCE || t->root == m->me) && result == 0 &&
        memcmp(b.out, b.expected, nbytes) != 0) {
        fprintf(stderr, "member %d of %d: kind %d %s %s count %zu flags %d differs\n", m->me, m->n,
                t->kind, rg_dtype_name(t->dtype), rg_op_name(t->op), t->count, t->flags);
        result = 2;
    }
    for (size_t i = 0; i < sizeof(b.memory) / sizeof(b.memory[0]); i++)
        free(b.memory[i]);
    return result;
}

static void *open_plane(struct member *m)
{
    struct rg_plane_options options = { .team = &m->team, .region = m->region,
                                        .group = { .nmembers = m->n, .me = m->me } };
    void *state = NULL;

    return rg_plane_shm.open(&options, &state, NULL) == 0 ? state : NULL;
}

static int member_trials(struct member *m)
{
    const struct bench *bench = m->arg;
    void *state = open_plane(m);
    int result = state ? 0 : 3;

    for (int i = 0; i < bench->ntrials && result == 0; i++)
        result = run_trial(m, state, &bench->trials[i]);
    if (state)
        rg_plane_shm.close(state, 0);
    return result;
}

static void add(struct bench *bench, struct trial trial)
{
    assert_true(bench->ntrials < (int) (sizeof(bench->trials) / sizeof(bench->trials[0])));
    bench->trials[bench->ntrials++] = trial;
}

/* The thread sanitizer needs a second per 10 MB; the protocol is the same with less. */
enum { THREADS_N_MAX = 3, THREADS_COUNT_MAX = 150001, THREADS_TYPED_COUNT_MAX = 20001 };

static void run(struct bench *bench, int n)
{
    if (members_are_threads() && n > THREADS_N_MAX)
        return;
    for (int i = 0; members_are_threads() && i < bench->ntrials; i++) {
        struct trial *t = &bench->trials[i];
        size_t most = t->dtype == REIGEN_FLOAT32 ? THREADS_COUNT_MAX : THREADS_TYPED_COUNT_MAX;

        t->count = t->count > most ? most : t->count;
    }
    assert_int_equal(
        members_run(n, rg_plane_shm.region_nbytes(n), member_trials, bench), 0);
}

static const int OPS[] = { REIGEN_SUM, REIGEN_MIN, REIGEN_MAX, REIGEN_PRODUCT };

static void every_type_and_operation_reduces_the_same_on_all(void **cmocka)
{
    static const enum rg_coll_kind kinds[] = { RG_COLL_ALLREDUCE, RG_COLL_REDUCE,
                                               RG_COLL_REDUCESCATTERV };
    struct bench *bench = calloc(1, sizeof(*bench));

    (void) cmocka;
    for (int dtype = 0; dtype < REIGEN_NDTYPES; dtype++) {
        for (int op = 0; op < 4; op++) {
            for (int k = 0; k < 3; k++) {
                add(bench, (struct trial){ kinds[k], dtype, OPS[op], 0, 0, 1003, NO_SCALE });
                add(bench, (struct trial){ kinds[k], dtype, OPS[op], 0, 0, 70001, NO_SCALE });
            }
        }
    }
    for (int n = 1; n <= 5; n++)
        run(bench, n);
    free(bench);
}

static void every_size_and_kind_arrives(void **cmocka)
{
    static const size_t counts[] = {
        0, 1, 17, RG_SHM_ONESHOT_NBYTES / 4, RG_SHM_ONESHOT_NBYTES / 4 + 1,
        RG_SHM_CHUNK_MIN / 4 - 1, RG_SHM_CHUNK_MIN / 4, RG_SHM_CHUNK_MIN / 4 + 1,
        RG_SHM_SLOT_NBYTES / 4 - 1, RG_SHM_SLOT_NBYTES / 4, RG_SHM_SLOT_NBYTES / 4 + 1,
        3 * 1024 * 1024 / 4,
    };
    struct bench *bench = calloc(1, sizeof(*bench));

    (void) cmocka;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (int kind = RG_COLL_ALLREDUCE; kind <= RG_COLL_REDUCESCATTERV; kind++)
            add(bench, (struct trial){ (enum rg_coll_kind) kind, REIGEN_FLOAT32, REIGEN_SUM, 0,
                                       (int) (i & MISALIGNED), counts[i], NO_SCALE });
    }
    for (int n = 1; n <= 5; n++)
        run(bench, n);
    free(bench);
}

static void every_member_may_be_root(void **cmocka)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    (void) cmocka;
    for (int root = 0; root < 3; root++) {
        add(bench, (struct trial){ RG_COLL_BROADCAST, REIGEN_INT64, 0, root, 0, 99999, NO_SCALE });
        add(bench, (struct trial){ RG_COLL_BROADCAST, REIGEN_INT8, 0, root, IN_PLACE, 12345,
                                   NO_SCALE });
        add(bench, (struct trial){ RG_COLL_REDUCE, REIGEN_FLOAT64, REIGEN_SUM, root, 0, 99999,
                                   NO_SCALE });
        add(bench, (struct trial){ RG_COLL_REDUCE, REIGEN_BFLOAT16, REIGEN_SUM, root, 0, 999,
                                   NO_SCALE });
    }
    run(bench, 3);
    run(bench, 4);
    free(bench);
}

static void buffers_may_be_shared_missing_or_misaligned(void **cmocka)
{
    static const size_t counts[] = { 5, 5000, 100003, 700001 };
    struct bench *bench = calloc(1, sizeof(*bench));

    (void) cmocka;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (int flags = 0; flags < 16; flags++)
            add(bench, (struct trial){ RG_COLL_ALLREDUCE, REIGEN_FLOAT32, REIGEN_SUM, 0, flags,
                                       counts[i], { 1.0, 0.5, 1 } });
        add(bench, (struct trial){ RG_COLL_REDUCESCATTERV, REIGEN_INT32, REIGEN_SUM, 0,
                                   ONE_NULL | MISALIGNED, counts[i], { 1.0, 1.0, 3 } });
        add(bench, (struct trial){ RG_COLL_REDUCE, REIGEN_FLOAT16, REIGEN_SUM, 1,
                                   ONE_NULL | MISALIGNED, counts[i], { 2.0, 0.25, 1 } });
    }
    for (int n = 2; n <= 4; n++)
        run(bench, n);
    free(bench);
}

/* ------------------------------------------------------------ fusion */

enum { NFUSED = 40 };

static size_t fused_count(int i)
{
    return i % 7 == 3 ? 0 : (size_t) (i * 997 + 1);
}

static int member_fused(struct member *m)
{
    struct rg_coll colls[NFUSED];
    struct buffers b[NFUSED];
    void *state = open_plane(m);
    int result = 0;

    for (int i = 0; i < NFUSED; i++) {
        struct trial t = { RG_COLL_ALLREDUCE, REIGEN_FLOAT32, REIGEN_SUM, 0,
                           i % 2 ? IN_PLACE : 0, fused_count(i), { 1.0, 0.5, 1 } };

        prepare(&t, m, &b[i]);
        colls[i] = (struct rg_coll){ .kind = t.kind, .dtype = (uint8_t) t.dtype,
                                     .op = (uint8_t) t.op, .count = t.count, .in = b[i].in,
                                     .out = b[i].out, .scale = t.scale };
    }
    if (rg_plane_shm.post_fused(state, colls, *(int *) m->arg) != 0 ||
        members_wait(m, rg_plane_shm.progress, state) != 0)
        result = 1;
    for (int i = 0; i < NFUSED; i++) {
        if (i < *(int *) m->arg && memcmp(b[i].out, b[i].expected, b[i].out_count * 4) != 0)
            result = 2;
        for (int k = 0; k < 3 + MEMBERS_MAX; k++)
            free(b[i].memory[k]);
    }
    rg_plane_shm.close(state, 0);
    return result;
}

static void fused_tensors_are_each_reduced(void **cmocka)
{
    (void) cmocka;
    for (int n = 1; n <= 4; n++) {
        for (int nfused = 2; nfused <= NFUSED; nfused += 19)
            assert_int_equal(
                members_run(n, rg_plane_shm.region_nbytes(n), member_fused, &nfused), 0);
    }
}

/* ------------------------------------------------------------ the end */

static int member_aborts(struct member *m)
{
    float x[4] = { 0 };
    struct rg_coll coll = { .kind = RG_COLL_ALLREDUCE, .dtype = REIGEN_FLOAT32, .op = REIGEN_SUM,
                            .count = 4, .in = x, .out = x, .scale = { 1.0, 1.0, 1 } };
    void *state = open_plane(m);
    struct rg_error err = RG_ERROR_INIT;
    bool moved;
    int result;

    if (m->me == 1) { /* never posts */
        rg_plane_shm.close(state, 0);
        return 0;
    }
    result = rg_plane_shm.post(state, &coll) != 0 ||
             rg_plane_shm.progress(state, &moved, &err) != 0 || !moved ||
             rg_plane_shm.progress(state, &moved, &err) != 0 || moved;
    rg_plane_shm.abort(state);
    if (rg_plane_shm.progress(state, &moved, &err) != -ECONNRESET || !err.text[0] ||
        rg_plane_shm.post(state, &coll) != -ECONNRESET)
        result = 2;
    rg_plane_shm.close(state, 0);
    return result;
}

static void an_aborted_operation_ends_with_connreset(void **cmocka)
{
    (void) cmocka;
    assert_int_equal(members_run(2, rg_plane_shm.region_nbytes(2), member_aborts, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operation_reduces_the_same_on_all),
        cmocka_unit_test(every_size_and_kind_arrives),
        cmocka_unit_test(every_member_may_be_root),
        cmocka_unit_test(buffers_may_be_shared_missing_or_misaligned),
        cmocka_unit_test(fused_tensors_are_each_reduced),
        cmocka_unit_test(an_aborted_operation_ends_with_connreset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
