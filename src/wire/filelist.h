/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in a directory, as one list: the launcher makes it of the directory that goes with a job
 * (--sync), and the agents build the directory by it. For each entry:
 *
 *     u8 kind, u16 length and bytes of the path; then
 *     a file:  u64 bytes of contents, 32 bytes SHA-256 of them
 *     a link:  u16 length and bytes of its target
 *
 * Integers are little-endian. Paths are relative, of plain components, and each comes behind the
 * one before it in the order of its bytes, so that none stands there twice. They are bytes: any
 * but NUL. A link's target is relative, and does not lead out of the directory by its own words.
 *
 * Thread rule: any thread, one object at a time. Nothing blocks.
 */
#ifndef RG_WIRE_FILELIST_H
#define RG_WIRE_FILELIST_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define RG_FILELIST_MAX (32u << 20)      /* bytes of a list */
#define RG_FILELIST_PATH_MAX 4095        /* bytes of a path or a target */
#define RG_FILELIST_DEPTH_MAX 60         /* components of a path */
#define RG_FILELIST_NBYTES_MAX (1ull << 50) /* of one file */
#define RG_FILELIST_HASH 32

enum rg_filelist_kind {
    RG_FILELIST_FILE,
    RG_FILELIST_PROGRAM, /* a file that can be executed */
    RG_FILELIST_LINK,    /* a symbolic link */
    RG_FILELIST_FOLDER,  /* one in which there may be nothing */
};

struct rg_filelist_entry {
    enum rg_filelist_kind kind;
    char path[RG_FILELIST_PATH_MAX + 1];
    char target[RG_FILELIST_PATH_MAX + 1]; /* of a link; else "" */
    uint64_t nbytes;                       /* of a file; else 0 */
    uint8_t hash[RG_FILELIST_HASH];
};

/* Whether the entry has contents. */
static inline bool rg_filelist_is_file(const struct rg_filelist_entry *entry)
{
    return entry->kind == RG_FILELIST_FILE || entry->kind == RG_FILELIST_PROGRAM;
}

/* Relative, at most RG_FILELIST_DEPTH_MAX components, none of which is empty, "." or "..". */
bool rg_filelist_is_path(const char *path);
/* Whether a link at this path with this target stays in the directory. */
bool rg_filelist_stays_inside(const char *path, const char *target);

/* Append an entry; errors are sticky in buf. Its path is good, and behind those that are there. */
void rg_filelist_put(struct rg_buf *buf, const struct rg_filelist_entry *entry);
/* The next entry of a list. ret_entry has the one before it, or is zeroed. 0; -EBADMSG: damaged, or
 * a path or link that is not as said above. */
int rg_filelist_read(struct rg_reader *reader, struct rg_filelist_entry *ret_entry);

#endif
