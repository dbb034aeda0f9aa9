/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an operator has prepared hosts for mpirun in this pod, a job takes them as mpirun would: in
 * the launcher of an MPIJob (Kubeflow's mpi-operator), or of a TrainJob with the runtime MPI
 * (Kubeflow Trainer). Both mount a host file and name it in MPI's own variables.
 *
 * Those variables alone say nothing: anyone may have set them for an mpirun. So the pod must be a
 * launcher by mpi-operator's K_MPI_JOB_ROLE; or, Trainer sets nothing of that kind, it is a pod and
 * the file is the operators' own /etc/mpi/hostfile. And this process must be no rank of a job.
 *
 * Thread rule: the main thread, while nobody changes the environment. Blocks: it reads the file.
 */
#ifndef RG_JOB_REQUEST_MPIJOB_H
#define RG_JOB_REQUEST_MPIJOB_H

#include "job/options/options.h"

#define RG_MPIJOB_HOSTFILE "/etc/mpi/hostfile"

/* How many slots each host has by the operator's variables, in such a pod; 0: they say none. */
int rg_mpijob_slots(const struct rg_request *request);

/* Where the request names no hosts, and nothing to run on that has hosts of its own: those of the
 * operator's file, if this is such a pod, with a note that says so. Also where it does name some,
 * hosts_come is set, since the pods start together, and what MPI's launcher is to tell ssh is told
 * to ours, behind the user's options. A file without hosts (a launcher alone) is as none. 0;
 * -ENOTSUP: the hosts, or one that the request names, are workers that are reached by a program
 * which is neither ssh nor the operator's script of kubectl exec (that is kept as RG_JOB_EXEC);
 * -errno of a file that cannot be read or understood, with exit_code 2, which tells the variable;
 * -ENOMEM. */
int rg_mpijob_settle(struct rg_request *request, struct rg_error *err);

/* "-o ConnectionAttempts=10 -p 2222", by which an mpirun is told to call ssh, as --ssh-option has
 * it: what has no dash is a value of -o. text may be NULL. 0 or -ENOMEM. */
int rg_mpijob_take_ssh(const char *text, struct rg_strv *options);

#endif
