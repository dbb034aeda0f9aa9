/* SPDX-License-Identifier: Apache-2.0 */
/* What --help and the man pages say of the three commands that stand in for scripts. Their words
 * are long, and the commands' own files are about what they do. */
#include "cmd/compat/compat.h"

#include "cmd/compat/rundock.h"
#include "cmd/compat/sshconfig.h"
#include "spec/srundocker/srundocker.h"

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

const struct rg_script rg_script_srun_docker = {
    .name = "srun_docker.sh",
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
    .operands = true, .option = srundocker_option
};

const struct rg_script rg_script_run_dock_asuser = {
    .name = "run_dock_asuser.sh",
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
    .operands = true, .option = rg_rundock_option
};

const struct rg_script rg_script_sshconfig = {
    .name = "create_mpisshconfig.sh",
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
    .operands = false, .option = rg_sshconfig_option
};
