/* SPDX-License-Identifier: Apache-2.0 */
/* Strings in JSON. Thread rule: none of this keeps state; a buffer belongs to one thread. */
#ifndef RG_BASE_JSON_H
#define RG_BASE_JSON_H

#include "base/buf.h"

/* Append text as a JSON string (RFC 8259), with its quotes: for --json's events, the timeline and
 * reigen_diagnose. Names come from users and may hold any byte: what is not UTF-8 (RFC 3629)
 * becomes '?', so the result is always valid. What steers a terminal (base/say.h) is escaped, as
 * people look at JSON, too. Errors stick to the buffer. */
void rg_json_put_text(struct rg_buf *buf, const char *text);
/* The same of so many bytes; a NUL is one of them. */
void rg_json_put_bytes(struct rg_buf *buf, const void *bytes, size_t nbytes);

/* The bytes of the UTF-8 sequence at bytes, of which nbytes (at least 1) are there; 0 when it is
 * none. */
size_t rg_utf8_nbytes(const void *bytes, size_t nbytes);
/* The code point where the UTF-8 sequence of n bytes at bytes steers a terminal, though it is no
 * ASCII; else 0. */
unsigned rg_shown_steers(const void *bytes, size_t n);
/* Whether all of it is UTF-8, so that it can be put as it is. */
bool rg_json_is_text(const void *bytes, size_t nbytes);

#endif
