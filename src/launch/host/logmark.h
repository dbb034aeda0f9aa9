/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where somebody else keeps what a head writes, and may lose a part of it, such as a kubelet that
 * rotates a container's log: lines of the head's own among it, which tell how much there was so
 * far. Who reads them can tell what is missing, and where. Such a line begins with a character that
 * shows nothing on terminals (RS) and is
 *
 *     RS "reigen-log " BYTES " " LINES "\n"
 *
 * the numbers being those of all before it but such lines, since the head's begin. There is none in
 * the first MiB, then one for each 64 KiB, and one when nothing has followed for a second, and at
 * the end. Another line that begins with RS is news for who looks on: how far a start is.
 *
 * Thread rule: any thread; plain structs.
 */
#ifndef RG_LAUNCH_HOST_LOGMARK_H
#define RG_LAUNCH_HOST_LOGMARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_LOGMARK_NEWS "\x1e"
#define RG_LOGMARK "\x1ereigen-log "
#define RG_LOGMARK_FIRST_NBYTES (1u << 20)
#define RG_LOGMARK_EACH_NBYTES (64u << 10)
#define RG_LOGMARK_IDLE_MS 1000

/* A writer's, or a reader's, zeroed at first. */
struct rg_logmark {
    uint64_t nbytes, nlines;  /* so far */
    uint64_t marked_nbytes;   /* at the last mark; 0: there was none */
    bool in_line;             /* no newline came last */
};

/* Bytes were written that are no mark. */
void rg_mark_count(struct rg_logmark *mark, const void *bytes, size_t nbytes);
/* Whether a mark is to be written now; idle: nothing has followed for a while, or nothing will. */
bool rg_mark_is_due(const struct rg_logmark *mark, bool idle);
/* The mark, as a line, into text, of 64 bytes or more; then it is no more due. Its length. */
size_t rg_mark_write(struct rg_logmark *mark, char *text, size_t room);

#endif
