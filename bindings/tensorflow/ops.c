/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations, and their registration with TensorFlow, which happens when TensorFlow loads the
 * library: it looks at what a library registers while it is being loaded, hence a constructor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

/* Which types there are depends on TensorFlow's version; run.c says which cannot travel. */
#define T_ATTR "T: type"
#define REDUCTION_ATTRS                                                            \
    "reduce_op: int", "prescale_factor: float = 1.0", "postscale_factor: float = 1.0", \
        "factors: string = ''"
#define COMMON_ATTRS \
    "tensor_name: string = ''", "ignore_name_scope: bool = false", "process_set_id: int = 0"

static const char *const allreduce_attrs[] = { T_ATTR, REDUCTION_ATTRS, COMMON_ATTRS, NULL };
static const char *const group_reduce_attrs[] = { T_ATTR, "num_tensors: int >= 1",
                                                  REDUCTION_ATTRS, COMMON_ATTRS, NULL };
static const char *const gather_attrs[] = { T_ATTR, COMMON_ATTRS, NULL };
static const char *const group_gather_attrs[] = { T_ATTR, "num_tensors: int >= 1", COMMON_ATTRS,
                                                  NULL };
static const char *const broadcast_attrs[] = { T_ATTR, "root_rank: int", COMMON_ATTRS, NULL };
static const char *const agree_attrs[] = { "forms: string", "names: string", COMMON_ATTRS, NULL };
static const char *const no_attrs[] = { NULL };
static const char *const set_attrs[] = { "process_set_id: int = 0", NULL };

static const char *const tensor[] = { "tensor: T", NULL };
static const char *const tensors[] = { "tensors: num_tensors*T", NULL };
static const char *const tensor_and_splits[] = { "tensor: T", "splits: int32", NULL };
static const char *const nothing[] = { NULL };
static const char *const sum[] = { "sum: T", NULL };
static const char *const sums[] = { "sum: num_tensors*T", NULL };
static const char *const output[] = { "output: T", NULL };
static const char *const outputs[] = { "output: num_tensors*T", NULL };
static const char *const output_and_splits[] = { "output: T", "received_splits: int32", NULL };
static const char *const last_rank[] = { "output_last_joined_rank: int32", NULL };

/* TensorFlow tells `create` nothing of what it makes, so each operation has its own. */
static void *create_allreduce(TF_OpKernelConstruction *ctx);
static void *create_grouped_allreduce(TF_OpKernelConstruction *ctx);
static void *create_allgather(TF_OpKernelConstruction *ctx);
static void *create_grouped_allgather(TF_OpKernelConstruction *ctx);
static void *create_broadcast(TF_OpKernelConstruction *ctx);
static void *create_alltoall(TF_OpKernelConstruction *ctx);
static void *create_reducescatter(TF_OpKernelConstruction *ctx);
static void *create_grouped_reducescatter(TF_OpKernelConstruction *ctx);
static void *create_join(TF_OpKernelConstruction *ctx);
static void *create_agree(TF_OpKernelConstruction *ctx);

enum def {
    ALLREDUCE,
    GROUPED_ALLREDUCE,
    ALLGATHER,
    GROUPED_ALLGATHER,
    BROADCAST,
    ALLTOALL,
    REDUCESCATTER,
    GROUPED_REDUCESCATTER,
    JOIN,
    AGREE,
    NDEFS
};

static const struct op_def defs[NDEFS] = {
    [ALLREDUCE] = { "HorovodAllreduce", REIGEN_ALLREDUCE, false, false, allreduce_attrs, tensor,
                    sum, rg_tf_shapes_same, create_allreduce },
    [GROUPED_ALLREDUCE] = { "HorovodGroupedAllreduce", REIGEN_ALLREDUCE, true, false,
                            group_reduce_attrs, tensors, sums, rg_tf_shapes_same,
                            create_grouped_allreduce },
    [ALLGATHER] = { "HorovodAllgather", REIGEN_ALLGATHER, false, false, gather_attrs, tensor,
                    output, rg_tf_shapes_rows, create_allgather },
    [GROUPED_ALLGATHER] = { "HorovodGroupedAllgather", REIGEN_ALLGATHER, true, false,
                            group_gather_attrs, tensors, outputs, rg_tf_shapes_rows,
                            create_grouped_allgather },
    [BROADCAST] = { "HorovodBroadcast", REIGEN_BROADCAST, false, false, broadcast_attrs, tensor,
                    output, rg_tf_shapes_same, create_broadcast },
    [ALLTOALL] = { "HorovodAlltoall", REIGEN_ALLTOALL, false, false, gather_attrs,
                   tensor_and_splits, output_and_splits, rg_tf_shapes_alltoall, create_alltoall },
    [REDUCESCATTER] = { "HorovodReducescatter", REIGEN_REDUCESCATTER, false, false, allreduce_attrs,
                        tensor, output, rg_tf_shapes_rows, create_reducescatter },
    [GROUPED_REDUCESCATTER] = { "HorovodGroupedReducescatter", REIGEN_REDUCESCATTER, true, false,
                                group_reduce_attrs, tensors, outputs, rg_tf_shapes_rows,
                                create_grouped_reducescatter },
    [JOIN] = { "HorovodJoin", REIGEN_JOIN, false, false, no_attrs, nothing, last_rank,
               rg_tf_shapes_scalar, create_join },
    [AGREE] = { "HorovodAgreeOnGradients", REIGEN_ALLREDUCE, false, true, agree_attrs, nothing,
                nothing, rg_tf_shapes_none, create_agree },
};

static void *create_allreduce(TF_OpKernelConstruction *ctx)
{
    return rg_tf_kernel_create(&defs[ALLREDUCE], ctx);
}

static void *create_grouped_allreduce(TF_OpKernelConstruction *ctx)
{
    return rg_tf_kernel_create(&defs[GROUPED_ALLREDUCE], ctx);
}

static void *create_allgather(TF_OpKernelConstruction *ctx)
{
    return rg_tf_kernel_create(&defs[ALLGATHER], ctx);
}

static void *create_grouped_allgather(TF_OpKernelConstruction *ctx)
{
    return rg_tf_kernel_create(&defs[GROUPED_ALLGATHER], ctx);
}

static void *create_broadcast(TF_OpKernelConstruction *ctx)
{
    return rg_tf_kernel_create(&defs[BROADCAST], ctx);
}

static void *create_alltoall(TF_OpKernelConstruction *ctx)
{
    return rg_tf_kernel_create(&defs[ALLTOALL], ctx);
}

static void *create_reducescatter(TF_OpKernelConstruction *ctx)
{
    return rg_tf_kernel_create(&defs[REDUCESCATTER], ctx);
}

static void *create_grouped_reducescatter(TF_OpKernelConstruction *ctx)
{
    return rg_tf_kernel_create(&defs[GROUPED_REDUCESCATTER], ctx);
}

static void *create_join(TF_OpKernelConstruction *ctx)
{
    return rg_tf_kernel_create(&defs[JOIN], ctx);
}

static void *create_agree(TF_OpKernelConstruction *ctx)
{
    return rg_tf_kernel_create(&defs[AGREE], ctx);
}

/* ---- what is known of the ranks */

/* One operation that gives a number. */
struct fact {
    const char *type;
    const char *const *attrs, *const *outputs;
    int (*get)(int process_set);
    void *(*create)(TF_OpKernelConstruction *ctx);
};

/* Its kernel. */
struct teller {
    const struct fact *fact;
    int process_set;
};

static int get_size(int process_set)
{
    return process_set == 0 ? reigen_size() : reigen_process_set_size(process_set);
}

static int get_rank(int process_set)
{
    return process_set == 0 ? reigen_rank() : reigen_process_set_rank(process_set);
}

static int get_local_size(int process_set)
{
    (void) process_set;
    return reigen_local_size();
}

static int get_local_rank(int process_set)
{
    (void) process_set;
    return reigen_local_rank();
}

static int get_included(int process_set)
{
    if (process_set != 0)
        return reigen_process_set_included(process_set);
    return reigen_is_initialized() ? 1 : reigen_rank();
}

static void *create_size(TF_OpKernelConstruction *ctx);
static void *create_rank(TF_OpKernelConstruction *ctx);
static void *create_local_size(TF_OpKernelConstruction *ctx);
static void *create_local_rank(TF_OpKernelConstruction *ctx);
static void *create_included(TF_OpKernelConstruction *ctx);

enum { SIZE, RANK, LOCAL_SIZE, LOCAL_RANK, INCLUDED, NFACTS };

static const char *const size_output[] = { "size: int32", NULL };
static const char *const rank_output[] = { "rank: int32", NULL };
static const char *const included_output[] = { "included: int32", NULL };

static const struct fact facts[NFACTS] = {
    [SIZE] = { "HorovodSize", set_attrs, size_output, get_size, create_size },
    [RANK] = { "HorovodRank", set_attrs, rank_output, get_rank, create_rank },
    [LOCAL_SIZE] = { "HorovodLocalSize", no_attrs, size_output, get_local_size,
                     create_local_size },
    [LOCAL_RANK] = { "HorovodLocalRank", no_attrs, rank_output, get_local_rank,
                     create_local_rank },
    [INCLUDED] = { "HorovodProcessSetIncluded", set_attrs, included_output, get_included,
                   create_included },
};

static void *create_teller(const struct fact *fact, TF_OpKernelConstruction *ctx)
{
    struct teller *teller = calloc(1, sizeof(*teller));
    TF_Status *status = TF_NewStatus();
    int64_t id = 0;

    if (!teller)
        TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
    else if (fact->attrs[0])
        TF_OpKernelConstruction_GetAttrInt64(ctx, "process_set_id", &id, status);
    if (TF_GetCode(status) != TF_OK) {
        TF_OpKernelConstruction_Failure(ctx, status);
        free(teller);
        teller = NULL;
    } else if (teller) {
        *teller = (struct teller){ fact, (int) id };
    }
    TF_DeleteStatus(status);
    return teller;
}

static void *create_size(TF_OpKernelConstruction *ctx)
{
    return create_teller(&facts[SIZE], ctx);
}

static void *create_rank(TF_OpKernelConstruction *ctx)
{
    return create_teller(&facts[RANK], ctx);
}

static void *create_local_size(TF_OpKernelConstruction *ctx)
{
    return create_teller(&facts[LOCAL_SIZE], ctx);
}

static void *create_local_rank(TF_OpKernelConstruction *ctx)
{
    return create_teller(&facts[LOCAL_RANK], ctx);
}

static void *create_included(TF_OpKernelConstruction *ctx)
{
    return create_teller(&facts[INCLUDED], ctx);
}

static void tell(void *kernel, TF_OpKernelContext *ctx)
{
    const struct teller *teller = kernel;
    TF_Status *status = TF_NewStatus();
    TF_Tensor *out = TF_AllocateOutput(ctx, 0, TF_INT32, NULL, 0, sizeof(int32_t), status);
    int value = teller->fact->get(teller->process_set);
    char text[256];

    if (value < 0) {
        snprintf(text, sizeof(text), "%s: %s", teller->fact->type, reigen_last_error());
        TF_SetStatus(status, TF_FAILED_PRECONDITION, text);
    }
    if (TF_GetCode(status) == TF_OK)
        *(int32_t *) TF_TensorData(out) = value;
    else
        TF_OpKernelContext_Failure(ctx, status);
    if (out)
        TF_DeleteTensor(out);
    TF_DeleteStatus(status);
}

/* ---- registration */

static char failure[512];

static void add_op(const char *type, const char *const *attrs, const char *const *ins,
                   const char *const *outs,
                   void (*shapes)(TF_ShapeInferenceContext *ctx, TF_Status *status),
                   TF_Status *status)
{
    TF_OpDefinitionBuilder *builder = TF_NewOpDefinitionBuilder(type);

    for (int i = 0; attrs[i]; i++)
        TF_OpDefinitionBuilderAddAttr(builder, attrs[i]);
    for (int i = 0; ins[i]; i++)
        TF_OpDefinitionBuilderAddInput(builder, ins[i]);
    for (int i = 0; outs[i]; i++)
        TF_OpDefinitionBuilderAddOutput(builder, outs[i]);
    TF_OpDefinitionBuilderSetIsStateful(builder, true);
    TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, shapes);
    TF_RegisterOpDefinition(builder, status);
}

static bool went_well(const char *type, TF_Status *status)
{
    if (TF_GetCode(status) == TF_OK)
        return true;
    if (!failure[0])
        snprintf(failure, sizeof(failure), "%s: %s", type, TF_Message(status));
    return false;
}

/* What stands before the colon of "tensor: T" is in host memory. */
static void keep_on_host(TF_KernelBuilder *builder, const char *const *specs)
{
    char name[64];

    for (int i = 0; specs[i]; i++) {
        snprintf(name, sizeof(name), "%.*s", (int) strcspn(specs[i], ":"), specs[i]);
        TF_KernelBuilder_HostMemory(builder, name);
    }
}

/* On a GPU a kernel has its arguments in host memory all the same. Results that the GPU computes
 * come in the order of TensorFlow's stream, which its C API gives to plug-in devices only
 * (TF_GetStream), and TensorFlow waits for them before a kernel that has them in host memory. */
enum { ON_CPU, ON_GPU, NPLACES };
static const char *const devices[NPLACES] = { "CPU", "GPU" };

static void add_kernel(const char *type, int place, TF_KernelBuilder *builder,
                       const char *const *ins, const char *const *outs, TF_Status *status)
{
    if (place == ON_GPU) {
        keep_on_host(builder, ins);
        keep_on_host(builder, outs);
    }
    TF_RegisterKernelBuilder(type, builder, status);
    went_well(type, status);
}

__attribute__((constructor)) static void register_all(void)
{
    TF_Status *status = TF_NewStatus();

    for (int i = 0; i < NDEFS; i++) {
        const struct op_def *d = &defs[i];

        add_op(d->type, d->attrs, d->inputs, d->outputs, d->shapes, status);
        for (int k = 0; went_well(d->type, status) && k < NPLACES; k++)
            add_kernel(d->type, k,
                       TF_NewAsyncKernelBuilder(d->type, devices[k], d->create, rg_tf_run_compute,
                                                rg_tf_kernel_destroy),
                       d->inputs, d->outputs, status);
    }
    for (int i = 0; i < NFACTS; i++) {
        const struct fact *f = &facts[i];

        add_op(f->type, f->attrs, nothing, f->outputs, rg_tf_shapes_scalar, status);
        for (int k = 0; went_well(f->type, status) && k < NPLACES; k++)
            add_kernel(f->type, k, TF_NewKernelBuilder(f->type, devices[k], f->create, tell, free),
                       nothing, f->outputs, status);
    }
    TF_DeleteStatus(status);
}

REIGEN_API const char *reigen_tensorflow_failure(void)
{
    return failure[0] ? failure : NULL;
}
