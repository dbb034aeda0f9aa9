/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that is in the directory for a moment, by which hosts find out whether they see the same
 * one. Whoever makes it holds a lock on it (flock), and removes it. What a killed launcher has left
 * there is removed by the next one, as nobody holds its lock.
 *
 * Thread rule: one object belongs to one thread; blocks for the disk.
 */
#ifndef RG_LAUNCH_SYNC_MARKER_H
#define RG_LAUNCH_SYNC_MARKER_H

#include "wire/sync.h"

#define RG_SYNC_MARKER ".reigen-sync-" /* its name begins so; it is never sent */

struct rg_sync_marker {
    char name[64]; /* in the directory; "": there is none now */
    uint8_t token[RG_SYNC_TOKEN_NBYTES];
    int fd;        /* has the lock; -1: none */
};

#define RG_SYNC_MARKER_INIT { "", { 0 }, -1 }

/* Make it, and remove those that nobody holds and that are a minute old, where the directory
 * belongs to this computer alone: elsewhere locks may not be seen. 0; -errno: there is none. */
int rg_sync_marker_make(const char *dir, struct rg_sync_marker *ret_marker);
/* Remove it, if there is one. */
void rg_sync_marker_remove(const char *dir, struct rg_sync_marker *marker);

#endif
