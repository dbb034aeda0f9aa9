/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of the configuration. The form is what git and systemd have made usual; there are no
 * quotes and no comments behind values, so that a value is what it would be on a command line. */
#include "job/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"

#define BLANKS " \t\v\f\r"
#define PROFILE "profile"
#define NAME_MAX_NBYTES 64
#define PATH_SHOWN 300 /* bytes of the path in an error */

struct parser {
    struct rg_config *config;
    const char *path;
    int line;
    int profile;   /* of the section that is read */
    bool begun;    /* there was one */
    bool defaults; /* there was [defaults] */
    struct rg_error *err;
};

#define fail(p, fmt, ...)                                                                  \
    rg_error_set_exit((p)->err, EINVAL, RG_EXIT_USAGE, "%.*s:%d: " fmt, PATH_SHOWN, (p)->path, \
                      (p)->line, ##__VA_ARGS__)

void rg_config_fini(struct rg_config *config)
{
    for (size_t i = 0; i < config->count; i++)
        free(config->entries[i].value);
    free(config->entries);
    free(config->path);
    rg_strv_fini(&config->profiles);
    *config = (struct rg_config) RG_CONFIG_INIT;
}

/* Without blanks at both ends; in place. */
static char *trim(char *text)
{
    text += strspn(text, BLANKS);
    for (size_t n = strlen(text); n > 0 && strchr(BLANKS, text[n - 1]); n--)
        text[n - 1] = '\0';
    return text;
}

/* --- sections --------------------------------------------------------------------------------- */

static bool is_name(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    return n > 0 && n <= NAME_MAX_NBYTES && !text[n] && *text != '-';
}

static int begin_profile(struct parser *p, const char *name)
{
    struct rg_strv *profiles = &p->config->profiles;

    if (!is_name(name))
        return fail(p, "profile \"%.80s\": a name has up to %d letters, digits, '.', '_' and '-'",
                    name, NAME_MAX_NBYTES);
    if (rg_strv_has(profiles, name))
        return fail(p, "profile %s stands in this file twice", name);
    if (profiles->count == RG_CONFIG_PROFILES_MAX)
        return fail(p, "more than %d profiles", RG_CONFIG_PROFILES_MAX);
    if (rg_strv_add(profiles, name) < 0)
        return rg_error_memory(p->err);
    p->profile = (int) profiles->count - 1;
    return 0;
}

/* text: behind the bracket that opens. */
static int begin_section(struct parser *p, char *text)
{
    size_t n = strlen(text), length = strlen(PROFILE);

    if (!n || text[n - 1] != ']')
        return fail(p, "[%.80s: the bracket is not closed; write [defaults] or [profile NAME]",
                    text);
    text[n - 1] = '\0';
    text = trim(text);
    p->begun = true;
    if (rg_str_starts(text, PROFILE) && text[length] && strchr(BLANKS, text[length]))
        return begin_profile(p, trim(text + length));
    if (strcmp(text, "defaults") != 0)
        return fail(p, "unknown section [%.80s]; write [defaults] or [profile NAME]", text);
    if (p->defaults)
        return fail(p, "[defaults] stands in this file twice");
    p->defaults = true;
    p->profile = RG_CONFIG_DEFAULTS;
    return 0;
}

/* --- options ---------------------------------------------------------------------------------- */

static int unknown_key(struct parser *p, const char *key)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    const struct rg_option *option = rg_option_find(key + strspn(key, "-"));

    if (option && option->file != RG_FILE_NONE)
        return fail(p, "unknown key \"%.80s\"; here it is called %s", key, rg_option_key(option));
    if (option)
        return fail(p, "\"%.80s\" stands on the command line only", key);
    if (rg_option_keys(&words) < 0)
        return rg_error_memory(p->err);
    const char *near = rg_str_nearest(key, (const char *const *) words.v);

    if (near)
        return fail(p, "unknown key \"%.80s\"; did you mean %s?", key, near);
    return fail(p, "unknown key \"%.80s\"; reigen run --help all lists the options", key);
}

/* The entry of the same option in the same section, or NULL. */
static const struct rg_config_entry *find_entry(const struct parser *p,
                                                const struct rg_option *option)
{
    for (size_t i = 0; i < p->config->count; i++) {
        const struct rg_config_entry *e = &p->config->entries[i];
        if (e->option == option && e->profile == p->profile)
            return e;
    }
    return NULL;
}

static int add_entry(struct parser *p, const struct rg_option *option, const char *value)
{
    struct rg_config *config = p->config;

    if (config->count == RG_CONFIG_ENTRIES_MAX)
        return fail(p, "more than %d lines with options", RG_CONFIG_ENTRIES_MAX);
    struct rg_config_entry *more = realloc(config->entries, (config->count + 1) * sizeof(*more));
    char *copy = strdup(value);

    if (more)
        config->entries = more;
    if (!more || !copy) {
        free(copy);
        return rg_error_memory(p->err);
    }
    more[config->count++] = (struct rg_config_entry){ option, copy, p->line, p->profile };
    return 0;
}

static int take_option(struct parser *p, const char *key, const char *value)
{
    const struct rg_option *option = rg_option_find_key(key);

    if (!p->begun)
        return fail(p, "%.80s stands above the first section; write [defaults] in front of it",
                    key);
    if (!option)
        return unknown_key(p, key);
    bool once = option->file == RG_FILE_SCALAR || option->file == RG_FILE_BOOL;
    const struct rg_config_entry *first = once ? find_entry(p, option) : NULL;

    if (first)
        return fail(p, "%s stands in this section twice, first in line %d", key, first->line);
    if (!*value)
        return fail(p, "%s: the value is missing; write %s = %s", key, key,
                    option->arg ? option->arg : "true");
    if (option->file == RG_FILE_BOOL && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return fail(p, "%s: \"%.80s\" is neither true nor false", key, value);
    return add_entry(p, option, value);
}

static int take_line(struct parser *p, char *line)
{
    line = trim(line);
    if (!*line || *line == '#' || *line == ';')
        return 0;
    if (*line == '[')
        return begin_section(p, line + 1);
    char *equals = strchr(line, '=');

    if (!equals)
        return fail(p, "\"%.80s\": write OPTION = VALUE", line);
    *equals = '\0';
    return take_option(p, trim(line), trim(equals + 1));
}

int rg_config_parse(struct rg_config *config, const char *path, const char *text, size_t nbytes,
                    struct rg_error *err)
{
    struct parser p = { .config = config, .path = path, .line = 1, .err = err };
    rg_autofree char *copy = calloc(1, nbytes + 1);
    char *rest = copy, *line;
    int rc = copy ? 0 : rg_error_memory(err);

    if (rc == 0)
        memcpy(copy, text, nbytes);
    for (size_t i = 0; i < nbytes && !rc; i++) {
        if (text[i] == '\0')
            return fail(&p, "a NUL byte stands here");
        p.line += text[i] == '\n';
    }
    for (p.line = 0; rc == 0 && (line = strsep(&rest, "\n"));) {
        p.line++;
        rc = take_line(&p, line);
    }
    return rc;
}

/* --- the file --------------------------------------------------------------------------------- */

/* NULL: nowhere. named: by its own variable, so that it has to be there. */
static char *find_path(bool *ret_named)
{
    const char *own = getenv(RG_CONFIG_FILE), *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");

    *ret_named = own && *own;
    if (own)
        return *own ? strdup(own) : NULL;
    if (base && *base == '/')
        return rg_strf("%s/reigen/config", base);
    return home && *home == '/' ? rg_strf("%s/.config/reigen/config", home) : NULL;
}

int rg_config_read(struct rg_config *config, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    struct rg_error cause = RG_ERROR_INIT;
    size_t nbytes;
    bool named;

    config->path = find_path(&named);
    if (!config->path)
        return 0;
    int rc = rg_read_trusted("the configuration", config->path, RG_TRUST_UNCHANGED,
                             RG_CONFIG_NBYTES_MAX, &text, &nbytes, &cause);

    config->denied = !named && rc == -EACCES;
    if (!named && (rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES))
        return 0;
    if (rc == -EPERM)
        return rg_error_set_exit(err, EPERM, RG_EXIT_NO_PERMISSION, "%s; it says what reigen runs, "
                                 "so that nobody else may change it. " RG_CONFIG_FILE
                                 "= leaves it out", cause.text);
    if (rc < 0)
        return rg_error_set_exit(err, -rc, RG_EXIT_USAGE, "%s", cause.text);
    config->found = true;
    return rg_config_parse(config, config->path, text, nbytes, err);
}
