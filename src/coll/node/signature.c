/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks must agree on, and the sentences of Horovod for where they do not. */
#include "coll/node/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHAPE_TEXT_MAX 400 /* 16 dimensions of 20 digits and their commas */
#define TYPE_TEXT_MAX (REIGEN_TYPE_NAME_MAX + 1)
#define PART_OF "()"

/* The names of requests as Horovod's messages write them. */
static const char *request_name(int kind)
{
    static const char *const names[] = { "ALLREDUCE", "ALLGATHER", "BROADCAST", "JOIN",
                                         "ADASUM",    "ALLTOALL",  "BARRIER",   "REDUCESCATTER" };

    return kind >= 0 && kind < (int) rg_array_len(names) ? names[kind] : "?";
}

static size_t element_nbytes(const struct rg_signature *sig)
{
    return rg_dtype_nbytes(sig->dtype) * rg_signature_parts(sig);
}

/* The shape as the sentences write it, "[2, 3]"; cut at room bytes. Returns text. */
static const char *shape_text(const struct rg_signature *sig, char *text, size_t room)
{
    size_t used = 0;

    used += (size_t) snprintf(text, room, "[");
    for (int i = 0; i < sig->ndim && i < REIGEN_NDIM_MAX && used < room; i++)
        used += (size_t) snprintf(text + used, room - used, "%s%" PRId64, i > 0 ? ", " : "",
                                  sig->shape[i]);
    if (used < room)
        snprintf(text + used, room - used, "]");
    return text;
}

/* What the caller makes of this operation, "BARRIER" of a type "BARRIER()"; else the request's
 * name. Returns text, or a constant. */
static const char *operation_name(const struct rg_signature *sig, char text[TYPE_TEXT_MAX])
{
    const char *end = strstr(sig->type, PART_OF);

    if (!end)
        return request_name(sig->kind);
    snprintf(text, TYPE_TEXT_MAX, "%.*s", (int) (end - sig->type), sig->type);
    return text;
}

static const char *type_name(const struct rg_signature *sig)
{
    const char *end = strstr(sig->type, PART_OF);

    if (end)
        return end + strlen(PART_OF);
    return sig->type[0] ? sig->type : rg_dtype_name(sig->dtype);
}

static int compare_operations(const struct rg_signature *a, int rank_a,
                              const struct rg_signature *b, int rank_b, struct rg_error *err)
{
    char text_a[TYPE_TEXT_MAX], text_b[TYPE_TEXT_MAX];
    const char *name_a = operation_name(a, text_a), *name_b = operation_name(b, text_b);

    if (strcmp(name_a, name_b) != 0)
        return rg_error_set(err, EINVAL,
                    "Mismatched operations: One rank did an %s, but another rank did an %s. (rank "
                    "%d: %s, rank %d: %s)",
                    name_a, name_b, rank_a, name_a, rank_b, name_b);
    if (a->kind == b->kind)
        return 0;
    return rg_error_set(err, EINVAL,
                "Mismatched %s tensor shapes: One rank sent a tensor that is small enough to go "
                "as an %s, but another rank sent a larger one. (rank %d: the %s, rank %d: the %s)",
                name_a, request_name(REIGEN_ALLREDUCE), rank_a,
                a->kind == REIGEN_ALLREDUCE ? "small one" : "larger one", rank_b,
                b->kind == REIGEN_ALLREDUCE ? "small one" : "larger one");
}

/* Two frameworks may give types of different sizes one name. */
static int compare_types(const struct rg_signature *a, int rank_a,
                         const struct rg_signature *b, int rank_b, struct rg_error *err)
{
    const char *type_a = type_name(a), *type_b = type_name(b);

    if (strcmp(type_a, type_b) != 0)
        return rg_error_set(err, EINVAL,
                    "Mismatched data types: One rank had type %s, but another rank had type %s. "
                    "(rank %d: %s, rank %d: %s)",
                    type_a, type_b, rank_a, type_a, rank_b, type_b);
    if (a->dtype == b->dtype && rg_signature_parts(a) == rg_signature_parts(b))
        return 0;
    return rg_error_set(err, EINVAL,
                "Mismatched data types: One rank had type %s of %zu bytes, but another rank had "
                "type %s of %zu bytes. (rank %d: %zu, rank %d: %zu)",
                type_a, element_nbytes(a), type_b, element_nbytes(b), rank_a, element_nbytes(a),
                rank_b, element_nbytes(b));
}

static int compare_shape(const struct rg_signature *a, int rank_a,
                         const struct rg_signature *b, int rank_b, struct rg_error *err)
{
    bool first_is_free = a->kind == REIGEN_ALLGATHER || a->kind == REIGEN_ALLTOALL;
    const char *op = request_name(a->kind);
    char shape_a[SHAPE_TEXT_MAX], shape_b[SHAPE_TEXT_MAX];

    if (first_is_free && a->ndim != b->ndim)
        return rg_error_set(err, EINVAL,
                    "Mismatched %s tensor shapes: One rank sent a tensor of rank %d, but another "
                    "rank sent a tensor of rank %d. (rank %d: %s, rank %d: %s)",
                    op, a->ndim, b->ndim, rank_a, shape_text(a, shape_a, sizeof(shape_a)),
                    rank_b, shape_text(b, shape_b, sizeof(shape_b)));
    for (int i = 1; first_is_free && i < a->ndim; i++)
        if (a->shape[i] != b->shape[i])
            return rg_error_set(err, EINVAL,
                        "Mismatched %s tensor shapes: One rank sent a tensor with dimension %d "
                        "equal to %" PRId64 ", but another rank sent a tensor with dimension %d "
                        "equal to %" PRId64 ". (rank %d: %s, rank %d: %s)",
                        op, i, a->shape[i], i, b->shape[i], rank_a,
                        shape_text(a, shape_a, sizeof(shape_a)), rank_b,
                        shape_text(b, shape_b, sizeof(shape_b)));
    if (first_is_free || (a->ndim == b->ndim &&
                          memcmp(a->shape, b->shape, a->ndim * sizeof(a->shape[0])) == 0))
        return 0;
    shape_text(a, shape_a, sizeof(shape_a));
    shape_text(b, shape_b, sizeof(shape_b));
    return rg_error_set(err, EINVAL,
                "Mismatched %s tensor shapes: One rank sent a tensor of shape %s, but another rank "
                "sent a tensor of shape %s. (rank %d: %s, rank %d: %s)",
                op, shape_a, shape_b, rank_a, shape_a, rank_b, shape_b);
}

static int compare_factors(const struct rg_signature *a, int rank_a,
                           const struct rg_signature *b, int rank_b, struct rg_error *err)
{
    if (memcmp(&a->prescale, &b->prescale, sizeof(a->prescale)) == 0 &&
        memcmp(&a->postscale, &b->postscale, sizeof(a->postscale)) == 0)
        return 0;
    return rg_error_set(err, EINVAL,
                "Mismatched prescale and/or postscale factors: One rank sent factors (%g, %g), but "
                "another rank sent factors (%g, %g). (rank %d: (%.17g, %.17g), rank %d: (%.17g, "
                "%.17g))",
                a->prescale, a->postscale, b->prescale, b->postscale, rank_a, a->prescale,
                a->postscale, rank_b, b->prescale, b->postscale);
}

static int compare_sets(const struct rg_signature *a, int rank_a,
                        const struct rg_signature *b, int rank_b, struct rg_error *err)
{
    if (a->process_set != b->process_set)
        return rg_error_set(err, EINVAL,
                    "Mismatched process sets: One rank used process set %d, but another rank used "
                    "process set %d. (rank %d: %d, rank %d: %d)",
                    a->process_set, b->process_set, rank_a, a->process_set, rank_b,
                    b->process_set);
    if (a->group_size != b->group_size)
        return rg_error_set(err, EINVAL,
                    "Mismatched groups: One rank sent a group of %d, but another rank sent a group "
                    "of %d. (rank %d: %d, rank %d: %d)",
                    a->group_size, b->group_size, rank_a, a->group_size, rank_b, b->group_size);
    return 0;
}

static int compare(const struct rg_signature *a, int rank_a, const struct rg_signature *b,
                   int rank_b, struct rg_error *err)
{
    int r;

    r = compare_operations(a, rank_a, b, rank_b, err);
    if (r < 0)
        return r;
    if (a->kind == REIGEN_BARRIER || a->kind == REIGEN_JOIN)
        return compare_sets(a, rank_a, b, rank_b, err);
    r = compare_types(a, rank_a, b, rank_b, err);
    if (r < 0)
        return r;
    if (a->memory != b->memory)
        return rg_error_set(err, EINVAL,
                    "Mismatched %s CPU/GPU device selection: One rank had a tensor in %s memory, "
                    "but another rank had one in %s memory. (rank %d: %s, rank %d: %s)",
                    request_name(a->kind), rg_memory_name(a->memory), rg_memory_name(b->memory),
                    rank_a, rg_memory_name(a->memory), rank_b, rg_memory_name(b->memory));
    if (a->op != b->op)
        return rg_error_set(err, EINVAL,
                    "Mismatched reduction operation: One rank sent reduction op %d, but another "
                    "rank sent reduction op %d. (rank %d: %s, rank %d: %s)",
                    a->op, b->op, rank_a, rg_op_name(a->op), rank_b, rg_op_name(b->op));
    r = compare_factors(a, rank_a, b, rank_b, err);
    if (r < 0)
        return r;
    if (a->repeats != b->repeats)
        return rg_error_set(err, EINVAL,
                    "Mismatched determinism: One rank asked for the same bits in each run "
                    "(REIGEN_DETERMINISTIC, or the framework's own switch), but another rank did "
                    "not. (rank %d: %s, rank %d: %s)",
                    rank_a, a->repeats ? "asked" : "not", rank_b, b->repeats ? "asked" : "not");
    if (a->root != b->root)
        return rg_error_set(err, EINVAL,
                    "Mismatched %s root ranks: One rank specified root rank %d, but another rank "
                    "specified root rank %d. (rank %d: %d, rank %d: %d)",
                    request_name(a->kind), a->root, b->root, rank_a, a->root, rank_b, b->root);
    r = compare_sets(a, rank_a, b, rank_b, err);
    if (r == 0)
        r = compare_shape(a, rank_a, b, rank_b, err);
    if (r == 0 && a->group_digest != b->group_digest)
        r = rg_error_set(err, EINVAL,
                 "Mismatched %s tensor shapes: One rank sent a group of %lld elements, but another "
                 "rank sent a group of %lld elements, or in other shapes. (rank %d: %lld, rank %d: "
                 "%lld)",
                 request_name(a->kind), (long long) a->group_count, (long long) b->group_count,
                 rank_a, (long long) a->group_count, rank_b, (long long) b->group_count);
    return r;
}

int rg_signature_compare(const char *name, const struct rg_signature *a, int rank_a,
                         const struct rg_signature *b, int rank_b, struct rg_error *err)
{
    int r = compare(a, rank_a, b, rank_b, err);

    return r < 0 && name && name[0] ? rg_error_prepend(err, "%s", name) : r;
}

const char *rg_key_name(const char *key)
{
    const char *dot = strchr(key, '.');

    return dot ? dot + 1 : key;
}

const char *rg_join_refusal(int kind)
{
    static const char *const texts[] = {
        [REIGEN_ALLGATHER] = "Allgather is not supported with Join at this time. Specify "
                             "sparse_to_dense=True if using DistributedOptimizer",
        [REIGEN_BROADCAST] = "Broadcast is not supported with Join at this time.",
        [REIGEN_ALLTOALL] = "Alltoall is not supported with Join at this time.",
        [REIGEN_REDUCESCATTER] = "Reducescatter is not supported with Join at this time." };

    return kind < (int) rg_array_len(texts) ? texts[kind] : NULL;
}

struct rg_scale rg_signature_scale(const struct rg_signature *sig, int size)
{
    struct rg_scale scale = { sig->prescale, sig->postscale, 1 };

    if (sig->op != REIGEN_AVERAGE)
        return scale;
    if (sig->dtype == REIGEN_FLOAT16 || sig->dtype == REIGEN_FLOAT32 ||
        sig->dtype == REIGEN_FLOAT64 || sig->dtype == REIGEN_BFLOAT16)
        scale.post /= size;
    else
        scale.divisor = size;
    return scale;
}

uint64_t rg_signature_nbytes(const struct rg_signature *sig)
{
    uint64_t nbytes = rg_dtype_nbytes(sig->dtype);
    bool bad = false;

    if (sig->kind == REIGEN_BARRIER || sig->kind == REIGEN_JOIN)
        return 0;
    if (sig->group_size > 0)
        return __builtin_mul_overflow(nbytes, (uint64_t) sig->group_count, &nbytes) ? UINT64_MAX
                                                                                    : nbytes;
    nbytes *= rg_signature_parts(sig);
    for (int i = 0; i < sig->ndim; i++)
        bad = bad || __builtin_mul_overflow(nbytes, (uint64_t) sig->shape[i], &nbytes);
    return bad ? UINT64_MAX : nbytes;
}

enum rg_repeat rg_signature_repeat(const struct rg_signature *sig)
{
    if (!sig->repeats)
        return RG_REPEAT_NOT;
    return rg_signature_nbytes(sig) <= RG_DIRECT_MAX ? RG_REPEAT_SMALL : RG_REPEAT_BY_SIZE;
}

bool rg_signatures_repeat_together(const struct rg_signature *a, const struct rg_signature *b)
{
    if (!a->repeats && !b->repeats)
        return true;
    return rg_signature_repeat(a) == RG_REPEAT_SMALL && rg_signature_repeat(b) == RG_REPEAT_SMALL &&
           a->op != REIGEN_ADASUM;
}

bool rg_signature_is_direct(const struct rg_signature *sig)
{
    bool reduces = sig->kind == REIGEN_ALLREDUCE && sig->op != REIGEN_ADASUM;

    return (reduces || sig->kind == REIGEN_BARRIER) && sig->memory == RG_MEMORY_HOST &&
           rg_signature_nbytes(sig) <= RG_DIRECT_MAX;
}

int rg_signature_check(const struct rg_signature *sig)
{
    if (sig->kind > REIGEN_REDUCESCATTER || sig->dtype >= REIGEN_NDTYPES ||
        sig->op > REIGEN_PRODUCT || sig->memory >= RG_NMEMORIES ||
        sig->ndim > REIGEN_NDIM_MAX || sig->root < 0 || sig->root >= REIGEN_SIZE_MAX ||
        sig->group_size < 0 || sig->group_count < 0 ||
        sig->nparts > REIGEN_TYPE_NBYTES_MAX)
        return -EINVAL;
    for (int i = 0; i < sig->ndim; i++)
        if (sig->shape[i] < 0)
            return -EINVAL;
    return 0;
}
