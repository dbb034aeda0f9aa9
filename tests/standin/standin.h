/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stand-ins for libcuda.so.1 and libnccl.so.2, over host memory, for machines without a GPU: the
 * functions that Reigen uses, with the rules that the real ones have. What breaks a rule is refused
 * with the real one's result, or printed and made the device's lasting error.
 *
 * A device's memory is mapped twice: at the address that is given out no host access is possible,
 * the stand-ins have another one. Streams are threads, which wait for a random moment before each
 * piece of work. Ranks meet in shared memory that the unique id leads to.
 *
 * The environment, read by cuInit and ncclGetVersion or ncclCommInitRankConfig:
 *      STANDIN_CUDA_DEVICES    devices, 4; CUDA_VISIBLE_DEVICES is obeyed (numbers only)
 *      STANDIN_CUDA_VERSION    of the driver, 12040
 *      STANDIN_CUDA_MEMORY     bytes of each device, 64 MiB
 *      STANDIN_DELAY_US        the longest moment before each work, 50
 *      STANDIN_SEED            of the moments
 *      STANDIN_COPY_US         how long a copy between a device and the host takes at least, 0
 *      STANDIN_CUDA_PINNED     bytes of pinned memory of the process, 1 GiB
 *      STANDIN_CUDA_ECC_AFTER  the n-th work of the process is an uncorrectable memory error ...
 *      STANDIN_CUDA_FAULT      ... or another result, as 719 for a kernel that fails (an XID)
 *      STANDIN_NCCL_VERSION    22105
 *      STANDIN_NCCL_ERROR_AFTER  this process's n-th operation gives an asynchronous error
 *      STANDIN_NCCL_KILL_AFTER   this process kills itself in its n-th operation; 0: in init
 *      STANDIN_NCCL_NOTICES    1: a rank that has died is an asynchronous error of the others, as
 *                              where they have connections to it; else they hang until an abort
 *      STANDIN_NCCL_DUPLICATE  1: two ranks may use one device, as the real one never allows
 */
#ifndef RG_TESTS_STANDIN_H
#define RG_TESTS_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STANDIN_API __attribute__((visibility("default")))

struct standin_stream;

/* Where these bytes of a device's allocation can be read and written by the host; memory of the
 * host's: the address itself. NULL: the range is in no allocation, or has been freed. */
STANDIN_API void *standin_view(const void *address, size_t nbytes);
/* Work for a stream: fn runs in its order, with the device's memory by its views. 0, or a result of
 * CUDA's; then fn never runs. */
STANDIN_API int standin_put(struct standin_stream *stream, void (*fn)(void *arg), void *arg);
/* The device of the calling thread's context, as the machine numbers it; -1: there is none. */
STANDIN_API int standin_device(void);
/* The device of this stream is broken from now on: every call gives this result. */
STANDIN_API void standin_break(struct standin_stream *stream, int result, const char *why);
/* Copies that have begun: from a device, to one, and those that began while one the other way was
 * under way. */
enum { STANDIN_COPIES_FROM, STANDIN_COPIES_TO, STANDIN_COPIES_BESIDE, STANDIN_NCOPIES };
STANDIN_API int standin_copies(int which);
/* Pieces of memory (of devices, pinned), streams and events that there are: what has leaked. */
STANDIN_API int standin_alive(void);

#endif
