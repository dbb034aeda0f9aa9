/* SPDX-License-Identifier: Apache-2.0 */
/* What the user asked for travels to the host as lines, so that no secret stands in an argument
 * list. */
#include "container/container.h"

#include <stdlib.h>
#include <string.h>

bool rg_container_by_slurm(const struct rg_container *container)
{
    return container->runtime && strcmp(container->runtime, "pyxis") == 0;
}

/* --- the fields ------------------------------------------------------------------------------- */

enum kind { TEXT, LIST, BOOL, NUMBER, ENUM, INDEX };

static const struct field {
    const char *name;
    enum kind kind;
    size_t offset;
    int64_t max; /* of an enum or an index */
} fields[] = {
#define FIELD(name, kind, member, max) { name, kind, offsetof(struct rg_container, member), max }
    FIELD("image", TEXT, image, 0),
    FIELD("name", TEXT, name, 0),
    FIELD("runtime", TEXT, runtime, 0),
    FIELD("mount", LIST, mounts, 0),
    FIELD("option", LIST, options, 0),
    FIELD("shm", NUMBER, shm_nbytes, 0),
    FIELD("gpus", TEXT, gpus, 0),
    FIELD("network", TEXT, network, 0),
    FIELD("user", TEXT, user, 0),
    FIELD("pull", ENUM, pull, RG_PULL_NEVER),
    FIELD("inject", ENUM, inject, RG_INJECT_NO),
    FIELD("privileged", BOOL, privileged, 0),
    FIELD("ibdevices", BOOL, ibdevices, 0),
    FIELD("host", INDEX, place.host_index, 1 << 20),
    FIELD("alone", BOOL, place.one_host, 0),
    FIELD("cwd", TEXT, place.cwd, 0),
    FIELD("cwd-is-sent", BOOL, place.cwd_is_sent, 0),
    FIELD("term", TEXT, place.term, 0),
    FIELD("launcher", TEXT, place.launcher, 0),
    FIELD("bundle", TEXT, place.bundle_digest, 0),
    FIELD("bundle-size", NUMBER, place.bundle_nbytes, 0),
#undef FIELD
};

void rg_container_fini(struct rg_container *container)
{
    for (size_t i = 0; i < rg_array_len(fields); i++) {
        void *member = (char *) container + fields[i].offset;
        if (fields[i].kind == TEXT)
            free(*(char **) member);
        else if (fields[i].kind == LIST)
            rg_strv_fini(member);
    }
    free(container->place.bundle_error);
    *container = (struct rg_container){ .image = NULL };
}

static void put_value(struct rg_buf *buf, const char *name, const char *value)
{
    rg_buf_printf(buf, RG_CONTAINER_LINE "%s ", name);
    for (const unsigned char *p = (const unsigned char *) value; *p; p++)
        rg_buf_printf(buf, *p > ' ' && *p < 0x7f && *p != '%' ? "%c" : "%%%02X", *p);
    rg_buf_put(buf, "\n", 1);
}

static void put_number(struct rg_buf *buf, const char *name, uint64_t n)
{
    if (n)
        rg_buf_printf(buf, RG_CONTAINER_LINE "%s %llu\n", name, (unsigned long long) n);
}

static int format_field(const struct field *field, const void *member, struct rg_buf *buf)
{
    const struct rg_strv *list = member;

    switch (field->kind) {
    case TEXT:
        if (*(char *const *) member)
            put_value(buf, field->name, *(char *const *) member);
        break;
    case LIST:
        if (list->count > RG_CONTAINER_LISTED_MAX)
            return -E2BIG;
        for (size_t i = 0; i < list->count; i++)
            put_value(buf, field->name, list->v[i]);
        break;
    case BOOL: put_number(buf, field->name, *(const bool *) member); break;
    case NUMBER: put_number(buf, field->name, *(const uint64_t *) member); break;
    case ENUM:
    case INDEX: put_number(buf, field->name, (uint64_t) *(const int *) member); break;
    }
    return 0;
}

int rg_container_format(const struct rg_container *container, struct rg_buf *buf)
{
    size_t before = rg_buf_nbytes(buf);
    int r = 0;

    _Static_assert(sizeof(enum rg_pull) == sizeof(int), "enums are read as int");
    for (size_t i = 0; r == 0 && i < rg_array_len(fields); i++)
        r = format_field(&fields[i], (const char *) container + fields[i].offset, buf);
    if (r == 0)
        r = rg_buf_status(buf);
    if (r == 0 && rg_buf_nbytes(buf) - before > RG_CONTAINER_TEXT_MAX)
        r = -E2BIG;
    return r;
}

/* --- parsing ---------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A copy without %XX, or NULL when value is not well-formed or memory is short. */
static char *decode(const char *value)
{
    char *text = malloc(strlen(value) + 1);
    char *p = text;

    for (; p && *value; value++) {
        if (*value != '%') {
            *p++ = *value;
            continue;
        }
        int high = hex_digit(value[1]);
        int low = high < 0 ? -1 : hex_digit(value[2]);
        if (low < 0 || high * 16 + low == 0) {
            free(text);
            return NULL;
        }
        *p++ = (char) (high * 16 + low);
        value += 2;
    }
    if (p)
        *p = '\0';
    return text;
}

static int parse_text(const struct field *field, void *member, const char *value,
                      struct rg_error *err)
{
    char *text = decode(value);

    if (!text)
        return rg_error_set(err, EINVAL, "container %s: not well-formed", field->name);
    if (field->kind == LIST) {
        struct rg_strv *list = member;
        if (list->count >= RG_CONTAINER_LISTED_MAX) {
            free(text);
            return rg_error_set(err, E2BIG, "container %s: more than %d", field->name,
                                RG_CONTAINER_LISTED_MAX);
        }
        return rg_strv_take(list, text) < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
    }
    free(*(char **) member);
    *(char **) member = text;
    return 0;
}

static int parse_number(const struct field *field, void *member, const char *value,
                        struct rg_error *err)
{
    int64_t max = field->kind == BOOL ? 1 : field->kind == NUMBER ? INT64_MAX : field->max;
    int64_t n;
    int r = rg_parse_int(field->name, value, 0, max, &n, err);

    if (r < 0)
        return r;
    if (field->kind == BOOL)
        *(bool *) member = n;
    else if (field->kind == NUMBER)
        *(uint64_t *) member = (uint64_t) n;
    else
        *(int *) member = (int) n;
    return 0;
}

int rg_container_parse(struct rg_container *container, const char *line, struct rg_error *err)
{
    size_t length = strcspn(line, " ");

    for (size_t i = 0; line[length] && i < rg_array_len(fields); i++) {
        const struct field *field = &fields[i];
        if (strlen(field->name) != length || strncmp(field->name, line, length) != 0)
            continue;
        void *member = (char *) container + field->offset;
        const char *value = line + length + 1;
        return field->kind == TEXT || field->kind == LIST
                   ? parse_text(field, member, value, err)
                   : parse_number(field, member, value, err);
    }
    return rg_error_set(err, EINVAL, "'container %.40s' is no line of an agent's standard input",
                        line);
}

int rg_container_split_mount(const char *mount, char **ret_source, char **ret_target,
                             bool *ret_read_only, struct rg_error *err)
{
    size_t nsource = strcspn(mount, ":");
    const char *target = mount[nsource] ? mount + nsource + 1 : mount;
    size_t ntarget = mount[nsource] ? strcspn(target, ":") : nsource;
    const char *mode = mount[nsource] && target[ntarget] ? target + ntarget + 1 : "rw";
    bool read_only = strcmp(mode, "ro") == 0;

    if (nsource == 0 || ntarget == 0 || *target != '/' || (!read_only && strcmp(mode, "rw") != 0))
        return rg_error_set(err, EINVAL,
                            "mount %s: write SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro, with an "
                            "absolute TARGET", mount);
    char *source = strndup(mount, nsource), *copy = strndup(target, ntarget);

    if (!source || !copy) {
        free(source);
        free(copy);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    *ret_source = source;
    *ret_target = copy;
    *ret_read_only = read_only;
    return 0;
}
