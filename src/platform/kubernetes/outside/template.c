/* SPDX-License-Identifier: Apache-2.0 */
/* The pod that all ranks of a node share: what the user's template says, with ours put over it. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/kubernetes/outside/internal.h"
#include "platform/kubernetes/inside/pods.h"
#include "platform/kubernetes/outside/template.h"

#define GRACE_MORE_S 15 /* for what an agent does around the ranks' own grace */
#define GRACE_MIN_S 30
#define OURS "reigen-" /* what the names of our volumes begin with */

/* --- the user's file -------------------------------------------------------------------------- */

static int fail_template(struct rg_error *err, const char *fmt, ...) rg_printf(2, 3);

static int fail_template(struct rg_error *err, const char *fmt, ...)
{
    char text[KUBE_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "--pod-template: %s", text);
}

/* The object at this key, which is made where there is none. NULL: it is something else. */
static json_t *child(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    if (!value || json_is_null(value)) {
        json_object_set_new(object, key, json_object());
        value = json_object_get(object, key);
    }
    return json_is_object(value) ? value : NULL;
}

static json_t *list(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    if (!value || json_is_null(value)) {
        json_object_set_new(object, key, json_array());
        value = json_object_get(object, key);
    }
    return json_is_array(value) ? value : NULL;
}

static void drop_empty(json_t *object, const char *key)
{
    if (!json_array_size(json_object_get(object, key)))
        json_object_del(object, key);
}

/* The file is a Pod, a PodTemplate, or what stands in a Job as its template. */
static int open_template(const json_t *file, json_t **ret_template, struct rg_error *err)
{
    const json_t *template = json_object_get(file, "template");
    const char *kind = json_string_value(json_object_get(file, "kind"));

    if (kind && strcmp(kind, "Pod") != 0 && strcmp(kind, "PodTemplate") != 0)
        return fail_template(err, "it is a %.40s; give a Pod, a PodTemplate, or their metadata and "
                             "spec", kind);
    json_t *copy = json_deep_copy(template ? template : file);
    json_object_del(copy, "apiVersion");
    json_object_del(copy, "kind");
    *ret_template = copy;
    const char *key;
    json_t *value;
    json_object_foreach(copy, key, value) {
        if (strcmp(key, "metadata") != 0 && strcmp(key, "spec") != 0)
            return fail_template(err, "%.60s: it has metadata and spec, and nothing else", key);
        if (!json_is_object(value))
            return fail_template(err, "%s: a mapping is expected", key);
    }
    return copy ? 0 : rg_error_memory(err);
}

/* Refuse what would break the job. */
static int check_spec(const json_t *spec, struct rg_error *err)
{
    const char *policy = json_string_value(json_object_get(spec, "restartPolicy"));
    const json_t *item;
    size_t i;

    if (policy && strcmp(policy, "Never") != 0)
        return fail_template(err, "restartPolicy: %.40s: leave it out; the Job replaces pods",
                             policy);
    if (json_is_false(json_object_get(spec, "enableServiceLinks")))
        return fail_template(err, "enableServiceLinks: false: leave it out; the pods find their "
                             "head by its Service's variables");
    json_array_foreach(json_object_get(spec, "volumes"), i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && rg_str_starts(name, OURS))
            return fail_template(err, "volume %.60s: names that begin with " OURS " are Reigen's; "
                                 "give it another one", name);
    }
    return 0;
}

static int check_container(const json_t *container, struct rg_error *err)
{
    static const char *const ours[] = { "command", "args", "terminationMessagePath", NULL };
    const json_t *item;
    size_t i;

    for (const char *const *key = ours; *key; key++) {
        if (json_object_get(container, *key))
            return fail_template(err, "%s of the ranks' container: leave it out; the command "
                                 "stands behind -- of reigen run", *key);
    }
    json_array_foreach(json_object_get(container, "volumeMounts"), i, item) {
        const char *path = json_string_value(json_object_get(item, "mountPath"));
        if (path && (strcmp(path, "/reigen") == 0 || rg_str_starts(path, "/reigen/")))
            return fail_template(err, "mountPath: %.60s: /reigen is Reigen's own; mount it "
                                 "elsewhere", path);
    }
    json_array_foreach(json_object_get(container, "env"), i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && rg_str_starts(name, "REIGEN_POD_"))
            return fail_template(err, "env %.60s: such variables are Reigen's own", name);
    }
    return 0;
}

/* The ranks' container: the one that is called reigen, else the only one, else a new first one. */
static json_t *find_container(json_t *spec, struct rg_error *err)
{
    json_t *all = list(spec, "containers"), *item;
    size_t i;

    if (!all) {
        fail_template(err, "spec.containers: a list is expected");
        return NULL;
    }
    json_array_foreach(all, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!json_is_object(item)) {
            fail_template(err, "spec.containers: mappings are expected in it");
            return NULL;
        }
        if ((name && strcmp(name, KUBE_CONTAINER) == 0) || json_array_size(all) == 1) {
            json_object_set_new(item, "name", json_string(KUBE_CONTAINER));
            return item;
        }
    }
    json_array_insert_new(all, 0, json_pack("{s:s}", "name", KUBE_CONTAINER));
    return json_array_get(all, 0);
}

/* --- our part: the container ------------------------------------------------------------------ */

static json_t *field_ref(const char *name, const char *path)
{
    return json_pack("{s:s, s:{s:{s:s}}}", "name", name, "valueFrom", "fieldRef", "fieldPath",
                     path);
}

static json_t *variable(const char *name, const char *value)
{
    return json_pack("{s:s, s:s}", "name", name, "value", value);
}

static void add_env(json_t *env, const struct rg_job *job)
{
    const char *name = kube_option(job, "name");
    char number[32];

    json_array_append_new(env, variable("REIGEN_POD_SERVICE", name));
    snprintf(number, sizeof(number), "%d", kube_head_port(job));
    json_array_append_new(env, variable("REIGEN_POD_PORT", number));
    snprintf(number, sizeof(number), "%llu",
             (unsigned long long) (job->start_timeout_ms + 999) / 1000);
    json_array_append_new(env, variable("REIGEN_POD_START_TIMEOUT", number));
    json_array_append_new(env, field_ref("REIGEN_POD_NAME", "metadata.name"));
    json_array_append_new(env, field_ref("REIGEN_POD_IP", "status.podIP"));
    json_array_append_new(env, field_ref("REIGEN_POD_NODE", "spec.nodeName"));
    json_array_append_new(env, field_ref(RG_POD_FAILURES, "metadata.annotations['batch.kubernetes."
                                         "io/job-index-failure-count']"));
    json_array_append_new(env, field_ref(RG_POD_DISRUPTIONS, "metadata.annotations['batch.kubernete"
                                         "s.io/job-index-ignored-failure-count']"));
    for (size_t i = 0; i < job->share_env.count; i++) {
        rg_autofree char *key = rg_strf("env.%s", job->share_env.v[i]);
        json_array_append_new(env, json_pack("{s:s, s:{s:{s:s, s:s}}}", "name",
                                             job->share_env.v[i], "valueFrom", "secretKeyRef",
                                             "name", name, "key", key ? key : ""));
    }
}

static void want(json_t *resources, const char *name, const char *quantity)
{
    json_object_set_new(child(resources, "requests"), name, json_string(quantity));
    json_object_set_new(child(resources, "limits"), name, json_string(quantity));
}

static void want_pair(json_t *resources, const char *pair)
{
    size_t n = strcspn(pair, "=");
    rg_autofree char *name = strndup(pair, n);

    if (name)
        want(resources, name, pair[n] ? pair + n + 1 : "1");
}

static int add_resources(json_t *container, const struct rg_job *job, struct rg_error *err)
{
    rg_autostrv struct rg_strv pairs = RG_STRV_INIT;
    json_t *resources = child(container, "resources");
    const char *cpu = kube_option(job, "cpu"), *memory = kube_option(job, "memory"),
               *rdma = kube_option(job, "rdma");

    if (!resources || !child(resources, "requests") || !child(resources, "limits"))
        return fail_template(err, "resources: mappings are expected");
    if (rg_job_settings(job, "resource", &pairs) < 0)
        return rg_error_memory(err);
    if (cpu)
        want(resources, "cpu", cpu);
    if (memory)
        want(resources, "memory", memory);
    if (job->container.gpus)
        want(resources, "nvidia.com/gpu", job->container.gpus);
    if (rdma)
        want_pair(resources, rdma);
    for (size_t i = 0; i < pairs.count; i++)
        want_pair(resources, pairs.v[i]);
    static const char *const parts[] = { "requests", "limits" };
    for (size_t i = 0; i < rg_array_len(parts); i++) {
        if (!json_object_size(json_object_get(resources, parts[i])))
            json_object_del(resources, parts[i]);
    }
    if (!json_object_size(resources))
        json_object_del(container, "resources");
    return 0;
}

/* A user who is not root gets what restricted namespaces ask for; else the image's own counts. */
static int add_security(json_t *container, const struct rg_job *job, struct rg_error *err)
{
    const char *user = job->container.user, *rdma = kube_option(job, "rdma");
    json_t *context = child(container, "securityContext");
    int64_t uid = 0, gid;

    if (!context)
        return fail_template(err, "securityContext: a mapping is expected");
    if (user) {
        rg_autofree char *first = strndup(user, strcspn(user, ":"));
        const char *second = strchr(user, ':');
        if (!first || rg_parse_int("--user", first, 0, UINT32_MAX, &uid, NULL) < 0 ||
            (second && rg_parse_int("--user", second + 1, 0, UINT32_MAX, &gid, NULL) < 0))
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "--user %s: on Kubernetes give UID[:GID], numbers", user);
        json_object_set_new(context, "runAsUser", json_integer(uid));
        if (second)
            json_object_set_new(context, "runAsGroup", json_integer(gid));
    }
    if (uid && !job->container.privileged) {
        json_object_set_new(context, "runAsNonRoot", json_true());
        json_object_set_new(context, "allowPrivilegeEscalation", json_false());
        json_object_set_new(context, "seccompProfile", json_pack("{s:s}", "type",
                                                                 "RuntimeDefault"));
        json_object_set_new(child(context, "capabilities"), "drop", json_pack("[s]", "ALL"));
    }
    if (rdma)
        json_object_set_new(child(context, "capabilities"), "add", json_pack("[s]", "IPC_LOCK"));
    if (job->container.privileged)
        json_object_set_new(context, "privileged", json_true());
    if (!json_object_size(context))
        json_object_del(container, "securityContext");
    return 0;
}

/* What the template has in the place of an image: a key that was meant, or containers of other
 * names. */
static int check_image(json_t *spec, json_t *container, const struct rg_job *job,
                       struct rg_error *err)
{
    static const char *const meant[] = { "image", NULL };
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    json_t *all = json_object_get(spec, "containers"), *item;
    const char *key;
    size_t i;

    if (job->container.image || json_object_get(container, "image"))
        return 0;
    json_object_foreach(container, key, item) {
        if (rg_str_nearest(key, meant))
            return fail_template(err, "the ranks' container has no image, but %.60s; did you mean "
                                 "image?", key);
    }
    json_array_foreach(all, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (item != container)
            rg_buf_printf(&names, "%s%.63s", rg_buf_nbytes(&names) ? ", " : "",
                          name ? name : "one without a name");
    }
    if (rg_buf_nbytes(&names))
        return fail_template(err, "of several containers (%.400s) none is called " KUBE_CONTAINER
                             " with an image: call the ranks' so, or give --image",
                             rg_buf_text(&names));
    return fail_template(err, "the ranks' container has no image; name it there, or with --image");
}

/* Put into the container what the user wishes it to be, to have and to be allowed. */
static int fill_wishes(json_t *container, const struct rg_job *job, struct rg_error *err)
{
    static const char *const pull[] = { "IfNotPresent", "Always", "Never" };

    if (job->container.image)
        json_object_set_new(container, "image", json_string(job->container.image));
    if (job->container.pull != RG_PULL_MISSING || !json_object_get(container, "imagePullPolicy"))
        json_object_set_new(container, "imagePullPolicy", json_string(pull[job->container.pull]));
    int r = add_resources(container, job, err);
    return r < 0 ? r : add_security(container, job, err);
}

/* For who looks at the pod. The head's pod alone listens there. */
static int add_metrics_port(json_t *container, const struct rg_job *job, struct rg_error *err)
{
    json_t *ports = job->metrics_port ? list(container, "ports") : NULL;

    if (!job->metrics_port)
        return 0;
    return ports && json_array_append_new(ports, json_pack("{s:s, s:i}", "name", "metrics",
                                                           "containerPort",
                                                           job->metrics_port)) == 0
               ? 0
               : fail_template(err, "ports: a list is expected");
}

static int fill_container(json_t *container, const struct rg_job *job, struct rg_error *err)
{
    int r = check_container(container, err);
    json_t *env = r < 0 ? NULL : list(container, "env");

    if (r == 0 && !env)
        r = fail_template(err, "env: a list is expected");
    if (r < 0)
        return r;
    json_object_set_new(container, "command", json_pack("[s, s]", KUBE_AGENT_PROGRAM, "pod"));
    json_object_set_new(container, "terminationMessagePath", json_string("/dev/termination-log"));
    /* Where the agent could not write its verdict, the last lines are there instead. */
    json_object_set_new(container, "terminationMessagePolicy",
                        json_string("FallbackToLogsOnError"));
    add_env(env, job);
    r = add_metrics_port(container, job, err);
    return r < 0 ? r : fill_wishes(container, job, err);
}

/* --- volumes ---------------------------------------------------------------------------------- */

static void mount(json_t *container, json_t *take_volume, const char *path, bool read_only)
{
    json_t *spec_mount = json_pack("{s:O, s:s}", "name", json_object_get(take_volume, "name"),
                                   "mountPath", path);

    if (read_only)
        json_object_set_new(spec_mount, "readOnly", json_true());
    json_array_append_new(list(container, "volumeMounts"), spec_mount);
    json_decref(take_volume);
}

static void add_volume(json_t *spec, json_t *container, json_t *take_volume, const char *path,
                       bool read_only)
{
    json_array_append(list(spec, "volumes"), take_volume);
    mount(container, take_volume, path, read_only);
}

/* The pod sees the archive's parts as files 0, 1, ... of one directory. For several it takes a
 * projected volume, for which the kubelet mounts a file system in memory for each pod. */
static void add_bundle(json_t *spec, json_t *container, const char *name, int nbundle)
{
    json_t *sources = json_array(), *volume = json_pack("{s:s}", "name", OURS "bundle");

    for (int i = 0; i < nbundle; i++) {
        rg_autofree char *part = rg_strf("%s-bundle-%d", name, i);
        char number[16];
        snprintf(number, sizeof(number), "%d", i);
        json_array_append_new(sources, json_pack("{s:{s:s, s:[{s:s, s:s}]}}", "configMap", "name",
                                                 part ? part : "", "items", "key", "part", "path",
                                                 number));
    }
    if (nbundle == 1)
        json_object_update(volume, json_array_get(sources, 0));
    else
        json_object_set_new(volume, "projected", json_pack("{s:O}", "sources", sources));
    json_decref(sources);
    add_volume(spec, container, volume, "/reigen/bundle", true);
}

static void add_shm(json_t *spec, json_t *container, const struct rg_job *job)
{
    char size[32];

    if (!job->container.shm_nbytes)
        return;
    snprintf(size, sizeof(size), "%llu", (unsigned long long) job->container.shm_nbytes);
    add_volume(spec, container, json_pack("{s:s, s:{s:s, s:s}}", "name", OURS "shm", "emptyDir",
                                          "medium", "Memory", "sizeLimit", size),
               "/dev/shm", false);
}

static void add_ours(json_t *spec, json_t *container, const struct rg_job *job, int nbundle)
{
    const char *name = kube_option(job, "name"), *image = kube_option(job, "agent-image");
    json_t *agent = image ? json_pack("{s:s, s:{s:s}}", "name", KUBE_AGENT_VOLUME, "image",
                                      "reference", image)
                          : json_pack("{s:s, s:{s:s, s:i, s:[{s:s, s:s}]}}", "name",
                                      KUBE_AGENT_VOLUME, "configMap", "name", name, "defaultMode",
                                      0555, "items", "key", "reigen-agent", "path", "reigen-agent");

    add_volume(spec, container, agent, KUBE_AGENT_FOLDER, true);
    add_volume(spec, container,
               json_pack("{s:s, s:{s:s, s:[{s:s, s:s}]}}", "name", OURS "job", "configMap", "name",
                         name, "items", "key", "plan", "path", "plan"), "/reigen/job", true);
    add_volume(spec, container,
               json_pack("{s:s, s:{s:s, s:[{s:s, s:s}]}}", "name", OURS "key", "secret",
                         "secretName", name, "items", "key", "key", "path", "key"),
               "/reigen/key", true);
    add_volume(spec, container, json_pack("{s:s, s:{}}", "name", OURS "run", "emptyDir"),
               "/reigen/run", false);
    if (nbundle)
        add_bundle(spec, container, name, nbundle);
    add_shm(spec, container, job);
}

/* --volume: an absolute path is the node's, a name that of a claim. */
static int add_users(json_t *spec, json_t *container, const struct rg_job *job,
                     struct rg_error *err)
{
    const struct rg_strv *mounts = &job->container.mounts;

    for (size_t i = 0; i < mounts->count; i++) {
        rg_autofree char *source = NULL, *target = NULL;
        char name[48];
        bool read_only;
        int r = rg_container_split_mount(mounts->v[i], &source, &target, &read_only, err);
        if (r < 0)
            return r;
        if (*target != '/' || strcmp(target, "/reigen") == 0 || rg_str_starts(target, "/reigen/"))
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "--volume %s: say where it is to be in the pods, but not in "
                                     "/reigen: CLAIM:/DIRECTORY[:ro], or /NODES/PATH:/DIRECTORY",
                                     mounts->v[i]);
        if (*source != '/' && !kube_is_object_name(source))
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "--volume %s: %s is no claim's name, and no path of the "
                                     "nodes: write CLAIM:/DIRECTORY[:ro], or "
                                     "/NODES/PATH:/DIRECTORY",
                                     mounts->v[i], source);
        snprintf(name, sizeof(name), OURS "volume-%zu", i);
        add_volume(spec, container,
                   *source == '/' ? json_pack("{s:s, s:{s:s}}", "name", name, "hostPath", "path",
                                              source)
                                  : json_pack("{s:s, s:{s:s}}", "name", name,
                                              "persistentVolumeClaim", "claimName", source),
                   target, read_only);
    }
    return 0;
}

/* --- where it runs ---------------------------------------------------------------------------- */

static int add_affinity(json_t *spec, const struct rg_job *job, struct rg_error *err)
{
    const char *how = kube_option(job, "affinity");

    if (!how)
        return 0;
    if (!rg_str_has_word("spread pack", how)) {
        json_t *object = kube_read_yaml("--affinity", how, err);
        json_object_set_new(spec, "affinity", object);
        return object ? 0 : -EINVAL;
    }
    json_t *term = json_pack("{s:i, s:{s:s, s:{s:{s:s}}}}", "weight", 100, "podAffinityTerm",
                             "topologyKey", "kubernetes.io/hostname", "labelSelector",
                             "matchLabels", "app.kubernetes.io/instance",
                             kube_option(job, "name"));
    json_object_set_new(child(spec, "affinity"),
                        strcmp(how, "spread") == 0 ? "podAntiAffinity" : "podAffinity",
                        json_pack("{s:[o]}", "preferredDuringSchedulingIgnoredDuringExecution",
                                  term));
    return 0;
}

static int add_lists(json_t *spec, const struct rg_job *job, struct rg_error *err)
{
    rg_autostrv struct rg_strv selectors = RG_STRV_INIT, taints = RG_STRV_INIT,
                               secrets = RG_STRV_INIT;

    if (rg_job_settings(job, "node-selector", &selectors) < 0 ||
        rg_job_settings(job, "toleration", &taints) < 0 ||
        rg_job_settings(job, "image-pull-secret", &secrets) < 0)
        return rg_error_memory(err);
    for (size_t i = 0; i < selectors.count; i++) {
        rg_autofree char *key = strndup(selectors.v[i], strcspn(selectors.v[i], "="));
        if (key)
            json_object_set_new(child(spec, "nodeSelector"), key,
                                json_string(strchr(selectors.v[i], '=') + 1));
    }
    for (size_t i = 0; i < taints.count; i++)
        json_array_append_new(list(spec, "tolerations"),
                              kube_toleration("--toleration", taints.v[i], err));
    for (size_t i = 0; i < secrets.count; i++)
        json_array_append_new(list(spec, "imagePullSecrets"),
                              json_pack("{s:s}", "name", secrets.v[i]));
    return 0;
}

static bool wants_host_network(const struct rg_job *job)
{
    const char *flag = kube_option(job, "host-network");

    return (flag && strcmp(flag, "true") == 0) || job->container.network;
}

static void add_names(json_t *spec, const struct rg_job *job)
{
    static const char *const names[][2] = {
        { "service-account", "serviceAccountName" },
        { "scheduler", "schedulerName" },
        { "priority-class", "priorityClassName" },
    };

    for (size_t i = 0; i < rg_array_len(names); i++) {
        const char *value = kube_option(job, names[i][0]);
        if (value)
            json_object_set_new(spec, names[i][1], json_string(value));
    }
    if (!json_object_get(spec, "serviceAccountName") &&
        !json_object_get(spec, "automountServiceAccountToken"))
        json_object_set_new(spec, "automountServiceAccountToken", json_false());
    if (wants_host_network(job)) {
        json_object_set_new(spec, "hostNetwork", json_true());
        json_object_set_new(spec, "dnsPolicy", json_string("ClusterFirstWithHostNet"));
    }
}

/* What a pod has between SIGTERM and SIGKILL, if the user's file does not say so. */
static json_int_t default_grace_s(const struct rg_job *job)
{
    json_int_t grace_s = (json_int_t) ((job->grace_ms + 999) / 1000 + GRACE_MORE_S);

    return grace_s > GRACE_MIN_S ? grace_s : GRACE_MIN_S;
}

static int fill_spec(json_t *spec, const struct rg_job *job, int nbundle, struct rg_error *err)
{
    int r = check_spec(spec, err);
    json_t *container = r < 0 ? NULL : find_container(spec, err);

    if (!container)
        return r < 0 ? r : -EINVAL;
    if (!list(spec, "volumes") || !list(container, "volumeMounts"))
        return fail_template(err, "volumes: lists are expected");
    json_object_set_new(spec, "restartPolicy", json_string("Never"));
    if (!json_object_get(spec, "terminationGracePeriodSeconds"))
        json_object_set_new(spec, "terminationGracePeriodSeconds",
                            json_integer(default_grace_s(job)));
    add_names(spec, job);
    r = check_image(spec, container, job, err);
    r = r < 0 ? r : fill_container(container, job, err);
    if (r == 0)
        add_ours(spec, container, job, nbundle);
    r = r < 0 ? r : add_users(spec, container, job, err);
    r = r < 0 ? r : add_lists(spec, job, err);
    return r < 0 ? r : add_affinity(spec, job, err);
}

/* --- the whole -------------------------------------------------------------------------------- */

json_t *kube_pod_make(const struct rg_job *job, const json_t *file, int nbundle,
                      struct rg_error *err)
{
    KUBE_AUTO_JSON json_t *template = NULL;

    if (file ? open_template(file, &template, err) < 0 : !(template = json_object()))
        return NULL;
    json_t *metadata = child(template, "metadata"), *spec = child(template, "spec");
    json_t *labels = metadata ? child(metadata, "labels") : NULL;
    if (!labels || !spec) {
        fail_template(err, "metadata and spec: mappings are expected");
        return NULL;
    }
    json_object_del(metadata, "name");
    json_object_del(metadata, "namespace");
    json_object_set_new(labels, "app.kubernetes.io/name", json_string("reigen"));
    json_object_set_new(labels, "app.kubernetes.io/managed-by", json_string("reigen"));
    json_object_set_new(labels, "app.kubernetes.io/instance",
                        json_string(kube_option(job, "name")));
    kube_gang_join(job, metadata, spec);
    return fill_spec(spec, job, nbundle, err) < 0 ? NULL : rg_steal_ptr(&template);
}

/* Nothing of ours: the container has the command that it has, or the image's. */
json_t *rg_kube_users_template(const struct rg_job *job, struct rg_error *err)
{
    const char *path = kube_option(job, "pod-template");
    KUBE_AUTO_JSON json_t *file = path ? kube_read_yaml("--pod-template", path, err) : NULL;
    KUBE_AUTO_JSON json_t *template = NULL;

    if (path ? !file || open_template(file, &template, err) < 0 : !(template = json_object()))
        return NULL;
    json_t *metadata = child(template, "metadata"), *spec = child(template, "spec");
    json_t *container = metadata && spec ? find_container(spec, err) : NULL;
    if (!container || !list(spec, "volumes") || !list(container, "volumeMounts")) {
        if (!err->errnum)
            fail_template(err, "metadata, spec: mappings are expected, volumes: lists");
        return NULL;
    }
    json_object_del(metadata, "name");
    json_object_del(metadata, "namespace");
    add_names(spec, job);
    int r = check_image(spec, container, job, err);
    r = r < 0 ? r : fill_wishes(container, job, err);
    if (r == 0)
        add_shm(spec, container, job);
    r = r < 0 ? r : add_users(spec, container, job, err);
    r = r < 0 ? r : add_lists(spec, job, err);
    r = r < 0 ? r : add_affinity(spec, job, err);
    drop_empty(spec, "volumes");
    drop_empty(container, "volumeMounts");
    return r < 0 ? NULL : rg_steal_ptr(&template);
}

json_t *kube_pod_template(const struct rg_job *job, int nbundle, struct rg_error *err)
{
    const char *path = kube_option(job, "pod-template");
    KUBE_AUTO_JSON json_t *file = path ? kube_read_yaml("--pod-template", path, err) : NULL;

    return path && !file ? NULL : kube_pod_make(job, file, nbundle, err);
}

int kube_notice_ms(const struct rg_job *job, uint64_t *ret_ms, struct rg_error *err)
{
    KUBE_AUTO_JSON json_t *template = kube_pod_template(job, 0, err);

    if (!template)
        return -EINVAL;
    json_int_t grace_s = json_integer_value(
        json_object_get(json_object_get(template, "spec"), "terminationGracePeriodSeconds"));
    *ret_ms = grace_s > 0 && grace_s < INT32_MAX ? rg_job_notice_ms((uint64_t) grace_s) : 0;
    return 0;
}
