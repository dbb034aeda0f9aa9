/* SPDX-License-Identifier: Apache-2.0 */
/* What --help and the man pages say of the three commands that stand in for scripts: their words
 * are long, and the commands' own files are about what they do. And reigen install-scripts: the
 * names that srun_docker.sh's users know, as links to this reigen, in a directory of theirs. pip
 * cannot ask whether they are wanted, and they are no names that everybody should have in PATH. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "base/process/self.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "cmd/compat/compat.h"
#include "cmd/compat/rundock.h"
#include "cmd/compat/sshconfig.h"
#include "platform/slurm/srundocker/srundocker.h"

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
    .operands = true, .options = rg_srundocker_options
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
    .operands = true, .options = rg_rundock_options
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
    .operands = false, .options = rg_sshconfig_options
};

/* --- install-scripts -------------------------------------------------------------------------- */

#define COMMAND "install-scripts"

static const struct rg_script *const scripts[] = {
    &rg_script_srun_docker, &rg_script_run_dock_asuser, &rg_script_sshconfig,
};

static bool is_reigen(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && strcmp(slash, "/reigen") == 0;
}

/* Whether the link is there already; -EEXIST where something else has its name. */
static int is_there(int dir, const char *dir_name, const char *name, const char *self,
                    struct rg_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    ssize_t n = readlinkat(dir, name, path, sizeof(path) - 1);

    if (n < 0 && errno == ENOENT)
        return 0;
    path[n < 0 ? 0 : n] = '\0';
    if (n > 0 && strcmp(path, self) == 0)
        return 1;
    /* A link of another reigen's that is gone is in nobody's way. */
    if (n > 0 && is_reigen(path) && fstatat(dir, name, &st, 0) < 0 &&
        errno == ENOENT)
        return unlinkat(dir, name, 0) < 0
                   ? rg_error_set(err, errno, "%s/%s: %s", dir_name, name, strerror(errno)) : 0;
    return rg_error_set_exit(err, EEXIST, RG_EXIT_USAGE,
                             "%s/%s is there already; remove it, or name another directory",
                             dir_name, name);
}

static int install(const char *dir_name, struct rg_buf *said, struct rg_error *err)
{
    char self[PATH_MAX];
    bool there[rg_array_len(scripts)] = { false };
    rg_autoclose int dir = open(dir_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE, "%s: %s; %s", dir_name,
                                 strerror(errno), errno == ENOENT
                                 ? "make the directory first, or name another"
                                 : "name a directory, such as ~/.local/bin");
    int rc = rg_self_path(self);

    if (rc < 0)
        return rg_error_set(err, -rc, RG_SELF ": %s", strerror(-rc));
    for (size_t i = 0; rc >= 0 && i < rg_array_len(scripts); i++) {
        rc = is_there(dir, dir_name, scripts[i]->name, self, err);
        there[i] = rc > 0;
    }
    for (size_t i = 0; rc >= 0 && i < rg_array_len(scripts); i++) {
        if (!there[i] && symlinkat(self, dir, scripts[i]->name) < 0)
            return rg_error_set(err, errno, "%s/%s: %s; name a directory that you may write to, "
                                "such as ~/.local/bin", dir_name, scripts[i]->name,
                                strerror(errno));
        rg_buf_printf(said, "%s/%s -> %s\n", dir_name, scripts[i]->name, self);
    }
    return rc < 0 ? rc : 0;
}

int rg_cmd_install_scripts(int argc, char **argv)
{
    rg_autobuf struct rg_buf said = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;

    int n = rg_args_parse(argc, argv, &(struct rg_arg){ NULL }, 1);

    if (n < 0)
        return -1 - n;
    if (n == 0)
        return rg_fail_usage(COMMAND, "%s: name the directory for the scripts, such as "
                             "/usr/local/bin", COMMAND);
    if (install(argv[1], &said, &err) < 0)
        return rg_fail(&err, COMMAND);
    return rg_print(rg_buf_text(&said));
}
