/* SPDX-License-Identifier: Apache-2.0 */
/* An archive of files: no name leads out of the directory, and every byte is the archive's. */
#include "container/bundle.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_reader reader = rg_reader_make(data, nbytes);
    static struct rg_bundle_entry entry;
    struct rg_error err = RG_ERROR_INIT;

    while (reader.nbytes > 0 && rg_bundle_read(&reader, &entry, &err) == 0) {
        must(*entry.name && *entry.name != '/' && *entry.name != '.');
        must(!strstr(entry.name, "/.") && !strstr(entry.name, "//"));
        must(entry.name[strlen(entry.name) - 1] != '/');
        must(entry.data >= data && entry.data + entry.nbytes <= data + nbytes);
    }
    must(reader.nbytes == 0 || *err.text);
    return 0;
}
