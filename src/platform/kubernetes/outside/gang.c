/* SPDX-License-Identifier: Apache-2.0 */
/* Pod groups: all pods of a job start, or none does, and no two jobs wait for each other with half
 * of their pods. Who has them differs in what a pod says of its group and in the group's fields. */
#include <string.h>

#include "base/exitcode.h"
#include "platform/kubernetes/outside/internal.h"

#define FIND_MS 20000

/* --- of Kubernetes itself --------------------------------------------------------------------- */

/* In which its fields are the same. */
static const char *const own_versions[] = { "scheduling.k8s.io/v1beta1",
                                            "scheduling.k8s.io/v1alpha3", NULL };

static void set_priority(json_t *spec, const struct kube_parts *parts)
{
    const char *class = kube_option(parts->job, "priority-class");

    if (class)
        json_object_set_new(spec, "priorityClassName", json_string(class));
}

static void join_own(const char *name, json_t *metadata, json_t *spec)
{
    (void) metadata;
    json_object_set_new(spec, "schedulingGroup", json_pack("{s:s}", "podGroupName", name));
}

static json_t *make_own(const struct kube_parts *parts)
{
    json_t *spec = json_pack("{s:{s:{s:i}}}", "schedulingPolicy", "gang", "minCount",
                             parts->npods);

    set_priority(spec, parts);
    return spec;
}

/* --- Volcano's -------------------------------------------------------------------------------- */

static const char *const volcano_versions[] = { "scheduling.volcano.sh/v1beta1", NULL };

static void join_volcano(const char *name, json_t *metadata, json_t *spec)
{
    json_t *annotations = json_object_get(metadata, "annotations");

    if (!json_is_object(annotations)) {
        annotations = json_object();
        json_object_set_new(metadata, "annotations", annotations);
    }
    json_object_set_new(annotations, "scheduling.k8s.io/group-name", json_string(name));
    json_object_set_new(spec, "schedulerName", json_string("volcano"));
}

/* An elastic job begins with fewer pods than it may have. */
static int count_needed(const struct kube_parts *parts)
{
    int nslots = parts->job->nhosts ? parts->job->hosts[0].nslots : 1;

    return parts->job->elastic.on ? (parts->job->np + nslots - 1) / nslots : parts->npods;
}

static json_t *make_volcano(const struct kube_parts *parts)
{
    const char *queue = kube_option(parts->job, "queue");
    json_t *spec = json_pack("{s:i}", "minMember", count_needed(parts));

    set_priority(spec, parts);
    if (queue)
        json_object_set_new(spec, "queue", json_string(queue));
    return spec;
}

/* --- scheduler-plugins' ----------------------------------------------------------------------- */

static const char *const plugins_versions[] = { "scheduling.x-k8s.io/v1alpha1", NULL };

static void join_plugins(const char *name, json_t *metadata, json_t *spec)
{
    (void) spec;
    json_object_set_new(json_object_get(metadata, "labels"), "scheduling.x-k8s.io/pod-group",
                        json_string(name));
}

static json_t *make_plugins(const struct kube_parts *parts)
{
    return json_pack("{s:i, s:I}", "minMember", count_needed(parts), "scheduleTimeoutSeconds",
                     (json_int_t) (parts->job->start_timeout_ms / 1000));
}

/* --- whichever it is -------------------------------------------------------------------------- */

static const struct gang {
    const char *name; /* as --gang has it */
    const char *const *versions; /* of its pod groups, the newest first */
    bool asks;   /* the server says which one it has; else it is the first */
    bool queues; /* --queue means one of its own */
    void (*join)(const char *name, json_t *metadata, json_t *spec);
    json_t *(*make)(const struct kube_parts *parts);
} gangs[] = {
    { "kubernetes", own_versions, true, false, join_own, make_own },
    { "volcano", volcano_versions, false, true, join_volcano, make_volcano },
    { "scheduler-plugins", plugins_versions, false, false, join_plugins, make_plugins },
};

/* NULL: the pods are none. */
static const struct gang *gang_of(const struct rg_job *job)
{
    const char *name = kube_option(job, "gang");

    for (size_t i = 0; name && i < rg_array_len(gangs); i++) {
        if (strcmp(gangs[i].name, name) == 0)
            return &gangs[i];
    }
    return NULL;
}

const char *kube_gang_default(const struct rg_job *job)
{
    const struct gang *gang = gang_of(job);

    return gang ? gang->versions[0] : NULL;
}

int kube_gang_find(const struct kube_place *place, const struct rg_job *job,
                   const char **ret_version, struct rg_error *err)
{
    const struct gang *gang = gang_of(job);
    const char *found = kube_gang_default(job);
    int r = !gang || !gang->asks ? 0 : kube_find_version(place, "podgroups", gang->versions,
                                                         FIND_MS, &found, err);

    if (r < 0)
        return r;
    if (gang && !found)
        return rg_error_set_exit(
            err, EOPNOTSUPP, RG_EXIT_USAGE, "--gang %s: the cluster has no pod groups of its own "
            "(podgroups of %s or %s); its administrator may switch them on, from Kubernetes 1.37 "
            "on; leave --gang out, or name a scheduler's that the cluster has: volcano or "
            "scheduler-plugins", gang->name, own_versions[0], own_versions[1]);
    *ret_version = found;
    return 0;
}

json_t *kube_gang_spec(const struct kube_parts *parts)
{
    const struct gang *gang = gang_of(parts->job);

    return gang ? gang->make(parts) : json_object();
}

void kube_gang_join(const struct rg_job *job, json_t *metadata, json_t *spec)
{
    const struct gang *gang = gang_of(job);

    if (gang)
        gang->join(kube_option(job, "name"), metadata, spec);
}

const char *kube_local_queue(const struct rg_job *job)
{
    const struct gang *gang = gang_of(job);

    return gang && gang->queues ? NULL : kube_option(job, "queue");
}
