/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of formats: what is not here, reigen render does not know. */
#include "render/formats.h"

const struct rg_render_format rg_render_formats[] = {
    { "kubeflow-openmpi",
      "Kubeflow's prototype openmpi: pods with sshd and Open MPI, without ksonnet.",
      "A master and workers, pods of an image that has Open MPI and an OpenSSH server. The master "
      "runs EXEC, as a rule mpiexec; its log is the job's output. Parameters, objects, names and "
      "paths are those of the prototype; docs/kubeflow.md maps each command of its README.",
      false, RG_KUBEFLOW_OPENMPI_NAME_MAX, rg_kubeflow_openmpi_params, rg_kubeflow_openmpi_make },
    { "mpijob",
      "An MPIJob for clusters that run Kubeflow's mpi-operator.",
      "A launcher, which runs COMMAND, and workers with sshd: an MPIJob kubeflow.org/v2beta1. "
      "Parameters in camel case are its fields, the others are options of reigen run. COMMAND is "
      "as a rule reigen run -- PROGRAM, or mpirun PROGRAM; both find the workers by themselves.",
      true, RG_MPIJOB_NAME_MAX, rg_mpijob_params, rg_mpijob_make },
    { .name = NULL }
};
