/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test that hangs ends by itself, and says who waited where: for each thread of its processes the
 * functions it was in, as far as they can be had. Ranks that are processes are waited for by
 * hang_wait(), ranks that are threads live between hang_begin() and hang_end().
 */
#ifndef RG_TESTS_UNIT_HANG_H
#define RG_TESTS_UNIT_HANG_H

#include <stdbool.h>
#include <sys/types.h>

enum { HANG_STATUS = 99 }; /* what a process that hangs ends with */

/* Children that are forked from now on can be asked where their threads are. Call it before them;
 * further calls do nothing. */
void hang_listen(void);

/* Wait for n children (up to 64), limit_s seconds at most; ret_status has theirs as waitpid() gives
 * it. Where one lives longer, each that lives is reported on stderr as `who` with its number, such
 * as "rank 2", and killed: then false, else true. Blocks. */
bool hang_wait(const pid_t *pids, int n, unsigned limit_s, const char *who, int *ret_status);

/* Unless hang_end() comes within limit_s seconds: report all threads of this process, which does
 * `what`, and end it with HANG_STATUS. A thread looks after that; runs do not nest. */
void hang_begin(unsigned limit_s, const char *what);
void hang_end(void);

#endif
