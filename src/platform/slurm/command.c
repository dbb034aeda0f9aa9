/* SPDX-License-Identifier: Apache-2.0 */
/* What srun is told, and what the tasks of a step are told by it: the agent must come to nodes that
 * have nothing of ours, over a standard input that all of them share. */
#include <string.h>

#include "platform/slurm/internal.h"
#include "base/exitcode.h"
#include "job/slurm.h"

/* --- srun ------------------------------------------------------------------------------------- */

bool slurm_starts_with_one(const char *entry, const char *const *prefixes)
{
    for (; *prefixes; prefixes++) {
        if (rg_str_starts(entry, *prefixes))
            return true;
    }
    return false;
}

/* srun takes many variables as options, which the caller's own step or job has set for another
 * purpose. What it knows of the job it sets again in the tasks. SBATCH_WAIT and the like would
 * change what sbatch is here for; other defaults of the user's stay. */
static bool is_option(const char *entry)
{
    const struct rg_strv ours = rg_slurm_environment();
    static const char *const harmless[] = { "SLURM_CONF=", "SLURM_ARRAY_", "SLURM_SUBMIT_",
                                            "SLURM_RESTART_COUNT=", "SLURM_CLUSTER_NAME=",
                                            "SLURM_JWT=", "SLURM_WORKING_CLUSTER=",
                                            "SLURM_STEPMGR=", NULL };
    static const char *const harmful[] = { "SLURM_", "SRUN_", "SCANCEL_", "SBATCH_WAIT=",
                                           "SBATCH_ARRAY_INX=", NULL };

    /* Where to ask for an allocation; it is known of one that is there. */
    if (rg_str_starts(entry, "SLURM_CLUSTERS=") && !rg_slurm_in_job(&ours))
        return false;
    return slurm_starts_with_one(entry, harmful) && !slurm_starts_with_one(entry, harmless);
}

int slurm_command_env(const struct rg_job *job, struct rg_strv *env)
{
    return rg_agent_env_make(job, is_option, env);
}

static int add_nodes(const struct slurm_step *step, struct rg_strv *argv)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;
    const struct slurm *slurm = step->slurm;

    for (int i = 0; i < slurm->shared.o.plan->nhosts; i++) {
        if (slurm->hosts[i].step == step)
            rg_buf_printf(&list, "%s%s", rg_buf_nbytes(&list) ? "," : "", slurm->hosts[i].name);
    }
    rg_strv_addf(argv, "--nodelist=%s", rg_buf_text(&list));
    return rg_buf_status(&list);
}

/* What srun takes without one of these differs: of --gpus=6 on two nodes one has a single GPU. And
 * it refuses --gpus-per-node for one node that has more than another. */
static void add_gpus(const struct slurm_step *step, struct rg_strv *argv)
{
    if (step->ngpus == 0)
        rg_strv_add(argv, "--gres=none");
    else if (step->ngpus > 0)
        rg_strv_addf(argv, step->nhosts == 1 ? "--gpus=%d" : "--gpus-per-node=%d", step->ngpus);
}

bool slurm_contains(const struct rg_job *job)
{
    return job->container.image && !rg_container_by_slurm(&job->container);
}

/* pyxis takes a list with commas, the directory of the caller first. */
static int add_pyxis(const struct slurm *slurm, struct rg_strv *argv)
{
    const struct rg_container *container = &slurm->shared.o.job->container;
    const char *cwd = slurm->shared.cwd;
    rg_autobuf struct rg_buf mounts = RG_BUF_INIT;

    rg_strv_addf(argv, "--container-image=%s", container->image);
    if (*cwd)
        rg_buf_printf(&mounts, "%s:%s", cwd, cwd);
    for (size_t i = 0; i < container->mounts.count; i++) {
        const char *mount = container->mounts.v[i];
        rg_buf_printf(&mounts, "%s%s", rg_buf_nbytes(&mounts) ? "," : "", mount);
        if (!strchr(mount, ':'))
            rg_buf_printf(&mounts, ":%s", mount);
    }
    if (rg_buf_nbytes(&mounts))
        rg_strv_addf(argv, "--container-mounts=%s", rg_buf_text(&mounts));
    if (*cwd)
        rg_strv_addf(argv, "--container-workdir=%s", cwd);
    rg_strv_add_all(argv, container->options.v);
    return rg_buf_status(&mounts);
}

int slurm_command_make(const struct slurm_step *step, struct rg_strv *argv)
{
    const struct rg_driver_options *o = &step->slurm->shared.o;
    static const char *const fixed[] = {
        "--overlap",            /* beside whatever else the user runs in the allocation */
        "--ntasks-per-node=1", "--mpi=none", "--label", "--input=all", "--export=ALL",
        "--cpu-bind=none",      /* its ranks are to have all that the job has */
        "--kill-on-bad-exit=0", /* one agent's end is judged by us */
        "--wait=0",
    };
    /* PATH may be unset there. Two KB of script in every list of processes help nobody, so it comes
     * as the first line of standard input, of which a shell's `read` takes no byte more. */
    static const char *const shell[] = { "--", "/bin/sh", "-c",
                                         "IFS= read -r s || exit 0; eval \"$s\"", "reigen-agent" };

    rg_strv_add(argv, "srun");
    rg_strv_addf(argv, "--jobid=%s", step->slurm->allocation.job_id);
    if (step->group >= 0)
        rg_strv_addf(argv, "--het-group=%d", step->group);
    rg_strv_addf(argv, "--job-name=%s", o->plan->job_id);
    for (size_t i = 0; i < rg_array_len(fixed); i++)
        rg_strv_add(argv, fixed[i]);
    if (o->job->elastic.on)
        rg_strv_add(argv, "--no-kill"); /* nor is a node's */
    rg_strv_addf(argv, "--nodes=%d", step->nhosts);
    rg_strv_addf(argv, "--ntasks=%d", step->nhosts);
    int r = add_nodes(step, argv);
    add_gpus(step, argv);
    if (r == 0 && o->job->container.image && !slurm_contains(o->job))
        r = add_pyxis(step->slurm, argv);
    for (size_t i = 0; i < rg_array_len(shell); i++)
        rg_strv_add(argv, shell[i]);
    return r < 0 ? r : rg_strv_status(argv);
}

int slurm_command_missing(const char *program, struct rg_error *err)
{
    return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                             "the program %s is not there: is this a host of a Slurm cluster? Its "
                             "programs must be in PATH",
                             program);
}

/* --- the script on the nodes ------------------------------------------------------------------ */

void slurm_put_quoted(struct rg_buf *text, const char *word)
{
    rg_buf_printf(text, "'");
    for (; *word; word++)
        rg_buf_printf(text, *word == '\'' ? "'\\''" : "%c", *word);
    rg_buf_printf(text, "'");
}

/* `take MACHINE NBYTES` comes to all: whoever needs no agent lets it pass. What was read cannot be
 * read again, so a directory must be known to have room first. The file is named by the node:
 * components of a heterogeneous job share a home, and numbers of tasks. */
static void put_installer(const struct slurm *slurm, struct rg_buf *text)
{
    rg_buf_printf(text,
                  "take() { e=; s=; for d in $C; do t=$d/.new-%s-$SLURMD_NODENAME; "
                  "h=${d%%%%/.cache/*}; if ! [ -d \"$d\" ] && { { [ \"$h\" != \"$d\" ] && "
                  "! [ -d \"$h\" ]; } || ! mkdir -p \"$d\" 2>/dev/null; }; then "
                  "e=\"$e; $d cannot be made\"; continue; fi; "
                  "if ! [ -O \"$d\" ]; then e=\"$e; $d belongs to someone else\"; continue; fi; "
                  "if ! head -c $1 /dev/zero 2>/dev/null >\"$t\"; then rm -f \"$t\"; "
                  "e=\"$e; $d cannot be written, or has no room\"; continue; fi; ",
                  slurm->shared.o.plan->job_id);
    rg_buf_printf(text,
                  "if [ -n \"$s\" ]; then mv \"$s\" \"$t\" 2>/dev/null || continue; "
                  "else head -c $1 >\"$t\"; fi; s=$t; chmod 700 \"$t\"; "
                  "h=$(\"$t\" install $k 2>&1 </dev/null) && { f=$d/$k/reigen-agent; say ready; "
                  "return; }; "
                  "case $h in *ermission*|\"\") h=\"$d does not permit execution\";; esac; "
                  "e=\"$e; $h\"; done; [ -n \"$s\" ] && rm -f \"$s\"; "
                  "say error 69 \"there is no place for the agent$e. One of them must be writable "
                  "and permit execution\"; exit 69; }; ");
}

/* Slurm takes a node that has failed out of a job that goes on without it (--no-kill), and then the
 * job's own script, with the head, may be gone: nobody would end the job, or begin it again. So who
 * has lost the head waits until that is so, if it is: the node may fail long before Slurm sees it,
 * and where it has not failed Slurm ends the job, and this shell. Slurm gets some eight questions a
 * second, however many nodes ask. A job that may not be put back into the queue is cancelled. */
static void put_requeue(const struct slurm *slurm, struct rg_buf *text)
{
    const char *node = slurm->allocation.node;

    if (slurm->shared.o.job->submit && slurm->shared.o.job->elastic.on && node)
        rg_buf_printf(text, "; [ $r = %d ] || exit 0; "
                            "while scontrol show hostnames $(squeue -ho %%N -j $SLURM_JOB_ID) | "
                            "grep -qx %s; "
                            "do sleep $((3 + SLURM_NNODES / 8)); done; "
                            "scontrol requeue $SLURM_JOB_ID || { squeue -ho %%T -j $SLURM_JOB_ID "
                            "| grep -q RUN && scancel $SLURM_JOB_ID; }", RG_EXIT_HOST_LOST, node);
}

void slurm_command_script(const struct slurm *slurm, struct rg_buf *text)
{
    rg_buf_printf(text, "trap : USR1 USR2; o=; say() { echo reigen-boot \"$@\"; }; "
                        "echo reigen-slurm at $SLURMD_NODENAME $SLURM_JOB_ID.$SLURM_STEP_ID; f=");
    slurm_put_quoted(text, strchr(slurm->shared.agent_path, '\n') ? "" : slurm->shared.agent_path);
    /* Where the launcher's own program is there too, and the same, nothing is sent. */
    rg_buf_printf(text, "; if ! \"$f\" same %s </dev/null >/dev/null 2>&1; then f=; ",
                  slurm->shared.agents[0].name);
    rg_buf_printf(text, "u=$(id -u); o=$(umask); umask 077; IFS=:; "
                        "C=$HOME/.cache/reigen:${XDG_RUNTIME_DIR:-/dev/null}/reigen:"
                        "/var/tmp/reigen-$u:/tmp/reigen-$u; ");
    rg_dialogue_put_machines(&slurm->shared, text);
    put_installer(slurm, text);
    rg_buf_printf(text,
                  "for d in $C; do g=$d/$k/reigen-agent; "
                  "[ -x \"$g\" ] && [ -O \"$d\" ] && [ -O \"$g\" ] && "
                  "\"$g\" same $k </dev/null >/dev/null 2>&1 && f=$g && break; done; "
                  "unset IFS; fi; "
                  "if [ -n \"$f\" ]; then say ready; else say need agent $m; fi; c=; "
                  "while read -r c a b && [ \"$c\" = take ]; do "
                  "if [ -z \"$f\" ] && [ \"$a\" = $m ]; then IFS=:; take $b; unset IFS; "
                  "else head -c $b >/dev/null; fi; done; "
                  "[ \"$c\" = boot ] || exit 0; [ -n \"$o\" ] && umask $o; "
                  /* proctrack/cgroup signals nobody but the task itself, which is this shell. */
                  "exec 3<&0; \"$f\" %s <&3 3<&- & p=$!; exec 3<&-; "
                  "trap \"kill $p\" TERM INT HUP; "
                  "for s in USR1 USR2; do trap \"kill -$s $p\" $s; done; "
                  "while wait $p; r=$?; kill -0 $p 2>/dev/null; do :; done; "
                  "echo reigen-slurm end $r",
                  slurm_contains(slurm->shared.o.job) ? "contain" : "agent");
    put_requeue(slurm, text);
    rg_buf_printf(text, "\n");
}
