/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --json of reigen's commands prints, by jansson. Events of a job are written by base/buf.h,
 * since the head in reigen-agent has no room for jansson. Thread rule: any thread.
 */
#ifndef RG_HEAD_CONSOLE_JSON_H
#define RG_HEAD_CONSOLE_JSON_H

#include <jansson.h>

#include "base/buf.h"

/* A string even of text that is no UTF-8, in which other bytes become '?'; NULL is "". NULL where
 * there is no memory. */
json_t *rg_json_text(const char *text);

/* Append the value (taken; NULL: there was no memory) and a newline to text, written by jansson's
 * flags, with escapes for all that steers a terminal (base/say.h). Out of memory shows in
 * rg_buf_status. */
void rg_json_put(struct rg_buf *text, json_t *take_value, size_t flags);

#endif
