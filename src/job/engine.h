/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which engine starts the ranks of a job, and how the engines are called: in --engine, in the
 * message that tells the agents (wire/msg.h, SETUP) and in what people read.
 *
 *   native    our agents start every rank
 *   openmpi   mpirun of Open MPI, put together by the agent on the first host
 *   hydra     mpiexec of MPICH or Intel MPI, likewise
 *   mpirun    the command is the user's own call of mpirun or the like: it runs once, on the first
 *             host, and is given the hosts and the number of ranks where it names none. Nobody asks
 *             for it by name: it is what `auto` finds
 *   script    the command runs once, on the first host, and starts what it likes
 *
 * Thread rule: any; nothing is kept.
 */
#ifndef RG_JOB_ENGINE_H
#define RG_JOB_ENGINE_H

#include <stdbool.h>

#include "job/job.h"

/* The engine's name as above, with `auto` resolved by the command's name. Constant. */
const char *rg_job_engine_name(const struct rg_job *job);

/* True when something else than our agents starts the ranks: the job's only task is the engine. */
bool rg_job_has_engine(const struct rg_job *job);

/* What the engine's process is called by people: the job's title or the command's name, without
 * folders, or mpirun where we call that. Borrowed from the job, or constant. */
const char *rg_job_engine_program(const struct rg_job *job);

/* What stands before the command where we put mpirun's line together, appended: --bind-to and
 * --map-by as that engine knows them, then --engine-option. 0 or -ENOMEM. */
int rg_job_engine_options(const struct rg_job *job, struct rg_strv *options);

/* Whether --engine native's options (--bind-to core, --pty, ...) make sense with this engine; and
 * --engine-option only where an engine is put together. 0 or -EINVAL with the remedy. */
int rg_job_check_engine(const struct rg_job *job, struct rg_error *err);

#endif
