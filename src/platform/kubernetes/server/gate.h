/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kubectl for several requests: `kubectl proxy` at a socket in a directory of ours, which only
 * this user can enter. kubectl takes 50 ms of a core to begin, and three were needed to make a job;
 * libcurl talks to this one, as it does to the API in a pod (api.c), so contexts, proxies and
 * plug-ins that log in stay the user's. Where there is no libcurl.so.4, or kubectl serves nothing,
 * each request has a kubectl of its own, as ever.
 *
 * Thread rule: the loop's thread; only kube_gate_wait blocks.
 */
#ifndef RG_PLATFORM_KUBERNETES_SERVER_GATE_H
#define RG_PLATFORM_KUBERNETES_SERVER_GATE_H

#include "platform/kubernetes/server/transport.h"

struct kube_gate {
    struct kube_place place; /* once it serves: for kube_ask and its like; namespace and context
                                are as they were then */
    const struct kube_place *outside; /* borrowed */
    pid_t pid, where_pid;    /* the proxy; who says the namespace and the context; 0: nobody */
    int alive;               /* the proxy ends when this is closed, also by our death */
    int said, where;         /* what they write */
    char *folder, *socket, *ns, *context;
};

/* Begin. gate: anything. place: not a gate's. False: there will be none, and nothing is to be
 * closed. */
bool kube_gate_open(struct kube_gate *gate, const struct kube_place *place);
/* Wait until it serves, ms at most. False: it does not, and is closed. */
bool kube_gate_wait(struct kube_gate *gate, uint64_t ms);
/* End it. One that is closed is fine, and so is a zeroed one. */
void kube_gate_close(struct kube_gate *gate);

#endif
