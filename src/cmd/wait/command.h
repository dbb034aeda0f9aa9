/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen wait-workers`: looks up the head's name, which reigen-agent cannot, and runs
 * `reigen-agent wait-workers` (wait.h) in its place.
 *
 * Thread rule: main thread. A look-up may block.
 */
#ifndef RG_CMD_WAIT_COMMAND_H
#define RG_CMD_WAIT_COMMAND_H

/* As struct rg_command says of run. */
int rg_cmd_wait_workers(int argc, char **argv);

#endif
