/* SPDX-License-Identifier: Apache-2.0 */
/* The names of what is in a directory, without a look at contents. Blocks. */
#ifndef RG_LAUNCH_SYNC_LIST_H
#define RG_LAUNCH_SYNC_LIST_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/str.h"

struct rg_sync_names {
    struct rg_strv paths; /* below the directory, sorted, each once: files, links and directories */
    bool by_git;
    unsigned git_ms;
};

/* git_ms: how long one answer of git may take. 0; -EFBIG: too many; -ENOEXEC: git is needed and
 * fails; -errno. Free ret_names->paths always. */
int rg_sync_list_names(const char *dir, unsigned git_ms, struct rg_sync_names *ret_names,
                       struct rg_error *err);

#endif
