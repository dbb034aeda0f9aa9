/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user wants of pods, by the options that reigen run has for them, for those who make pods
 * that are not Reigen's own (src/render).
 *
 * Thread rule: any thread. Blocks: it reads the files that options name.
 */
#ifndef RG_PLATFORM_KUBERNETES_OUTSIDE_TEMPLATE_H
#define RG_PLATFORM_KUBERNETES_OUTSIDE_TEMPLATE_H

#include <jansson.h>

#include "base/error.h"
#include "job/job.h"

/* A pod's template: that of --pod-template with all the others' wishes put over it, and nothing of
 * Reigen's. Its main container is called reigen; --affinity means pods with the label
 * app.kubernetes.io/instance of --name. The caller's; NULL with err. */
json_t *rg_kube_users_template(const struct rg_job *job, struct rg_error *err);

#endif
