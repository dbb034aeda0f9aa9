/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's terminal: its width, whether colours are welcome, raw mode for --pty, and descriptors
 * that never block us.
 *
 * Thread rule: main thread. Nothing blocks.
 */
#ifndef RG_HEAD_CONSOLE_TERMINAL_H
#define RG_HEAD_CONSOLE_TERMINAL_H

#include <errno.h>
#include <stdbool.h>

#ifdef RG_AGENT
/* reigen-agent is started where nobody looks on: by a pod, a script, ssh. */
static inline int rg_terminal_columns(int fd) { (void) fd; return 80; }
static inline bool rg_terminal_colour(int fd) { (void) fd; return false; }
static inline bool rg_terminal_smart(void) { return false; }
static inline bool rg_terminal_is_raw(void) { return false; }
static inline void rg_terminal_restore(void) {}
static inline int rg_terminal_raw(int fd) { (void) fd; return -ENOTTY; }
static inline bool rg_terminal_size(int fd, int *ret_rows, int *ret_columns)
{
    (void) fd, (void) ret_rows, (void) ret_columns;
    return false;
}
#else
/* Columns of the terminal on fd; 80 where there is none, at least 40 and at most 120. */
int rg_terminal_columns(int fd);
/* Rows and columns as they are. False where fd is no terminal. */
bool rg_terminal_size(int fd, int *ret_rows, int *ret_columns);
/* A terminal that shows colours, and a user who did not forbid them (NO_COLOR, TERM=dumb). */
bool rg_terminal_colour(int fd);
/* The user's terminal, where there is one, can move its cursor: TERM is set, and not dumb. */
bool rg_terminal_smart(void);

/* Raw mode of the terminal on fd, for a rank that has a terminal of its own; and back. The mode
 * found first comes back at exit, at rg_terminal_restore and at a deadly signal that can be caught.
 * Restoring twice does nothing. 0, or -errno where fd is no terminal. */
int rg_terminal_raw(int fd);
void rg_terminal_restore(void);
bool rg_terminal_is_raw(void);
/* Raw mode, and a whole screen of our own, empty, without a cursor, on which lines are cut and not
 * broken. Whatever restores the mode brings the user's screen back as it was, too. 0 or -errno. */
int rg_terminal_page(int fd);
#endif

/* A second description of what fd refers to, non-blocking, so that the one shared with other
 * processes keeps its mode: possible for pipes and terminals, through /proc/self/fd. flags:
 * O_RDONLY or O_WRONLY. A new descriptor or -errno; -EBADF: fd is not open for that. */
int rg_reopen_nonblock(int fd, int flags);

/* Make sure that 0, 1 and 2 are open, so that no socket of ours can take their place; writing to
 * one that was closed fails with EBADF. ret_was_open tells for each whether it was, when this was
 * called first. */
void rg_stdio_ensure(bool ret_was_open[3]);

#endif
