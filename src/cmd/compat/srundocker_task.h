/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks of `srun reigen srun-docker`: task 0 runs the job, the others wait for its end.
 *
 * They share neither a file nor an address, so the others listen where only processes of their own
 * node can call: on the abstract unix socket "reigen-slurm-JOB-STEP-task-LOCALID", for a call of
 * the same user. At its end task 0 has them called on all nodes, by a job step of its own. Anybody
 * on the node can take such a name first; then, and where no step can be started, they get a signal
 * (SIGURG) by scancel. As long as the job lives, its agent on the node lets them connect to the
 * abstract socket "reigen-slurm-JOB-STEP"; when it is gone and nobody calls, task 0 is gone too.
 *
 * They end with 0, whatever became of the job: srun's exit code is the highest of its tasks', and
 * with --kill-on-bad-exit any other code would kill task 0 before it has told its own.
 *
 * A task's parent is slurmstepd, which outlives an srun that is killed. So task 0 looks whether
 * srun is there: by the listening port that srun told Slurm of, when it is on the same computer;
 * else by the connections to srun's computer, of which slurmstepd has at least one, and when one of
 * these ends, by calling that port once.
 *
 * Main thread, but for the watch, which is a thread of its own. All of it blocks, except
 * rg_srun_watch_start.
 */
#ifndef RG_CMD_COMPAT_SRUNDOCKER_TASK_H
#define RG_CMD_COMPAT_SRUNDOCKER_TASK_H

#include "base/error.h"
#include "job/slurm.h"

#define RG_TASK_RELEASE "--reigen-release" /* the word after which a step's tasks call others */

/* Wait for the end of the job that task 0 runs. Standard input is read and dropped.
 * start_timeout_ms: when the job must have an agent on this node; one that does not come means that
 * task 0 is gone. 0: it is to have none here; then there is nothing to be seen, and to end early
 * may be taken for the step's end (srun --wait). */
void rg_task_wait(const struct rg_slurm_allocation *step, uint64_t start_timeout_ms);

/* Tell all other tasks of the step that the job has ended. Returns when they know, or cannot be
 * told. patience_ms: how long to wait for tasks that are not there; Slurm may still be starting
 * them. lost: a node was lost; srun may never hear of the end of its task, though the node comes
 * back, and wait for ever. Then, if not all tasks can be told, another step cancels this one 2 s
 * later, and srun ends when KillWait is over. This process is to end before, since that is SIGKILL
 * for it. */
void rg_task_release(const struct rg_slurm_allocation *step, unsigned patience_ms, bool lost);

/* What rg_task_release runs on every node: argv[1] is RG_TASK_RELEASE. The exit code: 0 when all
 * tasks of the node know. */
int rg_task_release_here(int argc, char **argv);

/* Where srun has asked for the allocation itself, and is gone without giving it back, cancel it;
 * one of salloc's or sbatch's stays. For the end of task 0. Blocks while scontrol and scancel
 * run. */
void rg_task_give_back(const struct rg_slurm_allocation *step);

/* Look after srun from now on; when it is gone, this process gets SIGTERM, and again 2 s later. */
void rg_srun_watch_start(void);
/* Whether it was seen to be gone. */
bool rg_srun_is_gone(void);

#endif
