/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bundle: libreigen.so, its companions and the Python packages reigen and horovod, as one
 * archive for hosts where they are not installed. `contain` unpacks it once per host, by its
 * digest, and mounts it into containers at /reigen/python (--inject-runtime).
 *
 * The archive: "reigenkit1\n", then for each file u16 length and bytes of its path (relative,
 * plain components), u8 1 when it can be executed, u32 length and bytes of its contents.
 * Integers are little-endian. No links, no owners, no times, so that equal installations have equal
 * digests.
 *
 * Thread rule: any thread; reads and writes files, so it blocks.
 */
#ifndef RG_CONTAINER_BUNDLE_H
#define RG_CONTAINER_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

#define RG_BUNDLE_MAGIC "reigenkit1\n"
#define RG_BUNDLE_MAX (64u << 20)  /* bytes of an archive */
#define RG_BUNDLE_FILES_MAX 4096
#define RG_BUNDLE_PATH_MAX 512     /* bytes of a path */

/* What goes into an archive: names in it, in order, and where their contents lie. */
struct rg_bundle_files {
    struct rg_strv names;
    struct rg_strv sources;
};

void rg_bundle_files_fini(struct rg_bundle_files *files);

/* List dir's packages `reigen` and `horovod`, without what Python makes of them by itself. 0;
 * -ENOENT (there is no package reigen in dir), -E2BIG, -ENOMEM or another -errno. */
int rg_bundle_list(const char *dir, struct rg_bundle_files *ret_files, struct rg_error *err);
/* Add one file. 0 or -ENOMEM. */
int rg_bundle_add(struct rg_bundle_files *files, const char *name, const char *source);
/* Of a library an archive has what a process loads, without what is for linkers and debuggers: half
 * of it and more. Changes the headers in data to say so, where it is one. The number of bytes that
 * are left. */
size_t rg_bundle_trim(uint8_t *data, size_t nbytes);
/* How many bytes of a file, of which st is known, an archive has. 0 or -errno. */
int rg_bundle_measure(const char *source, const struct stat *st, uint64_t *ret_nbytes);
/* Append the archive of these files. 0; -EFBIG, -ENOMEM or another -errno. */
int rg_bundle_pack(const struct rg_bundle_files *files, struct rg_buf *buf, struct rg_error *err);

/* One file of an archive. */
struct rg_bundle_entry {
    char name[RG_BUNDLE_PATH_MAX + 1];
    bool executable;
    const uint8_t *data; /* borrowed from the archive */
    size_t nbytes;
};

/* The next file of an archive whose first line has been read. 0; -EBADMSG: damaged, or a name that
 * is absolute, empty, or has a component that begins with a dot. */
int rg_bundle_read(struct rg_reader *reader, struct rg_bundle_entry *ret_entry,
                   struct rg_error *err);

/* Write an archive's files below dir, which is made. 0; -EBADMSG (not an archive, or a path that
 * leads out of dir), or -errno of the file system; then some files may have been written. */
int rg_bundle_unpack(const uint8_t *data, size_t nbytes, const char *dir, struct rg_error *err);

#endif
