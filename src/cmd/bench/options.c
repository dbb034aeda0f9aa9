/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `reigen bench`. All ranks read the same one, so that what one refuses all
 * refuse, before any of them connects. */
#include "cmd/bench/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reigen/reigen.h"
#include "job/options/options.h"

#define WORDS_MAX 96
#define SIZE_LIMIT (16ull << 30) /* of all tensors of a group together */
#define SECONDS_MAX 3600

/* Who is measured beside Reigen. */
static const struct rg_bench_peer *const peers[] = { &rg_bench_peer_gloo, &rg_bench_peer_mpi };
_Static_assert(rg_array_len(peers) <= RG_BENCH_PEERS_MAX, "all may be asked for");

static const char *op_name(int i)
{
    return i < RG_BENCH_NOPS ? rg_bench_ops[i].name : NULL;
}

static const char *type_name(int i)
{
    return i < REIGEN_NDTYPES ? rg_bench_types[i].name : NULL;
}

static const char *reduction_name(int i)
{
    return rg_bench_reductions[i];
}

static const char *peer_name(int i)
{
    return i < (int) rg_array_len(peers) ? peers[i]->name : NULL;
}

/* The number that a word has in a table; -EINVAL names what there is. */
static int find_word(const char *what, const char *word, const char *(*name)(int), int *ret_i,
                     struct rg_error *err)
{
    const char *words[WORDS_MAX] = { NULL };
    rg_autobuf struct rg_buf all = RG_BUF_INIT;

    for (int i = 0; name(i) && i < WORDS_MAX - 1; i++) {
        if (strcmp(name(i), word) == 0) {
            *ret_i = i;
            return 0;
        }
        words[i] = name(i);
        rg_buf_printf(&all, "%s%s", i ? ", " : "", name(i));
    }
    const char *near = rg_str_nearest(word, words);
    if (near)
        return rg_error_set(err, EINVAL, "%s %.80s: there is no such; did you mean %s?", what, word,
                            near);
    return rg_error_set(err, EINVAL, "%s %.80s: there is no such; give some of %s", what, word,
                        rg_buf_text(&all));
}

/* "A,B", or "all". */
static int set_words(const char *what, const char *value, const char *(*name)(int), bool *set,
                     struct rg_error *err)
{
    rg_autostrv struct rg_strv items = RG_STRV_INIT;
    int r = rg_items_parse(what, value, 0, &items, err), i;

    if (r == 0 && items.count == 0)
        return rg_error_set(err, EINVAL, "%s: its value is empty", what);
    for (i = 0; name(i); i++)
        set[i] = false;
    for (size_t k = 0; r == 0 && k < items.count; k++) {
        if (strcmp(items.v[k], "all") == 0)
            for (i = 0; name(i); i++)
                set[i] = true;
        else if ((r = find_word(what, items.v[k], name, &i, err)) == 0)
            set[i] = true;
    }
    return r;
}

static int apply_op(void *object, const char *what, const char *value, struct rg_error *err)
{
    return set_words(what, value, op_name, ((struct rg_bench_options *) object)->ops, err);
}

static int apply_type(void *object, const char *what, const char *value, struct rg_error *err)
{
    return set_words(what, value, type_name, ((struct rg_bench_options *) object)->types, err);
}

static int apply_reduction(void *object, const char *what, const char *value, struct rg_error *err)
{
    struct rg_bench_options *options = object;

    return find_word(what, value, reduction_name, &options->row.reduction, err);
}

static int apply_seconds(void *object, const char *what, const char *value, struct rg_error *err)
{
    struct rg_bench_options *options = object;
    double seconds;
    const char *end = rg_str_number(value, &seconds);

    if (!end || *end || seconds <= 0 || seconds > SECONDS_MAX)
        return rg_error_set(err, EINVAL, "%s %.80s: give a time in seconds above 0 and up to 3600, "
                            "such as 0.5", what, value);
    options->how.seconds = seconds;
    options->how.iterations = 0;
    return 0;
}

static int apply_peer(void *object, const char *what, const char *value, struct rg_error *err)
{
    struct rg_bench_options *options = object;
    rg_autostrv struct rg_strv items = RG_STRV_INIT;
    int r = rg_items_parse(what, value, RG_BENCH_PEERS_MAX, &items, err), i;

    for (size_t k = 0; r == 0 && k < items.count; k++) {
        r = find_word(what, items.v[k], peer_name, &i, err);
        bool known = false;
        for (int n = 0; r == 0 && n < options->npeers; n++)
            known |= options->peers[n] == peers[i];
        if (r == 0 && !known)
            options->peers[options->npeers++] = peers[i];
    }
    return r;
}

static int apply_bytes(void *object, const char *what, const char *value, struct rg_error *err)
{
    struct rg_bench_options *options = object;
    rg_autostrv struct rg_strv items = RG_STRV_INIT;
    int r = rg_items_parse(what, value, RG_BENCH_SIZES_MAX, &items, err);

    options->nsizes = 0;
    options->min_nbytes = UINT64_MAX;
    options->max_nbytes = 0;
    for (size_t k = 0; r == 0 && k < items.count; k++) {
        uint64_t nbytes = 0;
        r = rg_parse_size(what, items.v[k], &nbytes, err);
        options->sizes[options->nsizes++] = nbytes;
        options->min_nbytes = nbytes < options->min_nbytes ? nbytes : options->min_nbytes;
        options->max_nbytes = nbytes > options->max_nbytes ? nbytes : options->max_nbytes;
    }
    if (r == 0 && items.count == 0)
        return rg_error_set(err, EINVAL, "%s: its value is empty", what);
    return r;
}

#define TO(kind, name, min, max) NULL, RG_MEMBER(kind, struct rg_bench_options, name, min, max)

const struct rg_script_option rg_bench_option_table[] = {
    { "op", "NAME,...", false,
      "allreduce allgather broadcast alltoall reducescatter allgather-into reducescatter-into "
      "barrier join all",
      "The operations; default: allreduce. allgather-into and reducescatter-into put their result "
      "into memory of the caller's. all: every one.", .apply = apply_op },
    { "type", "NAME,...", false,
      "uint8 int8 uint16 int16 int32 int64 float16 float32 float64 bool bfloat16 all",
      "The types of the elements; default: float32. all: every one.", .apply = apply_type },
    { "reduction", "NAME", false, "sum average min max product adasum",
      "What allreduce and reducescatter do; default: sum.", .apply = apply_reduction },
    { "min-bytes", "SIZE", false, NULL, "The smallest tensor; default: 4 bytes. SIZE may end in k, "
      "m or g.", TO(SIZE, min_nbytes, 0, 0) },
    { "max-bytes", "SIZE", false, NULL, "The largest tensor; default: 16m.",
      TO(SIZE, max_nbytes, 0, 0) },
    { "factor", "N", false, NULL, "Each size is N times the one before; default: 4.",
      TO(INT, factor, 2, 1 << 20) },
    { "bytes", "SIZE,...", false, NULL,
      "These sizes, in this order, in the place of --min-bytes, --max-bytes and --factor.",
      .apply = apply_bytes },
    { "seconds", "S", false, NULL,
      "Time for each row and for each peer in it; default: 0.2.", .apply = apply_seconds },
    { "iterations", "N", false, NULL,
      "Do each operation N times in each round, however long that takes, in the place of "
      "--seconds.", TO(INT, how.iterations, 1, 1 << 30) },
    { "warmup", "N", false, NULL,
      "Do each operation N times before it is timed; default: 3.",
      TO(INT, how.warmup, 0, 1 << 30) },
    { "rounds", "N", false, NULL,
      "Take turns N times; default: 5. A rank's time is the median of its rounds' means.",
      TO(INT, how.rounds, 1, RG_BENCH_ROUNDS_MAX) },
    { "in-place", NULL, false, NULL,
      "Let the result take the place of the input, for operations that can.",
      TO(FLAG, row.in_place, 0, 0) },
    { "group", "N", false, NULL,
      "N tensors of each size at a time, handed over together; default: 1.",
      TO(INT, row.group, 1, RG_BENCH_GROUP_MAX) },
    { "separate", NULL, false, NULL,
      "Hand the tensors of --group over one by one, each as an operation of its own, and wait for "
      "all of them.", TO(FLAG, row.separate, 0, 0) },
    { "plane", "NAME,...", false, "shm tcp mpi",
      "Use these data planes alone, as REIGEN_PLANES does.", TO(WORD, planes, 1, 0) },
    { "check", NULL, false, NULL,
      "Before a row is timed, do its operation once, look at every element of the result on every "
      "rank, and count those that are wrong. Exit code 1: there were some.",
      TO(FLAG, how.check, 0, 0) },
    { "peer", "NAME,...", false, "gloo mpi",
      "Measure others beside Reigen, in turns: gloo is torch.distributed's, mpi the MPI of the "
      "mpirun that has started the ranks.", .apply = apply_peer },
    { "peers-alone", NULL, false, NULL, "Leave Reigen itself out, and measure --peer's alone.",
      TO(FLAG, how.peers_alone, 0, 0) },
    { "python", "PROGRAM", false, "@file",
      "The Python of --peer gloo, which has PyTorch; default: the one that Reigen was installed "
      "for, else python3.", TO(WORD, settings.python, 1, 0) },
    { "mpi-library", "FILE", false, "@file",
      "The library of --peer mpi; default: the libmpi that fits the launcher.",
      TO(WORD, settings.mpi_library, 1, 0) },
    { "json", "FILE", false, "@file",
      "Write all figures to FILE as one JSON document. -: to standard output, in the place of the "
      "table.", TO(WORD, json, 1, 0) },
    { "html", "FILE", false, "@file", "Write a page with plots to FILE.", TO(WORD, html, 1, 0) },
    { "fit", "FILE", false, "@file",
      "Find the parameters of the cost model that explain what was measured, say how well they do, "
      "and write them to FILE, for reigen simulate and REIGEN_MODEL. Where FILE is there, begin "
      "with what it has.", TO(WORD, fit, 1, 0) },
    { "help", NULL, false, NULL, "Print this.", TO(FLAG, help, 0, 0) },
    { .name = NULL }
};

void rg_bench_options_init(struct rg_bench_options *options)
{
    *options = (struct rg_bench_options){
        .row = { .reduction = REIGEN_SUM, .group = 1 }, .min_nbytes = 4, .max_nbytes = 16 << 20,
        .factor = 4, .how = { .seconds = 0.2, .warmup = 3, .rounds = 5 },
    };
    options->ops[RG_BENCH_ALLREDUCE] = true;
    options->types[REIGEN_FLOAT32] = true;
}

/* An option of reigen run's at argv[*i], with its values, which are moved past. 1; 0: it is none;
 * -EINVAL: a value is missing. */
static int take_run_option(char **argv, int *i, struct rg_strv *run_words, struct rg_error *err)
{
    const char *word = argv[*i], *text = word + strspn(word, "-");
    rg_autofree char *name = strndup(text, strcspn(text, "="));
    const struct rg_option *option = *word == '-' && name ? rg_option_find(name) : NULL;

    if (!option)
        return 0;
    int nvalues = strchr(word, '=') || !option->arg ? 0 : option->arg2 ? 2 : 1;
    rg_strv_add(run_words, word);
    for (; nvalues > 0 && argv[*i + 1]; nvalues--)
        rg_strv_add(run_words, argv[++*i]);
    if (nvalues > 0)
        return rg_error_set(err, EINVAL, "bench %.80s: its value is missing", word);
    return 1;
}

static bool is_float(int type)
{
    return type == REIGEN_FLOAT16 || type == REIGEN_FLOAT32 || type == REIGEN_FLOAT64 ||
           type == REIGEN_BFLOAT16;
}

bool rg_bench_fits(const struct rg_bench_options *options, int op, int type)
{
    int reduction = options->row.reduction;

    if (!rg_bench_ops[op].reduces)
        return true;
    if (reduction == REIGEN_ADASUM)
        return op == RG_BENCH_ALLREDUCE && is_float(type);
    if (op != RG_BENCH_ALLREDUCE && reduction != REIGEN_SUM && reduction != REIGEN_AVERAGE)
        return false;
    return reduction != REIGEN_AVERAGE || type != REIGEN_BOOL;
}

/* What no single option shows. */
static int judge(const struct rg_bench_options *o, struct rg_error *err)
{
    bool in_place = false, fits = false;

    for (int op = 0; op < RG_BENCH_NOPS; op++) {
        in_place |= o->ops[op] && rg_bench_ops[op].in_place;
        for (int type = 0; type < REIGEN_NDTYPES; type++)
            fits |= o->ops[op] && o->types[type] && rg_bench_fits(o, op, type);
    }
    if (o->min_nbytes > o->max_nbytes)
        return rg_error_set(err, EINVAL, "bench --min-bytes %llu: it is more than --max-bytes, "
                            "which is %llu", (unsigned long long) o->min_nbytes,
                            (unsigned long long) o->max_nbytes);
    if (o->max_nbytes > SIZE_LIMIT / (uint64_t) o->row.group)
        return rg_error_set(err, EINVAL, "bench --max-bytes %llu: with --group %d that is more "
                            "than 16 GiB of tensors on each rank; give less of one",
                            (unsigned long long) o->max_nbytes, o->row.group);
    if (o->row.in_place && !in_place)
        return rg_error_set(err, EINVAL, "bench --in-place: none of the operations of --op can do "
                            "that; allreduce, broadcast and allgather-into can");
    if (o->how.peers_alone && (o->npeers == 0 || o->how.check || o->fit))
        return rg_error_set(err, EINVAL, "bench --peers-alone: it needs --peer, and goes with "
                            "neither --check nor --fit, which are about Reigen");
    if (o->fit && o->row.group > 1)
        return rg_error_set(err, EINVAL, "bench --fit: the model knows one tensor at a time; leave "
                            "out --group %d", o->row.group);
    if (!fits)
        return rg_error_set(err, EINVAL, "bench --reduction %s: no operation of --op has it for a "
                            "type of --type; reducescatter has sum and average, adasum is for "
                            "allreduce of floating types, and bool has no average",
                            rg_bench_reductions[o->row.reduction]);
    return 0;
}

static void list_sizes(struct rg_bench_options *options)
{
    for (uint64_t nbytes = options->min_nbytes;
         nbytes <= options->max_nbytes && options->nsizes < RG_BENCH_SIZES_MAX;
         nbytes *= (uint64_t) options->factor)
        options->sizes[options->nsizes++] = nbytes;
}

int rg_bench_options_parse(char **argv, struct rg_bench_options *options,
                           struct rg_strv *run_words, struct rg_error *err)
{
    int r = 0;

    for (int i = 1; r >= 0 && argv[i] && !options->help; i++) {
        r = rg_script_option_take(rg_bench_option_table, "bench", argv, &i, options, err);
        if (r == 0)
            r = take_run_option(argv, &i, run_words, err);
        if (r == 0)
            r = rg_script_option_refuse(rg_bench_option_table, "bench", argv[i], err);
    }
    r = r < 0 ? r : 0;
    if (r == 0 && rg_strv_status(run_words) < 0)
        r = rg_error_memory(err);
    if (r == 0 && !options->help)
        r = judge(options, err);
    options->settings.group = options->row.group;
    if (r == 0 && options->nsizes == 0)
        list_sizes(options);
    return r;
}
