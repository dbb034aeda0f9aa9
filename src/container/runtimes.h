/* SPDX-License-Identifier: Apache-2.0 */
/* The container runtimes that there are, for the table in runtime.c. Contract: runtime.h. */
#ifndef RG_CONTAINER_RUNTIMES_H
#define RG_CONTAINER_RUNTIMES_H

#include "container/runtime.h"

extern const struct rg_container_ops rg_container_docker;
extern const struct rg_container_ops rg_container_podman;
extern const struct rg_container_ops rg_container_apptainer; /* and singularity */
extern const struct rg_container_ops rg_container_enroot;

#endif
