/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen config`: shows what the user's configuration (job/config/config.h) and the environment
 * say of options, and where. All of its profiles are judged, as the options' handlers do.
 *
 * Thread rule: main thread. Blocks on the file, and on those that it names.
 */
#ifndef RG_CMD_CONFIG_COMMAND_H
#define RG_CMD_CONFIG_COMMAND_H

/* As struct rg_command says of run. */
int rg_cmd_config(int argc, char **argv);

#endif
