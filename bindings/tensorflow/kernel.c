/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes are read and names are made once for a kernel, not at each run. */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096 /* of a name, as TensorFlow gives it */
#define KEPT_NBYTES (NAME_MAX_NBYTES - 20)

/* Eager runs without a name so far, in one process set, by kind of operation. */
struct count {
    int process_set;
    unsigned runs[REIGEN_REDUCESCATTER + 1];
};

/* The members of a set count alike, whatever the other ranks do. */
static struct {
    pthread_mutex_t lock;
    struct count *counts; /* in no order */
    int n;
} unnamed = { .lock = PTHREAD_MUTEX_INITIALIZER };

int rg_tf_dtype(int tf_dtype)
{
    /* Those with a name are not known to the runtime, which is told it. Numbers of four bits and
     * two lie in a byte each. */
    static const struct {
        const char *name;
        int nbytes, dtype; /* dtype: of its parts, where it has a name; -1: none */
    } types[] = {
        [TF_FLOAT] = { NULL, 4, REIGEN_FLOAT32 },
        [TF_DOUBLE] = { NULL, 8, REIGEN_FLOAT64 },
        [TF_INT32] = { NULL, 4, REIGEN_INT32 },
        [TF_UINT8] = { NULL, 1, REIGEN_UINT8 },
        [TF_INT16] = { NULL, 2, REIGEN_INT16 },
        [TF_INT8] = { NULL, 1, REIGEN_INT8 },
        [TF_INT64] = { NULL, 8, REIGEN_INT64 },
        [TF_BOOL] = { NULL, 1, REIGEN_BOOL },
        [TF_BFLOAT16] = { NULL, 2, REIGEN_BFLOAT16 },
        [TF_UINT16] = { NULL, 2, REIGEN_UINT16 },
        [TF_HALF] = { NULL, 2, REIGEN_FLOAT16 },
        [TF_COMPLEX64] = { "complex64", 8, REIGEN_FLOAT32 },
        [TF_COMPLEX128] = { "complex128", 16, REIGEN_FLOAT64 },
        [TF_QINT8] = { "qint8", 1, -1 },
        [TF_QUINT8] = { "quint8", 1, -1 },
        [TF_QINT32] = { "qint32", 4, -1 },
        [TF_QINT16] = { "qint16", 2, -1 },
        [TF_QUINT16] = { "quint16", 2, -1 },
        [TF_UINT32] = { "uint32", 4, -1 },
        [TF_UINT64] = { "uint64", 8, -1 },
        [TF_FLOAT8_E5M2] = { "float8_e5m2", 1, -1 },
        [TF_FLOAT8_E4M3FN] = { "float8_e4m3fn", 1, -1 },
        [TF_FLOAT8_E4M3FNUZ] = { "float8_e4m3fnuz", 1, -1 },
        [TF_FLOAT8_E4M3B11FNUZ] = { "float8_e4m3b11fnuz", 1, -1 },
        [TF_FLOAT8_E5M2FNUZ] = { "float8_e5m2fnuz", 1, -1 },
        [TF_INT4] = { "int4", 1, -1 },
        [TF_UINT4] = { "uint4", 1, -1 },
        [TF_INT2] = { "int2", 1, -1 },
        [TF_UINT2] = { "uint2", 1, -1 },
    };
    int dtype = -1;

    if (tf_dtype < 0 || (size_t) tf_dtype >= sizeof(types) / sizeof(types[0]) ||
        !types[tf_dtype].nbytes)
        return -1;
    if (!types[tf_dtype].name)
        return types[tf_dtype].dtype;
    return reigen_type_add(types[tf_dtype].name, (size_t) types[tf_dtype].nbytes,
                           types[tf_dtype].dtype, &dtype) < 0 ? -1 : dtype;
}

/* ---- attributes; a failure stays in status */

static bool good(const TF_Status *status)
{
    return TF_GetCode(status) == TF_OK;
}

static int get_int(TF_OpKernelConstruction *ctx, const char *name, TF_Status *status)
{
    int64_t value = 0;

    if (good(status))
        TF_OpKernelConstruction_GetAttrInt64(ctx, name, &value, status);
    return (int) value;
}

static double get_float(TF_OpKernelConstruction *ctx, const char *name, TF_Status *status)
{
    float value = 0;

    if (good(status))
        TF_OpKernelConstruction_GetAttrFloat(ctx, name, &value, status);
    return (double) value;
}

/* Into ret, which is terminated; what does not fit is left out. */
static void get_text(TF_OpKernelConstruction *ctx, const char *name, char *ret, size_t room,
                     TF_Status *status)
{
    memset(ret, 0, room);
    if (good(status))
        TF_OpKernelConstruction_GetAttrString(ctx, name, ret, room - 1, status);
}

/* What Python spells out where 32 bits do not hold it: "prescale postscale", in hexadecimal. */
static void get_factors(TF_OpKernelConstruction *ctx, struct reigen_options *options,
                        TF_Status *status)
{
    char text[128], *end;

    options->prescale = get_float(ctx, "prescale_factor", status);
    options->postscale = get_float(ctx, "postscale_factor", status);
    get_text(ctx, "factors", text, sizeof(text), status);
    if (text[0]) {
        options->prescale = strtod(text, &end);
        options->postscale = strtod(end, NULL);
    }
}

/* ---- names */

/* A name that is too long keeps its beginning, and a digest of the whole. */
static void set_name(struct kernel *kernel, const char *text, size_t nbytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    if (nbytes <= NAME_MAX_NBYTES) {
        memcpy(kernel->name, text, nbytes);
        kernel->name[nbytes] = 0;
        return;
    }
    for (size_t i = 0; i < nbytes; i++)
        h = (h ^ (uint8_t) text[i]) * UINT64_C(0x100000001b3);
    memcpy(kernel->name, text, KEPT_NBYTES);
    snprintf(kernel->name + KEPT_NBYTES, sizeof(kernel->name) - KEPT_NBYTES, "#%016llx",
             (unsigned long long) h);
}

/* How many bytes a path's component has that TensorFlow has put in when it took a condition or a
 * loop apart ("/_79" of "cond/then/_79/x"); 0: this is none. The number is that of a place in the
 * graph, which may be another one on each rank; without it the path is as unique. */
static size_t numbered(const char *text, const char *end)
{
    const char *at = text + 2;

    if (end - text < 4 || text[0] != '/' || text[1] != '_')
        return 0;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at > text + 2 && at < end && *at == '/' ? (size_t) (at - text) : 0;
}

static void set_name_of_node(struct kernel *kernel, TF_StringView node, TF_Status *status)
{
    const char *at = node.data, *end = node.data + node.len;
    char *text = malloc(node.len + 1);
    size_t n = 0;

    if (!text) {
        TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    while (at < end) {
        at += numbered(at, end);
        text[n++] = *at++;
    }
    set_name(kernel, text, n);
    free(text);
}

/* In eager mode a node is called as its type is. */
static void choose_name(struct kernel *kernel, TF_OpKernelConstruction *ctx, TF_Status *status)
{
    TF_StringView node = TF_OpKernelConstruction_GetName(ctx);
    unsigned char ignore_scope = 0;
    char text[TEXT_MAX];

    get_text(ctx, "tensor_name", text, sizeof(text), status);
    if (good(status))
        TF_OpKernelConstruction_GetAttrBool(ctx, "ignore_name_scope", &ignore_scope, status);
    kernel->named = true;
    if (text[0]) {
        kernel->eager = true;
        set_name(kernel, text, strlen(text));
        return;
    }
    if (node.len == strlen(kernel->def->type) &&
        memcmp(node.data, kernel->def->type, node.len) == 0) {
        kernel->eager = true;
        kernel->named = false;
    }
    for (size_t i = node.len; ignore_scope && i > 0; i--) {
        if (node.data[i - 1] == '/') {
            node.data += i;
            node.len -= i;
            break;
        }
    }
    set_name_of_node(kernel, node, status);
}

/* With the lock held. NULL when out of memory. */
static struct count *find_count(int process_set)
{
    struct count *grown;

    for (int i = 0; i < unnamed.n; i++) {
        if (unnamed.counts[i].process_set == process_set)
            return &unnamed.counts[i];
    }
    grown = realloc(unnamed.counts, (size_t) (unnamed.n + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    unnamed.counts = grown;
    grown[unnamed.n] = (struct count){ .process_set = process_set };
    return &grown[unnamed.n++];
}

/* The turn of this run among those without a name. */
static unsigned take_turn(const struct kernel *kernel)
{
    struct count *count;
    unsigned turn = 0;

    pthread_mutex_lock(&unnamed.lock);
    count = find_count(kernel->options.process_set);
    if (count)
        turn = count->runs[kernel->def->kind]++;
    pthread_mutex_unlock(&unnamed.lock);
    return turn % UNNAMED_RING;
}

unsigned rg_tf_kernel_name(struct kernel *kernel, char ret_name[NAME_MAX_NBYTES + 1])
{
    unsigned slot;

    if (kernel->named) {
        memcpy(ret_name, kernel->name, sizeof(kernel->name));
        return 0;
    }
    if (!reigen_is_initialized()) {
        strcpy(ret_name, kernel->name); /* nothing will be submitted: it does not count */
        return 0;
    }
    slot = take_turn(kernel);
    snprintf(ret_name, NAME_MAX_NBYTES + 1, "%s.noname.%u", kernel->def->type, slot);
    return slot;
}

REIGEN_API void reigen_tensorflow_reset(void)
{
    pthread_mutex_lock(&unnamed.lock);
    unnamed.n = 0;
    pthread_mutex_unlock(&unnamed.lock);
}

REIGEN_API void reigen_tensorflow_joined(void)
{
    pthread_mutex_lock(&unnamed.lock);
    for (int i = 0; i < unnamed.n; i++) {
        if (unnamed.counts[i].process_set == 0)
            unnamed.counts[i] = (struct count){ .process_set = 0 };
    }
    pthread_mutex_unlock(&unnamed.lock);
}

/* ---- life */

static void read_attrs(struct kernel *kernel, TF_OpKernelConstruction *ctx, TF_Status *status)
{
    int kind = kernel->def->kind;

    if (kind == REIGEN_JOIN)
        return;
    choose_name(kernel, ctx, status);
    kernel->options.process_set = get_int(ctx, "process_set_id", status);
    if (kind == REIGEN_BROADCAST)
        kernel->options.root = get_int(ctx, "root_rank", status);
    if (kernel->def->agrees) {
        kernel->options.op = REIGEN_MAX;
        kernel->agreement = rg_tf_agree_create(ctx, status);
    } else if (kind == REIGEN_ALLREDUCE || kind == REIGEN_REDUCESCATTER) {
        kernel->options.op = get_int(ctx, "reduce_op", status);
        get_factors(ctx, &kernel->options, status);
    }
}

struct kernel *rg_tf_kernel_create(const struct op_def *def, TF_OpKernelConstruction *ctx)
{
    struct kernel *kernel = calloc(1, sizeof(*kernel));
    TF_Status *status = TF_NewStatus();

    if (kernel) {
        kernel->def = def;
        kernel->options = (struct reigen_options) REIGEN_OPTIONS_INIT;
        pthread_mutex_init(&kernel->lock, NULL);
        read_attrs(kernel, ctx, status);
    } else {
        TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (!good(status)) {
        TF_OpKernelConstruction_Failure(ctx, status);
        rg_tf_kernel_destroy(kernel);
        kernel = NULL;
    }
    TF_DeleteStatus(status);
    return kernel;
}

void rg_tf_kernel_destroy(void *arg)
{
    struct kernel *kernel = arg;

    if (!kernel)
        return;
    rg_tf_eager_free(kernel);
    rg_tf_agree_free(kernel->agreement);
    pthread_mutex_destroy(&kernel->lock);
    free(kernel);
}
