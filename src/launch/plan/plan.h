/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan: which rank runs where. A pure function of the job and the slots that the driver found;
 * printed by
 * --dry-run and --display-map, carried out by the session.
 *
 * Ranks are dealt by slot (hosts filled in order) or by node (round robin); the ranks of one host
 * are always numbered in ascending order. Coordinates: local rank = index on the host; cross rank =
 * index among the hosts that have this local rank.
 *
 * Where an engine starts the ranks (job/engine.h), its own process is the one rank that our
 * agents start, rank 0 on the first host; the dealing then only says how many ranks each host is to
 * get.
 */
#ifndef RG_LAUNCH_PLAN_PLAN_H
#define RG_LAUNCH_PLAN_PLAN_H

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "job/job.h"

struct rg_plan_rank {
    char *task;     /* what it is called where the job has roles: "worker-0"; else NULL */
    int rank, host; /* host: index into hosts */
    int local_rank, local_size, cross_rank, cross_size;
    char *cpus;     /* will be bound to these, ncpus of them: "0-3,8"; NULL: not bound, or its host
                     * will choose */
    int ncpus;
};

struct rg_plan_host {
    char *name;
    char *user;     /* to log in as there, or NULL */
    int nslots;
    int ncores;     /* 0: unknown */
    int first_rank_index, nranks; /* into by_host */
    int nplanned;   /* ranks that are to run there, whoever starts them */
    char *address;  /* by which other hosts reach it; NULL until the agents have found out */
};

/* Who the process of a rank is among those that it works with, as its environment tells it. In an
 * elastic job the plan's ranks are places, and this is what one of them is for a while. */
struct rg_plan_seat {
    int rank, size, local_rank, local_size, cross_rank, cross_size;
    int group;      /* index of its host among those that have ranks */
    int first_host; /* rank 0's: index into the plan's hosts */
    uint32_t epoch, nrestarts; /* of an elastic job; else 0 */
};

struct rg_plan {
    struct rg_plan_rank *ranks; /* by rank: those that our agents start */
    int nranks;
    int room_hosts, room_ranks; /* how many there can ever be: more than there are where hosts may
                                 * come and go */
    int np;                     /* ranks of the job; nranks, unless an engine starts them */
    char *engine;               /* the engine's program as people know it: "mpirun"; NULL: native */
    int *by_host;               /* ranks sorted by host, then rank */
    struct rg_plan_host *hosts; /* only hosts that have ranks, or are to get them */
    int nhosts;
    char job_id[65];            /* unique, [a-z0-9-] */
    int master_port;            /* MASTER_PORT: free here, later one of the first host */
    int *tf_ports;              /* by rank, for TF_CONFIG; NULL without job->tf_config */
    int *task_ports;            /* by rank, those of its role in their order; NULL: not known, as
                                 * before the start */
    int ntask_ports;
};

/* 0; -EINVAL (more ranks than slots and no oversubscribe, more ranks than cores to bind to;
 * exit_code 2); -ENOMEM. job->hosts must have their nslots filled in (driver's discover). Hosts
 * that are this computer get their cores from the kernel: those this process may use. */
int rg_plan_make(const struct rg_job *job, struct rg_plan *ret_plan, struct rg_error *err);
void rg_plan_fini(struct rg_plan *plan);

/* Make it the plan of an elastic job: its hosts and ranks leave it, and there is room for so many.
 * 0 or -ENOMEM. */
int rg_plan_open(struct rg_plan *plan, int room_hosts, int room_ranks);
/* A host comes, and nslots places of it: their numbers, and the host's, go on from those before. 0;
 * -ENOSPC; -ENOMEM. */
int rg_plan_add_host(struct rg_plan *plan, const char *name, const char *user, int nslots);

/* The environment that launching adds for one rank, as NAME=VALUE, appended to env: REIGEN_*,
 * HOROVOD_*, torchrun's names, TF_CONFIG with job->tf_config, PYTHONUNBUFFERED, OMP_NUM_THREADS
 * (where base_env has none). base_env: what the rank has otherwise. For an engine:
 * REIGEN_JOB_ID, np and what has no coordinates of a rank. 0 or -ENOMEM. */
int rg_plan_rank_env(const struct rg_plan *plan, const struct rg_job *job, int rank,
                     const struct rg_strv *base_env, struct rg_strv *env);
/* The same for one that has this seat. */
int rg_plan_seat_env(const struct rg_plan *plan, const struct rg_job *job, int place,
                     const struct rg_plan_seat *seat, const struct rg_strv *base_env,
                     struct rg_strv *env);

/* What launching adds for a task of a role, appended to env: where all tasks are, and their ports
 * (once task_ports are known), by the names that OpenPAI has for that; the role's own variables;
 * and RG_ROLE_VARIABLE. What the user gives a value with --env is left out. 0 or -ENOMEM. */
int rg_plan_task_env(const struct rg_plan *plan, const struct rg_job *job, int rank,
                     struct rg_strv *env);
/* The rank that a task's name means; -1: none. */
int rg_plan_find_task(const struct rg_plan *plan, const char *name);
/* How many ports are to be found on a host for its tasks. */
int rg_plan_count_ports(const struct rg_plan *plan, const struct rg_job *job, int host);
/* Those that were found: by host, as many as that; all tasks get theirs. 0 or -ENOMEM. */
int rg_plan_set_ports(struct rg_plan *plan, const struct rg_job *job, int *const *found);

/* The address by which other hosts reach it; its name, where that is not known. Borrowed. */
const char *rg_plan_address(const struct rg_plan *plan, int host);

/* Whether a host's cpus are known before its agent is there: it will be a child of this process,
 * and so be allowed the same. Not in a container, nor in a step of Slurm's. */
bool rg_plan_knows_cpus(const struct rg_plan *plan, const struct rg_job *job, int host);

/* The map as people read it (--display-map, --dry-run), appended as text. */
void rg_plan_print(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text);

#endif
