/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a condition, for every test written in C: what tests/wait.py is to the others.
 *
 *     if (!unit_until(atomic_load(&nready) == 3, "three ranks"))
 *         return 1;
 *
 * Any thread may wait, also in a process that a test forked; nothing here ends a test.
 */
#ifndef RG_TESTS_UNIT_WAIT_H
#define RG_TESTS_UNIT_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Where a wait stands; zeroed but for the first four, it is one that has not begun. */
struct unit_wait {
    const char *what, *condition, *file;
    int line;
    uint64_t began_ns, end_ns, nap_ns;
};

/* Whether to look again, after a nap that grows. No more when even a busy machine would be done
 * (unit_limit_s(10)): then stderr has what was waited for, and where. */
bool unit_wait_more(struct unit_wait *wait);

/* Whether the process's first thread sleeps, which it does where it waits. */
bool unit_sleeps(pid_t pid);

/* Whether the process runs no more: it is gone, or waits for its parent to ask how it ended, which
 * the first process of a machine may do whenever it likes. */
bool unit_has_ended(pid_t pid);

/* Looks often until the condition is true, and says whether it came. what: for people. */
#define unit_until(expression, words)                                          \
    ({                                                                         \
        struct unit_wait wait_ = { .what = (words), .condition = #expression,  \
                                   .file = __FILE__, .line = __LINE__ };       \
        bool came_;                                                            \
                                                                               \
        do                                                                     \
            came_ = (expression);                                              \
        while (!came_ && unit_wait_more(&wait_));                              \
        came_;                                                                 \
    })

#endif
