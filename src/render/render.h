/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests for what others run on Kubernetes: an operator, or the cluster alone. A format is a
 * table of parameters and a function that makes objects of their values; it is one file here and
 * one line of formats.c. `reigen render` (cmd/render) prints what it makes. Nothing of Reigen's
 * runs in it.
 *
 *   formats.c            the table of formats
 *   values.c             the parameters of a command line, judged by the format's table
 *   kubeflow_openmpi.c   Kubeflow's prototype "openmpi"
 *   mpijob.c             an MPIJob of mpi-operator
 *
 * Thread rule: any thread; the tables are constant. Nothing blocks, and nothing is printed.
 */
#ifndef RG_RENDER_RENDER_H
#define RG_RENDER_RENDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define RG_RENDER_PARAMS_MAX 64
#define RG_RENDER_VALUES_MAX 256 /* on one command line */

/* What a value must be. What is none is refused with the parameter's name and the value. */
enum rg_render_kind {
    RG_RENDER_TEXT,     /* anything in UTF-8 */
    RG_RENDER_NUMBER,   /* min to max */
    RG_RENDER_FLAG,     /* no value: it is there or not; given as "true" */
    RG_RENDER_BOOL,     /* "true" or "false", in any case */
    RG_RENDER_NAME,     /* a DNS label, of at most max characters, 63 where max is 0 */
    RG_RENDER_OBJECT,   /* an object's name: labels with dots between them */
    RG_RENDER_IMAGE,    /* a container image: no blank in it */
    RG_RENDER_QUANTITY, /* "500m", "8Gi" */
    RG_RENDER_CHOICE,   /* one of choices */
    RG_RENDER_WORDS,    /* "a,b": none of them empty */
    RG_RENDER_PAIRS,    /* "k=v,k=v": no key empty, none twice */
    RG_RENDER_LIST,     /* YAML or JSON: a list of mappings */
    RG_RENDER_MAP,      /* YAML or JSON: a mapping */
};

struct rg_render_param {
    const char *name; /* "initTimeout"; ends the table when NULL */
    enum rg_render_kind kind;
    bool required;
    bool many;           /* may be repeated, and all values count; else the last one does */
    int64_t min, max;
    const char *choices; /* with blanks between them */
    const char *arg;     /* what the value is called in --describe; NULL: the name */
    const char *initial; /* the default in --describe; NULL: "null" */
    const char *help;    /* sentences */
};

struct rg_render_values;

struct rg_render_format {
    const char *name;    /* "kubeflow-openmpi"; ends the table when NULL */
    const char *summary; /* one sentence */
    const char *about;   /* a paragraph */
    bool command;        /* it takes "-- COMMAND..." */
    size_t name_max;     /* characters of NAME, the objects' name: a DNS label */
    const struct rg_render_param *params;
    /* Append the objects, in the order in which they are to be made, to objects, an array. values
     * are judged already, each for itself. 0, -EINVAL with err (exit code 2), or -ENOMEM. */
    int (*make)(const struct rg_render_values *values, json_t *objects, struct rg_error *err);
};

/* All formats. Constant. */
extern const struct rg_render_format rg_render_formats[];

/* What a command line says: `FORMAT [NAME] [--PARAMETER VALUE]... [-- COMMAND...]`. Every text is
 * borrowed from argv; nothing is to be freed. */
struct rg_render_values {
    const struct rg_render_format *format;
    const char *name;     /* NAME, or --name */
    const char *output;   /* of -o FILE, --output FILE; NULL: none */
    bool describe, help;  /* of --describe, --help; then it is judged no further */
    char **command;       /* behind "--", ended by NULL; NULL: there is none */
    size_t count;
    struct {
        int param; /* its place in the table */
        const char *text;
    } given[RG_RENDER_VALUES_MAX];
};

/* Read argv[0..argc), which begins behind FORMAT. "null" is no value, as with ks; and one dash is
 * as good as two. 0 and all of *ret; or -EINVAL with exit code 2: a parameter that is not in the
 * table (with the nearest that is), a wrong value, one that is missing, no name. */
int rg_render_read(const struct rg_render_format *format, int argc, char **argv,
                   struct rg_render_values *ret, struct rg_error *err);

/* The last value of a parameter, or NULL. The name must be in the table. */
const char *rg_render_text(const struct rg_render_values *values, const char *param);
/* The value number n, from 0, of one that may be repeated; NULL: there are not so many. */
const char *rg_render_nth(const struct rg_render_values *values, const char *param, size_t n);
/* A number, or fallback where none is given. */
int64_t rg_render_number(const struct rg_render_values *values, const char *param,
                         int64_t fallback);
/* A FLAG or a BOOL. */
bool rg_render_flag(const struct rg_render_values *values, const char *param);
/* WORDS as an array, PAIRS as an object of texts, LIST and MAP as they are; of one that may be
 * repeated, all values together. The caller's; NULL: none is given, or no memory. */
json_t *rg_render_tree(const struct rg_render_values *values, const char *param);

#endif
