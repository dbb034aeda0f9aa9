/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What everybody who writes manifests for Kubernetes needs: a tree as YAML, and words that the API
 * server would refuse.
 *
 * Thread rule: any thread; no state. Nothing blocks.
 */
#ifndef RG_JOB_YAML_MANIFEST_H
#define RG_JOB_YAML_MANIFEST_H

#include <jansson.h>

#include "base/buf.h"
#include "base/error.h"

#define RG_MANIFEST_LABEL_MAX 63 /* of a DNS label, such as a pod's host name */

/* A mapping as a YAML document in blocks, appended. 0 or -ENOMEM. */
int rg_manifest_put(const json_t *value, struct rg_buf *text);

/* A YAML or JSON text as a tree, the caller's; NULL: there is nothing in it that JSON could say.
 * path and what are as rg_yaml_load says, and so is what it returns. */
int rg_manifest_read(const char *path, const char *what, const char *text, size_t nbytes,
                     json_t **ret_value, struct rg_error *err);

/* A quantity as Kubernetes writes it, such as 2, 500m, 1.5 or 8Gi. what names it in the error, as
 * "--cpu". 0 or -EINVAL. */
int rg_manifest_quantity(const char *what, const char *value, struct rg_error *err);

/* A DNS label (RFC 1123) of at most max characters: a-z, 0-9 and dashes within. 0 or -EINVAL. */
int rg_manifest_label(const char *what, const char *value, size_t max, struct rg_error *err);

/* The name of an object, such as a Secret: DNS labels with dots between them (RFC 1123), at most
 * 253 characters. 0 or -EINVAL. */
int rg_manifest_object(const char *what, const char *value, struct rg_error *err);

#endif
