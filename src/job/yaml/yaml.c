/* SPDX-License-Identifier: Apache-2.0 */
/* People write these files by hand, so every error has a place; libfyaml knows it but for the odd
 * case, and some bytes must not reach it. */
#include "job/yaml/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/json.h"
#include "base/str.h"

void rg_yaml_free(struct fy_document **doc)
{
    fy_document_destroy(*doc);
}

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

void rg_yaml_place(struct fy_node *node, struct fy_node *fallback, int *ret_line, int *ret_column)
{
    struct fy_node *scalar = first_scalar(node);
    struct fy_token *token = scalar ? fy_node_get_scalar_token(scalar) : NULL;
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
    enum fy_node_style style = mark ? fy_node_get_style(scalar) : FYNS_ANY;
    bool quoted = style == FYNS_SINGLE_QUOTED || style == FYNS_DOUBLE_QUOTED;

    if (!mark && fallback) {
        rg_yaml_place(fallback, NULL, ret_line, ret_column);
        return;
    }
    *ret_line = mark ? mark->line + 1 : 1;
    /* The mark of a quoted text is behind the quote. */
    *ret_column = mark ? mark->column + (quoted && mark->column ? 0 : 1) : 1;
}

int rg_yaml_fail(const struct rg_yaml *file, struct fy_node *node, struct fy_node *key,
                 const char *fmt, ...)
{
    char text[RG_ERROR_TEXT_MAX];
    int line, column;
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    rg_yaml_place(node, key, &line, &column);
    return rg_error_set_exit(file->err, EINVAL, RG_EXIT_USAGE, "%s:%d:%d: %s", file->path, line,
                             column, text);
}

char *rg_yaml_text(struct fy_node *node)
{
    size_t n = 0;
    const char *text = fy_node_get_scalar(node, &n);

    return text && !memchr(text, '\0', n) ? strndup(text, n) : NULL;
}

bool rg_yaml_is_null(struct fy_node *node)
{
    struct fy_token *token = node ? fy_node_get_scalar_token(node) : NULL;
    rg_autofree char *text = NULL;

    if (!node || !token)
        return node == NULL || fy_node_is_scalar(node);
    if (fy_node_get_style(node) != FYNS_PLAIN)
        return false;
    text = rg_yaml_text(node);
    return !text || !*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

const char *rg_yaml_kind(struct fy_node *node)
{
    if (!node || fy_node_is_alias(node))
        return node ? "an alias" : "nothing";
    switch (fy_node_get_type(node)) {
    case FYNT_SEQUENCE: return "a list";
    case FYNT_MAPPING: return "a mapping";
    default: return rg_yaml_is_null(node) ? "nothing" : "a value";
    }
}

static void diag_free(struct fy_diag **diag)
{
    fy_diag_destroy(*diag);
}

/* libfyaml 0.7 never returns from some texts that are not UTF-8, so they do not get that far. */
static int check_bytes(const char *what, const char *text, size_t nbytes,
                       struct rg_yaml_fault *ret_fault)
{
    int line = 1, column = 1;

    for (size_t i = 0, n; i < nbytes; i += n, column++) {
        unsigned char c = (unsigned char) text[i];
        n = rg_utf8_nbytes(text + i, nbytes - i);
        if (!n || c == 0x7f || (c < 0x20 && c != '\n' && c != '\r' && c != '\t')) {
            *ret_fault = (struct rg_yaml_fault){ line, column, "" };
            snprintf(ret_fault->text, sizeof ret_fault->text,
                     "byte 0x%02x cannot stand in %s, which is UTF-8 text", c, what);
            return -EINVAL;
        }
        if (c == '\n') {
            line++;
            column = 0;
        }
    }
    return 0;
}

int rg_yaml_parse(const char *what, const char *text, size_t nbytes, struct fy_document **ret_doc,
                  struct rg_yaml_fault *ret_fault)
{
    struct fy_diag_cfg diag_cfg;
    void *prev = NULL;

    if (check_bytes(what, text, nbytes, ret_fault) < 0)
        return -EINVAL;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    rg_cleanup(diag_free) struct fy_diag *diag = fy_diag_create(&diag_cfg);

    if (!diag)
        return -ENOMEM;
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = { .flags = FYPCF_QUIET | FYPCF_JSON_NONE, .diag = diag };
    struct fy_document *doc = fy_document_build_from_string(&cfg, text, nbytes);
    const struct fy_diag_error *first = doc ? NULL : fy_diag_errors_iterate(diag, &prev);

    /* Without a document, there may be none to find fault with. */
    if (first) {
        *ret_fault = (struct rg_yaml_fault){ first->line > 0 ? first->line : 1,
                                             first->column > 0 ? first->column : 1, "" };
        snprintf(ret_fault->text, sizeof ret_fault->text, "not YAML: %.200s", first->msg);
        return -EINVAL;
    }
    *ret_doc = doc;
    return 0;
}

int rg_yaml_load(const char *path, const char *what, const char *text, size_t nbytes,
                 struct fy_document **ret_doc, struct rg_error *err)
{
    struct rg_yaml_fault fault;

    if (nbytes > RG_YAML_NBYTES_MAX)
        return rg_error_set_exit(err, EFBIG, RG_EXIT_USAGE, "%s: %s has at most %u bytes", path,
                                 what, RG_YAML_NBYTES_MAX);
    int rc = rg_yaml_parse(what, text, nbytes, ret_doc, &fault);

    if (rc == -ENOMEM)
        return rg_error_memory(err);
    return rc < 0 ? rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%s:%d:%d: %s", path, fault.line,
                                      fault.column, fault.text) : 0;
}
