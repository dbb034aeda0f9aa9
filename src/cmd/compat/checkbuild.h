/* SPDX-License-Identifier: Apache-2.0 */
/*
 * horovodrun --check-build: what there is, in horovodrun's layout. Frameworks are those that python
 * finds: the python beside this program (a virtual environment's), else the first python3 or python
 * of PATH. Nothing is imported, so it takes some tens of milliseconds and cannot fail for a
 * framework's own reasons.
 *
 * Main thread; blocks on the child, which is python.
 */
#ifndef RG_CMD_COMPAT_CHECKBUILD_H
#define RG_CMD_COMPAT_CHECKBUILD_H

#include "base/buf.h"

/* Append the text. Without a python no framework is marked, and a line says so. */
void rg_checkbuild_print(struct rg_buf *text);

#endif
