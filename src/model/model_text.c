/* SPDX-License-Identifier: Apache-2.0 */
/* The model's names and its file. Numbers are whole ones, so that no locale changes them. */
#include "model/model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

enum { WORD_NBYTES = 64, LINE_NBYTES = 256 };

static const char *const algorithms[RG_NALGORITHMS] = { "auto", "doubling", "halving", "ring",
                                                        "tree", "chain",    "scatter",
                                                        "pairwise" };
static const char *const kinds[RG_MODEL_NKINDS] = { "allreduce", "reduce",   "broadcast",
                                                    "allgather", "alltoall", "reducescatter" };

/* The lines of a file, in its order. */
static const struct field {
    const char *name, *what;
    size_t at;
    int64_t min, max;
} fields[] = {
    { "net.alpha_ns", "between hosts: a message's way, without what it costs the processor",
      offsetof(struct rg_model, net.alpha_ns), 1, RG_MODEL_ALPHA_MAX_NS },
    { "net.beta_ps", "a byte on the line", offsetof(struct rg_model, net.beta_ps), 0,
      RG_MODEL_RATE_MAX_PS },
    { "net.message_ns", "the processor's time for a message",
      offsetof(struct rg_model, net.message_ns), 0, RG_MODEL_ALPHA_MAX_NS },
    { "net.copy_ps", "the processor's time for a byte, sent and received",
      offsetof(struct rg_model, net.copy_ps), 0, RG_MODEL_RATE_MAX_PS },
    { "node.alpha_ns", "the same inside a host", offsetof(struct rg_model, node.alpha_ns), 1,
      RG_MODEL_ALPHA_MAX_NS },
    { "node.beta_ps", "", offsetof(struct rg_model, node.beta_ps), 0, RG_MODEL_RATE_MAX_PS },
    { "node.message_ns", "", offsetof(struct rg_model, node.message_ns), 0, RG_MODEL_ALPHA_MAX_NS },
    { "node.copy_ps", "", offsetof(struct rg_model, node.copy_ps), 0, RG_MODEL_RATE_MAX_PS },
    { "gamma_ps", "a byte of two operands that become one", offsetof(struct rg_model, gamma_ps), 0,
      RG_MODEL_RATE_MAX_PS },
    { "crowding_pct", "100; more where simulated hosts share cores",
      offsetof(struct rg_model, crowding_pct), 1, RG_MODEL_CROWDING_MAX_PCT },
};

const char *rg_algorithm_name(enum rg_algorithm algorithm)
{
    return (unsigned) algorithm < RG_NALGORITHMS ? algorithms[algorithm] : "?";
}

const char *rg_model_direct_name(enum rg_model_direct way)
{
    static const char *const names[] = { "agreement", "doubling", "one shot", "two shots" };

    return way < rg_array_len(names) ? names[way] : "?";
}

const char *rg_model_kind_name(enum rg_model_kind kind)
{
    return (unsigned) kind < RG_MODEL_NKINDS ? kinds[kind] : "?";
}

static size_t at_most(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int find(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* ------------------------------------------------------------ REIGEN_ALGORITHM */

static int refuse_algorithm(const char *what, const char *text, const char *word, int kind,
                            struct rg_error *err)
{
    char allowed[RG_ERROR_TEXT_MAX / 4] = "auto";
    size_t used = strlen(allowed);

    for (int a = 1; a < RG_NALGORITHMS; a++)
        if (kind < 0 || rg_algorithm_does((enum rg_algorithm) a, (enum rg_model_kind) kind))
            used += (size_t) snprintf(allowed + used, sizeof(allowed) - used, ", %s",
                                      algorithms[a]);
    return rg_error_set(err, EINVAL, "%s=%s: %s is no algorithm%s%s; give one of %s%s", what, text,
                        word, kind < 0 ? "" : " for ", kind < 0 ? "" : kinds[kind], allowed,
                        kind < 0 ? ", or OPERATION=ALGORITHM with commas between" : "");
}

/* One algorithm for all kinds that it does; the others are as before. */
static void want_everywhere(int algorithm, enum rg_algorithm wanted[RG_MODEL_NKINDS])
{
    for (int k = 0; k < RG_MODEL_NKINDS; k++)
        if (algorithm == RG_ALGORITHM_AUTO ||
            rg_algorithm_does((enum rg_algorithm) algorithm, (enum rg_model_kind) k))
            wanted[k] = (enum rg_algorithm) algorithm;
}

static int parse_want(const char *what, const char *text, char *word,
                      enum rg_algorithm wanted[RG_MODEL_NKINDS], struct rg_error *err)
{
    char *name = strchr(word, '=');
    int kind = -1, algorithm;

    if (name) {
        *name++ = '\0';
        kind = find(kinds, RG_MODEL_NKINDS, word);
        if (kind < 0)
            return rg_error_set(err, EINVAL, "%s=%s: %s is no operation; give allreduce, reduce, "
                                "broadcast, allgather, alltoall or reducescatter", what, text,
                                word);
    }
    name = name ? name : word;
    algorithm = find(algorithms, RG_NALGORITHMS, name);
    if (algorithm < 0 || (kind >= 0 && algorithm != RG_ALGORITHM_AUTO &&
                          !rg_algorithm_does((enum rg_algorithm) algorithm,
                                             (enum rg_model_kind) kind)))
        return refuse_algorithm(what, text, name, kind, err);
    if (kind >= 0)
        wanted[kind] = (enum rg_algorithm) algorithm;
    else
        want_everywhere(algorithm, wanted);
    return 0;
}

int rg_algorithms_parse(const char *what, const char *text,
                        enum rg_algorithm wanted[RG_MODEL_NKINDS], struct rg_error *err)
{
    enum rg_algorithm found[RG_MODEL_NKINDS];

    memcpy(found, wanted, sizeof(found));
    while (*text) {
        size_t length = strcspn(text, ",");
        char word[WORD_NBYTES];

        snprintf(word, sizeof(word), "%.*s", (int) at_most(length, sizeof(word) - 1), text);
        if (parse_want(what, text, word, found, err) < 0)
            return -EINVAL;
        text += length + (text[length] == ',');
    }
    memcpy(wanted, found, sizeof(found));
    return 0;
}

/* ------------------------------------------------------------ the file */

static const struct field *find_field(const char *name)
{
    for (size_t i = 0; i < rg_array_len(fields); i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static int parse_line(const char *what, int number, const char *line, struct rg_model *model,
                      struct rg_error *err)
{
    char name[LINE_NBYTES], value[LINE_NBYTES], more[LINE_NBYTES], place[160];
    const struct field *field;
    int64_t n;

    line = rg_str_word(line, name, sizeof(name));
    if (!name[0] || name[0] == '#')
        return 0;
    field = find_field(name);
    if (!field)
        return rg_error_set(err, EINVAL, "%s, line %d: %.80s is no parameter of the model", what,
                            number, name);
    line = rg_str_word(line, value, sizeof(value));
    rg_str_word(line, more, sizeof(more));
    if (more[0] && more[0] != '#')
        return rg_error_set(err, EINVAL, "%s, line %d: \"%.80s\" after the value of %s", what,
                            number, more, name);
    snprintf(place, sizeof(place), "%.80s, line %d: %s", what, number, field->name);
    if (rg_parse_int(place, value, field->min, field->max, &n, err) < 0)
        return -EINVAL;
    *(uint32_t *) (void *) ((char *) model + field->at) = (uint32_t) n;
    return 0;
}

int rg_model_parse(const char *what, const char *text, struct rg_model *model, struct rg_error *err)
{
    struct rg_model found = *model;

    for (int number = 1; *text; number++) {
        size_t length = strcspn(text, "\n");
        char line[LINE_NBYTES];

        if (length >= sizeof(line))
            return rg_error_set(err, EINVAL, "%s, line %d: it is longer than %d bytes", what,
                                number, LINE_NBYTES - 1);
        snprintf(line, sizeof(line), "%.*s", (int) length, text);
        if (parse_line(what, number, line, &found, err) < 0)
            return -EINVAL;
        text += length + (text[length] == '\n');
    }
    *model = found;
    return 0;
}

int rg_model_read(const char *path, struct rg_model *model, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    int r = rg_read_named("the model's file", path, RG_MODEL_FILE_MAX, &text, NULL, err);

    return r < 0 ? r : rg_model_parse(path, text, model, err);
}

void rg_model_format(const struct rg_model *model, struct rg_buf *text)
{
    rg_buf_printf(text, "# Reigen's model of a network (docs/model.md)\n");
    for (size_t i = 0; i < rg_array_len(fields); i++) {
        const void *at = (const char *) model + fields[i].at;

        rg_buf_printf(text, "%-16s %10u%s%s\n", fields[i].name, *(const uint32_t *) at,
                      fields[i].what[0] ? "   # " : "", fields[i].what);
    }
}
