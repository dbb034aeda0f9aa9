/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Slurm driver: agents run as the tasks of one job step (srun), one on each node, and call back.
 *
 * Inside an allocation (salloc, sbatch, a step of srun) it uses its nodes, or those of them that
 * the user names. Elsewhere it asks for an allocation first and gives it back at the end. What
 * becomes of the job is Slurm's business too: a time limit, scancel, preemption and a node's
 * failure are told as such.
 *
 * srun's standard input, which it hands to all tasks, brings what they need: the agent's own
 * program where the node has none, then the lines of agent/boot.h with the job's key. Each agent then
 * connects to the launcher by TCP (agent/dial.h). srun's standard output carries lines of
 * launch/preamble.h from all of them, marked with the task's number.
 *
 * srun, salloc, sbatch, scancel and squeue are called as users call them, by PATH.
 */
#ifndef RG_LAUNCH_DRIVERS_SLURM_H
#define RG_LAUNCH_DRIVERS_SLURM_H

#include "launch/driver.h"

extern const struct rg_driver_ops rg_driver_slurm;

#endif
