/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the readers of YAML files share: a document from text that is checked first, and where a
 * node stands, so that every error names file, line and column. The nodes are libfyaml's.
 *
 * Ownership: a document is the caller's; RG_AUTO_YAML frees it. Thread rule: any thread, one
 * document at a time. Nothing blocks.
 */
#ifndef RG_SPEC_OPTIONS_YAML_H
#define RG_SPEC_OPTIONS_YAML_H

#include <libfyaml.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define RG_AUTO_YAML rg_cleanup(rg_yaml_free)
void rg_yaml_free(struct fy_document **doc);

/* Parse text, which path names in errors and what describes ("a job file"). 0 and *ret_doc, NULL
 * when the text holds no document; -EINVAL with exit_code 2 and "path:line:column: ..." for what is
 * not UTF-8 text or not YAML; -ENOMEM. */
int rg_yaml_load(const char *path, const char *what, const char *text, size_t nbytes,
                 struct fy_document **ret_doc, struct rg_error *err);

/* Where a node stands, from 1: a collection where its first scalar does, an empty node where
 * fallback does (which may be NULL). */
void rg_yaml_place(struct fy_node *node, struct fy_node *fallback, int *ret_line, int *ret_column);

/* A scalar's text on the heap; NULL for a null, a NUL byte inside it, or when out of memory. */
char *rg_yaml_text(struct fy_node *node);

/* Nothing, ~, null, or no node at all, unquoted. */
bool rg_yaml_is_null(struct fy_node *node);

/* "a list", "a mapping", "an alias", "nothing" or "a value". */
const char *rg_yaml_kind(struct fy_node *node);

#endif
