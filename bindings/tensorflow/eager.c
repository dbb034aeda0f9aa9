/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce and broadcast in eager mode, over persistent requests: the calling thread waits anyway,
 * and the same few shapes come again and again.
 */
#include <errno.h>
#include <string.h>

#include "kernel.h"

static bool fits(const struct request *request, unsigned slot, const int64_t *shape, int ndim)
{
    return request->ptr && request->slot == slot && request->ndim == ndim &&
           memcmp(request->shape, shape, (size_t) ndim * sizeof(*shape)) == 0;
}

static void drop(struct request *request)
{
    reigen_request_free(request->ptr);
    request->ptr = NULL;
}

/* A place for a new request: a free one, else the oldest that nobody runs. */
static struct request *make_room(struct kernel *kernel)
{
    for (int i = 0; i < REQUESTS_MAX; i++) {
        if (!kernel->requests[i].ptr && !kernel->requests[i].busy)
            return &kernel->requests[i];
    }
    for (int i = 0; i < REQUESTS_MAX; i++) {
        struct request *request = &kernel->requests[kernel->oldest++ % REQUESTS_MAX];

        if (!request->busy) {
            drop(request);
            return request;
        }
    }
    return NULL;
}

/* The request of this run, busy from now on; NULL when there is no room, or another thread runs it.
 */
static struct request *take(struct kernel *kernel, unsigned slot, const int64_t *shape, int ndim)
{
    struct request *found = NULL;

    pthread_mutex_lock(&kernel->lock);
    for (int i = 0; i < REQUESTS_MAX && !found; i++) {
        if (fits(&kernel->requests[i], slot, shape, ndim))
            found = &kernel->requests[i];
    }
    if (!found) {
        found = make_room(kernel);
        if (found) {
            found->slot = slot;
            found->ndim = ndim;
            memcpy(found->shape, shape, (size_t) ndim * sizeof(*shape));
        }
    } else if (found->busy) {
        found = NULL;
    }
    if (found)
        found->busy = true;
    pthread_mutex_unlock(&kernel->lock);
    return found;
}

static void put(struct kernel *kernel, struct request *request)
{
    pthread_mutex_lock(&kernel->lock);
    request->busy = false;
    pthread_mutex_unlock(&kernel->lock);
}

static int create(const struct kernel *kernel, struct request *request, const char *name,
                  int dtype)
{
    return reigen_request_create(kernel->def->kind, name, dtype, request->shape, request->ndim,
                                 &kernel->options, &request->ptr);
}

/* Start it; one that was made before another init is made anew. */
static int start(const struct kernel *kernel, struct request *request, const char *name, int dtype,
                 const void *in, void *out, bool *ret_submitted)
{
    int r = 0;

    for (int attempt = 0; attempt < 2; attempt++) {
        *ret_submitted = false;
        if (!request->ptr)
            r = create(kernel, request, name, dtype);
        if (r < 0)
            return r;
        r = reigen_request_run(request->ptr, in, out, -1);
        *ret_submitted = reigen_request_error(request->ptr)[0] != 0 && r != -EEXIST;
        if (r != -ENOTCONN && r != -ENOENT)
            return r;
        drop(request);
        r = 0;
    }
    return -ENOTCONN;
}

int rg_tf_eager_run(struct kernel *kernel, TF_OpKernelContext *ctx, int dtype, const int64_t *shape,
                    int ndim, const void *in, void *out)
{
    char name[NAME_MAX_NBYTES + 1];
    unsigned slot = rg_tf_kernel_name(kernel, name);
    struct request *request = take(kernel, slot, shape, ndim);
    bool submitted;
    int r;

    if (!request)
        r = kernel->def->kind == REIGEN_ALLREDUCE
                ? reigen_allreduce(name, in, out, dtype, shape, ndim, &kernel->options)
                : reigen_broadcast(name, in, out, dtype, shape, ndim, &kernel->options);
    else
        r = start(kernel, request, name, dtype, in, out, &submitted);
    if (r < 0)
        rg_tf_run_fail(kernel, ctx, r, request ? submitted : true, NULL);
    if (request)
        put(kernel, request);
    return r;
}

void rg_tf_eager_free(struct kernel *kernel)
{
    for (int i = 0; i < REQUESTS_MAX; i++) {
        if (kernel->requests[i].ptr)
            drop(&kernel->requests[i]);
    }
}
