/* SPDX-License-Identifier: Apache-2.0 */
/* Names cost a lock and a comparison once: one that comes again is known by its digest. */
#include "coll/node/table.h"

#include <string.h>

#include "coll/node/signature.h"

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static uint64_t hash_key(const char *key)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *key; key++)
        h = (h ^ (uint8_t) *key) * UINT64_C(0x100000001b3);
    return h ^ (h >> 32);
}

uint64_t rg_signatures_digest(const struct rg_signature *sigs, int n)
{
    const struct rg_signature *s = sigs;
    uint64_t small = (uint32_t) s->kind | (uint32_t) s->dtype << 8 | (uint32_t) s->op << 16 |
                     (uint32_t) s->memory << 24 | (uint32_t) s->repeats << 31;
    uint64_t h = mix((uint64_t) n, small | (uint64_t) (uint32_t) s->root << 32);

    h = mix(h, (uint64_t) (uint32_t) s->process_set << 32 | (uint32_t) s->group_size);
    h = mix(h, bits_of(s->prescale));
    h = mix(h, bits_of(s->postscale));
    if (s->type[0])
        h = mix(mix(h, hash_key(s->type)), s->nparts);
    for (int i = 0; i < n; i++) {
        h = mix(h, sigs[i].ndim);
        for (int d = 0; d < sigs[i].ndim; d++)
            h = mix(h, (uint64_t) sigs[i].shape[d]);
    }
    return h;
}

/* ---- entries, under the mutex ---- */

static void level_places(struct rg_view *view, uint32_t id)
{
    uint64_t top = atomic_load(&view->entries[id].ready_epoch);

    for (int r = 0; r < view->n; r++) {
        uint64_t posted = atomic_load(&rg_view_place(view, r, id)->posted);

        top = posted > top ? posted : top;
    }
    for (int r = 0; r < view->n; r++) {
        atomic_store(&rg_view_place(view, r, id)->posted, top);
        atomic_store(&rg_view_place(view, r, id)->done, top);
    }
    atomic_store(&view->entries[id].ready_epoch, top);
}

static int entry_make(struct rg_view *view, const char *key, uint64_t hash, uint32_t *ret_id)
{
    struct rg_shared *shared = view->shared;
    uint32_t *bucket = &shared->buckets[hash % RG_BUCKETS];
    struct rg_entry *entry;
    uint32_t id;

    if (shared->free_entries) {
        id = shared->free_entries - 1;
        shared->free_entries = view->entries[id].next;
    } else if (shared->nentries < RG_ENTRIES_MAX) {
        id = shared->nentries++;
    } else {
        return -ENOSPC;
    }
    level_places(view, id);
    entry = &view->entries[id];
    strncpy(entry->key, key, sizeof(entry->key) - 1);
    entry->hash = hash;
    entry->holders = 0;
    entry->mode = entry->granted = 0;
    entry->next = *bucket;
    *bucket = id + 1;
    *ret_id = id;
    return 0;
}

static int entry_find(struct rg_view *view, const char *key, uint64_t hash, uint32_t *ret_id)
{
    uint32_t at = view->shared->buckets[hash % RG_BUCKETS];

    for (; at; at = view->entries[at - 1].next) {
        struct rg_entry *entry = &view->entries[at - 1];

        if (entry->hash == hash && strcmp(entry->key, key) == 0) {
            *ret_id = at - 1;
            return 0;
        }
    }
    return -ENOENT;
}

static int entry_get(struct rg_view *view, const char *key, uint32_t *ret_id)
{
    uint64_t hash = hash_key(key);

    if (entry_find(view, key, hash, ret_id) == 0)
        return 0;
    return entry_make(view, key, hash, ret_id);
}

static void give_slots(struct rg_view *view, uint64_t slot, uint64_t slot_nbytes)
{
    rg_pool_give(&view->shared->slots, view->arenas, slot, 2 * slot_nbytes);
}

static void give_members(struct rg_view *view, struct rg_entry *entry)
{
    if (entry->members)
        rg_pool_give(&view->shared->blocks, view->blocks, entry->members, entry->members_nbytes);
    entry->members = 0;
    entry->members_nbytes = 0;
}

static void entry_free(struct rg_view *view, uint32_t id)
{
    struct rg_entry *entry = &view->entries[id];
    uint32_t *link = &view->shared->buckets[entry->hash % RG_BUCKETS];

    while (*link != id + 1)
        link = &view->entries[*link - 1].next;
    *link = entry->next;
    atomic_store(&entry->version, 0);
    give_members(view, entry);
    give_slots(view, entry->slot, entry->slot_nbytes);
    give_slots(view, entry->old_slot, entry->old_slot_nbytes);
    entry->slot = entry->slot_nbytes = 0;
    entry->old_slot = entry->old_slot_nbytes = 0;
    entry->next = view->shared->free_entries;
    view->shared->free_entries = id + 1;
}

/* The slot before the last change may be read until every rank that announced its last epoch has
 * finished it. */
static bool old_slot_released(struct rg_view *view, struct rg_entry *entry, uint32_t id)
{
    for (int r = 0; r < view->n; r++) {
        const struct rg_epochs *place = rg_view_place(view, r, id);

        if (atomic_load(&place->posted) >= entry->old_epoch &&
            atomic_load(&place->done) < entry->old_epoch)
            return false;
    }
    give_slots(view, entry->old_slot, entry->old_slot_nbytes);
    entry->old_slot = entry->old_slot_nbytes = 0;
    return true;
}

static bool take_slots(struct rg_view *view, struct rg_entry *entry, uint64_t nbytes)
{
    uint64_t slot = 0;

    nbytes = (rg_slot_header_nbytes(nbytes) + nbytes + 63) & ~(uint64_t) 63;
    if (entry->slot && entry->slot_nbytes >= nbytes)
        return true;
    if (rg_pool_take(&view->shared->slots, view->arenas, 2 * nbytes, &slot) < 0)
        return false;
    entry->old_slot = entry->slot;
    entry->old_slot_nbytes = entry->slot_nbytes;
    entry->slot = slot;
    entry->slot_nbytes = nbytes;
    for (int r = 0; r < view->n; r++) {
        for (int parity = 0; parity < 2; parity++) {
            char *at = view->arenas + (size_t) r * RG_INLINE_NBYTES + slot + parity * nbytes;

            atomic_store((_Atomic uint64_t *) (void *) at, 0);
        }
    }
    return true;
}

static bool wants_slots(const struct rg_view *view, enum rg_entry_mode mode,
                        const struct rg_notice *notice)
{
    return mode == RG_ENTRY_INLINE ||
           (mode == RG_ENTRY_DIRECT && rg_view_wants_slots(view, notice->nbytes, notice->n,
                                                           notice->sigs->prescale));
}

/* 0 or -ENOSPC, when nothing has changed. */
static int set_members(struct rg_view *view, struct rg_entry *entry,
                       const struct rg_notice *notice)
{
    uint64_t members = 0, nbytes = sizeof(struct rg_signature) * (uint64_t) notice->n;

    if (notice->n > 1 && rg_pool_take(&view->shared->blocks, view->blocks, nbytes, &members) < 0)
        return -ENOSPC;
    give_members(view, entry);
    if (members) {
        memcpy(view->blocks + members, notice->sigs, nbytes);
        entry->members = members;
        entry->members_nbytes = nbytes;
    }
    return 0;
}

/* Make this the entry's signature from epoch on. Nobody has announced epoch (but perhaps this
 * rank). */
static int entry_set(const struct rg_table *table, uint32_t id, const struct rg_notice *notice,
                     uint64_t epoch)
{
    struct rg_view *view = table->view;
    struct rg_entry *entry = &view->entries[id];
    enum rg_entry_mode mode;

    if (entry->old_slot && !old_slot_released(view, entry, id))
        return -EAGAIN;
    if (set_members(view, entry, notice) < 0)
        return -ENOSPC;
    entry->old_epoch = epoch - 1;
    mode = table->choose ? table->choose(table->arg, notice) : RG_ENTRY_STREAM;
    if (mode == RG_ENTRY_IF_GRANTED)
        mode = entry->granted && entry->digest == notice->digest ? RG_ENTRY_DIRECT
                                                                 : RG_ENTRY_STREAM;
    if (wants_slots(view, mode, notice) && !take_slots(view, entry, notice->nbytes))
        mode = RG_ENTRY_STREAM;
    entry->granted = false;
    entry->mode = (uint8_t) mode;
    entry->sig = notice->sigs[0];
    entry->sig_rank = view->ranks[view->me];
    entry->digest = notice->digest;
    atomic_store(&entry->arrived, 0);
    atomic_store(&entry->ready_epoch, epoch - 1);
    return 0;
}

static uint32_t next_version(struct rg_view *view)
{
    uint32_t version;

    do {
        version = atomic_fetch_add(&view->shared->version, 1) + 1;
    } while (version == 0);
    return version;
}

/* Another rank that has announced epoch; -1: none. The one whose signature is the entry's where it
 * has: others may have announced and not yet seen that theirs differs. */
static int other_announced(const struct rg_view *view, uint32_t id, uint64_t epoch)
{
    int other = -1;

    for (int r = 0; r < view->n; r++) {
        if (r == view->me || atomic_load(&rg_view_place(view, r, id)->posted) < epoch)
            continue;
        if (view->ranks[r] == view->entries[id].sig_rank)
            return r;
        if (other < 0)
            other = r;
    }
    return other;
}

void rg_table_fail(struct rg_view *view, uint32_t id, uint64_t epoch, const char *text)
{
    struct rg_entry *entry = &view->entries[id];
    char *to = view->errors[id][epoch & 1];

    if (atomic_load(&entry->error_epoch[epoch & 1]) == epoch)
        return;
    strncpy(to, text, RG_ERROR_TEXT_MAX - 1);
    to[RG_ERROR_TEXT_MAX - 1] = '\0';
    atomic_store(&entry->error_epoch[epoch & 1], epoch);
}

/* 0 when the notice agrees with the entry after all, 1 when it does not (the text is in the entry
 * then). */
static int entry_differs(struct rg_view *view, uint32_t id, const struct rg_record *record,
                         const struct rg_notice *notice, uint64_t epoch, int other)
{
    const struct rg_entry *entry = &view->entries[id];
    const struct rg_signature *theirs = &entry->sig;
    int n = notice->n, r = 0;
    int a = rg_view_shown_rank(view, other), b = rg_view_shown_rank(view, view->me);
    struct rg_error err = RG_ERROR_INIT;

    if (entry->members)
        theirs = (const struct rg_signature *) (const void *) (view->blocks + entry->members);
    /* The first one last: it also stands for the whole group. */
    for (int i = 1; r == 0 && i < n && entry->members; i++) {
        const char *name = i < record->nmembers ? record->members[i]->key : entry->key;

        r = rg_signature_compare(name, &theirs[i], a, &notice->sigs[i], b, &err);
    }
    if (r == 0)
        r = rg_signature_compare(entry->key, theirs, a, notice->sigs, b, &err);
    if (r == 0)
        return 0;
    rg_table_fail(view, id, epoch, err.text);
    return 1;
}

/* Other ranks have announced, and this one agrees. Where the entry was adopted while all ranks had
 * joined, and several of them announce at once what they knew before, nobody has told yet what a
 * group consists of; a rank that joins later wants to know. */
static int complete(struct rg_view *view, struct rg_entry *entry, const struct rg_notice *notice)
{
    if (notice->n == 1 || entry->members)
        return 0;
    int r = set_members(view, entry, notice);

    if (r == 0)
        entry->digest = notice->digest;
    return r;
}

/* The signature is the entry's, and so is the mode, unless another one was granted meanwhile. */
static bool stays(const struct rg_view *view, uint32_t id, const struct rg_notice *notice,
                  uint64_t epoch)
{
    const struct rg_entry *entry = &view->entries[id];

    return entry->digest == notice->digest &&
           (!entry->granted || other_announced(view, id, epoch) >= 0);
}

/* Under the mutex: 0 agreed, 1 differs, or -errno. */
static int agree(const struct rg_table *table, uint32_t id, const struct rg_record *record,
                 const struct rg_notice *notice, uint64_t epoch)
{
    struct rg_view *view = table->view;
    struct rg_entry *entry = &view->entries[id];
    uint32_t before = atomic_load(&entry->version);
    int other, r;

    if (before && stays(view, id, notice, epoch))
        return 0;
    atomic_store(&entry->version, 0);
    other = other_announced(view, id, epoch);
    if (before && other >= 0) {
        r = entry_differs(view, id, record, notice, epoch, other);
        r = r == 0 ? complete(view, entry, notice) : r;
    } else {
        r = entry_set(table, id, notice, epoch);
    }
    atomic_store(&entry->version, r == 0 && (!before || other < 0) ? next_version(view) : before);
    return r;
}

/* Out of line, so that the usual way keeps to few registers. */
static __attribute__((noinline)) int announce_slowly(struct rg_table *table,
                                                     struct rg_record *record,
                                                     const struct rg_notice *notice,
                                                     bool announced, uint64_t *ret_epoch)
{
    struct rg_view *view = table->view;
    uint64_t epoch;
    uint32_t id = record->id;
    int r = rg_view_lock(view);

    if (r < 0)
        return r;
    if (!record->held) {
        r = entry_get(view, record->key, &id);
        if (r < 0) {
            rg_view_unlock(view);
            return r;
        }
        record->id = id;
        record->held = true;
        record->entry = &view->entries[id];
        record->place = rg_view_place(view, view->me, id);
        record->entry->holders++;
    }
    epoch = atomic_load(&record->place->posted) + (announced ? 0 : 1);
    r = agree(table, id, record, notice, epoch);
    if (r >= 0) {
        /* Who comes too late for what was granted looks again. */
        record->version = r == 0 && !record->entry->granted
                              ? atomic_load(&record->entry->version) : 0;
        record->digest = notice->digest;
        record->mode = record->entry->mode;
        record->slot = record->entry->slot;
        record->slot_nbytes = record->entry->slot_nbytes;
        atomic_store(&record->place->posted, epoch);
        *ret_epoch = epoch;
    } else if (announced) {
        atomic_store(&record->place->posted, epoch - 1);
    }
    rg_view_unlock(view);
    return r;
}

int rg_table_announce(struct rg_table *table, struct rg_record *record,
                         const struct rg_notice *notice, uint64_t *ret_epoch, bool *ret_hit)
{
    bool announced = false;

    if (record->held && record->version && record->digest == notice->digest) {
        uint64_t epoch = atomic_load_explicit(&record->place->posted, memory_order_relaxed) + 1;

        atomic_store(&record->place->posted, epoch);
        if (atomic_load(&record->entry->version) == record->version) {
            *ret_epoch = epoch;
            *ret_hit = true;
            return 0;
        }
        announced = true;
    }
    *ret_hit = false;
    return announce_slowly(table, record, notice, announced, ret_epoch);
}

int rg_table_grant(struct rg_view *view, uint32_t id)
{
    struct rg_entry *entry = &view->entries[id];
    int r = rg_view_lock(view);

    if (r < 0)
        return r;
    if (entry->mode == RG_ENTRY_STREAM && atomic_load(&entry->version)) {
        entry->granted = true;
        atomic_store(&entry->version, next_version(view));
    }
    rg_view_unlock(view);
    return 0;
}

void rg_table_level(struct rg_view *view)
{
    for (uint32_t id = 0; id < view->shared->nentries; id++)
        level_places(view, id);
}

int rg_table_lookup(struct rg_view *view, const char *key, uint32_t *ret_id)
{
    int r = rg_view_lock(view);

    if (r < 0)
        return r;
    r = entry_find(view, key, hash_key(key), ret_id);
    rg_view_unlock(view);
    return r;
}

int rg_table_adopt(struct rg_table *table, const char *key, const struct rg_signature *sig,
                      uint32_t *ret_id, uint64_t *ret_epoch)
{
    struct rg_view *view = table->view;
    struct rg_notice notice = { sig, 1, rg_signatures_digest(sig, 1),
                                sig->group_size ? SIZE_MAX : rg_signature_nbytes(sig) };
    uint32_t id = 0;
    int r = rg_view_lock(view);

    if (r < 0)
        return r;
    r = entry_get(view, key, &id);
    if (r == 0) {
        struct rg_entry *entry = &view->entries[id];
        uint64_t epoch = atomic_load(&entry->ready_epoch) + 1;

        if (!atomic_load(&entry->version))
            level_places(view, id), epoch = atomic_load(&entry->ready_epoch) + 1;
        if (!atomic_load(&entry->version) || entry->digest != notice.digest) {
            r = entry_set(table, id, &notice, epoch);
            if (r == 0)
                atomic_store(&entry->version, next_version(view));
        }
        if (r == 0) {
            atomic_store(&entry->ready_epoch, epoch);
            entry->holders++;
            *ret_id = id;
            *ret_epoch = epoch;
        } else if (entry->holders == 0) {
            entry_free(view, id);
        }
    }
    rg_view_unlock(view);
    return r;
}

void rg_table_release(struct rg_view *view, uint32_t id)
{
    if (rg_view_lock(view) < 0)
        return;
    if (--view->entries[id].holders == 0)
        entry_free(view, id);
    rg_view_unlock(view);
}

/* ---- records, under the progress engine's state lock ---- */

static void record_free(struct rg_table *table, struct rg_record *record)
{
    HASH_DEL(table->records, record);
    table->nrecords--;
    for (int i = 0; i < record->nmembers; i++)
        record->members[i]->pins--;
    free(record->members);
    free(record);
}

static bool idle(const struct rg_record *record)
{
    return record->pins == 0 && atomic_load(&record->op) == NULL &&
           atomic_load(&record->unseen) == 0 && atomic_load(&record->in_line) == 0;
}

/* Second chance: a record that was used since the last sweep is kept once. */
static void sweep(struct rg_table *table)
{
    struct rg_view *view = table->view;
    struct rg_record *record, *next;
    int room = table->capacity / 8 + 1;

    if (rg_view_lock(view) < 0)
        return;
    HASH_ITER(hh, table->records, record, next)
    {
        if (table->nrecords + room <= table->capacity)
            break;
        if (record->used || !idle(record)) {
            record->used = false;
            continue;
        }
        if (record->held && --record->entry->holders == 0)
            entry_free(view, record->id);
        record_free(table, record);
    }
    rg_view_unlock(view);
    /* What cannot be dropped is not looked at again for each new name. */
    table->sweep_at = table->nrecords + room;
    if (table->sweep_at < table->capacity)
        table->sweep_at = table->capacity;
}

int rg_table_record(struct rg_table *table, const char *key, struct rg_record **ret_record)
{
    struct rg_record *record;
    size_t length = strlen(key);

    HASH_FIND(hh, table->records, key, length, record);
    if (!record) {
        if (table->nrecords >= table->sweep_at)
            sweep(table);
        record = calloc(1, sizeof(*record) + length + 1);
        if (!record)
            return -ENOMEM;
        memcpy(record->key, key, length + 1);
        HASH_ADD_KEYPTR(hh, table->records, record->key, length, record);
        table->nrecords++;
    }
    record->used = true;
    *ret_record = record;
    return 0;
}

void rg_table_fini(struct rg_table *table)
{
    struct rg_record *record, *next;

    HASH_ITER(hh, table->records, record, next)
    {
        HASH_DEL(table->records, record);
        free(record->members);
        free(record);
    }
    table->nrecords = 0;
}
