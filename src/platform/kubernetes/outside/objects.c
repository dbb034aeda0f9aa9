/* SPDX-License-Identifier: Apache-2.0 */
/* What a job consists of on a cluster. Plain objects of a namespace: nothing is installed, and no
 * right is needed beyond making them. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/kubernetes/outside/internal.h"
#include "platform/kubernetes/inside/pods.h"
#include "launch/plan/place.h"
#include "launch/plan/plan.h"
#include "wire/crypto/crypto.h"
#include "wire/link.h"

#define CONFIG_MAX (1u << 20) /* of a ConfigMap, bytes */
#define PART_NBYTES 1000000    /* of the bundle, in each one of its own */

static const char *name_of(const struct kube_parts *parts)
{
    return kube_option(parts->job, "name");
}

/* --- metadata --------------------------------------------------------------------------------- */

static json_t *metadata(const struct kube_parts *parts)
{
    const char *ns = kube_option(parts->job, "namespace"), *name = name_of(parts);
    json_t *object = json_pack("{s:s, s:{s:s, s:s, s:s, s:s}}", "name", name, "labels",
                               "app.kubernetes.io/name", "reigen", "app.kubernetes.io/instance",
                               name, "app.kubernetes.io/managed-by", "reigen", "reigen/job-id",
                               parts->job_id);

    if (ns)
        json_object_set_new(object, "namespace", json_string(ns));
    if (parts->uid)
        json_object_set_new(object, "ownerReferences",
                            json_pack("[{s:s, s:s, s:s, s:s, s:b, s:b}]", "apiVersion", "batch/v1",
                                      "kind", "Job", "name", name, "uid", parts->uid,
                                      "controller", 1, "blockOwnerDeletion", 0));
    return object;
}

static json_t *object(const struct kube_parts *parts, const char *version, const char *kind)
{
    return json_pack("{s:s, s:s, s:o}", "apiVersion", version, "kind", kind, "metadata",
                     metadata(parts));
}

/* --- the Job ---------------------------------------------------------------------------------- */

/* What Kubernetes does to a pod (eviction, a lost node) is no failure of the job's. Our codes 75
 * and 76 say that trying again may help, and a pod that was killed as a whole is a host that was
 * lost. How often is the head's to say, so the limits of the Job are one higher. With any other
 * code the job has failed: then Kubernetes ends the head, too, and its log is gone, so only the
 * head's own verdict may lead to that. */
static json_t *failure_policy(void)
{
    json_t *codes = json_pack("[i, i, i, i]", RG_EXIT_PREEMPTED, RG_EXIT_HOST_LOST, RG_POD_KILLED,
                              RG_POD_LOST); /* in this order: the server wants them sorted */

    return json_pack("{s:[{s:s, s:[{s:s, s:s}]}, {s:s, s:{s:s, s:s, s:O}}, "
                     "{s:s, s:{s:s, s:s, s:o}}]}",
                     "rules", "action", "Ignore", "onPodConditions", "type", "DisruptionTarget",
                     "status", "True", "action", "Count", "onExitCodes", "containerName",
                     KUBE_CONTAINER, "operator", "In", "values", codes, "action", "FailJob",
                     "onExitCodes", "containerName", KUBE_CONTAINER, "operator", "NotIn", "values",
                     codes);
}

static json_int_t ttl_s(const struct rg_job *job)
{
    const char *ttl = kube_option(job, "ttl");
    uint64_t ms = KUBE_TTL_S * 1000;

    if (ttl)
        rg_parse_duration_ms("--ttl", ttl, &ms, NULL);
    return ms / 1000 < INT32_MAX ? (json_int_t) (ms / 1000) : INT32_MAX;
}

/* How often pods may be lost. In an elastic job that ends nothing, unless it is the head's, which
 * counts by itself. */
static json_int_t failures(const struct kube_parts *parts, int npods)
{
    return parts->job->elastic.on ? INT32_MAX : KUBE_FAILURES * npods;
}

json_t *kube_job_object(const struct kube_parts *parts, bool suspended, struct rg_error *err)
{
    json_t *template = kube_pod_template(parts->job, kube_count_bundle(parts), err);
    const char *queue = kube_local_queue(parts->job);

    if (!template)
        return NULL;
    json_t *spec = json_pack(
        "{s:b, s:i, s:i, s:s, s:s, s:I, s:I, s:i, s:I, s:{s:[{s:s}]}, s:o, s:o}", "suspend",
        suspended || queue, "completions", parts->npods, "parallelism", parts->npods,
        "completionMode", "Indexed", "podReplacementPolicy", "Failed", "backoffLimit",
        failures(parts, parts->npods), "backoffLimitPerIndex", failures(parts, 1), /* own pauses */
        "maxFailedIndexes", 0, "ttlSecondsAfterFinished", ttl_s(parts->job),
        "successPolicy", "rules", "succeededIndexes", "0", "podFailurePolicy", failure_policy(),
        "template", template);
    json_t *job = object(parts, "batch/v1", "Job");
    if (queue)
        json_object_set_new(json_object_get(json_object_get(job, "metadata"), "labels"),
                            "kueue.x-k8s.io/queue-name", json_string(queue));
    json_object_set_new(job, "spec", spec);
    if (!spec || !job)
        rg_error_memory(err);
    return job;
}

/* --- what it owns ----------------------------------------------------------------------------- */

static json_t *service_port(const char *name, int port)
{
    return json_pack("{s:s, s:i, s:i}", "name", name, "port", port, "targetPort", port);
}

/* It is the Service that Prometheus looks at, and not the pods: only one of them has the head, and
 * their annotations are the same. */
static void add_metrics(json_t *service, int port)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", port);
    json_array_append_new(json_object_get(json_object_get(service, "spec"), "ports"),
                          service_port("metrics", port));
    json_object_set_new(json_object_get(service, "metadata"), "annotations",
                        json_pack("{s:s, s:s, s:s}", "prometheus.io/scrape", "true",
                                  "prometheus.io/port", number, "prometheus.io/path", "/metrics"));
}

/* Pods find the head by its address, which the kubelet tells them: no DNS is needed. */
static json_t *service(const struct kube_parts *parts)
{
    json_t *value = object(parts, "v1", "Service");

    json_object_set_new(value, "spec",
                        json_pack("{s:s, s:b, s:{s:s, s:s}, s:[o]}", "type", "ClusterIP",
                                  "publishNotReadyAddresses", 1, "selector",
                                  "batch.kubernetes.io/job-name", name_of(parts),
                                  "batch.kubernetes.io/job-completion-index", "0", "ports",
                                  service_port("head", kube_head_port(parts->job))));
    if (parts->job->metrics_port)
        add_metrics(value, parts->job->metrics_port);
    return value;
}

static json_t *base64(const void *bytes, size_t nbytes)
{
    size_t room = sodium_base64_encoded_len(nbytes, sodium_base64_VARIANT_ORIGINAL);
    rg_autofree char *text = malloc(room);

    if (!text)
        return NULL;
    sodium_bin2base64(text, room, bytes, nbytes, sodium_base64_VARIANT_ORIGINAL);
    return json_string(text);
}

static json_t *config_map(const struct kube_parts *parts)
{
    json_t *value = object(parts, "v1", "ConfigMap");
    json_t *data = json_object();

    if (parts->agent)
        json_object_set_new(data, "reigen-agent", base64(parts->agent, parts->agent_nbytes));
    json_object_set_new(data, "plan", base64(parts->plan, parts->plan_nbytes));
    json_object_set_new(value, "immutable", json_true());
    json_object_set_new(value, "binaryData", data);
    return value;
}

int kube_count_bundle(const struct kube_parts *parts)
{
    return (int) ((parts->bundle_nbytes + PART_NBYTES - 1) / PART_NBYTES);
}

static json_t *bundle_part(const struct kube_parts *parts, int i)
{
    size_t at = (size_t) i * PART_NBYTES, left = parts->bundle_nbytes - at;
    rg_autofree char *name = rg_strf("%s-bundle-%d", name_of(parts), i);
    json_t *value = object(parts, "v1", "ConfigMap"), *data = json_object();

    json_object_set_new(json_object_get(value, "metadata"), "name", json_string(name ? name : ""));
    json_object_set_new(data, "part",
                        base64(parts->bundle + at, left < PART_NBYTES ? left : PART_NBYTES));
    json_object_set_new(value, "immutable", json_true());
    json_object_set_new(value, "binaryData", data);
    return value;
}

static json_t *pod_group(const struct kube_parts *parts)
{
    json_t *value = object(parts, parts->pod_groups, "PodGroup");

    json_object_set_new(value, "spec", kube_gang_spec(parts));
    return value;
}

json_t *kube_owned_objects(const struct kube_parts *parts)
{
    json_t *all = json_pack("[o, o]", service(parts), config_map(parts));

    for (int i = 0; i < kube_count_bundle(parts); i++)
        json_array_append_new(all, bundle_part(parts, i));
    if (parts->pod_groups)
        json_array_append_new(all, pod_group(parts));
    return all;
}

json_t *kube_secret_object(const struct kube_parts *parts, struct rg_error *err)
{
    uint8_t key[RG_KEY_NBYTES];
    char hex[2 * RG_KEY_NBYTES + 1];
    json_t *value = object(parts, "v1", "Secret");
    json_t *data = json_object();

    if (rg_key_generate(key) < 0) {
        rg_error_set(err, ENOSYS, "the system gives no random numbers");
        json_decref(value);
        json_decref(data);
        return NULL;
    }
    rg_key_format(key, hex);
    json_object_set_new(data, "key", json_string(hex));
    for (size_t i = 0; i < parts->job->share_env.count; i++) {
        rg_autofree char *name = rg_strf("env.%s", parts->job->share_env.v[i]);
        const char *text = getenv(parts->job->share_env.v[i]);
        json_object_set_new(data, name ? name : "", json_string(text ? text : ""));
    }
    sodium_memzero(key, sizeof(key));
    sodium_memzero(hex, sizeof(hex));
    json_object_set_new(value, "immutable", json_true());
    json_object_set_new(value, "stringData", data);
    if (!value)
        rg_error_memory(err);
    return value;
}

json_t *kube_list(json_t *take_items)
{
    return json_pack("{s:s, s:s, s:o}", "apiVersion", "v1", "kind", "List", "items", take_items);
}

/* --- the plan --------------------------------------------------------------------------------- */

int kube_encode_plan(const struct rg_planned *planned, struct rg_buf *buf, struct rg_buf *archive,
                     struct rg_error *err)
{
    RG_AUTO_PLANNED struct rg_planned theirs = { .quiet = false };
    int r = rg_planned_send(planned, &theirs, err);

    if (r < 0)
        return r;
    r = kube_notice_ms(&planned->job, &theirs.job.notice_ms, err);
    r = r < 0 ? r : rg_place_job(&theirs.job, true, err);
    if (r == 0 && theirs.job.container.place.bundle_digest)
        r = kube_pack_bundle(&theirs.job.container.place, archive, err);
    if (r < 0)
        return r;
    r = rg_planned_encode(&theirs, buf, err);
    if (r == 0 && rg_buf_nbytes(buf) > CONFIG_MAX / 4)
        return rg_error_set_exit(err, E2BIG, RG_EXIT_USAGE,
                                 "the job's plan has %zu bytes, and a ConfigMap takes %u with the "
                                 "agent; give shorter lists of --env, or a file on a volume",
                                 rg_buf_nbytes(buf), CONFIG_MAX);
    return r;
}

struct kube_place kube_place_submitted(const struct rg_submitted_job *job, char *text)
{
    snprintf(text, KUBE_TEXT_MAX, "%s", job->cluster ? job->cluster : "");
    char *at = strchr(text, '@');
    if (at)
        *at = '\0';
    return (struct kube_place){ .context = at && at[1] ? at + 1 : NULL,
                                .ns = *text ? text : NULL };
}
