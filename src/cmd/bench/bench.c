/* SPDX-License-Identifier: Apache-2.0 */
/* What each rank does in reigen bench, from the runtime's start to the report. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "cmd/bench/bench.h"
#include "cmd/bench/options.h"
#include "cmd/bench/report/report.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"

#define COMMAND "bench"
#define EXIT_WRONG 1
#define STALL_SECONDS "300"

/* Of a usage error all ranks say the same, so one that can be known to be another than rank 0 says
 * nothing. */
static bool is_another_rank(void)
{
    static const char *const names[] = { "REIGEN_RANK", "RANK", "OMPI_COMM_WORLD_RANK",
                                         "PMIX_RANK", "PMI_RANK", "SLURM_PROCID" };
    const char *rank = NULL;

    for (size_t i = 0; !rank && i < rg_array_len(names); i++)
        rank = getenv(names[i]);
    return rank && strtol(rank, NULL, 10) > 0;
}

int rg_bench_fail(const struct rg_error *err)
{
    if (!is_another_rank())
        return rg_fail(err, COMMAND);
    return err->exit_code ? err->exit_code : RG_EXIT_USAGE;
}

struct bench {
    const struct rg_bench_options *options; /* borrowed */
    struct rg_bench_runtime runtime;
    struct rg_bench_world world;
    struct rg_measured measured[RG_MEASURED_MAX];
    struct rg_report report;
    struct rg_model model; /* --fit's */
    bool opened;    /* all who are measured are there */
    bool table;     /* this rank prints it */
    bool progress;  /* this rank says what it does, on a terminal */
};

static int open_all(struct bench *bench, struct rg_error *err)
{
    const struct rg_bench_options *options = bench->options;
    struct rg_report *report = &bench->report;
    int r = 0;

    for (int i = 0; r == 0 && i <= options->npeers; i++) {
        struct rg_measured *who = &bench->measured[i];
        who->peer = i ? options->peers[i - 1] : &rg_bench_peer_reigen;
        report->names[report->nmeasured++] = who->peer->name;
        r = who->peer->open(&bench->world, &options->settings, &who->self, err);
    }
    return r;
}

static void close_all(struct bench *bench)
{
    for (int i = bench->report.nmeasured; i-- > 0;)
        bench->measured[i].peer->close(bench->measured[i].self);
}

static void wipe_progress(const struct bench *bench)
{
    if (bench->progress)
        fputs("\r\033[K", stderr);
}

static void say_progress(const struct bench *bench, const struct rg_bench_case *what)
{
    char operation[64], size[32];

    if (bench->progress)
        fprintf(stderr, "\r\033[Kmeasuring %s, %s %s",
                rg_report_operation(what, operation, sizeof(operation)),
                rg_bench_ops[what->op].data ? rg_bench_types[what->type].name : "",
                rg_size_text(what->nbytes, size, sizeof(size)));
}

static int put_row(struct bench *bench, const struct rg_measure_row *row)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    wipe_progress(bench);
    if (bench->world.rank == 0 && rg_report_add(&bench->report, row) < 0)
        return -ENOMEM;
    if (!bench->table)
        return 0;
    rg_report_row(&text, &bench->report, row, rg_terminal_colour(1));
    return rg_print_exact(rg_buf_text(&text)) == 0 ? 0 : -EPIPE;
}

/* All sizes of one operation and type. */
static int measure_sizes(struct bench *bench, enum rg_bench_op op, int type, struct rg_error *err)
{
    const struct rg_bench_options *options = bench->options;
    size_t last = SIZE_MAX;
    int r = 0;

    for (int i = 0; r == 0 && i < options->nsizes; i++) {
        struct rg_bench_case what = rg_bench_case_make(&options->row, op, type, options->sizes[i],
                                                       bench->world.size);
        struct rg_measure_row row;
        if (what.count == last) /* too small for one element, or one for each rank */
            continue;
        last = what.count;
        say_progress(bench, &what);
        r = rg_measure_row(&bench->world, &options->how, bench->measured, bench->report.nmeasured,
                           &what, &row, err);
        if (r == 0 && put_row(bench, &row) < 0)
            r = rg_error_set(err, ENOMEM, "the report cannot be kept or written");
        if (what.count == 0)
            break;
    }
    return r;
}

static int measure_all(struct bench *bench, struct rg_error *err)
{
    const struct rg_bench_options *options = bench->options;
    int r = 0;

    for (int op = 0; r == 0 && op < RG_BENCH_NOPS; op++) {
        bool data = rg_bench_ops[op].data, once = false;
        for (int type = 0; r == 0 && options->ops[op] && type < REIGEN_NDTYPES && !once; type++) {
            if (!options->types[type] || !rg_bench_fits(options, op, type))
                continue;
            r = measure_sizes(bench, op, type, err);
            once = !data; /* it has no type */
        }
    }
    return r;
}

/* --- the report ------------------------------------------------------------------------------- */

static int put_head(struct bench *bench)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_report *report = &bench->report;

    report->types = bench->options->types;
    report->rounds = bench->options->how.rounds;
    report->described = bench->runtime.describe();
    report->version = bench->runtime.version();
    report->nranks = bench->world.size;
    report->nhosts = bench->world.nhosts;
    if (!bench->table)
        return 0;
    rg_report_head(&text, report, rg_terminal_colour(1));
    return rg_print_exact(rg_buf_text(&text));
}

/* A file of the report's: 0, or the exit code after a message. */
static int put_file(const char *path, struct rg_buf *text)
{
    if (!path)
        return 0;
    if (strcmp(path, "-") == 0)
        return rg_print_exact(rg_buf_text(text));
    return rg_print_to(path, text, COMMAND);
}

/* The parameters that --fit begins with: those of its file, if it is there. Before anything is
 * measured, as a mistake in the file would cost all of that. */
static int read_model(struct bench *bench, struct rg_error *err)
{
    const char *path = bench->options->fit;
    int r = 0;

    bench->model = rg_model_assumed;
    if (path && bench->world.size < 2)
        r = rg_error_set(err, EINVAL, "--fit %.600s: one rank alone tells nothing of the model; "
                         "start two or more, such as by -np 2", path);
    else if (path && bench->world.rank == 0 && access(path, F_OK) == 0)
        r = rg_model_read(path, &bench->model, err) < 0 ? rg_error_prepend(err, "--fit") : 0;
    if (r < 0)
        err->exit_code = RG_EXIT_USAGE;
    return rg_bench_world_agree(&bench->world, r, err);
}

/* --fit: 0, or the exit code after a message. */
static int fit(struct bench *bench)
{
    struct rg_report *report = &bench->report;
    rg_autofree struct rg_fit_sample *samples = calloc(report->nrows + 1, sizeof(*samples));
    rg_autobuf struct rg_buf text = RG_BUF_INIT, file = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;
    size_t n = samples ? rg_report_samples(report, samples) : 0;

    if (!samples)
        rg_error_memory(&err);
    else if (n == 0)
        rg_error_set(&err, EINVAL, "--fit %.600s: no row tells of the model; it knows allreduce, "
                     "allgather, broadcast, alltoall and reducescatter of as many ranks on each "
                     "host, with types of four bytes", bench->options->fit);
    if (n == 0)
        return rg_fail(&err, COMMAND);
    double error = rg_fit(&bench->model, samples, n);
    report->fitted = &bench->model;
    rg_buf_printf(&file, "# by reigen bench: %d ranks on %d hosts, %zu times, which this explains "
                         "within a factor of %.2f (the root mean square)\n",
                  report->nranks, report->nhosts, n, exp(error));
    rg_model_format(&bench->model, &file);
    if (bench->table) {
        rg_report_fit(&text, report, &bench->model);
        rg_buf_printf(&text, "# predicted within a factor of %.2f (the root mean square)\n",
                      exp(error));
    }
    int code = rg_print_exact(rg_buf_text(&text));
    return code ? code : rg_print_to(bench->options->fit, &file, COMMAND);
}

static int put_files(struct bench *bench)
{
    rg_autobuf struct rg_buf notes = RG_BUF_INIT, json = RG_BUF_INIT, html = RG_BUF_INIT;

    if (bench->world.rank != 0)
        return 0;
    int fit_code = bench->options->fit ? fit(bench) : 0;
    rg_report_notes(&notes, &bench->report);
    rg_report_json(&json, &bench->report);
    rg_report_html(&html, &bench->report);
    int code = bench->table ? rg_print_exact(rg_buf_text(&notes)) : 0;
    int json_code = put_file(bench->options->json, &json);
    int html_code = put_file(bench->options->html, &html);
    return code ? code : json_code ? json_code : html_code ? html_code : fit_code;
}

/* The same on all ranks: each of them has the rows' sums. */
static bool any_wrong(const struct bench *bench)
{
    for (size_t i = 0; i < bench->report.nrows; i++) {
        if (bench->report.rows[i].results[0].nwrong > 0)
            return true;
    }
    return false;
}

static int measure(struct bench *bench, struct rg_error *err)
{
    int r = rg_bench_runtime_load(&bench->runtime, err);

    if (r == 0)
        r = rg_bench_world_join(&bench->runtime, &bench->world, err);
    if (r < 0)
        return r;
    bool prints_json = bench->options->json && strcmp(bench->options->json, "-") == 0;
    bench->table = bench->world.rank == 0 && !prints_json;
    bench->progress = bench->world.rank == 0 && isatty(2);
    r = read_model(bench, err);
    if (r == 0)
        r = open_all(bench, err);
    bench->opened = r == 0;
    if (r == 0)
        r = put_head(bench) == 0 ? 0 : rg_error_set(err, EPIPE, "the report cannot be written");
    if (r == 0)
        r = measure_all(bench, err);
    wipe_progress(bench);
    return r;
}

static int run(struct bench *bench)
{
    struct rg_error err = RG_ERROR_INIT;
    int code = 0, r = measure(bench, &err);
    bool joined = bench->world.size > 0;

    if (r < 0 && joined && !err.exit_code)
        err.exit_code = bench->opened ? RG_EXIT_INTERNAL : RG_EXIT_UNAVAILABLE;
    if (r < 0 && joined && bench->world.rank != 0)
        code = err.exit_code; /* rank 0 says why */
    else if (r < 0)
        code = r == -EINVAL ? rg_bench_fail(&err) : rg_fail(&err, COMMAND);
    else
        code = put_files(bench);
    if (code == 0 && any_wrong(bench))
        code = EXIT_WRONG;
    close_all(bench);
    if (joined)
        rg_bench_world_leave(&bench->world);
    return code;
}

int rg_bench_measure(const struct rg_bench_options *options)
{
    rg_autofree struct bench *bench = calloc(1, sizeof(*bench));
    struct rg_error err = RG_ERROR_INIT;

    if (!bench) {
        rg_error_memory(&err);
        return rg_fail(&err, COMMAND);
    }
    bench->options = options;
    if (options->planes)
        setenv("REIGEN_PLANES", options->planes, 1);
    /* Ranks wait for long while a peer starts or has its turn on another one. */
    setenv("REIGEN_STALL_SECONDS", STALL_SECONDS, 0);
    int code = run(bench);
    rg_report_fini(&bench->report);
    return code;
}
