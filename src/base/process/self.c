/* SPDX-License-Identifier: Apache-2.0 */
/* The link that the kernel keeps to a process's program, whose text is no C string, and says in its
 * last word when the file is gone. */
#include "base/process/self.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GONE " (deleted)"
#define GONE_NBYTES (sizeof(GONE) - 1)

/* The kernel gives no path that does not fit. */
int rg_self_path(char ret_path[PATH_MAX])
{
    ssize_t n = readlink(RG_SELF, ret_path, PATH_MAX - 1);

    if (n < 0)
        return -errno;
    ret_path[n] = '\0';
    char *gone = n < (ssize_t) GONE_NBYTES ? ret_path : ret_path + n - GONE_NBYTES;
    if (strcmp(gone, GONE) == 0 && access(ret_path, F_OK) < 0)
        *gone = '\0';
    return 0;
}

int rg_self_folder(char ret_path[PATH_MAX])
{
    int r = rg_self_path(ret_path);
    char *slash = r < 0 ? NULL : strrchr(ret_path, '/');

    if (slash)
        *slash = '\0';
    return r;
}

bool rg_self_beside(const char *name, char ret_path[PATH_MAX])
{
    char folder[PATH_MAX];

    return rg_self_folder(folder) == 0 &&
           snprintf(ret_path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX &&
           access(ret_path, X_OK) == 0;
}
