/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow.
 *
 * Thread rule: an array belongs to one thread at a time. Nothing blocks.
 */
#ifndef RG_BASE_GROW_H
#define RG_BASE_GROW_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Room for n elements in *array, which holds *capacity (a size_t) now; what is new is zero. The
 * array stays the caller's, and may move. 0; -ENOMEM: nothing has changed. */
#define rg_grow(array, capacity, n)                                            \
    ({                                                                         \
        void *_v = rg_grown(*(array), capacity, n, sizeof(**(array)));         \
        if (_v)                                                                \
            *(array) = _v;                                                     \
        _v ? 0 : -ENOMEM;                                                      \
    })

static inline void *rg_grown(void *array, size_t *capacity, size_t n, size_t each)
{
    size_t more = *capacity ? *capacity : 16;
    char *bigger;

    if (n <= *capacity)
        return array;
    while (more < n)
        more *= 2;
    bigger = reallocarray(array, more, each);
    if (!bigger)
        return NULL;
    memset(bigger + *capacity * each, 0, (more - *capacity) * each);
    *capacity = more;
    return bigger;
}

#endif
