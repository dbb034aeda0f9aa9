/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen simulate`: what the cost model says of a step of training on any number of hosts. It
 * starts nothing and measures nothing. Main thread.
 */
#ifndef RG_CMD_SIMULATE_COMMAND_H
#define RG_CMD_SIMULATE_COMMAND_H

#include "head/console/command.h"

extern const struct rg_script rg_script_simulate;

/* As struct rg_command says of run. */
int rg_cmd_simulate(int argc, char **argv);

#endif
