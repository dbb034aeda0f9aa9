/* SPDX-License-Identifier: Apache-2.0 */
/* Options of --on kubernetes, and what of a job's wishes a pod can have. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/json.h"
#include "platform/kubernetes/outside/internal.h"
#include "job/yaml/manifest.h"
#include "job/yaml/yaml.h"

#define DIGITS "0123456789"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

struct kube_place kube_place_of(const struct rg_job *job)
{
    return (struct kube_place){ .context = kube_option(job, "context"),
                                .ns = kube_option(job, "namespace") };
}

/* --- one value each --------------------------------------------------------------------------- */

#define JUDGE(name) \
    static int judge_##name(const char *what, const char *value, struct rg_error *err)

static bool is_name(const char *value, size_t max)
{
    size_t n = strlen(value);

    return n && n <= max && !value[strspn(value, LOWER DIGITS "-")] && *value != '-' &&
           value[n - 1] != '-';
}

json_t *kube_read_yaml(const char *what, const char *path, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    json_t *value = NULL;
    size_t nbytes;

    if (rg_read_named(what, path, RG_YAML_NBYTES_MAX, &text, &nbytes, err) < 0 ||
        rg_manifest_read(path, "such a file", text, nbytes, &value, err) < 0)
        return NULL;
    if (json_is_object(value))
        return value;
    json_decref(value);
    rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%s %s: one mapping is expected in this file",
                      what, path);
    return NULL;
}

bool kube_is_object_name(const char *name)
{
    static const char all[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    size_t n = strlen(name);

    return n && n <= 253 && !name[strspn(name, all)] && *name != '-' && *name != '.';
}

JUDGE(object)
{
    if (kube_is_object_name(value))
        return 0;
    return rg_error_set(err, EINVAL, "%s %.80s: Kubernetes has no such names; write lower-case "
                        "letters, digits, - and .", what, value);
}

JUDGE(namespace)
{
    if (is_name(value, 63))
        return 0;
    return rg_error_set(err, EINVAL, "%s %.80s: no namespace can have this name; write "
                        "lower-case letters, digits and -", what, value);
}

/* A name has a number behind it, "nvidia.com/gpu=2", which may be left out where `one` is said. */
static int check_resource(const char *what, const char *value, bool one, struct rg_error *err)
{
    size_t n = strcspn(value, "=");

    if (!n || (!value[n] && !one) || strspn(value, LOWER UPPER DIGITS "-._/") < n)
        return rg_error_set(err, EINVAL, "%s %.80s: write a resource's name%s, such as "
                            "example.com/device=1", what, value, one ? "" : " and a quantity");
    if (value[n] && rg_manifest_quantity(what, value + n + 1, NULL) < 0)
        return rg_error_set(err, EINVAL, "%s %.80s: \"%.40s\" is no quantity; write a number "
                            "behind the name, such as example.com/device=1", what, value,
                            value + n + 1);
    return 0;
}

JUDGE(resource)
{
    return check_resource(what, value, false, err);
}

JUDGE(rdma)
{
    return check_resource(what, value, true, err);
}

JUDGE(node_selector)
{
    if (strchr(value, '=') && *value != '=')
        return 0;
    return rg_error_set(err, EINVAL, "%s %.80s: write LABEL=VALUE, as kubectl get nodes "
                        "--show-labels has them", what, value);
}

json_t *kube_toleration(const char *what, const char *value, struct rg_error *err)
{
    static const char effects[] = "NoSchedule PreferNoSchedule NoExecute";
    const char *colon = strrchr(value, ':'), *equals = strchr(value, '=');
    size_t n = colon ? (size_t) (colon - value) : strlen(value);

    if (equals && equals >= value + n)
        equals = NULL;
    size_t length = equals ? (size_t) (equals - value) : n;
    if (!length || (colon && !rg_str_has_word(effects, colon + 1))) {
        rg_error_set(err, EINVAL, "%s %.80s: write KEY[=VALUE][:EFFECT], EFFECT being NoSchedule, "
                     "PreferNoSchedule or NoExecute; or * for all taints", what, value);
        return NULL;
    }
    json_t *object = json_pack("{s:s}", "operator", equals ? "Equal" : "Exists");
    if (strncmp(value, "*", length) != 0)
        json_object_set_new(object, "key", json_stringn(value, length));
    if (equals)
        json_object_set_new(object, "value",
                            json_stringn(equals + 1, n - length - 1));
    if (colon)
        json_object_set_new(object, "effect", json_string(colon + 1));
    if (!object)
        rg_error_memory(err);
    return object;
}

JUDGE(toleration)
{
    KUBE_AUTO_JSON json_t *object = kube_toleration(what, value, err);

    return object ? 0 : -EINVAL;
}

/* The files are read now, so that what is wrong in them is told before anything else is done. */
JUDGE(file)
{
    KUBE_AUTO_JSON json_t *object = kube_read_yaml(what, value, err);

    return object ? 0 : -EINVAL;
}

JUDGE(affinity)
{
    if (rg_str_has_word("spread pack", value))
        return 0;
    if (access(value, F_OK) < 0)
        return rg_error_set(err, EINVAL, "%s %.200s: give spread, pack, or a YAML file; there is "
                            "no such file", what, value);
    return judge_file(what, value, err);
}

JUDGE(gang)
{
    if (rg_str_has_word(KUBE_GANGS, value))
        return 0;
    return rg_error_set(err, EINVAL, "%s %.80s: give kubernetes, volcano or scheduler-plugins",
                        what, value);
}

JUDGE(ttl)
{
    uint64_t ms;

    return rg_parse_duration_ms(what, value, &ms, err);
}

#define KUBE "With --on kubernetes: "
#define ROW(name, arg, file, by, help)                                                           \
    { name, NULL, NULL, RG_GROUP_WHERE, file, arg, NULL, NULL, KUBE help, .judge = by }
#define FLAG_ROW(name, help)                                                                     \
    { name, NULL, NULL, RG_GROUP_WHERE, RG_FILE_BOOL, NULL, NULL, NULL, KUBE help, .judge = NULL }

const struct rg_option kube_options[] = {
    ROW("namespace", "NAME", RG_FILE_SCALAR, judge_namespace,
        "the namespace; the default is the context's."),
    ROW("context", "NAME", RG_FILE_SCALAR, NULL,
        "the context of kubectl's configuration; the default is its current one."),
    /* The Service has the same name, and that must begin with a letter. */
    ROW("name", "NAME", RG_FILE_SCALAR, rg_submitted_name_check,
        "the name of the Job and of all that belongs to it; the default is reigen- and some "
        "letters."),
    ROW("cpu", "QUANTITY", RG_FILE_SCALAR, rg_manifest_quantity,
        "the cpus of each pod, such as 2 or 500m."),
    ROW("memory", "QUANTITY", RG_FILE_SCALAR, rg_manifest_quantity,
        "the memory of each pod, such as 8Gi."),
    ROW("resource", "NAME=QUANTITY", RG_FILE_LIST, judge_resource,
        "what else each pod is to have, such as amd.com/gpu=1. May be repeated."),
    ROW("rdma", "RESOURCE[=N]", RG_FILE_SCALAR, judge_rdma,
        "give each pod N of this RDMA resource, 1 if not said, and the right to lock memory."),
    ROW("node-selector", "LABEL=VALUE", RG_FILE_LIST, judge_node_selector,
        "use nodes with this label only. May be repeated."),
    ROW("toleration", "KEY[=VALUE][:EFFECT]", RG_FILE_LIST, judge_toleration,
        "use nodes with this taint, too; * is for all taints. May be repeated."),
    { "affinity", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "spread|pack|FILE", NULL,
      "spread pack",
      KUBE "put pods on different nodes (spread) or on the same ones (pack) where possible; or the "
      "pods' affinity, from a YAML file.", .judge = judge_affinity },
    ROW("service-account", "NAME", RG_FILE_SCALAR, judge_object,
        "the pods' service account. Without it they get no token."),
    ROW("image-pull-secret", "NAME", RG_FILE_LIST, judge_object,
        "a Secret to pull the image with. May be repeated."),
    FLAG_ROW("host-network", "use the nodes' own network."),
    { "pod-template", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "FILE", NULL, "@file",
      KUBE "a pod, or a pod's template, as YAML, to which everything else is added.",
      .judge = judge_file },
    ROW("scheduler", "NAME", RG_FILE_SCALAR, judge_object, "the scheduler of the pods."),
    ROW("priority-class", "NAME", RG_FILE_SCALAR, judge_object,
        "the priority of the pods."),
    ROW("queue", "NAME", RG_FILE_SCALAR, judge_object,
        "hand the Job to this local queue of Kueue, which starts it; with --gang volcano it is a "
        "queue of Volcano's."),
    { "gang", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "HOW", NULL, KUBE_GANGS,
      KUBE "start all pods or none, by a pod group of Kubernetes itself, where the cluster has "
      "such, of Volcano or of scheduler-plugins.", .judge = judge_gang },
    ROW("agent-image", "IMAGE", RG_FILE_SCALAR, NULL,
        "take /reigen-agent from this image, as an image volume, and not from a ConfigMap."),
    ROW("ttl", "TIME", RG_FILE_SCALAR, judge_ttl,
        "keep the Job for TIME after its end. The default is 1h; where reigen run was there to "
        "the end, and the job went well, it is removed at once, if no TIME is said."),
    { NULL },
};

/* --- rules over several options --------------------------------------------------------------- */

static int refuse(const char *what, const char *remedy, struct rg_error *err)
{
    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%s: not on Kubernetes; %s", what, remedy);
}

/* Refuse what a pod cannot have, or has by another option. */
static int check_wishes(const struct rg_job *job, struct rg_error *err)
{
    const struct rg_container *container = &job->container;

    if (!container->image && !kube_option(job, "pod-template"))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--on kubernetes: name the pods' image with --image");
    if (job->nhosts)
        return refuse("-H", "it chooses the nodes: say which will do by --node-selector", err);
    if (job->max_restarts)
        return refuse("--max-restarts", "its Job starts again by itself when pods are lost, and "
                      "also, up to three times, when a rank ends with code 75", err);
    if (job->stdin_mode == RG_STDIN_ALL || (job->stdin_mode == RG_STDIN_RANK && job->stdin_rank))
        return refuse("--stdin", "a job there has no standard input: put what it is to read into "
                      "the image or into a --volume", err);
    if (job->ports.first && job->ports.first == job->ports.last)
        return refuse("--port-range of a single port", "the head takes the first one, and the "
                      "ranks the others: give more", err);
    if (job->metrics_port == kube_head_port(job))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--metrics :%d: at this port the pods call the head; name another",
                                 job->metrics_port);
    if (job->output_dir && !container->mounts.count && !kube_option(job, "pod-template"))
        return refuse("--output-dir", "without a --volume its files would be lost with the pods: "
                      "give it a directory of a --volume; reigen logs shows the output", err);
    if (job->pty)
        return refuse("--pty", "kubectl exec gives you a terminal in a pod", err);
    if (container->options.count)
        return refuse("--container-option", "write it into a --pod-template", err);
    if (container->network && strcmp(container->network, "host") != 0)
        return refuse("--network", "all pods are in the cluster's network, or in their node's "
                      "with --host-network", err);
    if (container->ibdevices)
        return refuse("--ibdevices", "name the cluster's RDMA resource with --rdma", err);
    if (container->runtime)
        return refuse("--container-runtime", "the nodes have their own", err);
    return 0;
}

/* Each pod has a slot for each GPU, unless another number is said. */
static int slots_of(const struct rg_job *job, int *ret_nslots, struct rg_error *err)
{
    int64_t ngpus = 1;

    if (job->container.gpus &&
        rg_parse_int("--gpus", job->container.gpus, 1, RG_JOB_SLOTS_MAX, &ngpus, err) < 0) {
        err->exit_code = RG_EXIT_USAGE;
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--gpus %s: on Kubernetes give the number of GPUs of each pod",
                                 job->container.gpus);
    }
    *ret_nslots = job->ranks_per_host ? job->ranks_per_host : (int) ngpus;
    return 0;
}

static int make_name(struct rg_job *job, struct rg_error *err)
{
    char text[RG_SUBMITTED_ID_MAX];

    if (kube_option(job, "name"))
        return 0;
    int r = rg_submitted_name_make(text, err);
    return r < 0 ? r : rg_env_set(&job->settings, "name", text) < 0 ? rg_error_memory(err) : 0;
}

/* Between the API server and a container only UTF-8 is passed on. */
static int check_shared(const struct rg_job *job, struct rg_error *err)
{
    for (size_t i = 0; i < job->share_env.count; i++) {
        const char *name = job->share_env.v[i], *value = getenv(name);
        if (value && !rg_json_is_text(value, strlen(value)))
            return rg_error_set_exit(err, EILSEQ, RG_EXIT_USAGE,
                                     "--share-env %s: the value of %s is not UTF-8, and Kubernetes "
                                     "passes on no other: encode it, as base64 for one", name,
                                     name);
    }
    return 0;
}

int kube_discover(void *held, struct rg_job *job, struct rg_error *err)
{
    int nslots = 1, r = check_wishes(job, err);

    (void) held;
    r = r < 0 ? r : check_shared(job, err);
    r = r < 0 ? r : slots_of(job, &nslots, err);
    r = r < 0 ? r : make_name(job, err);
    int64_t room = rg_job_room(job), npods = room ? (room + nslots - 1) / nslots : 1;
    for (int i = 0; r == 0 && i < npods; i++) {
        char name[RG_SUBMITTED_NAME_MAX + 16];
        snprintf(name, sizeof(name), "%s-%d", kube_option(job, "name"), i);
        r = rg_job_add_host(job, name, nslots, err);
    }
    return r;
}
