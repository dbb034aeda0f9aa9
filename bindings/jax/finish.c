/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How calls end: results, errors, and the finisher's thread.
 *
 * The thread waits for the oldest call, which drives the transfer, and between two slices looks at
 * the others. Completing a future runs what waited for it on this thread, so it is done without the
 * lock; such a run may itself hand calls over.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"

#define SLICE_SHORT_MS 1 /* while something else may become done first, or come */
#define SLICE_LONG_MS 20
#define SLICES_SHORT 200
#define ENDINGS_MAX 64

/* A future that is to be completed. */
struct ending {
    const struct xla_api *api;
    struct xla_future *future;
    struct xla_error *error; /* NULL: it went well */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t came;
    struct call *incoming; /* newest first */
    int in_flight;
    bool running;
    pthread_cond_t changed; /* `looking` or `paused` */
    bool looking;           /* the thread is in the runtime, */
    bool paused;            /* where it must not be now */
    unsigned job;           /* jobs that have ended; changes only while paused */
} finisher = { .lock = PTHREAD_MUTEX_INITIALIZER,
               .came = PTHREAD_COND_INITIALIZER,
               .changed = PTHREAD_COND_INITIALIZER };
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* ---- errors and results */

static int code_of(int rc)
{
    switch (-rc) {
    case EINVAL:
        return XLA_INVALID_ARGUMENT;
    case EEXIST:
        return XLA_ALREADY_EXISTS;
    case ENOTCONN:
        return XLA_FAILED_PRECONDITION;
    case ECONNRESET:
        return XLA_UNAVAILABLE;
    case ECANCELED:
        return XLA_CANCELLED;
    case ETIMEDOUT:
        return XLA_DEADLINE_EXCEEDED;
    case ENOMEM:
        return XLA_RESOURCE_EXHAUSTED;
    default:
        return XLA_UNKNOWN;
    }
}

struct xla_error *call_error(const struct xla_api *api, int rc, const char *text)
{
    char message[CALL_TEXT_MAX + 64];
    struct xla_error_create_args args = { sizeof(args), NULL, message, code_of(rc) };

    snprintf(message, sizeof(message), "HorovodInternalError: %s", text);
    return api->error_create(&args);
}

bool call_is_done(const struct call *call)
{
    for (int i = call->count - 1; i >= 0; i--) {
        if (reigen_poll(call->handles[i]) == 0)
            return false;
    }
    return true;
}

bool call_allocates(int kind)
{
    return kind == REIGEN_ALLGATHER || kind == REIGEN_ALLTOALL || kind == REIGEN_REDUCESCATTER;
}

/* Copy what the runtime has allocated for one tensor. The compiled program has fixed its shape. */
static struct xla_error *copy_result(const struct call *call, int i)
{
    const struct result *out = &call->results[i];
    int64_t shape[REIGEN_NDIM_MAX];
    char text[CALL_TEXT_MAX];
    const void *data;
    size_t nbytes;
    int ndim, rc = reigen_output(call->handles[i], &data, &nbytes, shape, &ndim);
    bool same;

    if (rc < 0)
        return call_error(call->api, rc, reigen_last_error());
    same = ndim == out->ndim;
    for (int d = 0; same && d < ndim; d++)
        same = shape[d] == out->dims[d];
    if (!same) {
        snprintf(text, sizeof(text),
                 "%s: the result has %lld rows, but the compiled program expects %lld: inside "
                 "jax.jit all ranks must give equal shapes, and a program is compiled for one "
                 "number of ranks. Call it outside of jax.jit for unequal shapes.",
                 call->name, ndim > 0 ? (long long) shape[0] : 0LL,
                 out->ndim > 0 ? (long long) out->dims[0] : 0LL);
        return call_error(call->api, -EINVAL, text);
    }
    rc = reigen_output_copy(call->handles[i], out->data, nbytes);
    return rc < 0 ? call_error(call->api, rc, reigen_last_error()) : NULL;
}

struct xla_error *call_finish(struct call *call, bool wait)
{
    struct xla_error *error = call->error;

    for (int i = 0; i < call->count && (wait || !error); i++) {
        int rc = reigen_wait(call->handles[i], wait ? -1 : 0);

        if (rc < 0 && !error) {
            const char *text = reigen_handle_error(call->handles[i]);

            error = call_error(call->api, rc, text && text[0] ? text : reigen_last_error());
        }
    }
    for (int i = 0; i < call->count && !error && call->results; i++)
        error = copy_result(call, i);
    reigen_release_all(call->count, call->handles);
    return error;
}

/* ---- the thread */

/* Take what has come, oldest first, behind the calls of *list. Sleeps when there is nothing else to
 * do. True when something came. */
static bool take_incoming(struct call **list)
{
    struct call *came = NULL, *newest;

    pthread_mutex_lock(&finisher.lock);
    while (!*list && !finisher.incoming)
        pthread_cond_wait(&finisher.came, &finisher.lock);
    newest = finisher.incoming;
    finisher.incoming = NULL;
    pthread_mutex_unlock(&finisher.lock);
    while (newest) {
        struct call *older = newest->next;

        newest->next = came;
        came = newest;
        newest = older;
    }
    while (*list)
        list = &(*list)->next;
    *list = came;
    return came != NULL;
}

static void look_begin(void)
{
    pthread_mutex_lock(&finisher.lock);
    while (finisher.paused)
        pthread_cond_wait(&finisher.changed, &finisher.lock);
    finisher.looking = true;
    pthread_mutex_unlock(&finisher.lock);
}

static void look_end(int ndone)
{
    pthread_mutex_lock(&finisher.lock);
    finisher.looking = false;
    finisher.in_flight -= ndone;
    pthread_cond_broadcast(&finisher.changed);
    pthread_mutex_unlock(&finisher.lock);
}

static bool is_over(const struct call *call)
{
    return call->job != finisher.job || call_is_done(call);
}

static struct xla_error *end_of(struct call *call)
{
    if (call->job == finisher.job)
        return call_finish(call, false);
    if (call->error)
        return call->error;
    return call_error(call->api, -ECANCELED, "shut down before the operation was complete");
}

/* Finish the calls of the list that are done, at most ENDINGS_MAX. They are taken from it; how
 * their futures are to be completed goes to ret_done. Returns how many. */
static int look(struct call **list, struct ending *ret_done)
{
    int n = 0;

    look_begin();
    while (*list && n < ENDINGS_MAX) {
        struct call *call = *list;

        if (!is_over(call)) {
            list = &call->next;
            continue;
        }
        *list = call->next;
        ret_done[n].api = call->api;
        ret_done[n].future = call->future;
        ret_done[n++].error = end_of(call);
        free(call);
    }
    look_end(n);
    return n;
}

static void wait_for(const struct call *call, int slice_ms)
{
    look_begin();
    reigen_wait_all(call->count, call->handles, slice_ms);
    look_end(0);
}

/* May run for long, and may hand new calls over. */
static void complete(const struct ending *ending)
{
    if (ending->error) {
        struct xla_future_error_args args = { sizeof(args), NULL, ending->future, ending->error };

        ending->api->future_set_error(&args);
    } else {
        struct xla_future_done_args args = { sizeof(args), NULL, ending->future };

        ending->api->future_set_available(&args);
    }
}

static void *finish_calls(void *unused)
{
    struct ending done[ENDINGS_MAX];
    struct call *list = NULL;
    int idle = 0;

    (void) unused;
    for (;;) {
        int n;

        if (take_incoming(&list))
            idle = 0;
        n = look(&list, done);
        for (int i = 0; i < n; i++)
            complete(&done[i]);
        if (n == 0)
            wait_for(list, idle++ < SLICES_SHORT ? SLICE_SHORT_MS : SLICE_LONG_MS);
        else
            idle = 0;
    }
    return NULL;
}

void reigen_jax_pause(void)
{
    pthread_mutex_lock(&finisher.lock);
    finisher.paused = true;
    while (finisher.looking)
        pthread_cond_wait(&finisher.changed, &finisher.lock);
    pthread_mutex_unlock(&finisher.lock);
}

void reigen_jax_resume(void)
{
    pthread_mutex_lock(&finisher.lock);
    finisher.paused = false;
    finisher.job++;
    pthread_cond_broadcast(&finisher.changed);
    pthread_mutex_unlock(&finisher.lock);
}

/* The child of a fork has none of the parent's threads, and none of its calls. */
static void after_fork(void)
{
    pthread_mutex_init(&finisher.lock, NULL);
    pthread_cond_init(&finisher.came, NULL);
    pthread_cond_init(&finisher.changed, NULL);
    finisher.looking = finisher.paused = false;
    finisher.incoming = NULL;
    finisher.in_flight = 0;
    finisher.running = false;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

static bool start_thread(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    bool started;

    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    started = pthread_create(&thread, &attr, finish_calls, NULL) == 0;
    pthread_attr_destroy(&attr);
    return started;
}

int finisher_start(void)
{
    bool running;

    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&finisher.lock);
    if (!finisher.running)
        finisher.running = start_thread();
    running = finisher.running;
    pthread_mutex_unlock(&finisher.lock);
    return running ? 0 : -EAGAIN;
}

void call_hand_over(struct call *take_call)
{
    pthread_mutex_lock(&finisher.lock);
    take_call->job = finisher.job;
    take_call->next = finisher.incoming;
    finisher.incoming = take_call;
    finisher.in_flight++;
    pthread_cond_signal(&finisher.came);
    pthread_mutex_unlock(&finisher.lock);
}

int calls_in_flight(void)
{
    int n;

    pthread_mutex_lock(&finisher.lock);
    n = finisher.in_flight;
    pthread_mutex_unlock(&finisher.lock);
    return n;
}
