/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of TensorFlow's C API the kernels use, declared anew: operations, kernels, tensors, status.
 * The headers of the same names are tensorflow/c/{ops,kernels,tf_tensor,tf_status}.h, which every
 * TensorFlow wheel carries in its include folder; the functions are in libtensorflow_framework.so.2
 * since 2.12 at the latest. A function that is added here must be added to framework.symbols.
 *
 * Ownership: what a TF_New function gives is freed by the TF_Delete function of the same type. A
 * tensor got from a context is a reference of the caller's to be dropped with TF_DeleteTensor; the
 * context keeps its own until the kernel is done. A TF_Status is the caller's; its message is valid
 * until it is set again.
 *
 * Threads: a context may be used from any thread, one at a time, until the kernel is done: for an
 * asynchronous one, until its callback has been run.
 */
#ifndef REIGEN_TENSORFLOW_TF_API_H
#define REIGEN_TENSORFLOW_TF_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct TF_Status TF_Status;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_ShapeHandle TF_ShapeHandle;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;
typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
typedef struct TF_OpKernelContext TF_OpKernelContext;
typedef struct TF_AsyncOpKernelDoneCallback TF_AsyncOpKernelDoneCallback;

/* Kinds of errors: those of absl::StatusCode. */
enum {
    TF_OK = 0,
    TF_UNKNOWN = 2,
    TF_INVALID_ARGUMENT = 3,
    TF_RESOURCE_EXHAUSTED = 8,
    TF_FAILED_PRECONDITION = 9
};

/* Element types: those of TensorFlow's types.proto. */
enum {
    TF_FLOAT = 1,
    TF_DOUBLE = 2,
    TF_INT32 = 3,
    TF_UINT8 = 4,
    TF_INT16 = 5,
    TF_INT8 = 6,
    TF_STRING = 7,
    TF_COMPLEX64 = 8,
    TF_INT64 = 9,
    TF_BOOL = 10,
    TF_QINT8 = 11,
    TF_QUINT8 = 12,
    TF_QINT32 = 13,
    TF_BFLOAT16 = 14,
    TF_QINT16 = 15,
    TF_QUINT16 = 16,
    TF_UINT16 = 17,
    TF_COMPLEX128 = 18,
    TF_HALF = 19,
    TF_UINT32 = 22,
    TF_UINT64 = 23,
    TF_FLOAT8_E5M2 = 24,
    TF_FLOAT8_E4M3FN = 25,
    TF_FLOAT8_E4M3FNUZ = 26,
    TF_FLOAT8_E4M3B11FNUZ = 27,
    TF_FLOAT8_E5M2FNUZ = 28,
    TF_INT4 = 29,
    TF_UINT4 = 30,
    TF_INT2 = 31,
    TF_UINT2 = 32
};

/* Not terminated by a zero byte. */
typedef struct {
    const char *data;
    size_t len;
} TF_StringView;

/* ---- status */

TF_Status *TF_NewStatus(void);
void TF_DeleteStatus(TF_Status *status);
void TF_SetStatus(TF_Status *status, int code, const char *message);
int TF_GetCode(const TF_Status *status);
const char *TF_Message(const TF_Status *status);

/* ---- operations: a definition is text, in the language of TensorFlow's OpDef */

TF_OpDefinitionBuilder *TF_NewOpDefinitionBuilder(const char *name);
void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder *builder, const char *spec);
void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder *builder, const char *spec);
void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder *builder, const char *spec);
/* Neither folded, merged with another one, nor left out. */
void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder *builder, bool stateful);
void TF_OpDefinitionBuilderSetShapeInferenceFunction(
    TF_OpDefinitionBuilder *builder, void (*fn)(TF_ShapeInferenceContext *ctx, TF_Status *status));
/* Takes the builder. */
void TF_RegisterOpDefinition(TF_OpDefinitionBuilder *take_builder, TF_Status *status);

/* ---- shapes, while a graph is made */

int64_t TF_ShapeInferenceContextNumInputs(TF_ShapeInferenceContext *ctx);
TF_ShapeHandle *TF_NewShapeHandle(void);
void TF_DeleteShapeHandle(TF_ShapeHandle *handle);
void TF_ShapeInferenceContextGetInput(TF_ShapeInferenceContext *ctx, int i, TF_ShapeHandle *handle,
                                      TF_Status *status);
void TF_ShapeInferenceContextSetOutput(TF_ShapeInferenceContext *ctx, int i,
                                       TF_ShapeHandle *handle, TF_Status *status);
TF_ShapeHandle *TF_ShapeInferenceContextScalar(TF_ShapeInferenceContext *ctx);
/* A size of (size_t) -1: not known. */
TF_ShapeHandle *TF_ShapeInferenceContextVectorFromSize(TF_ShapeInferenceContext *ctx, size_t size);
int TF_ShapeInferenceContextRankKnown(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle);
int64_t TF_ShapeInferenceContextRank(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle);
void TF_ShapeInferenceContextSubshape(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle,
                                      int64_t start, int64_t end, TF_ShapeHandle *result,
                                      TF_Status *status);
void TF_ShapeInferenceContextConcatenateShapes(TF_ShapeInferenceContext *ctx,
                                               TF_ShapeHandle *first, TF_ShapeHandle *second,
                                               TF_ShapeHandle *result, TF_Status *status);

/* ---- kernels: `create` gives what the other functions get as their first argument. It is called
 * once for each node of a graph, or each set of attributes in eager mode; `compute` for each run,
 * perhaps several at once. */

TF_KernelBuilder *TF_NewKernelBuilder(const char *op, const char *device,
                                      void *(*create)(TF_OpKernelConstruction *),
                                      void (*compute)(void *, TF_OpKernelContext *),
                                      void (*destroy)(void *));
/* `done` lives on the stack of the caller of compute: see done.cc. */
TF_KernelBuilder *TF_NewAsyncKernelBuilder(const char *op, const char *device,
                                           void *(*create)(TF_OpKernelConstruction *),
                                           void (*compute)(void *, TF_OpKernelContext *,
                                                           TF_AsyncOpKernelDoneCallback *done),
                                           void (*destroy)(void *));
/* This argument or result (by its name in the definition; a list as a whole) is in host memory:
 * TensorFlow itself copies from and to the device. */
void TF_KernelBuilder_HostMemory(TF_KernelBuilder *builder, const char *arg);
/* Takes the builder. */
void TF_RegisterKernelBuilder(const char *name, TF_KernelBuilder *take_builder, TF_Status *status);
void TF_RunAsyncOpKernelDoneCallback(TF_AsyncOpKernelDoneCallback *done);

void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction *ctx, TF_Status *status);
TF_StringView TF_OpKernelConstruction_GetName(TF_OpKernelConstruction *ctx);
/* total_size: of a string attribute, its bytes. */
void TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction *ctx, const char *name,
                                         int32_t *list_size, int32_t *total_size,
                                         TF_Status *status);
void TF_OpKernelConstruction_GetAttrInt64(TF_OpKernelConstruction *ctx, const char *name,
                                          int64_t *value, TF_Status *status);
void TF_OpKernelConstruction_GetAttrFloat(TF_OpKernelConstruction *ctx, const char *name,
                                          float *value, TF_Status *status);
void TF_OpKernelConstruction_GetAttrBool(TF_OpKernelConstruction *ctx, const char *name,
                                         unsigned char *value, TF_Status *status);
/* At most max_length bytes, with no zero byte behind them. */
void TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction *ctx, const char *name,
                                           char *value, size_t max_length, TF_Status *status);

void TF_OpKernelContext_Failure(TF_OpKernelContext *ctx, TF_Status *status);
int TF_NumInputs(TF_OpKernelContext *ctx);
void TF_GetInput(TF_OpKernelContext *ctx, int i, TF_Tensor **ret_tensor, TF_Status *status);
TF_Tensor *TF_AllocateOutput(TF_OpKernelContext *ctx, int i, int dtype, const int64_t *dims,
                             int ndims, size_t nbytes, TF_Status *status);
/* An input's buffer becomes the output's where nobody else has a reference to it, the caller's own
 * included. *ret_forwarded: which input, or -1. */
TF_Tensor *TF_ForwardInputOrAllocateOutput(TF_OpKernelContext *ctx, const int *candidates,
                                           int ncandidates, int output, const int64_t *dims,
                                           int ndims, int *ret_forwarded, TF_Status *status);

/* ---- tensors: dense, row-major, in host memory */

void TF_DeleteTensor(TF_Tensor *tensor);
int TF_TensorType(const TF_Tensor *tensor);
int TF_NumDims(const TF_Tensor *tensor);
int64_t TF_Dim(const TF_Tensor *tensor, int i);
size_t TF_TensorByteSize(const TF_Tensor *tensor);
void *TF_TensorData(const TF_Tensor *tensor);

#endif
