/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler that XLA calls for a collective.
 *
 * One target serves all collectives: its attributes say which, and how. Arguments and results are
 * parallel; an allreduce, allgather or reducescatter of several tensors of one element type is a
 * group of the runtime's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"

/* A small call is waited for by XLA's own thread, which drives it: two switches of threads would
 * cost more than the transfer. Bounded, so that it cannot be held up. */
#define SMALL_NBYTES (256 * 1024)
#define MOMENT_MS 1

struct request {
    int kind, count, dtype;
    int first; /* of the frame's arguments and results; before it a token, which orders calls */
    size_t nbytes;
    struct reigen_options options;
    char name[REIGEN_NAME_MAX + 1];
};

/* What a group's call takes, in one piece of memory. */
struct arrays {
    const void **ins;
    void **outs;
    const int64_t **shapes;
    const char **names;
    int *ndims;
    char *text;
};

REIGEN_API struct xla_error *reigen_jax_collective(struct xla_frame *frame);

/* As JAX names the types that the runtime does not reduce; numbers of less than a byte are not
 * among them, as XLA may pack them. */
static const struct {
    int xla, dtype, nbytes; /* dtype: of its parts, where it has a name; -1: none */
    const char *name;
} dtypes[] = {
    { XLA_PRED, REIGEN_BOOL, 1, NULL },
    { XLA_S8, REIGEN_INT8, 1, NULL },
    { XLA_S16, REIGEN_INT16, 2, NULL },
    { XLA_S32, REIGEN_INT32, 4, NULL },
    { XLA_S64, REIGEN_INT64, 8, NULL },
    { XLA_U8, REIGEN_UINT8, 1, NULL },
    { XLA_U16, REIGEN_UINT16, 2, NULL },
    { XLA_F16, REIGEN_FLOAT16, 2, NULL },
    { XLA_F32, REIGEN_FLOAT32, 4, NULL },
    { XLA_F64, REIGEN_FLOAT64, 8, NULL },
    { XLA_BF16, REIGEN_BFLOAT16, 2, NULL },
    { XLA_U32, -1, 4, "uint32" },
    { XLA_U64, -1, 8, "uint64" },
    { XLA_C64, REIGEN_FLOAT32, 8, "complex64" },
    { XLA_C128, REIGEN_FLOAT64, 16, "complex128" },
    { XLA_F8E5M2, -1, 1, "float8_e5m2" },
    { XLA_F8E4M3FN, -1, 1, "float8_e4m3fn" },
    { XLA_F8E4M3B11FNUZ, -1, 1, "float8_e4m3b11fnuz" },
    { XLA_F8E5M2FNUZ, -1, 1, "float8_e5m2fnuz" },
    { XLA_F8E4M3FNUZ, -1, 1, "float8_e4m3fnuz" },
    { XLA_F8E4M3, -1, 1, "float8_e4m3" },
    { XLA_F8E3M4, -1, 1, "float8_e3m4" },
    { XLA_F8E8M0FNU, -1, 1, "float8_e8m0fnu" },
};

static int dtype_find(int xla, int *ret_nbytes)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        int dtype = dtypes[i].dtype, r = 0;

        if (dtypes[i].xla != xla)
            continue;
        if (dtypes[i].name)
            r = reigen_type_add(dtypes[i].name, (size_t) dtypes[i].nbytes, dtype, &dtype);
        *ret_nbytes = dtypes[i].nbytes;
        return r < 0 ? r : dtype;
    }
    return -EINVAL;
}

static size_t buffer_nbytes(const struct xla_buffer *buffer)
{
    int element = 0;
    size_t n;

    if (dtype_find(buffer->dtype, &element) < 0)
        return 0;
    n = (size_t) element;
    for (int64_t d = 0; d < buffer->ndim; d++)
        n *= (size_t) buffer->dims[d];
    return n;
}

/* ---- reading the frame */

static const void *attribute(const struct xla_attributes *attributes, const char *name, int type)
{
    size_t n = strlen(name);

    for (int64_t i = 0; i < attributes->size; i++) {
        const struct xla_span *found = attributes->names[i];

        if (found->nbytes == n && memcmp(found->data, name, n) == 0)
            return attributes->types[i] == type ? attributes->items[i] : NULL;
    }
    return NULL;
}

static int read_int(const struct xla_attributes *attributes, const char *name, int *ret_value)
{
    const struct xla_scalar *scalar = attribute(attributes, name, XLA_ATTR_SCALAR);

    if (!scalar || scalar->dtype != XLA_S32)
        return -EINVAL;
    memcpy(ret_value, scalar->value, sizeof(*ret_value));
    return 0;
}

static int read_double(const struct xla_attributes *attributes, const char *name,
                       double *ret_value)
{
    const struct xla_scalar *scalar = attribute(attributes, name, XLA_ATTR_SCALAR);

    if (!scalar || scalar->dtype != XLA_F64)
        return -EINVAL;
    memcpy(ret_value, scalar->value, sizeof(*ret_value));
    return 0;
}

static int read_attributes(const struct xla_attributes *attributes, struct request *request)
{
    const struct xla_span *name = attribute(attributes, "name", XLA_ATTR_STRING);
    struct reigen_options *options = &request->options;

    if (!name || name->nbytes > REIGEN_NAME_MAX)
        return -EINVAL;
    memcpy(request->name, name->data, name->nbytes);
    request->name[name->nbytes] = '\0';
    *options = (struct reigen_options) REIGEN_OPTIONS_INIT;
    if (read_int(attributes, "kind", &request->kind) < 0 ||
        read_int(attributes, "op", &options->op) < 0 ||
        read_int(attributes, "root", &options->root) < 0 ||
        read_int(attributes, "process_set", &options->process_set) < 0 ||
        read_double(attributes, "prescale", &options->prescale) < 0 ||
        read_double(attributes, "postscale", &options->postscale) < 0)
        return -EINVAL;
    return 0;
}

static const struct xla_buffer *in_of(const struct xla_frame *frame, const struct request *request,
                                      int i)
{
    return frame->args.items[request->first + i];
}

static const struct xla_buffer *out_of(const struct xla_frame *frame, const struct request *request,
                                       int i)
{
    return frame->results.items[request->first + i];
}

static bool all_buffers(const struct xla_list *list)
{
    for (int64_t i = 0; i < list->size; i++) {
        if (list->types[i] != XLA_BUFFER)
            return false;
    }
    return true;
}

/* Arguments and results: as many of both, all buffers, perhaps a token, and then arrays of one
 * element type that we know. */
static int read_tensors(const struct xla_frame *frame, struct request *request)
{
    const struct xla_list *args = &frame->args;
    const struct xla_list *results = &frame->results;

    if (args->size < 1 || args->size > CALL_TENSORS_MAX || results->size != args->size ||
        !all_buffers(args) || !all_buffers(results))
        return -EINVAL;
    request->first = 0;
    request->first = in_of(frame, request, 0)->dtype == XLA_TOKEN;
    request->count = (int) args->size - request->first;
    request->nbytes = 0;
    for (int i = 0; i < request->count; i++) {
        const struct xla_buffer *in = in_of(frame, request, i), *out = out_of(frame, request, i);
        int element, dtype = dtype_find(in->dtype, &element);

        if (dtype < 0 || in->ndim > REIGEN_NDIM_MAX ||
            out->ndim > REIGEN_NDIM_MAX || out->dtype != in->dtype ||
            (i > 0 && dtype != request->dtype))
            return -EINVAL;
        request->dtype = dtype;
        request->nbytes += buffer_nbytes(in);
    }
    return request->count > 0 ? 0 : -EINVAL;
}

/* ---- submitting */

static int submit_one(const struct request *request, const struct xla_frame *frame, int i,
                      const char *name, reigen_handle *ret_handle)
{
    const struct xla_buffer *in = in_of(frame, request, i), *out = out_of(frame, request, i);
    const struct reigen_options *options = &request->options;
    int dtype = request->dtype, ndim = (int) in->ndim;

    switch (request->kind) {
    case REIGEN_ALLREDUCE:
        return reigen_allreduce_async(name, in->data, out->data, dtype, in->dims, ndim, options,
                                      ret_handle);
    case REIGEN_BROADCAST:
        return reigen_broadcast_async(name, in->data, out->data, dtype, in->dims, ndim, options,
                                      ret_handle);
    case REIGEN_ALLGATHER:
        return reigen_allgather_async(name, in->data, dtype, in->dims, ndim, options, ret_handle);
    case REIGEN_ALLTOALL:
        return reigen_alltoall_async(name, in->data, dtype, in->dims, ndim, NULL, 0, options,
                                     ret_handle);
    case REIGEN_REDUCESCATTER:
        return reigen_reducescatter_async(name, in->data, dtype, in->dims, ndim, options,
                                          ret_handle);
    default:
        return -EINVAL;
    }
}

static void name_member(const struct request *request, int i, char *ret_name, size_t size)
{
    char suffix[32];
    int n = snprintf(suffix, sizeof(suffix), "_%dof%d", i + 1, request->count);

    snprintf(ret_name, size, "%.*s%s", (int) size - 1 - n, request->name, suffix);
}

/* One by one, for the kinds that have no groups. On an error those submitted go on, with buffers of
 * XLA's: the call ends when they have. */
static int submit_each(const struct request *request, const struct xla_frame *frame,
                       struct call *call)
{
    for (int i = 0; i < request->count; i++) {
        char name[REIGEN_NAME_MAX + 1];
        int rc;

        name_member(request, i, name, sizeof(name));
        rc = submit_one(request, frame, i, name, &call->handles[i]);
        if (rc < 0)
            return rc;
        call->count++;
    }
    return 0;
}

static int arrays_init(struct arrays *arrays, size_t n)
{
    size_t pointers = 4 * n * sizeof(void *);
    char *memory = malloc(pointers + n * sizeof(int) + n * (REIGEN_NAME_MAX + 1));

    if (!memory)
        return -ENOMEM;
    arrays->ins = (const void **) (void *) memory;
    arrays->outs = (void **) (void *) memory + n;
    arrays->shapes = (const int64_t **) (void *) memory + 2 * n;
    arrays->names = (const char **) (void *) memory + 3 * n;
    arrays->ndims = (int *) (void *) (memory + pointers);
    arrays->text = memory + pointers + n * sizeof(int);
    return 0;
}

static int submit_group(const struct request *request, const struct xla_frame *frame,
                        struct call *call)
{
    struct arrays arrays;
    int rc = arrays_init(&arrays, (size_t) request->count);

    if (rc < 0)
        return rc;
    for (int i = 0; i < request->count; i++) {
        const struct xla_buffer *in = in_of(frame, request, i), *out = out_of(frame, request, i);
        char *name = arrays.text + (size_t) i * (REIGEN_NAME_MAX + 1);

        name_member(request, i, name, REIGEN_NAME_MAX + 1);
        arrays.names[i] = name;
        arrays.ins[i] = in->data;
        arrays.outs[i] = out->data;
        arrays.shapes[i] = in->dims;
        arrays.ndims[i] = (int) in->ndim;
    }
    rc = reigen_grouped_async(request->kind, request->count, arrays.names, arrays.ins, arrays.outs,
                              request->dtype, arrays.shapes, arrays.ndims, &request->options,
                              call->handles);
    free(arrays.ins);
    call->count = rc < 0 ? 0 : request->count;
    return rc;
}

static int submit(const struct request *request, const struct xla_frame *frame, struct call *call)
{
    int rc;

    if (request->count > 1 &&
        (request->kind == REIGEN_BROADCAST || request->kind == REIGEN_ALLTOALL))
        return submit_each(request, frame, call);
    if (request->count > 1)
        return submit_group(request, frame, call);
    rc = submit_one(request, frame, 0, request->name, &call->handles[0]);
    call->count = rc < 0 ? 0 : 1;
    return rc;
}

/* ---- waiting */

static int future_make(const struct xla_api *api, struct xla_future **ret_future)
{
    struct xla_future_create_args args = { sizeof(args), NULL, NULL };

    if (!XLA_HAS(api, future_set_error) || api->future_create(&args) != NULL)
        return -ENOSYS;
    *ret_future = args.future;
    return 0;
}

static struct xla_error *finish_here(struct call *call)
{
    struct xla_error *error;

    reigen_wait_all(call->count, call->handles, -1);
    error = call_finish(call, false);
    free(call);
    return error;
}

/* Look for a moment; then leave the rest to the finisher, or wait where XLA has no futures. */
static struct xla_error *wait_or_leave(struct xla_frame *frame, struct call *call, size_t nbytes)
{
    int moment_ms = nbytes <= SMALL_NBYTES && calls_in_flight() == 0 ? MOMENT_MS : 0;

    if (reigen_wait_all(call->count, call->handles, moment_ms) != -EAGAIN)
        return finish_here(call);
    if (finisher_start() < 0 || future_make(call->api, &call->future) < 0)
        return finish_here(call);
    frame->future = call->future;
    call_hand_over(call);
    return NULL;
}

/* ---- the handler */

bool call_is_metadata(struct xla_frame *frame)
{
    struct xla_extension *extension = frame->extensions;
    struct xla_metadata *metadata;

    if (!extension || extension->type != XLA_EXTENSION_METADATA)
        return false;
    metadata = ((struct xla_metadata_extension *) (void *) extension)->metadata;
    metadata->version.major = XLA_FFI_MAJOR;
    metadata->version.minor = XLA_FFI_MINOR_OLDEST;
    /* What is used here has not changed since the oldest version, so XLA's own one is right. */
    if (frame->api && frame->api->version.major == XLA_FFI_MAJOR &&
        frame->api->version.minor > XLA_FFI_MINOR_OLDEST)
        metadata->version.minor = frame->api->version.minor;
    if (XLA_HAS(metadata, traits))
        metadata->traits &= ~XLA_TRAIT_COMMAND_BUFFER; /* other ranks take part in each run */
    return true;
}

static struct call *call_create(const struct request *request, const struct xla_frame *frame)
{
    size_t n = (size_t) request->count;
    size_t nbytes = sizeof(struct call) + n * sizeof(reigen_handle);
    bool results = call_allocates(request->kind);
    struct call *call = calloc(1, nbytes + (results ? n * sizeof(struct result) : 0));

    if (!call)
        return NULL;
    call->api = frame->api;
    call->kind = request->kind;
    memcpy(call->name, request->name, sizeof(call->name));
    if (results)
        call->results = (struct result *) (void *) ((char *) call + nbytes);
    for (size_t i = 0; results && i < n; i++) {
        const struct xla_buffer *out = out_of(frame, request, (int) i);

        call->results[i].data = out->data;
        call->results[i].ndim = out->ndim;
        memcpy(call->results[i].dims, out->dims, (size_t) out->ndim * sizeof(out->dims[0]));
    }
    return call;
}

struct call *call_begin(struct xla_frame *frame, size_t *ret_nbytes, struct xla_error **ret_error)
{
    struct request request;
    struct call *call;
    int rc;

    *ret_error = NULL;
    if (read_attributes(&frame->attributes, &request) < 0 || read_tensors(frame, &request) < 0) {
        *ret_error = call_error(frame->api, -EINVAL, "a custom call that horovod.jax has not made");
        return NULL;
    }
    call = call_create(&request, frame);
    if (!call) {
        *ret_error = call_error(frame->api, -ENOMEM, "out of memory");
        return NULL;
    }
    rc = submit(&request, frame, call);
    if (rc < 0)
        call->error = call_error(frame->api, rc, reigen_last_error());
    if (call->count > 0) {
        *ret_nbytes = request.nbytes;
        return call;
    }
    *ret_error = call->error;
    free(call);
    return NULL;
}

struct xla_error *reigen_jax_collective(struct xla_frame *frame)
{
    struct xla_error *error;
    struct call *call;
    size_t nbytes;

    if (call_is_metadata(frame) || frame->stage != XLA_STAGE_EXECUTE)
        return NULL;
    call = call_begin(frame, &nbytes, &error);
    return call ? wait_or_leave(frame, call, nbytes) : error;
}
