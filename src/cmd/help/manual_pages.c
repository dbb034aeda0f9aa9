/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/help/manual.h"

#include <stddef.h>

static const char *const doctor_options[] = {
    "--planes", "Run the runtime on the hosts, too, and print which data plane serves which "
                "operation.",
    "--require WHAT,...", "Fail unless every host has this, as in reigen run.",
    "--clean", "Also remove the containers that killed jobs of yours have left on their hosts.",
    "--json", "Print one JSON document with all that was found.",
    "-v, --verbose", "On a terminal, list the checks that are well, too.",
    "any other", "As in reigen run: -H, --hostfile, --on, --image, --config and so on say which "
                 "hosts, and in which containers.",
    NULL
};

static const char *const rsh_options[] = {
    "-l, -p, -i, -o, -F, -T, -n, -x, ...", "ssh's options. They are read and have no meaning: the "
                                           "agents' links are there already.",
    NULL
};

static const char *const jobs_options[] = {
    "--all", "List those that ended last, too.",
    "--json", "Print one JSON array, with an object for each job.",
    NULL
};

static const char *const status_options[] = {
    "--json", "Print one JSON object.",
    NULL
};

static const char *const stop_options[] = {
    "--all", "End all your jobs.",
    NULL
};

static const char *const logs_options[] = {
    "-f", "Show what follows, too, until the job has ended.",
    "--rank R", "Show only what this rank wrote.",
    NULL
};

static const char *const man_options[] = {
    "--roff", "Print the page's source, for man -l - and for files.",
    NULL
};

static const char *const sshd_options[] = {
    "-p PORT", "Listen there. The default is 12345.",
    "--dir DIR", "Keep the keys in DIR. The default is ~/.ssh.",
    "-D", "Stay in the foreground.",
    NULL
};

static const char *const completion_options[] = {
    "bash, zsh, fish", "The script for this shell.",
    "--hosts", "The hosts that the scripts offer: those of ssh's configuration, of known_hosts, "
               "and of the job that this runs in.",
    "--jobs", "Your jobs.",
    "--interfaces", "This computer's network interfaces.",
    NULL
};

static const char *const head_options[] = {
    "--plan FILE", "What reigen run --write-plan FILE has written.",
    NULL
};

const struct rg_command_page rg_command_pages[] = {
    { "doctor", "look at the hosts of a job, and say what is wrong",
      "Each finding has a remedy. The exit code is 0 when nothing failed, 1 when something did; "
      "other codes are those of reigen run.",
      doctor_options,
      "reigen doctor\n"
      "reigen doctor -H node1,node2 --require gpu,shm=8g\n"
      "reigen doctor -H node1,node2 --image pytorch --planes",
      "reigen-run reigen-explain" },
    { "head", "run a job from a plan's file",
      "It writes what reigen run writes, ends with the same exit code and obeys the same signals. "
      "The job runs in the current directory, with this command's environment. The file is for the "
      "same version of Reigen.",
      head_options, "reigen run --write-plan job.plan -np 4 -- python train.py\n"
      "reigen head --plan job.plan", "reigen-run" },
    { "rsh", "run a command on a host of the job",
      "It takes ssh's arguments, so that mpirun and pdsh can use it in ssh's place, and needs "
      "neither keys nor an sshd. The exit code is the command's, or 255.",
      rsh_options, "reigen rsh node2 hostname", "reigen-run" },
    { "jobs", "list your jobs", "JOB is the name that reigen stop takes; its beginning is enough.",
      jobs_options, "reigen jobs\nreigen jobs --all --json",
      "reigen-status reigen-logs reigen-stop" },
    { "stop", "end a job",
      "The ranks get SIGTERM and, after the grace time, SIGKILL, on all hosts.",
      stop_options, "reigen stop r-20260131\nreigen stop --all", "reigen-jobs" },
    { "logs", "show the output of a job", NULL, logs_options,
      "reigen logs -f 1234\nreigen logs --rank 3 r-20260131",
      "reigen-jobs reigen-status reigen-stop" },
    { "status", "say what has become of a job",
      "A job that has ended is known for as long as reigen jobs --all lists it. The command itself "
      "ends with 0 wherever the job is known.",
      status_options, "reigen status 1234", "reigen-jobs reigen-logs reigen-explain" },
    { "man", "show a manual page",
      "On a terminal the page is shown with MANPAGER, PAGER, less or more, whichever there is "
      "first. Elsewhere it is printed as plain text. PAGE may leave out \"reigen-\".",
      man_options, "reigen man run\nreigen man run | grep -A3 timeout\n"
      "reigen man --roff reigen-job > reigen-job.5",
      "reigen-help" },
    { "completion", "print completion for a shell",
      "make install and pip put these scripts where the shells look for them.",
      completion_options,
      "eval \"$(reigen completion bash)\"\n"
      "reigen completion zsh > ~/.zfunc/_reigen\n"
      "reigen completion fish > ~/.config/fish/completions/reigen.fish", NULL },
    { "sshd", "start an sshd for mpirun's own ssh",
      "A real sshd with keys of its own, which are made where they are missing. Hosts that share "
      "or copy the directory of the keys trust each other.",
      sshd_options, "reigen sshd -p 12345", "reigen-sshconfig" },
    { "install-scripts", "make links for users of srun_docker.sh",
      "The links lead to this reigen, and are made again where they lead to one that is gone. "
      "Nothing else of that name is touched.",
      NULL, "reigen install-scripts ~/.local/bin",
      "reigen-srun-docker reigen-run-dock-asuser reigen-sshconfig" },
    { "version", "print reigen's version", NULL, NULL, "reigen version", NULL },
    { "help", "print the commands, or a command's help", NULL, NULL, "reigen help run",
      "reigen-man" },
    { NULL, NULL, NULL, NULL, NULL, NULL }
};
