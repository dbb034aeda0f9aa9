/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard input, on its way to the ranks. Read only as fast as they take it. A terminal is read
 * only while reigen is in its foreground, so that a background job neither stops nor takes the
 * user's keys.
 *
 * Thread rule: the loop's thread. Reading blocks only where another process takes the bytes that
 * poll promised, from a description that cannot be opened a second time.
 */
#ifndef RG_HEAD_INPUT_H
#define RG_HEAD_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"

#define RG_INPUT_NBYTES 65536

struct rg_input {
    struct rg_loop *loop;
    struct rg_io io;
    struct rg_timer timer;
    int fd;
    bool owned, tty, eof, over;
    uint8_t data[RG_INPUT_NBYTES];
    size_t start, end;
    /* As rg_session_input: bytes taken, or -EPIPE; NULL and 0 at the end. After fewer than it was
     * given, the owner calls rg_input_ready. */
    int (*send)(void *arg, const void *data, size_t nbytes);
    void *arg;
};

/* Begin to read fd; -1 sends the end at once. */
void rg_input_start(struct rg_input *input, struct rg_loop *loop, int fd,
                    int (*send)(void *arg, const void *data, size_t nbytes), void *arg);
/* send takes bytes again. Nothing happens where none wait, and before the start. */
void rg_input_ready(struct rg_input *input);
void rg_input_stop(struct rg_input *input);

#endif
