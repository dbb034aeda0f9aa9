/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks write, on its way to standard output, standard error, files, and events.
 *
 * Plain bytes, as they are, when one rank runs without tags. Otherwise whole lines: two ranks'
 * lines are never mixed, and with tags each begins with `[rank] `. A line longer than RG_LINE_MAX
 * goes on as
 * `[rank]+ ` on the next line. A last line without newline gets one only when tagged.
 *
 * A line that is written over again and again, as a progress bar is, is shown as it stands: on a
 * terminal in a row at its bottom (head/console/rows.h); elsewhere, and in the background, as a
 * line at most once a second, more seldom with many ranks and the longer it lasts, and as it is
 * when it ends. Events have all of it, in pieces.
 *
 * A traceback with which several ranks end alike is shown once (head/show/tracebacks.h), unless
 * all_tracebacks is set or bytes pass as they are; files get all.
 *
 * Otherwise no byte is dropped unless it is written over, or the reader is gone. When a reader is
 * slow, on_pause(true) asks for less, and memory stays at what is on its way.
 *
 * Thread rule: the loop's thread. Only --output-dir's files may block.
 */
#ifndef RG_HEAD_SHOW_OUTPUT_H
#define RG_HEAD_SHOW_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "launch/host/logmark.h"
#include "base/loop.h"
#include "job/job.h"

struct rg_output;

#define RG_OUTPUT_HIGH_NBYTES (1u << 20)  /* pause above this */
#define RG_OUTPUT_LOW_NBYTES (128u << 10) /* go on below this */

struct rg_line;
/* Append what a rank's line (head/show/lines.h) becomes, as a whole line. */
typedef void rg_output_encode(struct rg_buf *text, int rank, int stream,
                              const struct rg_line *line);

struct rg_output_options {
    struct rg_loop *loop;
    const struct rg_job *job; /* borrowed */
    int nranks;
    int out_fd, err_fd;       /* borrowed, usually 1 and 2 */
    /* Until rg_output_echo_end a terminal gets what those get, but no events, and alone what moves
     * while a job starts. It may go away. Borrowed. */
    bool echoes;
    int echo_fd;
    bool out_colour, err_colour;
    bool append;              /* to the files of --output-dir, which an earlier start has made */
    bool all_tracebacks;
    rg_output_encode *encode; /* NULL, or: all goes to out_fd, each line as what this makes of it */
    /* NULL, or: somebody keeps the output as a log, and may lose a part of it: all goes to out_fd,
     * whole lines alone, and with marks. The count is the caller's and goes on with the next
     * output. */
    struct rg_logmark *mark;
    void (*on_pause)(void *arg, bool pause);
    /* Output was lost, once per place. closed: the reader of standard output went away, nothing is
     * broken. */
    void (*on_lost)(void *arg, const char *cause, bool closed);
    void (*on_drained)(void *arg); /* after rg_output_drained was false: it is true now */
    void *arg;
};

/* Open --output-dir's files and prepare. 0 or -errno with err (as rg_outfiles_open). */
int rg_output_create(const struct rg_output_options *options, struct rg_output **ret_output,
                     struct rg_error *err);
/* There are more ranks, up to nranks: an elastic job's places. 0 or -errno with err, as create. */
int rg_output_grow(struct rg_output *output, int nranks, struct rg_error *err);
/* From now on a rank is called by this number, in tags, events and --ranks. */
void rg_output_call(struct rg_output *output, int rank, int number);
/* A fresh process of this rank writes to where the last one did. */
void rg_output_again(struct rg_output *output, int rank);
void rg_output_destroy(struct rg_output *output); /* NULL is fine */

/* Bytes of a rank's stream 1 or 2; nbytes 0 ends the stream. */
void rg_output_data(struct rg_output *output, int rank, int stream, const uint8_t *data,
                    size_t nbytes);
/* A line of an event, with its newline, onto standard output (--json). */
void rg_output_event(struct rg_output *output, const void *line, size_t nbytes);
/* reigen's own words onto standard error; lines end with \r\n while the terminal is raw. */
void rg_output_say(struct rg_output *output, const char *text);
/* What moves on the terminal while a job starts (head/show/status.h), as it is. */
void rg_output_status(struct rg_output *output, const char *text);
/* From now on there is no echo, its descriptor is not used, and nothing waits for it. */
void rg_output_echo_end(struct rg_output *output);
/* reigen is about to be stopped, and leaves the terminal to others; or it goes on. */
void rg_output_stopping(struct rg_output *output, bool stopping);
/* Hand out what lines are left without an end. */
void rg_output_finish(struct rg_output *output);
/* After that: append who printed the same traceback as whom, whole lines. */
void rg_output_tell_same(const struct rg_output *output, struct rg_buf *text);
/* Nothing more will be said: write the last mark, where there are some. */
void rg_output_seal(struct rg_output *output);
/* How many of a rank's last lines, as rg_tail_lines gives them, have just been printed where
 * rg_output_say prints: what follows the newest one that is there has not been seen. All of them
 * when only empty lines follow. */
size_t rg_output_shown(const struct rg_output *output, int rank, const char *const *lines,
                       size_t nlines);
/* Append a note without those of its lines after the first that reigen has shown, a little to the
 * right; the first line says so. */
void rg_output_note(const struct rg_output *output, const char *note, struct rg_buf *text);
/* Everything reached its reader, or was lost. */
bool rg_output_drained(const struct rg_output *output);

#endif
