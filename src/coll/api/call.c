/* SPDX-License-Identifier: Apache-2.0 */
/* Where a caller's arguments are checked, once for all operations, before a rank hears of them. */
#include "coll/api/call.h"

#include <stdio.h>
#include <string.h>

#include "coll/exec/adasum.h"
#include "coll/gpu/gpu.h"
#include "coll/ground/element.h"

#define OWN_NAMES "reigen." /* of tensors that are none of the user's, in a group */
#define RG_ELEMENTS_MAX (INT64_C(1) << 46)
#define BARRIERS 64 /* in flight at once; their names are used again */

static const struct reigen_options default_options = REIGEN_OPTIONS_INIT;

static _Atomic bool deterministic; /* asked for beside REIGEN_DETERMINISTIC */

static bool reduces(int kind)
{
    return kind == REIGEN_ALLREDUCE || kind == REIGEN_REDUCESCATTER;
}

int rg_call_deterministic(int on)
{
    return on < 0 ? atomic_load(&deterministic) : atomic_exchange(&deterministic, on > 0);
}

/* Ranks of one node add in their order, whatever happens. */
static bool is_to_repeat(const struct rg_progress *progress, int kind)
{
    return reduces(kind) && progress->view.nnodes > 1 &&
           (progress->config->deterministic ||
            atomic_load_explicit(&deterministic, memory_order_relaxed));
}

void rg_call_renew(struct rg_progress *progress, struct rg_op *op)
{
    bool now = is_to_repeat(progress, op->kind);

    if (__builtin_expect(op->sigs[0].repeats == now, 1))
        return;
    op->sigs[0].repeats = now;
    op->digest = rg_signatures_digest(op->sigs, op->n);
}

/* The place of a rank of the world in the progress engine's team; -1: it is none of it. */
static int index_of(const struct rg_team *team, int rank)
{
    if (!team->world_ranks)
        return rank >= 0 && rank < team->size ? rank : -1;
    for (int i = 0; i < team->size; i++)
        if (team->world_ranks[i] == rank)
            return i;
    return -1;
}

/* Of a broadcast: its place, or -1. A rank that stands apart (reigen_apart) is its own root. */
static int root_of(const struct rg_progress *progress, const struct rg_call *call,
                   const struct reigen_options *o)
{
    bool apart = progress->process_set && o->process_set == 0;

    return call->kind != REIGEN_BROADCAST || apart ? 0 : index_of(progress->team, o->root);
}

static int bad_root(const struct rg_progress *progress, int root, struct rg_error *err)
{
    if (progress->process_set)
        return rg_error_set(err, EINVAL,
                            "broadcast received invalid root rank %d for provided process set "
                            "(it is not in process set %d)", root, progress->process_set);
    return rg_error_set(err, EINVAL,
                        "broadcast received invalid root rank %d for provided process set "
                        "(ranks are 0 to %d)", root, progress->team->size - 1);
}

/* What the caller added is reduced where that is the same as reducing its parts. */
static int check_element(const struct rg_element *element, const struct reigen_options *o,
                         const char *kind, struct rg_error *err)
{
    if (element->moves_only)
        return rg_error_set(err, EINVAL,
                            "%s: elements of %s cannot be reduced, only moved (broadcast, "
                            "allgather, alltoall); convert them to another type first", kind,
                            element->name);
    if (element->nparts > 1 && o->op != REIGEN_SUM && o->op != REIGEN_AVERAGE)
        return rg_error_set(err, EINVAL, "%s: elements of %s can be summed and averaged, and there "
                            "is no %s of them", kind, element->name, rg_op_name(o->op));
    return 0;
}

static int check_options(const struct rg_progress *progress, const struct rg_call *call,
                         const struct rg_element *element, const struct reigen_options *o,
                         struct rg_error *err)
{
    const char *kind = rg_kind_name(call->kind);
    int r;

    if (root_of(progress, call, o) < 0)
        return bad_root(progress, o->root, err);
    if (!reduces(call->kind))
        return 0;
    if (o->op < REIGEN_AVERAGE || o->op > REIGEN_PRODUCT)
        return rg_error_set(err, EINVAL, "%s: %d is no reduction", kind, o->op);
    if (call->kind == REIGEN_REDUCESCATTER && o->op != REIGEN_AVERAGE && o->op != REIGEN_SUM)
        return rg_error_set(err, EINVAL, "Reducescatter currently only supports AVERAGE and SUM.");
    r = check_element(element, o, kind, err);
    if (r < 0)
        return r;
    if (o->op == REIGEN_ADASUM && !rg_adasum_takes(element->dtype))
        return rg_error_set(err, EINVAL,
                            "%s: Adasum takes float16, bfloat16, float32 and float64, not %s", kind,
                            element->name);
    if (o->op == REIGEN_AVERAGE && element->dtype == REIGEN_BOOL)
        return rg_error_set(err, EINVAL, "%s: bool has no average; reduce with sum, min or max",
                            kind);
    return 0;
}

/* ret_count: parts of elements. */
static int check_shape(const struct rg_call *call, const struct rg_element *element, int i,
                       size_t *ret_count, struct rg_error *err)
{
    const char *kind = rg_kind_name(call->kind);
    int64_t count = element->nparts;
    int ndim = call->ndims[i];

    if (ndim < 0 || ndim > REIGEN_NDIM_MAX || (ndim > 0 && !call->shapes[i]))
        return rg_error_set(err, EINVAL, "%s: %d dimensions; give 0 to %d", kind, ndim,
                            REIGEN_NDIM_MAX);
    if (ndim == 0 && call->kind == REIGEN_REDUCESCATTER)
        return rg_error_set(err, EINVAL, "Reducescatter does not support scalar inputs");
    if (ndim == 0 && (call->kind == REIGEN_ALLGATHER || call->kind == REIGEN_ALLTOALL))
        return rg_error_set(err, EINVAL, "Rank zero tried to %s a rank-zero tensor.", kind);
    for (int d = 0; d < ndim; d++) {
        int64_t length = call->shapes[i][d];

        if (length < 0 || (length && count > RG_ELEMENTS_MAX / length))
            return rg_error_set(err, EINVAL, "%s: dimension %d of %lld elements is out of range",
                                kind, d, (long long) length);
        count *= length;
    }
    *ret_count = (size_t) count;
    return 0;
}

static int check_name(const struct rg_call *call, int i, struct rg_error *err)
{
    if (!call->names || !call->names[i])
        return 0;
    if (strnlen(call->names[i], REIGEN_NAME_MAX + 1) > REIGEN_NAME_MAX)
        return rg_error_set(err, EINVAL, "a name is longer than %d bytes: %.40s...",
                            REIGEN_NAME_MAX, call->names[i]);
    return 0;
}

static void fill_signature(struct rg_signature *sig, const struct rg_call *call,
                           const struct rg_element *element, int i, const struct reigen_options *o,
                           int process_set)
{
    *sig = (struct rg_signature){
        .kind = (uint8_t) call->kind,
        .dtype = element->dtype,
        /* An allgather whose ranks know that their parts are equal goes another way than one whose
         * ranks do not: they must not meet. */
        .op = reduces(call->kind) ? (uint8_t) o->op : call->kind == REIGEN_ALLGATHER && call->outs,
        .memory = (uint8_t) call->memory,
        .ndim = (uint8_t) call->ndims[i],
        .root = call->kind == REIGEN_BROADCAST ? o->root : 0,
        .process_set = process_set,
        .group_size = call->n > 1 ? call->n : 0,
        .prescale = reduces(call->kind) ? o->prescale : 1.0,
        .postscale = reduces(call->kind) ? o->postscale : 1.0,
    };
    if (call->dtype >= REIGEN_TYPE_ADDED) {
        sig->nparts = element->nparts;
        memcpy(sig->type, element->name, strlen(element->name));
    }
    for (int d = 0; d < call->ndims[i]; d++)
        sig->shape[d] = call->shapes[i][d];
    /* Each rank's own, and not compared. */
    if (call->kind == REIGEN_ALLGATHER || call->kind == REIGEN_ALLTOALL)
        sig->shape[0] = 0;
}

static int fill_tensor(struct rg_op *op, const struct rg_call *call, int i, int rank,
                       struct rg_error *err)
{
    struct rg_tensor *t = &op->tensors[i];
    bool sends = call->kind != REIGEN_BROADCAST || op->root == rank;
    bool receives = call->kind == REIGEN_ALLREDUCE || (call->kind == REIGEN_BROADCAST && !sends);
    int r = check_name(call, i, err);

    if (r == 0 && call->kind != REIGEN_BARRIER)
        r = check_shape(call, op->element, i, &t->count, err);
    if (r < 0 || call->kind == REIGEN_BARRIER)
        return r;
    t->in = call->ins ? call->ins[i] : NULL;
    t->out = call->outs ? call->outs[i] : NULL;
    t->nbytes = t->count * rg_dtype_nbytes(op->element->dtype);
    t->ndim = call->ndims[i];
    for (int d = 0; d < t->ndim; d++)
        t->shape[d] = call->shapes[i][d];
    if (t->nbytes && ((sends && !t->in) || (receives && !t->out)))
        return rg_error_set(err, EINVAL, "%s: a buffer is NULL", rg_kind_name(call->kind));
    op->nbytes += t->nbytes;
    return 0;
}

static int fill_splits(struct rg_op *op, const struct rg_call *call, int size, struct rg_error *err)
{
    int64_t rows = op->tensors[0].shape[0], sum = 0;

    if (call->nsplits != 0 && call->nsplits != size)
        return rg_error_set(err, EINVAL,
                            "Number of entries in splits does not equal number of workers. "
                            "(%d and %d)",
                            call->nsplits, size);
    if (call->nsplits == 0 && rows % size != 0)
        return rg_error_set(err, EINVAL,
                            "splits not provided, but first dimension of tensor is not an even "
                            "multiple of the number of workers. (%lld rows, %d workers)",
                            (long long) rows, size);
    op->splits.sent = calloc((size_t) size, sizeof(*op->splits.sent));
    op->splits.received = calloc((size_t) size, sizeof(*op->splits.received));
    op->splits.nreceived = size;
    if (!op->splits.sent || !op->splits.received)
        return rg_error_set(err, ENOMEM, "out of memory");
    for (int r = 0; r < size; r++) {
        int64_t part = call->nsplits ? call->splits[r] : rows / size;

        if (part < 0 || part > INT32_MAX)
            return rg_error_set(err, EINVAL, "alltoall: splits[%d] is %lld", r, (long long) part);
        op->splits.sent[r] = (int32_t) part;
        sum += part;
    }
    if (sum > rows)
        return rg_error_set(err, EINVAL,
                            "Sum of splits entries is greater than the first dimension of tensor. "
                            "(%lld and %lld)",
                            (long long) sum, (long long) rows);
    return 0;
}

static void fill_reduction(struct rg_op *op, const struct reigen_options *o, int size)
{
    int dtype = op->element->dtype;
    bool floats = dtype == REIGEN_FLOAT16 || dtype == REIGEN_FLOAT32 || dtype == REIGEN_FLOAT64 ||
                  dtype == REIGEN_BFLOAT16;

    op->scale = (struct rg_scale){ 1.0, 1.0, 1 };
    op->reduction = REIGEN_SUM;
    if (!reduces(op->kind))
        return;
    op->scale.pre = o->prescale;
    op->scale.post = o->postscale;
    if (o->op == REIGEN_ADASUM && size == 1)
        op->reduction = REIGEN_SUM; /* of one vector: itself */
    else if (o->op != REIGEN_AVERAGE)
        op->reduction = (uint8_t) o->op;
    else if (floats)
        op->scale.post /= size;
    else
        op->scale.divisor = size;
}

/* By malloc, where it can be: calloc does not look for the piece that this thread freed last. */
static struct rg_op *new_op(const struct rg_call *call)
{
    struct rg_op *op = malloc(sizeof(*op));
    size_t n = (size_t) call->n;

    if (!op)
        return NULL;
    *op = (struct rg_op){ .refs = 1, .n = call->n };
    op->tensors = n == 1 ? &op->one : calloc(n, sizeof(*op->tensors));
    op->sigs = n == 1 ? &op->one_sig : malloc(n * sizeof(*op->sigs));
    if (!op->tensors || !op->sigs) {
        rg_op_unref(op);
        return NULL;
    }
    return op;
}

static int fill(struct rg_progress *progress, struct rg_op *op, const struct rg_call *call,
                struct rg_error *err)
{
    const struct reigen_options *o = call->options ? call->options : &default_options;
    bool repeats = is_to_repeat(progress, call->kind);
    int size = progress->team->size, r;

    op->element = rg_element_find(call->dtype);
    if (!op->element)
        return rg_error_set(err, EINVAL, "%d is no element type", call->dtype);
    r = check_options(progress, call, op->element, o, err);
    op->kind = (uint8_t) call->kind;
    op->buffers = (struct rg_op_buffers){ .memory = (uint8_t) call->memory,
                                          .device = call->device, .stream = call->stream,
                                          .ready = rg_gpu_mark_ref(call->ready) };
    op->root = r == 0 ? root_of(progress, call, o) : 0;
    op->set = call->set;
    op->waits = call->waits;
    for (int i = 0; r == 0 && i < call->n; i++) {
        r = fill_tensor(op, call, i, progress->team->rank, err);
        if (r < 0)
            break;
        fill_signature(&op->sigs[i], call, op->element, i, o, progress->process_set);
        op->sigs[i].repeats = repeats;
    }
    if (r == 0 && call->kind == REIGEN_ALLTOALL)
        r = fill_splits(op, call, size, err);
    if (r < 0)
        return r;
    fill_reduction(op, o, size);
    op->digest = rg_signatures_digest(op->sigs, op->n);
    if (op->n > 1 && progress->view.nnodes > 1) {
        op->sigs[0].group_digest = op->digest;
        for (int i = 0; i < op->n; i++)
            op->sigs[0].group_count += (int64_t) op->tensors[i].count;
        /* Each rank's own. */
        if (op->kind == REIGEN_ALLGATHER)
            op->sigs[0].group_count = 0;
    }
    return 0;
}

int rg_call_make(struct rg_progress *progress, const struct rg_call *call, struct rg_op **ret_op,
                 struct rg_error *err)
{
    struct rg_op *op;
    int r;

    if (call->n < 1 || call->n > RG_GROUP_MAX)
        return rg_error_set(err, EINVAL, "a group of %d tensors; give 1 to %d", call->n,
                            RG_GROUP_MAX);
    op = new_op(call);
    if (!op)
        return rg_error_set(err, ENOMEM, "out of memory");
    r = fill(progress, op, call, err);
    if (r < 0) {
        rg_op_unref(op);
        return r;
    }
    *ret_op = op;
    return 0;
}

static uint64_t hash_names(const struct rg_call *call)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (int i = 0; i < call->n; i++) {
        for (const char *c = call->names[i] ? call->names[i] : ""; *c; c++)
            h = (h ^ (uint8_t) *c) * UINT64_C(0x100000001b3);
        h = (h ^ 0x1ff) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* How many tensors of the user's are in a group behind its first; ours, which bindings send with
 * them, have names of their own kind. */
static int count_more(const struct rg_call *call)
{
    int count = 0;

    for (int i = 1; i < call->n; i++)
        count += !call->names || !call->names[i] ||
                 strncmp(call->names[i], OWN_NAMES, strlen(OWN_NAMES)) != 0;
    return count;
}

int rg_call_key(struct rg_progress *progress, const struct rg_call *call,
                char ret_key[RG_KEY_MAX], struct rg_error *err)
{
    const char *kind = rg_kind_name(call->kind);
    const char *first = call->names ? call->names[0] : NULL;
    unsigned long long number = first ? 0 : progress->table.unnamed[call->kind]++;
    int n;

    if (first)
        n = snprintf(ret_key, RG_KEY_MAX, "%s.%s", kind, first);
    else
        n = snprintf(ret_key, RG_KEY_MAX, "%s.noname.%llu", kind,
                     call->kind == REIGEN_BARRIER ? number % BARRIERS : number);
    if (call->n > 1)
        n += snprintf(ret_key + n, RG_KEY_MAX - (size_t) n, "+%d:%llx", count_more(call),
                      first ? (unsigned long long) hash_names(call) : 0ull);
    if (n >= RG_KEY_MAX)
        return rg_error_set(err, EINVAL, "a name is too long");
    return 0;
}

static int add_members(struct rg_progress *progress, const struct rg_call *call,
                       struct rg_record *record)
{
    record->members = calloc((size_t) call->n, sizeof(*record->members));
    if (!record->members)
        return -ENOMEM;
    for (int i = 0; i < call->n; i++) {
        char key[RG_KEY_MAX];

        snprintf(key, sizeof(key), "%s.%s", rg_kind_name(call->kind), call->names[i]);
        if (rg_table_record(&progress->table, key, &record->members[i]) < 0)
            return -ENOMEM;
        record->members[i]->pins++;
        record->nmembers = i + 1;
    }
    return 0;
}

int rg_call_record(struct rg_progress *progress, const struct rg_call *call, const char *key,
                   struct rg_record **ret_record)
{
    struct rg_record *record;
    bool named = call->n > 1 && call->names;
    int r = rg_table_record(&progress->table, key, &record);

    for (int i = 0; named && i < call->n; i++)
        named = call->names[i] != NULL;
    if (r < 0)
        return r;
    record->pins++;
    if (named && !record->members)
        r = add_members(progress, call, record);
    record->pins--;
    if (r == 0)
        *ret_record = record;
    return r;
}

/* Nobody has it, or who has it was submitted before this rank's last wait. */
static bool may_follow(const struct rg_record *record, uint64_t waited)
{
    bool free = !atomic_load(&record->op) && !rg_record_is_held(record) &&
                !atomic_load(&record->in_line);

    return free || atomic_load_explicit(&record->waits, memory_order_relaxed) < waited;
}

/* "allreduce.grad_1of2 and 1 more" */
static int in_use(const struct rg_call *call, const char *key, struct rg_error *err)
{
    if (call->n == 1 || !call->names || !call->names[0])
        return rg_error_set(err, EEXIST, "%s (%s)", rg_name_in_use_text, key);
    return rg_error_set(err, EEXIST, "%s (%s.%s and %d more)", rg_name_in_use_text,
                        rg_kind_name(call->kind), call->names[0], count_more(call));
}

/* Under the lock: 0, or 1 where the operation is to stand in line. -errno with err. The runtime's
 * own names always follow: it uses them again by itself. */
static int claim(struct rg_progress *progress, const struct rg_call *call,
                 struct rg_record *record, struct rg_op *op, const char *key, struct rg_error *err)
{
    bool follows;

    if (rg_names_take(progress, record, op) == 0)
        return 0;
    follows = !call->names || !call->names[0] || may_follow(record, call->waited);
    for (int i = 0; i < record->nmembers; i++)
        follows = follows && may_follow(record->members[i], call->waited);
    if (!follows)
        return in_use(call, key, err);
    if (!rg_line_wants(record) && rg_names_claim(progress, record, op, true) == 0)
        return 0;
    return rg_op_refusal(progress, record, err) < 0 ? -err->errnum : 1;
}

static void unclaim(struct rg_progress *progress, struct rg_op *op)
{
    pthread_mutex_lock(&progress->lock);
    rg_names_drop(progress, op->record);
    rg_op_seen(op);
    atomic_store(&op->state, RG_OP_DONE); /* the driver may have been asked to look at it */
    pthread_mutex_unlock(&progress->lock);
}

/* When they were last submitted. */
static void mark_names(struct rg_record *record, uint64_t waited)
{
    atomic_store_explicit(&record->waits, waited, memory_order_relaxed);
    for (int i = 0; i < record->nmembers; i++)
        atomic_store_explicit(&record->members[i]->waits, waited, memory_order_relaxed);
}

/* The first n of them. */
static void drop_handles(struct rg_progress *progress, const reigen_handle *handles, int n)
{
    pthread_mutex_lock(&progress->handles->lock);
    for (int i = 0; i < n; i++)
        rg_handles_remove(progress->handles, rg_handles_find(progress->handles, handles[i]));
    pthread_mutex_unlock(&progress->handles->lock);
}

/* n of them, or none. */
static int add_handles(struct rg_progress *progress, struct rg_op *op, reigen_handle *handles,
                       int n)
{
    int done = 0, r = 0;

    pthread_mutex_lock(&progress->handles->lock);
    while (r == 0 && done < n) {
        r = rg_handles_add(progress->handles, op, done, &handles[done]);
        done += r == 0;
    }
    pthread_mutex_unlock(&progress->handles->lock);
    if (r < 0)
        drop_handles(progress, handles, done);
    return r;
}

/* Under the lock: find the record, claim it, and make handles. 0, or 1: it stands in line. */
static int enter(struct rg_progress *progress, const struct rg_call *call, struct rg_op *op,
                 reigen_handle *handles, struct rg_error *err)
{
    char key[RG_KEY_MAX];
    struct rg_record *record;
    int r = rg_call_key(progress, call, key, err);

    if (r < 0)
        return r;
    if (rg_call_record(progress, call, key, &record) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    r = claim(progress, call, record, op, key, err);
    if (r < 0)
        return r;
    op->record = record;
    atomic_fetch_add(&op->refs, 1); /* the progress engine's */
    if (handles && add_handles(progress, op, handles, call->n) < 0) {
        if (r == 0)
            rg_names_drop(progress, record);
        atomic_fetch_sub(&op->refs, 1);
        return rg_error_set(err, ENOMEM, "more than %u handles are in use", RG_HANDLES_MAX / 2);
    }
    mark_names(record, call->waited);
    /* The reference that rg_call_make gave is the first handle's. */
    if (handles) {
        atomic_fetch_add(&op->refs, call->n - 1);
        op->nhandles = call->n;
    }
    /* The runtime's own names do not come again. In line it has none yet, and is to hold them. */
    if (handles && call->names && call->names[0]) {
        if (r == 0)
            rg_op_hold_name(op);
        else
            atomic_store(&op->name.held, true);
    }
    if (r == 1)
        rg_line_add(progress, op);
    return r;
}

int rg_call_submit(struct rg_progress *progress, const struct rg_call *call, reigen_handle *handles,
                   struct rg_op **ret_op, struct rg_error *err)
{
    struct rg_op *op = NULL;
    int r = rg_call_make(progress, call, &op, err);

    if (r < 0)
        return r;
    pthread_mutex_lock(&progress->lock);
    r = enter(progress, call, op, handles, err);
    pthread_mutex_unlock(&progress->lock);
    if (r < 0) {
        rg_op_unref(op);
        return r;
    }
    if (r == 1) {
        rg_line_stir(progress);
        r = 0;
    } else {
        r = rg_op_post(progress, op, err);
    }
    if (r < 0) {
        if (handles)
            drop_handles(progress, handles, call->n);
        unclaim(progress, op);
        /* The progress engine's and the handles'; another thread may hold one of its own. */
        for (int i = handles ? call->n + 1 : 2; i > 0; i--)
            rg_op_unref(op);
        return r;
    }
    if (ret_op)
        *ret_op = op;
    return 0;
}
