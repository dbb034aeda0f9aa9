/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client of --metrics sends: it is judged once it is whole, whatever follows and however it
 * was cut into pieces, and what is not whole does not grow for ever.
 */
#include "fuzz.h"
#include "head/metrics/request.h"

#define WHOLE_MAX 1024 /* of longer ones only some pieces are tried */

static void must_be_known(enum rg_request_status status)
{
    must(status == RG_REQUEST_MORE || status == RG_REQUEST_OK || status == RG_REQUEST_BAD ||
         status == RG_REQUEST_NOT_FOUND || status == RG_REQUEST_METHOD ||
         status == RG_REQUEST_TOO_LARGE || status == RG_REQUEST_VERSION);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    size_t size = nbytes < RG_REQUEST_MAX ? nbytes : RG_REQUEST_MAX;
    struct rg_http_asked asked = { false, false }, before;
    char *bytes = calloc(1, size ? size : 1); /* its own size: reading beyond it is seen */

    if (!bytes)
        return 0;
    if (size)
        memcpy(bytes, data, size);
    enum rg_request_status status = rg_request_read(bytes, size, &asked);
    must_be_known(status);
    must(status != RG_REQUEST_MORE || size < RG_REQUEST_MAX);
    must(status != RG_REQUEST_TOO_LARGE || size == RG_REQUEST_MAX);
    for (size_t n = 0; n < size; n += size <= WHOLE_MAX ? 1 : size / 16) {
        before = (struct rg_http_asked){ false, false };
        enum rg_request_status part = rg_request_read(bytes, n, &before);
        must(part == RG_REQUEST_MORE ||
             (part == status && before.head == asked.head &&
              before.openmetrics == asked.openmetrics));
    }
    free(bytes);
    return 0;
}
