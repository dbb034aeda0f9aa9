/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a record, and its files. This header is internal to src/head/record.
 *
 * Thread rule: one thread; all of it waits for the file system.
 */
#ifndef RG_HEAD_RECORD_FOLDER_H
#define RG_HEAD_RECORD_FOLDER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

struct rg_record_folder {
    char *path;     /* as the user has named it; owned */
    int dir_fd;
    int events_fd;  /* holds the lock while the job is recorded */
    uint64_t events_nbytes; /* whole lines of it */
    bool told;      /* the user knows that something could not be written */
};

/* Make it, or empty one that holds a record, and write the first line of its events. As
 * rg_record_open. */
int rg_record_folder_open(const char *path, struct rg_record_folder *ret_folder,
                          struct rg_error *err);
/* Append whole lines to the events. 0 or -errno, and then nothing of them is there. */
int rg_record_folder_append(struct rg_record_folder *folder, const struct rg_buf *lines);
/* Append to another file, or put a new one in its place: who reads it finds either, whole. 0 or
 * -errno. */
int rg_record_folder_add(struct rg_record_folder *folder, const char *name,
                         const struct rg_buf *lines);
int rg_record_folder_replace(struct rg_record_folder *folder, const char *name,
                             const struct rg_buf *text);
/* Say once that this could not be written. */
void rg_record_folder_judge(struct rg_record_folder *folder, int r);
/* Note in the first line that so many events are missing: it has room for that on a full disk. */
void rg_record_folder_lost(struct rg_record_folder *folder, uint64_t count);
void rg_record_folder_close(struct rg_record_folder *folder);

#endif
