/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen pai`: says what is wrong with a job file of OpenPAI, and writes it in the other version
 * of the language. It asks no server.
 *
 * Thread rule: main thread.
 */
#ifndef RG_CMD_PAI_COMMAND_H
#define RG_CMD_PAI_COMMAND_H

/* As struct rg_command says of run. */
int rg_cmd_pai(int argc, char **argv);

#endif
