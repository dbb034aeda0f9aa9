/* SPDX-License-Identifier: Apache-2.0 */
/* Turning numbers back into operations, at the leaders that are told what was decided. */
#include "coll/negotiate/order_known.h"

#include <errno.h>
#include <string.h>
#include <uthash.h>

#include "coll/node/signature.h"

struct entry {
    uint32_t id;
    struct rg_signature sig;
    bool retired;
    bool direct;          /* its uses go directly ... */
    bool is_void;         /* ... but not this one */
    bool void_next;       /* the use after the one that has begun is void */
    uint32_t next;        /* the use that comes, or has begun; 0: none ever went directly */
    enum rg_begun begun;
    UT_hash_handle hh;
    char name[];
};

struct rg_known {
    struct entry *entries;
    struct entry **by_id;
    size_t ids_capacity;
    int nbegun, nown;
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

static struct entry *find(const struct rg_known *known, uint32_t id)
{
    return id < known->ids_capacity ? known->by_id[id] : NULL;
}

const char *rg_known_name(const struct rg_known *known, uint32_t id)
{
    const struct entry *entry = find(known, id);

    return entry ? entry->name : NULL;
}

uint32_t rg_known_id(const struct rg_known *known, const char *name)
{
    const struct entry *entry;

    HASH_FIND_STR(known->entries, name, entry);
    return entry ? entry->id : 0;
}

uint32_t rg_known_number(const struct rg_known *known, const char *name,
                         const struct rg_signature *sig, struct rg_use *ret_refused)
{
    struct entry *entry;
    bool goes_directly;

    *ret_refused = (struct rg_use) { 0, 0 };
    HASH_FIND_STR(known->entries, name, entry);
    if (!entry)
        return 0;
    goes_directly = entry->direct && !entry->is_void;
    if (goes_directly)
        *ret_refused = (struct rg_use) { entry->id, entry->next };
    if (goes_directly || entry->retired || !sig ||
        rg_signature_compare(NULL, &entry->sig, 0, sig, 0, NULL) < 0)
        return 0;
    return entry->id;
}

static int learn(struct rg_known *known, const struct rg_order_frame *frame)
{
    struct entry *entry, *other;

    if (frame->id >= RG_KNOWN_IDS_MAX)
        return -EPROTO;
    if (rg_grow(&known->by_id, &known->ids_capacity, frame->id + 1) < 0)
        return -ENOMEM;
    HASH_FIND_STR(known->entries, frame->name, entry);
    other = find(known, frame->id);
    if ((entry && entry->begun) || (other && other->begun))
        return -EPROTO;
    if (entry && entry == other) {
        entry->sig = frame->sig;
        entry->retired = false;
        return 0;
    }
    if (entry)
        entry_free(known, entry);
    if (other)
        entry_free(known, other);
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

/* What the decision says of the uses that follow: how they go. */
static uint8_t grant(struct rg_known *known, const struct rg_order_frame *frame, const char *name,
                  void (*expect)(void *arg, struct rg_use use, uint8_t way), void *arg)
{
    uint8_t way = rg_order_way(frame->flags);
    struct entry *entry;

    HASH_FIND_STR(known->entries, name, entry);
    if (!entry)
        return RG_DIRECT_NOT;
    entry->is_void = false;
    entry->direct = frame->id == entry->id && way != RG_DIRECT_NOT && !entry->begun;
    if (!entry->direct)
        return RG_DIRECT_NOT;
    entry->next = frame->seq;
    if (expect)
        expect(arg, (struct rg_use) { entry->id, entry->next }, way);
    return way;
}

int rg_known_decided(struct rg_known *known, const struct rg_order_frame *frame,
                     void (*fn)(void *arg, const char *name, const struct rg_signature *sig,
                                const char *text, bool more, uint8_t way),
                     void (*expect)(void *arg, struct rg_use use, uint8_t way), void *arg)
{
    bool more = frame->flags & RG_ORDER_MORE;
    struct entry *entry;
    uint8_t way;
    int r;

    if (frame->type == RG_ORDER_DECIDED) {
        entry = find(known, frame->id);
        if (!entry)
            return -EPROTO;
        way = grant(known, frame, entry->name, expect, arg);
        fn(arg, entry->name, &entry->sig, "", more, way);
        return 0;
    }
    r = frame->id > 0 ? learn(known, frame) : 0;
    if (r < 0)
        return r;
    way = grant(known, frame, frame->name, expect, arg);
    fn(arg, frame->name, &frame->sig, frame->text, more, way);
    return 0;
}

/* ---- direct uses */

static void begin(struct rg_known *known, struct entry *entry, enum rg_begun how)
{
    entry->begun = how;
    known->nbegun++;
    known->nown += how == RG_BEGUN_OWN;
}

/* Its use is over, or void. */
static void end(struct rg_known *known, struct entry *entry)
{
    known->nbegun -= entry->begun != RG_BEGUN_NOT;
    known->nown -= entry->begun == RG_BEGUN_OWN;
    entry->begun = RG_BEGUN_NOT;
    entry->next++;
}

bool rg_known_has_begun(const struct rg_known *known, const char *name)
{
    struct entry *entry;

    if (known->nbegun == 0)
        return false;
    HASH_FIND_STR(known->entries, name, entry);
    return entry && entry->begun;
}

int rg_known_begin(struct rg_known *known, const char *name, const struct rg_signature *sig,
                   struct rg_use *ret_use)
{
    struct entry *entry;

    HASH_FIND_STR(known->entries, name, entry);
    if (entry && entry->begun)
        return -EAGAIN;
    if (!entry || !entry->direct || entry->is_void || entry->retired ||
        entry->next >= RG_ORDER_USES_MAX ||
        rg_signature_compare(NULL, &entry->sig, 0, sig, 0, NULL) < 0)
        return 0;
    begin(known, entry, RG_BEGUN_OWN);
    *ret_use = (struct rg_use) { entry->id, entry->next };
    return 1;
}

int rg_known_lend(struct rg_known *known, struct rg_use use, struct rg_signature *ret_sig)
{
    struct entry *entry = find(known, use.id);

    if (!entry || !entry->direct || entry->is_void || entry->begun || entry->next != use.seq)
        return 0;
    if (entry->retired)
        return -ESTALE;
    begin(known, entry, RG_BEGUN_ZEROS);
    *ret_sig = entry->sig;
    return 1;
}

bool rg_known_done(struct rg_known *known, uint32_t id, struct rg_use *ret_next)
{
    struct entry *entry = find(known, id);

    *ret_next = (struct rg_use) { id, 0 };
    if (!entry)
        return false;
    end(known, entry);
    *ret_next = (struct rg_use) { id, entry->next };
    return entry->retired;
}

bool rg_known_void_is_due(struct rg_known *known, uint32_t id)
{
    struct entry *entry = find(known, id);
    bool due = entry && entry->void_next && !entry->begun;

    if (due)
        entry->void_next = false;
    return due;
}

int rg_known_void(struct rg_known *known, struct rg_use use)
{
    struct entry *entry = find(known, use.id);
    int begun;

    if (entry && entry->is_void && use.seq + 1 == entry->next)
        return RG_BEGUN_VOID;
    /* Whoever made it void has seen the end of the use before; here it is still to come. */
    if (entry && entry->begun && use.seq == entry->next + 1) {
        entry->void_next = true;
        return RG_BEGUN_VOID;
    }
    if (!entry || entry->next == 0 || use.seq != entry->next)
        return -EPROTO;
    begun = (int) entry->begun;
    end(known, entry);
    entry->is_void = true;
    return begun;
}

bool rg_known_retire(struct rg_known *known, uint32_t id, struct rg_use *ret_next)
{
    struct entry *entry = find(known, id);

    *ret_next = (struct rg_use) { id, entry ? entry->next : 0 };
    if (entry)
        entry->retired = true;
    return !entry || !entry->begun;
}

bool rg_known_is_retired(const struct rg_known *known, uint32_t id)
{
    const struct entry *entry = find(known, id);

    return entry && entry->retired;
}

int rg_known_nbegun(const struct rg_known *known, bool own)
{
    return own ? known->nown : known->nbegun;
}

bool rg_known_each(const struct rg_known *known, uint32_t *i, struct rg_use *ret_last)
{
    for (; *i < known->ids_capacity; ++*i) {
        const struct entry *entry = known->by_id[*i];

        if (!entry || entry->next == 0)
            continue;
        *ret_last = (struct rg_use) { entry->id, entry->begun ? entry->next : entry->next - 1 };
        ++*i;
        return true;
    }
    return false;
}

bool rg_known_each_begun(const struct rg_known *known, uint32_t *i, struct rg_use *ret_use)
{
    for (; *i < known->ids_capacity; ++*i) {
        const struct entry *entry = known->by_id[*i];

        if (!entry || !entry->begun)
            continue;
        *ret_use = (struct rg_use) { entry->id, entry->next };
        ++*i;
        return true;
    }
    return false;
}
