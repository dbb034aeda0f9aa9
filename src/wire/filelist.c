/* SPDX-License-Identifier: Apache-2.0 */
/* An agent writes files under names that came by the wire: what may be a name is decided here. */
#include "wire/filelist.h"

#include <errno.h>
#include <string.h>

#define COMPONENT_MAX 255

static bool is_dots(const char *component, size_t n, size_t ndots)
{
    return n == ndots && memcmp(component, "..", n) == 0;
}

bool rg_filelist_is_path(const char *path)
{
    int depth = 0;

    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || n > COMPONENT_MAX || is_dots(p, n, 1) || is_dots(p, n, 2) ||
            ++depth > RG_FILELIST_DEPTH_MAX)
            return false;
        p += n;
        if (!*p)
            return p - path <= RG_FILELIST_PATH_MAX;
    }
}

bool rg_filelist_stays_inside(const char *path, const char *target)
{
    int depth = 0;

    if (!*target || *target == '/' || strlen(target) > RG_FILELIST_PATH_MAX)
        return false;
    for (; *path; path++)
        depth += *path == '/';
    for (const char *p = target; *p; p += *p == '/') {
        size_t n = strcspn(p, "/");
        if (is_dots(p, n, 2))
            depth--;
        else if (n > 0 && !is_dots(p, n, 1))
            depth++;
        if (depth < 0)
            return false;
        p += n;
    }
    return true;
}

static void put_text(struct rg_buf *buf, const char *text)
{
    rg_buf_put_u16(buf, (uint16_t) strlen(text));
    rg_buf_put(buf, text, strlen(text));
}

void rg_filelist_put(struct rg_buf *buf, const struct rg_filelist_entry *entry)
{
    rg_buf_put_u8(buf, (uint8_t) entry->kind);
    put_text(buf, entry->path);
    if (entry->kind == RG_FILELIST_LINK)
        put_text(buf, entry->target);
    if (!rg_filelist_is_file(entry))
        return;
    rg_buf_put_u64(buf, entry->nbytes);
    rg_buf_put(buf, entry->hash, sizeof(entry->hash));
}

/* False: too long, or with a NUL in it. */
static bool read_text(struct rg_reader *reader, char text[RG_FILELIST_PATH_MAX + 1])
{
    size_t n = rg_reader_u16(reader);
    const uint8_t *bytes = n <= RG_FILELIST_PATH_MAX ? rg_reader_bytes(reader, n) : NULL;

    if (!bytes || memchr(bytes, '\0', n))
        return false;
    memcpy(text, bytes, n);
    text[n] = '\0';
    return true;
}

static int read_contents(struct rg_reader *reader, struct rg_filelist_entry *entry)
{
    entry->nbytes = rg_reader_u64(reader);
    const uint8_t *hash = rg_reader_bytes(reader, sizeof(entry->hash));

    if (!hash || entry->nbytes > RG_FILELIST_NBYTES_MAX)
        return -EBADMSG;
    memcpy(entry->hash, hash, sizeof(entry->hash));
    return 0;
}

int rg_filelist_read(struct rg_reader *reader, struct rg_filelist_entry *ret_entry)
{
    uint8_t kind = rg_reader_u8(reader);
    char path[RG_FILELIST_PATH_MAX + 1];

    if (kind > RG_FILELIST_FOLDER || !read_text(reader, path) || !rg_filelist_is_path(path) ||
        strcmp(path, ret_entry->path) <= 0)
        return -EBADMSG;
    strcpy(ret_entry->path, path);
    ret_entry->kind = kind;
    ret_entry->nbytes = 0;
    *ret_entry->target = '\0';
    if (rg_filelist_is_file(ret_entry))
        return read_contents(reader, ret_entry);
    if (kind == RG_FILELIST_LINK &&
        !(read_text(reader, ret_entry->target) &&
          rg_filelist_stays_inside(ret_entry->path, ret_entry->target)))
        return -EBADMSG;
    return 0;
}
