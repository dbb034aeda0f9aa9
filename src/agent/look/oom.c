/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that the kernel kills for memory says nothing; without the counter its end would be an
 * unexplained SIGKILL. */
#include "agent/look/oom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"

#define CGROUP_FILE_MAX (64u << 10)

/* The number after this word at the beginning of a line. */
static bool read_number(const char *path, const char *word, uint64_t *ret_number)
{
    rg_autofree char *text = NULL;

    if (!*path || rg_read_file(path, CGROUP_FILE_MAX, &text, NULL) < 0)
        return false;
    for (char *line = text; line && *line; line = strchr(line, '\n')) {
        char *end;

        line += *line == '\n';
        if (!rg_str_starts(line, word))
            continue;
        *ret_number = strtoull(line + strlen(word), &end, 10);
        return end > line + strlen(word);
    }
    return false;
}

static bool read_counter(const char *path, uint64_t *ret_count)
{
    return read_number(path, "oom_kill ", ret_count);
}

/* In a container the group's path is often that of the host while the mount shows only our own
 * part, so the mount's root is tried too. */
static bool try_group(struct rg_oom *oom, const char *root, const char *group, const char *file)
{
    int n = snprintf(oom->path, sizeof(oom->path), "%s%s/%s", root, group, file);

    oom->nmount = strlen(root);
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

/* --- the limit -------------------------------------------------------------------------------- */

/* The smallest limit from the group upwards, and the length of the path of who has it. */
static uint64_t find_limit(const struct rg_oom *oom, const char *file, size_t *ret_length)
{
    const char *slash = strrchr(oom->path, '/');
    uint64_t least = UINT64_MAX, limit;

    size_t length = slash ? (size_t) (slash - oom->path) : 0;

    while (length >= oom->nmount && length) {
        rg_autofree char *path = rg_strf("%.*s/%s", (int) length, oom->path, file);

        if (path && read_number(path, "", &limit) && limit < least) {
            least = limit;
            *ret_length = length;
        }
        do
            length--;
        while (length && oom->path[length] != '/');
    }
    return least;
}

void rg_oom_limit(const struct rg_oom *oom, char *text, size_t nbytes)
{
    bool old = strstr(oom->path, "memory.oom_control") != NULL;
    size_t length = oom->nmount;
    uint64_t limit = find_limit(oom, old ? "memory.limit_in_bytes" : "memory.max", &length);
    char size[32];

    if (limit >= INT64_MAX / 2) { /* version 1 writes a huge number */
        snprintf(text, nbytes, "no limit is set: all of the host's memory was in use");
        return;
    }
    rg_size_text(limit, size, sizeof(size));
    if (length == oom->nmount)
        snprintf(text, nbytes, "limit %s of this container", size);
    else
        snprintf(text, nbytes, "limit %s of the control group %.*s", size,
                 (int) (length - oom->nmount), oom->path + oom->nmount);
}
