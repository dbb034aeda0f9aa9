/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Release of locals by attribute, so that every return path frees what it took.
 *
 *     rg_autofree char *path = NULL;      free(path) when the scope ends
 *     rg_autoclose int fd = -1;           close(fd) when it is >= 0; errno is kept
 *
 * To hand a value on, use rg_steal_ptr(&path) or rg_steal_fd(&fd): they return the value and leave
 * NULL or -1 behind, so nothing is released twice.
 *
 * Thread rule: none of these touches shared state.
 */
#ifndef RG_BASE_CLEANUP_H
#define RG_BASE_CLEANUP_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define rg_cleanup(fn) __attribute__((cleanup(fn)))
#define rg_autofree rg_cleanup(rg_cleanup_free)
#define rg_autoclose rg_cleanup(rg_cleanup_close)
#define rg_printf(fmt, args) __attribute__((format(printf, fmt, args)))
#define rg_array_len(a) (sizeof(a) / sizeof((a)[0]))

static inline void rg_cleanup_free(void *p)
{
    free(*(void **) p);
}

static inline void rg_cleanup_close(const int *fd)
{
    int saved = errno;

    if (*fd >= 0)
        close(*fd);
    errno = saved;
}

static inline int rg_steal_fd(int *fd)
{
    int value = *fd;

    *fd = -1;
    return value;
}

#define rg_steal_ptr(p)               \
    ({                                \
        __typeof__(*(p)) _v = *(p);   \
        *(p) = NULL;                  \
        _v;                           \
    })

#endif
