/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reigen's collectives, in C.
 *
 * Every rank of a job calls reigen_init, then collectives in any order: operations are matched
 * between ranks by name, not by the order of calls. An operation is asynchronous: it is submitted,
 * gives a handle, and is waited for. The order of execution is negotiated, equal on all ranks.
 *
 *      reigen_init(NULL);
 *      float x[4] = { ... };
 *      int64_t shape[] = { 4 };
 *      reigen_handle h;
 *      reigen_allreduce_async("grad", x, x, REIGEN_FLOAT32, shape, 1, NULL, &h);
 *      if (reigen_wait(h, -1) < 0)
 *          fprintf(stderr, "%s\n", reigen_handle_error(h));
 *      reigen_release(h);
 *      reigen_shutdown();
 *
 * Names: a name identifies one operation, from its submission until its submitter has seen its end:
 * by reigen_wait, a reigen_poll that gives 1, or the call that reigen_on_done asks for. Using it
 * again before is an error (the operation goes on), on every rank that does so, no matter which
 * rank is ahead; until a wait of this rank has ended, for whatever it was. After that an operation
 * of the same name stands in line: it begins when the one before it has ended, which keeps its
 * outcome. A wait is a call of reigen_wait, _wait_us, _wait_all (also for no handles),
 * reigen_request_wait or _run that has a time and does not give -EAGAIN, and every blocking form. A
 * handle that is released unseen frees its name when the operation has ended, which this rank
 * cannot know. NULL gives the n-th unnamed operation of this kind on each rank the same name, so
 * unnamed operations are matched by their order. Names live in one name space per operation kind,
 * as "allreduce.grad", and are at most REIGEN_NAME_MAX bytes.
 *
 * Tensors: dense, row-major, shape in elements, at most REIGEN_NDIM_MAX dimensions. Buffers are
 * borrowed from submission until the handle is done. In place (out == in) is allowed where said.
 *
 * Errors: functions return 0 or a positive result, else a negative errno:
 *      -EINVAL     a wrong argument here, or a mismatch between the ranks (type, shape, operation,
 *                  reduction, root, factors); the job can go on
 *      -EEXIST     the name is in use on this rank (see above); the job can go on
 *      -ENOTCONN   not initialised
 *      -ECONNRESET another rank died: only reigen_shutdown is useful now
 *      -EIO        a device, its driver or NCCL failed, on this rank or another: the same
 *      -ECANCELED  shut down, by this rank or another, before the operation was complete
 *      -ETIMEDOUT  initialisation timed out, or a stall passed its shutdown limit
 *      -EAGAIN     reigen_wait: not done within its time
 *      -ENOMEM     out of memory
 * reigen_last_error() gives this thread's last failure in words; reigen_handle_error(handle) the
 * cause of a failed operation.
 *
 * Threads: every function may be called from any thread at any time, except init and shutdown in a
 * function that reigen_on_done calls (-EDEADLK). Only these block: reigen_init,
 * reigen_shutdown, reigen_process_set_add and _remove, reigen_wait, _wait_us and _wait_all, the
 * blocking forms (reigen_allreduce, reigen_broadcast, reigen_barrier), reigen_request_wait, _run
 * and _free, reigen_diagnose, and for a file's sake reigen_timeline_start and _stop; a thread that
 * waits for operations drives the transfer itself. After fork the child counts as not initialised
 * and holds no descriptor of the runtime.
 *
 * The library never exits, never touches signals, locale, working directory or standard output; it
 * writes stall reports and, with REIGEN_LOG_LEVEL, its log to standard error.
 */
#ifndef REIGEN_REIGEN_H
#define REIGEN_REIGEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REIGEN_VERSION_MAJOR 0
#define REIGEN_VERSION_MINOR 1
#define REIGEN_VERSION_PATCH 0

#define REIGEN_API __attribute__((visibility("default")))

#define REIGEN_NDIM_MAX 16
#define REIGEN_NAME_MAX 511
#define REIGEN_SIZE_MAX 131072 /* ranks */

/* Element types; the first ten have Horovod's numbers. */
enum reigen_dtype {
    REIGEN_UINT8 = 0,
    REIGEN_INT8 = 1,
    REIGEN_UINT16 = 2,
    REIGEN_INT16 = 3,
    REIGEN_INT32 = 4,
    REIGEN_INT64 = 5,
    REIGEN_FLOAT16 = 6,
    REIGEN_FLOAT32 = 7,
    REIGEN_FLOAT64 = 8,
    REIGEN_BOOL = 9,
    REIGEN_BFLOAT16 = 10,
    REIGEN_NDTYPES = 11,
    REIGEN_TYPE_ADDED = 256 /* and more: reigen_type_add */
};
#define REIGEN_TYPES_MAX 4096               /* that are added */
#define REIGEN_TYPE_NAME_MAX 47             /* bytes */
#define REIGEN_TYPE_NBYTES_MAX (16 << 20)   /* of one element */

/*
 * Another element type, by its name in the framework ("complex64", "datetime64[s]") and its size in
 * bytes. Its number is this process's, and goes to all functions here that take a dtype; ranks
 * compare names and sizes. parts: the enum reigen_dtype that an element consists of, so that SUM
 * and AVERAGE of the parts are those of the elements (a complex64 is two REIGEN_FLOAT32): these two
 * reduce it, and nothing else does. -1: it can be moved (broadcast, allgather, alltoall), and not
 * reduced. The same arguments give the same number. Names are of printable ASCII without quotation
 * marks and backslashes; "BARRIER()" or "ALLGATHER()float32" is for elements of which the caller
 * makes another operation, by whose name ranks are told that they mean different ones. 0 and
 * *ret_dtype; -EINVAL (the name, the size, the parts); -ENOSPC; -ENOMEM. Any thread, also without
 * reigen_init; never blocks.
 */
REIGEN_API int reigen_type_add(const char *name, size_t nbytes, int parts, int *ret_dtype);

/*
 * Reductions, with Horovod's numbers. AVERAGE divides the sum by the number of ranks: floating
 * types in at least float32, integers truncated (-75 / 2 is -37). bool: SUM and MAX are "or",
 * PRODUCT and MIN "and"; AVERAGE is refused. Integers wrap around. float16 and bfloat16 are
 * accumulated in float32 and rounded once per hop. ADASUM (allreduce only; float16, bfloat16,
 * float32, float64; any number of ranks) adds what is orthogonal and averages what is parallel:
 * docs/process-sets.md; each tensor of a group by itself.
 */
enum reigen_op {
    REIGEN_AVERAGE = 0,
    REIGEN_SUM = 1,
    REIGEN_ADASUM = 2,
    REIGEN_MIN = 3,
    REIGEN_MAX = 4,
    REIGEN_PRODUCT = 5
};

/* An operation in flight or done; > 0. Never reused within a process's life. */
typedef int64_t reigen_handle;

/* What may be said of an operation beyond its tensor. A zeroed struct is not the default (prescale
 * would be 0): start from REIGEN_OPTIONS_INIT. NULL stands for REIGEN_OPTIONS_INIT everywhere. */
struct reigen_options {
    int op;            /* enum reigen_op; allreduce and reducescatter */
    int root;          /* broadcast: the rank (of all ranks) whose data all get */
    double prescale;   /* each element is multiplied by it before the reduction ... */
    double postscale;  /* ... and after it; integer types: computed in double, truncated */
    int process_set;   /* 0: all ranks; else one of reigen_process_set_add's, with this rank */
    int group_size;    /* set by the grouped calls; leave 0 */
};
#define REIGEN_OPTIONS_INIT { REIGEN_SUM, 0, 1.0, 1.0, 0, 0 }

/* ------------------------------------------------------------------ life cycle */

/* What init may be told; NULL takes everything from the environment (docs/variables.md lists the
 * variables). A zeroed struct is the default. */
struct reigen_init_options {
    int timeout_ms;       /* for all ranks to come; 0: REIGEN_START_TIMEOUT or 300 s */
    const int *ranks;     /* a world of these ranks of the job only, numbered in this order ... */
    int nranks;           /* ... so many; NULL and 0: all ranks */
};

/*
 * Join the job: find the other ranks (from Reigen's agent, from RANK, WORLD_SIZE, MASTER_ADDR and
 * MASTER_PORT, or alone), connect, and start the communication thread. Blocks until all ranks have
 * come. Calling it when initialised does nothing and returns 0. It may be called again after
 * reigen_shutdown, any number of times, if all ranks do.
 * With a list of ranks every rank of the job calls it with a list that holds it; ranks with equal
 * lists form one world, and no rank is in two lists that differ (-EINVAL names the ranks).
 * 0; -ETIMEDOUT (reigen_last_error names the ranks that are missing); -EPERM (several hosts and no
 * key); -EINVAL (a variable is broken, and which); -ECONNREFUSED; -ENOMEM. After an error nothing
 * is left behind and init may be tried again.
 */
REIGEN_API int reigen_init(const struct reigen_init_options *options);

/*
 * For a program whose processes have a way of their own to agree, as a key-value store: who meets,
 * and one function that the runtime needs for it. Callers of reigen_init need none.
 */
struct reigen_meeting {
    int rank, size; /* this process's number among those who meet, and how many they are */
    /*
     * Hand over nbytes at blob, and get what each of them has handed over: in order of rank, the
     * address of rank i's bytes to ret_blobs[i] and their number to ret_nbytes[i]. That memory is
     * fn's own, and stays as it is until fn is called again or the call that takes the meeting
     * returns. All who meet call it equally often; it blocks until all have, at most timeout_ms.
     * 0, -ETIMEDOUT, or another -errno. Called by the thread, and during the call, that the
     * meeting is given to, and never afterwards.
     */
    int (*fence)(void *arg, const void *blob, size_t nbytes, int timeout_ms,
                 const void **ret_blobs, size_t *ret_nbytes);
    void *arg;      /* for fence, unread */
};

/*
 * reigen_init of those who meet: they are the job, and the environment says nothing of it. Without
 * REIGEN_KEY_FILE the first fence carries the key by which ranks know each other later, so what
 * carries the fences must be as trustworthy as the job is to be. timeout_ms: as in
 * reigen_init_options. 0; -EALREADY when this process is initialised; -EINVAL; or as reigen_init.
 */
REIGEN_API int reigen_init_meeting(const struct reigen_meeting *meeting, int timeout_ms);

/* Leave the job. Blocks until the other ranks have been told, the functions of reigen_on_done that
 * run have returned, and no thread is in any other function of this API. Operations in flight end
 * with -ECANCELED, here and on the other ranks, unless they were complete on all: those are
 * carried out, however slow the other ranks are, unless they stand still for
 * REIGEN_SILENCE_SECONDS. Threads that wait for them learn of it. Whoever comes later gets
 * -ENOTCONN: from those that ask whether an operation is done when this is through, so that its
 * buffers are the caller's again then. Does nothing when not initialised, but wait for another
 * thread's call of it. 0, or -EDEADLK in a function that reigen_on_done calls. */
REIGEN_API int reigen_shutdown(void);

REIGEN_API int reigen_is_initialized(void); /* 1 or 0 */

/* -ENOTCONN when not initialised. Local: among the ranks of this host; cross: among the ranks with
 * the same local rank. */
REIGEN_API int reigen_rank(void);
REIGEN_API int reigen_size(void);
REIGEN_API int reigen_local_rank(void);
REIGEN_API int reigen_local_size(void);
REIGEN_API int reigen_cross_rank(void);
REIGEN_API int reigen_cross_size(void);
REIGEN_API int reigen_is_homogeneous(void); /* 1 when all hosts have equally many ranks */

/*
 * Elastic jobs: ranks are lost and come while others live on. Each membership is an epoch, in which
 * ranks are numbered anew. A process goes from one to the next by reigen_shutdown and reigen_init,
 * when its operations fail because a rank has died, or when it sees that hosts have come or gone.
 * reigen_init then blocks, without a limit, until the launcher has the next epoch together.
 */
enum reigen_update {
    REIGEN_HOSTS_GONE = 1,
    REIGEN_HOSTS_COME = 2,
    REIGEN_HOSTS_BOTH = 3,
    REIGEN_JOB_STOPS = 4,   /* the job was told to stop, and ends soon (reigen_preemptible) */
    REIGEN_JOB_AT_RISK = 8  /* a host is about to go, and too few ranks are left without it: the job
                             * then waits for another host, or ends */
};

struct reigen_epoch {
    int number;      /* from 1; 0: the job is not elastic, and sync is 0 */
    int sync;        /* 1: not all ranks have the state of rank 0, which is to be sent to all */
    int update;      /* bits of enum reigen_update that the launcher has said in this epoch */
    uint64_t stamp;  /* when it did so of hosts, in ms of the wall clock; a newer one is larger */
};

/* The present epoch; each rank hears of an update at its own time. 0, or -ENOTCONN. */
REIGEN_API int reigen_epoch(struct reigen_epoch *ret_epoch);
/* Say that this program goes on with other ranks in the same process; without this, the launcher of
 * an elastic job ends all its processes and starts new ones when ranks are lost or come. It holds
 * for the life of the process. failed: 1, before the reigen_shutdown of an epoch that has ended by
 * an error: what this rank goes on from is older than what others may have; 2, and this process has
 * never had the state of the others, so it is not to be the one that gives it to them. A rank that
 * has seen another one die has failed without being told. 0, also in other jobs; -EINVAL: another
 * number; -ENOTCONN. */
REIGEN_API int reigen_elastic(int failed);
/* Say that this program saves its work when the job is told to stop: by SIGTERM to the launcher or
 * to an agent, or by --timeout. reigen_epoch's update then has REIGEN_JOB_STOPS, which each rank
 * sees at its own time, and SIGTERM comes when three quarters of --grace are over. It holds for the
 * whole job, and for all of its life. 1; 0: no launcher will tell, and SIGTERM comes at once;
 * -ENOTCONN. Any thread; never blocks for long. */
REIGEN_API int reigen_preemptible(void);
/* For a process that has come to an epoch whose other ranks are at work already, which do not know
 * what it does until it is as far as they: until this is called with 0, its operations on all ranks
 * are carried out in that process set, which is of this rank alone, and a broadcast has this rank
 * as its root. Requests that were created before are for that set. 0; -EINVAL; -ENOTCONN. */
REIGEN_API int reigen_apart(int process_set);
/* A step of this rank's training has ended. Steps of a process are counted from 1 over all of its
 * epochs; by their number `reigen run --chaos` lets faults happen, and then this call blocks, or
 * the process ends in it. Without --chaos nothing happens. 0;
 * -ENOTCONN before reigen_init. */
REIGEN_API int reigen_step(void);
/* Say that this process ends by an error, which may take a while as interpreters wait for threads
 * and for children: a report of who is waited for says so of it. It holds until the process calls
 * its next operation, and changes nothing else: the process is still waited for. 0; -ENOTCONN
 * before reigen_init, after reigen_shutdown and in a forked child. Any thread; never blocks. */
REIGEN_API int reigen_failing(void);

/* ------------------------------------------------------------------ operations
 * Each returns 0 and *ret_handle, or a negative errno with nothing submitted. All ranks must submit
 * the same name with matching arguments; until the last has, the operation waits (and is reported
 * as stalled after REIGEN_STALL_SECONDS, by default what steps let expect). When a rank dies all
 * others get -ECONNRESET within 5 s; when its host or the network to it goes silent, after
 * REIGEN_SILENCE_SECONDS, 30 s by default. */

/* Reduce element by element over all ranks; every rank gets the same bits. out has in's shape; out
 * == in is allowed. */
REIGEN_API int reigen_allreduce_async(const char *name, const void *in, void *out, int dtype,
                                      const int64_t *shape, int ndim,
                                      const struct reigen_options *options,
                                      reigen_handle *ret_handle);

/* Concatenate along the first dimension, in the order of ranks. First dimensions may differ, the
 * others must agree; ndim >= 1. The result is allocated by the runtime: reigen_output. */
REIGEN_API int reigen_allgather_async(const char *name, const void *in, int dtype,
                                      const int64_t *shape, int ndim,
                                      const struct reigen_options *options,
                                      reigen_handle *ret_handle);

/* options->root's in to every rank's out. Elsewhere in may be NULL; out == in is allowed. */
REIGEN_API int reigen_broadcast_async(const char *name, const void *in, void *out, int dtype,
                                      const int64_t *shape, int ndim,
                                      const struct reigen_options *options,
                                      reigen_handle *ret_handle);

/* Send splits[r] rows (of the first dimension) to rank r, in order, and receive the rows that
 * others have for this rank, in the order of ranks. nsplits: the number of ranks, or 0 with splits
 * NULL for equal parts. The result is allocated by the runtime: reigen_output,
 * reigen_received_splits. */
REIGEN_API int reigen_alltoall_async(const char *name, const void *in, int dtype,
                                     const int64_t *shape, int ndim, const int32_t *splits,
                                     int nsplits, const struct reigen_options *options,
                                     reigen_handle *ret_handle);

/* Reduce, then rank r keeps the r-th part of the first dimension; the first (rows mod size) ranks
 * get one row more. SUM or AVERAGE. The result is allocated by the runtime: reigen_output. */
REIGEN_API int reigen_reducescatter_async(const char *name, const void *in, int dtype,
                                          const int64_t *shape, int ndim,
                                          const struct reigen_options *options,
                                          reigen_handle *ret_handle);

/*
 * An allgather or a reducescatter (kind) of equal parts, into the caller's memory. count: elements
 * of one part, equal on all ranks. Allgather: in has one part, out as many as there are ranks; in
 * may be this rank's place in out. Reducescatter: in has as many parts as there are ranks, out one,
 * apart from in. All ranks use this form or none does (-EINVAL).
 */
REIGEN_API int reigen_into_async(int kind, const char *name, const void *in, void *out, int dtype,
                                 size_t count, const struct reigen_options *options,
                                 reigen_handle *ret_handle);

/*
 * n allreduces that are carried out together or not at all. names, ins, outs, shapes and ndims have
 * n entries; one dtype and one set of options. names may be NULL; else name i is used as it is.
 * ret_handles has room for n. On an error nothing has been submitted. The same call exists for
 * allgather (outs ignored) and reducescatter (outs ignored) through kind.
 */
enum reigen_kind {
    REIGEN_ALLREDUCE = 0,
    REIGEN_ALLGATHER = 1,
    REIGEN_BROADCAST = 2,
    REIGEN_JOIN = 3,
    REIGEN_KIND_ADASUM = 4,
    REIGEN_ALLTOALL = 5,
    REIGEN_BARRIER = 6,
    REIGEN_REDUCESCATTER = 7
};
REIGEN_API int reigen_grouped_async(int kind, int n, const char *const *names,
                                    const void *const *ins, void *const *outs, int dtype,
                                    const int64_t *const *shapes, const int *ndims,
                                    const struct reigen_options *options,
                                    reigen_handle *ret_handles);

/* Done when all ranks have submitted theirs. */
REIGEN_API int reigen_barrier_async(const struct reigen_options *options,
                                    reigen_handle *ret_handle);

/* This rank has no more data: until all ranks have joined it supplies zeros to the others'
 * allreduces, but for what it has submitted before, also where that still stands in line.
 * Operations of other kinds fail while a rank has joined. The result of reigen_wait is 1 + the rank
 * that joined last. */
REIGEN_API int reigen_join_async(reigen_handle *ret_handle);

/* The blocking forms: submit, wait without a limit, release. The result is reigen_wait's. */
REIGEN_API int reigen_allreduce(const char *name, const void *in, void *out, int dtype,
                                const int64_t *shape, int ndim,
                                const struct reigen_options *options);
REIGEN_API int reigen_broadcast(const char *name, const void *in, void *out, int dtype,
                                const int64_t *shape, int ndim,
                                const struct reigen_options *options);
REIGEN_API int reigen_barrier(void);

/* ------------------------------------------------------------------ tensors on a GPU
 * Tensors may be in the memory of a CUDA device, all those of one call in the same place. A rank
 * uses one device. The GPU's work is ordered by streams, and the host waits for none of them: an
 * operation begins after what the caller's stream had when it was submitted, and reigen_wait has
 * the caller's stream, as it is then, wait for the operation, and returns. So results may be used
 * by what is put on that stream from then on; the host itself has to synchronize with the stream
 * first.
 *      reigen_poll      is 1 when the device has done the operation
 *      reigen_on_done   comes when the operation is on a stream; reigen_wait then does not block
 *      reigen_output    gives memory of the device, to be used after reigen_wait; reigen_release
 *                       gives it back when what is on the caller's stream then is done
 * Buffers stay as they are until the caller's stream is behind reigen_wait. What NCCL does not do
 * goes through the host's memory (docs/planes.md): then reigen_wait blocks for the host's part.
 * Persistent requests, and streams that are being captured into a graph, are refused. A process
 * that was forked from one that uses a GPU cannot use it: -ENOTSUP, until it has called
 * reigen_use_device for device -1. */

/* What this thread submits and waits for from now on goes with this stream (cudaStream_t; NULL: the
 * device's default stream) of this device (CUDA's number in this process); device -1: with none, as
 * at first. Until some thread has called this for a device, all pointers are taken for the host's,
 * and no driver is looked for; from then on the driver is asked where each pointer leads. Tensors
 * without an address, as they are empty, are where this says. Local; blocks once, while the driver
 * starts. 0; -ENOENT, -ENOTSUP, -ENODEV or -EIO (the driver is missing, too old, shows no device,
 * or fails; reigen_last_error says which); -EINVAL (there is no such device). Needs no
 * reigen_init. */
REIGEN_API int reigen_use_device(int device, void *stream);
/* What this thread has said last: the device, or -1, and into *ret_stream its stream (NULL for -1).
 * For code that works in another one's thread and leaves it as it was. Never blocks. */
REIGEN_API int reigen_used_device(void **ret_stream);
/* In the memory of which device this is, by CUDA's number in this process; -1: in the host's. Asks
 * the driver, and blocks once, while that starts. 0 and *ret_device; or as reigen_use_device. */
REIGEN_API int reigen_device_of(const void *at, int *ret_device);

/* ------------------------------------------------------------------ handles */

/* 1 done (or failed), 0 not yet, -EINVAL unknown handle. Never blocks. When not yet, it drives
 * progress a little, for the next call to tell of. */
REIGEN_API int reigen_poll(reigen_handle handle);

/* Wait until done, at most timeout_ms (-1: without limit), driving the transfer. 0 (join: 1 + last
 * rank), -EAGAIN when the time is over, -EINVAL unknown handle, or the operation's error. May be
 * called again after any result; the handle stays until reigen_release. */
REIGEN_API int reigen_wait(reigen_handle handle, int timeout_ms);

/* The same with a limit in microseconds; 0: it drives progress a little, and tells what came of
 * it. */
REIGEN_API int reigen_wait_us(reigen_handle handle, int64_t timeout_us);

/* Have fn called when the operation is done: once, with `arg`, the handle and the operation's
 * status (what reigen_wait would give), by whichever thread sees the end: this one, before
 * reigen_on_done returns, when it is done already, else one that waits for something, else the
 * communication thread. No lock of the runtime is held meanwhile. fn may call everything that does
 * not block: look at the operation, release it, submit others; reigen_wait_us for moments. While it
 * runs, what the thread was doing for the runtime stands still. It is called whether or not the
 * handle has been released, and also for operations that reigen_shutdown cancels: then the handle
 * is gone, and all other functions give -ENOTCONN. 0, -EINVAL or -ENOMEM;
 * after an error fn is not called. Several functions may be set for one handle. */
REIGEN_API int reigen_on_done(reigen_handle handle,
                              void (*fn)(void *arg, reigen_handle handle, int status), void *arg);

/* Wait until all n are done, at most timeout_ms together (-1: without limit). 0; -EAGAIN when the
 * time is over; else the error of the first one that failed, and all are done. */
REIGEN_API int reigen_wait_all(int n, const reigen_handle *handles, int timeout_ms);

/* The result of an operation that allocated it: its memory, valid until release (or, as with the
 * texts below, until the next init after a shutdown), its shape (into
 * ret_shape, room for REIGEN_NDIM_MAX) and dimensions. -EAGAIN while not done. */
REIGEN_API int reigen_output(reigen_handle handle, const void **ret_data, size_t *ret_nbytes,
                             int64_t *ret_shape, int *ret_ndim);

/* Copy that result to memory of the caller's in the same place, nbytes of it, as many as there are.
 * On a GPU the copy is put on the caller's stream, and may begin only after reigen_wait; this
 * thread may release the handle at once. Another thread must not release it before this has
 * returned, and on a GPU not before its own stream is behind the copy: there the memory is freed in
 * the order of the releasing thread's stream. 0; -EAGAIN while not done; -EINVAL: the operation has
 * no such result, of so many bytes, or `to` is elsewhere; the operation's error, or the GPU's. */
REIGEN_API int reigen_output_copy(reigen_handle handle, void *to, size_t nbytes);

/* Rows received from each rank by an alltoall; ret_splits has room for n = size entries. */
REIGEN_API int reigen_received_splits(reigen_handle handle, int32_t *ret_splits, int n);

/* The cause of a failed operation, valid until release; "" otherwise. */
REIGEN_API const char *reigen_handle_error(reigen_handle handle);

/* Forget the handle. An operation not yet done goes on (its buffers stay borrowed) and its outcome
 * is dropped. 0 or -EINVAL. */
REIGEN_API int reigen_release(reigen_handle handle);
/* The same for n handles; unknown ones are passed over. 0 or -ENOTCONN. */
REIGEN_API int reigen_release_all(int n, const reigen_handle *handles);

/* ------------------------------------------------------------------ process sets
 * Some of the ranks, which negotiate and communicate apart from the others: operations with
 * options.process_set are between its members. Their order inside one set, and between sets, may
 * differ from rank to rank. Members are numbered by their places in ascending order: allgather,
 * alltoall and reducescatter go by these; a broadcast's root, errors and reports name ranks of the
 * world. join is for all ranks only. Each set has a communication thread and memory of its own.
 * When a rank dies all sets end with all ranks' operations; when a member calls reigen_shutdown,
 * those of its sets do. */

/* Make a set of these ranks, in any order. All ranks of the world call it with equal lists, members
 * or not; blocks until all have. Numbers count up from 1, are equal on all ranks and never used
 * again. 0 and *ret_id; -EINVAL (no ranks, one twice or out of range, lists that differ between the
 * ranks), -EEXIST (there is one with these ranks), -ENOSPC (more than 4096), or as an allgather. */
REIGEN_API int reigen_process_set_add(const int *ranks, int nranks, int *ret_id);
/* Forget it. All ranks of the world call it; blocks until all have. What is in flight in it ends
 * with -ECANCELED unless it was complete; its requests give -ENOENT from now on. 0; -ENOENT (also
 * for 0, all ranks); -EINVAL (other ranks remove another one); or as an allgather. Of a set that
 * its members have made each of them forgets it by itself, as by reigen_shutdown. */
REIGEN_API int reigen_process_set_remove(int id);

/*
 * Make a set by its members alone: ranks names them, one for each who meets, in any order, and
 * this order is that of the set: its first rank's data come first in an allgather. No other rank
 * takes part or knows of it, and there may be several sets of the same ranks. Its number, 2^20 or
 * more, is equal on its members, who may use it as any other set's. Members that make several sets
 * make them in an order in which none waits for another. Blocks until all have met, at most
 * timeout_ms (0: 60 s). 0 and *ret_id; -EINVAL (wrong ranks, or lists that differ), -ENOSPC,
 * -ETIMEDOUT, what the fence returns, or as an allgather.
 */
REIGEN_API int reigen_process_set_meet(const struct reigen_meeting *meeting, const int *ranks,
                                       int timeout_ms, int *ret_id);
/* This rank's place in it (-ENXIO: not a member), how many ranks it has, whether this rank is a
 * member (1 or 0). -ENOENT when there is none. 0 stands for all ranks. */
REIGEN_API int reigen_process_set_rank(int id);
REIGEN_API int reigen_process_set_size(int id);
REIGEN_API int reigen_process_set_included(int id);
/* Its ranks, ascending, at most max of them; the number there are, or -ENOENT. */
REIGEN_API int reigen_process_set_ranks(int id, int *ret_ranks, int max);
/* The numbers of all sets, ascending, 0 among them, at most max; the number there are. */
REIGEN_API int reigen_process_set_ids(int *ret_ids, int max);

/* ------------------------------------------------------------------ persistent requests
 * Names, checks and look-ups once, then start as often as wanted: the fastest way, for bindings and
 * for loops (compare MPI_Allreduce_init of MPI 4.0, section 6.13). */
struct reigen_request;

/* An allreduce (kind REIGEN_ALLREDUCE) or broadcast of this name and shape. Local; nothing is sent.
 * One start may be in flight at a time; the next one is possible when the end of this one has been
 * seen. Freed by reigen_request_free, before reigen_shutdown
 * or after it; after it (and after another init) every other call but reigen_request_error gives
 * -ENOTCONN. */
REIGEN_API int reigen_request_create(int kind, const char *name, int dtype, const int64_t *shape,
                                     int ndim, const struct reigen_options *options,
                                     struct reigen_request **ret_request);
/* Submit with these buffers. As reigen_allreduce_async, without a handle. -EEXIST when the last
 * start's end has not been seen, or another operation has the name: a request stands in no line. */
REIGEN_API int reigen_request_start(struct reigen_request *request, const void *in, void *out);
/* As reigen_poll and reigen_wait. */
REIGEN_API int reigen_request_test(struct reigen_request *request);
REIGEN_API int reigen_request_wait(struct reigen_request *request, int timeout_ms);
/* Start and wait in one call. */
REIGEN_API int reigen_request_run(struct reigen_request *request, const void *in, void *out,
                                  int timeout_ms);
REIGEN_API const char *reigen_request_error(struct reigen_request *request);
/* Waits for a start in flight; after shutdown there is none. NULL is fine. */
REIGEN_API void reigen_request_free(struct reigen_request *request);

/* ------------------------------------------------------------------ about the runtime */

/* This thread's last failure in words, valid until its next failing call; never NULL. */
REIGEN_API const char *reigen_last_error(void);
/* "0.1.0" */
REIGEN_API const char *reigen_version(void);
/* What the runtime uses, one line per fact ("plane shm: 4 ranks of this host", "boot: agent", ...);
 * valid until an init after shutdown; adding and removing process sets changes what the next call
 * gives. */
REIGEN_API const char *reigen_describe(void);
/* What the job has to do with MPI, as a sum of these; -ENOTCONN before init. */
#define REIGEN_MPI_STARTED 1 /* MPI's launcher, or Slurm for MPI, has started the ranks */
#define REIGEN_MPI_PLANE 2   /* data go over MPI */
#define REIGEN_MPI_THERE 4   /* this process had an MPI at init that was initialised, */
#define REIGEN_MPI_THREADS 8 /* with MPI_THREAD_MULTIPLE */
REIGEN_API int reigen_mpi(void);
/*
 * Ask for the same bits in each run of a job on the same hosts, or no longer (on: 1 or 0; -1 leaves
 * it as it is): reductions that are submitted from now on, by any thread of this process, do not
 * depend on what else is under way, nor on how quick the network is. REIGEN_DETERMINISTIC=1 asks
 * for all; this adds to it. All ranks ask alike, else a reduction between hosts fails (-EINVAL).
 * Ranks of one host get the same bits in any case. docs/planes.md says what it costs. 1 or 0, as
 * this process asked before. Local; any thread, also without reigen_init; never blocks.
 */
REIGEN_API int reigen_deterministic(int on);
/* The version of NCCL that operations on a GPU's memory would use, as NCCL counts it: 22105 is
 * 2.21.5. 0: none is found, or one that is older than 2.18. Local; it may load the library, and
 * never starts the driver. Needs no reigen_init. */
REIGEN_API int reigen_nccl_version(void);

/*
 * Write a timeline from now on: what happens to each operation and when, as a file that
 * chrome://tracing and ui.perfetto.dev show (docs/timeline.md). It ends with reigen_timeline_stop
 * or reigen_shutdown; starting again begins another file in its place. Local: other ranks need not
 * call it, and only rank 0 writes, unless path has "{rank}" or "%r" in it, which stand for the rank
 * (elsewhere it does nothing and returns 0). mark_cycles: mark each batch that is carried out.
 * HOROVOD_TIMELINE does the same from reigen_init on. 0; -ENOTCONN; -EINVAL without a path; the
 * cause for which the file cannot be written (-EACCES, -EISDIR, -ENOSPC, ...), and then no
 * timeline runs; -ENOTSUP, as from the next two, where Reigen was built with
 * -Dobserve=disabled. When the disk is full later the job goes on, with one warning. Any thread,
 * any number of times, while operations run; blocks for a write to the file.
 */
REIGEN_API int reigen_timeline_start(const char *path, int mark_cycles);
/* Write what is left and close; nothing is lost. 0 (also when none runs), -ENOTCONN or
 * -ENOTSUP. */
REIGEN_API int reigen_timeline_stop(void);

/*
 * What each rank is doing, as one JSON object (its fields: docs/timeline.md): for finding out why a
 * job does not go on. Local: the other ranks' threads need not do anything, they may hang or be
 * stopped. Ranks of this host are always told of; of other hosts rank 0 asks, at most timeout_ms
 * (-1: until they have answered), and what has not answered is marked as unknown; other ranks know
 * their own host only. *ret_json is the caller's, to be given to reigen_free. 0; -ENOTCONN;
 * -ENOMEM; -ENOTSUP. Any thread.
 */
REIGEN_API int reigen_diagnose(int timeout_ms, char **ret_json);
/*
 * Have reports of stalls say where this program is in its own language. That language's runtime has
 * a function that writes down the stacks of all threads when a signal comes, in the form of
 * Python's faulthandler, takes no lock for it, and may be called by any thread. The signal is never
 * sent: its number stands for the function, which a process that shares this one's memory for a
 * moment calls.
 *
 *      int signum = 0, fd = reigen_stacks_file(&signum);
 *      (the language's way to have stacks written to fd when signum comes)
 *      reigen_stacks_use(signum, "", "");
 *
 * reigen_stacks_file: *signum is the signal, or 0, and then becomes a real-time one that is at its
 * default, the highest but four first. Gives the descriptor to write to, which stays the runtime's;
 * -EBUSY when the program handles that signal; -errno; -ENOTSUP where Reigen was built with
 * -Dobserve=disabled. Neither takes a tensor's time, and both may be called before reigen_init.
 *
 * reigen_stacks_use: what handles signum now is the function. own, others: directories, with colons
 * between, of code that reports leave out before the program's first line, and of libraries, which
 * stand behind that line. signum 0: use it no more. 0; -EINVAL: nothing handles the signal;
 * -ENOMEM; -ENOTSUP. Blocks for a stack that is being read, a second at most. Any thread.
 */
REIGEN_API int reigen_stacks_file(int *signum);
REIGEN_API int reigen_stacks_use(int signum, const char *own, const char *others);
/* Which data plane serves which operation, by group, type, memory and size: a table of lines for
 * people, the same on all ranks of a host. *ret_text is the caller's, to be given to reigen_free.
 * 0; -ENOTCONN; -ENOMEM. Any thread. */
REIGEN_API int reigen_planes(char **ret_text);
/* Release what a function of this header says is to be given here. NULL is fine. */
REIGEN_API void reigen_free(void *memory);

/* Counters since init, for measuring: all monotonic. */
struct reigen_stats {
    uint64_t operations;      /* completed */
    uint64_t bytes;           /* of tensors reduced or moved */
    uint64_t wait_ns;         /* time that callers spent in reigen_wait and its relatives */
    uint64_t busy_ns;         /* time that any thread spent moving or reducing data */
    uint64_t cache_hits;      /* submissions that needed no look-up of metadata with others */
    uint64_t fused;           /* tensors that travelled with another one in one message */
};
REIGEN_API int reigen_get_stats(struct reigen_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
