/* SPDX-License-Identifier: Apache-2.0 */
/* A count of what was written, for logs that others keep. */
#include "launch/host/logmark.h"

#include <stdio.h>
#include <string.h>

void rg_mark_count(struct rg_logmark *mark, const void *bytes, size_t nbytes)
{
    const char *p = bytes, *end = p + nbytes;

    if (!nbytes)
        return;
    mark->nbytes += nbytes;
    while (p < end && (p = memchr(p, '\n', (size_t) (end - p)))) {
        mark->nlines++;
        p++;
    }
    mark->in_line = end[-1] != '\n';
}

bool rg_mark_is_due(const struct rg_logmark *mark, bool idle)
{
    uint64_t more = mark->nbytes - mark->marked_nbytes;

    if (mark->in_line || mark->nbytes < RG_LOGMARK_FIRST_NBYTES)
        return false;
    return more >= RG_LOGMARK_EACH_NBYTES || (idle && more);
}

size_t rg_mark_write(struct rg_logmark *mark, char *text, size_t room)
{
    int n = snprintf(text, room, RG_LOGMARK "%llu %llu\n", (unsigned long long) mark->nbytes,
                     (unsigned long long) mark->nlines);

    mark->marked_nbytes = mark->nbytes;
    return (size_t) n;
}
