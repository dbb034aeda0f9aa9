/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow's kernels over libreigen.so.
 *
 *   ops.c     the operations' definitions, and their registration
 *   shapes.c  what is known of their results while a graph is made
 *   kernel.c  a kernel: its attributes, read once; its names
 *   run.c     one run of a kernel that moves data: submit, wait a little or be called back, finish
 *   agree.c   whether all ranks have the same gradients in their graphs
 *   eager.c   the shorter way of allreduce and broadcast in eager mode
 *   done.cc   TensorFlow's callback
 *
 * In a graph a kernel submits, looks at the operation for a moment (run.c), and then leaves it to
 * reigen_on_done: TensorFlow's threads are not held, so that any number of collectives can be in
 * flight, and come in any order. In eager mode, where the calling thread waits anyway, it waits.
 *
 * Errors: a call that is wrong by itself becomes InvalidArgumentError, one that does not match the
 * other ranks', or comes before init, FailedPreconditionError, a dead rank and a shutdown
 * UnknownError; the text starts with the operation's type, by which elastic training knows them.
 */
#ifndef REIGEN_TENSORFLOW_KERNEL_H
#define REIGEN_TENSORFLOW_KERNEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "reigen/reigen.h"
#include "tf_api.h"

/* Room for "_1of65536" behind the name of a group. */
#define NAME_ROOM 32
#define NAME_MAX_NBYTES (REIGEN_NAME_MAX - NAME_ROOM)
#define UNNAMED_RING 8    /* names that eager operations without one take turns at */
#define REQUESTS_MAX 16   /* kept by one eager kernel */

/* A persistent request of an eager kernel for one name and shape. */
struct request {
    struct reigen_request *ptr; /* NULL: free */
    bool busy;                  /* some thread runs it */
    unsigned slot;              /* of the ring */
    int ndim;
    int64_t shape[REIGEN_NDIM_MAX];
};

/* One of the operations that move data; ops.c has the table. */
struct op_def {
    const char *type; /* "HorovodAllreduce" */
    int kind;         /* enum reigen_kind */
    bool grouped;
    bool agrees; /* it moves votes of its own, see agree.c */
    const char *const *attrs, *const *inputs, *const *outputs; /* each ends with NULL */
    void (*shapes)(TF_ShapeInferenceContext *ctx, TF_Status *status);
    void *(*create)(TF_OpKernelConstruction *ctx);
};

struct kernel {
    const struct op_def *def;
    bool eager;
    bool named; /* else by turns; eager only */
    char name[NAME_MAX_NBYTES + 1];
    struct reigen_options options;
    struct agreement *agreement; /* NULL: it moves the tensors that it is given */
    pthread_mutex_t lock; /* of the requests */
    struct request requests[REQUESTS_MAX];
    unsigned oldest;
};

/* ---- kernel.c */

/* A kernel of this definition; NULL after TF_OpKernelConstruction_Failure. */
struct kernel *rg_tf_kernel_create(const struct op_def *def, TF_OpKernelConstruction *ctx);
void rg_tf_kernel_destroy(void *kernel);
/* The name of a run, into ret_name; gives the slot of the ring where the kernel has no name. */
unsigned rg_tf_kernel_name(struct kernel *kernel, char ret_name[NAME_MAX_NBYTES + 1]);
/* The runtime's number of TensorFlow's type, or -1: its elements mean nothing elsewhere. */
int rg_tf_dtype(int tf_dtype);

/* ---- run.c */

void rg_tf_run_compute(void *kernel, TF_OpKernelContext *ctx, TF_AsyncOpKernelDoneCallback *done);
/* Make the run fail. submitted: the operation was under way when it failed. text: NULL for the
 * runtime's last error of this thread. */
void rg_tf_run_fail(const struct kernel *kernel, TF_OpKernelContext *ctx, int rc, bool submitted,
                    const char *text);

/* ---- agree.c */

/* From the attributes: "forms" has a letter for each gradient ('d'ense, 's'parse, else there is
 * none), "names" a line for each. NULL: status says why. */
struct agreement *rg_tf_agree_create(TF_OpKernelConstruction *ctx, TF_Status *status);
/* NULL does nothing. */
void rg_tf_agree_free(struct agreement *agreement);
/* What this rank sends, *ret_n numbers, to be combined in place by Max; NULL: out of memory. The
 * caller frees it. */
int32_t *rg_tf_agree_vote(const struct agreement *agreement, int *ret_n);
/* Whether the combined votes agree; else ret_text says which gradients differ, and what to do. */
bool rg_tf_agree_check(const struct agreement *agreement, const int32_t *votes, char *ret_text,
                       size_t room);

/* ---- eager.c */

/* The whole run of an eager allreduce or broadcast: from `in` to `out`. 0; 1: it cannot be done
 * this way, as another thread is at it; else the run has failed, and ctx knows. Blocks. */
int rg_tf_eager_run(struct kernel *kernel, TF_OpKernelContext *ctx, int dtype, const int64_t *shape,
                    int ndim, const void *in, void *out);
void rg_tf_eager_free(struct kernel *kernel);

/* ---- shapes.c: for struct op_def */

void rg_tf_shapes_same(TF_ShapeInferenceContext *ctx, TF_Status *status);
void rg_tf_shapes_rows(TF_ShapeInferenceContext *ctx, TF_Status *status);
void rg_tf_shapes_alltoall(TF_ShapeInferenceContext *ctx, TF_Status *status);
void rg_tf_shapes_scalar(TF_ShapeInferenceContext *ctx, TF_Status *status);
void rg_tf_shapes_none(TF_ShapeInferenceContext *ctx, TF_Status *status);

/* ---- for Python, by ctypes */

/* Why the operations could not be registered; NULL: they have been. */
REIGEN_API const char *reigen_tensorflow_failure(void);
/* Begin again with the first of the names that operations without one take turns at: when the job
 * is left, so that all ranks of the next one begin alike. */
REIGEN_API void reigen_tensorflow_reset(void);
/* A join has ended: all ranks count the world's runs without a name from the start again. */
REIGEN_API void reigen_tensorflow_joined(void);

#endif
