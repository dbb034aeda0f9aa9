/* SPDX-License-Identifier: Apache-2.0 */
/* What --sync sends and says: the first byte chooses a list of files, or a frame of fields. No path
 * leads out, and what is taken is written again byte by byte. */
#include "fuzz.h"
#include "wire/sync.h"

static void check_path(const char *path)
{
    size_t n = strlen(path);

    must(n > 0 && n <= RG_SYNC_PATH_MAX && *path != '/' && path[n - 1] != '/');
    must(!strstr(path, "//") && strncmp(path, "../", 3) != 0 && strcmp(path, "..") != 0);
    must(!strstr(path, "/../") && (n < 3 || strcmp(path + n - 3, "/..") != 0));
    must(strncmp(path, "./", 2) != 0 && strcmp(path, ".") != 0 && !strstr(path, "/./"));
}

static void try_list(const uint8_t *data, size_t nbytes)
{
    struct rg_reader reader = rg_reader_make(data, nbytes);
    static struct rg_sync_entry entry;

    for (;;) {
        rg_autobuf struct rg_buf again = RG_BUF_INIT;
        const uint8_t *from = reader.data;
        if (reader.nbytes == 0 || rg_sync_entry_read(&reader, &entry) < 0)
            return;
        check_path(entry.path);
        must(entry.kind == RG_SYNC_DIR || entry.kind == RG_SYNC_LINK || entry.mode <= 0777);
        rg_sync_entry_put(&again, &entry);
        must(rg_buf_nbytes(&again) == (size_t) (reader.data - from));
        must(memcmp(rg_buf_bytes(&again), from, rg_buf_nbytes(&again)) == 0);
    }
}

static void try_fields(const struct rg_field *fields, const uint8_t *data, size_t nbytes)
{
    union {
        struct rg_sync_head head;
        struct rg_sync_done done;
        struct rg_sync_failed failed;
        struct rg_sync_kept kept;
    } object;
    rg_autobuf struct rg_buf again = RG_BUF_INIT;

    memset(&object, 0, sizeof(object));
    if (rg_codec_decode(fields, data, nbytes, &object) < 0)
        return;
    rg_codec_encode(fields, &object, &again);
    must(rg_buf_nbytes(&again) == nbytes && memcmp(rg_buf_bytes(&again), data, nbytes) == 0);
    rg_codec_clear(fields, &object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const struct rg_field *const frames[] = { rg_sync_head_fields, rg_sync_done_fields,
                                                     rg_sync_failed_fields, rg_sync_kept_fields };

    if (nbytes == 0)
        return 0;
    if (data[0] == 0)
        try_list(data + 1, nbytes - 1);
    else
        try_fields(frames[(data[0] - 1) % 4], data + 1, nbytes - 1);
    return 0;
}
