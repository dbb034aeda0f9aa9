/* SPDX-License-Identifier: Apache-2.0 */
/* The one place where blobs are laid end to end. */
#include "coll/ground/blob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
