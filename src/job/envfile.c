/* SPDX-License-Identifier: Apache-2.0 */
/* --env-file has variables one a line, as docker's has them. */
#include "job/envfile.h"

#include <stdio.h>
#include <string.h>

#include "base/fd.h"

#define BLANKS " \t\v\f"
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

int rg_env_check_name(const char *what, const char *text, struct rg_error *err)
{
    size_t n = strcspn(text, "=");

    if (n == 0)
        return rg_error_set(err, EINVAL, "%s \"%s\": a variable's name is missing; write NAME or "
                            "NAME=VALUE", what, text);
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i > 0 && c >= '0' && c <= '9'))
            return rg_error_set(err, EINVAL,
                                "%s \"%.*s\": not a variable's name; use letters, digits "
                                "and '_'",
                                what, (int)n, text);
    }
    return 0;
}

static int parse_line(const char *where, char *line, struct rg_strv *ret_entries,
                      struct rg_error *err)
{
    size_t n = strlen(line);

    if (n && line[n - 1] == '\r')
        line[n - 1] = '\0';
    line += strspn(line, BLANKS);
    if (!*line || *line == '#')
        return 0;
    int rc = rg_env_check_name(where, line, err);

    if (rc == 0 && rg_strv_add(ret_entries, line) < 0)
        rc = rg_error_memory(err);
    return rc;
}

int rg_envfile_parse(const char *path, const char *text, size_t nbytes,
                     struct rg_strv *ret_entries, struct rg_error *err)
{
    rg_autofree char *copy = malloc(nbytes + 1);
    char *rest = copy, *line, where[300];
    unsigned number = 0;
    int rc = 0;

    if (!copy)
        return rg_error_memory(err);
    memcpy(copy, text, nbytes);
    copy[nbytes] = '\0';
    if (memchr(text, '\0', nbytes))
        return rg_error_set(err, EINVAL, "%s: not a file of variables: it holds a NUL byte", path);
    if (rg_str_starts(copy, BYTE_ORDER_MARK))
        rest += strlen(BYTE_ORDER_MARK);
    while (rc == 0 && (line = strsep(&rest, "\n"))) {
        snprintf(where, sizeof where, "%.200s:%u", path, ++number);
        rc = parse_line(where, line, ret_entries, err);
    }
    return rc;
}

int rg_envfile_read(const char *path, struct rg_strv *ret_entries, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    size_t nbytes;
    int rc = rg_read_named("the file of variables", path, RG_ENVFILE_NBYTES_MAX, &text, &nbytes,
                           err);

    return rc < 0 ? rc : rg_envfile_parse(path, text, nbytes, ret_entries, err);
}
