/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress engine: carries operations from their submission to their end. One per process and
 * process set (tests make several, one per thread). This header is for the files of the progress
 * engine and the API only.
 *
 *               submit                all ranks are here               carried out
 *   (new) ---> QUEUED ---> POSTED ------------------------> CLAIMED ---------------> DONE
 *            only while an old slot      inline: found by whoever looks
 *            is still being read         stream: through the log, by the driver
 *
 * Inline operations need no thread: whoever waits or polls sees that all slots are filled and
 * reduces. Stream operations are carried out by the *driver*, the thread that holds `drive`: a
 * waiting user thread where there is one, else the communication thread. Threads that wait but do
 * not drive sleep on `events` until their operation is done or the drive lock is free. Operations
 * that nobody looks at, or that somebody looks at who does not drive, are *polled*: the driver
 * looks at them.
 *
 * Locks, in this order: drive, lock, the segment's mutex. `lock` protects the records, the
 * polled; it is never held while blocking; the handles have a lock of their own, which is taken
 * last. An operation is finished by whoever moves it from POSTED to CLAIMED.
 *
 * A process set has an progress engine of its own over a team of its own, made by the same code;
 * see sets.h for its life. It does not watch for deaths: it follows the progress engine of all
 * ranks (`world`), and what ends it ends that too.
 */
#ifndef RG_COLL_PROGRESS_PROGRESS_H
#define RG_COLL_PROGRESS_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>

#include "coll/planes/adasum.h"
#include "coll/planes/exec.h"
#include "coll/progress/handle.h"
#include "coll/negotiate/order.h"
#include "coll/node/table.h"
#include "coll/ground/report.h"

#define RG_TICK_MS 200          /* how often the communication thread looks around */
#define RG_LEAVE_TIMEOUT_MS 5000
#define RG_PACK_MEAN_MAX 2048   /* between nodes, tensors smaller than this on average are packed */
#define RG_RUN_MAX 1024         /* items carried out together */

enum rg_op_state { RG_OP_FREE, RG_OP_QUEUED, RG_OP_POSTED, RG_OP_CLAIMED, RG_OP_DONE };

/* Who wants to be told of an operation's end (notify.c). */
struct rg_watcher {
    void (*fn)(void *arg, reigen_handle handle, int status);
    void *arg;
    reigen_handle handle;
    int status;
    struct rg_op *op;     /* referenced */
    struct rg_watcher *next;
};

/* One tensor of an operation. */
struct rg_tensor {
    const void *in;
    void *out;
    size_t count, nbytes; /* of in */
    int ndim;
    int64_t shape[REIGEN_NDIM_MAX];
    void *result;         /* allocated by the runtime; owned */
    size_t result_nbytes;
    int64_t result_rows;
};

struct rg_op {
    _Atomic int state;    /* enum rg_op_state */
    _Atomic int refs;     /* handles, the progress engine while not done, a waiter */
    int status;           /* once DONE: 0, 1 + last rank of a join, or -errno ... */
    char *text;           /* ... and its cause, owned; NULL: none, or out of memory */
    struct rg_record *record;
    _Atomic bool holds_name; /* its record is taken until its end has been seen: rg_op_seen */
    bool dropped;         /* holds_name, and no handle is left to see its end; under the lock */
    int nhandles;         /* left; under the handles' lock */
    uint64_t epoch;
    /* inline: copied from the record, which may change before this ends */
    uint64_t slot, slot_nbytes;
    uint8_t kind, dtype, reduction;
    _Atomic uint8_t mode; /* enum rg_entry_mode */
    bool bad;             /* does not match the other ranks */
    bool
        persistent; /* of a request: the progress engine holds no reference while it is in flight */
    _Atomic bool polled;   /* in the progress engine's list of polled */
    bool waits;           /* the submitter will wait at once: no need to wake a thread for it */
    bool timed;           /* in the timeline, since ... */
    uint64_t submitted_ns; /* ... then */
    int seen;             /* inline: ranks below have filled their slots; whoever has claimed it */
    int root;
    struct rg_scale scale;
    uint64_t digest;
    struct rg_signature *sigs; /* n; NULL once announced, unless persistent */
    size_t nbytes;        /* payload */
    int n;
    struct rg_tensor *tensors;
    struct rg_tensor one;
    struct rg_signature one_sig;
    int32_t *splits, *received; /* alltoall, by rank; owned */
    int nreceived;
    struct rg_set *set;         /* the process set it belongs to; NULL: all ranks */
    struct rg_watcher *watchers; /* under the lock */
    struct rg_op *prev, *next;  /* polled */
};

struct rg_progress_options {
    struct rg_team *team;            /* borrowed */
    const struct rg_config *config;  /* borrowed */
    struct rg_boot *boot;            /* borrowed; NULL in tests: no notes, no deaths told */
    struct rg_set *set;              /* of a process set, else NULL; borrowed */
    int process_set;                 /* its number, else 0 */
    struct rg_progress
        *world; /* of a process set: the progress engine of all ranks, which watches */
    struct rg_handles *handles;      /* of the process, borrowed; NULL: its own */
    /* filled in by rg_progress_create when there are several nodes */
    struct rg_order_events *order_events;
    uint64_t deadline_ns;            /* for connecting the leaders */
    bool no_thread;                  /* tests: no communication thread */
};

/* What is being carried out: one item of the log, or several together (a fused run of
 * allreduces). */
struct rg_run {
    int nitems;                   /* 0: nothing */
    struct rg_run_item items[RG_RUN_MAX];
    struct rg_op *ops[RG_RUN_MAX]; /* NULL: this rank has joined */
    int kind;                     /* enum reigen_kind of the first */
    bool posted;                  /* exec is at it */
    bool timed;                   /* some are in the timeline ... */
    const char *activity;         /* ... where they do this; static */
    bool adasum;                  /* progress->adasum is at it, through exec */
    uint64_t started_ns;
    struct rg_coll *colls;        /* allreduces: all tensors of all items */
    int ncolls;
    int nposted;                  /* of them, done or at exec */
    size_t ncount;                /* elements of all */
    char *pack;                   /* all of them in one piece, or NULL */
    int tensor, step;             /* other kinds */
    bool lacks_memory;
    size_t *counts, *recv_counts; /* by rank */
    /* by rank (allgather), by rank and rank (alltoall), then its own row */
    int64_t *rows;
    size_t nrows;
};

struct rg_stall; /* stall.h */
struct rg_diagnosis; /* diagnose.h */
struct rg_set;   /* sets.h */

/* An entry that the leader holds until all ranks of the node have read the log up to here. */
struct rg_adopted {
    uint32_t id;
    uint64_t until; /* UINT64_MAX: not in the log yet */
};

struct rg_progress {
    struct rg_team *team;
    const struct rg_config *config;
    struct rg_boot *boot;
    struct rg_set *set;           /* NULL: all ranks, as with the next two */
    int process_set;
    struct rg_progress *world;
    _Atomic bool leaving;         /* what goes wrong now is this set's alone */
    _Atomic bool removed;         /* reigen_process_set_remove */
    _Atomic int cut_by; /* progress engine of all ranks: 1 + by whose end operations failed here */
    _Atomic bool
        told_stall; /* progress engine of all ranks: the launcher knows that a stall ends it */
    _Atomic bool abandoned;       /* what is in flight ends here, whatever the other ranks do */
    struct rg_exec *exec;
    struct rg_adasum *adasum;     /* made at its first use */
    struct rg_order *order;       /* leaders of jobs with several nodes */
    struct rg_view view;
    struct rg_table table;
    struct rg_bells comm_bells;

    pthread_mutex_t lock;
    struct rg_handles *handles;   /* of the process, or own_handles */
    struct rg_handles own_handles;
    struct rg_op *polled;
    _Atomic int npolled;
    struct rg_watcher *ended, *last_ended; /* not called yet, first to last; under the lock */
    _Atomic int nended;
    _Atomic(struct rg_op *) *by_entry; /* stream operations posted, by entry */
    uint64_t unnamed[REIGEN_REDUCESCATTER + 1]; /* the next number, by kind; under the lock */

    pthread_mutex_t drive;
    uint64_t position;            /* in the log */
    uint64_t ready_position;      /* leader: in the ready ring */
    struct rg_run run;
    struct rg_run_item decided[RG_RUN_MAX]; /* leader: a fused run that is not complete */
    int ndecided;
    bool told_death, told_shutdown; /* leader: to the other leaders */
    struct rg_adopted *adopted;   /* leader: entries that it holds for the whole node; owned */
    int nadopted, adopted_capacity;
    int epoll_fd;                 /* several nodes: what a driver sleeps in; else -1 */

    _Atomic uint32_t events;      /* process-private futex */
    _Atomic int nsleepers;        /* on events */
    _Atomic int nwaiters;         /* user threads that wait */

    struct rg_op *join;           /* in flight */
    uint64_t join_round;          /* that it waits to see complete; both under the lock */
    bool join_consumed;           /* all have joined; my operations may not have ended yet */
    _Atomic bool joining;

    _Atomic bool thread_sleeps;
    pthread_t thread;
    bool has_thread;
    _Atomic bool stopping;
    uint64_t leave_until_ns;      /* for rg_progress_destroy; 0: RG_LEAVE_TIMEOUT_MS */
    struct rg_stall *stall;
    _Atomic int looked;           /* leader: enum rg_looked, for the driver; crossed.h */
    _Atomic(struct rg_diagnosis *) diagnosis; /* under way; diagnose.h */
    bool exec_dead;
    bool boot_lost;               /* communication thread */

    _Atomic uint64_t noperations, nbytes, wait_ns, busy_ns, cache_hits, nfused;
    int spin_ns;                  /* how long a waiter stays awake */
};

/* Segment bytes that the progress engine and exec want; for rg_team_create. */
size_t rg_progress_nbytes(int node_size);

/* Over a team whose segment is at least rg_progress_nbytes long; starts the communication thread.
 * Collective in that every rank must do so. 0 or -errno. */
int rg_progress_create(const struct rg_progress_options *options, struct rg_progress **ret_progress,
                     struct rg_error *err);
/* Announce that this rank leaves: what is not in the log ends with -ECANCELED, on all ranks. Does
 * not block; threads that wait in the progress engine drive what is to be carried out, and
 * return. */
void rg_progress_leave(struct rg_progress *progress);
/* Have the threads that wait in the progress engine look whether they may return. late: they
 * may, whether or not the other ranks come. Any thread. */
void rg_progress_hurry(struct rg_progress *progress, bool late);
/* Leave, carry out what is in the log, cancel the rest, stop the thread. Nobody but the users of a
 * process set (set->users) may be inside. Blocks, at most RG_LEAVE_TIMEOUT_MS, and until the
 * functions of reigen_on_done that run have returned. NULL is fine. */
void rg_progress_destroy(struct rg_progress *progress);
/* Its counters, on top of these. */
void rg_progress_add_stats(const struct rg_progress *progress, struct reigen_stats *stats);
void rg_progress_after_fork(struct rg_progress *progress);

/* ---- submit.c */
/* Announce an operation whose fields are filled in, under its record, which the caller has
 * claimed (record->op == op). 0; else -errno with err, and the operation is as it was (the claim
 * is the caller's to drop). Takes no lock unless the operation is a stream one or must wait. */
int rg_op_post(struct rg_progress *progress, struct rg_op *op, struct rg_error *err);
/* Try to announce a queued operation again; by the driver. */
void rg_op_retry(struct rg_progress *progress, struct rg_op *op);
/* Claim a record for op; what was in flight and holds no name is finished first if it can be. 0 or
 * -EEXIST. */
int rg_record_claim(struct rg_progress *progress, struct rg_record *record, struct rg_op *op);
/* The same where nothing is in flight and the name is free, else false; without a lock. */
static inline bool rg_record_take(struct rg_record *record, struct rg_op *op)
{
    struct rg_op *other = NULL;

    if (!atomic_compare_exchange_strong(&record->op, &other, op))
        return false;
    if (!atomic_load_explicit(&record->taken, memory_order_relaxed))
        return true;
    atomic_store(&record->op, NULL);
    return false;
}
/* The same with `lock` held; wakes nobody. */
void rg_op_poll_later_locked(struct rg_progress *progress, struct rg_op *op);
/* Put an operation under the driver's eyes; wakes whoever must look. Any lock but `lock` may be
 * held. */
void rg_op_poll_later(struct rg_progress *progress, struct rg_op *op);
/* Ring every rank of this node, both its driver and its communication thread. */
void rg_progress_ring_all(struct rg_progress *progress, bool urgent);
void rg_progress_ring(struct rg_progress *progress, int member, bool urgent);
/* On this node everybody has announced it (or joined): pass it on to the log, or to the leader. */
void rg_entry_arrived(struct rg_progress *progress, uint32_t id, uint64_t epoch);
/* For rg_runlog_append, arg is the progress engine: the position of the slowest reader of the
 * log that has not left; and of the ready ring, which cannot overflow. */
uint64_t rg_log_slowest(void *arg);
uint64_t rg_ready_never_full(void *arg);

/* ---- inline.c */
void rg_inline_post(struct rg_progress *progress, struct rg_op *op);
/* True when the operation is DONE afterwards; otherwise it is still CLAIMED. By whoever has claimed
 * it: a persistent operation may be started again as soon as it is DONE, so nobody else may
 * look. */
bool rg_inline_try(struct rg_progress *progress, struct rg_op *op);

/* ---- op.c */
bool rg_op_done(const struct rg_op *op);
/* As rg_op_done, after a look at the slots. Waits for a thread that is looking already. */
bool rg_op_try(struct rg_progress *progress, struct rg_op *op);
/* POSTED or QUEUED to CLAIMED; false when somebody else has. */
bool rg_op_claim(struct rg_op *op);
/* CLAIMED to DONE. text: the cause of a failure, copied. Drops the record and the progress engine's
 * reference. */
void rg_op_finish(struct rg_progress *progress, struct rg_op *op, int status, const char *text);
void rg_op_unref(struct rg_op *op);
/* From now on the record's name is the operation's until somebody has seen its end, so that a rank
 * which uses it again too early is told so whether the others have come or not. By who has
 * claimed the record, before the operation is posted. */
void rg_op_hold_name(struct rg_op *op);
/* It is DONE (or was never posted), and its submitter knows: the name is free again. The
 * progress engine is there still; any lock may be held. */
void rg_op_seen(struct rg_op *op);
/* Nobody will look at it any more: the name is free as soon as it is DONE. */
void rg_op_drop_name(struct rg_progress *progress, struct rg_op *op);
void rg_op_fini(struct rg_op *op);
/* What everything in flight ends with, if the node's segment says so: 0 or -errno and the text. */
int rg_progress_abort_cause(struct rg_progress *progress, const char **ret_text);
/* An operation fails with this status, or is refused: when it is for another rank's death or
 * leaving, or for a stall, the launcher is told, once. To be called before anybody can hear of
 * the failure. */
void rg_progress_cut_off(struct rg_progress *progress, int status);

/* ---- drive.c; all under `drive` */
/* One round of everything: order, log, exec, polled. True when something moved. */
bool rg_progress_drive(struct rg_progress *progress);
/* Something is there that only a driver can bring on. */
bool rg_progress_has_work(struct rg_progress *progress);

/* ---- wait.c */
/* 0: done; -EAGAIN: not within the time. deadline_ns: RG_NEVER_NS for no limit. */
int rg_progress_wait(struct rg_progress *progress, struct rg_op *op, uint64_t deadline_ns);
/* Drive once if nobody does. */
void rg_progress_poll(struct rg_progress *progress);
void rg_progress_wake_sleepers(struct rg_progress *progress);
void *rg_progress_thread(void *progress);
/* Sleep as the driver until rung, at most timeout_us; returns at once when there is work. */
void rg_progress_idle(struct rg_progress *progress, struct rg_op *op, uint64_t timeout_us);

/* ---- notify.c */
/* Tell *watcher, which is copied, of the operation's end. 0: it will be; 1: it has ended already,
 * and nothing is told; -ENOMEM. */
int rg_notify_add(struct rg_progress *progress, struct rg_op *op, const struct rg_watcher *watcher);
/* With the lock held, when an operation becomes DONE: its watchers are to be told. */
void rg_notify_ended_locked(struct rg_progress *progress, struct rg_op *op);
/* There is somebody to be told, and this thread is not at it already. */
bool rg_notify_wanted(const struct rg_progress *progress);
/* Tell them. The caller holds no lock. */
void rg_notify_flush(struct rg_progress *progress);
/* Tell one, of an operation that has ended already. */
void rg_notify_call(const struct rg_watcher *watcher);
/* This thread is in a function that is being told. */
bool rg_notify_calls(void);

/* ---- run.c; under `drive` */
/* Collect the tensors of an allreduce run and start. 1: exec is at work, 0: there is nothing to do,
 * -errno. */
int rg_run_reduce_post(struct rg_progress *progress);
/* When exec is done with it. 1: it is at work again, 0: the results are there, -errno. */
int rg_run_reduce_next(struct rg_progress *progress);
/* Post the next step of the run's one operation. 1: posted, 0: there is no further step, -errno. */
int rg_run_step(struct rg_progress *progress, struct rg_op *op);
void rg_run_fini(struct rg_progress *progress);

/* ---- join.c */
int rg_join_post(struct rg_progress *progress, struct rg_op *op, struct rg_error *err);
/* All ranks of the job have joined. */
void rg_join_consumed(struct rg_progress *progress, int last_rank);
/* While this rank has joined: look whether the round is complete. True when something moved. */
bool rg_join_drive(struct rg_progress *progress);

/* ---- multi.c: several nodes */
void rg_multi_events(struct rg_progress *progress, struct rg_order_events *ret_events);
bool rg_multi_drive(struct rg_progress *progress);
void rg_multi_flush(struct rg_progress *progress);
void rg_multi_fini(struct rg_progress *progress);

/* ---- watch.c: by the communication thread */
void rg_watch_tick(struct rg_progress *progress);
/* While the progress engine is made and the leader waits for others. */
void rg_watch_start(struct rg_progress *progress);
/* At the end of a process: if operations failed because a rank of this host left, and nobody could
 * be told so, let that one end first, for at most 2 s. mpirun and torchrun call the first that
 * ends the cause. */
void rg_watch_let_leave(struct rg_progress *progress);
/* Of a process set: what has ended all ranks ends it, and the other way round. Any thread. */
void rg_watch_follow(struct rg_progress *progress);

/* The sentence for -EEXIST. */
extern const char rg_name_in_use_text[];

#endif
