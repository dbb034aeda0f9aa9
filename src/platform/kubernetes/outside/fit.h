/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a job's pods would find a place: arithmetic on what the API server tells. Nothing is
 * asked here.
 *
 * Amounts are objects {"cpu": 1500, "memory": ...} of thousandths, so that 500m is a whole number.
 *
 * Thread rule: any thread; nothing blocks.
 */
#ifndef RG_PLATFORM_KUBERNETES_OUTSIDE_FIT_H
#define RG_PLATFORM_KUBERNETES_OUTSIDE_FIT_H

#include "base/exitcode.h"
#include "platform/kubernetes/outside/internal.h"
#include "launch/host/outlook.h"

#define KUBE_MILLI_MAX (INT64_MAX / 4) /* what is more counts as this */

/* All borrowed. */
struct kube_fit {
    const json_t *pod;   /* one of the job's: metadata and spec, with the server's defaults */
    int npods;
    const json_t *nodes; /* arrays of objects, as the server lists them */
    const json_t *pods;  /* that are there; those that have ended do not count */
};

/* A quantity, such as 500m, 1.5 or 8Gi, in thousandths, rounded up; 0 for what is none. */
int64_t kube_milli(const char *text);
/* The other way, for people: memory and the like with a unit. Into buf, which is returned. */
const char *kube_amount(const char *resource, int64_t milli, char *buf, size_t nbytes);

/* What the whole pod asks for; part is "requests" or "limits". The caller's. */
json_t *kube_pod_amounts(const json_t *spec, const char *part);

/* Add the nodes, each with how many of the pods it takes, and why not more: by taints, selectors,
 * required affinity to nodes, required distance between the job's own pods, ports of the host, and
 * all resources. What else a scheduler may look at (volumes, spread, affinity to others' pods) is
 * not looked at. */
void kube_fit_nodes(const struct kube_fit *fit, struct rg_outlook *outlook);
/* How many of all the pods wait for a node. */
int kube_fit_waiting(const struct kube_fit *fit);
/* Add what the namespace's quotas say. counts: how many objects of each kind the job makes, by
 * the names that quotas have for them. */
void kube_fit_quotas(const struct kube_fit *fit, const json_t *quotas, const json_t *counts,
                     struct rg_outlook *outlook);

#endif
