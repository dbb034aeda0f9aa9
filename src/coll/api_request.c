/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent requests: everything that can be done once is done in reigen_request_create; a start
 * of a small operation then takes no lock, no allocation and no system call.
 */
#include <string.h>

#include "base/time.h"
#include "coll/api.h"

struct reigen_request {
    struct rg_op *op;
    struct rg_runtime *rt;
    uint64_t generation;
};

static bool alive(const struct reigen_request *request)
{
    const struct rg_runtime *rt = rg_api_runtime();

    return rt && rt == request->rt && rt->generation == request->generation;
}

REIGEN_API int reigen_request_create(int kind, const char *name, int dtype, const int64_t *shape,
                                     int ndim, const struct reigen_options *options,
                                     struct reigen_request **ret_request)
{
    static const char placeholder; /* buffers are checked at the start */
    struct rg_runtime *rt = rg_api_runtime();
    struct rg_error err = RG_ERROR_INIT;
    const void *in = &placeholder;
    void *out = (void *) &placeholder;
    struct rg_call call = { .kind = kind, .n = 1, .names = &name, .ins = &in, .outs = &out,
                            .dtype = dtype, .shapes = &shape, .ndims = &ndim,
                            .options = options };
    rg_autofree struct reigen_request *request = calloc(1, sizeof(*request));
    char key[RG_KEY_MAX];
    int r;

    if (!rt)
        return rg_api_uninitialised();
    if (kind != REIGEN_ALLREDUCE && kind != REIGEN_BROADCAST)
        return rg_api_failf(EINVAL, "%s cannot be a persistent request", rg_kind_name(kind));
    if (!request)
        return rg_api_failf(ENOMEM, "out of memory");
    r = rg_call_make(rt->engine, &call, &request->op, &err);
    if (r < 0)
        return rg_api_fail(&err);
    request->op->persistent = true;
    atomic_store(&request->op->state, RG_OP_DONE);
    pthread_mutex_lock(&rt->engine->lock);
    r = rg_call_key(rt->engine, &call, key, &err);
    if (r == 0 && rg_call_record(rt->engine, &call, key, &request->op->record) < 0)
        r = rg_error_set(&err, ENOMEM, "out of memory");
    if (r == 0)
        request->op->record->pins++;
    pthread_mutex_unlock(&rt->engine->lock);
    if (r < 0) {
        rg_op_unref(request->op);
        return rg_api_fail(&err);
    }
    request->rt = rt;
    request->generation = rt->generation;
    *ret_request = rg_steal_ptr(&request);
    return 0;
}

static int in_use(const struct reigen_request *request)
{
    return rg_api_failf(EEXIST, "%s (%s)", rg_name_in_use_text, request->op->record->key);
}

/* The record is held by another operation, perhaps one that has arrived already. */
static int claim_slowly(struct rg_engine *engine, struct rg_op *op)
{
    int r;

    pthread_mutex_lock(&engine->lock);
    r = rg_record_claim(engine, op->record, op);
    pthread_mutex_unlock(&engine->lock);
    return r;
}

static int start(struct reigen_request *request, const void *in, void *out, bool waits)
{
    struct rg_engine *engine = request->rt->engine;
    struct rg_op *op = request->op, *none = NULL;
    struct rg_error err = RG_ERROR_INIT;
    int r;

    if (op->nbytes && (!in || !out) &&
        (op->kind == REIGEN_ALLREDUCE || (op->root == engine->team->rank ? !in : !out)))
        return rg_api_failf(EINVAL, "a buffer is NULL");
    if (!rg_op_try(engine, op) || (!atomic_compare_exchange_strong(&op->record->op, &none, op) &&
                                   claim_slowly(engine, op) < 0))
        return in_use(request);
    op->one.in = in;
    op->one.out = out;
    op->waits = waits;
    if (op->text) {
        free(op->text);
        op->text = NULL;
    }
    r = rg_op_post(engine, op, &err);
    if (r < 0) {
        op->status = r;
        op->text = strdup(err.text);
        atomic_store(&op->record->op, NULL);
        atomic_store(&op->state, RG_OP_DONE);
        return rg_api_fail(&err);
    }
    return 0;
}

REIGEN_API int reigen_request_start(struct reigen_request *request, const void *in, void *out)
{
    if (!alive(request))
        return rg_api_uninitialised();
    return start(request, in, out, false);
}

REIGEN_API int reigen_request_test(struct reigen_request *request)
{
    if (!alive(request))
        return rg_api_uninitialised();
    return rg_engine_wait(request->rt->engine, request->op, 0) == 0;
}

static int await(struct reigen_request *request, int timeout_ms)
{
    struct rg_op *op = request->op;
    int r = rg_engine_wait(request->rt->engine, op, rg_api_deadline(timeout_ms));

    if (r < 0)
        return r;
    if (op->status < 0)
        rg_api_failf(-op->status, "%s", op->text ? op->text : "out of memory");
    return op->status;
}

REIGEN_API int reigen_request_wait(struct reigen_request *request, int timeout_ms)
{
    if (!alive(request))
        return rg_api_uninitialised();
    return await(request, timeout_ms);
}

REIGEN_API int reigen_request_run(struct reigen_request *request, const void *in, void *out,
                                  int timeout_ms)
{
    int r;

    if (!alive(request))
        return rg_api_uninitialised();
    r = start(request, in, out, true);
    return r < 0 ? r : await(request, timeout_ms);
}

REIGEN_API const char *reigen_request_error(struct reigen_request *request)
{
    const struct rg_op *op = request->op;

    return rg_op_done(op) && op->status < 0 ? (op->text ? op->text : "out of memory") : "";
}

REIGEN_API void reigen_request_free(struct reigen_request *request)
{
    if (!request)
        return;
    if (alive(request)) {
        rg_engine_wait(request->rt->engine, request->op, RG_NEVER_NS);
        pthread_mutex_lock(&request->rt->engine->lock);
        request->op->record->pins--;
        pthread_mutex_unlock(&request->rt->engine->lock);
    }
    rg_op_unref(request->op);
    free(request);
}
