/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets share. */
#ifndef RG_FUZZ_H
#define RG_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* A promise of the code under test; libFuzzer and the replay both take an abort as a finding. */
static inline void must(int holds)
{
    if (!holds)
        abort();
}

/* The input as text of its own: at most size - 1 bytes. */
static inline const char *text_of(const uint8_t *data, size_t nbytes, char *buf, size_t size)
{
    size_t n = nbytes < size - 1 ? nbytes : size - 1;

    if (n > 0)
        memcpy(buf, data, n);
    buf[n] = '\0';
    return buf;
}

#endif
