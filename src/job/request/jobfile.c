/* SPDX-License-Identifier: Apache-2.0 */
/* A key of the file is the option of its name: only how YAML writes lists and mappings is judged
 * here, the values are judged by the options' own handlers. */
#include "job/request/jobfile.h"

#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/str.h"
#include "job/request/settle.h"
#include "job/yaml/yaml.h"

const struct rg_jobfile_key rg_jobfile_keys[] = {
    {"version", "1", "The schema this file is written in. May be left out."},
    {"command", "LIST|TEXT",
     "What every rank runs: a list with the program and its arguments, or one "
     "text, which sh -c gets. A command on the command line replaces it."},
    {NULL, NULL, NULL}};

struct file {
    struct rg_request *request;
    struct rg_yaml yaml;
};

#define fail(file, ...) rg_yaml_fail(&(file)->yaml, __VA_ARGS__)

/* The text of a value that must be there, or an error. */
static int need_scalar(const struct file *file, struct fy_node *key, struct fy_node *node,
                       const char *name, const char *allowed, char **ret_text)
{
    if (!node || fy_node_is_alias(node) || !fy_node_is_scalar(node) || rg_yaml_is_null(node))
        return fail(file, node, key, "%s: %s stands here; %s is allowed", name, rg_yaml_kind(node),
                    allowed);
    if (fy_node_get_tag_token(node))
        return fail(file, node, key, "%s: tags (!...) are not part of a job file; leave it out",
                    name);
    *ret_text = rg_yaml_text(node);
    if (!*ret_text)
        return fail(file, node, key, "%s: the value holds a NUL byte", name);
    return 0;
}

/* Call the option's handler; what it says gets the place in front. */
static int apply(const struct file *file, const struct rg_option *option, struct fy_node *key,
                 struct fy_node *node, const char *value)
{
    struct rg_error cause = RG_ERROR_INIT;
    int rc = rg_option_apply(option, file->request, rg_option_key(option), value, &cause);

    if (rc >= 0)
        return 0;
    fail(file, node, key, "%s", cause.text);
    return rc;
}

static int apply_scalar(const struct file *file, const struct rg_option *option,
                        struct fy_node *key, struct fy_node *node)
{
    const char *name = rg_option_key(option);
    rg_autofree char *text = NULL;
    bool is_bool = option->file == RG_FILE_BOOL;
    char allowed[80];

    snprintf(allowed, sizeof allowed, is_bool ? "true or false" : "one value (%s)",
             option->arg ? option->arg : "true or false");
    int rc = need_scalar(file, key, node, name, allowed, &text);

    if (rc < 0)
        return rc;
    if (is_bool && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return fail(file, node, key, "%s: \"%s\" is neither true nor false", name, text);
    return apply(file, option, key, node, text);
}

static int apply_list(const struct file *file, const struct rg_option *option, struct fy_node *key,
                      struct fy_node *list)
{
    struct fy_node *item;
    void *prev = NULL;
    int rc = 0, count = 0;

    while (rc == 0 && (item = fy_node_sequence_iterate(list, &prev))) {
        if (++count > RG_JOBFILE_ITEMS_MAX)
            return fail(file, item, key, "%s: more than %d items", rg_option_key(option),
                        RG_JOBFILE_ITEMS_MAX);
        rc = apply_scalar(file, option, key, item);
    }
    return rc;
}

/* NAME: VALUE joined by sep; a null value leaves NAME alone. */
static int apply_pair(const struct file *file, const struct rg_option *option, char sep,
                      struct fy_node *key, struct fy_node *node)
{
    const char *name = rg_option_key(option);
    rg_autofree char *left = NULL, *right = NULL, *both = NULL;
    int rc = need_scalar(file, NULL, key, name, "a name", &left);

    if (rc < 0)
        return rc;
    if (node && !rg_yaml_is_null(node)) {
        rc = need_scalar(file, key, node, left, "one value", &right);
        if (rc < 0)
            return rc;
    }
    both = right ? rg_strf("%s%c%s", left, sep, right) : strdup(left);
    if (!both)
        return rg_error_set(file->yaml.err, ENOMEM, "out of memory");
    return apply(file, option, key, node, both);
}

static int apply_map(const struct file *file, const struct rg_option *option, struct fy_node *map)
{
    char sep = option->file == RG_FILE_HOSTS ? ':' : '=';
    struct fy_node_pair *pair;
    void *prev = NULL;
    int rc = 0, count = 0;

    while (rc == 0 && (pair = fy_node_mapping_iterate(map, &prev))) {
        if (++count > RG_JOBFILE_ITEMS_MAX)
            return fail(file, map, NULL, "%s: more than %d items", rg_option_key(option),
                        RG_JOBFILE_ITEMS_MAX);
        rc = apply_pair(file, option, sep, fy_node_pair_key(pair), fy_node_pair_value(pair));
    }
    return rc;
}

static int apply_option(const struct file *file, const struct rg_option *option,
                        struct fy_node *key, struct fy_node *node)
{
    enum rg_option_file kind = option->file;
    bool alias = node && fy_node_is_alias(node);
    bool single = kind == RG_FILE_SCALAR || kind == RG_FILE_BOOL;

    if (!single && node && !alias && fy_node_is_sequence(node))
        return apply_list(file, option, key, node);
    if ((kind == RG_FILE_MAP || kind == RG_FILE_HOSTS) && node && !alias &&
        fy_node_is_mapping(node))
        return apply_map(file, option, node);
    return apply_scalar(file, option, key, node);
}

static int read_command(const struct file *file, struct fy_node *key, struct fy_node *node)
{
    struct rg_strv *command = &file->request->job.command;
    struct fy_node *item;
    void *prev = NULL;
    int rc = 0;

    rg_strv_fini(command);
    if (!node || fy_node_is_alias(node) || !fy_node_is_sequence(node)) {
        char *text = NULL;
        rc = need_scalar(file, key, node, "command", "a list of arguments or one text", &text);
        if (rc < 0)
            return rc;
        rc = rg_strv_add(command, "sh") < 0 || rg_strv_add(command, "-c") < 0 ? -ENOMEM : 0;
        if (rg_strv_take(command, text) < 0 || rc < 0)
            return rg_error_set(file->yaml.err, ENOMEM, "out of memory");
        return 0;
    }
    while (rc == 0 && (item = fy_node_sequence_iterate(node, &prev))) {
        char *text = NULL;
        if (command->count == RG_JOBFILE_ITEMS_MAX)
            return fail(file, item, key, "command: more than %d arguments", RG_JOBFILE_ITEMS_MAX);
        rc = need_scalar(file, key, item, "command", "a list of texts", &text);
        if (rc == 0 && rg_strv_take(command, text) < 0)
            return rg_error_set(file->yaml.err, ENOMEM, "out of memory");
    }
    if (rc == 0 && !command->count)
        return fail(file, node, key, "command: the list is empty; name a program");
    return rc;
}

static int read_version(const struct file *file, struct fy_node *key, struct fy_node *node)
{
    rg_autofree char *text = NULL;
    int rc = need_scalar(file, key, node, "version", "1", &text);

    if (rc == 0 && strcmp(text, "1") != 0)
        return fail(file, node, key,
                    "version: \"%s\" is unknown to this reigen; it reads version 1", text);
    return rc;
}

static int unknown_key(const struct file *file, struct fy_node *key, const char *name)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;

    for (size_t i = 0; rg_jobfile_keys[i].name; i++)
        rg_strv_add(&words, rg_jobfile_keys[i].name);
    if (rg_option_keys(&words) < 0 || rg_strv_status(&words) < 0)
        return rg_error_memory(file->yaml.err);
    const char *near = rg_str_nearest(name, (const char *const *) words.v);

    if (rg_option_find(name))
        return fail(file, key, NULL,
                    "\"%.100s\" stands on the command line only; reigen man reigen-job "
                    "lists all keys",
                    name);
    if (near)
        return fail(file, key, NULL, "unknown key \"%.100s\"; did you mean %s?", name, near);
    return fail(file, key, NULL, "unknown key \"%.100s\"; reigen man reigen-job lists all keys",
                name);
}

static int read_pair(const struct file *file, struct fy_node *key, struct fy_node *node)
{
    rg_autofree char *name = NULL;
    int rc = need_scalar(file, NULL, key, "a key", "a name", &name);

    if (rc < 0)
        return rc;
    if (strcmp(name, "command") == 0)
        return read_command(file, key, node);
    if (strcmp(name, "version") == 0)
        return read_version(file, key, node);
    const struct rg_option *option = rg_option_find_key(name);

    return option ? apply_option(file, option, key, node) : unknown_key(file, key, name);
}

static int empty_file(const struct file *file)
{
    return rg_error_set_exit(file->yaml.err, EINVAL, RG_EXIT_USAGE,
                             "%s:1:1: the job file is empty; it is a mapping "
                             "such as \"command: [python, train.py]\"", file->yaml.path);
}

static int read_root(const struct file *file, struct fy_document *doc)
{
    struct fy_node *root = fy_document_root(doc);
    struct fy_node_pair *pair;
    void *prev = NULL;
    int rc = 0;

    if (!root || rg_yaml_is_null(root))
        return empty_file(file);
    if (fy_node_is_alias(root) || !fy_node_is_mapping(root))
        return fail(file, root, NULL, "%s stands here; a job file is a mapping such as "
                    "\"command: [python, train.py]\"", rg_yaml_kind(root));
    while (rc == 0 && (pair = fy_node_mapping_iterate(root, &prev)))
        rc = read_pair(file, fy_node_pair_key(pair), fy_node_pair_value(pair));
    return rc;
}

int rg_jobfile_parse(struct rg_request *request, const char *path, const char *text, size_t nbytes,
                     struct rg_error *err)
{
    const struct file file = { request, { path, err } };
    RG_AUTO_YAML struct fy_document *doc = NULL;

    int rc = rg_yaml_load(path, "a job file", text, nbytes, &doc, err);

    if (rc < 0)
        return rc;
    if (!doc)
        return empty_file(&file);
    request->source = RG_FROM_JOBFILE;
    rc = read_root(&file, doc);

    request->source = RG_FROM_LINE;
    return rc;
}

int rg_jobfile_read(struct rg_request *request, const char *path, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    size_t nbytes;
    int rc = rg_read_named("job file", path, RG_YAML_NBYTES_MAX, &text, &nbytes, err);

    if (rc == 0 && request->read_other)
        rc = request->read_other(request, path, text, nbytes, err);
    if (rc > 0 && request->profile)
        return rg_error_set(err, EINVAL, "--profile %.80s: %s says itself what its job is like, "
                            "and takes nothing from a configuration", request->profile, path);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = rg_request_configure(request, err);
    return rc < 0 ? rc : rg_jobfile_parse(request, path, text, nbytes, err);
}
