/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a collective inside a program that XLA has compiled.
 *
 * The handler (handler.c) reads the frame into a call, submits it, and looks at it for a moment. A
 * call that is not done by then is given to the finisher (finish.c), a thread of our own, and the
 * handler returns: XLA's threads are never held up, however many collectives are in flight and in
 * whatever order the ranks come to them.
 *
 * A call belongs to one thread at a time: the handler's until it is handed over, then the
 * finisher's.
 *
 * On a GPU (cuda.c) no call is handed over: a handler has to have put its work on XLA's stream when
 * it returns, and XLA's thread would wait for a future there and then.
 */
#ifndef REIGEN_JAX_CALL_H
#define REIGEN_JAX_CALL_H

#include <stdbool.h>

#include "reigen/reigen.h"
#include "xla_ffi.h"

#define CALL_TENSORS_MAX 65536
#define CALL_TEXT_MAX 1024

/* Where XLA wants a result that the runtime allocates. A copy: XLA lends the buffers of a frame to
 * the next run of the same place once the handler has returned, before the future is completed. */
struct result {
    void *data;
    int64_t ndim;
    int64_t dims[REIGEN_NDIM_MAX];
};

struct call {
    struct call *next; /* the finisher's */
    const struct xla_api *api;
    struct xla_future *future; /* NULL until handed over */
    struct xla_error *error;   /* of the submission, when a part of the tensors was submitted */
    struct result *results;    /* of this piece of memory; NULL where XLA's memory is written to */
    unsigned job;              /* the finisher's: which job of this process it belongs to */
    int kind;                  /* enum reigen_kind */
    int count;                 /* tensors that were submitted */
    char name[REIGEN_NAME_MAX + 1];
    reigen_handle handles[];
};

/* Does XLA only ask what the handler is? Then it has been told. */
bool call_is_metadata(struct xla_frame *frame);

/* Read the frame and submit what it asks for; into *ret_nbytes how much goes in. NULL: nothing has
 * been submitted, and *ret_error says why. A call whose error is set was submitted in part. */
struct call *call_begin(struct xla_frame *frame, size_t *ret_nbytes, struct xla_error **ret_error);

/* Does the runtime allocate the results of this kind? */
bool call_allocates(int kind);

/* Has everything been done, well or not? Never blocks. */
bool call_is_done(const struct call *call);

/* Of a call that is done, or with `wait` of any: put the results where XLA wants them, and let go
 * of the handles. NULL or the error. The call itself stays. */
struct xla_error *call_finish(struct call *call, bool wait);

/* An error of XLA's for a negative errno and a text, which is copied. */
struct xla_error *call_error(const struct xla_api *api, int rc, const char *text);

/* See to it that the finisher's thread runs. 0, or -EAGAIN when no thread could be made. From any
 * thread. */
int finisher_start(void);

/* Take a submitted call over: complete its future when it is done, and free it. Does not block.
 * From any thread, after finisher_start. */
void call_hand_over(struct call *take_call);

/* Calls that have been handed over and are not done. */
int calls_in_flight(void);

/* The finisher keeps out of the runtime from the return of pause until resume, for
 * reigen_shutdown. pause blocks for one slice at most. Calls that were handed over before resume
 * have lost their handles: they end as cancelled and the runtime is not asked about them. */
REIGEN_API void reigen_jax_pause(void);
REIGEN_API void reigen_jax_resume(void);

#endif
