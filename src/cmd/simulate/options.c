/* SPDX-License-Identifier: Apache-2.0 */
/* Rates, times and numbers of hosts, as people write them. */
#include "cmd/simulate/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/str.h"
#include "simulate/profile.h"
#include "simulate/simulate.h"
#include "simulate/workload.h"

#define COMMAND "simulate"
#define PS_PER_BYTE 8e12 /* at one bit a second */
#define BITS_PER_S_MIN (PS_PER_BYTE / RG_MODEL_RATE_MAX_PS)
#define BITS_PER_S_MAX PS_PER_BYTE /* a picosecond per byte */
#define LATENCY_S_MIN 1e-9
#define LATENCY_S_MAX (RG_MODEL_ALPHA_MAX_NS / 1e9)
#define STEP_MS_MAX 1e8
#define PARAMS_MAX 1e14
#define STEPS_DEFAULT 20

/* A number with one of these units behind it, which the caller has in the order of *ret_unit. */
static bool parse_unit(const char *value, const char *const *units, double *ret_number,
                       size_t *ret_unit)
{
    double number;
    const char *unit = rg_str_number(value, &number);

    for (size_t i = 0; unit && units[i]; i++) {
        if (strcasecmp(unit, units[i]) == 0) {
            *ret_number = number;
            *ret_unit = i;
            return true;
        }
    }
    return false;
}

static int apply_bandwidth(void *object, const char *what, const char *value, struct rg_error *err)
{
    static const char *const units[] = { "kbit", "mbit", "gbit", "tbit", NULL };
    struct rg_simulate_options *o = object;
    double number;
    size_t unit;

    if (!parse_unit(value, units, &number, &unit))
        return rg_error_set(err, EINVAL, "%s %.80s: give bits per second, such as 25gbit or "
                            "100mbit", what, value);
    number *= pow(1000, 1 + (double) unit);
    if (number < BITS_PER_S_MIN || number > BITS_PER_S_MAX)
        return rg_error_set(err, ERANGE, "%s %.80s: give 8mbit to 8tbit", what, value);
    o->bits_per_s = (uint64_t) number;
    return 0;
}

static int apply_latency(void *object, const char *what, const char *value, struct rg_error *err)
{
    static const char *const units[] = { "s", "ms", "us", "ns", NULL };
    struct rg_simulate_options *o = object;
    double number;
    size_t unit;

    if (!parse_unit(value, units, &number, &unit))
        return rg_error_set(err, EINVAL, "%s %.80s: give a time, such as 10us or 0.5ms", what,
                            value);
    number *= pow(1000, -(double) unit);
    if (number < LATENCY_S_MIN || number > LATENCY_S_MAX)
        return rg_error_set(err, ERANGE, "%s %.80s: give 1ns to 2s", what, value);
    o->latency_ns = (uint64_t) llrint(number * 1e9);
    o->has_latency = true;
    return 0;
}

static int apply_number(const char *what, const char *value, double max, double *ret_number,
                        struct rg_error *err)
{
    double number;
    const char *end = rg_str_number(value, &number);

    if (!end || *end || number < 0 || number > max)
        return rg_error_set(err, EINVAL, "%s %.80s: give a number from 0 to %g", what, value, max);
    *ret_number = number;
    return 0;
}

static int apply_step(void *object, const char *what, const char *value, struct rg_error *err)
{
    struct rg_simulate_options *o = object;
    int r = apply_number(what, value, STEP_MS_MAX, &o->step_ms, err);

    if (r == 0 && o->step_ms == 0)
        return rg_error_set(err, EINVAL, "%s %.80s: a step takes more than that", what, value);
    return r;
}

static int apply_jitter(void *object, const char *what, const char *value, struct rg_error *err)
{
    double percent = 0;
    int r = apply_number(what, value, 100, &percent, err);

    if (r == 0)
        ((struct rg_simulate_options *) object)->jitter = percent / 100;
    return r;
}

static int apply_params(void *object, const char *what, const char *value, struct rg_error *err)
{
    static const char *const units[] = { "", "k", "m", "b", "t", NULL };
    struct rg_simulate_options *o = object;
    double number;
    size_t unit;

    if (!parse_unit(value, units, &number, &unit))
        return rg_error_set(err, EINVAL, "%s %.80s: give a number of parameters, such as 7e9 or "
                            "350m", what, value);
    number *= pow(1000, (double) unit);
    if (!(number >= 1 && number <= PARAMS_MAX))
        return rg_error_set(err, ERANGE, "%s %.80s: give 1 to %g", what, value, PARAMS_MAX);
    o->nparameters = (uint64_t) number;
    return 0;
}

static int apply_type(void *object, const char *what, const char *value, struct rg_error *err)
{
    static const struct { const char *name; unsigned nbytes; } types[] = {
        { "float32", 4 }, { "float16", 2 }, { "bfloat16", 2 }, { "float64", 8 }
    };
    struct rg_simulate_options *o = object;

    for (size_t i = 0; i < rg_array_len(types); i++) {
        if (strcmp(value, types[i].name) == 0) {
            o->type = types[i].name;
            o->has_type = true;
            o->element_nbytes = types[i].nbytes;
            return 0;
        }
    }
    return rg_error_set(err, EINVAL, "%s %.80s: gradients are float32, float16, bfloat16 or "
                        "float64", what, value);
}

static int add_hosts(struct rg_simulate_options *o, const char *what, int64_t n,
                     struct rg_error *err)
{
    if (o->nrows == RG_SIMULATE_ROWS_MAX)
        return rg_error_set(err, E2BIG, "%s: more than %d numbers of hosts", what,
                            RG_SIMULATE_ROWS_MAX);
    o->hosts[o->nrows++] = (int) n;
    return 0;
}

/* "8", or "2..4096": each number twice the one before, and the last one. */
static int apply_range(struct rg_simulate_options *o, const char *what, const char *text,
                       struct rg_error *err)
{
    const char *dots = strstr(text, "..");
    rg_autofree char *head = strndup(text, dots ? (size_t) (dots - text) : strlen(text));
    int64_t first, last;
    int r = head ? rg_parse_int(what, head, 1, RG_SIMULATE_RANKS_MAX, &first, err)
                 : rg_error_memory(err);

    if (r < 0)
        return r;
    if (!dots)
        return add_hosts(o, what, first, err);
    r = rg_parse_int(what, dots + 2, first, RG_SIMULATE_RANKS_MAX, &last, err);
    for (int64_t n = first; r == 0; n = 2 * n < last ? 2 * n : last) {
        r = add_hosts(o, what, n, err);
        if (n == last)
            break;
    }
    return r;
}

static int apply_hosts(void *object, const char *what, const char *value, struct rg_error *err)
{
    struct rg_simulate_options *o = object;
    rg_autostrv struct rg_strv items = RG_STRV_INIT;
    int r = rg_items_parse(what, value, RG_SIMULATE_ROWS_MAX, &items, err);

    o->nrows = 0;
    for (size_t i = 0; r == 0 && i < items.count; i++)
        r = apply_range(o, what, items.v[i], err);
    if (r == 0 && o->nrows == 0)
        return rg_error_set(err, EINVAL, "%s: its value is empty", what);
    return r;
}

#define TO(kind, name, min, max) NULL, RG_MEMBER(kind, struct rg_simulate_options, name, min, max)

const struct rg_script_option rg_simulate_option_table[] = {
    { "model", "NAME", false, "resnet50 resnet101 vgg16 inception3 bert-base bert-large vit-base "
      "vit-large vit-huge gpt2-xl gpt3 llama-7b llama-13b llama-65b llama3-8b llama3-70b "
      "llama3-405b",
      "What is trained: resnet50, resnet101, vgg16, inception3, bert-base, bert-large, vit-base, "
      "vit-large, vit-huge, gpt2-xl, gpt3, llama-7b, llama-13b, llama-65b, llama3-8b, llama3-70b "
      "or llama3-405b; or a file of --save.", TO(WORD, workload, 1, 0) },
    { "from", "SCRIPT", false, "@file",
      "In its place your own script, which is run here until it has taken enough steps, and ended "
      "then: what it submits, and when, is recorded. Its arguments follow --. Without --from any "
      "program may stand there: -- python train.py --epochs 1.", TO(WORD, from, 1, 0) },
    { "np", "N", false, NULL,
      "Record with so many ranks, of which rank 0 counts. Ranks that share the cores of one "
      "computer are recorded best as many as it will have; default: 1.",
      TO(INT, nranks, 1, 4096) },
    { "steps", "N", false, NULL, "Record so many steps; default: 20.",
      TO(INT, nsteps, RG_PROFILE_STEPS_MIN, RG_PROFILE_STEPS_MAX) },
    { "save", "FILE", false, "@file",
      "Write what was recorded to FILE, which --model takes.", TO(WORD, save, 1, 0) },
    { "params", "N", false, NULL,
      "In its place a network of so many parameters, such as 7e9, 7b or 350m. It takes --layers "
      "and --step-ms, too.",
      .apply = apply_params },
    { "layers", "N", false, NULL, "How many layers they are in, all alike.",
      TO(INT, nlayers, 1, RG_WORKLOAD_LAYERS_MAX) },
    { "hosts", "N,...", false, NULL,
      "Numbers of hosts, with a row for each. A..B doubles from A to B; default: 1..1024.",
      .apply = apply_hosts },
    { "ranks-per-host", "N", false, NULL, "Ranks on each host, which share its network; "
      "default: 1.", TO(INT, ranks_per_host, 1, 4096) },
    { "bandwidth", "RATE", false, NULL,
      "The network's, for each host and direction, such as 25gbit.", .apply = apply_bandwidth },
    { "latency", "TIME", false, NULL,
      "From one host to another one, such as 10us: half of what ping says.",
      .apply = apply_latency },
    { "parameters", "FILE", false, "@file",
      "The parameters of the cost model, as REIGEN_MODEL and reigen bench --fit have them. "
      "--bandwidth and --latency go before. Without a file they are assumed: 10 Gb/s, and a "
      "processor of these years.", TO(WORD, parameters, 1, 0) },
    { "step-ms", "MS", false, NULL,
      "The time that one rank alone takes for a step. Default: by the rate that was published for "
      "one GPU, where one is known (of resnet50, vgg16 and inception3); the output says which.",
      .apply = apply_step },
    { "type", "NAME", false, "float32 float16 bfloat16 float64",
      "The type of gradients; default: float32.", .apply = apply_type },
    { "fusion-threshold", "SIZE", false, NULL,
      "The most bytes that go as one, as REIGEN_FUSION_THRESHOLD says; default: 128m.",
      TO(SIZE, fusion_nbytes, 0, 0) },
    { "jitter", "PERCENT", false, NULL,
      "The standard deviation of a rank's step, in per cent of it: all wait for the slowest. "
      "Default: 0.", .apply = apply_jitter },
    { "fan-out", "N", false, NULL,
      "Leaders of hosts agree by a tree, each of which has N below it. Default: 16, as in the "
      "runtime (REIGEN_TREE_DEGREE).", TO(INT, fan_out, 2, RG_SIMULATE_RANKS_MAX) },
    { "json", "FILE", false, "@file",
      "Write all figures to FILE as one JSON document. -: to standard output, in the place of the "
      "table.", TO(WORD, json, 1, 0) },
    { "help", NULL, false, NULL, "Print this.", TO(FLAG, help, 0, 0) },
    { .name = NULL }
};

void rg_simulate_options_init(struct rg_simulate_options *options)
{
    *options = (struct rg_simulate_options){ .ranks_per_host = 1, .element_nbytes = 4,
                                             .type = "float32", .fusion_nbytes = 128 << 20,
                                             .fan_out = RG_MODEL_FAN_OUT, .nranks = 1,
                                             .nsteps = STEPS_DEFAULT };
    for (int n = 1; n <= 1024; n *= 2)
        options->hosts[options->nrows++] = n;
}

/* Exactly one of the ways to say what is trained. */
static int judge_workload(const struct rg_simulate_options *o, struct rg_error *err)
{
    bool records = rg_simulate_options_record(o), numbers = o->nparameters || o->nlayers;

    if (!o->workload && !records && !numbers)
        return rg_error_set(err, EINVAL, "simulate: name what is trained, such as --model "
                            "resnet50, or --params 7e9 --layers 32, or --from train.py");
    if (o->workload && (numbers || records))
        return rg_error_set(err, EINVAL, "simulate --model %.80s: not together with %s",
                            o->workload, o->nparameters ? "--params" : o->nlayers ? "--layers"
                            : o->from ? "--from" : "a program behind --");
    if (records && numbers)
        return rg_error_set(err, EINVAL, "simulate %s: not together with %s",
                            o->from ? "--from" : "--", o->nparameters ? "--params" : "--layers");
    if (numbers && (!o->nparameters || !o->nlayers))
        return rg_error_set(err, EINVAL, "simulate: say both --params and --layers");
    return 0;
}

static int judge_recording(const struct rg_simulate_options *o, struct rg_error *err)
{
    if (o->save && !rg_simulate_options_record(o))
        return rg_error_set(err, EINVAL, "simulate --save %.80s: only what is recorded is saved; "
                            "give --from SCRIPT, or a program behind --", o->save);
    if (o->save && o->json && strcmp(o->save, o->json) == 0)
        return rg_error_set(err, EINVAL, "simulate --save %.80s: --json goes there as well; name "
                            "another file", o->save);
    for (int i = 0; o->from && o->command && o->command[i]; i++) {
        if (strcmp(o->command[i], o->from) == 0)
            return rg_error_set(err, EINVAL, "simulate --from %.80s: it stands behind -- again; "
                                "write only its arguments there, or leave --from out", o->from);
    }
    if (o->from && access(o->from, R_OK) < 0)
        return rg_error_set(err, errno, "simulate --from %.200s: %s", o->from, strerror(errno));
    return 0;
}

static int judge(const struct rg_simulate_options *o, struct rg_error *err)
{
    int r = judge_workload(o, err);

    r = r == 0 ? judge_recording(o, err) : r;
    if (r < 0)
        return r;
    for (int i = 0; i < o->nrows; i++) {
        if ((int64_t) o->hosts[i] * o->ranks_per_host > RG_SIMULATE_RANKS_MAX)
            return rg_error_set(err, ERANGE, "simulate --hosts %d: with %d ranks on each that is "
                                "more than %d ranks", o->hosts[i], o->ranks_per_host,
                                RG_SIMULATE_RANKS_MAX);
    }
    return 0;
}

int rg_simulate_options_parse(char **argv, struct rg_simulate_options *options,
                              struct rg_error *err)
{
    int r = 0;

    for (int i = 1; r >= 0 && argv[i] && !options->help; i++) {
        if (strcmp(argv[i], "--") == 0) {
            if (argv[i + 1])
                options->command = argv + i + 1;
            break;
        }
        r = rg_script_option_take(rg_simulate_option_table, COMMAND, argv, &i, options, err);
        if (r == 0)
            r = rg_script_option_refuse(rg_simulate_option_table, COMMAND, argv[i], err);
    }
    return r < 0 ? r : options->help ? 0 : judge(options, err);
}

int rg_simulate_options_model(const struct rg_simulate_options *options,
                              struct rg_model *ret_model, struct rg_error *err)
{
    struct rg_model model = rg_model_assumed;
    int r = options->parameters ? rg_model_read(options->parameters, &model, err) : 0;

    if (r < 0)
        return rg_error_prepend(err, "simulate --parameters (reigen bench --fit FILE writes one)");
    if (options->bits_per_s)
        model.net.beta_ps = (uint32_t) lrint(PS_PER_BYTE / (double) options->bits_per_s);
    if (options->has_latency)
        model.net.alpha_ns = (uint32_t) options->latency_ns;
    *ret_model = model;
    return 0;
}
