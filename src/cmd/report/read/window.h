/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some seconds of a job's timeline. Such a file may be of any size and from anywhere, so only a
 * bounded part of it is read, found by halving, as events stand in it by time, nearly.
 *
 * Thread rule: pure functions on one thread's objects, but that reading waits for the file.
 */
#ifndef RG_CMD_REPORT_WINDOW_H
#define RG_CMD_REPORT_WINDOW_H

#include <stdbool.h>

#include "traced/traced.h"

#define RG_WINDOW_NBYTES_MAX (16u << 20) /* of the file */

/* Times are seconds since 1970. */
struct rg_window_want {
    double from_s, to_s; /* to_s 0: the last that there are ... */
    double length_s;     /* ... so long; 0: those of the last operations */
};

struct rg_window {
    struct rg_traced traced;
    double from_s, to_s; /* what is shown, as times of traced */
};

/* *ret_window has at least one operation. 0; -ENOENT: there is none in that time; -ENOMEM; -errno
 * of what could not be read, -EINVAL where it is no regular file. */
int rg_window_read(const char *path, const struct rg_window_want *want,
                   struct rg_window *ret_window);
void rg_window_fini(struct rg_window *window); /* of a zeroed one, too */

#endif
