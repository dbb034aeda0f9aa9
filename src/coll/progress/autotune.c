/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/progress/autotune.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct candidate {
    struct rg_tuning tuning;
    double sum; /* of its samples */
    int n;
};

struct rg_autotune {
    struct rg_autotune_options options;
    FILE *log;
    struct candidate candidates[RG_AUTOTUNE_CANDIDATES_MAX];
    int ncandidates;    /* still in the race, the better ones in front after each round */
    int at;             /* being measured */
    int nsamples;       /* taken, without those of the warm-up */
    int warmup_left;
    bool done;
    /* the sample */
    double *scores;
    int nscores;
    bool settling;      /* the first step after a change */
    /* the step */
    bool begun;
    uint32_t anchor;
    int nruns;
    uint64_t from_ns, from_nbytes;
};

int rg_tuning_spin_us(uint8_t spin)
{
    static const int us[RG_TUNING_NSPINS] = { -1, 0, 200 };

    return spin < RG_TUNING_NSPINS ? us[spin] : -1;
}

static void add_candidates(struct rg_autotune *autotune)
{
    static const uint64_t between[] = { 128u << 20, 256u << 10, 1u << 20, 8u << 20, 32u << 20 };
    static const uint64_t inside[] = { 128u << 20, 1u << 20, 16u << 20 };
    const struct rg_autotune_options *o = &autotune->options;
    const uint64_t *fusion = o->several_nodes ? between : inside;
    int nfusion = o->several_nodes ? (int) rg_array_len(between) : (int) rg_array_len(inside);
    int nspins = o->several_nodes ? 2 : RG_TUNING_NSPINS;

    for (int f = 0; f < (o->fusion_fixed ? 1 : nfusion); f++) {
        for (int s = 0; s < (o->spin_fixed ? 1 : nspins); s++) {
            struct rg_tuning *to = &autotune->candidates[autotune->ncandidates++].tuning;

            to->fusion_nbytes = o->fusion_fixed ? o->first.fusion_nbytes : fusion[f];
            to->spin = o->spin_fixed ? o->first.spin : (uint8_t) s;
        }
    }
}

int rg_autotune_create(const struct rg_autotune_options *options, struct rg_autotune **ret_autotune,
                       int *ret_log_errno)
{
    struct rg_autotune *autotune = calloc(1, sizeof(*autotune));

    if (autotune)
        autotune->scores = calloc((size_t) options->steps_per_sample, sizeof(double));
    if (!autotune || !autotune->scores) {
        free(autotune);
        return -ENOMEM;
    }
    autotune->options = *options;
    autotune->warmup_left = options->warmup_samples;
    add_candidates(autotune);
    autotune->done = autotune->ncandidates < 2 || options->max_samples < 1;
    *ret_log_errno = 0;
    if (options->log[0]) {
        autotune->log = fopen(options->log, "we");
        *ret_log_errno = autotune->log ? 0 : errno;
    }
    if (autotune->log) {
        fputs("hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,"
              "cycle_time_ms,tensor_fusion_threshold,score,spin_us\n",
              autotune->log);
        fflush(autotune->log);
    }
    *ret_autotune = autotune;
    return 0;
}

void rg_autotune_destroy(struct rg_autotune *autotune)
{
    if (!autotune)
        return;
    if (autotune->log)
        fclose(autotune->log);
    free(autotune->scores);
    free(autotune);
}

bool rg_autotune_done(const struct rg_autotune *autotune)
{
    return autotune->done;
}

static void write_row(struct rg_autotune *autotune, const struct rg_tuning *tuning, double score)
{
    if (!autotune->log)
        return;
    fprintf(autotune->log, "0,0,0,1,0,%llu,%.6g,%d\n", (unsigned long long) tuning->fusion_nbytes,
            score, rg_tuning_spin_us(tuning->spin));
    fflush(autotune->log);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static double mean(const struct candidate *candidate)
{
    return candidate->n ? candidate->sum / candidate->n : 0;
}

static int compare_candidates(const void *a, const void *b)
{
    double x = mean(a), y = mean(b);

    return (x < y) - (x > y);
}

/* A sample of the candidate is there: which is next? True when parameters change. */
static bool advance(struct rg_autotune *autotune, double score, struct rg_tuning *ret_next)
{
    struct candidate *candidate = &autotune->candidates[autotune->at];

    if (autotune->warmup_left > 0) {
        write_row(autotune, &autotune->options.first, score);
        if (--autotune->warmup_left > 0)
            return false;
        *ret_next = autotune->candidates[0].tuning;
        return true;
    }
    candidate->sum += score;
    candidate->n++;
    write_row(autotune, &candidate->tuning, score);
    autotune->at++;
    autotune->nsamples++;
    if (autotune->at == autotune->ncandidates ||
        autotune->nsamples == autotune->options.max_samples) {
        bool spent = autotune->nsamples == autotune->options.max_samples;

        qsort(autotune->candidates, (size_t) autotune->ncandidates, sizeof(*autotune->candidates),
              compare_candidates);
        autotune->ncandidates = spent ? 1 : (autotune->ncandidates + 1) / 2;
        autotune->at = 0;
    }
    autotune->done = autotune->ncandidates == 1;
    *ret_next = autotune->candidates[autotune->at].tuning;
    if (autotune->done)
        write_row(autotune, ret_next, mean(&autotune->candidates[0]));
    return true;
}

static bool end_step(struct rg_autotune *autotune, double score, struct rg_tuning *ret_next)
{
    int n = autotune->options.steps_per_sample;
    bool changes;

    if (autotune->settling) {
        autotune->settling = false;
        return false;
    }
    autotune->scores[autotune->nscores++] = score;
    if (autotune->nscores < n)
        return false;
    qsort(autotune->scores, (size_t) n, sizeof(double), compare_doubles);
    autotune->nscores = 0;
    changes = advance(autotune, autotune->scores[n / 2], ret_next);
    autotune->settling = changes;
    return changes;
}

bool rg_autotune_saw(struct rg_autotune *autotune, uint32_t id, uint64_t nbytes, uint64_t now_ns,
                     struct rg_tuning *ret_next)
{
    uint64_t took_us;
    double score;

    if (autotune->done)
        return false;
    autotune->nruns++;
    if (autotune->begun && id != autotune->anchor && autotune->nruns < RG_AUTOTUNE_STEP_RUNS)
        return false;
    took_us = (now_ns - autotune->from_ns) / 1000;
    score = (double) (nbytes - autotune->from_nbytes) / (double) (took_us ? took_us : 1);
    autotune->from_ns = now_ns;
    autotune->from_nbytes = nbytes;
    autotune->anchor = id;
    autotune->nruns = 0;
    if (autotune->begun)
        return end_step(autotune, score, ret_next);
    autotune->begun = true;
    return false;
}
