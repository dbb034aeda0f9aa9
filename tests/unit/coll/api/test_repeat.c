/* SPDX-License-Identifier: Apache-2.0 */
/* Bits that repeat: the same reductions are submitted one by one, all at once, and in orders and
 * with pauses that differ between ranks; each must come to the same bits each time. Every rank is a
 * node of its own, as ranks of one node add in one order whatever happens. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/api/api_check.h"

enum { NRANKS = 3, NROUNDS = 9, NOPS = 14, GROUP = 2, PAUSE_US = 2000 };
enum way { ONE_BY_ONE, AT_ONCE, MIXED };

/* Below and above what is fused, what goes directly, and what goes in pieces of its own. */
static const struct what {
    int kind, dtype, op;
    size_t count;
} whats[NOPS] = {
    { REIGEN_ALLREDUCE, REIGEN_FLOAT32, REIGEN_SUM, 1001 },
    { REIGEN_ALLREDUCE, REIGEN_FLOAT32, REIGEN_SUM, 77 },
    { REIGEN_ALLREDUCE, REIGEN_FLOAT32, REIGEN_AVERAGE, 5003 },
    { REIGEN_ALLREDUCE, REIGEN_FLOAT32, REIGEN_SUM, 30011 },
    { REIGEN_ALLREDUCE, REIGEN_FLOAT32, REIGEN_SUM, 90001 },
    { REIGEN_ALLREDUCE, REIGEN_FLOAT32, REIGEN_SUM, 200003 },
    { REIGEN_ALLREDUCE, REIGEN_FLOAT32, REIGEN_SUM, 140009 },
    { REIGEN_ALLREDUCE, REIGEN_FLOAT16, REIGEN_AVERAGE, 1501 },
    { REIGEN_ALLREDUCE, REIGEN_FLOAT16, REIGEN_AVERAGE, 50021 },
    { REIGEN_ALLREDUCE, REIGEN_BFLOAT16, REIGEN_SUM, 300007 },
    { REIGEN_ALLREDUCE, REIGEN_FLOAT64, REIGEN_SUM, 60013 },
    { REIGEN_ALLREDUCE, REIGEN_FLOAT32, REIGEN_ADASUM, 3001 },
    { REIGEN_ALLREDUCE, REIGEN_FLOAT32, REIGEN_ADASUM, 40009 },
    { REIGEN_REDUCESCATTER, REIGEN_FLOAT32, REIGEN_SUM, 50023 },
};

struct reduction {
    char *in, *out;
    size_t nbytes;
    uint64_t digest; /* of its first result; 0: there was none */
    reigen_handle h[GROUP];
    int nhandles;
};

static uint64_t next(uint64_t *seed)
{
    return *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

/* Numbers of many sizes, so that another order of additions shows. */
static void fill(struct reduction *reduction, const struct what *what, uint64_t seed)
{
    reduction->nbytes = what->count * rg_dtype_nbytes(what->dtype);
    reduction->in = buffer(what->count);
    reduction->out = buffer(what->count);
    for (size_t i = 0; i < what->count; i++) {
        uint64_t x = next(&seed) >> 33;
        float part = (float) ((double) (x & 0xffff) - 32768.0) / (float) (1u << (x >> 16) % 14);

        if (what->dtype == REIGEN_FLOAT64)
            ((double *) (void *) reduction->in)[i] = (double) part / 3;
        else if (what->dtype == REIGEN_FLOAT32)
            ((float *) (void *) reduction->in)[i] = part / 3;
        else /* any bits but those of infinities, and small enough for sums */
            ((uint16_t *) (void *) reduction->in)[i] = (uint16_t) (x & 0xb7ff);
    }
}

static void submit(struct reduction *reduction, int number)
{
    const struct what *what = &whats[number];
    struct reigen_options o = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { (int64_t) what->count }, some[] = { 17 };
    const int64_t *shapes[] = { shape, some };
    const void *ins[] = { reduction->in, reduction->in };
    static float other[NOPS][17];
    void *outs[] = { reduction->out, other[number] };
    int ndims[] = { 1, 1 }, r;
    char name[16], more[20];
    const char *names[] = { name, more };

    snprintf(name, sizeof(name), "op%d", number);
    snprintf(more, sizeof(more), "more%d", number);
    o.op = what->op;
    reduction->nhandles = 1;
    if (what->kind == REIGEN_REDUCESCATTER) {
        r = reigen_reducescatter_async(name, reduction->in, what->dtype, shape, 1, &o,
                                       reduction->h);
    } else if (number == 6) {
        reduction->nhandles = GROUP;
        r = reigen_grouped_async(what->kind, GROUP, names, ins, outs, what->dtype, shapes, ndims,
                                 &o, reduction->h);
    } else {
        r = reigen_allreduce_async(name, reduction->in, reduction->out, what->dtype, shape, 1, &o,
                                   reduction->h);
    }
    check(r == 0);
}

static void look(struct reduction *reduction, int number)
{
    const void *at = reduction->out;
    size_t nbytes = reduction->nbytes;
    int64_t shape[REIGEN_NDIM_MAX];
    uint64_t digest = 1;
    int ndim;

    check(reigen_wait(reduction->h[0], -1) == 0);
    if (whats[number].kind == REIGEN_REDUCESCATTER)
        check(reigen_output(reduction->h[0], &at, &nbytes, shape, &ndim) == 0);
    for (size_t i = 0; i < nbytes; i++)
        digest = (digest ^ ((const uint8_t *) at)[i]) * UINT64_C(0x100000001b3);
    for (int i = 0; i < reduction->nhandles; i++)
        wait_release(reduction->h[i]);
    if (reduction->digest && reduction->digest != digest)
        fprintf(stderr, "reduction %d\n", number);
    check(!reduction->digest || reduction->digest == digest);
    reduction->digest = digest;
}

/* The seed is this rank's and this round's own. */
static void round_of(struct reduction *reductions, enum way way, uint64_t seed)
{
    int order[NOPS];

    for (int i = 0; i < NOPS; i++)
        order[i] = i;
    for (int i = NOPS - 1; way == MIXED && i > 0; i--) {
        int j = (int) (next(&seed) >> 33) % (i + 1), kept = order[i];

        order[i] = order[j];
        order[j] = kept;
    }
    for (int i = 0; i < NOPS; i++) {
        submit(&reductions[order[i]], order[i]);
        if (way == ONE_BY_ONE)
            look(&reductions[order[i]], order[i]);
        if (way == MIXED && (next(&seed) >> 33) % 3 == 0)
            usleep((useconds_t) ((next(&seed) >> 33) % PAUSE_US)); /* patient: it computes */
    }
    for (int i = 0; way != ONE_BY_ONE && i < NOPS; i++)
        look(&reductions[i], i);
}

static int repeat(struct rank *rank)
{
    struct reduction reductions[NOPS] = { { .in = NULL } };
    uint64_t clock = rg_now_ns();

    check(reigen_init(NULL) == 0);
    for (int i = 0; i < NOPS; i++)
        fill(&reductions[i], &whats[i], (uint64_t) (rank->me * NOPS + i + 1));
    for (int round = 0; round < NROUNDS && !bad; round++)
        round_of(reductions, (enum way) (round % 3),
                 clock + (uint64_t) (round * NRANKS + rank->me));
    for (int i = 0; i < NOPS; i++) {
        free(reductions[i].in);
        free(reductions[i].out);
    }
    reigen_shutdown();
    return bad;
}

static void bits_do_not_depend_on_what_comes_together(void **state)
{
    (void) state;
    ranks_setenv("REIGEN_PLANES", "tcp");
    ranks_setenv("REIGEN_DETERMINISTIC", "1");
    assert_int_equal(ranks_run(NRANKS, ranks_port(), repeat, NULL), 0);
    ranks_setenv("REIGEN_ALGORITHM", "allreduce=ring");
    assert_int_equal(ranks_run(NRANKS, ranks_port(), repeat, NULL), 0);
    ranks_setenv("REIGEN_ALGORITHM", NULL);
    ranks_setenv("REIGEN_DETERMINISTIC", NULL);
    ranks_setenv("REIGEN_PLANES", NULL);
}

/* A persistent request asks anew at each start. */
static int switched(struct rank *rank)
{
    struct reigen_request *request = NULL;
    struct reigen_options o = REIGEN_OPTIONS_INIT;
    bool several = getenv("REIGEN_PLANES") != NULL;
    float x[4] = { 1 };
    int64_t four[] = { 4 };

    check(reigen_init(NULL) == 0);
    check(reigen_request_create(REIGEN_ALLREDUCE, "r", REIGEN_FLOAT32, four, 1, &o, &request) == 0);
    for (int on = 1; on >= 0; on--) {
        check(reigen_deterministic(on) == !on && reigen_deterministic(-1) == on);
        check(reigen_request_run(request, x, x, -1) == 0);
    }
    reigen_deterministic(rank->me == 1);
    check((reigen_request_run(request, x, x, -1) == -EINVAL) == several);
    check(!several || strstr(reigen_request_error(request), "Mismatched determinism"));
    check(!several || strstr(reigen_request_error(request), "rank 1: asked"));
    reigen_deterministic(0);
    check(reigen_request_run(request, x, x, -1) == 0);
    reigen_request_free(request);
    reigen_shutdown();
    return bad;
}

static void ranks_that_ask_differently_are_told_where_it_matters(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), switched, NULL), 0);
    ranks_setenv("REIGEN_PLANES", "tcp");
    assert_int_equal(ranks_run(2, ranks_port(), switched, NULL), 0);
    ranks_setenv("REIGEN_PLANES", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_what_comes_together),
        cmocka_unit_test(ranks_that_ask_differently_are_told_where_it_matters),
    };

    ranks_clearenv();
    return cmocka_run_group_tests_name("repeat", tests, NULL, NULL);
}
