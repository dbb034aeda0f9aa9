/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts and images that lack our Python packages get them as one archive; this reads it. */
#include "container/bundle.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"

static const char magic[] = RG_BUNDLE_MAGIC;

/* Every component a plain name: nothing that leads up, out, or to the same place twice. */
static bool path_is_plain(const char *path)
{
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || *p == '.')
            return false;
        p += n;
        if (!*p)
            return true;
    }
}

static int make_parents(char *path, size_t nbase)
{
    for (char *slash = strchr(path + nbase + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
        *slash = '/';
        if (r < 0)
            return r;
    }
    return 0;
}

static int write_file(const char *dir, const struct rg_bundle_entry *entry)
{
    rg_autofree char *path = rg_strf("%s/%s", dir, entry->name);

    if (!path)
        return -ENOMEM;
    int r = make_parents(path, strlen(dir));
    if (r < 0)
        return r;
    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                               entry->executable ? 0755 : 0644);
    return fd < 0 ? -errno : rg_write_all(fd, entry->data, entry->nbytes);
}

int rg_bundle_read(struct rg_reader *reader, struct rg_bundle_entry *ret_entry,
                   struct rg_error *err)
{
    struct rg_bundle_entry entry = { .name = "" };
    size_t length = rg_reader_u16(reader);
    const uint8_t *bytes = length <= RG_BUNDLE_PATH_MAX ? rg_reader_bytes(reader, length) : NULL;

    entry.executable = rg_reader_u8(reader) == 1;
    entry.data = rg_reader_span(reader, RG_BUNDLE_MAX, &entry.nbytes);
    if (!bytes || reader->bad || memchr(bytes, '\0', length))
        return rg_error_set(err, EBADMSG, "the archive is damaged");
    memcpy(entry.name, bytes, length);
    if (!path_is_plain(entry.name))
        return rg_error_set(err, EBADMSG, "the archive has a file '%s'", entry.name);
    *ret_entry = entry;
    return 0;
}

static int unpack_file(struct rg_reader *reader, const char *dir, struct rg_error *err)
{
    struct rg_bundle_entry entry;
    int r = rg_bundle_read(reader, &entry, err);

    if (r < 0)
        return r;
    r = write_file(dir, &entry);
    return r < 0 ? rg_error_set(err, -r, "%s/%s: %s", dir, entry.name, strerror(-r)) : 0;
}

int rg_bundle_unpack(const uint8_t *data, size_t nbytes, const char *dir, struct rg_error *err)
{
    struct rg_reader reader = rg_reader_make(data, nbytes);
    const uint8_t *head = rg_reader_bytes(&reader, sizeof(magic) - 1);
    int r = rg_mkdir_all(dir, 0755, err);

    if (r == 0 && (!head || memcmp(head, magic, sizeof(magic) - 1) != 0))
        r = rg_error_set(err, EBADMSG, "no archive of ours");
    for (int i = 0; r == 0 && reader.nbytes > 0; i++) {
        if (i == RG_BUNDLE_FILES_MAX)
            return rg_error_set(err, EBADMSG, "more than %d files", RG_BUNDLE_FILES_MAX);
        r = unpack_file(&reader, dir, err);
    }
    return r;
}
