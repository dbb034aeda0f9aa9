/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow asks for the shape of a result before anything runs. */
#include "kernel.h"

#define UNKNOWN ((size_t) -1)

static bool good(const TF_Status *status)
{
    return TF_GetCode(status) == TF_OK;
}

/* Every output has the shape of the input of its number. */
void rg_tf_shapes_same(TF_ShapeInferenceContext *ctx, TF_Status *status)
{
    int n = (int) TF_ShapeInferenceContextNumInputs(ctx);
    TF_ShapeHandle *shape = TF_NewShapeHandle();

    for (int i = 0; i < n && good(status); i++) {
        TF_ShapeInferenceContextGetInput(ctx, i, shape, status);
        if (good(status))
            TF_ShapeInferenceContextSetOutput(ctx, i, shape, status);
    }
    TF_DeleteShapeHandle(shape);
}

/* An output like an input but for the number of rows, which the graph cannot know. */
static void rows(TF_ShapeInferenceContext *ctx, int i, TF_Status *status)
{
    TF_ShapeHandle *in = TF_NewShapeHandle(), *row = TF_NewShapeHandle();
    TF_ShapeHandle *out = TF_NewShapeHandle();
    TF_ShapeHandle *count = TF_ShapeInferenceContextVectorFromSize(ctx, UNKNOWN);

    TF_ShapeInferenceContextGetInput(ctx, i, in, status);
    if (good(status) && !TF_ShapeInferenceContextRankKnown(ctx, in)) {
        TF_ShapeInferenceContextSetOutput(ctx, i, in, status);
    } else if (good(status)) {
        int64_t rank = TF_ShapeInferenceContextRank(ctx, in);

        if (rank == 0)
            TF_SetStatus(status, TF_INVALID_ARGUMENT, "scalars have no rows to be shared out");
        if (good(status))
            TF_ShapeInferenceContextSubshape(ctx, in, 1, rank, row, status);
        if (good(status))
            TF_ShapeInferenceContextConcatenateShapes(ctx, count, row, out, status);
        if (good(status))
            TF_ShapeInferenceContextSetOutput(ctx, i, out, status);
    }
    TF_DeleteShapeHandle(in);
    TF_DeleteShapeHandle(row);
    TF_DeleteShapeHandle(out);
    TF_DeleteShapeHandle(count);
}

void rg_tf_shapes_rows(TF_ShapeInferenceContext *ctx, TF_Status *status)
{
    int n = (int) TF_ShapeInferenceContextNumInputs(ctx);

    for (int i = 0; i < n && good(status); i++)
        rows(ctx, i, status);
}

void rg_tf_shapes_alltoall(TF_ShapeInferenceContext *ctx, TF_Status *status)
{
    TF_ShapeHandle *received = TF_ShapeInferenceContextVectorFromSize(ctx, UNKNOWN);

    rows(ctx, 0, status);
    if (good(status))
        TF_ShapeInferenceContextSetOutput(ctx, 1, received, status);
    TF_DeleteShapeHandle(received);
}

void rg_tf_shapes_scalar(TF_ShapeInferenceContext *ctx, TF_Status *status)
{
    TF_ShapeHandle *scalar = TF_ShapeInferenceContextScalar(ctx);

    TF_ShapeInferenceContextSetOutput(ctx, 0, scalar, status);
    TF_DeleteShapeHandle(scalar);
}

/* There is no output. */
void rg_tf_shapes_none(TF_ShapeInferenceContext *ctx, TF_Status *status)
{
    (void) ctx;
    (void) status;
}
