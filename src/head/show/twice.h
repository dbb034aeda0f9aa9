/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two failures side by side, which are the same: why a job was not started again.
 *
 * Any thread; nothing blocks.
 */
#ifndef RG_HEAD_SHOW_TWICE_H
#define RG_HEAD_SHOW_TWICE_H

#include "base/buf.h"
#include "launch/verdict/verdict.h"

/* Append a line, and one for each of the two, for a person. Nothing for NULL. */
void rg_twice_print(const struct rg_failure *twice, struct rg_buf *text);
/* Append ",\"twice\":[{...},{...}]": rank (or null), host, how ("exit", "signal"), value, kind,
 * error, epoch and step (or null), seconds. Nothing for NULL. */
void rg_twice_put_json(const struct rg_failure *twice, struct rg_buf *text);

#endif
