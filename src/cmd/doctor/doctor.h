/* SPDX-License-Identifier: Apache-2.0 */
/* `reigen doctor`: looks at the hosts of a job and says what is wrong there. Main thread. */
#ifndef RG_CMD_DOCTOR_DOCTOR_H
#define RG_CMD_DOCTOR_DOCTOR_H

/* As struct rg_command says of run. Blocks until the hosts have answered. */
int rg_cmd_doctor(int argc, char **argv);

#endif
