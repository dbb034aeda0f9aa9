/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of XLA's foreign function interface the JAX binding uses, declared anew.
 *
 * XLA calls a handler for each run of a custom call, with one call frame: arguments, results and
 * attributes as arrays of pointers, each with a parallel array that says what the pointers mean.
 * All memory of a frame is XLA's and lives until the handler has returned, or, where the handler
 * sets `future`, until that is completed. A handler returns NULL or an error that it has made with
 * error_create; XLA destroys it.
 *
 * Versions: the layouts are those of versions 0.1 to 0.3 (xla/ffi/api/c_api.h, which jaxlib and
 * TensorFlow carry in their include folders). Every structure begins with its size, so a field that
 * came later is there only when the size says so: see XLA_HAS. Fields beyond those used here are
 * left out at the end of structures and kept in the middle of them.
 *
 * Before a target is used XLA asks it for its version, by a call whose frame carries a metadata
 * extension; such a call has no arguments and must do nothing else.
 */
#ifndef REIGEN_JAX_XLA_FFI_H
#define REIGEN_JAX_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

#define XLA_FFI_MAJOR 0 /* a change of it breaks layouts */
#define XLA_FFI_MINOR_OLDEST 1
#define XLA_EXTENSION_METADATA 1
#define XLA_STAGE_EXECUTE 3
/* Of a handler that puts the same work on its stream in each run, so that XLA may record it once,
 * in a command buffer (a CUDA graph), and run that instead of the handler. */
#define XLA_TRAIT_COMMAND_BUFFER 1u

/* Is this field of a structure that XLA has filled within its size? */
#define XLA_HAS(object, field)                                                                     \
    ((object)->struct_size >= (size_t) ((const char *) (&(object)->field + 1) -                    \
                                        (const char *) (object)))

/* What a pointer of a frame's arrays points to. */
enum { XLA_BUFFER = 1 };
enum { XLA_ATTR_SCALAR = 3, XLA_ATTR_STRING = 4 };

/* Element types, with the numbers of xla::PrimitiveType. */
enum xla_dtype {
    XLA_PRED = 1,
    XLA_S8 = 2,
    XLA_S16 = 3,
    XLA_S32 = 4,
    XLA_S64 = 5,
    XLA_U8 = 6,
    XLA_U16 = 7,
    XLA_U32 = 8,
    XLA_U64 = 9,
    XLA_F16 = 10,
    XLA_F32 = 11,
    XLA_F64 = 12,
    XLA_C64 = 15,
    XLA_BF16 = 16,
    XLA_TOKEN = 17, /* no data: it orders calls */
    XLA_C128 = 18,
    XLA_F8E5M2 = 19,
    XLA_F8E4M3FN = 20,
    XLA_F8E4M3B11FNUZ = 23,
    XLA_F8E5M2FNUZ = 24,
    XLA_F8E4M3FNUZ = 25,
    XLA_F8E4M3 = 28,
    XLA_F8E3M4 = 29,
    XLA_F8E8M0FNU = 33,
};

/* Kinds of errors, with the numbers of absl::StatusCode; the kind's name opens the text that Python
 * sees. */
enum xla_code {
    XLA_CANCELLED = 1,
    XLA_UNKNOWN = 2,
    XLA_INVALID_ARGUMENT = 3,
    XLA_DEADLINE_EXCEEDED = 4,
    XLA_ALREADY_EXISTS = 6,
    XLA_RESOURCE_EXHAUSTED = 8,
    XLA_FAILED_PRECONDITION = 9,
    XLA_UNAVAILABLE = 14,
};

struct xla_error;   /* opaque */
struct xla_future;  /* opaque: the end of a call that outlives its handler */
struct xla_context; /* opaque */

struct xla_extension {
    size_t struct_size;
    int type; /* XLA_EXTENSION_* */
    struct xla_extension *next;
};

struct xla_version {
    size_t struct_size;
    struct xla_extension *extensions;
    int major;
    int minor;
};

/* Asked for through an extension; the handler fills in the version and the traits. */
struct xla_metadata {
    size_t struct_size;
    struct xla_version version;
    uint32_t traits; /* XLA_TRAIT_*; XLA has put 0 there */
};

struct xla_metadata_extension {
    struct xla_extension base;
    struct xla_metadata *metadata;
};

/* Not terminated by a zero byte. */
struct xla_span {
    const char *data;
    size_t nbytes;
};

struct xla_scalar {
    int dtype; /* enum xla_dtype */
    void *value;
};

/* A dense, row-major array; `dims` has `ndim` entries, in elements. */
struct xla_buffer {
    size_t struct_size;
    struct xla_extension *extensions;
    int dtype; /* enum xla_dtype */
    void *data;
    int64_t ndim;
    int64_t *dims;
};

/* Arguments and results: `items[i]` is a struct xla_buffer where types[i] is XLA_BUFFER. */
struct xla_list {
    size_t struct_size;
    struct xla_extension *extensions;
    int64_t size;
    int *types;
    void **items;
};

/* Attributes, sorted by name: `items[i]` is a struct xla_scalar or struct xla_span. */
struct xla_attributes {
    size_t struct_size;
    struct xla_extension *extensions;
    int64_t size;
    int *types; /* XLA_ATTR_* */
    struct xla_span **names;
    void **items;
};

/* Each of XLA's functions takes one structure that begins so. */
struct xla_error_create_args {
    size_t struct_size;
    struct xla_extension *extensions;
    const char *message; /* copied */
    int code;            /* enum xla_code */
};

struct xla_future_create_args {
    size_t struct_size;
    struct xla_extension *extensions;
    struct xla_future *future; /* filled in by XLA */
};

struct xla_future_done_args {
    size_t struct_size;
    struct xla_extension *extensions;
    struct xla_future *future;
};

struct xla_future_error_args {
    size_t struct_size;
    struct xla_extension *extensions;
    struct xla_future *future;
    struct xla_error *error; /* XLA's from now on */
};

struct xla_stream_get_args {
    size_t struct_size;
    struct xla_extension *extensions;
    struct xla_context *context;
    void *stream; /* filled in by XLA: the platform's own, a CUstream on CUDA */
};

struct xla_device_get_args {
    size_t struct_size;
    struct xla_extension *extensions;
    struct xla_context *context;
    int32_t device; /* filled in by XLA: the platform's number in this process; -1: none */
};

/* XLA's functions, static in XLA; from any thread. Completing a future may run, on the calling
 * thread, everything that waited for it, which may be long and may call a handler again. */
struct xla_api {
    size_t struct_size;
    struct xla_extension *extensions;
    struct xla_version version;
    const void *internal;
    struct xla_error *(*error_create)(struct xla_error_create_args *args);
    void *unused[3]; /* errors' texts, registration */
    struct xla_error *(*stream_get)(struct xla_stream_get_args *args);
    void *unused_too[8]; /* types, state, memory, thread pool */
    struct xla_error *(*future_create)(struct xla_future_create_args *args);
    struct xla_error *(*future_set_available)(struct xla_future_done_args *args);
    struct xla_error *(*future_set_error)(struct xla_future_error_args *args);
    void *unused_run_id;
    struct xla_error *(*device_get)(struct xla_device_get_args *args);
};

struct xla_frame {
    size_t struct_size; /* does not count `future` */
    struct xla_extension *extensions;
    const struct xla_api *api;
    struct xla_context *context;
    int stage; /* XLA_STAGE_* */
    struct xla_list args;
    struct xla_list results;
    struct xla_attributes attributes;
    struct xla_future *future; /* set by a handler that goes on after it has returned; only where
                                  the API has the functions for it */
};

#endif
