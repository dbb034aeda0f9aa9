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
 */
#ifndef REIGEN_JAX_CALL_H
#define REIGEN_JAX_CALL_H

#include <stdbool.h>

#include "reigen/reigen.h"
#include "xla_ffi.h"

#define CALL_TENSORS_MAX 65536
#define CALL_TEXT_MAX 1024

struct call {
    struct call *next; /* the finisher's */
    const struct xla_api *api;
    struct xla_future *future; /* NULL until handed over */
    void *const *results; /* struct xla_buffer of XLA's, until the end of the call */
    int kind;  /* enum reigen_kind */
    int count; /* tensors */
    char name[REIGEN_NAME_MAX + 1];
    reigen_handle handles[];
};

/* Has everything been done, well or not? Never blocks. */
bool call_is_done(const struct call *call);

/* Of a call that is done: put the results where XLA wants them, and let go of the handles. NULL or
 * the error. The call itself stays. */
struct xla_error *call_finish(struct call *call);

/* An error of XLA's for a negative errno and a text, which is copied. */
struct xla_error *call_error(const struct xla_api *api, int rc, const char *text);

/* Take a submitted call over: complete its future when it is done, and free it. Does not block. 0;
 * -EAGAIN when no thread could be made (the call is still the caller's). From any thread. */
int call_hand_over(struct call *take_call);

/* Calls that have been handed over and are not done. */
int calls_in_flight(void);

/* The finisher keeps out of the runtime from the return of pause until resume: for reigen_shutdown,
 * which must run alone. pause blocks for one slice of the finisher's at most. */
REIGEN_API void reigen_jax_pause(void);
REIGEN_API void reigen_jax_resume(void);

#endif
