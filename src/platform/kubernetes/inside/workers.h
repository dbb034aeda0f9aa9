/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of jobs that a pod runs on other pods which wait for it, as those of the Helm chart
 * do: `reigen-agent pod` runs in them (agent/pod/pod.h), calls this pod until it answers, does one
 * job with it, and calls again. So nothing needs sshd, a name server or the API.
 *
 * The user names the hosts; host mnist-0.mnist is the pod mnist-0. The pod itself is the host that
 * RG_POD_HEAD names, or any name of this computer. A pod that is lost before all are there is
 * awaited again; one that is lost later ends the job with code 76, or 75 if it has said so. An
 * elastic job goes on, and the pod that takes its place joins.
 */
#ifndef RG_PLATFORM_KUBERNETES_INSIDE_WORKERS_H
#define RG_PLATFORM_KUBERNETES_INSIDE_WORKERS_H

#include "launch/host/driver.h"

/* This pod's name among the hosts; where it is set, other pods wait for this one. */
#define RG_POD_HEAD "REIGEN_POD_HEAD"
/* Seconds in the place of the default of --start-timeout. */
#define RG_POD_START_TIMEOUT "REIGEN_POD_START_TIMEOUT"

extern const struct rg_driver_ops rg_driver_pods;

#endif
