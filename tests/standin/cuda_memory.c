/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of devices that are not there: given out, looked up, filled and copied. */
#include "cuda_state.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The block that these bytes are in; under the lock. */
static struct block *find_block(const char *at, size_t nbytes)
{
    for (struct block *block = all.blocks; block; block = block->next)
        if (at >= block->at && at + nbytes <= block->at + block->nbytes)
            return block;
    return NULL;
}

static struct context *owner_of(const char *at)
{
    for (int i = 0; i < all.ndevices; i++)
        if (at >= all.contexts[i].fence && at < all.contexts[i].fence + POOL_NBYTES)
            return &all.contexts[i];
    return NULL;
}

STANDIN_API void *standin_view(const void *address, size_t nbytes)
{
    char *at = (char *) (uintptr_t) address;
    struct context *owner = owner_of(at);
    bool there;

    if (!owner)
        return at;
    pthread_mutex_lock(&all.lock);
    there = find_block(at, nbytes) != NULL;
    pthread_mutex_unlock(&all.lock);
    return there ? owner->view + (at - owner->fence) : NULL;
}

/* The lowest room that is free; under the lock. */
static int allocate(struct context *context, size_t nbytes, char **ret_at)
{
    struct block **where = &all.blocks, *block;
    size_t size = (nbytes + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    char *at = context->fence;

    if (nbytes == 0)
        return INVALID_VALUE;
    if (context->used + size > all.nbytes || context->used + size > POOL_NBYTES)
        return OUT_OF_MEMORY;
    /* The list is in the order of addresses for each device. */
    for (block = all.blocks; block; where = &block->next, block = block->next) {
        if (block->device != context->device)
            continue;
        if (block->at >= at + size)
            break;
        at = block->at + block->nbytes;
    }
    block = at + size <= context->fence + POOL_NBYTES ? malloc(sizeof(*block)) : NULL;
    if (!block)
        return OUT_OF_MEMORY;
    *block = (struct block){ *where, at, size, context->device };
    *where = block;
    context->used += size;
    all.nalive++;
    *ret_at = at;
    return SUCCESS;
}

/* What was in it is gone; under the lock. */
static int discard(char *at)
{
    for (struct block **where = &all.blocks; *where; where = &(*where)->next) {
        struct block *block = *where;

        if (block->at != at)
            continue;
        if (block->device >= 0) {
            struct context *context = &all.contexts[block->device];

            /* On a broken device nothing waits for what its other streams still write. */
            if (context->result != SUCCESS)
                return SUCCESS;
            memset(context->view + (at - context->fence), 0xdb, block->nbytes);
            context->used -= block->nbytes;
        } else {
            all.pinned_left += block->nbytes;
            free(at);
        }
        *where = block->next;
        free(block);
        all.nalive--;
        return SUCCESS;
    }
    return INVALID_VALUE;
}

STANDIN_API int cuMemAlloc_v2(char **ret_at, size_t nbytes)
{
    struct context *context;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    r = standin_is_unsafe() ? CAPTURE_UNSUPPORTED : allocate(context, nbytes, ret_at);
    return standin_leave(r);
}

/* Waits for the device, as the real one does. */
STANDIN_API int cuMemFree_v2(char *at)
{
    struct context *context;
    int r = standin_enter(&context);

    if (r != SUCCESS || !at)
        return r != SUCCESS ? r : standin_leave(SUCCESS);
    if (standin_is_unsafe())
        return standin_leave(CAPTURE_UNSUPPORTED);
    while (!standin_idle(context))
        pthread_cond_wait(&all.changed, &all.lock);
    return standin_leave(discard(at));
}

STANDIN_API int cuMemHostAlloc(void **ret_at, size_t nbytes, unsigned flags)
{
    struct block *block;
    void *at;
    int r = standin_enter(NULL);

    (void) flags;
    if (r != SUCCESS)
        return r;
    if (standin_is_unsafe() || nbytes > all.pinned_left)
        return standin_leave(nbytes > all.pinned_left ? OUT_OF_MEMORY : CAPTURE_UNSUPPORTED);
    block = malloc(sizeof(*block));
    if (!block || posix_memalign(&at, 4096, nbytes ? nbytes : 1) != 0) {
        free(block);
        return standin_leave(OUT_OF_MEMORY);
    }
    *block = (struct block){ all.blocks, at, nbytes, -1 };
    all.blocks = block;
    all.pinned_left -= nbytes;
    all.nalive++;
    *ret_at = at;
    return standin_leave(SUCCESS);
}

STANDIN_API int cuMemFreeHost(void *at)
{
    struct context *context;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    if (standin_is_unsafe())
        return standin_leave(CAPTURE_UNSUPPORTED);
    while (!standin_idle(context))
        pthread_cond_wait(&all.changed, &all.lock);
    return standin_leave(discard(at));
}

STANDIN_API int cuPointerGetAttributes(unsigned n, const int *attributes, void **ret_values,
                                       char *at)
{
    struct context *context;
    struct block *block;
    int r = standin_enter(&context);

    if (r != SUCCESS)
        return r;
    block = find_block(at, 1);
    for (unsigned i = 0; i < n; i++) {
        if (attributes[i] == 2) /* the type of memory */
            *(unsigned *) ret_values[i] = !block ? 0 : block->device < 0 ? 1 : 2;
        else if (attributes[i] == 9) /* the device */
            *(int *) ret_values[i] = !block ? -2 : block->device < 0 ? 0 : block->device;
        else
            return standin_leave(INVALID_VALUE);
    }
    return standin_leave(SUCCESS);
}

/* ---- work on it */

/* A copy, a fill (from is NULL) or, of no bytes, what is to be freed. */
struct move {
    struct standin_stream *stream;
    char *to, *from;
    size_t nbytes;
    unsigned char value;
};

static _Atomic int ncopies[STANDIN_NCOPIES], under_way[2];

STANDIN_API int standin_copies(int which)
{
    return atomic_load(&ncopies[which]);
}

/* A copy's time, if it is one between a device and the host. */
static void take_time(const struct move *move)
{
    const char *us = getenv("STANDIN_COPY_US");
    bool from = owner_of(move->from) != NULL, to = owner_of(move->to) != NULL;
    struct timespec time = { 0, us ? atol(us) * 1000 : 0 };

    if (!move->from || from == to)
        return;
    atomic_fetch_add(&ncopies[to ? STANDIN_COPIES_TO : STANDIN_COPIES_FROM], 1);
    atomic_fetch_add(&under_way[to], 1);
    if (atomic_load(&under_way[!to]) > 0)
        atomic_fetch_add(&ncopies[STANDIN_COPIES_BESIDE], 1);
    nanosleep(&time, NULL); /* patient: so long a copy takes */
    atomic_fetch_sub(&under_way[to], 1);
}

static void do_move(void *arg)
{
    struct move *move = arg;
    char *to = standin_view(move->to, move->nbytes);
    char *from = move->from ? standin_view(move->from, move->nbytes) : NULL;

    take_time(move);

    if (!to || (move->from && !from))
        standin_break(move->stream, ILLEGAL_ADDRESS, "a copy of what is not allocated");
    else if (from)
        memmove(to, from, move->nbytes);
    else
        memset(to, move->value, move->nbytes);
    free(move);
}

static void do_free(void *arg)
{
    struct move *move = arg;
    int r;

    pthread_mutex_lock(&all.lock);
    r = discard(move->to);
    pthread_mutex_unlock(&all.lock);
    if (r != SUCCESS)
        standin_break(move->stream, ILLEGAL_ADDRESS, "what is not allocated was freed");
    free(move);
}

static int put_move(const struct move *what, void (*fn)(void *arg))
{
    struct move *move = malloc(sizeof(*move));
    int r;

    if (!move)
        return OUT_OF_MEMORY;
    *move = *what;
    r = standin_put(what->stream, fn, move);
    if (r != SUCCESS)
        free(move);
    return r;
}

STANDIN_API int cuMemcpyAsync(char *to, char *from, size_t nbytes, struct standin_stream *stream)
{
    struct move move = { .stream = stream, .to = to, .from = from, .nbytes = nbytes };

    return nbytes == 0 ? SUCCESS : put_move(&move, do_move);
}

STANDIN_API int cuMemsetD8Async(char *to, unsigned char value, size_t nbytes,
                                struct standin_stream *stream)
{
    struct move move = { .stream = stream, .to = to, .nbytes = nbytes, .value = value };

    return nbytes == 0 ? SUCCESS : put_move(&move, do_move);
}

STANDIN_API int cuMemAllocAsync(char **ret_at, size_t nbytes, struct standin_stream *stream)
{
    struct context *context;
    int r = standin_enter(&context);

    (void) stream;
    return r != SUCCESS ? r : standin_leave(allocate(context, nbytes, ret_at));
}

STANDIN_API int cuMemFreeAsync(char *at, struct standin_stream *stream)
{
    struct move move = { .stream = stream, .to = at };

    return put_move(&move, do_free);
}
