/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/compat/scripts.h"

#include <string.h>

#include "base/str.h"
#include "cmd/show/exit.h"
#include "cmd/help/help.h"
#include "cmd/compat/rundock.h"
#include "cmd/compat/sshconfig.h"
#include "spec/srundocker/srundocker.h"

#define OPTIONS_MAX 64

static bool srundocker_option(size_t i, struct rg_script_option *ret_option)
{
    size_t count;
    const struct rg_srundocker_option *o = rg_srundocker_options(&count);

    if (i >= count)
        return false;
    o += i;
    *ret_option = (struct rg_script_option){ .name = o->name, .arg = o->arg,
                                             .optional = o->optional, .completes = o->completes,
                                             .help = o->help };
    return true;
}

const struct rg_script rg_scripts[] = {
    { .command = "srun-docker", .name = "srun_docker.sh", .page = "reigen-srun-docker",
      .under = "srun ", .usage = "--container=IMAGE --script=FILE [OPTION...] [ARGUMENT...]",
      .summary = "run a script in containers on the nodes of a Slurm job",
      .about = "Start a container of the image on each node of the Slurm step, and run the script "
               "once, on the first node, in its container; it finds hostlist and np in its "
               "environment, and mpirun, pdsh and ssh in it reach the other containers. Options "
               "have their value after '=' or a space. All other options and arguments, and what "
               "follows --, go to the script.",
      .status = "The script's. 2: a mistake on the command line; 69: a node or program cannot be "
                "used; 75: the job was ended from outside; 76: a node was lost; 125: a container "
                "could not be started. reigen explain tells them all.",
      .examples = "salloc -N 2\n"
                  "srun reigen srun-docker --container=IMAGE --script=./job.sh --epochs=5\n",
      .operands = true, .option = srundocker_option },
    { .command = "run-dock-asuser", .name = "run_dock_asuser.sh", .page = "reigen-run-dock-asuser",
      .under = "", .usage = "--container=IMAGE [OPTION...] [ARGUMENT...]",
      .summary = "a container in which you are who you are outside",
      .about = "Start a container of Docker's on this computer, in which you have your own number, "
               "groups, name, home and directory, and a session in it: a bash that ends with the "
               "container. Options have their value after '=' or a space. What follows --, and "
               "arguments that are no options of ours, belong to the container's command.",
      .status = "That of the session, or of the command with --noninteractive. 2: a mistake on the "
                "command line; 69: there is no Docker here; 125: the container could not be made.",
      .examples = "run_dock_asuser.sh --container=IMAGE\n"
                  "run_dock_asuser.sh --container=IMAGE --noninteractive --dockcmd=./train.sh\n",
      .operands = true, .option = rg_rundock_option },
    { .command = "sshconfig", .name = "create_mpisshconfig.sh", .page = "reigen-sshconfig",
      .under = "", .usage = "[OPTION...]",
      .summary = "make what a real sshd in the containers of a Slurm job needs",
      .about = "Make host keys, sshd_config, ssh_config and known_hosts in ~/mpisshconfig, the key "
               "~/.ssh/id_rsa_mpi that may log in, and a block of ~/.ssh/config for the nodes. It "
               "asks nothing, and says what it made or changed. What is there stays.",
      .status = "0: all is there. 2: a mistake on the command line, or a file that cannot be "
                "understood; 69: there is no ssh-keygen here; 74: the disk is full; 77: no "
                "permission.",
      .examples = "create_mpisshconfig.sh --hosts='dgx* hsw*'\n"
                  "srun srun_docker.sh --container=IMAGE --script=./job.sh --sshdport=12345\n",
      .operands = false, .option = rg_sshconfig_option },
    { .command = NULL },
};

const struct rg_script *rg_script_find(const char *name)
{
    for (const struct rg_script *s = rg_scripts; s->command; s++)
        if (strcmp(s->command, name) == 0 || strcmp(s->name, name) == 0 ||
            strcmp(s->page, name) == 0)
            return s;
    return NULL;
}

void rg_script_option_print(struct rg_buf *text, const struct rg_script_option *o)
{
    rg_buf_printf(text, "--%s", o->name);
    if (o->arg)
        rg_buf_printf(text, o->optional ? "[=%s]" : "=%s", o->arg);
}

int rg_script_help(const char *command)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_help_script(&text, rg_help_columns(), rg_script_find(command));
    return rg_print(rg_buf_text(&text));
}

const char *rg_script_nearest(const char *command, const char *word)
{
    const struct rg_script *script = rg_script_find(command);
    const char *words[OPTIONS_MAX];
    struct rg_script_option option;
    size_t n = 0;

    word += strspn(word, "-");
    rg_autofree char *name = strndup(word, strcspn(word, "="));
    for (; n + 1 < OPTIONS_MAX && script->option(n, &option); n++)
        words[n] = option.name;
    words[n] = NULL;
    return name ? rg_str_nearest(name, words) : NULL;
}
