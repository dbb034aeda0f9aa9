/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of remote commands: the agent's program under the name rsh or ssh, or `reigen-agent
 * rsh`. It asks the agent of this host (REIGEN_AGENT_SOCKET), passes standard input and output, and
 * ends as the command did. What ends it ends the command, too: the agent sees the socket close.
 *
 * Exit codes: the command's; 128 + N when signal N ended it; 255, with a line on standard error,
 * when there is no command to speak of, as ssh does.
 *
 * Thread rule: rg_rsh_main is a program of its own, and blocks.
 */
#ifndef RG_AGENT_RSH_RSH_H
#define RG_AGENT_RSH_RSH_H

/* argv[0] is the command's name. Returns the exit code. */
int rg_rsh_main(int argc, char **argv);

#endif
