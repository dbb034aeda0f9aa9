/* SPDX-License-Identifier: Apache-2.0 */
/* A job that has detached writes its log as its terminal would have shown it (head/show/output.c).
 * What a rank writes stands behind its tag, and is never taken for one. */
#include <stdio.h>
#include <string.h>

#include "cmd/jobs/jobs.h"

#define ESCAPE 27
#define TIME_NBYTES 30 /* "2026-01-31T23:59:59.123+01:00 " */
#define HOROVOD_TIME_NBYTES 24 /* "Sat Jan 31 23:59:59 2026", and the tag follows at once */

struct tag {
    size_t before, open; /* where the colour, and the bracket, begin */
    size_t after;        /* behind the bracket and a "+" */
    size_t rest;         /* behind the colour's end */
};

/* How long "\033[1;36m" is that begins there; 0: there is none. */
static size_t colour_nbytes(const char *at, size_t nbytes)
{
    size_t n = 2;

    if (nbytes < 3 || at[0] != ESCAPE || at[1] != '[')
        return 0;
    while (n < nbytes && ((at[n] >= '0' && at[n] <= '9') || at[n] == ';'))
        n++;
    return n < nbytes && at[n] == 'm' ? n + 1 : 0;
}

/* Of --timestamps, and of horovodrun's. */
static size_t time_nbytes(const char *line, size_t nbytes)
{
    if (nbytes > TIME_NBYTES && line[4] == '-' && line[10] == 'T' && line[TIME_NBYTES - 1] == ' ')
        return TIME_NBYTES;
    return nbytes > HOROVOD_TIME_NBYTES && line[3] == ' ' && line[13] == ':' && line[16] == ':' &&
                   line[HOROVOD_TIME_NBYTES] == '[' ? HOROVOD_TIME_NBYTES : 0;
}

static bool find_tag(const char *line, size_t nbytes, struct tag *ret_tag)
{
    struct tag tag = { .before = time_nbytes(line, nbytes) };

    tag.open = tag.before + colour_nbytes(line + tag.before, nbytes - tag.before);
    const char *close = tag.open < nbytes && line[tag.open] == '['
                            ? memchr(line + tag.open, ']', nbytes - tag.open) : NULL;
    if (!close)
        return false;
    tag.after = (size_t) (close - line) + 1;
    tag.after += tag.after < nbytes && line[tag.after] == '+';
    tag.rest = tag.after + colour_nbytes(line + tag.after, nbytes - tag.after);
    *ret_tag = tag;
    return true;
}

int rg_jobs_tag_rank(const void *line, size_t nbytes)
{
    const char *text = line;
    struct tag tag;
    int rank = 0;

    if (!find_tag(text, nbytes, &tag))
        return -1;
    for (size_t i = tag.open + 1; text[i] != ']'; i++) {
        if (text[i] < '0' || text[i] > '9' || rank > RG_JOB_RANKS_MAX)
            return -1;
        rank = 10 * rank + (text[i] - '0');
    }
    return text[tag.open + 1] == ']' ? -1 : rank;
}

size_t rg_jobs_tag_nbytes(const void *line, size_t nbytes)
{
    const char *text = line;
    struct tag tag;

    if (!find_tag(text, nbytes, &tag))
        return 0;
    return tag.rest + (tag.rest < nbytes && text[tag.rest] == ' ');
}

void rg_jobs_put_plain(struct rg_buf *text, const void *line, size_t nbytes)
{
    const char *from = line;
    struct tag tag;

    if (!find_tag(from, nbytes, &tag) || tag.open == tag.before) {
        rg_buf_put(text, from, nbytes);
        return;
    }
    rg_buf_put(text, from, tag.before);
    rg_buf_put(text, from + tag.open, tag.after - tag.open);
    rg_buf_put(text, from + tag.rest, nbytes - tag.rest);
}
