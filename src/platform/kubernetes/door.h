/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kubernetes driver: the agents are the pods of one Indexed Job. That of index 0 has the head,
 * and the others call it (pods.h, agent/pod/pod.h).
 */
#ifndef RG_PLATFORM_KUBERNETES_DOOR_H
#define RG_PLATFORM_KUBERNETES_DOOR_H

#include "launch/host/driver.h"

extern const struct rg_driver_ops rg_driver_kubernetes;

#endif
