/* SPDX-License-Identifier: Apache-2.0 */
/* Turning numbers back into operations, at the leaders that are told what was decided. */
#include "coll/negotiate/order_known.h"

#include <errno.h>
#include <string.h>
#include <uthash.h>

#include "coll/node/signature.h"

#define IDS_MAX (1u << 24) /* numbers are small and reused: a larger one is garbage */

struct entry {
    uint32_t id;
    struct rg_signature sig;
    UT_hash_handle hh;
    char name[];
};

struct rg_known {
    struct entry *entries;
    struct entry **by_id;
    size_t ids_capacity;
};

int rg_known_create(struct rg_known **ret_known)
{
    struct rg_known *known = calloc(1, sizeof(*known));

    if (!known)
        return -ENOMEM;
    *ret_known = known;
    return 0;
}

static void entry_free(struct rg_known *known, struct entry *entry)
{
    known->by_id[entry->id] = NULL;
    HASH_DEL(known->entries, entry);
    free(entry);
}

void rg_known_destroy(struct rg_known *known)
{
    struct entry *entry, *next;

    if (!known)
        return;
    HASH_ITER(hh, known->entries, entry, next)
        entry_free(known, entry);
    free(known->by_id);
    free(known);
}

uint32_t rg_known_number(const struct rg_known *known, const char *name,
                         const struct rg_signature *sig)
{
    struct entry *entry;

    HASH_FIND_STR(known->entries, name, entry);
    if (!entry || rg_signature_compare(NULL, &entry->sig, 0, sig, 0, NULL) < 0)
        return 0;
    return entry->id;
}

void rg_known_forget(struct rg_known *known, uint32_t id)
{
    if (id < known->ids_capacity && known->by_id[id])
        entry_free(known, known->by_id[id]);
}

static int learn(struct rg_known *known, const struct rg_order_frame *frame)
{
    struct entry *entry;

    if (frame->id >= IDS_MAX)
        return -EPROTO;
    if (rg_grow(&known->by_id, &known->ids_capacity, frame->id + 1) < 0)
        return -ENOMEM;
    HASH_FIND_STR(known->entries, frame->name, entry);
    if (entry && entry->id == frame->id) {
        entry->sig = frame->sig;
        return 0;
    }
    if (entry)
        entry_free(known, entry);
    rg_known_forget(known, frame->id);
    entry = calloc(1, sizeof(*entry) + strlen(frame->name) + 1);
    if (!entry)
        return -ENOMEM;
    strcpy(entry->name, frame->name);
    entry->id = frame->id;
    entry->sig = frame->sig;
    known->by_id[entry->id] = entry;
    HASH_ADD_STR(known->entries, name, entry);
    return 0;
}

int rg_known_decided(struct rg_known *known, const struct rg_order_frame *frame,
                     void (*fn)(void *arg, const char *name, const struct rg_signature *sig,
                                const char *text, bool more),
                     void *arg)
{
    bool more = frame->flags & RG_ORDER_MORE;
    struct entry *entry;
    int r;

    if (frame->type == RG_ORDER_DECIDED) {
        entry = frame->id < known->ids_capacity ? known->by_id[frame->id] : NULL;
        if (!entry)
            return -EPROTO;
        fn(arg, entry->name, &entry->sig, "", more);
        return 0;
    }
    r = frame->id > 0 ? learn(known, frame) : 0;
    if (r == 0)
        fn(arg, frame->name, &frame->sig, frame->text, more);
    return r;
}
