/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS_MAX 5000
#define RUNS_MIN 5
#define WARM_MIN 4
#define WARM_NS 20000000
#define WARM_MAX 200
#define ITEMS_MAX 64
#define BLOCKS 16

struct options {
    const char *out;
    size_t sizes[ITEMS_MAX];
    int nsizes;
    size_t many_nbytes[ITEMS_MAX];
    int many_counts[ITEMS_MAX];
    int nmany;
    const char *series;
    long budget_ms;
    int least, exactly;
};

static struct options options = {.budget_ms = 200, .least = RUNS_MIN};
static int rank, size;
static FILE *out;

static void die(const char *what, int status)
{
    fprintf(stderr, "bench: %s: %s\n", what, status < 0 ? strerror(-status) : "failed");
    exit(1);
}

static void check(const char *what, int status)
{
    if (status)
        die(what, status);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* One repetition of whatever is measured. */
struct job {
    const struct bench_series *series;
    const struct bench_many *many;
    void *state;
    float *in, *out;
    float **tensors;
    int n;
    size_t count;
};

static int64_t run_once(struct job *job)
{
    int64_t start = now_ns();
    int status = job->series ? job->series->run(job->state, job->in, job->out, job->count)
                             : job->many->run(job->state, job->tensors, job->n, job->count);

    check(job->series ? job->series->name : job->many->name, status);
    return now_ns() - start;
}

/* Warm up, then agree on the number of repetitions that fit into the budget. */
static int warm_up(struct job *job)
{
    int64_t spent = 0, each = 1, budget_ns = options.budget_ms * 1000000;
    int more = 1, runs = 0, least = options.least < WARM_MIN ? options.least : WARM_MIN;

    for (int i = 0; i < WARM_MAX && more; i++) {
        int64_t ns = run_once(job);
        spent += ns;
        /* Every other run may take no time at all: where a rank is ahead of another, say. */
        each = i < 2 ? ns : (each + ns) / 2;
        if (i + 1 < least)
            continue;
        more = spent < WARM_NS;
        /* Asked seldom: the question is a collective of its own. */
        if ((i + 1) % least == 0)
            check("broadcast", bench_contender.broadcast(&more));
        else
            more = 1;
    }
    each = each > 1 ? each : 1;
    runs = (int)(budget_ns / each < RUNS_MAX ? budget_ns / each : RUNS_MAX);
    if (runs < options.least)
        runs = options.least;
    check("broadcast", bench_contender.broadcast(&runs));
    return runs;
}

/* What one run takes on the average of a block, the median block's. The runs are not sorted yet. */
static double block_us(const int64_t *ns, int runs)
{
    int nblocks = runs / 2 < BLOCKS ? runs / 2 : BLOCKS, length = nblocks ? runs / nblocks : runs;
    int64_t sums[BLOCKS] = {0};

    nblocks = nblocks ? nblocks : 1;
    for (int i = 0; i < nblocks * length; i++)
        sums[i / length] += ns[i];
    qsort(sums, (size_t)nblocks, sizeof sums[0], compare);
    return (double)sums[nblocks / 2] / length / 1e3;
}

static void measure(struct job *job, const char *label)
{
    static int64_t ns[RUNS_MAX];
    int runs = options.exactly ? options.exactly : warm_up(job);

    check("barrier", bench_contender.barrier());
    for (int i = 0; i < runs; i++)
        ns[i] = run_once(job);
    if (rank)
        return;
    double mean = block_us(ns, runs);
    qsort(ns, (size_t)runs, sizeof ns[0], compare);
    fprintf(out,
            "{\"series\": \"%s\", %s, \"runs\": %d, \"median_us\": %.3f, \"p10_us\": %.3f, "
            "\"block_us\": %.3f}\n",
            job->series ? job->series->name : job->many->name, label, runs,
            (double)ns[runs / 2] / 1e3, (double)ns[runs / 10] / 1e3, mean);
    fflush(out);
}

static float *allocate(size_t count, float value)
{
    float *p = NULL;

    if (posix_memalign((void **)&p, 4096, (count ? count : 1) * sizeof *p))
        die("memory", -ENOMEM);
    for (size_t i = 0; i < count; i++)
        p[i] = value;
    return p;
}

static void measure_size(const struct bench_series *series, size_t nbytes)
{
    struct job job = {.series = series, .count = nbytes / sizeof(float)};
    char label[64];

    job.in = allocate(job.count, 1);
    job.out = allocate(job.count, 0);
    if (series->prepare)
        check(series->name, series->prepare(job.count, &job.state));
    run_once(&job);
    /* In place starts from the zeros of out. */
    float want = strcmp(series->name, "in") == 0 ? 0 : (float)size;
    for (size_t i = 0; i < job.count; i++)
        if (job.out[i] != want)
            die("wrong sum", 1);
    snprintf(label, sizeof label, "\"bytes\": %zu", nbytes);
    measure(&job, label);
    if (series->finish)
        series->finish(job.state);
    free(job.in);
    free(job.out);
}

static void measure_many(const struct bench_many *many, int n, size_t nbytes)
{
    struct job job = {.many = many, .n = n, .count = nbytes / sizeof(float)};
    char label[64];

    job.tensors = calloc((size_t)n, sizeof *job.tensors);
    if (!job.tensors)
        die("memory", -ENOMEM);
    for (int i = 0; i < n; i++)
        job.tensors[i] = allocate(job.count, 0);
    if (many->prepare)
        check(many->name, many->prepare(n, job.count, &job.state));
    snprintf(label, sizeof label, "\"pattern\": \"%dx%zu\"", n, nbytes);
    measure(&job, label);
    if (many->finish)
        many->finish(job.state);
    for (int i = 0; i < n; i++)
        free(job.tensors[i]);
    free(job.tensors);
}

static void parse_sizes(char *list)
{
    for (char *s = strtok(list, ","); s && options.nsizes < ITEMS_MAX; s = strtok(NULL, ","))
        options.sizes[options.nsizes++] = strtoul(s, NULL, 10);
}

static void parse_many(char *list)
{
    for (char *s = strtok(list, ","); s && options.nmany < ITEMS_MAX; s = strtok(NULL, ",")) {
        int i = options.nmany++;
        if (sscanf(s, "%dx%zu", &options.many_counts[i], &options.many_nbytes[i]) != 2)
            die(s, -EINVAL);
    }
}

/* A number from 1 to RUNS_MAX. */
static int parse_runs(const char *text)
{
    long runs = strtol(text, NULL, 10);

    if (runs < 1 || runs > RUNS_MAX)
        die(text, -EINVAL);
    return (int)runs;
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--out") == 0)
            options.out = argv[i + 1];
        else if (strcmp(argv[i], "--sizes") == 0)
            parse_sizes(argv[i + 1]);
        else if (strcmp(argv[i], "--many") == 0)
            parse_many(argv[i + 1]);
        else if (strcmp(argv[i], "--series") == 0)
            options.series = argv[i + 1];
        else if (strcmp(argv[i], "--budget-ms") == 0)
            options.budget_ms = strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--least") == 0)
            options.least = parse_runs(argv[i + 1]);
        else if (strcmp(argv[i], "--runs") == 0)
            options.exactly = parse_runs(argv[i + 1]);
        else
            die(argv[i], -EINVAL);
    }
    if (!options.out)
        die("--out", -EINVAL);
}

static int wanted(const char *series)
{
    return !options.series || strcmp(options.series, series) == 0;
}

int main(int argc, char **argv)
{
    check("init", bench_contender.init(&argc, &argv, &rank, &size));
    parse(argc, argv);
    if (rank == 0 && !(out = fopen(options.out, "w")))
        die(options.out, -errno);
    for (const struct bench_series *s = bench_contender.series; s->name; s++)
        for (int i = 0; i < options.nsizes; i++)
            if (wanted(s->name) && options.sizes[i] >= s->min_nbytes)
                measure_size(s, options.sizes[i]);
    for (const struct bench_many *m = bench_contender.many; m->name; m++)
        for (int i = 0; i < options.nmany; i++)
            if (wanted(m->name))
                measure_many(m, options.many_counts[i], options.many_nbytes[i]);
    if (out)
        fclose(out);
    bench_contender.shutdown();
    return 0;
}
