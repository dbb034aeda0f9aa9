/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --output-dir: one file per rank and stream, DIR/rank.R/stdout and DIR/rank.R/stderr, byte for
 * byte what the rank wrote. R is padded with zeros to the width of the highest rank, as Horovod
 * does it, so that the directories sort. Files that are there from an earlier run are replaced;
 * those of ranks that this one has not stay, which is told.
 *
 * Thread rule: the loop's thread. Writes block as long as the file system does.
 */
#ifndef RG_HEAD_SHOW_OUTFILES_H
#define RG_HEAD_SHOW_OUTFILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct rg_outfiles {
    char *dir; /* owned */
    int nranks;
    int width;
    int *fds;  /* 2 * rank + (stream - 1); -1: closed */
};

/* Make the directories and open all files; append: behind what is in them already. 0, or -errno
 * with err, which names the path: exit_code 2, 74 for a full disk, 77 without permission. */
int rg_outfiles_open(struct rg_outfiles *files, const char *dir, int nranks, bool append,
                     struct rg_error *err);
/* Say which directories of ranks are there that are none of this job's, as an earlier one had more:
 * whoever reads all files below would take them for this one's. */
void rg_outfiles_say_earlier(const char *dir, int nranks);
/* Write all of it. 0, or -errno with err, which names the file; the file is closed then and later
 * bytes for it are dropped (0). */
int rg_outfiles_write(struct rg_outfiles *files, int rank, int stream, const uint8_t *data,
                      size_t nbytes, struct rg_error *err);
/* Close one file (the stream ended). 0, or -errno with err: some file systems report a full disk
 * only now. */
int rg_outfiles_close(struct rg_outfiles *files, int rank, int stream, struct rg_error *err);
/* There are more ranks, from those that there were up to nranks. As open, but for what is open. */
int rg_outfiles_grow(struct rg_outfiles *files, int nranks, struct rg_error *err);
/* A fresh process of a rank whose files are closed: it goes on behind what is in them. */
int rg_outfiles_reopen(struct rg_outfiles *files, int rank, struct rg_error *err);
void rg_outfiles_fini(struct rg_outfiles *files);

#endif
