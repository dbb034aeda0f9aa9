/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that is stayed with. Its head is in pod 0: what that writes is the job's output, and what
 * it ends with is the job's exit code. Nothing of the job depends on us; so whatever is cut here,
 * by the API server's absence as well, is taken up again, and the job goes on.
 *
 * Three streams are read: of the pods, of the head's log, and, while a start takes long, of the
 * events of the namespace, which say why.
 */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/time.h"
#include "platform/kubernetes/outside/followed.h"

#define EVENTS_MS 3000    /* a start that takes longer wants reasons */
/* A job that was just handed over has no news yet, and a kubectl that begins takes a tenth of a
 * second of a core, for which pods would wait where the cluster is this computer. */
#define FRESH_MS 200
#define ASK_MS 10000      /* an answer about the Job */
#define JOB_MS 2000       /* between looks at the Job, where that is to say what comes next, and */
#define JOB_MAX_MS 30000  /* later, where it has not ended */
#define STUCK_MS 500      /* between looks at reasons that do not go away */
#define LIST_MS 10000     /* the list of pods, after the Job is known to be over */
#define LOST_MS 1500      /* for others to be lost with a pod, or the job to be over with it */
#define GONE_MS 3000      /* the log's end, after the Job is gone */
#define LOG_MS 30000      /* nothing comes of the log, after the Job has ended */

static void start_pods(void *arg);
static void begin_again(struct follow *f);
static void say_lost(struct follow *f);
static void ask_job(void *arg);
static void start_events(struct follow *f);

/* --- the end ---------------------------------------------------------------------------------- */

static void on_removed(void *arg)
{
    struct follow *f = arg;
    struct rg_error cause = RG_ERROR_INIT;

    if (f->end_stream.refusal.why != KUBE_FINE) {
        kube_explain_refusal(&f->end_stream.refusal, &cause);
        rg_follower_sayf(&f->us, "job %s has ended well, but could not be removed: %s; the cluster "
                         "removes it later", f->us.o.submitted->id, cause.text);
    }
    rg_follower_tell(&f->us);
}

/* All went well, and all was seen: nothing is left to look at. */
static int remove_job(struct follow *f)
{
    const struct kube_request request = { .verb = KUBE_DELETE, .kind = "jobs",
                                          .name = f->us.o.submitted->id, .ms = ASK_MS };

    return follow_start_stream(f, &f->end_stream, &request,
                        (struct kube_listener){ .on_end = on_removed }, NULL);
}

static bool close_all(void *state)
{
    struct follow *f = state;
    struct rg_timer *const timers[] = { &f->pods.timer, &f->logs.timer, &f->events.timer,
                                        &f->job.timer, &f->start_timer, &f->stuck_timer,
                                        &f->lost_timer, &f->log.held_timer };
    const struct rg_follow_options *o = &f->us.o;

    for (size_t i = 0; i < rg_array_len(timers); i++)
        rg_timer_stop(timers[i]);
    kube_log_close(&f->log.lines, f->head.log_nbytes, f->head.log_nlines, o->on_output, o->arg);
    kube_log_fini(&f->log.lines);
    if (f->us.exit_code > 0)
        kube_host_say_health(f->hosts, o->nhosts, o->on_say, o->arg);
    bool keep = f->us.exit_code != 0 || f->us.ending || !o->job || kube_option(o->job, "ttl");
    return !keep && remove_job(f) == 0;
}

/* The job will not be tried again. */
static void end_failed(struct follow *f, const char *reason)
{
    const struct kube_pod *culprit = *f->memory.pod.name
                                         ? &f->memory.pod
                                         : kube_host_find_culprit(f->hosts, f->us.o.nhosts);

    if (*f->head.why && !*f->memory.pod.name)
        culprit = &f->head;
    rg_follower_finish(&f->us, kube_job_explain(&f->head, culprit, reason, &f->us.err));
}

/* --- the Job, when the pods alone do not say what comes next ---------------------------------- */

/* The Job is over, and who comes that late may hear it before the head's pod is listed. It is not
 * waited for long: somebody may have deleted it. */
static bool waits_for_head(struct follow *f)
{
    if (f->us.o.job || *f->head.name || rg_now_ns() - f->begun_ns > LIST_MS * RG_NS_PER_MS)
        return false;
    rg_timer_start(&f->job.timer, f->us.o.loop, STUCK_MS, 0, ask_job, f);
    return true;
}

/* The Job is over. Its log may come later, and is waited for as long as more of it comes. */
static bool waits_for_log(struct follow *f)
{
    if (f->log.over || (!f->logs.stream.started && !rg_timer_active(&f->logs.timer)))
        return false;
    if (!f->told.over)
        f->log.at_ns = rg_now_ns();
    f->told.over = true;
    if (rg_now_ns() - f->log.at_ns > LOG_MS * RG_NS_PER_MS) {
        rg_follower_sayf(&f->us, "the rest of the log of pod %s cannot be read", f->log.pod);
        return false;
    }
    rg_timer_start(&f->job.timer, f->us.o.loop, JOB_MS, 0, ask_job, f);
    return true;
}

/* Whether there will be news without asking for it: pods tell of their ends, if they are there. */
static void ask_later(struct follow *f)
{
    bool ends = f->told.over || f->head.ended;

    if (f->told.head && f->pods.stream.started && !ends)
        return;
    f->job.pause_ms = ends || f->job.pause_ms < JOB_MS ? JOB_MS : f->job.pause_ms;
    rg_timer_start(&f->job.timer, f->us.o.loop, f->job.pause_ms, 0, ask_job, f);
    f->job.pause_ms *= 2;
    if (f->job.pause_ms > JOB_MAX_MS)
        f->job.pause_ms = JOB_MAX_MS;
}

static void on_job(void *arg, const json_t *job)
{
    struct follow *f = arg;
    char reason[KUBE_TEXT_MAX];
    enum kube_job_state state = kube_job_read(job, reason, sizeof(reason));

    f->told.job = true;
    if (f->us.done || f->us.ending)
        return;
    snprintf(f->told.uid, sizeof(f->told.uid), "%s", kube_text(job, "metadata.uid"));
    if (f->told.wants_events && !f->running)
        start_events(f);
    if (state == KUBE_JOB_SUSPENDED)
        rg_timer_stop(&f->start_timer); /* it is back in its queue */
    if ((state == KUBE_JOB_COMPLETE || state == KUBE_JOB_FAILED) &&
        (waits_for_head(f) || waits_for_log(f)))
        return;
    switch (state) {
    case KUBE_JOB_COMPLETE:
        rg_follower_finish(&f->us, 0);
        break;
    case KUBE_JOB_FAILED:
        end_failed(f, reason);
        break;
    default:
        if (f->head.ended)
            say_lost(f);
        ask_later(f);
    }
}

/* It is not there; who only looks on may have come too late. */
static void end_missing(struct follow *f)
{
    if (!f->us.o.job && !*f->head.name) {
        rg_error_set_exit(&f->us.err, ENOENT, RG_EXIT_UNAVAILABLE,
                          "it is not there any more: it was removed after its end, or by somebody");
        rg_follower_finish(&f->us, -1);
        return;
    }
    rg_error_set_exit(&f->us.err, ECANCELED, RG_EXIT_PREEMPTED,
                      "the Job %s was deleted, by reigen stop or otherwise", f->us.o.submitted->id);
    rg_follower_finish(&f->us, f->head.exit_code >= 0 ? f->head.exit_code : RG_EXIT_PREEMPTED);
}

static void on_job_answer(void *arg)
{
    struct follow *f = arg;

    if (f->us.done || f->us.ending || f->told.job)
        return;
    if (f->job.stream.refusal.why == KUBE_MISSING) {
        if (!waits_for_log(f))
            end_missing(f);
    } else {
        rg_timer_start(&f->job.timer, f->us.o.loop, JOB_MS, 0, ask_job, f);
    }
}

static void ask_job(void *arg)
{
    struct follow *f = arg;
    const struct kube_request request = { .verb = KUBE_GET, .kind = "jobs",
                                          .name = f->us.o.submitted->id, .ms = ASK_MS };

    if (f->us.done || f->us.ending)
        return;
    if (f->job.stream.started && f->told.job) /* kubectl has told it, and has not ended yet */
        rg_timer_start(&f->job.timer, f->us.o.loop, STUCK_MS, 0, ask_job, f);
    if (f->job.stream.started)
        return;
    f->told.job = false;
    if (follow_start_stream(f, &f->job.stream, &request,
                     (struct kube_listener){ .on_object = on_job, .on_end = on_job_answer },
                     NULL) < 0)
        rg_timer_start(&f->job.timer, f->us.o.loop, JOB_MS, 0, ask_job, f);
}

/* The head has ended, and its log is read: is that the end of the job? */
static void decide(struct follow *f)
{
    const struct kube_pod *head = &f->head;

    if (f->us.done || f->us.ending || !head->ended || !f->log.over)
        return;
    if (!kube_pod_is_retried(head) && head->exit_code >= 0) {
        if (*head->why)
            kube_pod_explain(head, &f->us.err);
        rg_follower_finish(&f->us, head->exit_code);
        return;
    }
    begin_again(f);
    rg_timer_start(&f->job.timer, f->us.o.loop, 0, 0, ask_job, f);
}

/* --- what nobody answers to ------------------------------------------------------------------- */

/* --- the start -------------------------------------------------------------------------------- */

static void look_at_start(struct follow *f);

static void on_event(void *arg, const json_t *news)
{
    struct follow *f = arg;
    const json_t *event = json_object_get(news, "object");
    enum rg_host_phase phase;
    char reason[KUBE_TEXT_MAX];
    const char *name;

    if (f->running || f->us.done || !kube_event_read(event, &name, &phase, reason, sizeof(reason)))
        return;
    bool of_job = strcmp(name, f->us.o.submitted->id) == 0;
    if (of_job && strcmp(kube_text(event, "involvedObject.uid"), f->told.uid) != 0)
        return;
    for (int i = 0; i < f->us.o.nhosts; i++) {
        struct kube_host *host = &f->hosts[i];
        if (kube_host_is_up(host) || (*host->pod.reason && !host->by_event) ||
            (of_job ? *host->pod.name : strcmp(host->pod.name, name) != 0))
            continue;
        f->us.o.on_phase(f->us.o.arg, i, phase, reason);
        snprintf(host->pod.reason, sizeof(host->pod.reason), "%s", reason);
        host->by_event = true;
    }
    look_at_start(f);
}

/* It is a help alone. */
static void on_events_end(void *arg)
{
    (void) arg;
}

static void start_events(struct follow *f)
{
    /* A selector of fields can leave out, but not say "this one or that one": so the namespace's
     * most frequent ones stay on the server, and on_event knows those of the job. */
    static const struct kube_request request = {
        .verb = KUBE_WATCH, .kind = "events",
        .fields = "reason!=Scheduled,reason!=FailedScheduling,reason!=Created,reason!=Started,"
                  "reason!=Killing,reason!=BackOff,reason!=Unhealthy,reason!=SuccessfulCreate,"
                  "reason!=SuccessfulDelete,reason!=Completed"
    };

    f->told.wants_events = false;
    if (f->events.stream.started)
        return;
    follow_start_stream(f, &f->events.stream, &request,
                 (struct kube_listener){ .on_object = on_event, .on_end = on_events_end }, NULL);
}

static void want_events(void *arg)
{
    struct follow *f = arg;

    f->told.wants_events = true;
    ask_job(f);
}

static void give_up(struct follow *f, int errnum, int exit_code, const char *what,
                    const char *remedy)
{
    rg_autobuf struct rg_buf reasons = RG_BUF_INIT;

    kube_host_put_reasons(f->hosts, f->us.o.nhosts, f->us.o.submitted->id, &reasons);
    rg_error_set_exit(&f->us.err, errnum, exit_code, "%s: %s%s%s", what, rg_buf_text(&reasons),
                      *remedy ? "; " : "", remedy);
    /* That its end was asked for is all that the head could say of it now. */
    follow_stop_log(f);
    f->log.over = true;
    kube_end(f);
}

static void on_start_timeout(void *arg)
{
    struct follow *f = arg;
    char what[96];

    if (f->running || f->us.done || f->us.ending)
        return;
    snprintf(what, sizeof(what), "not all pods have started within %.0f s (--start-timeout)",
             (double) f->us.o.job->start_timeout_ms / 1e3);
    give_up(f, ETIMEDOUT, RG_EXIT_TIMEOUT, what, "");
}

/* Pods of an elastic job may come at any time, but its head is needed. */
static int count_needed(const struct follow *f)
{
    return f->elastic ? 1 : f->us.o.nhosts;
}

static void on_stuck(void *arg)
{
    struct follow *f = arg;
    struct kube_hopeless cause;
    bool wait = false;

    for (int i = 0; i < count_needed(f) && !f->running && !f->us.done && !f->us.ending; i++) {
        if (kube_host_is_given_up(&f->hosts[i], f->us.o.nhosts, &wait, &cause))
            give_up(f, ENOEXEC, cause.exit_code, "a pod cannot start", cause.remedy);
    }
    if (wait && !f->running && !f->us.done && !f->us.ending)
        rg_timer_start(&f->stuck_timer, f->us.o.loop, STUCK_MS, 0, on_stuck, f);
}

static void look_at_start(struct follow *f)
{
    bool all = true;

    for (int i = 0; i < count_needed(f); i++)
        all &= kube_host_is_up(&f->hosts[i]);
    if (!all && f->us.o.job && !f->running && !rg_timer_active(&f->stuck_timer))
        rg_timer_start(&f->stuck_timer, f->us.o.loop, STUCK_MS, 0, on_stuck, f);
    if (!all || f->running || !f->us.o.on_running)
        return;
    f->running = true;
    rg_timer_stop(&f->start_timer);
    rg_timer_stop(&f->events.timer);
    f->told.wants_events = false;
    kube_stream_stop(&f->events.stream);
    f->us.o.on_running(f->us.o.arg);
}

/* In a queue the time begins when the queue lets the job go. */
static void begin_start_timer(struct follow *f)
{
    if (f->us.o.job && !f->running && !rg_timer_active(&f->start_timer)) {
        rg_timer_start(&f->start_timer, f->us.o.loop, f->us.o.job->start_timeout_ms + f->lost_ms, 0,
                       on_start_timeout, f);
        rg_timer_start(&f->events.timer, f->us.o.loop, EVENTS_MS, 0, want_events, f);
    }
}

/* In the place of one that has ended there is to be another one. */
static void tell_phase(struct follow *f, int i)
{
    const struct kube_pod *pod = &f->hosts[i].pod;

    if (pod->ended)
        f->us.o.on_phase(f->us.o.arg, i, RG_PHASE_PENDING, pod->fault ? pod->why : "");
    else
        f->us.o.on_phase(f->us.o.arg, i, (int) pod->phase, pod->reason);
}

/* Kubernetes is to start the job once more: that is a start like the first one. */
static void begin_again(struct follow *f)
{
    if (!f->running)
        return;
    f->running = false;
    for (int i = 0; i < f->us.o.nhosts; i++)
        tell_phase(f, i);
    begin_start_timer(f);
}

static void say_lost(struct follow *f)
{
    f->lost_ms = kube_host_say_lost(f->hosts, f->us.o.nhosts, f->us.o.on_say, f->us.o.arg);
    for (int i = 0; i < f->us.o.nhosts && !f->running; i++) {
        if (kube_pod_is_lost(&f->hosts[i].pod))
            tell_phase(f, i);
    }
    if (f->lost_ms && !f->elastic)
        begin_again(f);
}

/* A pod that has used more memory than it may would do so again, and the Job cannot know. */
static void give_up_memory(struct follow *f)
{
    for (int i = 0; i < f->us.o.nhosts && f->us.o.job && !f->elastic; i++) {
        if (f->hosts[i].pod.no_memory)
            kube_memory_give_up(&f->memory, f->us.o.loop, &f->place, f->us.o.submitted->id,
                                &f->hosts[i].pod);
    }
}

/* The head has had the time to speak: Kubernetes ends it with the Job. If it has ended itself, what
 * comes next is the Job's to say. */
static void look_for_lost(void *arg)
{
    struct follow *f = arg;

    if (f->us.done || f->us.ending)
        return;
    if (!f->head.ended)
        say_lost(f);
    give_up_memory(f);
}

/* --- the pods --------------------------------------------------------------------------------- */

static void take_host(struct follow *f, const struct kube_pod *pod)
{
    struct kube_host *host = &f->hosts[pod->index];
    struct kube_pod *old = &host->pod;
    bool same = strcmp(old->name, pod->name) == 0;
    bool news = !same || old->phase != pod->phase || strcmp(old->reason, pod->reason) != 0;
    bool quiet = same && !*pod->reason && *old->reason && old->phase == pod->phase &&
                 host->by_event; /* an event has said more */
    char kept[KUBE_TEXT_MAX], health[KUBE_TEXT_MAX];

    if (kube_pod_is_past(old, pod))
        return;
    if (pod->silent && !old->silent && f->running)
        rg_follower_sayf(&f->us, "node %s, where pod %s runs, does not answer", pod->node,
                         pod->name);
    if (news && !quiet && !pod->ended && !f->running)
        f->us.o.on_phase(f->us.o.arg, pod->index, (int) pod->phase, pod->reason);
    if (!same && f->running && host->told_lost)
        rg_follower_sayf(&f->us, "pod %s takes the place of %s", pod->name, old->name);
    snprintf(kept, sizeof(kept), "%s", quiet ? old->reason : pod->reason);
    memcpy(health, same && !*pod->health ? old->health : pod->health, sizeof(health));
    host->told_lost &= same;
    *old = *pod;
    memcpy(old->health, health, sizeof(health));
    snprintf(old->reason, sizeof(old->reason), "%s", kept);
    host->by_event = quiet;
}

static void take_head(struct follow *f, const struct kube_pod *pod)
{
    bool other = strcmp(f->head.name, pod->name) != 0;

    if (kube_pod_is_past(&f->head, pod))
        return;
    if (other && *f->head.name) {
        const struct kube_pod *culprit =
            *f->head.why ? &f->head : kube_host_find_culprit(f->hosts, f->us.o.nhosts);
        kube_pod_say_again(pod, &f->head, culprit, f->us.o.on_say, f->us.o.arg);
        begin_again(f);
        rg_timer_stop(&f->job.timer);
        kube_log_close(&f->log.lines, f->head.log_nbytes, f->head.log_nlines, f->us.o.on_output,
                       f->us.o.arg);
        follow_stop_log(f);
    }
    f->head = *pod;
    if (pod->running && strcmp(f->log.pod, pod->name) != 0) {
        snprintf(f->log.pod, sizeof(f->log.pod), "%s", pod->name);
        follow_stop_log(f);
        kube_log_fini(&f->log.lines);
        f->log.lines.middle = f->us.o.nlast > 0;
        f->log.over = false;
        follow_start_log(f);
    }
    if (pod->ended && !pod->running)
        f->log.over = true; /* it has none */
    decide(f);
}

static void on_pod(void *arg, const json_t *event)
{
    struct follow *f = arg;
    const json_t *object = json_object_get(event, "object");
    struct kube_pod pod;

    rg_follower_is_back(&f->us);
    f->pods.ncomplaints = 0;
    kube_pod_read(object, &pod);
    if (f->us.done || pod.index < 0)
        return;
    if (strcmp(kube_text(event, "type"), "DELETED") == 0)
        pod.ended = true;
    f->told.head |= pod.index == 0;
    begin_start_timer(f);
    if (pod.index < f->us.o.nhosts) {
        kube_pod_remember_silence(&f->hosts[pod.index].pod, &pod);
        take_host(f, &pod);
    }
    if (pod.index == 0)
        take_head(f, &pod);
    if (pod.index < f->us.o.nhosts && kube_pod_is_lost(&f->hosts[pod.index].pod) &&
        !rg_timer_active(&f->lost_timer))
        rg_timer_start(&f->lost_timer, f->us.o.loop, LOST_MS, 0, look_for_lost, f);
    look_at_start(f);
}

/* What has happened meanwhile the Job knows: a pod that is gone is not listed. */
static void on_pods_end(void *arg)
{
    struct follow *f = arg;

    if (f->us.done || !follow_may_retry(f, &f->pods))
        return;
    follow_try_again(&f->pods, f, start_pods);
    f->job.pause_ms = JOB_MS;
    if (!rg_timer_active(&f->job.timer))
        rg_timer_start(&f->job.timer, f->us.o.loop, JOB_MS, 0, ask_job, f);
}

static void start_pods(void *arg)
{
    struct follow *f = arg;
    const struct kube_request request = { .verb = KUBE_WATCH, .kind = "pods",
                                          .selector = f->selector };

    f->pods.since_ns = rg_now_ns();
    f->told.head = false;
    if (follow_start_stream(f, &f->pods.stream, &request,
                     (struct kube_listener){ .on_object = on_pod, .on_end = on_pods_end },
                     &f->us.err) < 0)
        rg_follower_finish(&f->us, -1);
}

/* --- the way out ------------------------------------------------------------------------------ */

static void finish_gone(void *arg)
{
    rg_follower_finish(&((struct follow *) arg)->us, -1);
}

/* The rest of the log may be on its way, and may never come. */
static void on_gone(struct follow *f)
{
    bool more = !f->log.over && f->logs.stream.started;

    rg_timer_start(&f->job.timer, f->us.o.loop, more ? GONE_MS : 0, 0, finish_gone, f);
}

/* It could not be ended; whatever it does now, it is not waited for. The reason to end it, where
 * there was one, is told last. */
static void fail_end(struct follow *f, struct rg_error *cause)
{
    rg_error_prepend(cause, "job %s could not be ended (reigen stop %s tries it again)",
                     f->us.o.submitted->id, f->us.o.submitted->id);
    if (f->us.err.errnum)
        rg_follower_sayf(&f->us, "%s", cause->text);
    else
        f->us.err = *cause;
    rg_follower_finish(&f->us, RG_FOLLOW_LEFT);
}

static void on_end_answer(void *arg)
{
    struct follow *f = arg;
    struct rg_error cause = RG_ERROR_INIT;

    f->gone = true;
    if (f->end_stream.refusal.why == KUBE_FINE) {
        on_gone(f);
        return;
    }
    kube_explain_refusal(&f->end_stream.refusal, &cause);
    fail_end(f, &cause);
}

static void on_end_timeout(void *arg)
{
    struct follow *f = arg;
    struct rg_error cause = RG_ERROR_INIT;

    kube_stream_stop(&f->end_stream);
    rg_error_set_exit(&cause, ETIMEDOUT, RG_EXIT_UNAVAILABLE, "the cluster does not answer");
    fail_end(f, &cause);
}

void kube_end(void *state)
{
    struct follow *f = state;
    const struct kube_request request = { .verb = KUBE_DELETE, .kind = "jobs",
                                          .name = f->us.o.submitted->id, .wait = true };
    struct rg_error cause = RG_ERROR_INIT;

    if (!rg_follower_end(&f->us, on_end_timeout))
        return;
    rg_timer_stop(&f->job.timer);
    kube_stream_stop(&f->job.stream);
    if (follow_start_stream(f, &f->end_stream, &request,
                     (struct kube_listener){ .on_end = on_end_answer }, &cause) < 0) {
        f->us.err = cause;
        rg_follower_finish(&f->us, -1);
    }
}

void kube_unfollow(void *state)
{
    struct follow *f = state;
    struct kube_stream *const streams[] = { &f->pods.stream, &f->logs.stream, &f->events.stream,
                                            &f->job.stream, &f->end_stream };

    f->us.done = false;
    rg_follower_finish(&f->us, RG_FOLLOW_LEFT);
    rg_follower_fini(&f->us);
    for (size_t i = 0; i < rg_array_len(streams); i++)
        kube_stream_stop(streams[i]);
    kube_log_fini(&f->log.lines);
    kube_memory_fini(&f->memory);
    free(f->hosts);
    free(f);
}

int kube_follow(const struct rg_follow_options *options, void **ret_state, struct rg_error *err)
{
    struct follow *f = calloc(1, sizeof(*f));

    if (!f || !(f->hosts = calloc((size_t) options->nhosts + 1, sizeof(*f->hosts)))) {
        free(f);
        return rg_error_memory(err);
    }
    f->us = (struct rg_follower){ .o = *options, .who = "the cluster", .close = close_all,
                                  .state = f };
    f->memory = (struct kube_memory){ .say = options->on_say, .arg = options->arg };
    f->place = kube_place_submitted(options->submitted, f->place_text);
    snprintf(f->selector, sizeof(f->selector), KUBE_JOB_PODS, options->submitted->id);
    f->log.on_over = decide;
    f->elastic = options->job && options->job->elastic.on;
    f->begun_ns = rg_now_ns();
    f->head.exit_code = -1;
    for (int i = 0; i < options->nhosts; i++)
        options->on_phase(options->arg, i, RG_PHASE_PENDING, "");
    if (options->job && !kube_local_queue(options->job))
        begin_start_timer(f);
    if (options->job) {
        rg_timer_start(&f->pods.timer, f->us.o.loop, FRESH_MS, 0, start_pods, f);
    } else {
        start_pods(f);
        rg_timer_start(&f->job.timer, f->us.o.loop, 0, 0, ask_job, f);
    }
    *ret_state = f;
    return 0;
}
