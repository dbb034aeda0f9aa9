/* SPDX-License-Identifier: Apache-2.0 */
/* What Kubernetes knows of a job's end, and its head, in a pod, does not. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/common/follower.h"
#include "platform/kubernetes/outside/internal.h"

#define ASK_MS 10000
#define NAMED_MAX 3 /* pods in one line */
#define TOLD_MAX 3 /* pods, each in a line of its own */

static bool is_lost(const struct kube_pod *pod)
{
    return pod->killed && !pod->no_memory;
}

void kube_pod_explain(const struct kube_pod *pod, struct rg_error *err)
{
    bool begun = pod->running || !*pod->reason;

    rg_error_set(err, EIO, "%s pod %s%s%s: %s%s",
                 pod->fault && pod->final ? "said by"
                 : pod->fault ? "there is a fault in"
                 : is_lost(pod) ? "Kubernetes has lost"
                 : begun      ? "Kubernetes ended" : "Kubernetes could not start",
                 pod->name, *pod->node ? " on " : "", pod->node, pod->why,
                 begun ? "" : "; do --agent-image and the securityContext fit the image?");
}

int kube_job_explain(const struct kube_pod *head, const struct kube_pod *culprit,
                     const char *reason, struct rg_error *err)
{
    int code = head->exit_code;

    if (culprit) {
        kube_pod_explain(culprit, err);
        return culprit->why_code         ? culprit->why_code
               : culprit->exit_code >= 0 ? culprit->exit_code : code;
    }
    if (*reason && (code < 0 || code == RG_EXIT_PREEMPTED || code == RG_EXIT_HOST_LOST))
        rg_error_set(err, EIO, "Kubernetes ended the job: %s", reason);
    return code;
}

void kube_pod_say_again(const struct kube_pod *pod, const struct kube_pod *old,
                        const struct kube_pod *culprit,
                        void (*say)(void *arg, const char *text), void *arg)
{
    if (!culprit)
        rg_remark(say, arg, "Kubernetes starts the job again: pod %s takes the place of %s",
                  pod->name, old->name);
    else if (culprit == old)
        rg_remark(say, arg, "Kubernetes starts the job again: pod %s takes the place of %s, which "
                  "it has %s: %s", pod->name, old->name, is_lost(old) ? "lost" : "ended", old->why);
    else
        rg_remark(say, arg, "Kubernetes starts the job again: pod %s takes the place of %s; it has "
                  "%s %s: %s", pod->name, old->name, is_lost(culprit) ? "lost" : "ended",
                  culprit->name, culprit->why);
}

void kube_host_say_health(const struct kube_host *hosts, int nhosts,
                          void (*say)(void *arg, const char *text), void *arg)
{
    int ntold = 0;

    for (int i = 0; i < nhosts && ntold < TOLD_MAX; i++) {
        const struct kube_pod *pod = &hosts[i].pod;
        if (*pod->health && ++ntold)
            rg_remark(say, arg, "Kubernetes says of pod %s on %s: %s", pod->name, pod->node,
                      pod->health);
    }
}

static void say_in_vain(const struct kube_memory *memory, const struct rg_error *cause)
{
    rg_remark(memory->say, memory->arg, "pod %s has used more memory than it may, and Kubernetes "
              "starts the job again all the same: %s", memory->pod.name, cause->text);
}

static void on_answer(void *arg)
{
    struct kube_memory *memory = arg;
    struct rg_error cause = RG_ERROR_INIT;

    if (memory->stream.refusal.why == KUBE_FINE)
        return;
    kube_explain_refusal(&memory->stream.refusal, &cause);
    say_in_vain(memory, &cause);
}

void kube_memory_give_up(struct kube_memory *memory, struct rg_loop *loop,
                         const struct kube_place *place, const char *name,
                         const struct kube_pod *pod)
{
    struct rg_error cause = RG_ERROR_INIT;

    if (*memory->pod.name)
        return;
    memory->pod = *pod;
    memory->patch = json_pack("{s:{s:i}}", "spec", "backoffLimit", 0);
    const struct kube_request request = { .verb = KUBE_PATCH, .kind = "jobs", .name = name,
                                          .ms = ASK_MS, .object = memory->patch };
    int r = memory->patch
                ? kube_stream_start(&memory->stream, loop, place, &request,
                                    &(struct kube_listener){ .on_end = on_answer, .arg = memory },
                                    &cause)
                : rg_error_memory(&cause);
    if (r < 0)
        say_in_vain(memory, &cause);
}

void kube_memory_fini(struct kube_memory *memory)
{
    kube_stream_stop(&memory->stream);
    json_decref(memory->patch);
}

/* --- pods that are lost while the job goes on ------------------------------------------------- */

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
