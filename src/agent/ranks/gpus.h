/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs of their own for the ranks of this host, where the job wants that (--gpus-per-rank). The
 * launcher says so by a variable in SETUP (one that a rank's own job would inherit means nothing):
 *
 *     REIGEN_GPUS_PER_RANK=N      N for each, in the order of the ranks
 *     REIGEN_GPUS_PER_RANK=all    as many for each as there are, divided evenly
 *
 * What can be divided is what the ranks would see without this: the list in CUDA_VISIBLE_DEVICES,
 * from the job or the agent's own environment, as Slurm sets it; else what nvidia-smi lists, by
 * UUID, with the parts of a GPU that is divided (MIG) in its place. Each rank finds its share in
 * its own CUDA_VISIBLE_DEVICES.
 *
 * This header is internal to src/agent. Thread rule: the agent's thread. Waits for nvidia-smi, at
 * most 10 s.
 */
#ifndef RG_AGENT_RANKS_GPUS_H
#define RG_AGENT_RANKS_GPUS_H

#include "base/error.h"
#include "base/str.h"

#define RG_GPUS_VISIBLE "CUDA_VISIBLE_DEVICES"

struct rg_agent;

/* Give each task its list (struct rg_task's gpus), where SETUP asks for that; env is what all ranks
 * have.
 * 0; -ENODEV with exit code 69: there are fewer than they need, and err says what there is;
 * -ENOMEM. */
int rg_gpus_divide(struct rg_agent *agent, const struct rg_strv *env, struct rg_error *err);

#endif
