/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --sync sends: a directory's list and contents, to a child of the host's agent that keeps
 * them (agent/sync). Agent and launcher pass the bytes on, in SYNC and SYNC_SAID.
 *
 *      launcher                                       `reigen-agent sync`
 *        HEAD              ------------------------->         where it is, if it is there
 *                          <-------------------------  PLACE  used in place, or a copy
 *        LIST ..., LISTED  ------------------------->         a copy: all names, with hashes
 *                          <-------------------------  WANT   whose contents are not in the cache
 *        DATA ...          ------------------------->         these, in the order of the list
 *                          <-------------------------  TAKEN  so many bytes of all that were read
 *                          <-------------------------  DONE   or FAILED, at any time
 *
 * Without --sync the agent may say LACKS, which has no payload: SETUP's script is not there.
 *
 * The launcher sends at most a window of bytes more than TAKEN has told. When the ranks have ended,
 * another child removes what was sent, and KEPT tells what it found beside that.
 *
 * Frames are those of wire/codec.h. Every path is checked when it is read: nothing that is
 * absolute, or has a component "", "." or "..", gets through.
 *
 * Thread rule: pure functions. Nothing blocks.
 */
#ifndef RG_WIRE_SYNC_H
#define RG_WIRE_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/codec.h"

#define RG_SYNC_HASH_NBYTES 32         /* SHA-256 */
#define RG_SYNC_TOKEN_NBYTES 32        /* in the marker's file */
#define RG_SYNC_PATH_MAX 2048          /* bytes of a path, or of a link's target */
#define RG_SYNC_NAME_MAX 255           /* bytes of a component */
#define RG_SYNC_CHUNK_MAX (32u << 10)  /* bytes of one DATA, or of a LIST before its last entry */
#define RG_SYNC_FRAME_MAX (64u << 10)  /* bytes of any frame to the host */
#define RG_SYNC_WINDOW_MAX (4u << 20)  /* bytes that may be under way to one host, */
#define RG_SYNC_WINDOW_MIN (128u << 10)/* at most, and at least */
#define RG_SYNC_STEP (32u << 10)       /* TAKEN is told when so many more were read */
#define RG_SYNC_ENTRIES_MAX 100000     /* files, links and directories */
#define RG_SYNC_NBYTES_MAX (1ull << 30) /* of all contents together */
#define RG_SYNC_ENTRY_MAX (2u * RG_SYNC_PATH_MAX + 64) /* bytes of an entry in a LIST */
#define RG_SYNC_KEPT_DAYS 7            /* for what ranks wrote */

/* To the host. LISTED has no payload; DATA's is u32, which entry of the list, and bytes. */
enum { RG_SYNC_HEAD = 1, RG_SYNC_LIST, RG_SYNC_LISTED, RG_SYNC_DATA };
/* From it. PLACE: u8, 1: in place. WANT: a bit for each entry, the lowest first. TAKEN: u64. */
enum { RG_SYNC_PLACE = 1, RG_SYNC_WANT, RG_SYNC_TAKEN, RG_SYNC_DONE, RG_SYNC_FAILED, RG_SYNC_KEPT,
       RG_SYNC_LACKS };

/* Whether a host uses the directory itself is decided once for a job. */
enum { RG_SYNC_ASK, RG_SYNC_IN_PLACE, RG_SYNC_COPY };

struct rg_sync_head {
    char *dir;            /* its path, there as here */
    char *marker;         /* the file in it that says that it is the same one; "": there is none */
    struct rg_span token; /* what that has in it */
    char *sub;            /* below dir: where ranks run; "": in it */
    uint8_t decided;      /* RG_SYNC_ASK, or what was told before */
    uint8_t contained;    /* the agent is in a container: only the home outlives that */
    uint64_t nbytes;      /* of all contents */
    uint32_t nentries;
};

struct rg_sync_done {
    char *cwd;    /* of the ranks */
    char *folder; /* the job's, with the copy in it; "": in place */
};

struct rg_sync_failed {
    uint32_t errnum;
    char *text;
};

struct rg_sync_kept {
    uint64_t count, nbytes; /* files that were not sent, or have changed */
    char *first;            /* one of them, below the directory */
    char *folder;           /* where they are now */
};

extern const struct rg_field rg_sync_head_fields[], rg_sync_done_fields[], rg_sync_failed_fields[],
    rg_sync_kept_fields[];

/* AGAIN: a file with the contents of one before it. */
enum rg_sync_kind { RG_SYNC_FILE = 1, RG_SYNC_AGAIN, RG_SYNC_DIR, RG_SYNC_LINK };

struct rg_sync_entry {
    enum rg_sync_kind kind;
    uint32_t mode;                        /* of a file: its permissions */
    uint64_t nbytes, mtime_ns;            /* likewise */
    uint8_t hash[RG_SYNC_HASH_NBYTES];    /* likewise, of the contents */
    char path[RG_SYNC_PATH_MAX + 1];
    char target[RG_SYNC_PATH_MAX + 1];    /* of a link */
};

/* Whether a path of so many bytes stays below where it begins, and every component has a length
 * that file systems take. */
bool rg_sync_path_is_plain(const char *path, size_t nbytes);

void rg_sync_entry_put(struct rg_buf *buf, const struct rg_sync_entry *entry);
/* The next entry of a LIST. 0, or -EBADMSG; then *ret_entry may be half filled. */
int rg_sync_entry_read(struct rg_reader *reader, struct rg_sync_entry *ret_entry);

#endif
