/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/oom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"

#define CGROUP_FILE_MAX (64u << 10)

static bool read_counter(const char *path, uint64_t *ret_count)
{
    rg_autofree char *text = NULL;

    if (!*path || rg_read_file(path, CGROUP_FILE_MAX, &text, NULL) < 0)
        return false;
    for (char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (rg_str_starts(line, "oom_kill ")) {
            *ret_count = strtoull(line + strlen("oom_kill "), NULL, 10);
            return true;
        }
    }
    return false;
}

/* In a container the group's path is often that of the host while the mount shows only our own
 * part, so the mount's root is tried too. */
static bool try_group(struct rg_oom *oom, const char *root, const char *group, const char *file)
{
    int n = snprintf(oom->path, sizeof(oom->path), "%s%s/%s", root, group, file);

    if (n > 0 && (size_t) n < sizeof(oom->path) && read_counter(oom->path, &oom->nkills))
        return true;
    n = snprintf(oom->path, sizeof(oom->path), "%s/%s", root, file);
    if (n > 0 && (size_t) n < sizeof(oom->path) && read_counter(oom->path, &oom->nkills))
        return true;
    oom->path[0] = '\0';
    return false;
}

/* A line is "hierarchy:controllers:path"; version 2 has hierarchy 0 and no controllers. */
static bool try_line(struct rg_oom *oom, char *line, const char *mount)
{
    char root[256];
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;

    if (!group)
        return false;
    *group++ = '\0';
    controllers++;
    if (!*controllers)
        return try_group(oom, mount, strcmp(group, "/") == 0 ? "" : group, "memory.events");
    if (strcmp(controllers, "memory") != 0)
        return false;
    snprintf(root, sizeof(root), "%s/memory", mount);
    return try_group(oom, root, strcmp(group, "/") == 0 ? "" : group, "memory.oom_control");
}

void rg_oom_init(struct rg_oom *oom, const char *cgroup_file, const char *mount)
{
    rg_autofree char *text = NULL;
    char *rest;

    memset(oom, 0, sizeof(*oom));
    if (rg_read_file(cgroup_file, CGROUP_FILE_MAX, &text, NULL) < 0)
        return;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (try_line(oom, line, mount))
            return;
    }
}

bool rg_oom_happened(struct rg_oom *oom)
{
    uint64_t now;

    if (!read_counter(oom->path, &now) || now <= oom->nkills)
        return false;
    oom->nkills++;
    return true;
}
