/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for a person: at standard error, and as a terminal may get them.
 *
 * Words of kubectl, docker, ssh, Slurm's programs, servers and agents, names of hosts and jobs, and
 * what ranks said last may hold any byte. An escape sequence in them could wipe lines, forge
 * others, or fill the clipboard. So all that is composed for people goes through rg_shown_put and
 * its like, and a lint finds what does not (tests/lint/test_terminal.py).
 *
 * What is UTF-8 (RFC 3629) stays as it is, with newlines and tabs. These are replaced by what one
 * can read: control characters (`\x1b`, and `\u009b` where UTF-8 holds one of C1), bytes that are
 * no UTF-8 (`\xff`), the separators U+2028 and U+2029, and what embeds, overrides or isolates a
 * direction, U+202A to U+202E and U+2066 to U+2069. A carriage return before a newline, or at the
 * end, goes. Text that has gone through comes out the same a second time.
 *
 * Only programs say something: libraries return errors, and the runtime has coll/ground/report.h.
 *
 * Thread rule: any thread. rg_shown_put and its like keep no state; the buffer has the error.
 */
#ifndef RG_BASE_SAY_H
#define RG_BASE_SAY_H

#include <stdarg.h>

#include "base/buf.h"

/* Append so many bytes. */
void rg_shown_put(struct rg_buf *buf, const void *bytes, size_t nbytes);
/* Append text as one line: newlines and tabs become blanks. For cells of a table and the like. */
void rg_shown_line(struct rg_buf *buf, const char *text);
/* Format, and append all of it so. */
void rg_shown_printf(struct rg_buf *buf, const char *fmt, ...) rg_printf(2, 3);
void rg_shown_vprintf(struct rg_buf *buf, const char *fmt, va_list args);

/* Error: cannot go on; warn: went on, and says what it ignored; info: milestones of the job; debug:
 * per object; trace: per message. The agent has the first two only. */
enum rg_log_level { RG_LOG_ERROR, RG_LOG_WARN, RG_LOG_INFO, RG_LOG_DEBUG, RG_LOG_TRACE };

/* Write "WHO: TEXT" and a newline to standard error, in one write(2), as a terminal may get it.
 * Further lines are indented under the first. Write errors are ignored: there is no better place to
 * report them. errno is kept. */
void rg_log_as(const char *who, const char *fmt, ...) rg_printf(2, 3);
/* The agent's log: what it has to say where there is no link to the launcher, or no longer. */
#define rg_log(level, ...) \
    rg_log_as((level) == RG_LOG_ERROR ? "reigen-agent: error" : "reigen-agent: warning", \
              __VA_ARGS__)
/* What a command remarks. Errors that end it have head/console/exit.h. */
#define rg_say(...) rg_log_as("reigen", __VA_ARGS__)
/* Whole lines, with nothing in front of them. */
void rg_say_lines(const char *text);
/* What moves the cursor or has colours, and was therefore composed by rg_shown_printf. */
void rg_say_exact(const char *text);

#endif
