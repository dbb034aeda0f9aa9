/* SPDX-License-Identifier: Apache-2.0 */
/* A Python's own packages of our names win over ours; on a host and in an image they are found by
 * the same two looks. */
#include "agent/store/python.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

bool rg_python_site_has(const char *site, size_t length)
{
    static const char *const names[] = { "horovod", "reigen" };
    char path[PATH_MAX];

    for (size_t i = 0; i < rg_array_len(names); i++) {
        if (snprintf(path, sizeof(path), "%.*s/%s", (int) length, site, names[i]) <
                (int) sizeof(path) && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

bool rg_python_prefix_has(const char *bin, size_t length)
{
    static const char *const folders[] = { "site-packages", "dist-packages" };
    char lib[PATH_MAX], site[PATH_MAX + 300];
    bool found = false;

    if (snprintf(lib, sizeof(lib), "%.*s/../lib", (int) length, bin) >= (int) sizeof(lib))
        return false;
    DIR *dir = opendir(lib);
    for (struct dirent *entry; !found && dir && (entry = readdir(dir));) {
        bool python = rg_str_starts(entry->d_name, "python");
        for (size_t i = 0; python && i < rg_array_len(folders); i++) {
            snprintf(site, sizeof(site), "%s/%s/%s", lib, entry->d_name, folders[i]);
            found = found || rg_python_site_has(site, strlen(site));
        }
    }
    if (dir)
        closedir(dir);
    return found;
}
