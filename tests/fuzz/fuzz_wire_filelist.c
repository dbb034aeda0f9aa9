/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a directory: no path and no link leads out of it, none stands there twice, and what
 * was taken is written again byte by byte. */
#include "fuzz.h"
#include "wire/filelist.h"

static void check_path(const char *path)
{
    must(*path && *path != '/' && path[strlen(path) - 1] != '/' && !strstr(path, "//"));
    for (const char *p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        size_t n = strcspn(p, "/");
        must(n > 0 && !(n == 1 && *p == '.') && !(n == 2 && memcmp(p, "..", 2) == 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static struct rg_filelist_entry entry;
    struct rg_reader reader = rg_reader_make(data, nbytes);
    char before[sizeof(entry.path)] = "";

    entry = (struct rg_filelist_entry){ .nbytes = 0 };
    while (reader.nbytes > 0) {
        rg_autobuf struct rg_buf again = RG_BUF_INIT;
        const uint8_t *at = reader.data;
        int r = rg_filelist_read(&reader, &entry);
        must(r == 0 || r == -EBADMSG);
        if (r < 0)
            return 0;
        check_path(entry.path);
        must(strcmp(before, entry.path) < 0);
        must(entry.kind != RG_FILELIST_LINK || (*entry.target && *entry.target != '/'));
        strcpy(before, entry.path);
        rg_filelist_put(&again, &entry);
        must(rg_buf_status(&again) == 0 && rg_buf_nbytes(&again) == (size_t) (reader.data - at));
        must(memcmp(rg_buf_bytes(&again), at, rg_buf_nbytes(&again)) == 0);
    }
    return 0;
}
