/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last lines of the ranks, as a record has them: the more ranks there are the fewer of each.
 *
 * This header is internal to src/head/record. Thread rule: pure functions.
 */
#ifndef RG_HEAD_RECORD_TAILS_H
#define RG_HEAD_RECORD_TAILS_H

#include <stddef.h>

#include "base/buf.h"

/* For how many bytes of each rank there is room, where there are so many. */
size_t rg_record_tails_room(int nranks);
/* Append a rank's line; number -1: it is none now. The oldest of its lines are left out where there
 * is no room for them, and so is the end of the newest one. Errors stick to the buffer. */
void rg_record_tails_put(struct rg_buf *text, int place, int number, const char *host,
                         const char *const *lines, size_t nlines, size_t room);

#endif
