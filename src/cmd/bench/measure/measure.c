/* SPDX-License-Identifier: Apache-2.0 */
/* Turns, rounds and medians: the machines that people measure on are never quiet. */
#include "cmd/bench/measure/measure.h"

#include <stdio.h>
#include <string.h>

#define ITERATIONS_MAX 1000000

double rg_measure_bus_factor(enum rg_bench_op op, int nranks)
{
    double n = nranks;

    switch (op) {
    case RG_BENCH_ALLREDUCE: return 2 * (n - 1) / n;
    case RG_BENCH_ALLGATHER:
    case RG_BENCH_ALLGATHER_INTO:
    case RG_BENCH_REDUCESCATTER:
    case RG_BENCH_REDUCESCATTER_INTO:
    case RG_BENCH_ALLTOALL: return (n - 1) / n;
    default: return 1;
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

double rg_measure_median(double *numbers, size_t n)
{
    qsort(numbers, n, sizeof(*numbers), compare);
    return n % 2 ? numbers[n / 2] : (numbers[n / 2 - 1] + numbers[n / 2]) / 2;
}

/* One turn of one of them, begun together. */
static int turn(const struct rg_bench_world *world, const struct rg_measured *who, int niterations,
                double *ret_seconds, struct rg_error *err)
{
    int r = rg_bench_world_barrier(world, err);

    *ret_seconds = 0;
    if (r < 0 || niterations == 0)
        return r;
    return who->peer->run(who->self, niterations, ret_seconds, err);
}

/* Warm up, and find out how many iterations a round has; rank 0's word goes. */
static int calibrate(const struct rg_bench_world *world, const struct rg_measure_how *how,
                     const struct rg_measured *who, int *ret_niterations, struct rg_error *err)
{
    double seconds, wanted = how->seconds / how->rounds;
    int n = 1, r = turn(world, who, how->warmup, &seconds, err);

    if (how->iterations) {
        *ret_niterations = how->iterations;
        return rg_bench_world_agree(world, r, err);
    }
    /* Longer and longer, until it says something of the time that one takes. */
    for (;;) {
        if (r == 0)
            r = turn(world, who, n, &seconds, err);
        if ((r = rg_bench_world_agree(world, r, err)) < 0)
            return r;
        double estimate = seconds > 0 ? n * wanted / seconds : ITERATIONS_MAX;
        int next = estimate < 1 ? 1 : estimate > ITERATIONS_MAX ? ITERATIONS_MAX : (int) estimate;
        struct { int next, enough; } word = { next, seconds > wanted / 8 || n == ITERATIONS_MAX };
        if ((r = rg_bench_world_share(world, &word, sizeof(word), err)) < 0)
            return r;
        *ret_niterations = word.next;
        if (word.enough)
            return 0;
        n = word.next < 8 * n ? word.next : 8 * n;
    }
}

/* Whoever has no such operation, on any rank, is left out on all. */
static int begin(const struct rg_bench_world *world, const struct rg_measured *who,
                 const struct rg_bench_case *what, struct rg_measure_result *result,
                 struct rg_error *err)
{
    int mine = who->peer->begin(who->self, what, err);
    int r = rg_bench_world_agree(world, mine, err);

    result->measured = r == 0;
    if (r < 0 && mine == 0)
        who->peer->end(who->self);
    if (r != -EOPNOTSUPP)
        return r;
    snprintf(result->note, sizeof(result->note), "%.150s", err->text);
    *err = (struct rg_error) RG_ERROR_INIT;
    return 0;
}

static int check(const struct rg_bench_world *world, const struct rg_measured *who,
                 struct rg_measure_result *result, struct rg_error *err)
{
    rg_autofree double *all = calloc((size_t) world->size, sizeof(*all));
    uint64_t nwrong = 0;
    int r = all ? who->peer->check(who->self, &nwrong, err) : rg_error_memory(err);

    if ((r = rg_bench_world_agree(world, r, err)) < 0)
        return r;
    double mine = (double) nwrong;
    if ((r = rg_bench_world_gather(world, &mine, 1, all, err)) < 0)
        return r;
    result->checked = true;
    for (int i = 0; i < world->size; i++)
        result->nwrong += all[i];
    return 0;
}

/* Out of this rank's mean in each round, the row's figures. */
static int conclude(const struct rg_bench_world *world, const struct rg_bench_case *what,
                    double *means, int nrounds, struct rg_measure_result *result,
                    struct rg_error *err)
{
    rg_autofree double *all = calloc((size_t) world->size, sizeof(*all));
    double mine = rg_measure_median(means, (size_t) nrounds);
    int r = rg_bench_world_agree(world, all ? 0 : rg_error_memory(err), err);

    if (r == 0) /* they are sorted now */
        r = rg_bench_world_gather(world, &means[nrounds / 10], 1, all, err);
    if (r < 0)
        return r;
    result->tenth_s = rg_measure_median(all, (size_t) world->size);
    if ((r = rg_bench_world_gather(world, &mine, 1, all, err)) < 0)
        return r;
    result->median_s = rg_measure_median(all, (size_t) world->size);
    result->min_s = all[0];
    result->max_s = all[world->size - 1];
    double nbytes = (double) what->nbytes * what->group;
    result->algorithm_gbps = result->median_s > 0 ? nbytes / result->median_s / 1e9 : 0;
    result->bus_gbps = result->algorithm_gbps * rg_measure_bus_factor(what->op, world->size);
    return 0;
}

/* All rounds of all who take part. means: how->rounds for each of them. */
static int take_turns(const struct rg_bench_world *world, const struct rg_measure_how *how,
                      const struct rg_measured *measured, int nmeasured,
                      struct rg_measure_row *row, double *means, struct rg_error *err)
{
    double seconds;
    int r = 0;

    for (int round = 0; round < how->rounds; round++) {
        for (int i = 0; r == 0 && i < nmeasured; i++) {
            struct rg_measure_result *result = &row->results[i];
            if (!result->measured)
                continue;
            r = turn(world, &measured[i], result->niterations, &seconds, err);
            means[i * how->rounds + round] = seconds / result->niterations;
        }
        if ((r = rg_bench_world_agree(world, r, err)) < 0)
            return r;
    }
    for (int i = 0; r == 0 && i < nmeasured; i++) {
        if (row->results[i].measured)
            r = conclude(world, &row->what, means + i * how->rounds, how->rounds,
                         &row->results[i], err);
    }
    return r;
}

int rg_measure_row(const struct rg_bench_world *world, const struct rg_measure_how *how,
                   const struct rg_measured *measured, int nmeasured,
                   const struct rg_bench_case *what, struct rg_measure_row *ret_row,
                   struct rg_error *err)
{
    struct rg_measure_row row = { .what = *what };
    rg_autofree double *means = calloc((size_t) (nmeasured * how->rounds), sizeof(*means));
    int r = rg_bench_world_agree(world, means ? 0 : rg_error_memory(err), err);
    int nbegun = 0;

    for (; r == 0 && nbegun < nmeasured; nbegun++) {
        const struct rg_measured *who = &measured[nbegun];
        struct rg_measure_result *result = &row.results[nbegun];
        if (nbegun == 0 && how->peers_alone)
            continue;
        r = begin(world, who, what, result, err);
        if (r == 0 && result->measured && how->check && who->peer->check)
            r = check(world, who, result, err);
        if (r == 0 && result->measured)
            r = calibrate(world, how, who, &result->niterations, err);
    }
    if (r == 0)
        r = take_turns(world, how, measured, nmeasured, &row, means, err);
    for (int i = 0; i < nbegun; i++) {
        if (row.results[i].measured)
            measured[i].peer->end(measured[i].self);
    }
    if (r == 0)
        *ret_row = row;
    return r;
}
