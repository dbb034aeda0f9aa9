/* SPDX-License-Identifier: Apache-2.0 */
/* What formats.c takes from the formats' files, one table and one function of each, and the texts
 * that the build makes of the scripts beside them (tools/embed.py). As render.h says. */
#ifndef RG_RENDER_FORMATS_H
#define RG_RENDER_FORMATS_H

#include "render/render.h"

/* A file that goes into a ConfigMap. */
struct rg_render_file {
    const char *name; /* "init.sh"; ends the table when NULL */
    const char *text;
};

#define RG_KUBEFLOW_OPENMPI_NAME_MAX 51 /* NAME-worker-9999 is a host's name, too */
extern const struct rg_render_param rg_kubeflow_openmpi_params[];
extern const struct rg_render_file rg_kubeflow_openmpi_files[];
int rg_kubeflow_openmpi_make(const struct rg_render_values *values, json_t *objects,
                             struct rg_error *err);

/* NAME-worker-9999 is a host's name, too; and so is NAME-launcher. */
#define RG_MPIJOB_NAME_MAX 51
extern const struct rg_render_param rg_mpijob_params[];
int rg_mpijob_make(const struct rg_render_values *values, json_t *objects, struct rg_error *err);

#endif
