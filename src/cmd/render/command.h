/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen render`: prints what render/render.h makes, as YAML that kubectl takes, and what its
 * formats and their parameters are. It asks no cluster.
 *
 * Thread rule: main thread.
 */
#ifndef RG_CMD_RENDER_COMMAND_H
#define RG_CMD_RENDER_COMMAND_H

/* As struct rg_command says of run. */
int rg_cmd_render(int argc, char **argv);

#endif
