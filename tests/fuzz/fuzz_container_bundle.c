/* SPDX-License-Identifier: Apache-2.0 */
/* An archive of files: no name leads out of the directory, and every byte is the archive's; and
 * packed, it never fills more than its room. */
#include "container/bundle.h"
#include "container/lz4.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_reader reader = rg_reader_make(data, nbytes);
    static struct rg_bundle_entry entry;
    struct rg_error err = RG_ERROR_INIT;
    uint8_t room[257];

    while (reader.nbytes > 0 && rg_bundle_read(&reader, &entry, &err) == 0) {
        must(*entry.name && *entry.name != '/' && *entry.name != '.');
        must(!strstr(entry.name, "/.") && !strstr(entry.name, "//"));
        must(entry.name[strlen(entry.name) - 1] != '/');
        must(entry.data >= data && entry.data + entry.nbytes <= data + nbytes);
    }
    must(reader.nbytes == 0 || *err.text);
    memset(room, 7, sizeof(room));
    for (size_t n = 0; n < sizeof(room); n = n * 2 + 1) {
        int r = rg_lz4_unpack(data, nbytes, room, n);
        must(r == 0 || r == -EBADMSG);
        must(room[n] == 7);
    }
    return 0;
}
