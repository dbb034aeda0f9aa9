/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks of `srun reigen srun-docker`: task 0 runs the job, the others wait for its end.
 *
 * They share neither a file nor an address, so the others listen where only processes of their own
 * node can call: on the abstract unix socket "reigen-slurm-JOB-STEP-task-LOCALID", for one datagram
 * "over" from the same user. At its end task 0 has it sent on all nodes, by a job step of its
 * own. As long as the job lives, its agent on the node lets them connect to the abstract
 * socket "reigen-slurm-JOB-STEP"; when it is gone and no datagram comes, task 0 is gone too.
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
#ifndef RG_CMD_SRUNDOCKER_TASK_H
#define RG_CMD_SRUNDOCKER_TASK_H

#include "base/error.h"
#include "spec/slurm.h"

#define RG_TASK_RELEASE "--reigen-release" /* the word after which a step's tasks send datagrams */

/* Wait for the end of the job that task 0 runs. Standard input is read and dropped. */
void rg_task_wait(const struct rg_slurm_allocation *step);

/* Tell all other tasks of the step that the job has ended. Returns when they know, or it failed;
 * then, unless code is 0, the step is ended by scancel. */
void rg_task_release(const struct rg_slurm_allocation *step, int code);

/* What rg_task_release runs on every node: argv[1] is RG_TASK_RELEASE. The exit code. */
int rg_task_release_here(int argc, char **argv);

/* Look after srun from now on; when it is gone, this process gets SIGTERM, and again 2 s later. */
void rg_srun_watch_start(void);

#endif
