/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Slurm driver: agents run as the tasks of one job step (srun), one on each node, and call
 * back.
 *
 * Inside an allocation (salloc, sbatch, a step of srun) it uses its nodes, or those of them that
 * the user names. Elsewhere it asks for an allocation first and gives it back at the end. What
 * becomes of the job is Slurm's business too: a time limit, scancel, preemption and a node's
 * failure are told as such.
 *
 * srun's standard input, which it hands to all tasks, brings what they need: the agent's own
 * program where the node has none, then the lines of agent/start/lines.h with the job's key. Each
 * agent then connects to the launcher by TCP (agent/start/dial.h). srun's standard output carries
 * lines of launch/host/preamble.h from all of them, marked with the task's number.
 *
 * srun, salloc, sbatch, scancel and squeue are called as users call them, by PATH.
 */
#ifndef RG_PLATFORM_SLURM_DOOR_H
#define RG_PLATFORM_SLURM_DOOR_H

#include "launch/host/driver.h"
#include "job/slurm.h"

extern const struct rg_driver_ops rg_driver_slurm;

/* Run one of Slurm's programs to its end, for at most 10 s, and take what it writes, on standard
 * error too, as far as it fits. Users' defaults for squeue and scancel do not count. Its exit
 * code; -ETIMEDOUT; -ENOENT; -errno. */
int rg_slurm_ask(char *const *argv, char *ret_text, size_t nbytes);
/* Whether Slurm counts the GPUs of that node, so that a job that it told of none has none. False
 * without an answer. Blocks as rg_slurm_ask. */
bool rg_slurm_counts_gpus(const char *node);
/* Ask Slurm's programs, and nvidia-smi, for what its variables do not tell of the GPUs of a step
 * that this process is a task of: how many each node has. env is what the allocation was read from.
 * Blocks as rg_slurm_ask, up to three times. */
void rg_slurm_ask_gpus(const struct rg_strv *env, struct rg_slurm_allocation *allocation);

#endif
