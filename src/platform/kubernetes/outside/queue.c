/* SPDX-License-Identifier: Apache-2.0 */
/* A job is handed to a cluster, asked after, and ended there. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "platform/kubernetes/outside/internal.h"
#include "platform/kubernetes/server/gate.h"
#include "launch/host/agentfile.h"
#include "job/yaml/manifest.h"

#define ASK_MS 30000
#define ASK_MIN_MS 10000 /* a busy computer's kubectl needs some time, too */
#define GATE_MS 10000
#define ANSWER_MS 10000
#define STOP_MS 70000
#define TAKE_BACK_MS 10000 /* for the cluster's answer, and */
#define TAKE_BACK_MAX_MS 12000 /* for kubectl, which may hang for another reason */

/* --- what is made ----------------------------------------------------------------------------- */

static int load_agent(const struct rg_job *job, struct rg_agent_file *agent,
                      struct kube_parts *parts, struct rg_error *err)
{
    struct utsname machine;

    if (kube_option(job, "agent-image"))
        return 0;
    if (uname(&machine) < 0)
        return rg_error_set(err, errno, "uname: %s", strerror(errno));
    int r = rg_agent_file_load(machine.machine, agent, err);
    parts->agent = agent->data;
    parts->agent_nbytes = agent->nbytes;
    return r;
}

static struct kube_parts make_parts(const struct rg_planned *planned, const struct rg_buf *plan,
                                    const struct rg_buf *bundle)
{
    return (struct kube_parts){ .job = &planned->job, .job_id = planned->plan.job_id,
                                .plan = rg_buf_bytes(plan), .plan_nbytes = rg_buf_nbytes(plan),
                                .bundle = rg_buf_bytes(bundle),
                                .bundle_nbytes = rg_buf_nbytes(bundle),
                                .npods = planned->plan.nhosts };
}

/* Where nobody answers, the newest ones are written down. */
static int find_pod_groups(struct kube_parts *parts, struct rg_error *err)
{
    const struct kube_place place = kube_place_of(parts->job);
    struct rg_error cause = RG_ERROR_INIT;
    int r = kube_gang_find(&place, parts->job, &parts->pod_groups, &cause);

    if (r == -EOPNOTSUPP)
        *err = cause;
    else if (r < 0)
        parts->pod_groups = kube_gang_default(parts->job);
    return r == -EOPNOTSUPP ? r : 0;
}

int kube_describe(struct rg_planned *planned, struct rg_buf *text, struct rg_error *err)
{
    rg_cleanup(rg_agent_file_fini) struct rg_agent_file agent = { .data = NULL };
    rg_autobuf struct rg_buf plan = RG_BUF_INIT, bundle = RG_BUF_INIT;
    int r = kube_encode_plan(planned, &plan, &bundle, err);
    struct kube_parts parts = make_parts(planned, &plan, &bundle);

    r = r < 0 ? r : load_agent(&planned->job, &agent, &parts, err);
    r = r < 0 ? r : find_pod_groups(&parts, err);
    KUBE_AUTO_JSON json_t *job = r < 0 ? NULL : kube_job_object(&parts, false, err);
    KUBE_AUTO_JSON json_t *all = job ? kube_owned_objects(&parts) : NULL;
    const char *name = kube_option(&planned->job, "name"),
               *ns = kube_option(&planned->job, "namespace");
    json_t *object;
    size_t i;

    if (!all)
        return r < 0 ? r : err->errnum ? -err->errnum : rg_error_memory(err);
    rg_buf_printf(text,
                  "# kubectl apply --server-side -f FILE takes this. The job's key is not in it; "
                  "this makes it:\n"
                  "#   head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\n' |\n"
                  "#   kubectl create secret generic%s%s %s --from-file=key=/dev/stdin%s\n",
                  ns ? " --namespace " : "", ns ? ns : "", name,
                  planned->job.share_env.count ? " \\" : "");
    for (i = 0; i < planned->job.share_env.count; i++)
        rg_buf_printf(text, "#     --from-literal=env.%s=\"$%s\"%s\n",
                      planned->job.share_env.v[i], planned->job.share_env.v[i],
                      i + 1 < planned->job.share_env.count ? " \\" : "");
    json_array_append(all, job);
    json_array_foreach(all, i, object) {
        rg_buf_printf(text, "---\n");
        r = r < 0 ? r : rg_manifest_put(object, text);
    }
    return r < 0 ? rg_error_memory(err) : 0;
}

int kube_outlook(const struct rg_planned *planned, struct rg_outlook *outlook,
                 struct rg_error *err)
{
    rg_cleanup(rg_agent_file_fini) struct rg_agent_file agent = { .data = NULL };
    rg_autobuf struct rg_buf plan = RG_BUF_INIT, bundle = RG_BUF_INIT;
    int r = kube_encode_plan(planned, &plan, &bundle, err);
    struct kube_parts parts = make_parts(planned, &plan, &bundle);

    r = r < 0 ? r : load_agent(&planned->job, &agent, &parts, err);
    return r < 0 ? r : kube_look_ahead(&parts, outlook, err);
}

/* --- submit ----------------------------------------------------------------------------------- */

/* What it takes to make a job, one after the other: the Job, what it owns, and to wake it, where
 * its queue does not. */
struct making {
    struct kube_gate gate;
    const struct kube_place *place; /* the gate's, or the job's */
    struct kube_request job, owned, wake;
    bool wakes;
};

static void drop_making(struct making *making)
{
    kube_gate_close(&making->gate);
}

static void prepare(struct making *making, const struct kube_place *place, const struct rg_job *job)
{
    bool users = kube_option(job, "pod-template") || kube_option(job, "affinity");

    *making = (struct making){
        .place = place,
        .job = { .verb = KUBE_CREATE, .strict = users },
        .owned = { .verb = KUBE_CREATE },
        .wake = { .verb = KUBE_PATCH, .kind = "jobs", .name = kube_option(job, "name") },
        .wakes = !kube_local_queue(job),
    };
    kube_gate_open(&making->gate, place);
}

/* Do it with its object. */
static int make(const struct making *making, const struct kube_request *request,
                const json_t *object, uint64_t ms, struct rg_buf *uid, struct rg_error *err)
{
    struct kube_request whole = *request;

    whole.object = object;
    return kube_ask(making->place, &whole, ms, uid, err);
}

/* From now on through the gate, if there is one that serves. */
static void pass_gate(struct making *making)
{
    if (kube_gate_wait(&making->gate, GATE_MS))
        making->place = &making->gate.place;
}

/* What the gate could not send, kubectl tries itself: it says best what is in its way. */
static int create_job(struct making *making, const struct kube_place *place, const json_t *job,
                      uint64_t ms, struct rg_buf *uid, struct rg_error *err)
{
    struct kube_request request = making->job;
    struct kube_refusal refusal;

    request.object = job;
    if (!making->place->gate)
        return kube_ask(place, &request, ms, uid, err);
    int r = kube_try(making->place, &request, ms, uid, &refusal, err);
    if (r < 0 || refusal.why == KUBE_FINE)
        return r;
    if (!kube_was_not_sent(refusal.text))
        return kube_explain_refusal(&refusal, err);
    making->place = place;
    return kube_ask(place, &request, ms, uid, err);
}

/* For each step: as a rule no longer than the whole start may take. */
static uint64_t make_ms(const struct rg_job *job)
{
    uint64_t ms = job->start_timeout_ms;

    return ms < ASK_MIN_MS ? ASK_MIN_MS : ms < ASK_MS ? ms : ASK_MS;
}

static int resume(struct making *making, uint64_t ms, struct rg_error *err)
{
    KUBE_AUTO_JSON json_t *patch = json_pack("{s:{s:b}}", "spec", "suspend", 0);

    return patch ? make(making, &making->wake, patch, ms, NULL, err) : rg_error_memory(err);
}

/* Whether our Job is there: another one may have the name. 1, 0 or -errno. */
static int is_made(const struct kube_place *place, const struct kube_parts *parts)
{
    rg_autofree char *selector = rg_strf("reigen/job-id=%s", parts->job_id);
    const struct kube_request ask = { .verb = KUBE_GET, .kind = "jobs", .selector = selector,
                                      .ms = TAKE_BACK_MS };
    KUBE_AUTO_JSON json_t *mine = NULL;
    int r = parts->uid ? 1 : selector ? kube_get(place, &ask, TAKE_BACK_MAX_MS, &mine, NULL)
                                    : -ENOMEM;

    return r ? r : json_array_size(json_object_get(mine, "items")) > 0;
}

/* What was made of a job that cannot be is not left there. err, in which the cause stands, says so
 * where that does not work. */
static void take_back(const struct kube_place *place, const struct kube_parts *parts,
                      struct rg_error *err)
{
    const char *name = kube_option(parts->job, "name");
    const struct kube_request end = { .verb = KUBE_DELETE, .kind = "jobs", .name = name,
                                      .ms = TAKE_BACK_MS };
    int r = is_made(place, parts);

    if (r > 0)
        r = kube_ask(place, &end, TAKE_BACK_MAX_MS, NULL, NULL);
    if (r < 0)
        rg_error_prepend(err, "a part of job %s may be left there, which kubectl delete job %s "
                         "removes", name, name);
}

static int create_owned(struct making *making, struct kube_parts *parts, struct rg_error *err)
{
    json_t *secret = kube_secret_object(parts, err);
    json_t *all = secret ? kube_owned_objects(parts) : NULL;

    json_array_append_new(all, secret);
    KUBE_AUTO_JSON json_t *list = kube_list(all);
    if (!list)
        return secret ? rg_error_memory(err) : -err->errnum;
    return make(making, &making->owned, list, make_ms(parts->job), NULL, err);
}

/* The Job first, as it owns the rest, and asleep, as its pods need that. */
static int create_all(struct making *making, const struct kube_place *place,
                      struct kube_parts *parts, struct rg_error *err)
{
    KUBE_AUTO_JSON json_t *job = kube_job_object(parts, true, err);
    rg_autobuf struct rg_buf uid = RG_BUF_INIT;
    uint64_t ms = make_ms(parts->job);
    int r = job ? create_job(making, place, job, ms, &uid, err) : -err->errnum;

    if (r == -ETIMEDOUT || r == -EHOSTUNREACH || r == -EIO)
        take_back(place, parts, err); /* it may have been made all the same */
    if (r < 0)
        return r;
    parts->uid = rg_buf_text(&uid);
    r = create_owned(making, parts, err);
    if (r == 0 && making->wakes)
        r = resume(making, ms, err);
    if (r < 0)
        take_back(place, parts, err);
    return r;
}

int kube_submit(const struct rg_job *job, char *const *argv, struct rg_submitted_job *ret_job,
                struct rg_error *err)
{
    rg_cleanup(rg_agent_file_fini) struct rg_agent_file agent = { .data = NULL };
    RG_AUTO_PLANNED struct rg_planned planned = { .quiet = false };
    rg_autobuf struct rg_buf plan = RG_BUF_INIT, bundle = RG_BUF_INIT;
    struct kube_place place = kube_place_of(job);
    rg_cleanup(drop_making) struct making making = { .place = NULL };
    prepare(&making, &place, job);
    int r = rg_planned_read(argv[2], &planned, err);

    unlink(argv[2]); /* the ConfigMap has it */
    r = r < 0 ? r : kube_encode_plan(&planned, &plan, &bundle, err);
    struct kube_parts parts = make_parts(&planned, &plan, &bundle);
    r = r < 0 ? r : load_agent(job, &agent, &parts, err);
    r = r < 0 ? r : kube_gang_find(&place, job, &parts.pod_groups, err);
    if (r == 0)
        pass_gate(&making);
    r = r < 0 ? r : create_all(&making, &place, &parts, err);
    if (r < 0)
        return r;
    snprintf(ret_job->id, sizeof(ret_job->id), "%s", kube_option(job, "name"));
    ret_job->cluster = kube_place_name(making.place);
    ret_job->log = rg_strf("reigen logs %s", ret_job->id); /* kubectl logs chooses any pod */
    return ret_job->log && ret_job->cluster ? 0 : rg_error_memory(err);
}

/* --- a job from elsewhere --------------------------------------------------------------------- */

static int fail_missing(const struct rg_submitted_job *job, const struct kube_place *place,
                        struct rg_error *err)
{
    return rg_error_set_exit(err, ENOENT, RG_EXIT_USAGE,
                             "there is no job %s in namespace %s%s%s: it was removed after its "
                             "end, or is elsewhere (--namespace, --context)", job->id, place->ns,
                             place->context ? " of context " : "",
                             place->context ? place->context : "");
}

int kube_find(struct rg_submitted_job *job, const char *ns, const char *context,
              struct rg_strv *hosts, struct rg_error *err)
{
    const struct kube_place said = { .context = context, .ns = ns };
    const struct kube_request request = { .verb = KUBE_GET, .kind = "jobs", .name = job->id,
                                          .ms = ANSWER_MS };
    rg_autobuf struct rg_buf answer = RG_BUF_INIT;
    struct kube_refusal refusal;
    char text[KUBE_TEXT_MAX];

    if (!job->cluster && !(job->cluster = kube_place_name(&said)))
        return rg_error_memory(err);
    struct kube_place place = kube_place_submitted(job, text);
    int r = kube_try(&place, &request, ASK_MS, &answer, &refusal, err);
    if (r == 0 && refusal.why == KUBE_MISSING)
        return fail_missing(job, &place, err);
    if (r < 0 || refusal.why != KUBE_FINE)
        return r < 0 ? r : kube_explain_refusal(&refusal, err);
    KUBE_AUTO_JSON json_t *object = json_loads(rg_buf_text(&answer), 0, NULL);
    const json_t *labels = kube_at(object, "metadata.labels");
    const char *owner = json_string_value(json_object_get(labels, "app.kubernetes.io/name"));
    if (!owner || strcmp(owner, "reigen") != 0)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "the Job %s in namespace %s is not one of Reigen's", job->id,
                                 place.ns);
    if (!job->log)
        job->log = rg_strf("reigen logs %s", job->id);
    if (!job->command)
        job->command = strdup("");
    json_int_t npods = json_integer_value(kube_at(object, "spec.completions"));
    for (int i = 0; i < npods && i < RG_JOB_HOSTS_MAX; i++)
        rg_strv_addf(hosts, "%s-%d", job->id, i);
    return job->log && job->command && rg_strv_status(hosts) == 0 ? 0 : rg_error_memory(err);
}

/* --- status ----------------------------------------------------------------------------------- */

static void set_elapsed(struct rg_submitted_job *job, const char *since)
{
    struct tm tm = { 0 };

    if (*since && strptime(since, "%Y-%m-%dT%H:%M:%SZ", &tm))
        rg_submitted_set_elapsed(job, timegm(&tm));
}

static void take_job(struct rg_submitted_job *job, const json_t *object)
{
    char reason[KUBE_TEXT_MAX];
    enum kube_job_state state = kube_job_read(object, reason, sizeof(reason));
    static const struct {
        enum rg_submitted_state state;
        const char *word;
    } words[] = {
        [KUBE_JOB_SUSPENDED] = { RG_SUBMITTED_WAITS, "SUSPENDED" },
        [KUBE_JOB_ACTIVE] = { RG_SUBMITTED_WAITS, "PENDING" },
        [KUBE_JOB_COMPLETE] = { RG_SUBMITTED_ENDED, "COMPLETED" },
        [KUBE_JOB_FAILED] = { RG_SUBMITTED_ENDED, "FAILED" },
    };
    job->state = words[state].state;
    rg_submitted_set(&job->word, words[state].word);
    rg_submitted_set(&job->reason, reason);
    set_elapsed(job, kube_text(object, "status.startTime"));
    if (state == KUBE_JOB_COMPLETE)
        job->exit_code = 0;
}

/* How it has ended: for what is tried again counts least, and more than the head's word what it
 * cannot know of another pod. */
static void take_code(struct rg_submitted_job *job, const struct kube_pod *pod)
{
    bool again = job->exit_code == RG_EXIT_PREEMPTED || job->exit_code == RG_EXIT_HOST_LOST;
    bool unknown = pod->no_memory || (pod->exit_code == RG_EXIT_CONTAINER && !pod->running);
    bool last = pod->index == 0 && !kube_pod_is_retried(pod);

    if (last || ((pod->index == 0 || unknown) && (job->exit_code < 0 || again)))
        job->exit_code = pod->killed && !pod->no_memory ? pod->why_code : pod->exit_code;
}

/* Where it runs, what it waits for, and how its head has ended. */
static void take_pod(struct rg_submitted_job *job, const json_t *object)
{
    struct kube_pod pod;

    kube_pod_read(object, &pod);
    bool active = job->state == RG_SUBMITTED_WAITS || job->state == RG_SUBMITTED_RUNS;
    if (active && pod.running && !pod.ended && pod.index == 0) {
        job->state = RG_SUBMITTED_RUNS;
        rg_submitted_set(&job->word, "RUNNING");
    }
    if (active && *pod.node && !pod.ended) {
        char *nodes = job->nodes && *job->nodes ? rg_strf("%s,%s", job->nodes, pod.node)
                                                : strdup(pod.node);
        free(job->nodes);
        job->nodes = nodes;
    }
    if (active && *pod.reason && !pod.ended)
        rg_submitted_set(&job->reason, pod.reason);
    if (!pod.ended || pod.exit_code < 0)
        return;
    /* The head's word counts before the Job's controller has heard it. */
    if (active && pod.index == 0 && !kube_pod_is_retried(&pod)) {
        job->state = RG_SUBMITTED_ENDED;
        rg_submitted_set(&job->word, pod.exit_code ? "FAILED" : "COMPLETED");
    }
    if (job->state == RG_SUBMITTED_ENDED && job->exit_code != 0)
        take_code(job, &pod);
}

static void take_item(struct rg_submitted_job *jobs, size_t count, const json_t *object,
                      const char *cluster)
{
    const char *name = json_string_value(
        json_object_get(kube_at(object, "metadata.labels"), "app.kubernetes.io/instance"));

    for (size_t i = 0; name && i < count; i++) {
        if (strcmp(jobs[i].id, name) != 0 || strcmp(jobs[i].cluster ? jobs[i].cluster : "",
                                                    cluster) != 0)
            continue;
        if (strcmp(kube_text(object, "kind"), "Job") == 0)
            take_job(&jobs[i], object);
        else
            take_pod(&jobs[i], object);
    }
}

/* One question for all jobs at the first one's place that nobody has asked after. */
static int ask_place(struct rg_submitted_job *jobs, size_t count, struct rg_error *err)
{
    const char *cluster = jobs->cluster ? jobs->cluster : "";
    static const struct kube_request request = { .verb = KUBE_GET, .kind = "jobs,pods",
                                                 .selector = "app.kubernetes.io/name=reigen",
                                                 .ms = ANSWER_MS };
    KUBE_AUTO_JSON json_t *all = NULL;
    char text[KUBE_TEXT_MAX];
    struct kube_place place = kube_place_submitted(jobs, text);
    const json_t *items, *object;
    size_t i;

    int r = kube_get(&place, &request, ASK_MS, &all, err);
    for (size_t k = 0; k < count; k++) {
        if (jobs[k].state == RG_SUBMITTED_UNKNOWN && r == 0 &&
            strcmp(jobs[k].cluster ? jobs[k].cluster : "", cluster) == 0)
            jobs[k].state = RG_SUBMITTED_ENDED; /* unless it is listed */
    }
    items = json_object_get(all, "items");
    for (int pods = 0; pods < 2; pods++) {
        json_array_foreach(items, i, object) {
            if ((strcmp(kube_text(object, "kind"), "Pod") == 0) == pods)
                take_item(jobs, count, object, cluster);
        }
    }
    return r;
}

/* A cluster that did not answer is not asked again. */
static bool asked_in_vain(const struct rg_submitted_job *jobs, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (jobs[k].state == RG_SUBMITTED_UNKNOWN && jobs[k].cluster && jobs[i].cluster &&
            strcmp(jobs[k].cluster, jobs[i].cluster) == 0)
            return true;
    }
    return false;
}

int kube_status(struct rg_submitted_job *jobs, size_t count, struct rg_error *err)
{
    int r = 0;

    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state != RG_SUBMITTED_UNKNOWN || asked_in_vain(jobs, i))
            continue;
        if (ask_place(&jobs[i], count - i, err) < 0)
            r = -EAGAIN;
    }
    /* The Job is removed some day, and its code with it. */
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state == RG_SUBMITTED_ENDED && jobs[i].word && jobs[i].exit_code >= 0)
            rg_submitted_end(&jobs[i]);
    }
    return r;
}

int kube_cancel(struct rg_submitted_job *job, struct rg_error *err)
{
    char text[KUBE_TEXT_MAX];
    struct kube_place place = kube_place_submitted(job, text);
    const struct kube_request request = { .verb = KUBE_DELETE, .kind = "jobs", .name = job->id,
                                          .wait = true };

    return kube_ask(&place, &request, STOP_MS, NULL, err);
}
