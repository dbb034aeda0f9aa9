/* SPDX-License-Identifier: Apache-2.0 */
/* A job goes on when a pod is lost, as soon as the Job's controller has made another one, which it
 * does not do at once. The user is to know what is waited for, and for how long. */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "launch/drivers/kubernetes/kubernetes_internal.h"

#define NAMED_MAX 3 /* pods in one line */

bool kube_pod_is_lost(const struct kube_pod *pod)
{
    bool vanished = pod->ended && pod->exit_code < 0 && *pod->name;

    return vanished || kube_pod_is_retried(pod);
}

static uint64_t backoff_ms(const struct kube_pod *pod)
{
    return rg_kubernetes_backoff_ms(pod->nlost + 1);
}

/* "pod job-3-x7k2p on node2 has ended", or of several of them "3 pods have ended: ...". */
static void put_names(const struct kube_host *hosts, int nhosts, int nnew, struct rg_buf *text)
{
    int nnamed = 0;

    if (nnew > 1)
        rg_buf_printf(text, "%d pods have ended (", nnew);
    for (int i = 0; i < nhosts && nnamed < NAMED_MAX; i++) {
        const struct kube_pod *pod = &hosts[i].pod;
        if (hosts[i].told_lost || !kube_pod_is_lost(pod))
            continue;
        rg_buf_printf(text, "%s%s%s%s%s", nnew == 1 ? "pod " : nnamed ? ", " : "", pod->name,
                      *pod->node ? " on " : "", pod->node, nnew == 1 ? " has ended" : "");
        nnamed++;
    }
    if (nnew > 1)
        rg_buf_printf(text, "%s)", nnew > nnamed ? ", ..." : "");
}

uint64_t kube_host_say_lost(struct kube_host *hosts, int nhosts,
                            void (*say)(void *arg, const char *text), void *arg)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    const char *why = "";
    uint64_t ms = 0;
    int nnew = 0;

    for (int i = 0; i < nhosts; i++) {
        const struct kube_pod *pod = &hosts[i].pod;
        if (!kube_pod_is_lost(pod))
            continue;
        ms = backoff_ms(pod) > ms ? backoff_ms(pod) : ms;
        nnew += !hosts[i].told_lost;
        if (!hosts[i].told_lost && !*why)
            why = pod->why;
    }
    if (!nnew)
        return ms;
    put_names(hosts, nhosts, nnew, &text);
    rg_buf_printf(&text, "%s%s; Kubernetes waits %.0f s before it makes %s", *why ? ": " : "", why,
                  (double) ms / 1e3, nnew == 1 ? "another one" : "new ones");
    say(arg, rg_buf_text(&text));
    for (int i = 0; i < nhosts; i++)
        hosts[i].told_lost |= kube_pod_is_lost(&hosts[i].pod);
    return ms;
}
