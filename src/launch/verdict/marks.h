/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a rank has got, as its own output tells: the epochs and steps in the last RG_MARKS_LINES
 * lines that tell any. They are looked for as output passes, since a long traceback, or what other
 * code writes, may stand between them and the end.
 *
 * A mark is a number behind one of the words epoch, step, iteration, iter and update: "epoch 3/10",
 * "[Step: 7]", "global_step=7", "'epoch': 2.5", "\"step\": 4". Only an epoch may have a fraction. A
 * number that tells how many there will be is none ("max_epoch=10", "total step 90"), nor is a
 * time ("step 5 ms"). A carriage return ends a line, too, as in the bars that programs draw.
 *
 * Cheap for floods: of a large chunk only its beginning and its end are looked at, and only the
 * beginning of a long line. Thread rule: one thread.
 */
#ifndef RG_LAUNCH_VERDICT_MARKS_H
#define RG_LAUNCH_VERDICT_MARKS_H

#include <stddef.h>
#include <stdint.h>

#define RG_MARKS_LINES 10
#define RG_MARKS_LINE_MAX 400      /* bytes of a line that count */
#define RG_MARKS_CHUNK_MAX 16384   /* half of it at either end of a larger chunk counts */

struct rg_mark {
    double epoch; /* -1: none was told */
    int64_t step; /* likewise */
};

/* All zeros at first. */
struct rg_marks {
    struct rg_mark lines[RG_MARKS_LINES]; /* a ring */
    size_t nlines;                        /* that ever told any */
    char *partial[2];                     /* the line that is not complete, per stream; owned */
    size_t partial_nbytes[2];
};

void rg_marks_fini(struct rg_marks *marks); /* of zeroed ones, too */

/* stream 1 or 2 wrote data; nbytes 0: its end, which completes a last line without a newline. What
 * there is no memory for is not looked at. */
void rg_marks_put(struct rg_marks *marks, int stream, const void *data, size_t nbytes);

/* Let ret_mark, which may know of other ranks, be as far as these lines tell: the greatest epoch,
 * and the greatest step in it. */
void rg_marks_take(const struct rg_marks *marks, struct rg_mark *ret_mark);

#endif
