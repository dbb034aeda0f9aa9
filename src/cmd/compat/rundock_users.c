/* SPDX-License-Identifier: Apache-2.0 */
/* In the container the user must have a name, beside the users that the image's programs rely
 * on. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <search.h>
#include <string.h>

#include "base/buf.h"
#include "cmd/compat/rundock.h"

#define USERS_MAX 20000 /* of the host; a directory service may know very many */

/* Names that are in a text already: a tree of tsearch over strings that `names` owns. */
struct known {
    void *tree;
    struct rg_strv names;
};

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void keep_node(void *node)
{
    (void) node;
}

static void known_fini(struct known *known)
{
    tdestroy(known->tree, keep_node);
    rg_strv_fini(&known->names);
}

/* 1: it is new, and known from now on; 0: it was known; or -ENOMEM. */
static int remember(struct known *known, const char *name, size_t n)
{
    rg_autofree char *text = rg_strf("%.*s", (int) n, name);

    if (!text)
        return -ENOMEM;
    if (tfind(text, &known->tree, compare))
        return 0;
    char *kept = text;
    int rc = rg_strv_take(&known->names, rg_steal_ptr(&text));
    return rc < 0 ? rc : tsearch(kept, &known->tree, compare) ? 1 : -ENOMEM;
}

/* The lines of an image's file whose names are new. */
static int add_lines(struct rg_buf *text, struct known *known, const char *lines)
{
    while (lines && *lines) {
        size_t n = strcspn(lines, "\n");
        int fresh = remember(known, lines, strcspn(lines, ":\n"));
        if (fresh < 0)
            return fresh;
        if (fresh && n)
            rg_buf_printf(text, "%.*s\n", (int) n, lines);
        lines += n + (lines[n] == '\n');
    }
    return 0;
}

static bool one_line(const char *a, const char *b)
{
    return !strpbrk(a, ":\n") && (!b || !strpbrk(b, ":\n"));
}

static int add_host_users(struct rg_buf *text, struct known *known)
{
    const struct passwd *user;
    int rc = 0;

    setpwent();
    for (int i = 0; rc >= 0 && i < USERS_MAX && (user = getpwent()); i++) {
        if (!one_line(user->pw_name, user->pw_gecos) || !one_line(user->pw_dir, user->pw_shell))
            continue;
        rc = remember(known, user->pw_name, strlen(user->pw_name));
        if (rc > 0)
            rg_buf_printf(text, "%s:x:%u:%u:%s:%s:%s\n", user->pw_name, user->pw_uid, user->pw_gid,
                          user->pw_gecos ? user->pw_gecos : "", user->pw_dir, user->pw_shell);
    }
    endpwent();
    return rc < 0 ? rc : 0;
}

static int add_host_groups(struct rg_buf *text, struct known *known)
{
    const struct group *group;
    int rc = 0;

    setgrent();
    for (int i = 0; rc >= 0 && i < USERS_MAX && (group = getgrent()); i++) {
        if (!one_line(group->gr_name, NULL))
            continue;
        rc = remember(known, group->gr_name, strlen(group->gr_name));
        if (rc > 0)
            rg_buf_printf(text, "%s:x:%u:\n", group->gr_name, group->gr_gid);
    }
    endgrent();
    return rc < 0 ? rc : 0;
}

static int print_passwd(const struct rg_rundock_host *host, const char *image, struct rg_buf *text)
{
    rg_cleanup(known_fini) struct known known = { NULL, RG_STRV_INIT };
    int rc = remember(&known, host->user, strlen(host->user));

    rg_buf_printf(text, "%s:x:%u:%u::%s:/bin/sh\n", host->user, host->uid, host->gid,
                  host->home ? host->home : "/");
    rc = rc < 0 ? rc : add_lines(text, &known, image);
    rc = rc < 0 ? rc : add_host_users(text, &known);
    return rc < 0 ? rc : rg_buf_status(text);
}

static int add_own_group(struct rg_buf *text, struct known *known,
                         const struct rg_rundock_host *host, gid_t gid)
{
    const struct group *group = getgrgid(gid);

    if (!group || !one_line(group->gr_name, NULL))
        return 0;
    int rc = remember(known, group->gr_name, strlen(group->gr_name));
    if (rc > 0)
        rg_buf_printf(text, "%s:x:%u:%s\n", group->gr_name, gid, host->user);
    return rc < 0 ? rc : 0;
}

static int print_group(const struct rg_rundock_host *host, const char *image, struct rg_buf *text)
{
    rg_cleanup(known_fini) struct known known = { NULL, RG_STRV_INIT };
    int rc = add_own_group(text, &known, host, host->gid);

    for (size_t i = 0; rc == 0 && i < host->ngroups; i++)
        rc = add_own_group(text, &known, host, host->groups[i]);
    rc = rc < 0 ? rc : add_lines(text, &known, image);
    rc = rc < 0 ? rc : add_host_groups(text, &known);
    return rc < 0 ? rc : rg_buf_status(text);
}

int rg_rundock_users(const struct rg_rundock_host *host, const char *image_passwd,
                     const char *image_group, char **ret_passwd, char **ret_group)
{
    rg_autobuf struct rg_buf passwd = RG_BUF_INIT;
    rg_autobuf struct rg_buf group = RG_BUF_INIT;
    int rc = print_passwd(host, image_passwd, &passwd);

    rc = rc < 0 ? rc : print_group(host, image_group, &group);
    if (rc < 0)
        return rc;
    rg_autofree char *users = strdup(rg_buf_text(&passwd));
    rg_autofree char *groups = strdup(rg_buf_text(&group));
    if (!users || !groups)
        return -ENOMEM;
    *ret_passwd = rg_steal_ptr(&users);
    *ret_group = rg_steal_ptr(&groups);
    return 0;
}
