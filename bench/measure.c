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

struct options {
    const char *out;
    size_t sizes[ITEMS_MAX];
    int nsizes;
    size_t many_nbytes[ITEMS_MAX];
    int many_counts[ITEMS_MAX];
    int nmany;
    long budget_ms;
};

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
static int warm_up(struct job *job, long budget_ms)
{
    int64_t last = 0, spent = 0;
    int more = 1, runs = 0;

    for (int i = 0; i < WARM_MAX && more; i++) {
        last = run_once(job);
        spent += last;
        if (i + 1 < WARM_MIN)
            continue;
        more = spent < WARM_NS;
        /* Asked seldom: the question is a collective of its own. */
        if ((i + 1) % WARM_MIN == 0)
            check("broadcast", bench_contender.broadcast(&more));
        else
            more = 1;
    }
    if (last < 1)
        last = 1;
    runs = (int)(budget_ms * 1000000 / last < RUNS_MAX ? budget_ms * 1000000 / last : RUNS_MAX);
    if (runs < RUNS_MIN)
        runs = RUNS_MIN;
    check("broadcast", bench_contender.broadcast(&runs));
    return runs;
}

static void measure(struct job *job, long budget_ms, const char *label)
{
    static int64_t ns[RUNS_MAX];
    int runs = warm_up(job, budget_ms);

    check("barrier", bench_contender.barrier());
    for (int i = 0; i < runs; i++)
        ns[i] = run_once(job);
    if (rank)
        return;
    qsort(ns, (size_t)runs, sizeof ns[0], compare);
    fprintf(out, "{\"series\": \"%s\", %s, \"runs\": %d, \"median_us\": %.3f, \"p10_us\": %.3f}\n",
            job->series ? job->series->name : job->many->name, label, runs,
            (double)ns[runs / 2] / 1e3, (double)ns[runs / 10] / 1e3);
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

static void measure_size(const struct bench_series *series, size_t nbytes, long budget_ms)
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
    measure(&job, budget_ms, label);
    if (series->finish)
        series->finish(job.state);
    free(job.in);
    free(job.out);
}

static void measure_many(const struct bench_many *many, int n, size_t nbytes, long budget_ms)
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
    measure(&job, budget_ms, label);
    if (many->finish)
        many->finish(job.state);
    for (int i = 0; i < n; i++)
        free(job.tensors[i]);
    free(job.tensors);
}

static void parse_sizes(struct options *o, char *list)
{
    for (char *s = strtok(list, ","); s && o->nsizes < ITEMS_MAX; s = strtok(NULL, ","))
        o->sizes[o->nsizes++] = strtoul(s, NULL, 10);
}

static void parse_many(struct options *o, char *list)
{
    for (char *s = strtok(list, ","); s && o->nmany < ITEMS_MAX; s = strtok(NULL, ",")) {
        if (sscanf(s, "%dx%zu", &o->many_counts[o->nmany], &o->many_nbytes[o->nmany]) != 2)
            die(s, -EINVAL);
        o->nmany++;
    }
}

static struct options parse(int argc, char **argv)
{
    struct options o = {.budget_ms = 200};

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--out") == 0)
            o.out = argv[i + 1];
        else if (strcmp(argv[i], "--sizes") == 0)
            parse_sizes(&o, argv[i + 1]);
        else if (strcmp(argv[i], "--many") == 0)
            parse_many(&o, argv[i + 1]);
        else if (strcmp(argv[i], "--budget-ms") == 0)
            o.budget_ms = strtol(argv[i + 1], NULL, 10);
        else
            die(argv[i], -EINVAL);
    }
    if (!o.out)
        die("--out", -EINVAL);
    return o;
}

int main(int argc, char **argv)
{
    check("init", bench_contender.init(&argc, &argv, &rank, &size));
    struct options o = parse(argc, argv);

    if (rank == 0 && !(out = fopen(o.out, "w")))
        die(o.out, -errno);
    for (const struct bench_series *s = bench_contender.series; s->name; s++)
        for (int i = 0; i < o.nsizes; i++)
            if (o.sizes[i] >= s->min_nbytes)
                measure_size(s, o.sizes[i], o.budget_ms);
    for (const struct bench_many *m = bench_contender.many; m->name; m++)
        for (int i = 0; i < o.nmany; i++)
            measure_many(m, o.many_counts[i], o.many_nbytes[i], o.budget_ms);
    if (out)
        fclose(out);
    bench_contender.shutdown();
    return 0;
}
