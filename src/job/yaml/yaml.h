/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the readers of YAML files share: a document from text that is checked first, and where a
 * node stands, so that every error names file, line and column. The nodes are libfyaml's.
 *
 * Ownership: a document is the caller's; RG_AUTO_YAML frees it. Thread rule: any thread, one
 * document at a time. Nothing blocks.
 */
#ifndef RG_JOB_YAML_YAML_H
#define RG_JOB_YAML_YAML_H

#include <libfyaml.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define RG_YAML_NBYTES_MAX (1u << 20)

#define RG_AUTO_YAML rg_cleanup(rg_yaml_free)
void rg_yaml_free(struct fy_document **doc);

/* Where a text is no YAML, from 1, and why. */
struct rg_yaml_fault {
    int line, column;
    char text[256];
};

/* Parse text; what describes it ("a job file"). 0 and *ret_doc, NULL when the text holds no
 * document; -EINVAL and *ret_fault for what is not UTF-8 text or not YAML; -ENOMEM. The document
 * reads in the text, which must stay as long. */
int rg_yaml_parse(const char *what, const char *text, size_t nbytes, struct fy_document **ret_doc,
                  struct rg_yaml_fault *ret_fault);

/* The same with errors of a file that path names: -EINVAL with exit_code 2 and
 * "path:line:column: ..."; -EFBIG beyond RG_YAML_NBYTES_MAX, likewise; -ENOMEM. */
int rg_yaml_load(const char *path, const char *what, const char *text, size_t nbytes,
                 struct fy_document **ret_doc, struct rg_error *err);

/* The file that is being read. */
struct rg_yaml {
    const char *path;
    struct rg_error *err;
};

/* Where node stands, from 1; a collection stands where its first scalar does, and an empty node
 * where key does (which may be NULL). */
void rg_yaml_place(struct fy_node *node, struct fy_node *key, int *ret_line, int *ret_column);

/* "path:line:column: ...", exit_code 2, with the place of rg_yaml_place. Returns -EINVAL. */
int rg_yaml_fail(const struct rg_yaml *file, struct fy_node *node, struct fy_node *key,
                 const char *fmt, ...) rg_printf(4, 5);

/* A scalar's text on the heap; NULL for a null, a NUL byte inside it, or when out of memory. */
char *rg_yaml_text(struct fy_node *node);

/* Nothing, ~, null, or no node at all, unquoted. */
bool rg_yaml_is_null(struct fy_node *node);

/* "a list", "a mapping", "an alias", "nothing" or "a value". */
const char *rg_yaml_kind(struct fy_node *node);

#endif
