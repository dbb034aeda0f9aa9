/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons of pods that do not start which no waiting takes away, in Kubernetes' own words. */
#include <ctype.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/kubernetes/outside/fit.h"
#include "platform/kubernetes/outside/internal.h"

#define SURE_MS 1000      /* the same pod is refused each time, */
#define LIKELY_MS 5000    /* what is missing may come in a moment, */
#define DOUBTFUL_MS 30000 /* and a registry may be away for some time */
#define IMAGE "look at the image's name; for a registry that wants a log-in, --image-pull-secret"
#define REGISTRY "the node does not reach the registry: look at the image's name"

/* Why pods do not start, where waiting alone helps nothing; the first one that fits counts. */
static const struct {
    const char *reason, *needle; /* how it begins, and what is in it */
    uint64_t after_ms;           /* it is to stand so long */
    int exit_code;
    const char *remedy;
} hopeless[] = {
    { "FailedCreate: ", "violates PodSecurity", SURE_MS, RG_EXIT_USAGE, KUBE_RESTRICTED },
    { "FailedCreate: ", "must specify", SURE_MS, RG_EXIT_USAGE,
      "the namespace has a quota that counts it: say --cpu and --memory" },
    { "FailedCreate: ", " usage per ", SURE_MS, RG_EXIT_USAGE,
      "the namespace has a LimitRange: give other values to --cpu, --memory or --resource" },
    { "FailedCreate: ", "no PriorityClass", SURE_MS, RG_EXIT_USAGE,
      "kubectl get priorityclasses lists those that there are, for --priority-class" },
    { "FailedCreate: ", "error looking up service account", LIKELY_MS, RG_EXIT_USAGE,
      "kubectl get serviceaccounts lists those that there are, for --service-account" },
    { "FailedCreate: ", "is invalid", SURE_MS, RG_EXIT_USAGE, "correct that value" },
    { "Unschedulable: ", "persistentvolumeclaim \"", LIKELY_MS, RG_EXIT_CONTAINER,
      "kubectl get pvc lists the claims that there are, for --volume" },
    { "FailedMount: ", "\" not found", LIKELY_MS, RG_EXIT_CONTAINER,
      "what the pod is to mount is not there, or not any more" },
    { "ErrImagePull", "dial tcp", DOUBTFUL_MS, RG_EXIT_CONTAINER, REGISTRY },
    { "ErrImagePull", "connect: ", DOUBTFUL_MS, RG_EXIT_CONTAINER, REGISTRY },
    { "ErrImagePull", "i/o timeout", DOUBTFUL_MS, RG_EXIT_CONTAINER, REGISTRY },
    { "ErrImagePull", "server misbehaving", DOUBTFUL_MS, RG_EXIT_CONTAINER, REGISTRY },
    { "ErrImagePull", "name resolution", DOUBTFUL_MS, RG_EXIT_CONTAINER, REGISTRY },
    { "ErrImagePull", "handshake timeout", DOUBTFUL_MS, RG_EXIT_CONTAINER, REGISTRY },
    { "ErrImagePull", "deadline exceeded", DOUBTFUL_MS, RG_EXIT_CONTAINER, REGISTRY },
    { "ErrImagePull", "awaiting headers", DOUBTFUL_MS, RG_EXIT_CONTAINER, REGISTRY },
    { "ErrImagePull", "no such host", DOUBTFUL_MS, RG_EXIT_CONTAINER, REGISTRY },
    { "ErrImagePull", "not found", LIKELY_MS, RG_EXIT_CONTAINER, IMAGE },
    { "ErrImagePull", "manifest unknown", LIKELY_MS, RG_EXIT_CONTAINER, IMAGE },
    { "ErrImagePull", "denied", LIKELY_MS, RG_EXIT_CONTAINER, IMAGE },
    { "ErrImagePull", "nauthorized", LIKELY_MS, RG_EXIT_CONTAINER, IMAGE },
    { "ErrImageNeverPull", "", LIKELY_MS, RG_EXIT_CONTAINER,
      "put the image on the nodes, or leave out --pull never" },
    { "InvalidImageName", "", LIKELY_MS, RG_EXIT_CONTAINER, "correct the name of the image" },
    { "CreateContainerConfigError", "", LIKELY_MS, RG_EXIT_CONTAINER,
      "kubectl describe pod shows more" },
    { "RunContainerError", "", LIKELY_MS, RG_EXIT_CONTAINER, "kubectl describe pod shows more" },
    { "StartError", "", LIKELY_MS, RG_EXIT_CONTAINER, "kubectl describe pod shows more" },
    { "ContainerCannotRun", "", LIKELY_MS, RG_EXIT_CONTAINER, "kubectl describe pod shows more" },
};

/* --- quota ------------------------------------------------------------------------------------ */

/* The value of NAME=VALUE in a list that ", " ends, in thousandths; -1: it is not there. */
static int64_t find_quantity(const char *list, const char *name, size_t nbytes)
{
    for (; *list && *list != ' '; list += strcspn(list, ", "), list += *list == ',') {
        if (strncmp(list, name, nbytes) == 0 && list[nbytes] == '=' &&
            isdigit((unsigned char) list[nbytes + 1]))
            return kube_milli(list + nbytes + 1);
    }
    return -1;
}

/* "exceeded quota: Q, requested: cpu=1,pods=1, used: cpu=1,pods=1, limited: cpu=2,pods=1": whether
 * it would not do for all pods of the job if nobody else had any of it. */
static bool is_too_small(const char *reason, int npods)
{
    static const char requested[] = "requested: ", limited[] = "limited: ";
    const char *p = strstr(reason, requested), *limits = strstr(reason, limited);

    if (!strstr(reason, "exceeded quota") || !p || !limits)
        return false;
    for (p += strlen(requested), limits += strlen(limited); *p && *p != ' ';
         p += strcspn(p, ", "), p += *p == ',') {
        size_t n = strcspn(p, "=");
        int64_t limit = find_quantity(limits, p, n);
        if (p[n] && limit >= 0 && (double) kube_milli(p + n + 1) * npods > (double) limit)
            return true;
    }
    return false;
}

bool kube_is_hopeless(const char *reason, int npods, struct kube_hopeless *ret_cause)
{
    if (is_too_small(reason, npods)) {
        *ret_cause = (struct kube_hopeless){
            "quota", SURE_MS, RG_EXIT_UNAVAILABLE,
            "the quota is too small for all pods of the job: ask for less (--cpu, --memory, -np)"
        };
        return true;
    }
    const char *begin = rg_str_starts(reason, "ImagePullBackOff") ? "ErrImagePull" : reason;
    for (size_t i = 0; i < rg_array_len(hopeless); i++) {
        if (!rg_str_starts(begin, hopeless[i].reason) || !strstr(reason, hopeless[i].needle))
            continue;
        *ret_cause = (struct kube_hopeless){ hopeless[i].needle, hopeless[i].after_ms,
                                             hopeless[i].exit_code, hopeless[i].remedy };
        return true;
    }
    return false;
}
