/* SPDX-License-Identifier: Apache-2.0 */
/* An MPIJob (kubeflow.org/v2beta1) for clusters that run Kubeflow's mpi-operator. Its parameters in
 * camel case are the MPIJob's own fields; the others are options of reigen run, judged and carried
 * out as there, so that pods are asked for in the same words. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "platform/kubernetes/outside/template.h"
#include "render/formats.h"
#include "job/yaml/manifest.h"
#include "job/request/request.h"

#define NAME "name"
#define KUBERNETES "kubernetes"
#define LAUNCHER "launcher-"
#define WORKER "worker-"
#define SLOTS_MAX 4096
#define POD_GRACE_S 30 /* of a pod whose spec has no time between SIGTERM and SIGKILL */
#define WORKERS_MAX 10000

/* Options of reigen run: both kinds of pods have these, and only those with ranks have the rest. */
#define BOTH "pull node-selector toleration affinity service-account image-pull-secret " \
    "host-network volume user privileged pod-template scheduler priority-class image"
#define RANKS "cpu memory gpus resource rdma shm-size"

#define OPTION(option, value, text)                                                              \
    { .name = option, .kind = RG_RENDER_TEXT, .arg = value, .help = text }
#define OPTIONS(option, value, text)                                                             \
    { .name = option, .kind = RG_RENDER_TEXT, .arg = value, .many = true, .help = text }
#define FIELD_NUMBER(field, least, most, usual, text)                                            \
    { .name = field, .kind = RG_RENDER_NUMBER, .min = least, .max = most, .initial = usual,      \
      .arg = "N", .help = text }
#define FIELD_CHOICE(field, words, usual, text)                                                  \
    { .name = field, .kind = RG_RENDER_CHOICE, .choices = words, .initial = usual, .help = text }
#define FLAG(flag, text) { .name = flag, .kind = RG_RENDER_FLAG, .initial = "false", .help = text }

const struct rg_render_param rg_mpijob_params[] = {
    { .name = "np", .kind = RG_RENDER_NUMBER, .required = true, .min = 1,
      .max = (int64_t) SLOTS_MAX * WORKERS_MAX, .arg = "N",
      .help = "Number of ranks that there is room for: the slots of all workers." },
    OPTION("image", "IMAGE", "Image of all pods, with an OpenSSH server and client in it."),
    { .name = "namespace", .kind = RG_RENDER_NAME,
      .help = "Namespace; null: the one that kubectl chooses." },
    { .name = "label", .kind = RG_RENDER_PAIRS, .many = true, .arg = "K=V,...",
      .help = "Labels of the MPIJob." },
    { .name = "annotation", .kind = RG_RENDER_PAIRS, .many = true, .arg = "K=V,...",
      .help = "Annotations of the MPIJob." },
    { .name = "env", .kind = RG_RENDER_TEXT, .many = true, .arg = "NAME=VALUE",
      .help = "Variable of the pods' containers. Ranks on workers are started through ssh, which "
              "does not hand it on: mpirun -x NAME does, and so does reigen run -x NAME." },
    /* the MPIJob's own */
    FIELD_NUMBER("slotsPerWorker", 1, SLOTS_MAX, "gpus, else 1", "Ranks of each worker."),
    { .name = "runLauncherAsWorker", .kind = RG_RENDER_BOOL, .initial = "false",
      .help = "The launcher's pod has ranks, too, and what workers have." },
    OPTION("sshAuthMountPath", "DIRECTORY", "Where pods find their keys; null: /root/.ssh."),
    FIELD_CHOICE("launcherCreationPolicy", "AtStartup WaitForWorkersReady", "AtStartup",
                 "When the launcher is made. reigen run waits for workers by itself."),
    FIELD_CHOICE("mpiImplementation", "OpenMPI Intel MPICH", "OpenMPI",
                 "Whose host file and variables the launcher has. reigen run takes any."),
    FIELD_CHOICE("cleanPodPolicy", "None Running All", "Running",
                 "Which workers are deleted at the job's end. With None they run on."),
    FIELD_NUMBER("ttlSecondsAfterFinished", 0, INT32_MAX, "null",
                 "How long the MPIJob is kept after its end; null: for ever."),
    FIELD_NUMBER("activeDeadlineSeconds", 1, INT64_MAX, "null", "How long it may run."),
    FIELD_NUMBER("backoffLimit", 0, INT32_MAX, "null",
                 "How often a launcher that has failed is started again; null: 6 times."),
    { .name = "suspend", .kind = RG_RENDER_BOOL, .initial = "false, true with --queue",
      .help = "No pods before somebody sets this to false." },
    FIELD_CHOICE("managedBy", "kubeflow.org/mpi-operator kueue.x-k8s.io/multikueue", "null",
                 "Who looks after the MPIJob."),
    FIELD_NUMBER("minAvailable", 1, INT32_MAX, "null",
                 "schedulingPolicy: pods that must be there at once; null: all of them."),
    { .name = "schedulingQueue", .kind = RG_RENDER_NAME,
      .help = "schedulingPolicy: Volcano's queue." },
    { .name = "minResources", .kind = RG_RENDER_PAIRS, .arg = "NAME=QUANTITY,...",
      .help = "schedulingPolicy: what must be there at once." },
    { .name = "schedulingPriorityClass", .kind = RG_RENDER_NAME,
      .help = "schedulingPolicy: the pod group's priority class." },
    FIELD_NUMBER("scheduleTimeoutSeconds", 1, INT32_MAX, "null",
                 "schedulingPolicy: how long the pod group is waited for."),
    FIELD_CHOICE("launcherRestartPolicy", "Never OnFailure", "Never",
                 "What becomes of the launcher's pod when it fails. OnFailure starts its "
                 "container again; Never leaves it, and makes another pod, as backoffLimit says."),
    FIELD_CHOICE("workerRestartPolicy", "Never OnFailure", "Never", "The same for workers."),
    { .name = "queue", .kind = RG_RENDER_NAME,
      .help = "Local queue of Kueue, which then starts the MPIJob." },
    /* of reigen run */
    OPTION("cpu", "QUANTITY", "Cpus of each worker, such as 2 or 500m."),
    OPTION("memory", "QUANTITY", "Memory of each worker, such as 8Gi."),
    { .name = "gpus", .kind = RG_RENDER_NUMBER, .min = 1, .max = SLOTS_MAX, .arg = "N",
      .help = "nvidia.com/gpu of each worker." },
    OPTIONS("resource", "NAME=QUANTITY", "What else each worker is to have."),
    OPTION("rdma", "RESOURCE[=N]",
           "RDMA resource of each worker, with the right to lock memory."),
    OPTION("shm-size", "SIZE", "Size of the workers' /dev/shm, such as 8g."),
    OPTION("launcher-cpu", "QUANTITY", "Cpus of the launcher."),
    OPTION("launcher-memory", "QUANTITY", "Memory of the launcher."),
    OPTION("launcher-image", "IMAGE", "Image of the launcher, where it is another one."),
    FLAG("as-args", "What stands behind -- are arguments of the image's entry point: `args` of the "
         "launcher, and no `command`. For images whose entry point sets paths."),
    OPTION("launcher-pod-template", "FILE", "As pod-template, for the launcher alone."),
    OPTION("worker-pod-template", "FILE",
           "As pod-template, for workers alone. Where it has no command, workers run sshd."),
    OPTION("pull", "always", "When nodes fetch the image: missing, always, never."),
    OPTIONS("node-selector", "LABEL=VALUE", "Nodes with this label only."),
    OPTIONS("toleration", "KEY[=VALUE][:EFFECT]", "Nodes with this taint, too; * for all taints."),
    OPTION("affinity", "spread|pack|FILE",
           "Pods on different nodes or on the same ones; or an affinity from a YAML file."),
    OPTION("service-account", "NAME", "The pods' service account. Without it they get no token."),
    OPTIONS("image-pull-secret", "NAME", "Secret to pull the image with."),
    FLAG("host-network", "The nodes' own network."),
    OPTIONS("volume", "SOURCE:TARGET[:ro]", "A claim of that name, or a path of the nodes."),
    OPTION("user", "UID[:GID]", "Who runs in the pods, sshd included."),
    FLAG("privileged", "All rights on the node."),
    OPTION("pod-template", "FILE", "A pod as YAML, to which everything else is added."),
    OPTION("scheduler", "NAME", "The pods' scheduler."),
    OPTION("priority-class", "NAME", "The pods' priority."),
    { .name = NULL }
};

/* --- how many --------------------------------------------------------------------------------- */

struct size {
    int64_t slots, workers;
    bool launcher; /* has slots, too */
};

static int judge_size(const struct rg_render_values *v, struct size *size, struct rg_error *err)
{
    int64_t np = rg_render_number(v, "np", 0);

    size->slots = rg_render_number(v, "slotsPerWorker", rg_render_number(v, "gpus", 1));
    size->launcher = rg_render_flag(v, "runLauncherAsWorker");
    size->workers = np / size->slots - size->launcher;
    if (np % size->slots)
        return rg_error_set(err, EINVAL, "-np %lld: no multiple of the %lld slots of each worker; "
                            "give %lld or %lld, or other --slotsPerWorker", (long long) np,
                            (long long) size->slots,
                            (long long) (np > size->slots ? np - np % size->slots : size->slots),
                            (long long) (np - np % size->slots + size->slots));
    if (size->workers > WORKERS_MAX)
        return rg_error_set(err, EINVAL, "-np %lld: that makes %lld workers, more than %d",
                            (long long) np, (long long) size->workers, WORKERS_MAX);
    return 0;
}

static int judge_path(const struct rg_render_values *v, struct rg_error *err)
{
    const char *path = rg_render_text(v, "sshAuthMountPath");

    return !path || *path == '/'
               ? 0
               : rg_error_set(err, EINVAL, "--sshAuthMountPath %.80s: give a path that begins with "
                              "/", path);
}

/* --- pods ------------------------------------------------------------------------------------- */

/* The option of reigen run that a parameter means for such pods, or NULL. */
static const char *option_of(const char *param, bool launcher, bool ranks)
{
    const char *own = launcher ? LAUNCHER : WORKER;

    if (rg_str_starts(param, own) && rg_str_has_word(BOTH " " RANKS, param + strlen(own)))
        return param + strlen(own);
    return rg_str_has_word(BOTH, param) || (ranks && rg_str_has_word(RANKS, param)) ? param : NULL;
}

/* What only such pods have comes behind what all have, and the last one counts. */
static int apply_options(const struct rg_render_values *v, bool launcher, bool ranks,
                         struct rg_request *request, struct rg_error *err)
{
    int r = rg_env_setf(&request->job.settings, NAME, "%s", v->name);

    for (int own = 0; own < 2; own++) {
        for (size_t i = 0; i < v->count && r == 0; i++) {
            const char *param = v->format->params[v->given[i].param].name;
            const char *option = option_of(param, launcher, ranks);
            char what[64];
            if (!option || (option != param) != own)
                continue;
            snprintf(what, sizeof(what), "--%s", param);
            r = rg_option_apply(rg_option_find(option), request, what, v->given[i].text, err);
        }
    }
    return r;
}

static int add_env(const struct rg_render_values *v, json_t *container, struct rg_error *err)
{
    const char *text;
    json_t *env = json_array();

    json_array_extend(env, json_object_get(container, "env"));
    for (size_t n = 0; (text = rg_render_nth(v, "env", n)); n++) {
        const char *equals = strchr(text, '=');
        if (!equals || equals == text) {
            json_decref(env);
            return rg_error_set(err, EINVAL, "--env %.80s: write NAME=VALUE", text);
        }
        rg_autofree char *name = strndup(text, (size_t) (equals - text));
        json_array_append_new(env, json_pack("{s:s, s:s}", "name", name ? name : "", "value",
                                             equals + 1));
    }
    if (json_array_size(env))
        json_object_set(container, "env", env);
    json_decref(env);
    return 0;
}

static bool calls_us(const struct rg_render_values *v)
{
    bool found = false;

    for (char **word = v->command; word && *word && !found; word++)
        found = strstr(*word, "reigen") || strstr(*word, "horovodrun");
    return found;
}

/* The time of its pod, unless the user's own variables say it. */
static void add_grace(const json_t *spec, json_t *container)
{
    const json_t *grace = json_object_get(spec, "terminationGracePeriodSeconds"), *item;
    json_t *env = json_object_get(container, "env");
    char seconds[24];
    size_t i;

    json_array_foreach(env, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, RG_POD_GRACE) == 0)
            return;
    }
    snprintf(seconds, sizeof(seconds), "%lld",
             (long long) (grace ? json_integer_value(grace) : POD_GRACE_S));
    if (!env)
        json_object_set_new(container, "env", env = json_array());
    json_array_append_new(env, json_pack("{s:s, s:s}", "name", RG_POD_GRACE, "value", seconds));
}

/* The operator adds what is its own to the first container, so ours must be that. */
static json_t *put_first(json_t *spec, const char *name)
{
    json_t *all = json_object_get(spec, "containers"), *item, *ours = NULL;
    size_t i;

    json_array_foreach(all, i, item) {
        if (strcmp(json_string_value(json_object_get(item, "name")), "reigen") == 0 && !ours)
            ours = item;
    }
    json_object_set_new(ours, "name", json_string(name));
    json_incref(ours);
    for (i = 0; json_array_get(all, i) != ours; i++)
        ;
    json_array_remove(all, i);
    json_array_insert_new(all, 0, ours);
    return ours;
}

static int add_command(const struct rg_render_values *v, json_t *container)
{
    json_t *words = json_array();

    for (char **word = v->command; word && *word; word++)
        json_array_append_new(words, json_string(*word));
    if (json_array_size(words)) {
        json_object_del(container, "args");
        json_object_set(container, rg_render_flag(v, "as-args") ? "args" : "command", words);
    }
    json_decref(words);
    return 0;
}

/* The caller's; NULL with err. */
static json_t *make_template(const struct rg_render_values *v, bool launcher, bool ranks,
                             struct rg_error *err)
{
    rg_cleanup(rg_request_fini) struct rg_request request;

    rg_request_init(&request);
    request.job.on = strdup(KUBERNETES); /* some options have another meaning elsewhere */
    if (apply_options(v, launcher, ranks, &request, err) < 0)
        return NULL;
    json_t *template = rg_kube_users_template(&request.job, err);
    json_t *spec = json_object_get(template, "spec");
    if (!template)
        return NULL;
    json_t *labels = json_pack("{s:{s:s}}", "labels", "app.kubernetes.io/instance", v->name);
    json_object_update_missing(json_object_get(labels, "labels"),
                               json_object_get(json_object_get(template, "metadata"), "labels"));
    json_t *container = put_first(spec, launcher ? "launcher" : "worker");
    json_object_update_new(json_object_get(template, "metadata"), labels);
    /* The replica's own policy counts; the operator warns of another one. */
    json_object_del(spec, "restartPolicy");
    int r = launcher ? add_command(v, container) : 0;
    r = r < 0 ? r : add_env(v, container, err);
    if (r == 0 && launcher && calls_us(v))
        add_grace(spec, container);
    if (r < 0)
        json_decref(template);
    return r < 0 ? NULL : template;
}

static int add_replicas(const struct rg_render_values *v, const struct size *size, bool launcher,
                        json_t *specs, struct rg_error *err)
{
    const char *policy = rg_render_text(v, launcher ? "launcherRestartPolicy"
                                                    : "workerRestartPolicy");
    json_t *template = make_template(v, launcher, !launcher || size->launcher, err);

    if (!template)
        return err && err->errnum == ENOMEM ? -ENOMEM : -EINVAL;
    return json_object_set_new(specs, launcher ? "Launcher" : "Worker",
                               json_pack("{s:I, s:s, s:o}", "replicas",
                                         launcher ? (json_int_t) 1 : (json_int_t) size->workers,
                                         "restartPolicy", policy ? policy : "Never", "template",
                                         template));
}

/* --- the MPIJob ------------------------------------------------------------------------------- */

static void set_number(const struct rg_render_values *v, const char *param, json_t *object)
{
    if (rg_render_text(v, param))
        json_object_set_new(object, param, json_integer(rg_render_number(v, param, 0)));
}

static void set_text(const struct rg_render_values *v, const char *param, const char *field,
                     json_t *object)
{
    const char *text = rg_render_text(v, param);

    if (text)
        json_object_set_new(object, field, json_string(text));
}

static json_t *scheduling_policy(const struct rg_render_values *v, struct rg_error *err)
{
    json_t *policy = json_object(), *resources = rg_render_tree(v, "minResources"), *value;
    const char *name;
    int r = 0;

    json_object_foreach(resources, name, value) {
        r = r < 0 ? r : rg_manifest_quantity("--minResources", json_string_value(value), err);
    }
    set_number(v, "minAvailable", policy);
    set_text(v, "schedulingQueue", "queue", policy);
    if (resources)
        json_object_set_new(policy, "minResources", resources);
    set_text(v, "schedulingPriorityClass", "priorityClass", policy);
    set_number(v, "scheduleTimeoutSeconds", policy);
    if (r == 0)
        return policy;
    json_decref(policy);
    return NULL;
}

static json_t *run_policy(const struct rg_render_values *v, struct rg_error *err)
{
    json_t *scheduling = scheduling_policy(v, err), *policy = json_object();
    const char *clean = rg_render_text(v, "cleanPodPolicy");

    if (!scheduling) {
        json_decref(policy);
        return NULL;
    }
    json_object_set_new(policy, "cleanPodPolicy", json_string(clean ? clean : "Running"));
    set_number(v, "ttlSecondsAfterFinished", policy);
    set_number(v, "activeDeadlineSeconds", policy);
    set_number(v, "backoffLimit", policy);
    if (json_object_size(scheduling))
        json_object_set(policy, "schedulingPolicy", scheduling);
    json_decref(scheduling);
    if (rg_render_text(v, "suspend") || rg_render_text(v, "queue"))
        json_object_set_new(policy, "suspend", json_boolean(!rg_render_text(v, "suspend") ||
                                                            rg_render_flag(v, "suspend")));
    set_text(v, "managedBy", "managedBy", policy);
    return policy;
}

static json_t *metadata(const struct rg_render_values *v)
{
    json_t *object = json_pack("{s:s}", NAME, v->name), *labels = rg_render_tree(v, "label"),
           *annotations = rg_render_tree(v, "annotation");
    const char *queue = rg_render_text(v, "queue");

    set_text(v, "namespace", "namespace", object);
    if (queue && !labels)
        labels = json_object();
    if (queue)
        json_object_set_new(labels, "kueue.x-k8s.io/queue-name", json_string(queue));
    if (labels)
        json_object_set_new(object, "labels", labels);
    if (annotations)
        json_object_set_new(object, "annotations", annotations);
    return object;
}

static int fill(const struct rg_render_values *v, const struct size *size, json_t *spec,
                struct rg_error *err)
{
    json_t *policy = run_policy(v, err), *replicas = json_object();

    json_object_set_new(spec, "slotsPerWorker", json_integer(size->slots));
    if (rg_render_text(v, "runLauncherAsWorker"))
        json_object_set_new(spec, "runLauncherAsWorker", json_boolean(size->launcher));
    set_text(v, "sshAuthMountPath", "sshAuthMountPath", spec);
    set_text(v, "launcherCreationPolicy", "launcherCreationPolicy", spec);
    set_text(v, "mpiImplementation", "mpiImplementation", spec);
    json_object_set_new(spec, "runPolicy", policy);
    json_object_set_new(spec, "mpiReplicaSpecs", replicas);
    int r = policy ? add_replicas(v, size, true, replicas, err) : -EINVAL;
    return r < 0 || !size->workers ? r : add_replicas(v, size, false, replicas, err);
}

int rg_mpijob_make(const struct rg_render_values *v, json_t *objects, struct rg_error *err)
{
    struct size size;
    int r = judge_size(v, &size, err);

    r = r < 0 ? r : judge_path(v, err);
    if (r < 0)
        return r;
    json_t *spec = json_object();
    json_array_append_new(objects, json_pack("{s:s, s:s, s:o, s:o}", "apiVersion",
                                             "kubeflow.org/v2beta1", "kind", "MPIJob", "metadata",
                                             metadata(v), "spec", spec));
    return spec ? fill(v, &size, spec, err) : -ENOMEM;
}
