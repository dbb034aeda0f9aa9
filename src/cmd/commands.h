/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all commands, for main.c, tables.c and tests. */
#ifndef RG_CMD_COMMANDS_H
#define RG_CMD_COMMANDS_H

#include "head/console/command.h"

/* Ends with a NULL name. Constant. */
extern const struct rg_command rg_commands[];

#endif
