/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of what reigen can do: a command that is not here is not there. */
#include "cmd/commands.h"

#include <stddef.h>

#include "cmd/common/args.h"
#include "cmd/common/exit.h"
#include "cmd/compat/compat.h"
#include "cmd/doctor/doctor.h"
#include "cmd/head/head.h"
#include "cmd/help/help.h"
#include "cmd/jobs/jobs.h"
#include "cmd/run/run.h"

static int cmd_help(int argc, char **argv)
{
    return rg_help(rg_commands, argc, argv);
}

static int cmd_version(int argc, char **argv)
{
    int n = rg_args_parse(argc, argv, &(struct rg_arg){ NULL }, 0);

    return n < 0 ? -1 - n : rg_print("reigen " RG_VERSION "\n");
}

const struct rg_command rg_commands[] = {
    { "run", "[OPTION...] [--] COMMAND [ARGUMENT...]", NULL,
      "Run copies of a command, together. `reigen run --help` lists its options.",
      rg_cmd_run, NULL },
    { "head", "--plan FILE", "--plan @file",
      "Run the job that `reigen run --write-plan FILE` has written, without a terminal. "
      "`reigen-agent head` does the same with nothing else of Reigen's; it starts no ranks by ssh.",
      rg_head_main, NULL },
    { "horovodrun", "-np N [FLAG...] COMMAND [ARGUMENT...]", NULL,
      "The same with horovodrun's flags. `horovodrun --help` lists them.",
      rg_cmd_horovodrun, NULL },
    { "srun-docker", "--container=IMAGE --script=FILE [OPTION...]", NULL,
      "Under srun: run a script in containers on the nodes of a Slurm job, with srun_docker.sh's "
      "options. `reigen srun-docker --help` lists them.",
      rg_cmd_srun_docker, &rg_script_srun_docker },
    { "rsh", "[OPTION...] HOST COMMAND [ARGUMENT...]", "@host",
      "Within a job: run a command on one of its hosts, with ssh's arguments.", rg_cmd_rsh, NULL },
    { "doctor", "[OPTION...]", NULL,
      "Look at the hosts of a job, in its containers, and say what is wrong and what to do. It "
      "takes the options of reigen run, such as -H, --image, --require and --json, and starts "
      "nothing. Exit code 1: something failed. With --planes it runs the runtime there, and prints "
      "which data plane serves which operation. With --clean it also removes the containers that "
      "killed jobs of yours have left on their hosts.",
      rg_cmd_doctor, NULL },
    { "jobs", "[--all] [--json]", "--all --json",
      "List your jobs, wherever they were started. --all: and those that ended last.",
      rg_cmd_jobs, NULL },
    { "stop", "JOB|--all", "--all @job",
      "End a job, by the beginning of its id or by its number with Slurm, and remove containers "
      "that it has left.",
      rg_cmd_stop, NULL },
    { "logs", "[-f] [--rank R] JOB", "-f --rank @job",
      "Show what a job has written to --output-dir, to a file or, submitted to Slurm, to its log. "
      "-f: and what follows, until its end. --rank: only this rank's.",
      rg_cmd_logs, NULL },
    { "status", "[--json] JOB", "--json @job",
      "Say what is known of a job: its state, hosts, start, output and exit code.",
      rg_cmd_status, NULL },
    { "explain", "[CODE]", "2 69 70 74 75 76 77 124 125 126 127 130 137 139 143",
      "Say what an exit code means, and what to do.", rg_cmd_explain, NULL },
    { "man", "[--roff] [PAGE]",
      "--roff reigen run head horovodrun srun-docker rsh doctor jobs stop logs status explain man "
      "completion sshd sshconfig run-dock-asuser install-scripts version help job",
      "Show a manual page: every command has one, and so has the job file, by the name job. "
      "--roff: its source, for man -l.",
      rg_cmd_man, NULL },
    { "completion", "SHELL", "bash zsh fish",
      "Print completion for bash, zsh or fish: eval \"$(reigen completion bash)\".",
      rg_cmd_completion, NULL },
    { "sshd", "[-p PORT] [--dir DIR] [-D]", "-p --dir -D",
      "Start a real sshd on port 12345, for mpirun's own ssh; makes the keys in ~/.ssh or DIR that "
      "are missing. -D: stay in the foreground.",
      rg_cmd_sshd, NULL },
    { "sshconfig", "[OPTION...]", NULL,
      "Make what a real sshd in the containers of a Slurm job needs, and a key for it. Also by the "
      "name create_mpisshconfig.sh; `reigen sshconfig --help` lists its options.",
      rg_cmd_sshconfig, &rg_script_sshconfig },
    { "run-dock-asuser", "--container=IMAGE [OPTION...]", NULL,
      "A session in a container of Docker's in which you are who you are outside. Also by the name "
      "run_dock_asuser.sh; `reigen run-dock-asuser --help` lists its options.",
      rg_cmd_run_dock_asuser, &rg_script_run_dock_asuser },
    { "install-scripts", "DIR", "@dir",
      "Make links to reigen in DIR under the names srun_docker.sh, run_dock_asuser.sh and "
      "create_mpisshconfig.sh.",
      rg_cmd_install_scripts, NULL },
    { "version", "", NULL, "Print reigen's version.", cmd_version, NULL },
    { "help", "[COMMAND]",
      "run head horovodrun srun-docker rsh doctor jobs stop logs status explain man completion "
      "sshd sshconfig run-dock-asuser install-scripts version",
      "Print this, or a command's help.", cmd_help, NULL },
    { .name = NULL }
};
