/* SPDX-License-Identifier: Apache-2.0 */
/* The file may be another person's, or have been edited: each value is looked at. */
#include "cmd/simulate/modelfile.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "head/console/json.h"

#define VERSION 1
#define MS 1e3
#define COMPUTE_MS_MAX 1e8
#define NBYTES_MAX 1e15
#define RANKS_MAX 4096 /* as of --np */

/* --- writing ---------------------------------------------------------------------------------- */

static json_t *op_json(const struct rg_profile_op *op)
{
    return json_pack("{s:o, s:s, s:o, s:I, s:f, s:b}", "name", rg_json_text(op->name), "kind",
                     op->kind, "type", rg_json_text(op->type), "bytes", (json_int_t) op->nbytes,
                     "compute_ms", op->compute_s * MS, "waits", op->waits);
}

void rg_modelfile_put(struct rg_buf *text, const struct rg_modelfile *file)
{
    const struct rg_profile *profile = &file->profile;
    json_t *ops = json_array();

    for (size_t i = 0; i < profile->nops; i++)
        json_array_append_new(ops, op_json(&profile->ops[i]));
    rg_json_put(text, json_pack("{s:i, s:o, s:i, s:i, s:f, s:f, s:o}", "reigen_model", VERSION,
                                "name", rg_json_text(file->name), "ranks", file->nranks, "steps",
                                profile->nsteps, "step_ms", profile->step_s * MS, "deviation",
                                profile->deviation, "operations", ops),
                JSON_INDENT(1) | JSON_REAL_PRECISION(9));
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Below 0: it is no number from 0 to max. */
static double number_of(const json_t *object, const char *name, double max)
{
    const json_t *value = json_object_get(object, name);
    double number = json_number_value(value);

    return json_is_number(value) && isfinite(number) && number >= 0 && number <= max ? number : -1;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static int refuse(struct rg_error *err, size_t i, const char *member)
{
    return rg_error_set(err, EINVAL, "\"%s\" of operation %zu is missing, or out of its range",
                        member, i + 1);
}

static int read_op(const json_t *from, size_t i, struct rg_profile *profile, struct rg_error *err)
{
    struct rg_profile_op *op = &profile->ops[i];
    double nbytes = number_of(from, "bytes", NBYTES_MAX);
    double compute_ms = number_of(from, "compute_ms", COMPUTE_MS_MAX);
    const char *kind = text_of(from, "kind"), *type = text_of(from, "type");

    if (nbytes < 0)
        return refuse(err, i, "bytes");
    if (compute_ms < 0)
        return refuse(err, i, "compute_ms");
    if (!*kind || strlen(kind) >= sizeof(op->kind))
        return refuse(err, i, "kind");
    if (!*type || strlen(type) >= sizeof(op->type))
        return refuse(err, i, "type");
    *op = (struct rg_profile_op){ .name = strdup(text_of(from, "name")),
                                  .nbytes = (uint64_t) nbytes, .compute_s = compute_ms / MS,
                                  .waits = json_is_true(json_object_get(from, "waits")) };
    strcpy(op->kind, kind);
    strcpy(op->type, type);
    profile->nops++;
    profile->compute_s += op->compute_s;
    return op->name ? 0 : rg_error_memory(err);
}

static int read_all(const json_t *root, struct rg_modelfile *file, struct rg_error *err)
{
    const json_t *version = json_object_get(root, "reigen_model");
    const json_t *ops = json_object_get(root, "operations");
    size_t n = json_array_size(ops);
    int r = 0;

    if (!json_is_integer(version))
        return rg_error_set(err, EINVAL, "it is no model of reigen simulate --save");
    if (json_integer_value(version) != VERSION)
        return rg_error_set(err, EINVAL, "it is a model of version %lld, and this reigen reads %d",
                            (long long) json_integer_value(version), VERSION);
    if (n == 0 || n > RG_PROFILE_OPS_MAX)
        return rg_error_set(err, EINVAL, "it has %zu operations; a step has 1 to %d", n,
                            RG_PROFILE_OPS_MAX);
    snprintf(file->name, sizeof(file->name), "%s", text_of(root, "name"));
    file->nranks = (int) fmax(number_of(root, "ranks", RANKS_MAX), 1);
    file->profile.nsteps = (int) fmax(number_of(root, "steps", RG_PROFILE_STEPS_MAX), 0);
    file->profile.step_s = fmax(number_of(root, "step_ms", COMPUTE_MS_MAX), 0) / MS;
    file->profile.deviation = fmax(number_of(root, "deviation", 1e3), 0);
    file->profile.ops = calloc(n, sizeof(*file->profile.ops));
    if (!file->profile.ops)
        return rg_error_memory(err);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = read_op(json_array_get(ops, i), i, &file->profile, err);
    if (r == 0)
        file->profile.ops[0].waits = true;
    return r;
}

int rg_modelfile_parse(const char *text, struct rg_modelfile *ret_file, struct rg_error *err)
{
    struct rg_modelfile file = { .nranks = 1 };
    json_error_t where;
    json_t *root = json_loads(text, 0, &where);
    int r = root ? read_all(root, &file, err)
                 : rg_error_set(err, EINVAL, "line %d: %s", where.line, where.text);

    json_decref(root);
    if (r < 0)
        rg_modelfile_fini(&file);
    else
        *ret_file = file;
    return r;
}

int rg_modelfile_read(const char *path, struct rg_modelfile *ret_file, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    int r = rg_read_named("--model", path, RG_MODELFILE_MAX, &text, NULL, err);

    if (r < 0)
        return r;
    r = rg_modelfile_parse(text, ret_file, err);
    return r < 0 ? rg_error_prepend(err, "--model %.200s", path) : 0;
}

void rg_modelfile_fini(struct rg_modelfile *file)
{
    rg_profile_fini(&file->profile);
}
