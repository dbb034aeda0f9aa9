/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver as the head has it, inside the pod of index 0 (platform/common/callers.h): the pods
 * are there, or will be, as the Job's controller makes them, and makes lost ones anew. They find
 * the head by its Service's address. Host NAME-i is the pod of index i. All of them stay
 * when one is lost, so that the job can be started again as soon as that one is replaced; the
 * controller waits the longer the more pods of one index have failed, and not those of all.
 *
 * Thread rule: main thread; nothing blocks but for reading the key's file.
 */
#ifndef RG_PLATFORM_KUBERNETES_INSIDE_PODS_H
#define RG_PLATFORM_KUBERNETES_INSIDE_PODS_H

#include "platform/common/callers.h"
#include "platform/common/pod.h"
#include "wire/link.h"

#define RG_POD_PORT "REIGEN_POD_PORT" /* the head's TCP port, on the Service and in the pod */
#define RG_POD_PORT_DEFAULT 7461
#define RG_POD_SERVICE "REIGEN_POD_SERVICE" /* the Service by whose address the head is called;
                                             * it is called as the job */
#define RG_POD_NAME "REIGEN_POD_NAME" /* of this pod */
#define RG_POD_MARK "REIGEN_POD_MARK" /* perhaps: only pods of the same mark work together */
#define RG_POD_KEY "/reigen/key/key"  /* 64 hexadecimal digits, by which pods know each other */

/* How often a pod of this index was lost before, by the Job's annotations: what counts as a failure
 * there, and what the cluster itself has done to it. */
#define RG_POD_FAILURES "REIGEN_POD_FAILURES"
#define RG_POD_DISRUPTIONS "REIGEN_POD_DISRUPTIONS"

/* How long the Job's controller waits before it makes another pod in the place of one that is lost
 * for the nth time (10 s, 20 s, ...; at most 600 s). */
uint64_t rg_kubernetes_backoff_ms(int n);
/* What RG_POD_FAILURES and RG_POD_DISRUPTIONS say together; 0 where they say nothing. */
int rg_kubernetes_losses(void);
/* What RG_POD_PORT says, or the default. 0; -EINVAL with exit code 2. */
int rg_kubernetes_port(int *ret_port, struct rg_error *err);
/* What is in RG_POD_KEY. 0; -errno with exit code 2. */
int rg_kubernetes_key(uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err);

/* What pods have alike in struct rg_pods_kind. */
#define RG_KUBERNETES_KIND                                                                     \
    .orders = true,                                                                            \
    .port = rg_kubernetes_port,                                                                \
    .port_taken = rg_kubernetes_port_taken,                                                    \
    .pending = "its pod has not called yet",                                                   \
    .stopping = "Kubernetes ends its pod: it is evicted, preempted or deleted, or its node is " \
                "drained",                                                                     \
    .unseen = "its pod is gone without a word: killed, out of memory, deleted at once, or its " \
              "node is lost; kubectl describe pod tells",                                      \
    .given_up = "its pod was not waited for any more"
int rg_kubernetes_port_taken(int port, int errnum, struct rg_error *err);

/* driver.h's start; the rest is rg_pods_stop and so on. */
int rg_kubernetes_start(const struct rg_driver_options *options, void **ret_state,
                        struct rg_error *err);

/* Which pod of Kubernetes' this process is in (agent/pod/pod.h has the files and variables). */
extern const struct rg_pod_platform rg_pod_kubernetes;
/* Whether a pod without an index has found what it needs. */
bool rg_kubernetes_is_ready(void);

#endif
