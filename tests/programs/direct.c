/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: direct SEED ROUNDS
 * Operations that come again and again, in an order and at times of each rank's own: sums, in
 * groups too, that change their size, that do not match on one rank, that are new, that some ranks
 * have joined for. In the end one rank leaves while all have sums in flight: what comes of each, 0
 * or that it is cancelled, is the same on all ranks ("end 0110").
 */
#include "program.h"

enum { NNAMES = 12, COUNT_MAX = 140000, NEND = 40, GROUP = 3 };

static long seed;

/* The same on all ranks. */
static uint64_t common(long what, long round, long i)
{
    return mix(mix(mix((uint64_t) seed + (uint64_t) what) + (uint64_t) round) + (uint64_t) i);
}

struct sum {
    char name[40];
    int64_t count;
    int dtype;
    bool differs; /* some rank means something else */
    float *in, *out;
    reigen_handle handle;
};

static struct sum sums[NNAMES + 4];
static float buffers[2][NNAMES + 4][COUNT_MAX + 1];

/* How many elements a name has in this round: it changes now and then. */
static int64_t count_of(long round, int i)
{
    static const int64_t counts[] = { 1,    3,     100,   1000,   5000,
                                      8192, 16384, 60001, 131072, COUNT_MAX };

    return counts[common(1, round / (2 + i % 9), i) % COUNT_OF(counts)];
}

static float part(int rank, int i)
{
    return (float) (1 + (rank + i) % 3);
}

static void fill(struct sum *sum, int i)
{
    sum->in = buffers[0][i];
    sum->out = i % 3 ? buffers[1][i] : sum->in;
    for (int64_t k = 0; k < sum->count; k++)
        sum->in[k] = part(reigen_rank(), i);
}

static void start(struct sum *sum)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { sum->count };

    options.op = REIGEN_AVERAGE;
    expect(reigen_allreduce_async(sum->name, sum->in, sum->out, sum->dtype, shape, 1, &options,
                                  &sum->handle),
           0, sum->name);
}

/* The average of those that take part, of all. */
static void check_values(const struct sum *sum, int i, int nactive, long round)
{
    float want = 0;

    for (int r = 0; r < nactive; r++)
        want += part(reigen_size() - 1 - r, i);
    want /= (float) reigen_size();
    for (int64_t k = 0; k < sum->count; k++)
        if (sum->out[k] - want > 1e-4f || want - sum->out[k] > 1e-4f)
            fail("%s, round %ld: element %lld of %lld is %g, not %g", sum->name, round,
                 (long long) k, (long long) sum->count, (double) sum->out[k], (double) want);
}

static void shuffle(int *order, int n, struct rng *rng)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = (int) rng_below(rng, (uint64_t) i + 1), kept = order[i];

        order[i] = order[k];
        order[k] = kept;
    }
}

/* What this rank means by each name. */
static void plan(long round, int n)
{
    int odd = (int) (common(2, round, 0) % 16), who = (int) (common(2, round, 1) %
                                                             (uint64_t) reigen_size());

    for (int i = 0; i < n; i++) {
        struct sum *sum = &sums[i];

        snprintf(sum->name, sizeof(sum->name), i < NNAMES ? "sum.%d" : "new.%d.%ld", i, round);
        sum->count = count_of(round, i);
        sum->dtype = REIGEN_FLOAT32;
        sum->differs = i == odd && reigen_size() > 1;
        if (sum->differs && reigen_rank() == who && round % 2)
            sum->count++;
        else if (sum->differs && reigen_rank() == who)
            sum->dtype = REIGEN_INT32;
        fill(sum, i);
    }
}

static void sums_in_any_order(long round, struct rng *rng)
{
    int n = NNAMES + (int) (common(3, round, 0) % 4), order[NNAMES + 4];

    plan(round, n);
    shuffle(order, n, rng);
    for (int i = 0; i < n; i++) {
        start(&sums[order[i]]);
        if (rng_one_in(rng, 8))
            usleep((useconds_t) rng_below(rng, 3000)); /* patient: it computes */
    }
    shuffle(order, n, rng);
    for (int i = 0; i < n; i++) {
        struct sum *sum = &sums[order[i]];
        int r = reigen_wait(sum->handle, -1);

        if (r != (sum->differs ? -EINVAL : 0))
            fail("%s, round %ld: %d, %s", sum->name, round, r, reigen_handle_error(sum->handle));
        if (sum->differs)
            expect_text(reigen_handle_error(sum->handle), "Mismatched");
        else
            check_values(sum, order[i], reigen_size(), round);
        reigen_release(sum->handle);
    }
}

static void group(long round)
{
    static const char *const names[GROUP] = { "g.0", "g.1", "g.2" };
    static float in[GROUP][8], out[GROUP][8];
    int64_t counts[GROUP] = { 2, 8, 1 };
    const int64_t *shapes[GROUP] = { &counts[0], &counts[1], &counts[2] };
    const void *ins[GROUP] = { in[0], in[1], in[2] };
    void *outs[GROUP] = { out[0], out[1], out[2] };
    const int ndims[GROUP] = { 1, 1, 1 };
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    reigen_handle handles[GROUP];

    options.op = REIGEN_MAX;
    options.prescale = 2;
    for (int i = 0; i < GROUP; i++)
        for (int k = 0; k < 8; k++)
            in[i][k] = (float) (reigen_rank() * 10 + k);
    expect(reigen_grouped_async(REIGEN_ALLREDUCE, GROUP, names, ins, outs, REIGEN_FLOAT32, shapes,
                                ndims, &options, handles),
           0, "group");
    for (int i = 0; i < GROUP; i++) {
        finish(handles[i], 0, "group");
        for (int k = 0; k < counts[i]; k++)
            if (out[i][k] != 2 * (float) ((reigen_size() - 1) * 10 + k))
                fail("group, round %ld: %g", round, (double) out[i][k]);
    }
}

/* Rank r has data for so many more sums than the rank below, then joins; some of it may still be in
 * flight then. */
static void join_one_by_one(long round, struct rng *rng)
{
    int each = 1 + (int) (common(4, round, 0) % 3), n = each * (reigen_rank() + 1), last = -1;
    bool waits = common(4, round, 1) % 2;
    reigen_handle handle;

    plan(round, NNAMES);
    for (int i = 0; i < n && i < NNAMES; i++) {
        sums[i].count = count_of(round, i);
        sums[i].dtype = REIGEN_FLOAT32;
        fill(&sums[i], i);
        start(&sums[i]);
        last = i;
        if (rng_one_in(rng, 3))
            usleep((useconds_t) rng_below(rng, 2000)); /* patient: it computes */
        if (waits)
            expect(reigen_wait(sums[i].handle, -1), 0, "sum beside joined ranks");
    }
    expect(reigen_join_async(&handle), 0, "join");
    for (int i = 0; i <= last; i++) {
        int nactive = reigen_size() - i / each;

        expect(reigen_wait(sums[i].handle, -1), 0, "sum beside joined ranks");
        check_values(&sums[i], i, nactive, round);
        reigen_release(sums[i].handle);
    }
    if (reigen_wait(handle, -1) < 1)
        fail("join, round %ld: %s", round, reigen_handle_error(handle));
    reigen_release(handle);
}

/* Whoever leaves does so with sums in flight. */
static void leave(struct rng *rng)
{
    static float in[NEND][8], out[NEND][8];
    bool leaves = reigen_rank() == (int) (common(5, 0, 0) % (uint64_t) reigen_size());
    int64_t shape[] = { 8 };
    char line[NEND + 1] = "", name[32];
    reigen_handle handles[NEND];
    int order[NEND], started[NEND];

    for (int use = 0; use < 3; use++) {
        shuffle(order, NEND, rng);
        for (int k = 0; k < NEND; k++) {
            int i = order[k];

            snprintf(name, sizeof(name), "end.%d", i);
            started[i] = reigen_allreduce_async(name, in[i], out[i], REIGEN_FLOAT32, shape, 1, NULL,
                                                &handles[i]);
            if (use < 2)
                expect(started[i], 0, name);
            else if (rng_one_in(rng, 6))
                usleep((useconds_t) rng_below(rng, 1500)); /* patient: it computes */
            if (use == 2 && leaves && k > NEND / 2 && rng_one_in(rng, 10))
                break;
        }
        for (int i = 0; i < NEND && use < 2; i++)
            finish(handles[i], 0, "end");
    }
    for (int i = 0; i < NEND && !leaves; i++) {
        int r = started[i] < 0 ? started[i] : reigen_wait(handles[i], -1);

        if (r != 0 && r != -ECANCELED)
            fail("end.%d: %d", i, r);
        line[i] = r == 0 ? '1' : '0';
    }
    expect(reigen_shutdown(), 0, "shutdown");
    say(leaves ? "left" : "end %s", line);
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 2, 30);
    struct rng rng;

    seed = argument(argc, argv, 1, 1);
    begin();
    rng.state = mix((uint64_t) seed * 1000 + (uint64_t) reigen_rank());
    for (long round = 0; round < rounds; round++) {
        sums_in_any_order(round, &rng);
        group(round);
        if (round % 5 == 4)
            join_one_by_one(round, &rng);
        if (round % 3 == 0)
            expect(reigen_barrier(), 0, "barrier");
    }
    say("rounds %ld", rounds);
    leave(&rng);
    return 0;
}
