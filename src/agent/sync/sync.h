/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's copy of the user's working directory (--sync), made by a child of the agent, as all of
 * it may block:
 *
 *     BASE                /var/tmp/reigen-UID, ~/.cache/reigen or /tmp/reigen-UID: the first with
 *                         room; in a container the home's alone
 *       files/HASH        the cache: contents by their SHA-256, looked at again whenever they are
 *                         taken; at most 4 GiB and a quarter of the disk, and 30 days
 *       sync-XXXXXX/      of a job, while somebody holds its lock (flock, shared)
 *         work/           the copy
 *         stamp           its mtime: when the copy was begun; its ctime: when that was complete.
 *                         Whatever in the folder has a ctime that is not between them is ranks'
 *       kept-XXXXXX/      what ranks of a job wrote, for 7 days; then it is removed
 *
 * Nothing outside a folder that was made here is ever written or removed: paths are walked one
 * component at a time, and neither a link nor a mount is followed.
 *
 * Thread rule: one thread of a process of its own, as all functions block.
 */
#ifndef RG_AGENT_SYNC_SYNC_H
#define RG_AGENT_SYNC_SYNC_H

/* `reigen-agent sync`: the receiver's side of wire/sync.h, on descriptors 0 and 1. After DONE it
 * holds the lock until standard input ends; when that comes earlier, nothing stays. */
int rg_sync_main(void);
/* `reigen-agent tidy FOLDER`: remove what was sent, and rename the folder where something else is
 * in it, which KEPT on standard output tells then. */
int rg_sync_tidy_main(const char *folder);
/* The same, silently. */
void rg_sync_tidy(const char *folder);
/* What killed agents have left, and what was kept for long enough, in all places. How many of the
 * first there were. */
int rg_sync_sweep(void);

#endif
