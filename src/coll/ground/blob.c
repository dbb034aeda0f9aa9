/* SPDX-License-Identifier: Apache-2.0 */
/* The one place where blobs are laid end to end. */
#include "coll/ground/blob.h"

#include <string.h>

#include "base/buf.h"

int rg_blobs_gather(struct rg_blob *blobs, int n)
{
    size_t total = 0;
    uint8_t *memory;

    for (int i = 0; i < n; i++)
        total += blobs[i].nbytes;
    memory = malloc(total + 1); /* something to own, even if all are empty */
    if (!memory)
        return -ENOMEM;
    for (int i = 0; i < n; i++) {
        if (blobs[i].nbytes > 0)
            memcpy(memory, blobs[i].data, blobs[i].nbytes);
        blobs[i].data = memory;
        memory += blobs[i].nbytes;
    }
    return 0;
}

int rg_blobs_split(const uint8_t *bytes, size_t nbytes, int n, size_t max,
                   struct rg_blob *ret_blobs)
{
    struct rg_reader reader = rg_reader_make(bytes, nbytes);
    rg_autofree struct rg_blob *found = calloc((size_t) n, sizeof(*found));

    if (!found)
        return -ENOMEM;
    for (int i = 0; i < n; i++)
        found[i].data = (uint8_t *) (uintptr_t) rg_reader_span(&reader, max, &found[i].nbytes);
    if (rg_reader_done(&reader) < 0)
        return -EBADMSG;
    int r = rg_blobs_gather(found, n);

    if (r == 0)
        memcpy(ret_blobs, found, (size_t) n * sizeof(*found));
    return r;
}
