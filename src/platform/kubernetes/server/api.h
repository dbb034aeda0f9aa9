/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport of a pod without kubectl, and of a gate (gate.h), as far as tests and transport.c
 * look into it: requests as HTTP, and the API's Status objects as refusals. transport.h says what a
 * transport does.
 *
 * In a pod, Kubernetes names the API server in KUBERNETES_SERVICE_HOST and _PORT, and puts the
 * service account's token, namespace and certificate authority into API_ACCOUNT. The token changes
 * in time, so it is read again for each request. The server, or the gate, is always asked directly,
 * whatever proxies the environment names: it is the pod's own cluster, or a socket here.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_PLATFORM_KUBERNETES_SERVER_API_H
#define RG_PLATFORM_KUBERNETES_SERVER_API_H

#include "platform/kubernetes/server/transport.h"

#define API_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

/* NULL where this transport can be used; else why it cannot, for a message. */
const char *api_why_not(void);
/* The address of a request: "https://10.96.0.1:443/apis/batch/v1/namespaces/NS/jobs?...". gate: it
 * goes to a `kubectl proxy`. kind: one of the request's; object: one of those to be created. Into
 * url, which is empty. 0 or -ENOMEM. */
int api_url(const struct kube_request *request, bool gate, const char *ns, const char *kind,
            const json_t *object, struct rg_buf *url);
/* What the server says with a code from 300 on. object: what was to be created, or NULL. */
void api_refusal(long code, const char *text, size_t nbytes, const json_t *object,
                 struct kube_refusal *ret_refusal);

#endif
