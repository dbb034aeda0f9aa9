/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Slurm tells a process through its environment: lists of nodes ("n[1-3,7],x-[01-04]"),
 * layouts ("4,1(x2)"), the allocation that holds it, and the GPUs it was given.
 *
 * Nothing here asks Slurm or reads the process's own environment: it is passed, as a list of
 * NAME=VALUE (rg_slurm_environment borrows the caller's own). All text is treated as foreign: what
 * it may unfold to is bounded by RG_SLURM_NODES_MAX.
 *
 * Thread rule: any thread, one object at a time. Nothing blocks.
 */
#ifndef RG_JOB_SLURM_H
#define RG_JOB_SLURM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"
#include "job/job.h"

#define RG_SLURM_NODES_MAX RG_JOB_HOSTS_MAX
#define RG_SLURM_REMARK_MAX 320
#define RG_SLURM_GROUPS_MAX 128 /* components of a heterogeneous job */

/* The process's own environment as a list; borrowed from it, never to be freed or changed. */
struct rg_strv rg_slurm_environment(void);

/* Unfold a list of nodes, in its order, and append the names to ret_names. Numbers keep their
 * leading zeros; several brackets in one name multiply, the last one turning fastest. what names
 * the variable or option in errors. 0, -EINVAL, -E2BIG (more than RG_SLURM_NODES_MAX), -ENOMEM;
 * after an error some may have been appended. */
int rg_slurm_nodes(const char *what, const char *text, struct rg_strv *ret_names,
                   struct rg_error *err);

/* "7" or "01-04", whole numbers of at most nine digits behind zeros; *text moves behind it. The
 * width is how many digits the first has. 0, or -EINVAL. */
int rg_slurm_range(const char **text, int *ret_first, int *ret_last, int *ret_width);

/* "4,1(x2)" for nnodes nodes to 4, 1, 1: ret_counts has room for nnodes. A single number without
 * "(x...)" stands for all. 0, -EINVAL (not of that form, another number of nodes, a number outside
 * 1 to RG_JOB_RANKS_MAX). */
int rg_slurm_counts(const char *what, const char *text, size_t nnodes, int *ret_counts,
                    struct rg_error *err);

/* The GPUs in a list of generic resources as squeue has it: "gres:gpu:2", "gres/gpu:a100:2(S:0)",
 * "gpu". 0 where there are none, or it is no such list; at most RG_JOB_SLOTS_MAX. */
int rg_slurm_gres_gpus(const char *text);

/* Whether lists of generic resources, as sinfo has them, one a line, speak of GPUs at all. */
bool rg_slurm_gres_names_gpus(const char *text);

/* The GPUs that `nvidia-smi -L` lists; those of them that are parts of one (MIG) do not count. At
 * most RG_JOB_SLOTS_MAX. */
int rg_slurm_smi_gpus(const char *text);

struct rg_slurm_node {
    char *name;
    int ntasks; /* that the layout puts there; 0: not told */
    int ncpus;  /* of the node that the job holds; 0: not told */
    int group;  /* component of a heterogeneous job, else 0 */
    int ngpus;  /* that the job has there; see gpus_by_node */
};

/* What part of what Slurm holds for us is meant. */
enum rg_slurm_scope {
    RG_SLURM_JOB, /* all nodes of the job, with all components of a heterogeneous one */
    RG_SLURM_STEP /* the nodes of the step that this process is a task of */
};

struct rg_slurm_allocation {
    char *job_id;                /* digits */
    char *step_id;               /* digits, of the step this process is a task of; NULL: of none */
    char *node;                  /* the node this process is on (SLURMD_NODENAME); NULL: of none */
    struct rg_slurm_node *nodes; /* in Slurm's order: task 0 is on the first */
    size_t nnodes;
    struct rg_strv group_ids;    /* the components' job ids; empty unless heterogeneous */
    int ntasks;                  /* of the step; for RG_SLURM_JOB those asked for; 0: not told */
    int procid;                  /* this task's number in the step, or -1 */
    int localid;                 /* its number on its node, or -1 */
    int nodeid;                  /* its node's place in the step, or -1 */
    int cpus_per_task;           /* 1 unless asked for */
    bool tasks_asked;            /* the user told the number of tasks (-n, --ntasks-per-node) */
    struct rg_strv gpus;         /* see rg_slurm_gpus; as seen from this process's node */
    int gpus_per_node;           /* how many, by name or by SLURM_GPUS_ON_NODE; 0: none known */
    bool gpus_by_node;           /* the nodes' ngpus are known: rg_slurm_spread_gpus */
};

#define RG_AUTO_SLURM_ALLOCATION rg_cleanup(rg_slurm_allocation_fini)

void rg_slurm_allocation_fini(struct rg_slurm_allocation *allocation);

/* Whether the environment is one that Slurm made: of an allocation; of a task in a step of srun's
 * (salloc's interactive shell and sbatch's script are none). */
bool rg_slurm_in_job(const struct rg_strv *env);
bool rg_slurm_in_step(const struct rg_strv *env);

/* 0; -ENOENT when it is not in Slurm's hands (for RG_SLURM_STEP: not in a step); -EINVAL when a
 * variable cannot be understood or two of them disagree; -E2BIG, -ENOMEM. */
int rg_slurm_allocation_read(const struct rg_strv *env, enum rg_slurm_scope scope,
                             struct rg_slurm_allocation *ret_allocation, struct rg_error *err);

/* Whether there is something to say before a job starts: it does not use the nodes that Slurm gave,
 * or each of srun's tasks starts one of its own (task 0 is to say it). The sentence goes into buf,
 * of RG_SLURM_REMARK_MAX bytes. job is as the user asked for it, before discovery. Not for
 * srun-docker, whose tasks are meant to be several. */
bool rg_slurm_remark(const struct rg_strv *env, const struct rg_job *job, char *buf, size_t nbytes);

/* How many ranks node i holds: for RG_SLURM_JOB the tasks the user asked for come first; then the
 * GPUs of that node; then its CPUs divided by the CPUs per task; at least 1. */
int rg_slurm_slots(const struct rg_slurm_allocation *allocation, enum rg_slurm_scope scope,
                   size_t i);

/* Where a job has asked for GPUs as a whole (--gpus), by the task or by the socket, its nodes may
 * have different numbers of them: put them into allocation->nodes, and set gpus_by_node. text is
 * what `scontrol --details show job` says. True where it did; false, and nothing changed, where
 * the job has asked for GPUs by the node or for none, or the text leaves out a node. */
bool rg_slurm_spread_gpus(struct rg_slurm_allocation *allocation, const char *text);

/* The GPUs this process may use, by the names a container runtime takes (indices or UUIDs of this
 * node). What Slurm gave (SLURM_STEP_GPUS, else SLURM_JOB_GPUS) bounds them; where those are parts
 * of GPUs (MIG), CUDA_VISIBLE_DEVICES has their names. NV_GPU, then NVIDIA_VISIBLE_DEVICES choose
 * among those, by the same names ("0:1" is a part of "0"); where Slurm tells nothing they stand for
 * themselves, and CUDA_VISIBLE_DEVICES after them. ret_told: whether any of them was there at all,
 * so that an empty list means "none". 0, -EINVAL (asks for one that Slurm did not give; no list),
 * -ENOMEM. */
int rg_slurm_gpus(const struct rg_strv *env, struct rg_strv *ret_gpus, bool *ret_told,
                  struct rg_error *err);

/* The value of KillWait, in seconds, in what `scontrol show config` says; 0: it is not there. */
int rg_slurm_kill_wait_s(const char *text);

/* The ports on which srun listens, by the text of slurm.conf (SrunPortRange; the last line counts;
 * files that it includes are not looked into). 0, -ENOENT: it names none; -EINVAL. */
int rg_slurm_conf_ports(const char *text, struct rg_ports *ret_ports);

#endif
