/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of reigen: one file each, one line each in rg_commands (commands.c). From the table
 * come `reigen help`, the man page and the shells' completion.
 *
 * Each run function gets the command's own name as argv[0], prints, and returns the exit code. Main
 * thread.
 */
#ifndef RG_CMD_COMMANDS_H
#define RG_CMD_COMMANDS_H

struct rg_command {
    const char *name;
    const char *args;      /* "CODE" */
    const char *completes; /* as in struct rg_option */
    const char *summary;   /* one line */
    int (*run)(int argc, char **argv);
};

#define RG_COMMANDS_MAX 32

/* Ends with a NULL name. */
extern const struct rg_command rg_commands[];

int rg_cmd_run(int argc, char **argv);
int rg_cmd_horovodrun(int argc, char **argv);
int rg_cmd_srun_docker(int argc, char **argv);
int rg_cmd_rsh(int argc, char **argv);
int rg_cmd_doctor(int argc, char **argv);
int rg_cmd_jobs(int argc, char **argv);
int rg_cmd_stop(int argc, char **argv);
int rg_cmd_logs(int argc, char **argv);
int rg_cmd_status(int argc, char **argv);
int rg_cmd_explain(int argc, char **argv);
int rg_cmd_completion(int argc, char **argv);
int rg_cmd_man(int argc, char **argv);
int rg_cmd_help(int argc, char **argv);
int rg_cmd_sshd(int argc, char **argv);
int rg_cmd_sshconfig(int argc, char **argv);
int rg_cmd_run_dock_asuser(int argc, char **argv);
int rg_cmd_install_scripts(int argc, char **argv);
int rg_cmd_version(int argc, char **argv);

#endif
