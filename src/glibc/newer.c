/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that today's headers name and glibc 2.28 does not have, made of those that it has. They
 * go into the libraries that travel (meson.build), and no other file sees them: before 2.33 glibc
 * had stat() and its kin as __xstat() with the structure's version, and from 2.38 on <stdlib.h>
 * gives strtol() and its kin, which take binary digits since, names of their own.
 *
 * Each stands under the name that it has for the linker; what libc calls it is hidden by headers,
 * so the declarations here are anew.
 */
#include <stdarg.h>
#include <stdio.h>

struct stat;
struct stat64;

#ifdef __x86_64__
#define STAT_VERSION 1
#else
#define STAT_VERSION 0 /* of every 64-bit machine that came later */
#endif

int __xstat(int version, const char *path, struct stat *ret_st);
int __lxstat(int version, const char *path, struct stat *ret_st);
int __fxstat(int version, int fd, struct stat *ret_st);
int __fxstatat(int version, int dir_fd, const char *path, struct stat *ret_st, int flags);

#define LINKED_AS(name) __asm__(name)
/* A 64-bit machine has one structure by two names. */
#define ALSO(name) __attribute__((alias(name), visibility("hidden")))

int rg_glibc_stat(const char *path, struct stat *ret_st) LINKED_AS("stat");
int rg_glibc_lstat(const char *path, struct stat *ret_st) LINKED_AS("lstat");
int rg_glibc_fstat(int fd, struct stat *ret_st) LINKED_AS("fstat");
int rg_glibc_fstatat(int dir_fd, const char *path, struct stat *ret_st, int flags)
    LINKED_AS("fstatat");

int rg_glibc_stat(const char *path, struct stat *ret_st)
{
    return __xstat(STAT_VERSION, path, ret_st);
}

int rg_glibc_lstat(const char *path, struct stat *ret_st)
{
    return __lxstat(STAT_VERSION, path, ret_st);
}

int rg_glibc_fstat(int fd, struct stat *ret_st)
{
    return __fxstat(STAT_VERSION, fd, ret_st);
}

int rg_glibc_fstatat(int dir_fd, const char *path, struct stat *ret_st, int flags)
{
    return __fxstatat(STAT_VERSION, dir_fd, path, ret_st, flags);
}

extern __typeof__(rg_glibc_stat) rg_glibc_stat64 LINKED_AS("stat64") ALSO("stat");
extern __typeof__(rg_glibc_lstat) rg_glibc_lstat64 LINKED_AS("lstat64") ALSO("lstat");
extern __typeof__(rg_glibc_fstat) rg_glibc_fstat64 LINKED_AS("fstat64") ALSO("fstat");
extern __typeof__(rg_glibc_fstatat) rg_glibc_fstatat64 LINKED_AS("fstatat64") ALSO("fstatat");

long rg_glibc_old_strtol(const char *text, char **ret_end, int base) LINKED_AS("strtol");
unsigned long rg_glibc_old_strtoul(const char *text, char **ret_end, int base)
    LINKED_AS("strtoul");
long rg_glibc_strtol(const char *text, char **ret_end, int base) LINKED_AS("__isoc23_strtol");
unsigned long rg_glibc_strtoul(const char *text, char **ret_end, int base)
    LINKED_AS("__isoc23_strtoul");

long rg_glibc_strtol(const char *text, char **ret_end, int base)
{
    return rg_glibc_old_strtol(text, ret_end, base);
}

unsigned long rg_glibc_strtoul(const char *text, char **ret_end, int base)
{
    return rg_glibc_old_strtoul(text, ret_end, base);
}

/* They have the same 64 bits. */
extern __typeof__(rg_glibc_strtol) rg_glibc_strtoll LINKED_AS("__isoc23_strtoll")
    ALSO("__isoc23_strtol");
extern __typeof__(rg_glibc_strtoul) rg_glibc_strtoull LINKED_AS("__isoc23_strtoull")
    ALSO("__isoc23_strtoul");

int rg_glibc_old_vsscanf(const char *text, const char *format, va_list args)
    LINKED_AS("__isoc99_vsscanf");
int rg_glibc_sscanf(const char *text, const char *format, ...) LINKED_AS("__isoc23_sscanf");

int rg_glibc_sscanf(const char *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int n = rg_glibc_old_vsscanf(text, format, args);
    va_end(args);
    return n;
}
