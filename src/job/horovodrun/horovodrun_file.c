/* SPDX-License-Identifier: Apache-2.0 */
/* Horovod's YAML file, with sections; it is more lenient than our own job file. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/fd.h"
#include "job/horovodrun/horovodrun.h"
#include "job/yaml/yaml.h"

#define KEY_MAX 160

struct file {
    struct rg_horovodrun *run;
    struct rg_yaml yaml;
};

#define fail(file, ...) rg_yaml_fail(&(file)->yaml, __VA_ARGS__)

static int unknown_key(const struct file *file, struct fy_node *key, const char *name)
{
    const char *words[64];
    size_t count, n = 0;
    const struct rg_hvd_option *options = rg_hvd_options(&count);

    for (size_t i = 0; i < count && n < rg_array_len(words) - 1; i++) {
        if (options[i].key)
            words[n++] = options[i].key;
    }
    words[n] = NULL;
    const char *near = rg_str_nearest(name, words);

    if (near)
        return fail(file, key, NULL, "unknown key %.120s; did you mean %s?", name, near);
    return fail(file, key, NULL, "unknown key %.120s; reigen man horovodrun lists all keys", name);
}

/* YAML 1.1's words for true and false, which horovodrun takes: 1, 0, or -1. */
static int truth(const char *text)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};

    for (int i = 0; i < (int) rg_array_len(words); i++) {
        if (strcasecmp(text, words[i]) == 0)
            return i % 2;
    }
    return -1;
}

static int apply(const struct file *file, struct fy_node *key, struct fy_node *node,
                 const char *name)
{
    const struct rg_hvd_option *option = rg_hvd_option_find_key(name);
    struct rg_error cause = RG_ERROR_INIT;

    if (!option)
        return unknown_key(file, key, name);
    /* An empty value leaves the default. */
    if (!node || (!fy_node_is_alias(node) && rg_yaml_is_null(node)))
        return 0;
    if (fy_node_is_alias(node) || !fy_node_is_scalar(node))
        return fail(file, node, key, "%s: %s stands here; one value is allowed", name,
                    rg_yaml_kind(node));
    rg_autofree char *text = rg_yaml_text(node);

    if (!text)
        return fail(file, node, key, "%s: the value holds a NUL byte", name);
    const char *value = text;

    if (option->kind == RG_HVD_ON) {
        int is_on = truth(text);
        if (is_on < 0)
            return fail(file, node, key, "%s: \"%.80s\" is neither true nor false", name, text);
        value = is_on ? "1" : "0";
    }
    int rc = rg_hvd_apply(file->run, option, name, value, &cause);

    return rc < 0 ? fail(file, node, key, "%s", cause.text) : 0;
}

static int read_name(const struct file *file, struct fy_node *key, const char *section, char *name)
{
    rg_autofree char *text =
        key && !fy_node_is_alias(key) && fy_node_is_scalar(key) ? rg_yaml_text(key) : NULL;

    if (!text)
        return fail(file, key, NULL, "%s stands here; a key is a name", rg_yaml_kind(key));
    snprintf(name, KEY_MAX, "%s%s%.100s", section, *section ? "." : "", text);
    return 0;
}

static bool is_section(const char *name)
{
    size_t count, n = strlen(name);
    const struct rg_hvd_option *options = rg_hvd_options(&count);

    for (size_t i = 0; i < count; i++) {
        const char *key = options[i].key;
        if (key && strncmp(key, name, n) == 0 && key[n] == '.')
            return true;
    }
    return false;
}

static int read_section(const struct file *file, const char *section, struct fy_node *key,
                        struct fy_node *map)
{
    struct fy_node_pair *pair;
    void *prev = NULL;
    char name[KEY_MAX];
    int rc = 0, count = 0;

    if (!map || (!fy_node_is_alias(map) && rg_yaml_is_null(map)))
        return 0;
    if (fy_node_is_alias(map) || !fy_node_is_mapping(map))
        return fail(file, map, key, "%s: %s stands here; a mapping of keys to values is allowed",
                    section, rg_yaml_kind(map));
    while (rc == 0 && (pair = fy_node_mapping_iterate(map, &prev))) {
        if (++count > RG_HVD_FILE_ITEMS_MAX)
            return fail(file, map, key, "%s: more than %d keys", section, RG_HVD_FILE_ITEMS_MAX);
        rc = read_name(file, fy_node_pair_key(pair), section, name);
        rc = rc < 0 ? rc
                    : apply(file, fy_node_pair_key(pair), fy_node_pair_value(pair), name);
    }
    return rc;
}

static int read_root(const struct file *file, struct fy_node *root)
{
    struct fy_node_pair *pair;
    void *prev = NULL;
    char name[KEY_MAX];
    int rc = 0, count = 0;

    if (fy_node_is_alias(root) || !fy_node_is_mapping(root))
        return fail(file, root, NULL, "%s stands here; this file is a mapping of sections such as "
                    "params", rg_yaml_kind(root));
    while (rc == 0 && (pair = fy_node_mapping_iterate(root, &prev))) {
        struct fy_node *key = fy_node_pair_key(pair), *value = fy_node_pair_value(pair);
        if (++count > RG_HVD_FILE_ITEMS_MAX)
            return fail(file, root, NULL, "more than %d keys", RG_HVD_FILE_ITEMS_MAX);
        rc = read_name(file, key, "", name);
        if (rc == 0)
            rc = is_section(name) ? read_section(file, name, key, value)
                                  : apply(file, key, value, name);
    }
    return rc;
}

int rg_hvd_file_parse(struct rg_horovodrun *run, const char *path, const char *text, size_t nbytes,
                      struct rg_error *err)
{
    const struct file file = { run, { path, err } };
    RG_AUTO_YAML struct fy_document *doc = NULL;

    int rc = rg_yaml_load(path, "a configuration file", text, nbytes, &doc, err);
    struct fy_node *root = rc == 0 && doc ? fy_document_root(doc) : NULL;

    /* An empty file says nothing, which is fine. */
    if (rc < 0 || !root || (!fy_node_is_alias(root) && rg_yaml_is_null(root)))
        return rc;
    return read_root(&file, root);
}

int rg_hvd_file_read(struct rg_horovodrun *run, const char *path, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    size_t nbytes;
    int rc = rg_read_named("--config-file", path, RG_YAML_NBYTES_MAX, &text, &nbytes, err);

    return rc < 0 ? rc : rg_hvd_file_parse(run, path, text, nbytes, err);
}
