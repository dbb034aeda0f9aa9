/* SPDX-License-Identifier: Apache-2.0 */
/* Pods, Jobs and events, as far as they say how far a start is, or why something has ended. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "platform/kubernetes/outside/internal.h"
#include "platform/kubernetes/inside/pods.h"

#define REASONS_MAX 3 /* that are told at once */
#define LOSSES_MAX 1000
/* Reasons of a container that waits for its image. */
#define PULLS "ErrImagePull ImagePullBackOff ErrImageNeverPull ImageInspectError " \
              "InvalidImageName RegistryUnavailable"

/* --- reading ---------------------------------------------------------------------------------- */

/* The one of a list whose key has this value. */
static const json_t *find(const json_t *items, const char *key, const char *value)
{
    const json_t *item;
    size_t i;

    json_array_foreach(items, i, item) {
        if (strcmp(kube_text(item, key), value) == 0)
            return item;
    }
    return NULL;
}

/* A condition that is so, or, with status "False", is said not to be. */
static const json_t *condition(const json_t *object, const char *type, const char *status)
{
    const json_t *found = find(kube_at(object, "status.conditions"), "type", type);

    return strcmp(kube_text(found, "status"), status) == 0 ? found : NULL;
}

/* Of a long message the middle is left out: the cause stands at its end. */
static void set_reason(struct kube_pod *pod, const char *reason, const char *message)
{
    size_t used = strlen(reason) + strlen(": ...") + 1, n = strlen(message);
    size_t room = used < sizeof(pod->reason) ? sizeof(pod->reason) - used : 0, first = n;
    const char *rest = "", *dots = "";

    if (n > room) {
        for (first = room / 3; first && (message[first] & 0xc0) == 0x80; first--)
            ;
        for (rest = message + n - (room - first); (*rest & 0xc0) == 0x80; rest++)
            ;
        dots = "...";
    }
    snprintf(pod->reason, sizeof(pod->reason), "%s%s%.*s%s%s", reason,
             *reason && *message ? ": " : "", (int) first, message, dots, rest);
}

/* --- a pod that starts ------------------------------------------------------------------------ */

static void read_waiting(struct kube_pod *pod, const json_t *waiting)
{
    const char *reason = kube_text(waiting, "reason"), *message = kube_text(waiting, "message");

    pod->phase = rg_str_has_word(PULLS, reason) ? RG_PHASE_PULLING : RG_PHASE_STARTING;
    if (strcmp(reason, "ContainerCreating") != 0 && strcmp(reason, "PodInitializing") != 0)
        set_reason(pod, reason, message);
}

/* Only the control plane says of a pod that it is not ready while its containers are: its node's
 * kubelet is silent. */
static void read_silence(struct kube_pod *pod, const json_t *object)
{
    pod->silent = condition(object, "Ready", "False") &&
                  condition(object, "ContainersReady", "True") &&
                  !kube_at(object, "spec.readinessGates");
    if (pod->silent)
        set_reason(pod, "its node does not answer", pod->node);
}

static void read_start(struct kube_pod *pod, const json_t *object, const json_t *container)
{
    const json_t *unscheduled = condition(object, "PodScheduled", "False");
    const json_t *waiting = kube_at(container, "state.waiting"), *first;
    size_t i;

    pod->phase = *pod->node ? RG_PHASE_STARTING : RG_PHASE_PENDING;
    if (unscheduled)
        set_reason(pod, kube_text(unscheduled, "reason"), kube_text(unscheduled, "message"));
    json_array_foreach(kube_at(object, "status.initContainerStatuses"), i, first) {
        const json_t *held = kube_at(first, "state.waiting");
        if (held && strcmp(kube_text(held, "reason"), "PodInitializing") != 0)
            waiting = held;
    }
    if (waiting)
        read_waiting(pod, waiting);
    if (kube_at(container, "state.running")) {
        pod->running = true;
        pod->phase = RG_PHASE_CONNECTING;
        read_silence(pod, object);
    }
}

/* --- a pod that has ended --------------------------------------------------------------------- */

/* What has befallen a container of which the pod's conditions say nothing. A Job can tell it from
 * its exit code alone, and so takes it for a lost host, also where memory was the reason. */
static const char *read_loss(struct kube_pod *pod, const char **reason, bool killed)
{
    pod->killed = killed;
    if (strcmp(*reason, "OOMKilled") == 0) {
        pod->no_memory = killed;
        return "the pod has used more memory than it may; give it more with --memory";
    }
    if (!killed)
        return "";
    pod->why_code = RG_EXIT_HOST_LOST;
    if (!**reason)
        *reason = "Error";
    return "its container was killed as a whole, or its node was lost for a while";
}

/* Whether a container has ended by this reason without a program that ran in it. */
static bool never_ran(const char *reason)
{
    return rg_str_has_word("StartError ContainerCannotRun", reason);
}

bool kube_pod_lacks_agent(const json_t *object)
{
    const json_t *volumes = kube_at(object, "spec.volumes");

    return json_array_size(volumes) && !find(volumes, "name", KUBE_AGENT_VOLUME);
}

/* Kubernetes' own reasons come before the exit code that they lead to. */
static void read_why(struct kube_pod *pod, const json_t *object, const char *container_reason,
                     bool killed)
{
    const json_t *disrupted = condition(object, "DisruptionTarget", "True");
    const char *reason = kube_text(object, "status.reason"),
               *message = kube_text(object, "status.message");

    if (disrupted) {
        reason = kube_text(disrupted, "reason");
        message = kube_text(disrupted, "message");
        bool lost = rg_str_has_word("DeletionByTaintManager DeletionByPodGC", reason);
        pod->why_code = lost ? RG_EXIT_HOST_LOST : RG_EXIT_PREEMPTED;
    } else if (*reason) {
        pod->why_code = strcmp(reason, "NodeLost") == 0 ? RG_EXIT_HOST_LOST : RG_EXIT_PREEMPTED;
    } else if (killed ||
               (*container_reason && !rg_str_has_word("Completed Error", container_reason))) {
        reason = container_reason;
        message = pod->exit_code == RG_EXIT_CONTAINER ? pod->reason
                                                      : read_loss(pod, &reason, killed);
    } else {
        return;
    }
    snprintf(pod->why, sizeof(pod->why), "%s%s%.*s", reason, *message ? ": " : "",
             KUBE_TEXT_MAX - 64, message);
}

/* What our program has left as the termination message. The head says its faults itself. */
static void read_words(struct kube_pod *pod, const char *message)
{
    KUBE_AUTO_JSON json_t *words = json_loads(message, JSON_DISABLE_EOF_CHECK, NULL);
    int code = (int) json_integer_value(kube_at(words, "exit_code"));

    pod->fault = pod->index != 0 && json_is_true(json_object_get(words, "fault"));
    if (pod->fault)
        snprintf(pod->why, sizeof(pod->why), "%s", kube_text(words, "cause"));
    if (pod->index == 0) {
        const json_t *log = json_object_get(words, "log");
        pod->log_nbytes = (uint64_t) json_integer_value(json_array_get(log, 0));
        pod->log_nlines = (uint64_t) json_integer_value(json_array_get(log, 1));
    }
    if (pod->exit_code != RG_POD_FAILED)
        return;
    pod->final = code == RG_EXIT_PREEMPTED || code == RG_EXIT_HOST_LOST;
    if (pod->final || code == RG_POD_KILLED || code == RG_POD_LOST)
        pod->exit_code = code;
}

/* Its exit code; whether it was killed as a whole is returned. */
static bool read_exit(struct kube_pod *pod, const json_t *object, const json_t *ended)
{
    const char *message = kube_text(ended, "message");

    pod->exit_code = (int) json_integer_value(kube_at(ended, "exitCode"));
    if (never_ran(kube_text(ended, "reason"))) {
        pod->exit_code = RG_EXIT_CONTAINER; /* not the 128 of those who could not run it */
        if (kube_pod_lacks_agent(object))
            message = KUBE_NO_IMAGE_VOLUMES;
        snprintf(pod->reason, sizeof(pod->reason), "%s", message);
        return false;
    }
    pod->running = true;
    bool killed = pod->exit_code == RG_POD_KILLED || pod->exit_code == RG_POD_LOST;
    read_words(pod, message);
    return killed;
}

static void read_end(struct kube_pod *pod, const json_t *object, const json_t *container)
{
    const json_t *ended = kube_at(container, "state.terminated");
    const char *phase = kube_text(object, "status.phase");
    bool killed = ended && read_exit(pod, object, ended);

    pod->ended = ended || strcmp(phase, "Failed") == 0 || strcmp(phase, "Succeeded") == 0;
    if (pod->ended) {
        pod->phase = RG_PHASE_ENDED;
        read_why(pod, object, kube_text(ended, "reason"), killed);
    } else if (condition(object, "DisruptionTarget", "True")) {
        read_why(pod, object, "", false);
    }
    if (pod->exit_code == RG_EXIT_CONTAINER && !pod->running) /* the same words, as of a start */
        memcpy(pod->reason, pod->why, sizeof(pod->reason));
}

/* Where the server tells of devices: each resource, and which of it are not well. */
static void read_health(struct kube_pod *pod, const json_t *container)
{
    const json_t *resource, *device;
    size_t i, k, n = 0;

    json_array_foreach(kube_at(container, "allocatedResourcesStatus"), i, resource) {
        json_array_foreach(kube_at(resource, "resources"), k, device) {
            const char *health = kube_text(device, "health");
            if (n >= sizeof(pod->health) || !*health || strcmp(health, "Healthy") == 0)
                continue;
            n += (size_t) snprintf(pod->health + n, sizeof(pod->health) - n, "%s%s %s is %s",
                                   n ? ", " : "", kube_text(resource, "name"),
                                   kube_text(device, "resourceID"), health);
        }
    }
}

/* An annotation, of pods of a Job that counts for each index alone. */
static int read_count(const json_t *object, const char *name)
{
    const json_t *all = kube_at(object, "metadata.annotations");
    const char *text = json_string_value(json_object_get(all, name));
    int64_t n = 0;

    if (text)
        rg_parse_int(name, text, 0, LOSSES_MAX, &n, NULL);
    return (int) n;
}

void kube_pod_read(const json_t *object, struct kube_pod *ret_pod)
{
    const json_t *container = find(kube_at(object, "status.containerStatuses"), "name",
                                   KUBE_CONTAINER);
    const json_t *labels = kube_at(object, "metadata.labels");
    const char *index = json_string_value(
        json_object_get(labels, "batch.kubernetes.io/job-completion-index"));
    struct kube_pod pod = { .index = -1, .exit_code = -1 };
    int64_t n;

    if (index && rg_parse_int("index", index, 0, RG_JOB_HOSTS_MAX, &n, NULL) == 0)
        pod.index = (int) n;
    snprintf(pod.name, sizeof(pod.name), "%s", kube_text(object, "metadata.name"));
    snprintf(pod.created, sizeof(pod.created), "%s",
             kube_text(object, "metadata.creationTimestamp"));
    snprintf(pod.node, sizeof(pod.node), "%s", kube_text(object, "spec.nodeName"));
    pod.deleted = kube_at(object, "metadata.deletionTimestamp");
    pod.nlost = read_count(object, "batch.kubernetes.io/job-index-failure-count") +
                read_count(object, "batch.kubernetes.io/job-index-ignored-failure-count");
    read_start(&pod, object, container);
    read_end(&pod, object, container);
    read_health(&pod, container);
    *ret_pod = pod;
}

/* --- the Job, and events ---------------------------------------------------------------------- */

enum kube_job_state kube_job_read(const json_t *job, char *ret_reason, size_t nbytes)
{
    const json_t *failed = condition(job, "Failed", "True");

    *ret_reason = '\0';
    if (!failed)
        failed = condition(job, "FailureTarget", "True");
    if (failed) {
        snprintf(ret_reason, nbytes, "%s: %s", kube_text(failed, "reason"),
                 kube_text(failed, "message"));
        return KUBE_JOB_FAILED;
    }
    if (condition(job, "Complete", "True") || condition(job, "SuccessCriteriaMet", "True"))
        return KUBE_JOB_COMPLETE;
    return json_is_true(kube_at(job, "spec.suspend")) ? KUBE_JOB_SUSPENDED : KUBE_JOB_ACTIVE;
}

bool kube_event_read(const json_t *event, const char **ret_name, enum rg_host_phase *ret_phase,
                     char *ret_reason, size_t nbytes)
{
    static const struct {
        const char *reason;
        enum rg_host_phase phase;
        bool silent; /* the phase says it all */
    } known[] = {
        { "Pulling", RG_PHASE_PULLING, true },      { "Pulled", RG_PHASE_STARTING, true },
        { "FailedMount", RG_PHASE_STARTING, false },
        { "FailedAttachVolume", RG_PHASE_STARTING, false },
        { "FailedCreatePodSandBox", RG_PHASE_STARTING, false },
        { "FailedCreate", RG_PHASE_PENDING, false }, { "Preempting", RG_PHASE_PENDING, false },
    };
    const char *reason = kube_text(event, "reason");

    for (size_t i = 0; i < rg_array_len(known); i++) {
        if (strcmp(reason, known[i].reason) != 0)
            continue;
        *ret_name = kube_text(event, "involvedObject.name");
        *ret_phase = known[i].phase;
        snprintf(ret_reason, nbytes, "%s%s%s", known[i].silent ? "" : reason,
                 known[i].silent ? "" : ": ", known[i].silent ? "" : kube_text(event, "message"));
        return true;
    }
    return false;
}

/* --- whether they have come, and whether it helps to wait ------------------------------------- */

bool kube_pod_is_retried(const struct kube_pod *pod)
{
    return pod->ended && !pod->final &&
           (pod->why_code || pod->killed || pod->exit_code == RG_EXIT_PREEMPTED ||
            pod->exit_code == RG_EXIT_HOST_LOST);
}

bool kube_pod_is_past(const struct kube_pod *now, const struct kube_pod *pod)
{
    int age = strcmp(now->created, pod->created);

    return *now->name && strcmp(now->name, pod->name) != 0 &&
           (age > 0 || (age == 0 && pod->ended && !now->ended));
}

void kube_pod_remember_silence(const struct kube_pod *old, struct kube_pod *pod)
{
    if (!old->silent || strcmp(old->name, pod->name) != 0)
        return;
    pod->silent = true;
    if (!pod->ended || (*pod->why && !pod->killed) || pod->no_memory ||
        pod->exit_code < RG_EXIT_SIGNAL)
        return;
    pod->why_code = RG_EXIT_HOST_LOST;
    snprintf(pod->why, sizeof(pod->why), "NodeLost: its node did not answer, and killed it (%d)",
             pod->exit_code);
}

const struct kube_pod *kube_host_find_culprit(const struct kube_host *hosts, int nhosts)
{
    for (int i = 1; i < nhosts; i++) {
        if (hosts[i].pod.ended && *hosts[i].pod.why)
            return &hosts[i].pod;
    }
    return NULL;
}

bool kube_host_is_up(const struct kube_host *host)
{
    const struct kube_pod *pod = &host->pod;

    return pod->running && !kube_pod_is_lost(pod) && !pod->silent;
}

static const char *reason_of(const struct kube_pod *pod)
{
    return pod->ended && (pod->running || !*pod->reason)
               ? "it has ended, and no other pod has taken its place yet"
           : *pod->reason ? pod->reason
           : *pod->node ? "its container does not start"
           : *pod->name ? "no node was found for it yet" : "there is no such pod yet";
}

void kube_host_put_reasons(const struct kube_host *hosts, int nhosts, const char *name,
                           struct rg_buf *text)
{
    int ntold = 0;

    for (int i = 0; i < nhosts; i++) {
        const char *reason = reason_of(&hosts[i].pod);
        int nsame = 0;
        bool told = kube_host_is_up(&hosts[i]);
        for (int k = 0; k < nhosts; k++) {
            bool same = !kube_host_is_up(&hosts[k]) &&
                        strcmp(reason_of(&hosts[k].pod), reason) == 0;
            told |= same && k < i;
            nsame += same;
        }
        if (told || ++ntold > REASONS_MAX)
            continue;
        rg_buf_printf(text, "%s%s-%d", ntold > 1 ? "; " : "", name, i);
        if (nsame > 1)
            rg_buf_printf(text, " and %d more", nsame - 1);
        rg_buf_printf(text, ": %s", reason);
    }
}

bool kube_host_is_given_up(struct kube_host *host, int npods, bool *ret_wait,
                           struct kube_hopeless *ret_cause)
{
    if (kube_host_is_up(host) || !kube_is_hopeless(host->pod.reason, npods, ret_cause)) {
        host->hopeless = NULL;
        return false;
    }
    if (host->hopeless != ret_cause->kind)
        host->hopeless_ns = rg_now_ns();
    host->hopeless = ret_cause->kind;
    *ret_wait = true;
    return rg_now_ns() - host->hopeless_ns >= ret_cause->after_ms * RG_NS_PER_MS;
}

bool kube_pod_is_lost(const struct kube_pod *pod)
{
    bool vanished = pod->ended && pod->exit_code < 0 && *pod->name;

    return vanished || kube_pod_is_retried(pod);
}
