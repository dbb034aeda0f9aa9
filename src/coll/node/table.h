/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matching by name on one node: each rank *announces* an operation, and the announcements of one
 * name must agree.
 *
 * A rank keeps a record per name. The first use of a name, and each change of its signature, goes
 * the slow way: under the segment's mutex the entry is made, or compared. As long as the
 * signature stays, an announcement is a store to the rank's own place and a look at the entry's
 * version: whoever changes an entry first takes its version away, then looks whether somebody has
 * announced (the store and the load on either side are sequentially consistent, so one of the two
 * sees the other, as in Dekker's algorithm).
 *
 * Records are dropped when a rank has more of them than its cache capacity; an entry that no rank
 * has a record of is free for another name.
 *
 * Thread rule: a record in use by an operation belongs to whoever claimed it (record->op);
 * everything else is under the progress engine's state lock. rg_table_announce may block for the
 * segment's mutex, a microsecond.
 */
#ifndef RG_COLL_NODE_TABLE_H
#define RG_COLL_NODE_TABLE_H

#include <uthash.h>

#include "coll/node/shared.h"

struct rg_op;

struct rg_record {
    UT_hash_handle hh;
    _Atomic(struct rg_op *) op; /* the operation in flight, or NULL */
    _Atomic(const struct rg_op *) holder, seen; /* whose the name was last, and whether that one's
                              end has been seen: then they are equal */
    _Atomic int unseen;    /* operations with handles that have had it, whose ends nobody has seen;
                              the name may be another's since */
    _Atomic uint64_t waits; /* of this rank, that had ended when the name was last submitted */
    _Atomic int in_line;   /* operations that wait for it */
    uint64_t looked;       /* the look at the line that found it wanted; see rg_line */
    uint32_t id;           /* entry, while held */
    uint32_t version;      /* of the entry as this rank knows it; 0: look again */
    uint64_t digest;       /* of this rank's last signature */
    uint64_t slot, slot_nbytes;
    struct rg_entry *entry;
    struct rg_epochs *place; /* mine */
    uint8_t mode;
    bool held;
    bool used;             /* since the last sweep */
    _Atomic uint64_t lane; /* an observer's own: where its name stands in a timeline */
    int pins;              /* requests and groups that point here */
    int nmembers;          /* group: records of the names of its members, else 0 */
    struct rg_record **members;
    char key[];
};

/* An operation whose end its submitter has not seen yet has the name. */
static inline bool rg_record_is_held(const struct rg_record *record)
{
    return atomic_load_explicit(&record->holder, memory_order_relaxed) !=
           atomic_load_explicit(&record->seen, memory_order_relaxed);
}

/* By who has claimed the record. */
static inline void rg_record_hold(struct rg_record *record, const struct rg_op *op)
{
    atomic_store_explicit(&record->seen, NULL, memory_order_relaxed);
    atomic_store_explicit(&record->holder, op, memory_order_relaxed);
}

/* Whoever holds it does so no longer. The same. */
static inline void rg_record_take_over(struct rg_record *record)
{
    atomic_store_explicit(&record->seen,
                          atomic_load_explicit(&record->holder, memory_order_relaxed),
                          memory_order_relaxed);
}

/* Any thread. Nothing happens when the name is another's meanwhile. */
static inline void rg_record_seen(struct rg_record *record, const struct rg_op *op)
{
    if (atomic_load_explicit(&record->holder, memory_order_relaxed) == op)
        atomic_store_explicit(&record->seen, op, memory_order_release);
}

struct rg_notice;

struct rg_table {
    struct rg_view *view;
    /* How an operation is to go, which the first rank decides for all of a node. NULL: as a stream.
     * Called when a signature changes, under the mutex. */
    enum rg_entry_mode (*choose)(void *arg, const struct rg_notice *notice);
    void *arg;
    struct rg_record *records; /* by key */
    int nrecords;
    int capacity;
    int sweep_at; /* records; not below capacity */
    uint64_t unnamed[REIGEN_REDUCESCATTER + 1]; /* the next number, by kind; under the lock */
};

/* What a rank announces. */
struct rg_notice {
    const struct rg_signature *sigs; /* n of them */
    int n;
    uint64_t digest;  /* rg_signatures_digest of them */
    size_t nbytes;    /* all payload */
};

/* Of two lists that differ it differs, but for one chance in 2^64. */
uint64_t rg_signatures_digest(const struct rg_signature *sigs, int n);

/* The record of this key, made if need be. 0 or -ENOMEM. */
int rg_table_record(struct rg_table *table, const char *key,
                       struct rg_record **ret_record);

/* Announce the record's next epoch. 0: announced, as the same as the others so far or first; 1:
 * announced, and it does not match: the operation fails on all ranks, with a text in the entry.
 * Not announced: -EAGAIN (an old slot is still being read: try again later), -ENOSPC (too many
 * names), -ECONNRESET (aborted). ret_hit: no look-up was needed. */
int rg_table_announce(struct rg_table *table, struct rg_record *record,
                         const struct rg_notice *notice, uint64_t *ret_epoch, bool *ret_hit);

/* The entry of a name that no rank of this node has announced (all of them have joined): made if
 * need be, ready for its next epoch, and held until it is released, which must be after all ranks
 * of the node have carried it out. 0 or -errno. */
int rg_table_adopt(struct rg_table *table, const char *key, const struct rg_signature *sig,
                      uint32_t *ret_id, uint64_t *ret_epoch);
void rg_table_release(struct rg_view *view, uint32_t id);

/* All entries' epochs to what the rank that is farthest has; when nothing is in flight on any
 * rank. Under the mutex. */
void rg_table_level(struct rg_view *view);

/* The entry of a key, on behalf of the leader. 0 or -ENOENT, -ECONNRESET. */
int rg_table_lookup(struct rg_view *view, const char *key, uint32_t *ret_id);

/* The leaders carry the entry's next epochs out directly, if it was chosen so (IF_GRANTED): the
 * first rank to announce one that none has announced yet makes it so, where there is room for
 * slots. Call it before the epoch in flight ends anywhere. 0, or -ECONNRESET. */
int rg_table_grant(struct rg_view *view, uint32_t id);

/* A failure of an entry's epoch, told to all ranks. The first text stands. */
void rg_table_fail(struct rg_view *view, uint32_t id, uint64_t epoch, const char *text);

void rg_table_fini(struct rg_table *table);

#endif
