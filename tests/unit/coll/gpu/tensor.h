/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors in the memory of a stand-in device, with contents that every test can compute by itself.
 */
#ifndef TEST_COLL_GPU_TENSOR_H
#define TEST_COLL_GPU_TENSOR_H

#include "coll/gpu/device.h"
#include "coll/ranks.h"
#include "reigen/reigen.h"

/* 0 where it is so, else 1, and a line that also says what the runtime has last complained of. */
#define check(condition) tensor_check(rank, (condition), __LINE__, #condition)
int tensor_check(const struct rank *rank, bool good, int line, const char *what);

/* Bytes of an element. */
extern const int tensor_esizes[REIGEN_NDTYPES];
/* Element i at `at`: a small multiple of a quarter, which every type but the integers holds. */
void tensor_put(void *at, int dtype, size_t i, double value);
/* Of element i on a rank: 0 to 3. */
double tensor_value(int rank, size_t i);

struct tensor {
    int dtype;
    size_t count;
    void *at; /* NULL: it is empty */
};

/* One for each rank, unless TEST_ONE_DEVICE is set. */
struct standin_stream *tensor_stream(const struct rank *rank);
/* Written by work on the stream, with the rank's values. */
struct tensor tensor_make(struct standin_stream *stream, int dtype, size_t count, int rank);
void tensor_drop(struct tensor *t);
/* What is at `at` in the stream's order, against a plain computation. 0: it is the same. */
int tensor_compare(struct standin_stream *stream, const void *at, int dtype, size_t count,
                   double (*expected)(size_t i, const int *arg), const int *arg);
/* Such a computation, of what an allreduce gives; arg: reduction, number of ranks, dtype. */
double tensor_reduced(size_t i, const int *arg);
/* One allreduce "x" among the ranks of a process set, waited for and compared; rank is the place in
 * that set. 0 or 1, as check. */
int tensor_allreduce(struct rank *rank, struct standin_stream *stream, int process_set, int dtype,
                     int op, size_t count, bool in_place);
/* Whether a communicator has been made. */
bool tensors_use_nccl(void);

#endif
