/* SPDX-License-Identifier: Apache-2.0 */
/* reigen simulate: a row for each number of hosts, as a table and as JSON. */
#include "cmd/simulate/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/say.h"
#include "head/console/exit.h"
#include "head/console/json.h"
#include "head/console/terminal.h"
#include "cmd/simulate/modelfile.h"
#include "cmd/simulate/options.h"
#include "cmd/simulate/record.h"
#include "simulate/simulate.h"

#define COMMAND "simulate"
#define BOLD "\033[1m"
#define PLAIN "\033[0m"
#define MS 1e3

const struct rg_script rg_script_simulate = {
    .name = NULL, .under = "", .usage = "--model NAME|--from SCRIPT [OPTION...] [-- COMMAND...]",
    .summary = "predict a step of training on any number of hosts",
    .about = "Predict how long a step of data-parallel training takes on so many hosts, by the "
             "cost model that the runtime chooses its algorithms by, and by the runtime's "
             "schedule: gradients come layer by layer while the backward pass goes on, what is "
             "ready is fused, and what the backward pass does not hide makes the step longer. "
             "Nothing is started and nothing is measured, unless a script of yours is recorded: "
             "--from runs it here for some steps. Efficiency is one rank's step alone in "
             "relation to this one; exposed is the part of the step in which ranks only wait for "
             "communication.",
    .status = "0. 1: what was recorded has no steps that are alike; 2: a mistake on the command "
              "line; 74: the output could not be written; 128 + n: ended by signal n; where a "
              "recorded program failed, its own exit code.",
    .examples = "reigen simulate --model resnet50 --hosts 4096 --ranks-per-host 8\n"
                "reigen simulate --model resnet50 --bandwidth 100gbit --latency 10us\n"
                "reigen bench -H node1,node2 --fit network.model\n"
                "reigen simulate --model vgg16 --parameters network.model "
                "--step-ms 415\n"
                "reigen simulate --from train.py --hosts 1..64 --bandwidth 25gbit\n"
                "reigen simulate --np 4 --save mine.json -- python train.py --epochs 1\n"
                "reigen simulate --model mine.json --hosts 16 --ranks-per-host 4\n",
    .operands = true, .options = rg_simulate_option_table
};

struct row {
    int nhosts, nranks;
    struct rg_simulated result;
};

struct simulate {
    struct rg_simulate_options options;
    struct rg_model model;
    struct rg_workload workload;
    char name[32]; /* of one that is made by numbers alone */
    struct rg_modelfile file; /* of one that was recorded */
    double compute_s;
    struct row rows[RG_SIMULATE_ROWS_MAX];
};

static double exposed_of(const struct rg_simulated *result)
{
    return (result->step_s - result->compute_s) / result->step_s;
}

static bool has_rate(const struct simulate *s)
{
    return s->options.step_ms == 0 && s->workload.rate > 0;
}

/* The bytes that a rank offers in a step. */
static uint64_t nbytes_of(const struct simulate *s)
{
    const struct rg_profile *profile = s->workload.profile;
    uint64_t nbytes = profile ? 0 : s->workload.nparameters * s->options.element_nbytes;

    for (size_t i = 0; profile && i < profile->nops; i++)
        nbytes += profile->ops[i].nbytes;
    return nbytes;
}

/* Samples a second of all ranks; 0: the batch is not known. */
static double rate_of(const struct simulate *s, const struct row *row)
{
    return !has_rate(s) ? 0 : row->nranks * s->workload.batch / row->result.step_s;
}

/* How the largest run goes, in a word. */
static const char *way_of(const struct row *row)
{
    return row->nranks == 1   ? "none"
           : row->nhosts == 1 ? "memory"
                              : rg_algorithm_name(row->result.largest.algorithm);
}

/* --- the table -------------------------------------------------------------------------------- */

static void put_recorded(struct rg_buf *text, const struct simulate *s)
{
    const struct rg_profile *profile = &s->file.profile;

    rg_shown_printf(text, "# %s: %zu operations a step, %.1f MB; %.2f million parameters\n",
                    s->workload.name, profile->nops, (double) nbytes_of(s) / 1e6,
                    (double) s->workload.nparameters / 1e6);
    rg_buf_printf(text, "# recorded: %d steps of %.1f ms with %d rank%s; each computes for %.1f "
                        "ms, give or take %.1f %%\n", profile->nsteps, profile->step_s * MS,
                  s->file.nranks, s->file.nranks == 1 ? "" : "s", profile->compute_s * MS,
                  profile->deviation * 100);
    if (s->options.step_ms > 0)
        rg_buf_printf(text, "# one rank's step alone: %.1f ms, as --step-ms says\n",
                      s->compute_s * MS);
}

static void put_published(struct rg_buf *text, const struct simulate *s)
{
    const struct rg_workload *w = &s->workload;
    const struct rg_simulate_options *o = &s->options;

    rg_shown_printf(text, "# %s: %zu tensors of %.2f million parameters as %s, %.1f MB\n", w->name,
                    w->ntensors, (double) w->nparameters / 1e6, o->type,
                    (double) nbytes_of(s) / 1e6);
    if (has_rate(s))
        rg_buf_printf(text, "# one rank's step alone: %.1f ms, a batch of %d at %g samples/s\n"
                            "#   (%s)\n", s->compute_s * MS, w->batch, w->rate, w->source);
    else
        rg_buf_printf(text, "# one rank's step alone: %.1f ms\n", s->compute_s * MS);
}

static void put_head(struct rg_buf *text, const struct simulate *s, bool colour)
{
    const struct rg_simulate_options *o = &s->options;

    if (s->workload.profile)
        put_recorded(text, s);
    else
        put_published(text, s);
    if (s->model.net.beta_ps)
        rg_buf_printf(text, "# network: %.4g Gb/s", 8e3 / s->model.net.beta_ps);
    else
        rg_buf_printf(text, "# network: no limit");
    rg_shown_printf(text, ", latency %.4g us%s%s\n", s->model.net.alpha_ns / 1e3,
                    o->parameters ? ", parameters of " : "", o->parameters ? o->parameters : "");
    if (colour)
        rg_buf_printf(text, BOLD);
    rg_buf_printf(text, "%7s %7s %11s %10s %9s %8s %11s %10s %5s %10s %10s", "hosts", "ranks",
                  "step ms", "efficiency", "speedup", "exposed", "in flight", "agree ms", "runs",
                  "largest MB", "algorithm");
    if (has_rate(s))
        rg_buf_printf(text, " %12s", "samples/s");
    rg_buf_printf(text, "%s\n", colour ? PLAIN : "");
}

static void put_row(struct rg_buf *text, const struct simulate *s, const struct row *row)
{
    const struct rg_simulated *r = &row->result;

    rg_buf_printf(text, "%7d %7d %11.2f %9.1f%% %9.1f %7.1f%% %11.2f %10.3f %5d %10.2f %10s",
                  row->nhosts, row->nranks, r->step_s * MS, r->efficiency * 100,
                  r->efficiency * row->nranks, exposed_of(r) * 100, r->busy_s * MS,
                  r->agree_s * MS, r->nruns, (double) r->largest_nbytes / 1e6, way_of(row));
    if (has_rate(s))
        rg_buf_printf(text, " %12.0f", rate_of(s, row));
    rg_buf_printf(text, "\n");
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *row_json(const struct simulate *s, const struct row *row)
{
    const struct rg_simulated *r = &row->result;
    double rate = rate_of(s, row);

    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:I, s:s, s:I, s:o}", "hosts",
                     row->nhosts, "ranks", row->nranks, "step_ms", r->step_s * MS, "compute_ms",
                     r->compute_s * MS, "efficiency", r->efficiency, "exposed", exposed_of(r),
                     "in_flight_ms", r->busy_s * MS, "agreement_ms", r->agree_s * MS, "runs",
                     r->nruns, "largest_bytes", (json_int_t) r->largest_nbytes, "algorithm",
                     way_of(row), "chunk_bytes", (json_int_t) r->largest.chunk_nbytes,
                     "samples_per_s", rate > 0 ? json_real(rate) : json_null());
}

static void put_json(struct rg_buf *text, const struct simulate *s)
{
    const struct rg_workload *w = &s->workload;
    rg_autobuf struct rg_buf parameters = RG_BUF_INIT;
    json_t *rows = json_array();

    rg_model_format(&s->model, &parameters);
    for (int i = 0; i < s->options.nrows; i++)
        json_array_append_new(rows, row_json(s, &s->rows[i]));
    rg_json_put(text,
                json_pack("{s:s, s:I, s:I, s:s, s:I, s:f, s:s?, s:I, s:f, s:o, s:o}", "model",
                          w->name, "parameters", (json_int_t) w->nparameters, "tensors",
                          (json_int_t) w->ntensors, "type",
                          w->profile ? "as recorded" : s->options.type, "gradient_bytes",
                          (json_int_t) nbytes_of(s), "compute_ms",
                          s->compute_s * MS, "rate_source",
                          has_rate(s) ? w->source : NULL, "fusion_bytes",
                          (json_int_t) s->options.fusion_nbytes, "jitter", s->options.jitter,
                          "network", rg_json_text(rg_buf_text(&parameters)), "rows", rows),
                JSON_INDENT(1) | JSON_REAL_PRECISION(9));
}

/* --- from the command line to the output ------------------------------------------------------ */

static bool is_known(const char *name)
{
    const char *known;

    for (int i = 0; (known = rg_workload_name(i)) != NULL; i++) {
        if (strcmp(name, known) == 0)
            return true;
    }
    return false;
}

static bool is_file(const char *name)
{
    return !is_known(name) && (strchr(name, '/') || access(name, F_OK) == 0);
}

static int make_workload(struct simulate *s, struct rg_error *err)
{
    const struct rg_simulate_options *o = &s->options;
    bool recorded = rg_simulate_options_record(o);

    if (o->workload && is_file(o->workload)) {
        int r = rg_modelfile_read(o->workload, &s->file, err);
        if (r < 0)
            return r;
        recorded = true;
    }
    if (recorded && o->has_type)
        return rg_error_set(err, EINVAL, "simulate --type %s: what was recorded has types of its "
                            "own", o->type);
    if (recorded)
        rg_workload_of_profile(s->file.name, &s->file.profile, &s->workload);
    if (recorded)
        return 0;
    if (o->workload)
        return rg_workload_make(o->workload, &s->workload, err);
    snprintf(s->name, sizeof(s->name), "%d layers", o->nlayers);
    return rg_workload_make_even(s->name, o->nparameters, o->nlayers, &s->workload) < 0
               ? rg_error_memory(err) : 0;
}

static int find_compute(struct simulate *s, struct rg_error *err)
{
    const struct rg_workload *w = &s->workload;

    if (s->options.step_ms == 0 && w->rate == 0 && !w->profile)
        return rg_error_set(err, EINVAL, "simulate %s: how long a rank computes for a step does "
                            "not follow from its size; give it as --step-ms MS, as measured on one "
                            "GPU, or about 6000 x parameters x tokens of its batch / FLOP/s that "
                            "it reaches; --from SCRIPT measures it here",
                            s->options.workload ? w->name : "--params");
    s->compute_s = s->options.step_ms > 0 ? s->options.step_ms / MS
                   : w->profile ? w->profile->compute_s : w->batch / w->rate;
    return 0;
}

/* Its exit code. */
static int record(struct simulate *s)
{
    const struct rg_simulate_options *o = &s->options;
    const struct rg_simulate_recording recording = {
        .script = o->from, .command = o->command ? o->command : (char *const[]){ NULL },
        .nranks = o->nranks, .nsteps = o->nsteps,
    };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int code = rg_simulate_record(&recording, &s->file);

    if (code || !o->save)
        return code;
    rg_modelfile_put(&text, &s->file);
    return rg_print_to(o->save, &text, COMMAND);
}

static int simulate_rows(struct simulate *s, struct rg_error *err)
{
    const struct rg_simulate_options *o = &s->options;
    int r = 0;

    for (int i = 0; r == 0 && i < o->nrows; i++) {
        struct row *row = &s->rows[i];
        struct rg_simulation simulation = {
            .model = &s->model, .workload = &s->workload, .nhosts = o->hosts[i],
            .ranks_per_host = o->ranks_per_host, .element_nbytes = o->element_nbytes,
            .fusion_nbytes = o->fusion_nbytes, .compute_s = s->compute_s, .jitter = o->jitter,
            .fan_out = o->fan_out
        };
        row->nhosts = o->hosts[i];
        row->nranks = row->nhosts * o->ranks_per_host;
        r = rg_simulate(&simulation, &row->result) < 0 ? rg_error_memory(err) : 0;
    }
    return r;
}

static int print(const struct simulate *s)
{
    rg_autobuf struct rg_buf table = RG_BUF_INIT, json = RG_BUF_INIT;
    const char *path = s->options.json;
    bool prints_json = path && strcmp(path, "-") == 0;

    put_head(&table, s, rg_terminal_colour(1));
    for (int i = 0; i < s->options.nrows; i++)
        put_row(&table, s, &s->rows[i]);
    if (path)
        put_json(&json, s);
    int code = rg_print_exact(rg_buf_text(prints_json ? &json : &table));
    if (code == 0 && path && !prints_json)
        code = rg_print_to(path, &json, COMMAND);
    return code;
}

static int predict(struct simulate *s)
{
    struct rg_error err = RG_ERROR_INIT;
    int r = make_workload(s, &err);

    if (r == 0)
        r = find_compute(s, &err);
    if (r == 0)
        r = simulate_rows(s, &err);
    return r < 0 ? rg_fail(&err, COMMAND) : print(s);
}

int rg_cmd_simulate(int argc, char **argv)
{
    rg_autofree struct simulate *s = calloc(1, sizeof(*s));
    struct rg_error err = RG_ERROR_INIT;

    (void) argc;
    if (!s) {
        rg_error_memory(&err);
        return rg_fail(&err, COMMAND);
    }
    rg_simulate_options_init(&s->options);
    int r = rg_simulate_options_parse(argv, &s->options, &err);
    if (r == 0 && s->options.help)
        return RG_COMMAND_HELP;
    if (r == 0)
        r = rg_simulate_options_model(&s->options, &s->model, &err);
    if (r < 0)
        return rg_fail(&err, COMMAND);
    int code = rg_simulate_options_record(&s->options) ? record(s) : 0;
    if (code == 0)
        code = predict(s);
    rg_workload_fini(&s->workload);
    rg_modelfile_fini(&s->file);
    return code;
}
