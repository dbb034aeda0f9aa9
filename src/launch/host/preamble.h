/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host says before its agent does. Between us and the agent stand login shells with their
 * greetings, our bootstrap script, and perhaps `reigen-agent contain`; all write to one stream, of
 * which what stands from "reigen-boot " to a line's end is ours:
 *
 *     reigen-boot need agent ARCH       the bootstrap lacks the agent for this machine
 *     reigen-boot need bundle           contain lacks the runtime's files
 *     reigen-boot ready                 an agent or contain will read the boot lines next
 *     reigen-boot phase WORD TEXT       pulling, creating or connecting
 *     reigen-boot note TEXT             a remark for the user
 *     reigen-boot error EXITCODE TEXT   the start has failed; TEXT has cause and remedy
 *     reigen-boot link                  what follows this line is the link
 *
 * Everything else is noise, also what stands before our words in the same line, as a start file
 * leaves it that sets a terminal's title and ends without a newline. Its first and its last lines
 * are kept, to be quoted when the start fails. What comes from a host is not trusted: what is ours
 * has at most RG_PREAMBLE_LINE_MAX bytes (more is noise), the whole preamble RG_PREAMBLE_MAX, and
 * control characters are taken out of texts.
 *
 * No byte behind the line `link` may be taken from the stream: find its end with rg_preamble_peek
 * on bytes that were only looked at (MSG_PEEK), then take so many and feed them.
 *
 * Ownership: the preamble is embedded, zeroed at first, and owns nothing. Thread rule: one thread
 * at a time; nothing blocks.
 */
#ifndef RG_LAUNCH_HOST_PREAMBLE_H
#define RG_LAUNCH_HOST_PREAMBLE_H

#include <stdbool.h>
#include <stddef.h>

#define RG_PREAMBLE_LINE_MAX 4096
#define RG_PREAMBLE_MAX (1u << 20)
#define RG_PREAMBLE_NOISE_MAX 512 /* bytes of noise kept: its last lines */
#define RG_PREAMBLE_HEAD_MAX 2048 /* and its first ones: ssh's warnings are long */
#define RG_PREAMBLE_QUOTE_MAX (RG_PREAMBLE_HEAD_MAX + 2 * RG_PREAMBLE_NOISE_MAX)

enum rg_preamble_kind {
    RG_PREAMBLE_NOISE, /* not ours */
    RG_PREAMBLE_NEED_AGENT,
    RG_PREAMBLE_NEED_BUNDLE,
    RG_PREAMBLE_READY,
    RG_PREAMBLE_PHASE,
    RG_PREAMBLE_NOTE,
    RG_PREAMBLE_ERROR,
    RG_PREAMBLE_LINK
};

/* One line, understood. Pointers are into the preamble, until the next call. */
struct rg_preamble_line {
    enum rg_preamble_kind kind;
    int exit_code;    /* of ERROR: 1 to 255 */
    int phase;        /* of PHASE: enum rg_host_phase */
    const char *text; /* ARCH, TEXT, or the line of NOISE; "" else */
};

struct rg_preamble {
    char line[RG_PREAMBLE_LINE_MAX + 1];
    size_t length;  /* of the line so far */
    size_t nbytes;  /* of all lines so far */
    int too_long;   /* the line's beginning is here no more */
    char noise[RG_PREAMBLE_NOISE_MAX + 1]; /* the last lines, each with its newline */
    char head[RG_PREAMBLE_HEAD_MAX + 1];   /* the first ones, likewise */
    int head_full;
    size_t nlines, nhead; /* of noise in all, and in head */
};

/* How many of these bytes may be taken at once: up to and with the first newline, or all. */
size_t rg_preamble_peek(const void *bytes, size_t nbytes);

/* Take these bytes, at most as many as rg_preamble_peek said. 1 and *ret_line when they end a line;
 * 0 when it is not complete; -EMSGSIZE beyond RG_PREAMBLE_MAX; -EBADMSG for a line that begins with
 * "reigen-boot " and is none of the above (in the midst of a line that is noise). */
int rg_preamble_feed(struct rg_preamble *preamble, const void *bytes, size_t nbytes,
                     struct rg_preamble_line *ret_line);

/* The last lines of noise, joined by "; ", for a message; "" when there were none. Into buf, which
 * is returned. */
const char *rg_preamble_quote(const struct rg_preamble *preamble, char *buf, size_t nbytes);
/* The same, but the first lines, the last ones, and a line whose end has not come. Where lines
 * between are lost, "..." stands for them. nbytes: RG_PREAMBLE_QUOTE_MAX holds it all. */
const char *rg_preamble_quote_all(const struct rg_preamble *preamble, char *buf, size_t nbytes);

/* Of a line that a host with an agent has written to standard error: it is the agent's, for the
 * user (on_note of driver.h). */
bool rg_preamble_is_remark(const char *line);
/* How the agent ended, as its guard says it among what a host has written (agent/start/guard.h):
 * "its agent (process 7) ended: signal 9 (Killed)", so many characters of text. NULL: it has said
 * nothing. */
const char *rg_preamble_guard(const char *text, int *ret_length);

#endif
