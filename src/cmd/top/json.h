/* SPDX-License-Identifier: Apache-2.0 */
/* A reading as an object of JSON, as docs/top.md says. Thread rule: any thread. */
#ifndef RG_CMD_TOP_JSON_H
#define RG_CMD_TOP_JSON_H

#include <jansson.h>

#include "cmd/top/watch.h"

/* For the caller to release; NULL: there was no memory. */
json_t *rg_top_json(const struct rg_top_watch *watch);

#endif
