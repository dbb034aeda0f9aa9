/* SPDX-License-Identifier: Apache-2.0 */
/* Kubeflow's prototype openmpi, for those who have its command lines: the same parameters and the
 * same objects. What its sidecar's image did, scripts of the ConfigMap do in the user's image, and
 * without a question to the API server (kubeflow-openmpi/). */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "render/formats.h"
#include "job/yaml/manifest.h"

#define ROOT "/kubeflow/openmpi"
#define ASSETS ROOT "/assets"
#define PORT 2022
#define WORKERS_MAX 10000
#define SECONDS_MAX 1000000
#define IDS_MAX 4294967294
#define GPUS_MAX 1024

const struct rg_render_param rg_kubeflow_openmpi_params[] = {
    { .name = "name", .kind = RG_RENDER_NAME, .required = true,
      .max = RG_KUBEFLOW_OPENMPI_NAME_MAX,
      .help = "Name of the objects. The first argument is the same." },
    { .name = "image", .kind = RG_RENDER_IMAGE, .required = true,
      .help = "Image of the job. It has Open MPI and an OpenSSH server." },
    { .name = "secret", .kind = RG_RENDER_OBJECT, .required = true,
      .help = "Secret with the keys of ssh: id_rsa, id_rsa.pub and authorized_keys." },
    { .name = "namespace", .kind = RG_RENDER_NAME,
      .help = "Namespace of the objects. null: the one that kubectl takes." },
    { .name = "workers", .kind = RG_RENDER_NUMBER, .min = 1, .max = WORKERS_MAX, .initial = "4",
      .help = "Number of worker pods." },
    { .name = "init", .kind = RG_RENDER_TEXT,
      .help = "Script that begins master and workers, by its path in the container. null: "
              ASSETS "/init.sh." },
    { .name = "exec", .kind = RG_RENDER_TEXT,
      .help = "Command that the master runs when all workers are ready, by a shell. null: sleep "
              "infinity." },
    { .name = "imagePullPolicy", .kind = RG_RENDER_CHOICE,
      .choices = "IfNotPresent Always Never", .initial = "IfNotPresent",
      .help = "When images are pulled: IfNotPresent, Always or Never." },
    { .name = "imagePullSecrets", .kind = RG_RENDER_WORDS,
      .help = "Secrets for the registry, with commas between them." },
    { .name = "gpu", .kind = RG_RENDER_NUMBER, .min = 0, .max = GPUS_MAX, .initial = "0",
      .help = "GPUs of each worker, and slots in the hostfile." },
    { .name = "cpu", .kind = RG_RENDER_QUANTITY, .help = "CPUs that a worker may use, such as 2." },
    { .name = "memory", .kind = RG_RENDER_QUANTITY,
      .help = "Memory that a worker may use, such as 8Gi." },
    { .name = "customResources", .kind = RG_RENDER_PAIRS,
      .help = "More limits of a worker, as NAME=QUANTITY, with commas between them." },
    { .name = "serviceAccountName", .kind = RG_RENDER_OBJECT,
      .help = "Service account of all pods. null: one of the job's own, which may look at what is "
              "in --namespace." },
    { .name = "schedulerName", .kind = RG_RENDER_OBJECT, .initial = "default-scheduler",
      .help = "Scheduler of all pods." },
    { .name = "controllerImage", .kind = RG_RENDER_IMAGE,
      .help = "Image of the container openmpi-controller, with a shell, and with aws for S3. null: "
              "that of the job." },
    { .name = "initTimeout", .kind = RG_RENDER_NUMBER, .min = 1, .max = SECONDS_MAX,
      .initial = "300", .help = "Seconds until a start that does not come on is given up." },
    { .name = "nodeSelector", .kind = RG_RENDER_PAIRS,
      .help = "Labels of the workers' nodes, as KEY=VALUE, with commas between them." },
    { .name = "s3Secret", .kind = RG_RENDER_OBJECT,
      .help = "Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. It may have "
              "AWS_SESSION_TOKEN, AWS_DEFAULT_REGION and AWS_ENDPOINT_URL, too." },
    { .name = "downloadDataFrom", .kind = RG_RENDER_TEXT,
      .help = "What each worker downloads before the job, such as s3://BUCKET/DIRECTORY." },
    { .name = "downloadDataTo", .kind = RG_RENDER_TEXT,
      .help = "Where to: a directory below " ROOT "/data." },
    { .name = "uploadDataFrom", .kind = RG_RENDER_TEXT,
      .help = "Directory that each worker uploads after the job, below " ROOT "/data." },
    { .name = "uploadDataTo", .kind = RG_RENDER_TEXT,
      .help = "Where to, such as s3://BUCKET/DIRECTORY. NAMESPACE/NAME/POD is put behind it." },
    { .name = "runAsUser", .kind = RG_RENDER_NUMBER, .min = 0, .max = IDS_MAX,
      .help = "Number of the user that all containers have." },
    { .name = "runAsGroup", .kind = RG_RENDER_NUMBER, .min = 0, .max = IDS_MAX,
      .help = "Number of the group, also of files in volumes." },
    { .name = "supplementalGroups", .kind = RG_RENDER_WORDS,
      .help = "Numbers of more groups, with commas between them." },
    { .name = "volumes", .kind = RG_RENDER_LIST, .initial = "[]",
      .help = "More volumes of all pods, as Kubernetes has them, in YAML or JSON." },
    { .name = "volumeMounts", .kind = RG_RENDER_LIST, .initial = "[]",
      .help = "Where all containers have them." },
    { .name = "useHostNetwork", .kind = RG_RENDER_BOOL, .initial = "false",
      .help = "Workers use the network of their nodes: at most one on each." },
    { .name = NULL }
};

/* What several functions need. */
struct maker {
    const struct rg_render_values *values;
    const char *name, *ns; /* ns: NULL where kubectl chooses it */
    int64_t workers, gpus;
    bool user;             /* there is a user who is not root */
    json_t *volumes, *mounts;
};

/* --- what no table can say -------------------------------------------------------------------- */

static int check_transfer(const struct rg_render_values *values, const char *from, const char *to,
                          struct rg_error *err)
{
    bool has_from = rg_render_text(values, from), has_to = rg_render_text(values, to);

    if (has_from == has_to)
        return 0;
    return rg_error_set(err, EINVAL, "--%s %.80s: --%s is missing; give both",
                        has_from ? from : to, rg_render_text(values, has_from ? from : to),
                        has_from ? to : from);
}

static bool is_ours(const char *name)
{
    return rg_str_has_word("openmpi-data openmpi-secrets openmpi-assets openmpi-user", name);
}

static bool is_named(const json_t *volumes, const char *name, size_t before)
{
    for (size_t i = 0; i < before && i < json_array_size(volumes); i++) {
        const char *other = json_string_value(json_object_get(json_array_get(volumes, i), "name"));
        if (other && strcmp(other, name) == 0)
            return true;
    }
    return false;
}

/* check_volumes comes before it, and has seen that all volumes have names. */
static int check_mounts(const struct maker *m, struct rg_error *err)
{
    const json_t *item;
    size_t i;

    json_array_foreach(m->volumes, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (is_named(m->volumes, name, i))
            return rg_error_set(err, EINVAL, "--volumes: %.80s is there twice; leave one out",
                                name);
    }
    json_array_foreach(m->mounts, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!is_ours(name) && !is_named(m->volumes, name, SIZE_MAX))
            return rg_error_set(err, EINVAL, "--volumeMounts: %.80s is no volume of --volumes; add "
                                "it there", name);
    }
    return 0;
}

static int check_volumes(const struct maker *m, struct rg_error *err)
{
    static const char *const params[][2] = { { "volumes", "name" }, { "volumeMounts", "name" },
                                             { "volumeMounts", "mountPath" } };
    const json_t *item;
    size_t i;

    for (size_t p = 0; p < rg_array_len(params); p++) {
        json_array_foreach(p ? m->mounts : m->volumes, i, item) {
            const char *name = json_string_value(json_object_get(item, params[p][1]));
            if (!name || !*name)
                return rg_error_set(err, EINVAL, "--%s: entry %zu has no %s", params[p][0], i + 1,
                                    params[p][1]);
            if (p == 0 && is_ours(name))
                return rg_error_set(err, EINVAL, "--volumes: %.80s is a name of the job's own; "
                                    "choose another one", name);
        }
    }
    return 0;
}

/* Judge each word of the lists. */
static int check_words(const struct rg_render_values *values, struct rg_error *err)
{
    json_t *groups = rg_render_tree(values, "supplementalGroups"), *item;
    json_t *secrets = rg_render_tree(values, "imagePullSecrets");
    json_t *custom = rg_render_tree(values, "customResources");
    const char *key;
    size_t i;
    int64_t n;
    int r = 0;

    json_array_foreach(groups, i, item)
        r = r < 0 ? r
                  : rg_parse_int("--supplementalGroups", json_string_value(item), 0, IDS_MAX, &n,
                                 err);
    json_array_foreach(secrets, i, item)
        r = r < 0 ? r : rg_manifest_object("--imagePullSecrets", json_string_value(item), err);
    json_object_foreach(custom, key, item)
        r = r < 0 ? r : rg_manifest_quantity("--customResources", json_string_value(item), err);
    json_decref(groups);
    json_decref(secrets);
    json_decref(custom);
    return r;
}

/* --- pieces ----------------------------------------------------------------------------------- */

static void set(json_t *object, const char *key, json_t *take_value)
{
    if (take_value)
        json_object_set_new(object, key, take_value);
}

static json_t *object(const struct maker *m, const char *version, const char *kind,
                      const char *suffix)
{
    json_t *metadata = json_pack("{s:o, s:{s:s}}", "name",
                                 json_sprintf("%s%s", m->name, suffix), "labels", "app", m->name);

    set(metadata, "namespace", m->ns ? json_string(m->ns) : NULL);
    return json_pack("{s:s, s:s, s:o}", "apiVersion", version, "kind", kind, "metadata", metadata);
}

static json_t *config_map(const struct maker *m)
{
    rg_autobuf struct rg_buf hosts = RG_BUF_INIT;
    json_t *map = object(m, "v1", "ConfigMap", "-assets"), *data = json_object();

    for (int64_t i = 0; i < m->workers; i++)
        rg_buf_printf(&hosts, "%s-worker-%d.%s%s%s slots=%d\n", m->name, (int) i, m->name,
                      m->ns ? "." : "", m->ns ? m->ns : "", m->gpus > 1 ? (int) m->gpus : 1);
    for (const struct rg_render_file *f = rg_kubeflow_openmpi_files; f->name; f++)
        json_object_set_new(data, f->name, json_string(f->text));
    json_object_set_new(data, "settings.sh",
                        json_sprintf("gpus=%d\nwatch=%s\n", (int) m->gpus,
                                     rg_render_text(m->values, "init") ? "name" : "lease"));
    json_object_set_new(data, "hostfile", json_string(rg_buf_text(&hosts)));
    json_object_set_new(map, "data", data);
    return rg_buf_status(&hosts) < 0 ? NULL : map;
}

static json_t *service(const struct maker *m)
{
    json_t *whole = object(m, "v1", "Service", "");

    json_object_set_new(whole, "spec",
                        json_pack("{s:s, s:{s:s}, s:[{s:s, s:i, s:i}]}", "clusterIP", "None",
                                  "selector", "app", m->name, "ports", "name", "openmpi", "port",
                                  12345, "targetPort", 12345));
    return whole;
}

/* It holds in the job's namespace only, which has to be known for that. */
static json_t *binding(const struct maker *m)
{
    json_t *whole = object(m, "rbac.authorization.k8s.io/v1", "RoleBinding", "");

    json_object_set_new(whole, "roleRef",
                        json_pack("{s:s, s:s, s:s}", "apiGroup", "rbac.authorization.k8s.io",
                                  "kind", "ClusterRole", "name", "view"));
    json_object_set_new(whole, "subjects",
                        json_pack("[{s:s, s:s, s:s}]", "kind", "ServiceAccount", "name", m->name,
                                  "namespace", m->ns));
    return whole;
}

static json_t *volumes(const struct maker *m)
{
    json_t *all = json_pack("[{s:s, s:{}}, {s:s, s:{s:s, s:i}}, {s:s, s:{s:o, s:i}}]", "name",
                            "openmpi-data", "emptyDir", "name", "openmpi-secrets", "secret",
                            "secretName", rg_render_text(m->values, "secret"), "defaultMode", 0400,
                            "name", "openmpi-assets", "configMap", "name",
                            json_sprintf("%s-assets", m->name), "defaultMode", 0644);
    json_t *assets = json_object_get(json_array_get(all, 2), "configMap"), *items = json_array();

    /* The script that begins may be run as a program. */
    for (const struct rg_render_file *f = rg_kubeflow_openmpi_files; f->name; f++)
        json_array_append_new(items, json_pack("{s:s, s:s, s:i}", "key", f->name, "path", f->name,
                                               "mode", strcmp(f->name, "init.sh") == 0 ? 0555
                                                                                       : 0644));
    json_array_append_new(items, json_pack("{s:s, s:s, s:i}", "key", "settings.sh", "path",
                                           "settings.sh", "mode", 0644));
    json_array_append_new(items, json_pack("{s:s, s:s, s:i}", "key", "hostfile", "path",
                                           "hostfile", "mode", 0644));
    set(assets, "items", items);
    if (m->user)
        json_array_append_new(all, json_pack("{s:s, s:{}}", "name", "openmpi-user", "emptyDir"));
    json_array_extend(all, m->volumes);
    return all;
}

static json_t *mounts(const struct maker *m, bool begins)
{
    json_t *all = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "name", "openmpi-data",
                            "mountPath", ROOT "/data", "name", "openmpi-secrets", "mountPath",
                            ROOT "/secrets", "name", "openmpi-assets", "mountPath", ASSETS);

    if (m->user)
        json_array_append_new(all, json_pack("{s:s, s:s}", "name", "openmpi-user", "mountPath",
                                             ROOT "/user"));
    if (m->user && !begins)
        json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:b}", "name", "openmpi-user",
                                             "mountPath", "/etc/passwd", "subPath", "passwd",
                                             "readOnly", 1));
    json_array_extend(all, m->mounts);
    return all;
}

static json_t *container(const struct maker *m, const char *name, const char *image,
                         json_t *take_command)
{
    const char *policy = rg_render_text(m->values, "imagePullPolicy");
    bool begins = strcmp(name, "openmpi-user") == 0;
    json_t *whole = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "name", name, "image", image,
                              "imagePullPolicy", policy ? policy : "IfNotPresent", "workingDir",
                              ROOT "/data", "command", take_command, "volumeMounts",
                              mounts(m, begins));

    /* What namespaces with restricted pod security ask for. */
    if (m->user)
        set(whole, "securityContext",
            json_pack("{s:b, s:b, s:{s:[s]}, s:{s:s}}", "runAsNonRoot", 1,
                      "allowPrivilegeEscalation", 0, "capabilities", "drop", "ALL",
                      "seccompProfile", "type", "RuntimeDefault"));
    return whole;
}

/* --- containers and pods ---------------------------------------------------------------------- */

static json_t *limits(const struct maker *m)
{
    static const char *const plain[] = { "cpu", "memory" };
    json_t *all = json_object(), *custom = rg_render_tree(m->values, "customResources");

    if (m->gpus)
        set(all, "nvidia.com/gpu", json_integer(m->gpus));
    for (size_t i = 0; i < rg_array_len(plain); i++) {
        const char *text = rg_render_text(m->values, plain[i]);
        set(all, plain[i], text ? json_string(text) : NULL);
    }
    if (custom)
        json_object_update(all, custom);
    json_decref(custom);
    return all;
}

static json_t *job_container(const struct maker *m, const char *role)
{
    const char *init = rg_render_text(m->values, "init"), *exec = rg_render_text(m->values, "exec");
    json_t *whole = container(
        m, "openmpi-job", rg_render_text(m->values, "image"),
        json_pack("[s, s, s, o, s, o]", "sh", init ? init : ASSETS "/init.sh", role,
                  json_sprintf("%d", (int) m->workers), exec ? exec : "sleep infinity",
                  json_sprintf("%d", (int) rg_render_number(m->values, "initTimeout", 300))));
    json_t *wanted = strcmp(role, "worker") == 0 ? limits(m) : NULL;

    set(whole, "ports", json_pack("[{s:i}]", "containerPort", PORT));
    if (json_object_size(wanted))
        set(whole, "resources", json_pack("{s:O}", "limits", wanted));
    json_decref(wanted);
    return whole;
}

static json_t *keys_of(const char *secret)
{
    static const struct {
        const char *name;
        bool optional;
    } keys[] = { { "AWS_ACCESS_KEY_ID", false }, { "AWS_SECRET_ACCESS_KEY", false },
                 { "AWS_SESSION_TOKEN", true }, { "AWS_DEFAULT_REGION", true },
                 { "AWS_ENDPOINT_URL", true } };
    json_t *all = json_array();

    for (size_t i = 0; i < rg_array_len(keys); i++) {
        json_t *from = json_pack("{s:s, s:s}", "name", secret, "key", keys[i].name);
        set(from, "optional", keys[i].optional ? json_true() : NULL);
        json_array_append_new(all, json_pack("{s:s, s:{s:o}}", "name", keys[i].name, "valueFrom",
                                             "secretKeyRef", from));
    }
    return all;
}

static void add_words(json_t *words, const char *option, const char *value)
{
    if (value) {
        json_array_append_new(words, json_string(option));
        json_array_append_new(words, json_string(value));
    }
}

static json_t *controller(const struct maker *m, const char *pod)
{
    const struct rg_render_values *v = m->values;
    const char *image = rg_render_text(v, "controllerImage");
    const char *to = rg_render_text(v, "uploadDataTo"), *secret = rg_render_text(v, "s3Secret");
    json_t *words = json_pack("[s, s, s, o, s, o, s, o, s, o]", "sh", ASSETS "/controller.sh",
                              "--worker", json_sprintf("%s.%s", pod, m->name), "--master",
                              json_sprintf("%s-master.%s", m->name, m->name), "--num-gpus",
                              json_sprintf("%d", (int) m->gpus), "--timeout-secs",
                              json_sprintf("%d", (int) rg_render_number(v, "initTimeout", 300)));

    add_words(words, "--download-data-from", rg_render_text(v, "downloadDataFrom"));
    add_words(words, "--download-data-to", rg_render_text(v, "downloadDataTo"));
    add_words(words, "--upload-data-from", rg_render_text(v, "uploadDataFrom"));
    if (to) {
        size_t n = strlen(to);
        while (n && to[n - 1] == '/')
            n--;
        json_array_append_new(words, json_string("--upload-data-to"));
        json_array_append_new(words, json_sprintf("%.*s/%s%s%s/%s", (int) n, to, m->ns ? m->ns : "",
                                                  m->ns ? "/" : "", m->name, pod));
    }
    json_t *whole = container(m, "openmpi-controller",
                              image ? image : rg_render_text(v, "image"), words);
    set(whole, "env", secret ? keys_of(secret) : NULL);
    return whole;
}

static json_t *security(const struct maker *m)
{
    json_t *all = json_object(), *groups = rg_render_tree(m->values, "supplementalGroups"), *item;
    json_t *numbers = groups ? json_array() : NULL;
    size_t i;
    bool user = rg_render_text(m->values, "runAsUser");
    int64_t uid = rg_render_number(m->values, "runAsUser", 0);
    int64_t gid = rg_render_number(m->values, "runAsGroup", -1);

    if (user)
        set(all, "runAsUser", json_integer(uid));
    if (gid >= 0)
        set(all, "runAsGroup", json_integer(gid));
    /* Without it, nobody but root could read the keys. */
    if (gid >= 0 || uid)
        set(all, "fsGroup", json_integer(gid >= 0 ? gid : uid));
    json_array_foreach(groups, i, item)
        json_array_append_new(numbers, json_integer(strtoll(json_string_value(item), NULL, 10)));
    set(all, "supplementalGroups", numbers);
    json_decref(groups);
    return all;
}

static void add_names(const struct maker *m, json_t *spec)
{
    const char *account = rg_render_text(m->values, "serviceAccountName");
    const char *scheduler = rg_render_text(m->values, "schedulerName");
    json_t *secrets = rg_render_tree(m->values, "imagePullSecrets"), *item, *context = security(m);
    size_t i;

    set(spec, "serviceAccountName", json_string(account ? account : m->name));
    set(spec, "schedulerName", json_string(scheduler ? scheduler : "default-scheduler"));
    if (json_object_size(context))
        json_object_set(spec, "securityContext", context);
    json_decref(context);
    if (secrets)
        set(spec, "imagePullSecrets", json_array());
    json_array_foreach(secrets, i, item)
        json_array_append_new(json_object_get(spec, "imagePullSecrets"),
                              json_pack("{s:O}", "name", item));
    json_decref(secrets);
}

/* number is a worker's; -1 makes the master. */
static json_t *pod(const struct maker *m, int number)
{
    char suffix[32] = "-master";
    bool master = number < 0;

    if (!master)
        snprintf(suffix, sizeof(suffix), "-worker-%d", number);
    rg_autofree char *name = rg_strf("%s%s", m->name, suffix);
    if (!name)
        return NULL;
    json_t *whole = object(m, "v1", "Pod", suffix);
    json_t *labels = json_object_get(json_object_get(whole, "metadata"), "labels");
    json_t *containers = json_array();
    json_t *spec = json_pack("{s:s, s:s, s:s, s:i, s:s, s:o, s:o}", "hostname", name, "subdomain",
                             m->name, "restartPolicy", "Never", "terminationGracePeriodSeconds",
                             30, "dnsPolicy", "ClusterFirstWithHostNet", "volumes", volumes(m),
                             "containers", containers);

    set(labels, "role", json_string(master ? "master" : "worker"));
    add_names(m, spec);
    /* Our controller asks the API server nothing; another one may, as the prototype's did. */
    if (!rg_render_text(m->values, "serviceAccountName") &&
        (master || !rg_render_text(m->values, "controllerImage")))
        set(spec, "automountServiceAccountToken", json_false());
    if (m->user)
        set(spec, "initContainers",
            json_pack("[o]", container(m, "openmpi-user", rg_render_text(m->values, "image"),
                                       json_pack("[s, s]", "sh", ASSETS "/user.sh"))));
    json_array_append_new(containers, job_container(m, master ? "master" : "worker"));
    if (!master) {
        set(spec, "nodeSelector", rg_render_tree(m->values, "nodeSelector"));
        set(spec, "hostNetwork", json_boolean(rg_render_flag(m->values, "useHostNetwork")));
        json_array_append_new(containers, controller(m, name));
    }
    set(whole, "spec", spec);
    return whole;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int check(const struct maker *m, struct rg_error *err)
{
    int r = check_transfer(m->values, "downloadDataFrom", "downloadDataTo", err);

    r = r < 0 ? r : check_transfer(m->values, "uploadDataFrom", "uploadDataTo", err);
    r = r < 0 ? r : check_volumes(m, err);
    r = r < 0 ? r : check_mounts(m, err);
    return r < 0 ? r : check_words(m->values, err);
}

static void make_all(const struct maker *m, json_t *objects)
{
    json_array_append_new(objects, config_map(m));
    json_array_append_new(objects, service(m));
    if (!rg_render_text(m->values, "serviceAccountName"))
        json_array_append_new(objects, object(m, "v1", "ServiceAccount", ""));
    if (!rg_render_text(m->values, "serviceAccountName") && m->ns)
        json_array_append_new(objects, binding(m));
    for (int i = -1; i < m->workers; i++)
        json_array_append_new(objects, pod(m, i));
}

int rg_kubeflow_openmpi_make(const struct rg_render_values *values, json_t *objects,
                             struct rg_error *err)
{
    struct maker m = {
        .values = values,
        .name = values->name,
        .ns = rg_render_text(values, "namespace"),
        .workers = rg_render_number(values, "workers", 4),
        .gpus = rg_render_number(values, "gpu", 0),
        .user = rg_render_number(values, "runAsUser", 0) > 0,
        .volumes = rg_render_tree(values, "volumes"),
        .mounts = rg_render_tree(values, "volumeMounts"),
    };
    int r = check(&m, err);

    if (r == 0)
        make_all(&m, objects);
    json_decref(m.volumes);
    json_decref(m.mounts);
    return r;
}
