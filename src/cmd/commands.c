/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of what reigen can do: a command that is not here is not there. */
#include "cmd/commands.h"

#include <stddef.h>

#include "cmd/bench/bench.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "cmd/compat/compat.h"
#include "cmd/config/command.h"
#include "cmd/doctor/doctor.h"
#include "head/head.h"
#include "cmd/help/help.h"
#include "cmd/jobs/jobs.h"
#include "cmd/pai/command.h"
#include "cmd/render/command.h"
#include "cmd/report/report.h"
#include "cmd/run/run.h"
#include "cmd/simulate/command.h"
#include "cmd/top/top.h"
#include "cmd/wait/command.h"

/* Of commands that find a job wherever it was started. */
#define PLACE "[--namespace NAME] [--context NAME] [--pai-server URL] [--pai-user NAME]"
#define PLACE_WORDS "--namespace --context --pai-server --pai-user"

static const struct rg_command_option place_options[] = {
    { "--namespace NAME", "Look for the job in this namespace of Kubernetes, by its name, wherever "
                          "it was started." },
    { "--context NAME", "Look for the job in the cluster of this context of kubectl's." },
    { "--pai-server URL", "Look for the job on this OpenPAI, by its name." },
    { "--pai-user NAME", "Look among this user's jobs there. The default is who asks." },
    { NULL, NULL },
};

static const struct rg_command_option doctor_options[] = {
    { "--planes", "Run the runtime on the hosts, too, and print which data plane serves which "
                  "operation." },
    { "--require WHAT,...", "Fail unless every host has this, as in reigen run." },
    { "--clean", "Also remove the containers that killed jobs of yours have left on their hosts." },
    { "--json", "Print one JSON document with all that was found." },
    { "-v, --verbose", "On a terminal, list the checks that are well, too." },
    { "any other", "As in reigen run: -H, --hostfile, --on, --image, --config and so on say which "
                   "hosts, and in which containers." },
    { NULL, NULL },
};

static const struct rg_command_option plan_options[] = {
    { "--json", "Print one JSON document." },
    { "any other", "As in reigen run." },
    { NULL, NULL },
};

static const struct rg_command_option jobs_options[] = {
    { "--all", "List those that ended last, too." },
    { "--json", "Print one JSON array, with an object for each job." },
    { NULL, NULL },
};

static const struct rg_command_option stop_options[] = {
    { "--all", "End all your jobs." },
    { NULL, NULL },
};

static const struct rg_command_option logs_options[] = {
    { "-f", "Show what follows, too, until the job has ended." },
    { "--rank R", "Show only what this rank wrote." },
    { NULL, NULL },
};

static const struct rg_command_option attach_options[] = {
    { "--tail LINES", "Of what was written before, show only so many lines." },
    { NULL, NULL },
};

static const struct rg_command_option status_options[] = {
    { "--json", "Print one JSON object." },
    { NULL, NULL },
};

static const struct rg_command_option top_options[] = {
    { "-n, --readings COUNT", "End after so many readings. The default is 1 where standard output "
                              "is no terminal." },
    { "--json", "Print each reading as one line, a JSON object for each job." },
    { NULL, NULL },
};

static const struct rg_command_option report_options[] = {
    { "-o, --output FILE", "Write the page to FILE, or - for standard output. The default is "
                           "report.html in the first record." },
    { "--seconds FROM..TO", "What to draw of the job's timeline, in seconds since it began. The "
                            "default is its last steps." },
    { NULL, NULL },
};

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
      "Run copies of a command, together. `reigen run --help` lists the options that people use "
      "most, and `reigen run --help all` all of them.",
      rg_cmd_run, NULL, .brief = "run copies of a command, together", .common = true,
      .run_options = true },
    { "plan", "[OPTION...] [--] COMMAND [ARGUMENT...]", NULL,
      "Say what would become of a job, before anything of it is made; it takes the options of "
      "reigen run. On Kubernetes: whether the cluster would take it, whether there is room now, "
      "and what stands in its way. On this computer: whether it would start. Elsewhere: what "
      "--dry-run prints. Exit code 75: it would have to wait.",
      rg_cmd_plan, NULL, .brief = "say what would become of a job", .common = true,
      .run_options = true, .options = plan_options },
    { "head", "--plan FILE", "--plan @file",
      "Run the job that `reigen run --write-plan FILE` has written, without a terminal. "
      "`reigen-agent head` does the same with nothing else of Reigen's; it starts no ranks by ssh.",
      rg_head_main, NULL, .brief = "run a job from a plan's file" },
    { "horovodrun", "-np N [FLAG...] COMMAND [ARGUMENT...]", NULL,
      "The same with horovodrun's flags. `horovodrun --help` lists them.",
      rg_cmd_horovodrun, NULL, .brief = "run copies of a command with Horovod's flags",
      .common = true },
    { "torchrun", "[OPTION...] SCRIPT [ARGUMENT...]", NULL,
      "The same with the flags of PyTorch's torchrun, from one command for all hosts. `reigen "
      "torchrun --help` lists them.",
      rg_cmd_torchrun, .script = &rg_script_torchrun, .common = true },
    { "srun-docker", "--container=IMAGE --script=FILE [OPTION...]", NULL,
      "Under srun: run a script in containers on the nodes of a Slurm job, with srun_docker.sh's "
      "options. `reigen srun-docker --help` lists them.",
      rg_cmd_srun_docker, .script = &rg_script_srun_docker },
    { "rsh", "[OPTION...] HOST COMMAND [ARGUMENT...]", "@host",
      "Within a job: run a command on one of its hosts, with ssh's arguments.",
      rg_cmd_rsh, NULL, .brief = "run a command on a host of the job" },
    { "doctor", "[OPTION...]", NULL,
      "Look at the hosts of a job, in its containers, and say what is wrong and what to do. It "
      "takes the options of reigen run, such as -H, --image, --require and --json, and starts "
      "nothing. Exit code 1: something failed. With --planes it runs the runtime there, and prints "
      "which data plane serves which operation. With --clean it also removes the containers that "
      "killed jobs of yours have left on their hosts.",
      rg_cmd_doctor, NULL, .brief = "look at the hosts of a job, and say what is wrong",
      .common = true, .run_options = true, .options = doctor_options },
    { "bench", "[OPTION...]", NULL,
      "Measure how long the runtime's operations take, by size, operation, type and plane, under "
      "any launcher, beside MPI or gloo if asked; `reigen bench --help` lists its options.",
      rg_cmd_bench, .script = &rg_script_bench, .common = true },
    { "simulate", "--model NAME|--from SCRIPT [OPTION...] [-- COMMAND...]", NULL,
      "Predict how long a step of training takes on so many hosts and such a network, by the cost "
      "model that the runtime chooses its algorithms by: of a known model, or of your own script, "
      "which is recorded; `reigen simulate --help` lists its options.",
      rg_cmd_simulate, .script = &rg_script_simulate },
    { "jobs", "[--all] [--json]", "--all --json",
      "List your jobs, wherever they were started. --all: and those that ended last.",
      rg_cmd_jobs, NULL, .brief = "list your jobs", .common = true, .options = jobs_options },
    { "stop", PLACE " JOB|--all", "--all " PLACE_WORDS " @job",
      "End a job, by the beginning of its id, by its number with Slurm or by its name on "
      "Kubernetes or OpenPAI, and remove containers that it has left.",
      rg_cmd_stop, NULL, .brief = "end a job", .common = true, .options = stop_options,
      .shared = place_options },
    { "drain", "[--deadline TIME] [--force] JOB HOST", "--deadline --force @job",
      "Let a host go from an elastic job, which goes on without it. Its ranks leave at their next "
      "commit, and it is not used again; the command ends when it is free. --deadline: ranks that "
      "are still there after TIME are ended. --force: even if fewer than --min-np ranks are left; "
      "they save their work, and if no other host can come, the job ends with code 75.",
      rg_cmd_drain, NULL, .brief = "let a host go from an elastic job" },
    { "logs", "[-f] [--rank R] " PLACE " [JOB]",
      "-f --rank " PLACE_WORDS " @job",
      "Show what a job has written to --output-dir, to a file or, with --detach, Slurm, Kubernetes "
      "or OpenPAI, to its log. -f: and what follows, until its end. --rank: only this rank's. "
      "Without JOB: the only one that runs.",
      rg_cmd_logs, NULL, .brief = "show the output of a job", .common = true,
      .options = logs_options, .shared = place_options },
    { "attach", "[--tail LINES] " PLACE " [JOB]",
      "--tail " PLACE_WORDS " @job",
      "Stay with a job until its end, as the reigen run that started it: show what it has written "
      "and what follows, and end with its exit code. Ctrl-C leaves it alone. --tail: of what was "
      "written before, only so many lines. Without JOB: the only one that runs.",
      rg_cmd_attach, NULL, .brief = "stay with a job", .common = true,
      .options = attach_options, .shared = place_options },
    { "status", "[--json] " PLACE " [JOB]",
      "--json " PLACE_WORDS " @job",
      "Say what is known of a job: its state, hosts, start, output and exit code; of an elastic "
      "job, which ranks there are and which hosts are not used. Without JOB: the only one that "
      "runs.",
      rg_cmd_status, NULL, .brief = "say what has become of a job", .common = true,
      .options = status_options, .shared = place_options },
    { "top", "[-n COUNT] [--json] " PLACE " [JOB]",
      "-n --json " PLACE_WORDS " @job",
      "Show once a second what the ranks of a running job do: steps, the share of time in "
      "communication, who is waited for, bytes, processors and memory. Without JOB: all jobs, of "
      "which Enter opens one. Elsewhere than on a terminal: one reading, as a table.",
      rg_cmd_top, NULL, .brief = "show what the ranks of a job do", .common = true,
      .options = top_options, .shared = place_options },
    { "render", "[FORMAT NAME [--PARAMETER VALUE]... [-- COMMAND]] [-o FILE]", "@render",
      "Print a manifest for Kubernetes, which kubectl apply -f - takes. Without arguments it lists "
      "the formats; `reigen render FORMAT --describe` lists the parameters of one.",
      rg_cmd_render, NULL, .brief = "print a manifest for Kubernetes" },
    { "pai", "check [--json] FILE | convert --to v1|v2 [OPTION...] FILE",
      "check convert --json --to -o --keep-sleep --image-has-reigen --agent-url --agent-path @file",
      "Work with a job file of OpenPAI: JSON of API v1, or YAML of protocol v2. check says what is "
      "wrong with it, with line and column; exit code 2: it has errors. convert prints it in the "
      "other version, and says what that changes. A sleep before a command becomes what waits for "
      "the other tasks: wait-workers with --image-has-reigen, --agent-path PATH or --agent-url "
      "URL#sha256=HEX, else a loop of a shell. --keep-sleep: it stays.",
      rg_cmd_pai, NULL, .brief = "check and convert job files of OpenPAI" },
    { "wait-workers",
      "[--no-ssh] [--hosts HOSTS|--head HOST] [OPTION...]",
      "--ssh --no-ssh --hosts --hostfile --head --name --port --start-timeout --quiet",
      "In a job's script, in the place of a sleep before mpirun: wait until all workers are ready. "
      "With --ssh, ssh to each works; with --no-ssh, each runs wait-workers, too, and has called "
      "with the key of REIGEN_KEY or REIGEN_KEY_FILE. A worker stays until the head's task ends. "
      "In a task of OpenPAI all hosts are known; else --hosts or --hostfile names the workers, and "
      "on a worker --head the head, and --name what the head calls it; --port is the head's. Exit "
      "code 124: not ready within --start-timeout (300 s), and who is missing is named.",
      rg_cmd_wait_workers, NULL, .brief = "wait on the head of a job until all workers are ready" },
    { "report", "[-o FILE] [--seconds FROM..TO] " PLACE " DIR|JOB [OTHER]",
      "-o --seconds " PLACE_WORDS " @dir @job",
      "Make a page of HTML of what `reigen run --record DIR` has recorded: how the job ended and "
      "why, how fast it was, who was waited for, some seconds of its timeline, who ran where, and "
      "the last lines of each rank. The page needs no server. It can be made while the job runs; "
      "of a JOB whose launcher Slurm or Kubernetes runs, the record is copied to JOB.record first. "
      "With OTHER, another record or job: what changed from the first to the second. Its path is "
      "printed.",
      rg_cmd_report, NULL, .brief = "make a page of what a job did", .options = report_options,
      .shared = place_options },
    { "config", "[--profile NAME] [--all] [--json]", "--profile --all --json",
      "Show what your configuration, ~/.config/reigen/config, and the environment say of options, "
      "with the line or the variable that says so, and judge all of it. --profile: with this "
      "profile. --all: and the options of which nothing is said.",
      rg_cmd_config, NULL, .brief = "show your usual options, and where each is from",
      .common = true },
    { "explain", "[CODE]", "2 69 70 74 75 76 77 124 125 126 127 130 137 139 143",
      "Say what an exit code means, and what to do.",
      rg_cmd_explain, NULL, .brief = "say what an exit code means", .common = true },
    { "man", "[--roff] [PAGE]",
      "--roff reigen run plan head horovodrun torchrun srun-docker rsh doctor bench simulate jobs "
      "stop drain logs attach status top render pai wait-workers report config explain man "
      "completion sshd sshconfig run-dock-asuser install-scripts version help job",
      "Show a manual page: every command has one, and so has the job file, by the name job. "
      "--roff: its source, for man -l.",
      rg_cmd_man, NULL, .brief = "show a manual page" },
    { "completion", "SHELL", "bash zsh fish",
      "Print completion for bash, zsh or fish: eval \"$(reigen completion bash)\".",
      rg_cmd_completion, NULL, .brief = "print completion for a shell" },
    { "sshd", "[-p PORT] [--dir DIR] [-D] [--as-sshd] [OPTION...]", "-p --dir -D --as-sshd",
      "Start a real sshd on port 12345, for mpirun's own ssh; makes the keys in ~/.ssh or DIR that "
      "are missing. -D: stay in the foreground. It takes all options of sshd's; with -f, -h and "
      "-t, and without a port as the sshd of an image (--as-sshd), it starts that as it is.",
      rg_cmd_sshd, NULL, .brief = "start an sshd for mpirun's own ssh" },
    { "sshconfig", "[OPTION...]", NULL,
      "Make what a real sshd in the containers of a Slurm job needs, and a key for it. Also by the "
      "name create_mpisshconfig.sh; `reigen sshconfig --help` lists its options.",
      rg_cmd_sshconfig, .script = &rg_script_sshconfig },
    { "run-dock-asuser", "--container=IMAGE [OPTION...]", NULL,
      "A session in a container of Docker's in which you are who you are outside. Also by the name "
      "run_dock_asuser.sh; `reigen run-dock-asuser --help` lists its options.",
      rg_cmd_run_dock_asuser, .script = &rg_script_run_dock_asuser },
    { "install-scripts", "DIR", "@dir",
      "Make links to reigen in DIR under the names srun_docker.sh, run_dock_asuser.sh and "
      "create_mpisshconfig.sh.",
      rg_cmd_install_scripts, NULL, .brief = "make links for users of srun_docker.sh" },
    { "version", "", NULL, "Print reigen's version.",
      cmd_version, NULL, .brief = "print reigen's version" },
    { "help", "[COMMAND [TOPIC]|all]",
      "all run plan head horovodrun torchrun srun-docker rsh doctor bench simulate jobs stop drain "
      "logs attach status top render pai wait-workers report config explain man completion sshd "
      "sshconfig run-dock-asuser install-scripts version",
      "Print the commands that people use most, a command's help or one topic of it, or what all "
      "commands do.",
      cmd_help, NULL, .brief = "print the commands, or a command's help", .common = true },
    { .name = NULL }
};
