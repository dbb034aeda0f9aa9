/* SPDX-License-Identifier: Apache-2.0 */
/* src/cmd/tables.c is linked with all commands before there is any text; so it has none. */
#include "cmd/help/texts.h"

#include <stddef.h>

const struct rg_text rg_manual_pages[] = { { NULL, NULL, NULL } };
const struct rg_text rg_completions[] = { { NULL, NULL, NULL } };
