/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress engine's part of a node's segment: what the ranks of a node know in common. No
 * pointers in here; struct rg_view holds this process's addresses of it.
 *
 *     [rg_shared][rows][numbers][places][comm bells][log][ready ring][abort texts][wheres]
 *     [error texts][entries][block arena][inline arenas]
 *
 * Most of it is address space only: the kernel gives memory to what is touched.
 *
 * Who writes what: a rank writes its own row, its own places and its own inline arena; everything
 * else is written under `mutex`, or is atomic. `mutex` is robust: a rank that dies in it ends the
 * job, it hangs nobody. A rank may be killed between any two stores. So whoever waits for another
 * rank looks at `aborted` again and again, which every rank of the node may set when it finds one
 * dead, by one compare-and-swap; and it sleeps for a moment at most, as a ringer may have died
 * before it woke anybody.
 *
 * An operation's life here: every rank *announces* the epoch of its entry (its place), and when
 * all have (or have joined) the operation has *arrived*. Epochs of one entry are equal on all
 * ranks and only grow.
 */
#ifndef RG_COLL_NODE_SHARED_H
#define RG_COLL_NODE_SHARED_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "coll/node/runlog.h"
#include "coll/team/team.h"
#include "coll/ground/types.h"

#define RG_ENTRIES_MAX 16384      /* names alive at once on a node */
#define RG_BUCKETS 16384          /* a power of two */
#define RG_KEY_MAX 640            /* "allreduce.<name>" or "allreduce.<name>+<n>:<digest>" */
#define RG_INLINE_MAX 65536       /* payload of the one-shot path */
#define RG_INLINE_RANKS_MAX 64    /* of a node, for the one-shot path */
#define RG_INLINE_NBYTES (32u << 20) /* per rank */
#define RG_BLOCKS_NBYTES (64u << 20) /* lists of a group's members */
#define RG_GROUP_MAX 16384        /* members of one group */
#define RG_CLASSES 96             /* size classes of blocks */

enum rg_entry_mode {
    RG_ENTRY_INLINE = 1, /* every rank puts its payload in its slot; each rank reduces for itself */
    RG_ENTRY_STREAM = 2, /* carried out by exec, in the order of the log */
    /* several nodes: the leader reduces what is in the slots, and exchanges that with other leaders
     * if it may (negotiate/order.h); the result is in its slot when the log says so. Else as a
     * stream */
    RG_ENTRY_DIRECT = 3,
    /* what is chosen only: as a stream, until rg_table_grant */
    RG_ENTRY_IF_GRANTED = 4,
};

/* Free lists of blocks inside an arena, by size class: offsets + 1, 0 ends a list. The link is
 * the block's first word (in rank 0's arena, for inline blocks). */
struct rg_pool {
    uint64_t used, capacity;
    uint64_t free[RG_CLASSES];
};

struct rg_entry {
    /* 0: being changed or free. Otherwise unique in the job's life; a rank whose cached version
     * is this one needs no look at the rest. */
    _Alignas(64) _Atomic uint32_t version;
    _Atomic uint32_t arrived;      /* stream: announcements of the epoch after ready_epoch */
    _Atomic uint32_t last;         /* stream: the rank by which one arrived; before ready_epoch */
    _Atomic uint64_t ready_epoch;  /* stream: the last epoch that has arrived on this node */
    /* by parity of the epoch: this one failed, see rg_view.errors */
    _Atomic uint64_t error_epoch[2];
    uint8_t mode;                  /* enum rg_entry_mode */
    uint8_t granted;               /* it goes directly once no rank has announced the next epoch */
    uint32_t holders;              /* ranks that know it; freed with the last */
    uint32_t next;                 /* in its bucket, or in the free list: index + 1 */
    uint64_t hash;
    int sig_rank;                  /* whose signature it is */
    struct rg_signature sig;
    uint64_t digest;               /* of all members' signatures */
    /* inline: offset in each arena, and the distance of the parities; 0, 0: none */
    uint64_t slot, slot_nbytes;
    /* the slot before, in use until old_epoch is done */
    uint64_t old_slot, old_slot_nbytes, old_epoch;
    uint64_t members, members_nbytes; /* group: its signatures, offset in the block arena */
    char key[RG_KEY_MAX];
};

/* Has it called reigen_shutdown? */
enum rg_left {
    RG_LEFT_NOT = 0,
    RG_LEFT_BEGUN = 1, /* the others may still need it for what is in the log */
    RG_LEFT_DONE = 2,  /* its end is no death any more */
};

/* A rank's own line. */
struct rg_row {
    _Alignas(128) _Atomic uint32_t joined; /* supplies zeros until all have joined */
    _Atomic uint32_t left;       /* enum rg_left */
    _Atomic uint32_t last_id;    /* the entry it announced last ... */
    _Atomic uint64_t nsubmitted; /* ... as its n-th operation */
    _Atomic uint64_t consumed;   /* position in the log */
    _Atomic uint64_t watched_ns; /* when it last looked for stalls; old: it is stopped */
    _Atomic uint64_t waits_ns;   /* since when a thread has been waiting at each look; 0: none */
    _Atomic uint64_t rests_ns;   /* since when its process has been at rest (ground/rest.h), or 0 */
    _Atomic uint32_t fails;      /* it ends by an error, and has submitted nothing since */
    _Atomic uint32_t computes;   /* its process has been busy since it looked before */
    _Atomic uint32_t cpu;        /* 1 + where it ran when it last waited, to yield to it there */
};

/* What a rank has done, for whoever looks on (progress/numbers.h). Its communication thread brings
 * it up to date once a second; the times of waiting are added by whoever has waited. */
struct rg_numbers_row {
    _Alignas(128) _Atomic uint64_t operations, nbytes, steps, step_ns, cpu_ns, resident_nbytes;
    _Atomic uint64_t blocked_ns; /* its threads waited for operations, altogether */
    _Atomic uint64_t steps_told; /* by reigen_step */
    _Atomic uint64_t waited_ns;  /* for others of the node to come */
    _Atomic uint64_t caused_ns;  /* others waited for this one: all of their times together */
    _Atomic uint64_t squares_us2; /* of the microseconds of each wait for an operation, summed up */
    _Atomic uint64_t spun_ns;    /* of processors, used in waits for operations */
    _Atomic uint64_t timed_ns, computed_ns, delayed_ns; /* progress/spent.h, as all of these */
    _Atomic uint64_t throttled_ns, faults, refaults;
    _Atomic uint64_t sent_nbytes, sending_ns; /* as team->traffic */
    _Atomic uint32_t sent_to;    /* 1 + a rank; 0: none */
    _Atomic uint32_t cpus;
    _Atomic uint64_t at_ns; /* when the communication thread brought it up to date */
};

/* A rank's progress with one entry. */
struct rg_epochs {
    _Atomic uint64_t posted; /* the last epoch announced */
    _Atomic uint64_t done;   /* the last epoch finished here: its slots are not needed any more */
    _Atomic uint64_t posted_ns[2]; /* by parity: when, while shared->timed */
};

/* Where a rank's program is, for people; written by the rank when it is asked (where_asked). */
struct rg_where {
    _Alignas(64) _Atomic uint64_t told; /* the question that this answers */
    char place[576]; /* in its own language, "train.py:41 in load_batch"; or "" */
    char unrest[192]; /* "uses a processor": what keeps it from rest (ground/rest.h); or "" */
    char call[248];  /* in C, "read(/data/part-3)"; or "" */
};

enum { RG_ATTENTION_ABORTED = 1, RG_ATTENTION_CLOSED = 2, RG_ATTENTION_JOINED = 4 };

struct rg_shared {
    _Atomic uint32_t born;     /* 0: nobody was here, 1: being prepared, 2: ready */
    _Atomic uint32_t version;  /* the last version given out */
    pthread_mutex_t mutex;
    _Atomic uint32_t attention; /* RG_ATTENTION_*: look closer */
    _Atomic uint64_t fusion_nbytes; /* rank 0's, for all: small allreduces go together up to it */
    _Atomic uint32_t timed;     /* ranks that write a timeline */
    _Atomic uint64_t where_asked; /* how often ranks were asked where they are */
    /* 0, or why everything in flight ends, in one word: the errno, << 16 the member whose text says
     * so, << 32 1 + the rank that died (0: nobody in particular). */
    _Atomic uint64_t aborted;
    _Atomic uint32_t closed_by; /* 1 + the rank that called reigen_shutdown first */
    _Atomic uint32_t joined_count;
    _Atomic uint32_t drained_count; /* ranks that have nothing left to do before the round ends */
    _Atomic uint64_t join_round; /* how often all ranks have joined */
    _Atomic int join_last;       /* the last rank of the round before */
    _Atomic uint32_t nentries;  /* entries ever used */
    uint32_t free_entries;      /* index + 1 */
    uint32_t buckets[RG_BUCKETS];
    struct rg_pool slots, blocks;
};

/* This process's view of the segment. Constant after rg_view_open. */
struct rg_view {
    struct rg_shared *shared;
    struct rg_row *rows;        /* by node rank */
    struct rg_numbers_row *numbers; /* the same */
    struct rg_epochs *places;    /* [node rank][entry] */
    struct rg_bell *comm_bells; /* by node rank: where communication threads sleep */
    struct rg_runlog log, ready;
    char (*abort_texts)[RG_ERROR_TEXT_MAX]; /* by node rank: what each would have all end with */
    struct rg_where *wheres;    /* by node rank */
    char (*errors)[2][RG_ERROR_TEXT_MAX]; /* by entry and parity */
    struct rg_entry *entries;
    char *blocks;
    char *arenas;               /* RG_INLINE_NBYTES per rank */
    int me, n;                  /* node rank, ranks of the node */
    int nnodes;
    const int *ranks;           /* of the node, borrowed from team */
    const struct rg_team *team; /* borrowed */
};

static inline struct rg_epochs *rg_view_place(const struct rg_view *view, int r, uint32_t id)
{
    return &view->places[(size_t) r * RG_ENTRIES_MAX + id];
}

/* The r-th rank of this node has neither announced the epoch nor joined. */
static inline bool rg_view_owes(const struct rg_view *view, int r, uint32_t id, uint64_t epoch)
{
    return atomic_load(&rg_view_place(view, r, id)->posted) < epoch &&
           !atomic_load(&view->rows[r].joined);
}

/* The slot of the r-th rank for an epoch of an entry whose slots are at offset, so far apart: its
 * first word is the epoch once it is filled, the payload comes behind the header. */
static inline char *rg_view_slot(const struct rg_view *view, uint64_t offset, uint64_t nbytes,
                                 uint64_t epoch, int r)
{
    return view->arenas + (size_t) r * RG_INLINE_NBYTES + offset + (epoch & 1) * nbytes;
}

static inline size_t rg_slot_header_nbytes(size_t payload_nbytes)
{
    return payload_nbytes > 56 ? 64 : 8;
}

/* Several nodes: whether what ranks submit goes into slots, where it may go directly. One tensor of
 * one rank is exchanged as it is, if it is not small, where memory counts more. */
static inline bool rg_view_wants_slots(const struct rg_view *view, size_t nbytes, int ntensors,
                                       double prescale)
{
    return view->n > 1 || ntensors > 1 || prescale != 1.0 || nbytes <= RG_DIRECT_SMALL;
}

/* What people call the r-th rank of the node. */
static inline int rg_view_shown_rank(const struct rg_view *view, int r)
{
    return rg_team_world_rank(view->team, view->ranks[r]);
}

/* What the progress engine needs of a node's segment. */
size_t rg_view_nbytes(int node_size);

/* Lay the view over memory (zeroed at birth); the first rank to come prepares what is shared. 0,
 * or -ETIMEDOUT when that rank died on the way. */
int rg_view_open(struct rg_view *ret_view, void *memory, const struct rg_team *team);

/* The shared mutex. 0, or -ECONNRESET when a rank has died in it. */
int rg_view_lock(struct rg_view *view);
void rg_view_unlock(struct rg_view *view);

/* Blocks of at least nbytes: 0 and *ret_offset, or -ENOMEM. Under the mutex. base: where links
 * are kept. */
int rg_pool_take(struct rg_pool *pool, char *base, uint64_t nbytes, uint64_t *ret_offset);
void rg_pool_give(struct rg_pool *pool, char *base, uint64_t offset, uint64_t nbytes);

/* The first caller's cause stands: everything in flight on this node ends with -errnum and text;
 * rank: whose death or failure it is, or -1. Rings nobody. True for that first caller. Any
 * thread. */
bool rg_view_abort(struct rg_view *view, int errnum, int rank, const char *text);
/* That errnum, or 0; and once it is not 0, the others. */
int rg_view_aborted(const struct rg_view *view);
int rg_view_abort_rank(const struct rg_view *view);
const char *rg_view_abort_text(const struct rg_view *view);

#endif
