/* SPDX-License-Identifier: Apache-2.0 */
/* The names that a host makes files by come from outside: they are read and judged here alone. */
#include "wire/sync.h"

#include <string.h>

#define FIELD(type, kind, member) RG_FIELD(kind, struct rg_sync_##type, member)
#define END RG_FIELD_LAST

const struct rg_field rg_sync_head_fields[] = {
    FIELD(head, STR, dir), FIELD(head, STR, marker), FIELD(head, SPAN, token),
    FIELD(head, STR, sub), FIELD(head, U8, decided), FIELD(head, U8, contained),
    FIELD(head, U64, nbytes), FIELD(head, U32, nentries), END,
};

const struct rg_field rg_sync_done_fields[] = {
    FIELD(done, STR, cwd), FIELD(done, STR, folder), END,
};

const struct rg_field rg_sync_failed_fields[] = {
    FIELD(failed, U32, errnum), FIELD(failed, STR, text), END,
};

const struct rg_field rg_sync_kept_fields[] = {
    FIELD(kept, U64, count), FIELD(kept, U64, nbytes), FIELD(kept, STR, first),
    FIELD(kept, STR, folder), END,
};

bool rg_sync_path_is_plain(const char *path, size_t nbytes)
{
    const char *end = path + nbytes;

    if (nbytes > RG_SYNC_PATH_MAX || memchr(path, '\0', nbytes))
        return false;
    for (const char *p = path;; p++) {
        const char *slash = memchr(p, '/', (size_t) (end - p));
        size_t n = (size_t) ((slash ? slash : end) - p);
        if (n == 0 || n > RG_SYNC_NAME_MAX || (*p == '.' && (n == 1 || (n == 2 && p[1] == '.'))))
            return false;
        if (!slash)
            return true;
        p = slash;
    }
}

void rg_sync_entry_put(struct rg_buf *buf, const struct rg_sync_entry *entry)
{
    rg_buf_put_u8(buf, (uint8_t) entry->kind);
    rg_buf_put_str(buf, entry->path);
    if (entry->kind == RG_SYNC_LINK)
        rg_buf_put_str(buf, entry->target);
    if (entry->kind > RG_SYNC_AGAIN)
        return;
    rg_buf_put_u32(buf, entry->mode);
    rg_buf_put_u64(buf, entry->nbytes);
    rg_buf_put_u64(buf, entry->mtime_ns);
    rg_buf_put(buf, entry->hash, sizeof(entry->hash));
}

static int read_text(struct rg_reader *reader, char text[RG_SYNC_PATH_MAX + 1])
{
    size_t nbytes = 0;
    const uint8_t *bytes = rg_reader_span(reader, RG_SYNC_PATH_MAX, &nbytes);

    if (reader->bad || !nbytes || memchr(bytes, '\0', nbytes))
        return -EBADMSG;
    memcpy(text, bytes, nbytes);
    text[nbytes] = '\0';
    return 0;
}

int rg_sync_entry_read(struct rg_reader *reader, struct rg_sync_entry *ret_entry)
{
    struct rg_sync_entry *entry = ret_entry;

    entry->kind = rg_reader_u8(reader);
    if (entry->kind < RG_SYNC_FILE || entry->kind > RG_SYNC_LINK ||
        read_text(reader, entry->path) < 0 ||
        !rg_sync_path_is_plain(entry->path, strlen(entry->path)))
        return -EBADMSG;
    if (entry->kind == RG_SYNC_LINK)
        return read_text(reader, entry->target);
    if (entry->kind == RG_SYNC_DIR)
        return 0;
    entry->mode = rg_reader_u32(reader);
    entry->nbytes = rg_reader_u64(reader);
    entry->mtime_ns = rg_reader_u64(reader);
    const uint8_t *hash = rg_reader_bytes(reader, sizeof(entry->hash));
    if (!hash || entry->mode > 0777 || entry->nbytes > RG_SYNC_NBYTES_MAX)
        return -EBADMSG;
    memcpy(entry->hash, hash, sizeof(entry->hash));
    return 0;
}
