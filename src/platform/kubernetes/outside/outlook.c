/* SPDX-License-Identifier: Apache-2.0 */
/* reigen plan: what the cluster would make of a job. Everything is shown to the API server as it
 * would be made, and nothing is made. The pods themselves, too: a Job is taken whatever its pods
 * are, and only its controller would hear why there are none. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/kubernetes/outside/fit.h"
#include "platform/kubernetes/outside/internal.h"

#define ASK_MS 30000
#define ANSWER_MS 20000 /* for what is not needed */
#define REASONS_MAX 3

struct ask {
    const struct kube_parts *parts;
    struct kube_place place;
    struct rg_outlook *outlook;
    json_t *job, *pod; /* as they would be; pod: as the server would make it, where that is known */
    int nobjects;
    struct rg_buf missing; /* rights that are: "create jobs, get pods" */
};

static const char *name_of(const struct ask *ask)
{
    return kube_option(ask->parts->job, "name");
}

/* --- admission -------------------------------------------------------------------------------- */

/* The Secret as it would be, but for its values: they are nobody's business yet. */
static json_t *secret_object(const struct ask *ask)
{
    json_t *secret = kube_secret_object(ask->parts, NULL), *value;
    json_t *data = json_object_get(secret, "stringData");
    const char *key;

    json_object_foreach(data, key, value)
        json_string_set(value, "-");
    return secret;
}

static bool is_told(const struct rg_outlook *outlook, const char *text)
{
    for (size_t i = 0; i < outlook->nchecks; i++) {
        if (strcmp(outlook->checks[i].text, text) == 0)
            return true;
    }
    return false;
}

static void miss_right(struct ask *ask, const char *verb, const char *resource)
{
    rg_autofree char *right = rg_strf("%s %s", verb, resource);

    if (right && !strstr(rg_buf_text(&ask->missing), right))
        rg_buf_printf(&ask->missing, "%s%s", rg_buf_nbytes(&ask->missing) ? ", " : "", right);
}

/* A line that refuses an object is a check of its own; rights that are missing are one together. */
static void add_refusal(struct ask *ask, const char *about, const char *line)
{
    struct rg_error err = RG_ERROR_INIT;
    char denied[64];

    if (kube_is_denied(line, denied, sizeof(denied))) {
        miss_right(ask, "create", denied);
        return;
    }
    kube_explain(line, &err);
    if (!is_told(ask->outlook, err.text))
        rg_outlook_add(ask->outlook, kube_is_quota(line) ? "quota" : about, RG_OUTLOOK_REFUSED,
                       err.exit_code ? err.exit_code : RG_EXIT_USAGE, "%s", err.text);
}

static void add_refusals(struct ask *ask, const char *about, const char *said)
{
    for (size_t n; *said; said += n + (said[n] == '\n')) {
        n = strcspn(said, "\n");
        rg_autofree char *line = strndup(said, n);
        if (n && line && !rg_str_starts(line, "Warning:") && *line != '*')
            add_refusal(ask, about, line);
    }
}

/* Show an object, or a List, to the server. 0, and ret_refusal says whether it would take it, and
 * ret_answer has it as the server would make it; or -errno with err: nobody answers. */
static int show(struct ask *ask, const json_t *object, json_t **ret_answer,
                struct kube_refusal *ret_refusal, struct rg_error *err)
{
    const struct kube_request request = { .verb = KUBE_CREATE, .object = object, .strict = true,
                                          .dry_run = true, .whole = ret_answer != NULL,
                                          .each = true };
    rg_autobuf struct rg_buf answer = RG_BUF_INIT;
    int r = object ? kube_try(&ask->place, &request, ASK_MS, &answer, ret_refusal, err)
                   : rg_error_memory(err);

    if (r < 0)
        return r;
    switch (ret_refusal->why) {
    case KUBE_AWAY:
    case KUBE_BUSY:
    case KUBE_DENIED:
    case KUBE_UNTRUSTED:
    case KUBE_UNSET:
        return kube_explain_refusal(ret_refusal, err);
    case KUBE_FINE:
        if (ret_answer)
            *ret_answer = json_loads(rg_buf_text(&answer), 0, NULL);
        return 0;
    default:
        return 0;
    }
}

static int show_objects(struct ask *ask, struct rg_error *err)
{
    json_t *all = kube_owned_objects(ask->parts);

    json_array_append(all, ask->job);
    json_array_append_new(all, secret_object(ask));
    ask->nobjects = (int) json_array_size(all);
    KUBE_AUTO_JSON json_t *list = kube_list(all);
    struct kube_refusal refusal;
    int r = show(ask, list, NULL, &refusal, err);
    if (r == 0 && refusal.why != KUBE_FINE)
        add_refusals(ask, "admission", refusal.text);
    else if (r == 0)
        rg_outlook_add(ask->outlook, "admission", RG_OUTLOOK_OK, 0,
                       "the cluster would take the job's %d objects", ask->nobjects);
    return r;
}

/* Make one of its pods, as the Job's controller would. */
static json_t *make_pod(const struct ask *ask)
{
    const json_t *template = kube_at(ask->job, "spec.template");
    json_t *pod = json_deep_copy(template);
    const char *ns = kube_option(ask->parts->job, "namespace");
    rg_autofree char *name = rg_strf("%s-0-plan", name_of(ask));
    json_t *metadata = json_object_get(pod, "metadata");

    json_object_set_new(pod, "apiVersion", json_string("v1"));
    json_object_set_new(pod, "kind", json_string("Pod"));
    json_object_set_new(metadata, "name", json_string(name ? name : ""));
    if (ns)
        json_object_set_new(metadata, "namespace", json_string(ns));
    return pod;
}

static int show_pod(struct ask *ask, struct rg_error *err)
{
    KUBE_AUTO_JSON json_t *pod = make_pod(ask), *answer = NULL;
    struct kube_refusal refusal;
    char denied[64];
    int r = show(ask, pod, &answer, &refusal, err);

    ask->pod = answer ? rg_steal_ptr(&answer) : json_incref(pod);
    if (r < 0)
        return r;
    if (refusal.why == KUBE_FINE && kube_pod_lacks_agent(ask->pod))
        rg_outlook_add(ask->outlook, "pods", RG_OUTLOOK_REFUSED, RG_EXIT_USAGE, "%s",
                       KUBE_NO_IMAGE_VOLUMES);
    else if (refusal.why == KUBE_FINE)
        rg_outlook_add(ask->outlook, "pods", RG_OUTLOOK_OK, 0,
                       "the namespace allows pods like the job's");
    else if (kube_is_denied(refusal.text, denied, sizeof(denied)))
        rg_outlook_add(ask->outlook, "pods", RG_OUTLOOK_UNKNOWN, 0,
                       "whether the namespace's rules (pod security, limits, webhooks) allow them "
                       "is not known: you may not create pods yourself");
    else
        add_refusals(ask, "pods", refusal.text);
    return 0;
}

/* --- rights ----------------------------------------------------------------------------------- */

static bool lists_word(const json_t *list, const char *word)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item) {
        const char *text = json_string_value(item);
        if (text && (strcmp(text, "*") == 0 || strcmp(text, word) == 0))
            return true;
    }
    return false;
}

static bool may(const json_t *rules, const char *verb, const char *group, const char *resource)
{
    const json_t *rule;
    size_t i;

    json_array_foreach(rules, i, rule) {
        if (lists_word(json_object_get(rule, "verbs"), verb) &&
            lists_word(json_object_get(rule, "apiGroups"), group) &&
            lists_word(json_object_get(rule, "resources"), resource) &&
            !json_array_size(json_object_get(rule, "resourceNames")))
            return true;
    }
    return false;
}

/* What reigen run does beyond making things, which have been tried. */
static void look_at_rights(struct ask *ask)
{
    static const struct {
        const char *verb, *group, *resource;
    } needed[] = {
        { "patch", "batch", "jobs" }, { "get", "batch", "jobs" }, { "delete", "batch", "jobs" },
        { "list", "", "pods" },       { "watch", "", "pods" },    { "get", "", "pods/log" },
        { "get", "", "pods" },
    };
    KUBE_AUTO_JSON json_t *answer = NULL, *review = json_pack(
        "{s:s, s:s, s:{s:s}}", "apiVersion", "authorization.k8s.io/v1", "kind",
        "SelfSubjectRulesReview", "spec", "namespace", ask->place.ns);
    const struct kube_request request = { .verb = KUBE_CREATE, .object = review, .cluster = true,
                                          .whole = true };

    if (!review || kube_get(&ask->place, &request, ASK_MS, &answer, NULL) < 0)
        return;
    const json_t *rules = kube_at(answer, "status.resourceRules");
    if (json_is_true(kube_at(answer, "status.incomplete")))
        return; /* another one decides, who does not say all */
    for (size_t i = 0; i < rg_array_len(needed); i++) {
        if (!may(rules, needed[i].verb, needed[i].group, needed[i].resource))
            miss_right(ask, needed[i].verb, needed[i].resource);
    }
}

static void tell_rights(struct ask *ask)
{
    if (rg_buf_nbytes(&ask->missing))
        rg_outlook_add(ask->outlook, "rights", RG_OUTLOOK_REFUSED, RG_EXIT_NO_PERMISSION,
                       "you may not %s; ask the cluster's administrator for the role of "
                       "docs/kubernetes.md", rg_buf_text(&ask->missing));
}

/* --- what the namespace has ------------------------------------------------------------------- */

/* Objects of a kind, or one of them by its name, NULL where they cannot be read; missing: there is
 * no such one. */
static json_t *get(const struct ask *ask, const struct kube_request *request, bool *ret_missing)
{
    struct kube_request bounded = *request;
    rg_autobuf struct rg_buf answer = RG_BUF_INIT;
    struct kube_refusal refusal;

    bounded.verb = KUBE_GET;
    bounded.ms = ANSWER_MS;
    int r = kube_try(&ask->place, &bounded, ASK_MS, &answer, &refusal, NULL);
    if (ret_missing)
        *ret_missing = r == 0 && refusal.why == KUBE_MISSING;
    return r == 0 && refusal.why == KUBE_FINE ? json_loads(rg_buf_text(&answer), 0, NULL) : NULL;
}

static json_t *get_all(const struct ask *ask, const char *kind, bool cluster)
{
    const struct kube_request request = { .kind = kind, .cluster = cluster };

    return get(ask, &request, NULL);
}

static json_t *get_one(const struct ask *ask, const char *kind, const char *name,
                       bool *ret_missing)
{
    const struct kube_request request = { .kind = kind, .name = name };

    return get(ask, &request, ret_missing);
}

static void look_at_quotas(struct ask *ask)
{
    KUBE_AUTO_JSON json_t *quotas = get_all(ask, "resourcequotas", false);
    int nbundle = kube_count_bundle(ask->parts), npods = ask->parts->npods;
    KUBE_AUTO_JSON json_t *counts = json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "pods", npods, "count/pods", npods,
        "count/jobs.batch", 1, "services", 1, "count/services", 1, "secrets", 1, "count/secrets",
        1, "configmaps", 1 + nbundle, "count/configmaps", 1 + nbundle);
    struct kube_fit fit = { .pod = ask->pod, .npods = npods };

    if (quotas)
        kube_fit_quotas(&fit, json_object_get(quotas, "items"), counts, ask->outlook);
}

/* Look for the claims that pods wait for. */
static void look_at_claims(struct ask *ask)
{
    const json_t *volume;
    size_t i;

    json_array_foreach(kube_at(ask->pod, "spec.volumes"), i, volume) {
        const char *name = kube_text(volume, "persistentVolumeClaim.claimName");
        bool missing = false;
        if (!*name)
            continue;
        KUBE_AUTO_JSON json_t *claim = get_one(ask, "persistentvolumeclaims", name, &missing);
        const char *phase = kube_text(claim, "status.phase");
        if (missing)
            rg_outlook_add(ask->outlook, "volumes", RG_OUTLOOK_REFUSED, RG_EXIT_USAGE,
                           "there is no claim %s; correct --volume, or make it", name);
        else if (claim && strcmp(phase, "Lost") == 0)
            rg_outlook_add(ask->outlook, "volumes", RG_OUTLOOK_REFUSED, RG_EXIT_UNAVAILABLE,
                           "claim %s has lost its volume", name);
    }
}

/* Look for the local queue of Kueue. */
static void look_at_queue(struct ask *ask)
{
    static const char *const versions[] = { "kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1",
                                            NULL };
    const char *name = kube_local_queue(ask->parts->job), *version = NULL;
    const json_t *condition;
    bool missing = false;
    size_t i;

    if (!name)
        return;
    if (kube_find_version(&ask->place, "localqueues", versions, ANSWER_MS, &version, NULL) == 0 &&
        !version) {
        rg_outlook_add(ask->outlook, "queue", RG_OUTLOOK_REFUSED, RG_EXIT_USAGE,
                       "the cluster has no queues like %s, as Kueue has them; leave --queue out, "
                       "or say --gang volcano if it is one of Volcano's", name);
        return;
    }
    const struct kube_request request = { .kind = "localqueues", .version = version, .name = name };
    KUBE_AUTO_JSON json_t *queue = get(ask, &request, &missing);
    int npending = (int) json_integer_value(kube_at(queue, "status.pendingWorkloads"));
    if (missing)
        rg_outlook_add(ask->outlook, "queue", RG_OUTLOOK_REFUSED, RG_EXIT_USAGE,
                       "there is no queue %s in this namespace; kubectl get localqueues lists "
                       "them", name);
    else if (!queue)
        rg_outlook_add(ask->outlook, "queue", RG_OUTLOOK_UNKNOWN, 0,
                       "queue %s cannot be read: you may not get localqueues", name);
    json_array_foreach(kube_at(queue, "status.conditions"), i, condition) {
        if (strcmp(kube_text(condition, "type"), "Active") == 0 &&
            strcmp(kube_text(condition, "status"), "True") != 0)
            rg_outlook_add(ask->outlook, "queue", RG_OUTLOOK_WAITS, 0, "queue %s is not active: %s",
                           name, kube_text(condition, "message"));
    }
    if (queue && npending)
        rg_outlook_add(ask->outlook, "queue", RG_OUTLOOK_WAITS, 0, "%d job%s in queue %s", npending,
                       npending == 1 ? " waits" : "s wait", name);
    else if (queue)
        rg_outlook_add(ask->outlook, "queue", RG_OUTLOOK_OK, 0, "nobody waits in queue %s", name);
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* Say what keeps pods off the nodes, each reason once. */
static void put_reasons(const struct rg_outlook *outlook, struct rg_buf *text)
{
    int ntold = 0;

    for (size_t i = 0; i < outlook->nnodes && ntold < REASONS_MAX; i++) {
        const char *why = outlook->nodes[i].why;
        bool told = !*why;
        for (size_t k = 0; k < i; k++)
            told |= strcmp(outlook->nodes[k].why, why) == 0;
        if (!told)
            rg_buf_printf(text, "%s%s", ntold++ ? "; " : "", why);
    }
}

static void judge_nodes(struct ask *ask, const struct kube_fit *fit)
{
    rg_autobuf struct rg_buf why = RG_BUF_INIT;
    int npods = fit->npods, nwaiting = kube_fit_waiting(fit), nused = 0;
    int64_t nnow = 0, nempty = 0;

    kube_fit_nodes(fit, ask->outlook);
    for (size_t i = 0; i < ask->outlook->nnodes; i++) {
        nnow += ask->outlook->nodes[i].nnow;
        nempty += ask->outlook->nodes[i].nempty;
        nused += ask->outlook->nodes[i].nnow > 0;
    }
    put_reasons(ask->outlook, &why);
    if (nempty < npods)
        rg_outlook_add(ask->outlook, "nodes", RG_OUTLOOK_REFUSED, RG_EXIT_UNAVAILABLE,
                       "even if nothing else ran, %d of %d pods would find a place: %s; ask for "
                       "something else, or for more nodes", (int) nempty, npods, rg_buf_text(&why));
    else if (nnow < npods)
        rg_outlook_add(ask->outlook, "nodes", RG_OUTLOOK_WAITS, 0,
                       "%d of %d pods find a place now, and the others when something else is "
                       "over: %s", (int) nnow, npods, rg_buf_text(&why));
    else
        rg_outlook_add(ask->outlook, "nodes", RG_OUTLOOK_OK, 0, "there is room for %s on %d of %zu "
                       "nodes", npods == 1 ? "the pod" : "all pods", nused, ask->outlook->nnodes);
    if (nwaiting)
        rg_outlook_add(ask->outlook, "nodes", RG_OUTLOOK_OK, 0, "%d other pod%s for a node, too",
                       nwaiting, nwaiting == 1 ? " waits" : "s wait");
}

static void look_at_nodes(struct ask *ask)
{
    KUBE_AUTO_JSON json_t *nodes = get_all(ask, "nodes", true);
    KUBE_AUTO_JSON json_t *pods = nodes ? get_all(ask, "pods", true) : NULL;
    bool all = pods != NULL;

    if (!nodes) {
        rg_outlook_add(ask->outlook, "nodes", RG_OUTLOOK_UNKNOWN, 0,
                       "whether there is room now is not known: you may not list nodes");
        return;
    }
    if (!all)
        pods = get_all(ask, "pods", false);
    const struct kube_fit fit = { .pod = ask->pod, .npods = ask->parts->npods,
                                  .nodes = json_object_get(nodes, "items"),
                                  .pods = json_object_get(pods, "items") };
    judge_nodes(ask, &fit);
    if (!all)
        rg_outlook_add(ask->outlook, "nodes", RG_OUTLOOK_UNKNOWN, 0,
                       "you may not list the pods of other namespaces; what they take was not "
                       "counted");
}

/* Say what the arithmetic leaves out. */
static void look_at_rest(struct ask *ask)
{
    static const struct {
        const char *path, *what;
    } left_out[] = {
        { "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
          "required affinity to pods" },
        { "spec.topologySpreadConstraints", "topologySpreadConstraints" },
        { "spec.resourceClaims", "resource claims" },
    };
    const char *scheduler = kube_text(ask->pod, "spec.schedulerName");

    for (size_t i = 0; i < rg_array_len(left_out); i++) {
        if (kube_at(ask->pod, left_out[i].path))
            rg_outlook_add(ask->outlook, "nodes", RG_OUTLOOK_UNKNOWN, 0,
                           "%s may allow fewer: they were not looked at", left_out[i].what);
    }
    if (*scheduler && strcmp(scheduler, "default-scheduler") != 0)
        rg_outlook_add(ask->outlook, "nodes", RG_OUTLOOK_UNKNOWN, 0,
                       "the scheduler %s may have rules of its own", scheduler);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* The pod groups for --gang; none where the cluster has none, which is told. */
static int find_gang(struct ask *ask, const char **ret_version, struct rg_error *err)
{
    struct rg_error cause = RG_ERROR_INIT;
    int r = kube_gang_find(&ask->place, ask->parts->job, ret_version, &cause);

    if (r == -EOPNOTSUPP)
        rg_outlook_add(ask->outlook, "gang", RG_OUTLOOK_REFUSED, cause.exit_code, "%s", cause.text);
    else if (r < 0)
        *err = cause;
    return r == -EOPNOTSUPP ? 0 : r;
}

static int look(struct ask *ask, struct rg_error *err)
{
    int r = show_objects(ask, err);

    r = r < 0 ? r : show_pod(ask, err);
    if (r < 0)
        return r;
    look_at_rights(ask);
    tell_rights(ask);
    look_at_quotas(ask);
    look_at_claims(ask);
    look_at_queue(ask);
    look_at_nodes(ask);
    look_at_rest(ask);
    return 0;
}

int kube_look_ahead(const struct kube_parts *parts, struct rg_outlook *outlook,
                    struct rg_error *err)
{
    const struct kube_place said = kube_place_of(parts->job);
    rg_autofree char *there = kube_place_name(&said);
    char text[KUBE_TEXT_MAX];
    rg_autostrv struct rg_strv settings = RG_STRV_INIT;
    struct rg_job job = *parts->job;
    struct kube_parts these = *parts;
    struct ask ask = { .parts = &these, .outlook = outlook,
                       .place = kube_place_submitted(
                           &(struct rg_submitted_job){ .cluster = there }, text) };

    if (!there)
        return rg_error_memory(err);
    int r = find_gang(&ask, &these.pod_groups, err);
    if (r < 0)
        return r;
    if (!these.pod_groups) { /* the rest is looked at without one */
        rg_strv_add_all(&settings, job.settings.v);
        rg_env_unset(&settings, "gang");
        job.settings = settings;
        these.job = &job;
    }
    outlook->place = rg_strf("namespace %s%s%s", ask.place.ns,
                             ask.place.context ? ", context " : "",
                             ask.place.context ? ask.place.context : "");
    ask.job = kube_job_object(&these, true, err);
    r = ask.job ? look(&ask, err) : -err->errnum;
    json_decref(ask.job);
    json_decref(ask.pod);
    rg_buf_fini(&ask.missing);
    return r == 0 && (outlook->errnum || !outlook->place) ? rg_error_memory(err) : r;
}
