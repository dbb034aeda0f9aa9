/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where this program's file lies: what is installed beside it is found from there, and it is
 * started again by this name.
 *
 * Thread rule: any thread; nothing blocks.
 */
#ifndef RG_BASE_PROCESS_SELF_H
#define RG_BASE_PROCESS_SELF_H

#include <limits.h>
#include <stdbool.h>

/* The file itself for /proc, also after it has been removed or replaced: to be read or run. */
#define RG_SELF "/proc/self/exe"

/* Its absolute path, all links resolved. Where the file was removed since this process began, as by
 * an upgrade, it is the path that it had, without the kernel's " (deleted)". 0, or -errno where
 * /proc is not mounted. */
int rg_self_path(char ret_path[PATH_MAX]);
/* The path of the folder that it lies in, without a slash at the end ("" is the root). As above. */
int rg_self_folder(char ret_path[PATH_MAX]);
/* The path of a program that is installed with this one, by its name from that folder. False: it is
 * not there, or may not be run. */
bool rg_self_beside(const char *name, char ret_path[PATH_MAX]);

#endif
