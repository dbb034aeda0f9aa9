/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the public API (api*.c) share: the one runtime of the process.
 *
 * Thread rule: every call of the API enters the runtime and leaves it again, from any thread.
 * reigen_shutdown lets nobody in any more, ends what those who are inside wait for, and frees what
 * the runtime holds when the last has left. The struct itself is never given back, and a later
 * reigen_init uses it again; so a thread that comes late may count itself and find that it is not
 * the runtime (any more).
 */
#ifndef RG_COLL_API_API_H
#define RG_COLL_API_API_H

#include "coll/api/call.h"
#include "coll/api/sets.h"
#include "coll/gpu/gpu.h"
#include "coll/ground/config.h"
#include "coll/progress/progress.h"

struct rg_runtime {
    _Alignas(64) _Atomic int users; /* calls that are inside */
    _Atomic bool unwaited;          /* something has been submitted since ... */
    _Atomic uint64_t waits;         /* ... the last of the waits that are counted here ended */
    _Alignas(64) struct rg_config config;
    struct rg_boot *boot;
    struct rg_team *team;
    struct rg_progress *progress; /* of all ranks */
    struct rg_sets sets;
    /* of all progress engines; what they hold stays until the next init, as a thread may be copying
     * a result */
    struct rg_handles handles;
    _Atomic int apart;   /* of reigen_apart, or 0 */
    uint64_t generation; /* how often this process has been initialised */
    char *describe;
    char **old_describes;     /* said before; stay until the next init */
    int nold_describes;
    int mpi; /* of reigen_mpi */
};

/* The runtime, which stays until rg_api_leave; NULL when not initialised. Never blocks. */
struct rg_runtime *rg_api_enter(void);
void rg_api_leave(struct rg_runtime *rt); /* NULL is fine */

static inline void rg_api_leavep(struct rg_runtime **rt)
{
    rg_api_leave(*rt);
}
/* Of a local that rg_api_enter gives: left with its block. */
#define rg_inside __attribute__((cleanup(rg_api_leavep)))

/* For rg_call.waited, by who is about to submit; stays: it does not wait for it in the same call.
 * Whether a name may be used again depends on this rank's own calls alone, and not on what the
 * others have done meanwhile, so that all ranks of one program are told alike. */
static inline uint64_t rg_api_waited(struct rg_runtime *rt, bool stays)
{
    uint64_t waited = atomic_load(&rt->waits);

    if (stays && !atomic_load_explicit(&rt->unwaited, memory_order_relaxed))
        atomic_store_explicit(&rt->unwaited, true, memory_order_relaxed);
    return waited;
}

/* This rank's wait for something has ended, or has been given up. */
static inline void rg_api_count_wait(struct rg_runtime *rt)
{
    if (!atomic_load_explicit(&rt->unwaited, memory_order_relaxed))
        return;
    atomic_store_explicit(&rt->unwaited, false, memory_order_relaxed);
    atomic_fetch_add(&rt->waits, 1);
}

/* The progress engine of a process set (0: of all ranks), held until rg_set_leave(*ret_set);
 * *ret_set is NULL for all ranks. NULL with err: it does not exist, or this rank is not a
 * member. kind: for the text. */
struct rg_progress *rg_api_progress(struct rg_runtime *rt, int kind,
                                const struct reigen_options *options, struct rg_set **ret_set,
                                struct rg_error *err);
/* Say anew what reigen_describe gives, as the sets have changed. 0 or -ENOMEM. */
int rg_api_describe(struct rg_runtime *rt);
/* Remember err as this thread's last failure; returns -err->errnum. */
int rg_api_fail(const struct rg_error *err);
int rg_api_failf(int errnum, const char *fmt, ...) rg_printf(2, 3);
/* What a done operation has ended with: 0 or more, or its failure, which is remembered. */
static inline int rg_api_outcome(const struct rg_op *op)
{
    return op->status < 0 ? rg_api_failf(-op->status, "%s", rg_call_cause(op)) : op->status;
}
/* rg_api_failf for "not initialised"; -ENOTCONN. */
int rg_api_uninitialised(void);
/* The same for who asks whether an operation is done, when a shutdown that is under way is through:
 * the caller's buffers are its own again then. -EAGAIN when it is not in time. Does not wait in
 * a function that reigen_on_done calls. */
int rg_api_over(uint64_t deadline_ns);
/* When a wait of timeout_ms from now ends: 0 for 0, never for a negative one. */
uint64_t rg_api_deadline(int timeout_ms);

/* ---- tensors on a GPU (api_device.c). In a process that has not called reigen_use_device for one
 * these cost a look at a flag, and all memory is the host's. */
/* Where the call's tensors are, into its memory and device, and a mark in the caller's stream into
 * its ready, which rg_api_device_end gives back. 0; -errno with err, and there is nothing to end:
 * if the device is of no use any more, -EIO, this rank's job has ended. */
int rg_api_device_begin(struct rg_progress *progress, struct rg_call *call, struct rg_error *err);
void rg_api_device_end(struct rg_call *call);
/* The operation is DONE: have the caller's stream wait for it. 0, or -errno, which is
 * remembered. */
int rg_api_device_await(const struct rg_op *op);
/* Whether the device has done all that the operation, which is DONE, has put on its stream. */
bool rg_api_device_passed(const struct rg_op *op);
/* Whether this is in a device's memory; rg_api_device_looks in a process that uses devices. */
bool rg_api_device_looks(const void *at);

static inline bool rg_api_device_is(const void *at)
{
    return __builtin_expect(atomic_load_explicit(&rg_gpu_in_use, memory_order_relaxed), 0) &&
           rg_api_device_looks(at);
}
/* Copy from a result of the operation's to memory in the same place; on a device in the order of
 * the caller's stream. 0, or -errno, which is remembered. */
int rg_api_device_copy(const struct rg_op *op, void *to, const void *from, size_t nbytes);

/* ---- who looks on while ranks work: the timeline and the observers of coll/observe
 * (api_observe.c), or nobody where these are left out of the build (api_unobserved.c). Called by
 * init and shutdown; rg_api_observe_after_fork in a child. */
/* For rg_progress_options.observe. */
extern rg_observe_fn *const rg_api_observe;
/* The timeline that the configuration asks for: a path that cannot be written is an error here, and
 * not after a night of training. */
int rg_api_timeline_open(const struct rg_config *config, int rank, struct rg_error *err);
void rg_api_timeline_close(void);
void rg_api_observe_after_fork(void);

#endif
