/* SPDX-License-Identifier: Apache-2.0 */
/* reigen report. Thread rule: main thread. */
#ifndef RG_CMD_REPORT_REPORT_H
#define RG_CMD_REPORT_REPORT_H

/* As struct rg_command says of run. */
int rg_cmd_report(int argc, char **argv);

#endif
