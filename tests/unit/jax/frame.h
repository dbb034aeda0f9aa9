/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What XLA gives to a handler, made up: the frame of one custom call of horovod.jax, and errors.
 */
#ifndef TEST_JAX_FRAME_H
#define TEST_JAX_FRAME_H

#include "reigen/reigen.h"
#include "xla_ffi.h"

enum { TENSORS = 3, ROWS = 4, ATTRIBUTES = 7 };

struct xla_error *reigen_jax_collective(struct xla_frame *frame);
struct xla_error *reigen_jax_collective_cuda(struct xla_frame *frame);

struct xla_error {
    int code;
    char text[256];
};

/* For struct xla_api; the error is the caller's, by malloc. */
struct xla_error *frame_error_create(struct xla_error_create_args *args);

/* A place of a program that calls the handler. Whatever a test wants otherwise it changes after
 * place_init; all is the place's own, so that it must not move. */
struct place {
    float in[TENSORS][ROWS], out[TENSORS][ROWS];
    int64_t dims[1];
    struct xla_buffer ins[TENSORS], outs[TENSORS];
    struct xla_buffer token;
    void *args[1 + TENSORS], *results[1 + TENSORS], *items[ATTRIBUTES];
    int types[1 + TENSORS], attribute_types[ATTRIBUTES];
    int kind, op, root, process_set;
    double prescale, postscale;
    struct xla_span name, names[ATTRIBUTES], *name_pointers[ATTRIBUTES];
    struct xla_scalar ints[4], factors[2]; /* as the attributes are named below */
    struct xla_frame frame;
};

/* A sum, or what the kind is, named "grad", of `count` arrays of ROWS floats. */
void place_init(struct place *place, const struct xla_api *api, int kind, int count);
/* Once: the call takes a token, and gives one. */
void place_add_token(struct place *place);

#endif
