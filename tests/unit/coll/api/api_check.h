/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the public API share: they run in the ranks of a job, count what is not as it
 * should be in `bad`, which a rank returns as its result, and go on.
 */
#ifndef TEST_COLL_API_CHECK_H
#define TEST_COLL_API_CHECK_H

#include "unit.h"

#include <sched.h>

#include "coll/ranks.h"
#include "coll/ground/types.h"
#include "reigen/reigen.h"

#define check(condition)                                                                     \
    ((condition) ? 0                                                                         \
                 : (fprintf(stderr, "rank %d, line %d: not so: %s (%s)\n", reigen_rank(),    \
                            __LINE__, #condition, reigen_last_error()),                      \
                    bad = 1))

static int bad;

/* Zeroed, for count elements of any type. */
static inline void *buffer(size_t count)
{
    void *data = calloc(count + 1, 8);

    if (!data)
        abort();
    return data;
}

static inline int wait_release(reigen_handle h)
{
    int r = reigen_wait(h, -1);

    if (r < 0)
        fprintf(stderr, "rank %d: %s\n", reigen_rank(), reigen_handle_error(h));
    reigen_release(h);
    return r;
}

/* A barrier without a wait, after which names might be used again. */
static inline void pass_barrier(void)
{
    reigen_handle h = 0;

    check(reigen_barrier_async(NULL, &h) == 0);
    while (reigen_poll(h) == 0)
        sched_yield();
    reigen_release(h);
}

/* An operation that was submitted (r) ends with -EINVAL and this sentence. */
static inline void expect_mismatch(int r, const reigen_handle *handle, const char *part)
{
    reigen_handle h = *handle;

    check(r == 0);
    check(reigen_wait(h, 20000) == -EINVAL);
    if (!strstr(reigen_handle_error(h), part)) {
        fprintf(stderr, "rank %d: \"%s\" lacks \"%s\"\n", reigen_rank(), reigen_handle_error(h),
                part);
        bad = 1;
    }
    reigen_release(h);
}

#endif
