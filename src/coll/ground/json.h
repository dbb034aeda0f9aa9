/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that goes into JSON (RFC 8259), for the timeline and for reigen_diagnose.
 *
 * Thread rule: none of this keeps state; a buffer belongs to one thread at a time.
 */
#ifndef RG_COLL_GROUND_JSON_H
#define RG_COLL_GROUND_JSON_H

#include "base/buf.h"

/* Append text as a JSON string, with its quotes. Names come from users and may hold any byte: what
 * is not UTF-8 (RFC 3629) becomes '?', so the result is always valid. Errors stick to the
 * buffer. */
void rg_json_put_text(struct rg_buf *buf, const char *text);

#endif
