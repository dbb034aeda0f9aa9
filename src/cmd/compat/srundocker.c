/* SPDX-License-Identifier: Apache-2.0 */
/* reigen srun-docker, and srun_docker.sh: each task of `srun reigen srun-docker` runs this. */
#include "platform/slurm/srundocker/srundocker.h"

#include <pwd.h>
#include <string.h>

#include "base/time.h"
#include "head/console/exit.h"
#include "cmd/run/run.h"
#include "cmd/compat/compat.h"
#include "cmd/compat/srundocker_task.h"
#include "cmd/compat/sshconfig.h"
#include "head/console/terminal.h"
#include "platform/slurm/door.h"
#include "base/exitcode.h"

#define COMMAND "srun-docker"
#define LATE_MS 2000 /* how much later than the first one other tasks may begin */

/* Whether this is one of the tasks for which task 0 speaks, and acts. */
static bool is_other_task(const struct rg_strv *env)
{
    const char *procid = rg_env_get(env, "SLURM_PROCID");

    return procid && strcmp(procid, "0") != 0 && rg_slurm_in_step(env);
}

/* Task 0 sees the same, and its code is to be srun's. */
static int fail(const struct rg_error *err, const struct rg_strv *env)
{
    return is_other_task(env) ? 0 : rg_fail(err, COMMAND);
}

/* The step, without the user's choice among GPUs: that is judged on each node by those that Slurm
 * gave there, and may be wrong on this one only. */
static int read_bare_step(const struct rg_strv *env, struct rg_slurm_allocation *ret_step)
{
    static const char *const choices[] = { "NV_GPU", "NVIDIA_VISIBLE_DEVICES",
                                           "CUDA_VISIBLE_DEVICES" };
    rg_autostrv struct rg_strv bare = RG_STRV_INIT;
    int rc = rg_strv_add_all(&bare, env->v);

    for (size_t i = 0; i < rg_array_len(choices); i++)
        rg_env_unset(&bare, choices[i]);
    return rc < 0 ? rc : rg_slurm_allocation_read(&bare, RG_SLURM_STEP, ret_step, NULL);
}

/* Whether the job has a container on this node. A list that is broken is task 0's to tell. */
static bool is_used(const struct rg_srundocker *s, const char *node)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;

    if (!s->nodelist || !node || rg_slurm_nodes("--nodelist", s->nodelist, &names, NULL) < 0)
        return true;
    return rg_strv_has(&names, node);
}

static int be_other_task(const struct rg_srundocker *s, const struct rg_strv *env)
{
    RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation step = { 0 };

    if (read_bare_step(env, &step) == 0)
        rg_task_wait(&step, is_used(s, step.node) ? s->start_timeout_ms : 0);
    return 0;
}

/* Task 0 does not understand its step; the others may, and wait for it. */
static int give_up(const struct rg_error *err, const struct rg_strv *env)
{
    RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation step = { 0 };
    int code = rg_fail(err, COMMAND);

    if (read_bare_step(env, &step) == 0 && step.ntasks != 1)
        rg_task_release(&step, LATE_MS, false);
    return code;
}

/* sshd's keys and configuration, where there are none. */
static int prepare_sshd(struct rg_srundocker *s, struct rg_error *err)
{
    const struct passwd *user = getpwuid(getuid());
    const char *home = user ? user->pw_dir : getenv("HOME");
    rg_autobuf struct rg_buf said = RG_BUF_INIT;
    int rc = rg_srundocker_settle_sshd(s, home, err);

    if (rc < 0 || !rg_srundocker_has_sshd(s))
        return rc;
    rg_autofree char *file = rg_strf("%s/sshd_config", s->sshconfigdir);
    rg_autofree char *ssh_dir = rg_strf("%s/.ssh", home ? home : "");
    struct rg_sshconfig config = { .dir = s->sshconfigdir, .ssh_dir = ssh_dir,
                                   .port = s->sshdport, .said = &said };
    if (!file || !ssh_dir)
        return rg_error_memory(err);
    if (access(file, F_OK) == 0)
        return rg_sshconfig_port(&config, err);
    rc = rg_sshconfig_server(&config, err);
    return rc < 0 ? rc : rg_sshconfig_user(&config, err);
}

/* Task 0. */
static int run_job(struct rg_srundocker *s, const struct rg_strv *env,
                   const struct rg_slurm_allocation *step, bool stdin_open)
{
    rg_cleanup(rg_request_fini) struct rg_request request;
    struct rg_error err = RG_ERROR_INIT;
    uint64_t since = rg_now_ns();
    int code;

    rg_request_init(&request);
    rg_srun_watch_start();
    if (prepare_sshd(s, &err) < 0 ||
        rg_srundocker_fill(s, env, step, &request, &err) < 0)
        code = rg_fail(&err, COMMAND);
    else
        code = rg_run_request(&request, COMMAND, false, stdin_open);
    if (step->ntasks != 1)
        rg_task_release(step, rg_now_ns() - since < LATE_MS * RG_NS_PER_MS ? LATE_MS : 0,
                        code == RG_EXIT_HOST_LOST);
    if (rg_srun_is_gone())
        rg_task_give_back(step);
    return code;
}

int rg_cmd_srun_docker(int argc, char **argv)
{
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker s;
    RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation step = { 0 };
    const struct rg_strv env = rg_slurm_environment();
    struct rg_error err = RG_ERROR_INIT;
    bool open[3];

    rg_stdio_ensure(open);
    rg_srundocker_init(&s);
    if (argc > 1 && strcmp(argv[1], RG_TASK_RELEASE) == 0)
        return rg_task_release_here(argc, argv);
    if (rg_srundocker_parse(&s, argc, argv, &err) < 0)
        return fail(&err, &env);
    if (s.help)
        return is_other_task(&env) ? 0 : RG_COMMAND_HELP;
    if (is_other_task(&env))
        return be_other_task(&s, &env);
    if (rg_slurm_allocation_read(&env, RG_SLURM_STEP, &step, &err) < 0)
        return give_up(&err, &env);
    rg_slurm_ask_gpus(&env, &step);
    return run_job(&s, &env, &step, open[0]);
}
