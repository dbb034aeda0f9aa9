/* SPDX-License-Identifier: Apache-2.0 */
/* A program beside the head of a job: kubectl exec, in the container of its pod. */
#include <string.h>

#include "base/exitcode.h"
#include "platform/kubernetes/outside/internal.h"

#define ASK_MS 10000

/* The newest of those that run: a head that was replaced has left its pod. */
static void choose(const json_t *items, struct kube_pod *ret_head)
{
    const json_t *item;
    size_t i;

    *ret_head = (struct kube_pod){ .index = -1 };
    json_array_foreach(items, i, item) {
        struct kube_pod pod;
        kube_pod_read(item, &pod);
        if (pod.running && !pod.ended && strcmp(pod.created, ret_head->created) >= 0)
            *ret_head = pod;
    }
}

static int find_head(const struct kube_place *place, const char *name, struct kube_pod *ret_head,
                     struct rg_error *err)
{
    rg_autofree char *selector = rg_strf(KUBE_JOB_PODS
                                         ",batch.kubernetes.io/job-completion-index=0", name);
    const struct kube_request request = { .verb = KUBE_GET, .kind = "pods", .selector = selector,
                                          .ms = ASK_MS };
    KUBE_AUTO_JSON json_t *pods = NULL;

    if (!selector)
        return rg_error_memory(err);
    int r = kube_get(place, &request, ASK_MS, &pods, err);
    if (r < 0)
        return r;
    choose(json_object_get(pods, "items"), ret_head);
    return *ret_head->name ? 0
                           : rg_error_set_exit(err, ESRCH, RG_EXIT_UNAVAILABLE,
                                               "its first pod does not run; reigen status %s "
                                               "tells how it does", name);
}

int kube_beside(const struct rg_submitted_job *job, char *const *argv, struct rg_strv *words,
                struct rg_error *err)
{
    char text[KUBE_TEXT_MAX];
    struct kube_place place = kube_place_submitted(job, text);
    const struct kube_transport *by = kube_transport_choose(&place, err);
    struct kube_pod head;

    if (by && by != &kube_kubectl)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "kubectl exec leads to its head, and there is no kubectl in PATH");
    int r = by ? find_head(&place, job->id, &head, err) : -ENOENT;
    if (r < 0)
        return r;
    rg_strv_add(words, "kubectl");
    if (place.context)
        rg_strv_addf(words, "--context=%s", place.context);
    if (place.ns)
        rg_strv_addf(words, "--namespace=%s", place.ns);
    rg_strv_add(words, "exec");
    rg_strv_add(words, "--stdin");
    rg_strv_addf(words, "--container=%s", KUBE_CONTAINER);
    rg_strv_add(words, head.name);
    rg_strv_add(words, "--");
    rg_strv_add(words, KUBE_AGENT_PROGRAM);
    rg_strv_add_all(words, argv);
    return rg_strv_status(words) < 0 ? rg_error_memory(err) : 0;
}
