/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/jobfile.h"

#include <libfyaml.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"

const struct rg_jobfile_key rg_jobfile_keys[] = {
    {"version", "1", "The schema this file is written in. May be left out."},
    {"command", "LIST|TEXT",
     "What every rank runs: a list with the program and its arguments, or one "
     "text, which sh -c gets. A command on the command line replaces it."},
    {NULL, NULL, NULL}};

struct file {
    struct rg_request *request;
    const char *path;
    struct rg_error *err;
};

static void document_free(struct fy_document **doc)
{
    fy_document_destroy(*doc);
}

/* A collection stands where its first scalar does. */
static struct fy_node *first_scalar(struct fy_node *node)
{
    for (int depth = 0; node && depth < 64 && !fy_node_is_scalar(node); depth++) {
        void *prev = NULL;
        if (fy_node_is_sequence(node))
            node = fy_node_sequence_iterate(node, &prev);
        else
            node = fy_node_pair_key(fy_node_mapping_iterate(node, &prev));
    }
    return node;
}

/* Every error stands where its node does; an empty node stands where its key does. */
static void node_place(struct fy_node *node, struct fy_node *fallback, int *ret_line,
                       int *ret_column)
{
    struct fy_node *scalar = first_scalar(node);
    struct fy_token *token = scalar ? fy_node_get_scalar_token(scalar) : NULL;
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
    enum fy_node_style style = mark ? fy_node_get_style(scalar) : FYNS_ANY;
    bool quoted = style == FYNS_SINGLE_QUOTED || style == FYNS_DOUBLE_QUOTED;

    if (!mark && fallback) {
        node_place(fallback, NULL, ret_line, ret_column);
        return;
    }
    *ret_line = mark ? mark->line + 1 : 1;
    /* The mark of a quoted text is behind the quote. */
    *ret_column = mark ? mark->column + (quoted && mark->column ? 0 : 1) : 1;
}

static rg_printf(4, 5) int fail(const struct file *file, struct fy_node *node, struct fy_node *key,
                                const char *fmt, ...)
{
    char text[RG_ERROR_TEXT_MAX];
    int line, column;
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    node_place(node, key, &line, &column);
    return rg_error_set_exit(file->err, EINVAL, 2, "%s:%d:%d: %s", file->path, line, column, text);
}

/* A scalar's text on the heap; NULL for a null, a NUL byte inside it, or when out of memory. */
static char *scalar_text(struct fy_node *node)
{
    size_t n = 0;
    const char *text = fy_node_get_scalar(node, &n);

    return text && !memchr(text, '\0', n) ? strndup(text, n) : NULL;
}

static bool is_plain_null(struct fy_node *node)
{
    struct fy_token *token = node ? fy_node_get_scalar_token(node) : NULL;
    rg_autofree char *text = NULL;

    if (!node || !token)
        return node == NULL || fy_node_is_scalar(node);
    if (fy_node_get_style(node) != FYNS_PLAIN)
        return false;
    text = scalar_text(node);
    return !text || !*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

static const char *kind_name(struct fy_node *node)
{
    if (!node || fy_node_is_alias(node))
        return node ? "an alias" : "nothing";
    switch (fy_node_get_type(node)) {
    case FYNT_SEQUENCE: return "a list";
    case FYNT_MAPPING: return "a mapping";
    default: return is_plain_null(node) ? "nothing" : "a value";
    }
}

/* The text of a value that must be there, or an error. */
static int need_scalar(const struct file *file, struct fy_node *key, struct fy_node *node,
                       const char *name, const char *allowed, char **ret_text)
{
    if (!node || fy_node_is_alias(node) || !fy_node_is_scalar(node) || is_plain_null(node))
        return fail(file, node, key, "%s: %s stands here; %s is allowed", name, kind_name(node),
                    allowed);
    if (fy_node_get_tag_token(node))
        return fail(file, node, key, "%s: tags (!...) are not part of a job file; leave it out",
                    name);
    *ret_text = scalar_text(node);
    if (!*ret_text)
        return fail(file, node, key, "%s: the value holds a NUL byte", name);
    return 0;
}

/* Call the option's handler; what it says gets the place in front. */
static int apply(const struct file *file, const struct rg_option *option, struct fy_node *key,
                 struct fy_node *node, const char *value)
{
    struct rg_error cause = RG_ERROR_INIT;
    int rc = option->apply(file->request, rg_option_key(option), value, &cause);

    if (rc >= 0)
        return 0;
    fail(file, node, key, "%s", cause.text);
    return rc;
}

static int apply_scalar(const struct file *file, const struct rg_option *option,
                        struct fy_node *key, struct fy_node *node)
{
    rg_autofree char *text = NULL;
    char allowed[80];

    snprintf(allowed, sizeof allowed, "one value (%s)",
             option->arg ? option->arg : "true or false");
    int rc = need_scalar(file, key, node, rg_option_key(option), allowed, &text);

    return rc < 0 ? rc : apply(file, option, key, node, text);
}

static int apply_bool(const struct file *file, const struct rg_option *option, struct fy_node *key,
                      struct fy_node *node)
{
    const char *name = rg_option_key(option);
    rg_autofree char *text = NULL;
    int rc = need_scalar(file, key, node, name, "true or false", &text);

    if (rc < 0)
        return rc;
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
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
    if (node && !is_plain_null(node)) {
        rc = need_scalar(file, key, node, left, "one value", &right);
        if (rc < 0)
            return rc;
    }
    both = right ? rg_strf("%s%c%s", left, sep, right) : strdup(left);
    if (!both)
        return rg_error_set(file->err, ENOMEM, "out of memory");
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

    if (kind == RG_FILE_BOOL)
        return apply_bool(file, option, key, node);
    if (kind != RG_FILE_SCALAR && node && !alias && fy_node_is_sequence(node))
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
            return rg_error_set(file->err, ENOMEM, "out of memory");
        return 0;
    }
    while (rc == 0 && (item = fy_node_sequence_iterate(node, &prev))) {
        char *text = NULL;
        if (command->count == RG_JOBFILE_ITEMS_MAX)
            return fail(file, item, key, "command: more than %d arguments", RG_JOBFILE_ITEMS_MAX);
        rc = need_scalar(file, key, item, "command", "a list of texts", &text);
        if (rc == 0 && rg_strv_take(command, text) < 0)
            return rg_error_set(file->err, ENOMEM, "out of memory");
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
    const char *words[128];
    size_t count, n = 0;
    const struct rg_option *options = rg_options(&count);

    for (size_t i = 0; rg_jobfile_keys[i].name; i++)
        words[n++] = rg_jobfile_keys[i].name;
    for (size_t i = 0; i < count && n < rg_array_len(words) - 1; i++) {
        if (options[i].file != RG_FILE_NONE)
            words[n++] = rg_option_key(&options[i]);
    }
    words[n] = NULL;
    const char *near = rg_str_nearest(name, words);

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
    return rg_error_set_exit(file->err, EINVAL, 2, "%s:1:1: the job file is empty; it is a mapping "
                             "such as \"command: [python, train.py]\"", file->path);
}

static int read_root(const struct file *file, struct fy_document *doc)
{
    struct fy_node *root = fy_document_root(doc);
    struct fy_node_pair *pair;
    void *prev = NULL;
    int rc = 0;

    if (!root || is_plain_null(root))
        return empty_file(file);
    if (fy_node_is_alias(root) || !fy_node_is_mapping(root))
        return fail(file, root, NULL, "%s stands here; a job file is a mapping such as "
                    "\"command: [python, train.py]\"", kind_name(root));
    while (rc == 0 && (pair = fy_node_mapping_iterate(root, &prev)))
        rc = read_pair(file, fy_node_pair_key(pair), fy_node_pair_value(pair));
    return rc;
}

static void diag_free(struct fy_diag **diag)
{
    fy_diag_destroy(*diag);
}

static int syntax_error(const struct file *file, struct fy_diag *diag)
{
    void *prev = NULL;
    struct fy_diag_error *first = fy_diag_errors_iterate(diag, &prev);

    /* Without a document, there is none to find fault with. */
    if (!first)
        return empty_file(file);
    return rg_error_set_exit(file->err, EINVAL, 2, "%s:%d:%d: not YAML: %.200s", file->path,
                             first->line > 0 ? first->line : 1,
                             first->column > 0 ? first->column : 1, first->msg);
}

/* The length of the UTF-8 sequence at text, or 0 when it is none (RFC 3629, section 4). */
static size_t utf8_length(const unsigned char *text, size_t nbytes)
{
    unsigned char c = text[0];
    size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : 4;

    if ((c >= 0x80 && c < 0xc2) || c > 0xf4 || n > nbytes)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((c == 0xe0 && text[1] < 0xa0) || (c == 0xed && text[1] > 0x9f) ||
        (c == 0xf0 && text[1] < 0x90) || (c == 0xf4 && text[1] > 0x8f))
        return 0;
    return n;
}

/* libfyaml 0.7 never returns from some texts that are not UTF-8, so they do not get that far. */
static int check_bytes(const char *path, const char *text, size_t nbytes, struct rg_error *err)
{
    int line = 1, column = 1;

    for (size_t i = 0, n; i < nbytes; i += n, column++) {
        unsigned char c = (unsigned char) text[i];
        n = utf8_length((const unsigned char *) text + i, nbytes - i);
        if (!n || c == 0x7f || (c < 0x20 && c != '\n' && c != '\r' && c != '\t'))
            return rg_error_set_exit(err, EINVAL, 2,
                                     "%s:%d:%d: byte 0x%02x cannot stand in a job file, which is "
                                     "UTF-8 text", path, line, column, c);
        if (c == '\n') {
            line++;
            column = 0;
        }
    }
    return 0;
}

int rg_jobfile_parse(struct rg_request *request, const char *path, const char *text, size_t nbytes,
                     struct rg_error *err)
{
    const struct file file = { request, path, err };
    struct fy_diag_cfg diag_cfg;

    if (nbytes > RG_JOBFILE_NBYTES_MAX)
        return rg_error_set_exit(err, EFBIG, 2, "%s: a job file has at most %u bytes", path,
                                 RG_JOBFILE_NBYTES_MAX);
    int rc = check_bytes(path, text, nbytes, err);

    if (rc < 0)
        return rc;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    rg_cleanup(diag_free) struct fy_diag *diag = fy_diag_create(&diag_cfg);

    if (!diag)
        return rg_error_set(err, ENOMEM, "out of memory");
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = { .flags = FYPCF_QUIET | FYPCF_JSON_NONE, .diag = diag };
    rg_cleanup(document_free) struct fy_document *doc =
        fy_document_build_from_string(&cfg, text, nbytes);

    if (!doc)
        return syntax_error(&file, diag);
    request->in_file = true;
    rc = read_root(&file, doc);

    request->in_file = false;
    return rc;
}

int rg_jobfile_read(struct rg_request *request, const char *path, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    size_t nbytes;
    int rc = rg_read_file(path, RG_JOBFILE_NBYTES_MAX, &text, &nbytes);

    if (rc < 0)
        return rg_error_set_exit(err, -rc, 2, "cannot read job file %s: %s", path, strerror(-rc));
    return rg_jobfile_parse(request, path, text, nbytes, err);
}
