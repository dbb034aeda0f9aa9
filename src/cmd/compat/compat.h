/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands by which others' habits go on: horovodrun, torchrun, srun_docker.sh,
 * run_dock_asuser.sh and create_mpisshconfig.sh, ssh between the hosts of a job, and an sshd for
 * mpirun's own.
 *
 * Thread rule: main thread; they block until they are done.
 */
#ifndef RG_CMD_COMPAT_COMPAT_H
#define RG_CMD_COMPAT_COMPAT_H

#include "head/console/command.h"

extern const struct rg_script rg_script_torchrun;
extern const struct rg_script rg_script_srun_docker;
extern const struct rg_script rg_script_run_dock_asuser;
extern const struct rg_script rg_script_sshconfig;

/* As struct rg_command says of run. */
int rg_cmd_horovodrun(int argc, char **argv);
int rg_cmd_torchrun(int argc, char **argv);
int rg_cmd_srun_docker(int argc, char **argv);
int rg_cmd_rsh(int argc, char **argv);
int rg_cmd_sshd(int argc, char **argv);
int rg_cmd_sshconfig(int argc, char **argv);
int rg_cmd_run_dock_asuser(int argc, char **argv);
int rg_cmd_install_scripts(int argc, char **argv);

#endif
