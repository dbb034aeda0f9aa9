/* SPDX-License-Identifier: Apache-2.0 */
/* Handles count up and are looked up, so that an old one is refused and never another's. */
#include "coll/ops/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/ops/op.h"

#define INDEX_BITS 20

/* Of the whole process, so that a handle of before shutdown is none of after the next init. */
static _Atomic int64_t serial;

void rg_handles_init(struct rg_handles *ret_handles)
{
    *ret_handles = (struct rg_handles){ .table = NULL };
    pthread_mutex_init(&ret_handles->lock, NULL);
}

static int grow(struct rg_handles *handles)
{
    uint32_t capacity = handles->capacity ? handles->capacity * 2 : 256;
    struct rg_handle *table;

    if (capacity > RG_HANDLES_MAX)
        return -ENOMEM;
    table = realloc(handles->table, capacity * sizeof(*table));
    if (!table)
        return -ENOMEM;
    memset(table + handles->capacity, 0, (capacity - handles->capacity) * sizeof(*table));
    for (uint32_t i = capacity; i > handles->capacity; i--) {
        table[i - 1].next = handles->free;
        handles->free = i;
    }
    handles->table = table;
    handles->capacity = capacity;
    return 0;
}

int rg_handles_add(struct rg_handles *handles, struct rg_op *op, int tensor,
                   reigen_handle *ret_number)
{
    struct rg_handle *handle;
    uint32_t index;

    if (!handles->free && grow(handles) < 0)
        return -ENOMEM;
    index = handles->free - 1;
    handle = &handles->table[index];
    handles->free = handle->next;
    handle->number = (atomic_fetch_add(&serial, 1) + 1) << INDEX_BITS | index;
    handle->op = op;
    handle->tensor = tensor;
    *ret_number = handle->number;
    return 0;
}

struct rg_handle *rg_handles_find(struct rg_handles *handles, reigen_handle number)
{
    uint32_t index = (uint32_t) number & (RG_HANDLES_MAX - 1);

    if (number <= 0 || index >= handles->capacity || handles->table[index].number != number)
        return NULL;
    return &handles->table[index];
}

void rg_handles_remove(struct rg_handles *handles, struct rg_handle *handle)
{
    handle->number = 0;
    handle->op = NULL;
    handle->next = handles->free;
    handles->free = (uint32_t) (handle - handles->table) + 1;
}

void rg_handles_fini(struct rg_handles *handles)
{
    for (uint32_t i = 0; i < handles->capacity; i++) {
        if (handles->table[i].number)
            rg_op_unref(handles->table[i].op);
    }
    free(handles->table);
    handles->table = NULL;
    handles->capacity = handles->free = 0;
    pthread_mutex_destroy(&handles->lock);
}
