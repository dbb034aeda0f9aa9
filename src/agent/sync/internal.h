/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of agent/sync share. All functions block. */
#ifndef RG_AGENT_SYNC_INTERNAL_H
#define RG_AGENT_SYNC_INTERNAL_H

#include <limits.h>
#include <sodium/crypto_hash_sha256.h>

#include "agent/sync/sync.h"
#include "wire/sync.h"

#define RG_SYNC_WORK "work"
#define RG_SYNC_STAMP "stamp"
#define RG_SYNC_JOB "sync-"   /* and .sync-, before it is locked */
#define RG_SYNC_KEPT_AS "kept-"

/* Where a place of agent/store/store.h is, opened, if it is ours alone. -1: it is not. */
int rg_sync_base(int place, char path[PATH_MAX]);

/* --- cache.c ---------------------------------------------------------------------------------- */

/* One content on its way into the cache. */
struct rg_sync_fresh {
    char name[24];
    int fd; /* -1: none */
    crypto_hash_sha256_state state;
};

/* The cache's directory, made if it is missing. A descriptor or -errno. While it is open, nobody
 * else removes anything by its age or for room. */
int rg_sync_cache_open(int base_fd);
/* Copy a content to out_fd, if it is there and whole; what is damaged is removed. 0; -ENOENT; or
 * -errno of writing. */
int rg_sync_cache_take(int cache_fd, const struct rg_sync_entry *entry, int out_fd);
/* Begin; add; and give it its name if the hash is right. 0; -EBADMSG: it is not; -errno. */
int rg_sync_cache_begin(int cache_fd, struct rg_sync_fresh *fresh);
int rg_sync_cache_add(struct rg_sync_fresh *fresh, const uint8_t *data, size_t nbytes);
int rg_sync_cache_end(int cache_fd, struct rg_sync_fresh *fresh, const uint8_t *hash);
/* Remove the oldest, as far as the bounds want it, and max, in bytes. Nothing while others have the
 * cache open: they will do it. */
void rg_sync_cache_bound(int cache_fd, uint64_t max);

/* --- tree.c ----------------------------------------------------------------------------------- */

/* Make a file, empty and for us to write, or take up one that was made so. A descriptor or -errno;
 * -EEXIST: the name is taken. */
int rg_sync_tree_create(int tree_fd, const char *path, bool is_there);
/* All is written: its mode and its time. 0 or -errno. */
int rg_sync_tree_settle(int fd, const struct rg_sync_entry *entry);
/* A directory, with those above it; one that is there is fine. A link. 0 or -errno. */
int rg_sync_tree_mkdir(int tree_fd, const char *path);
int rg_sync_tree_link(int tree_fd, const char *path, const char *target);

/* --- tidy.c ----------------------------------------------------------------------------------- */

/* Remove all of a folder of base, whatever is in it. */
void rg_sync_remove(int base_fd, const char *name);
/* Those of rg_sync_sweep in this base. */
int rg_sync_sweep_in(int base_fd);

#endif
