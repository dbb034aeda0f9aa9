/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the public API (api*.c) share: the one runtime of the process, and the making
 * of operations from the public functions' arguments.
 *
 * Thread rule: every call of the API enters the runtime and leaves it again, from any thread.
 * reigen_shutdown lets nobody in any more, ends what those who are inside wait for, and frees what
 * the runtime holds when the last has left. The struct itself is never given back, and a later
 * reigen_init uses it again; so a thread that comes late may count itself and find that it is not
 * the runtime (any more).
 */
#ifndef RG_COLL_API_API_H
#define RG_COLL_API_API_H

#include "coll/api/sets.h"
#include "coll/ground/config.h"
#include "coll/progress/progress.h"

struct rg_runtime {
    _Alignas(64) _Atomic int users; /* calls that are inside */
    _Alignas(64) struct rg_config config;
    struct rg_boot *boot;
    struct rg_team *team;
    struct rg_progress *progress; /* of all ranks */
    struct rg_sets sets;
    struct rg_handles
        handles;         /* of all progress engines; what they hold stays until the next init, as a
                                   thread may be copying a result */
    uint64_t generation; /* how often this process has been initialised */
    char *describe;
    char **old_describes;     /* said before; stay until the next init */
    int nold_describes;
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
/* rg_api_failf for "not initialised"; -ENOTCONN. */
int rg_api_uninitialised(void);
/* The same for who asks whether an operation is done, when a shutdown that is under way is through:
 * the caller's buffers are its own again then. -EAGAIN when it is not in time. Does not wait in
 * a function that reigen_on_done calls. */
int rg_api_over(uint64_t deadline_ns);
/* When a wait of timeout_ms from now ends: 0 for 0, never for a negative one. */
uint64_t rg_api_deadline(int timeout_ms);

/* The arguments of one call. */
struct rg_call {
    int kind, n;
    const char *const *names; /* n, or NULL */
    const void *const *ins;
    void *const *outs;
    int dtype;
    const int64_t *const *shapes;
    const int *ndims;
    const int32_t *splits;
    int nsplits;
    const struct reigen_options *options;
    int memory;   /* enum rg_memory, of all ins and outs */
    void *stream; /* as in struct rg_coll */
    struct rg_set *set; /* whose progress engine it is for; NULL: of all ranks */
    bool waits; /* the caller will wait at once */
};

/* Check the arguments and make an operation of them; the caller holds its one reference. 0 or
 * -errno with err. */
int rg_call_make(struct rg_progress *progress, const struct rg_call *call, struct rg_op **ret_op,
                 struct rg_error *err);
/* "allreduce.grad" or, for groups, with the number of members and a digest of their names. */
int rg_call_key(struct rg_progress *progress, const struct rg_call *call,
                char ret_key[RG_KEY_MAX], struct rg_error *err);
/* The record of the call and, for a group, those of its members' names. */
int rg_call_record(struct rg_progress *progress, const struct rg_call *call, const char *key,
                   struct rg_record **ret_record);
/* Make, claim and submit. handles: NULL (then *ret_op has a reference for the caller) or room for
 * n. */
int rg_call_submit(struct rg_progress *progress, const struct rg_call *call, reigen_handle *handles,
                   struct rg_op **ret_op, struct rg_error *err);

/* ---- who looks on (api_observe.c; api_unobserved.c where coll/observe is left out) */

/* For rg_progress_options.observe. */
extern rg_observe_fn *const rg_api_observe;
/* The timeline that the configuration asks for: a path that cannot be written is an error here, and
 * not after a night of training. */
int rg_api_timeline_open(const struct rg_config *config, int rank, struct rg_error *err);
void rg_api_timeline_close(void);
void rg_api_timeline_after_fork(void);

#endif
