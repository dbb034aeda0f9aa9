/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What glibc's headers turned calls into when Debian compiled libsodium.a and libbearssl.a with
 * _FORTIFY_SOURCE. musl has no such functions, so the static agent brings the two that are used.
 * Each checks what the original checks: the object's size as the compiler knew it.
 *
 * And strstr: memmem is in the agent anyway, by the same algorithm, so musl's second copy of it for
 * texts stays in the archive, which is 1.2 KB less.
 */
#include <stdlib.h>
#include <string.h>

void *__memcpy_chk(void *dst, const void *src, size_t nbytes, size_t dst_nbytes);
void __explicit_bzero_chk(void *dst, size_t nbytes, size_t dst_nbytes);

char *strstr(const char *text, const char *wanted)
{
    return memmem(text, strlen(text), wanted, strlen(wanted));
}

void *__memcpy_chk(void *dst, const void *src, size_t nbytes, size_t dst_nbytes)
{
    if (nbytes > dst_nbytes)
        abort();
    return memcpy(dst, src, nbytes);
}

void __explicit_bzero_chk(void *dst, size_t nbytes, size_t dst_nbytes)
{
    if (nbytes > dst_nbytes)
        abort();
    explicit_bzero(dst, nbytes);
}
