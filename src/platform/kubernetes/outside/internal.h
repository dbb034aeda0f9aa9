/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the Kubernetes driver share on the user's computer (user.h). Nothing outside
 * src/platform/kubernetes includes it, but tests. What is said to the cluster is in server/.
 *
 *   options.c   the options, and what a job cannot have on Kubernetes
 *   objects.c   the Job and what it owns, as JSON trees
 *   archive.c   the archive of our Python packages, packed once
 *   template.c  the pod, and the user's template that is merged with it
 *   gang.c      pod groups: all pods start, or none
 *   pod.c       what a pod's JSON says, in our words; whether it helps to wait
 *   hopeless.c  the reasons for which it does not
 *   verdict.c   what Kubernetes knows of a job's end, and its head does not
 *   log.c       the head's log, line by line, once each; reigen logs
 *   queue.c     submit, status, logs, cancel
 *   beside.c    a program in the head's pod
 *   follow.c    a job that is stayed with until it has ended
 *   outlook.c   what would become of a job, which nobody has made yet
 *   fit.c       how many of its pods the nodes would take (fit.h)
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_PLATFORM_KUBERNETES_OUTSIDE_INTERNAL_H
#define RG_PLATFORM_KUBERNETES_OUTSIDE_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "launch/host/logmark.h"
#include "base/loop.h"
#include "base/str.h"
#include "platform/kubernetes/inside/pods.h"
#include "platform/kubernetes/server/transport.h"
#include "platform/kubernetes/outside/user.h"

#define KUBE_TEXT_MAX 512
#define KUBE_TTL_S 3600        /* how long a Job that has ended is kept */
#define KUBE_FAILURES (RG_POD_RESTARTS + 1) /* of the pods of one index, until the Job has failed */
#define KUBE_CONTAINER "reigen"
#define KUBE_AGENT_FOLDER "/reigen/agent" /* where that is in the container */
#define KUBE_AGENT_PROGRAM KUBE_AGENT_FOLDER "/reigen-agent"
#define KUBE_AGENT_VOLUME "reigen-agent" /* has reigen-agent in it */
#define KUBE_NO_IMAGE_VOLUMES "the cluster has no image volumes; leave out --agent-image"
#define KUBE_JOB_PODS "batch.kubernetes.io/job-name=%s" /* selects the pods of a Job */

/* --- options.c -------------------------------------------------------------------------------- */

/* The value of an option of this driver, or NULL. */
static inline const char *kube_option(const struct rg_job *job, const char *name)
{
    return rg_env_get(&job->settings, name);
}

/* At which the pods call the head. */
static inline int kube_head_port(const struct rg_job *job)
{
    return job->ports.first ? job->ports.first : RG_POD_PORT_DEFAULT;
}

struct kube_place kube_place_of(const struct rg_job *job);
/* Whether objects other than namespaces and Services can have this name. */
bool kube_is_object_name(const char *name);
/* What --toleration says, as an object: KEY[=VALUE][:EFFECT] or "*". NULL with err. */
json_t *kube_toleration(const char *what, const char *value, struct rg_error *err);

/* --- template.c ------------------------------------------------------------------------------- */

/* The pod template of the Job: what --pod-template's file says, with ours put over it. job has its
 * name and image. NULL with err, exit code 2. */
json_t *kube_pod_template(const struct rg_job *job, int nbundle, struct rg_error *err);
/* The same with a template that is read already; NULL: none. template is left as it is. nbundle: as
 * kube_count_bundle says. */
json_t *kube_pod_make(const struct rg_job *job, const json_t *template, int nbundle,
                      struct rg_error *err);
/* job->notice_ms of a job in pods of that template; 0: they get no time. 0 or -EINVAL with err. */
int kube_notice_ms(const struct rg_job *job, uint64_t *ret_ms, struct rg_error *err);
/* A YAML or JSON file as a tree. what names the option. NULL with err, exit code 2. */
json_t *kube_read_yaml(const char *what, const char *path, struct rg_error *err);

/* --- objects.c -------------------------------------------------------------------------------- */

/* What a job consists of. Borrowed. */
struct kube_parts {
    const struct rg_job *job;   /* as the user asked for it, with its name */
    const char *job_id;         /* the plan's */
    const void *agent, *plan;   /* files for the ConfigMap; agent NULL: it is in an image */
    size_t agent_nbytes, plan_nbytes;
    const uint8_t *bundle;      /* the archive of our Python packages; NULL: none */
    size_t bundle_nbytes;
    int npods;
    const char *uid;            /* of the Job, which owns the others; NULL: nobody owns them */
    const char *pod_groups;     /* what kube_gang_find has found; NULL: no pod group is made */
};

/* How many ConfigMaps of their own the packages need. */
int kube_count_bundle(const struct kube_parts *parts);
/* The Job; suspended: it is not to begin yet. NULL with err. */
json_t *kube_job_object(const struct kube_parts *parts, bool suspended, struct rg_error *err);
/* The others, as an array: Service, ConfigMaps, and the pod group of --gang. NULL: no memory. */
json_t *kube_owned_objects(const struct kube_parts *parts);
/* The Secret, with a new key in it and --share-env's values. NULL with err. */
json_t *kube_secret_object(const struct kube_parts *parts, struct rg_error *err);
/* A List of these, which it takes. */
json_t *kube_list(json_t *take_items);
/* What the head in pod 0 is to read: the plan without what the launcher has cared for, namely the
 * container, and with the caller's values of --env; and the archive of our Python packages that
 * that plan speaks of, or nothing. 0 or -errno with err. */
int kube_encode_plan(const struct rg_planned *planned, struct rg_buf *buf, struct rg_buf *archive,
                     struct rg_error *err);

/* --- archive.c -------------------------------------------------------------------------------- */

/* The archive that place announces, as one LZ4 block, appended to packed. It is kept in
 * $XDG_CACHE_HOME/reigen, or ~/.cache/reigen, for the next job; where none can be, each job packs
 * anew. 0 or -errno with err. Blocks for files. */
int kube_pack_bundle(const struct rg_container_place *place, struct rg_buf *packed,
                     struct rg_error *err);

/* --- gang.c ----------------------------------------------------------------------------------- */

/* What --gang may say, with blanks between. */
#define KUBE_GANGS "kubernetes volcano scheduler-plugins"

/* The API version of the pod groups that --gang asks for, "scheduling.volcano.sh/v1beta1"; NULL
 * without --gang. Those of Kubernetes itself are asked for. 0, or -errno with err; -EOPNOTSUPP: the
 * cluster has none. */
int kube_gang_find(const struct kube_place *place, const struct rg_job *job,
                   const char **ret_version, struct rg_error *err);
/* The version that is written down where no cluster answers. */
const char *kube_gang_default(const struct rg_job *job);
/* The spec of the job's pod group. NULL: no memory. */
json_t *kube_gang_spec(const struct kube_parts *parts);
/* Put into a pod, metadata and spec, that it belongs to the job's pod group, if there is one. */
void kube_gang_join(const struct rg_job *job, json_t *metadata, json_t *spec);
/* The local queue of Kueue that is to start the Job, which sleeps until then; NULL: none. With
 * --gang volcano, --queue means one of Volcano's, and its scheduler waits. */
const char *kube_local_queue(const struct rg_job *job);

/* --- hopeless.c ------------------------------------------------------------------------------- */

/* Why a pod will not start, however long it is waited for. */
struct kube_hopeless {
    const char *kind;   /* the same pointer for the same kind; borrowed for ever */
    uint64_t after_ms;  /* for how long the reason is to stand before that is believed */
    int exit_code;
    const char *remedy; /* borrowed for ever */
};

/* Whether a pod's reason will not go away by itself. npods: so many pods like it are wanted at
 * once. */
bool kube_is_hopeless(const char *reason, int npods, struct kube_hopeless *ret_cause);

/* --- pod.c ------------------------------------------------------------------------------------ */

/* What is known of one pod. */
struct kube_pod {
    char name[256], node[256];
    char created[32];          /* "2026-01-31T23:59:59Z": the later of two took the other's place */
    int index;                 /* its place in the job; -1: it is none of a job's */
    enum rg_host_phase phase;
    char reason[KUBE_TEXT_MAX]; /* of its phase, as a person reads it; or "" */
    bool silent;               /* its node does not answer */
    bool running;              /* its container does, or did */
    bool ended;
    bool deleted;              /* it is being deleted */
    int exit_code;             /* of the container, or of the verdict; -1: it had none. A container
                                  that could not be started has 125 */
    char why[KUBE_TEXT_MAX];   /* what Kubernetes says of its end, "" where that is nothing but an
                                  exit code */
    int why_code;              /* the exit code for that: 75, 76, or 0 */
    bool killed;               /* its container was, as a whole, and not as Kubernetes wanted: */
    bool no_memory;            /* for its memory; else why_code is 76 */
    bool final;                /* it has said that the job is not to be tried again */
    bool fault;                /* why is what our program says, that could not do its part */
    uint64_t log_nbytes, log_nlines; /* of the head: all that it has written; 0: it did not say */
    int nlost;                 /* how often pods of its index were lost before it */
    char health[KUBE_TEXT_MAX]; /* of its devices that are not well, or "" */
};

/* Read a pod's JSON. */
void kube_pod_read(const json_t *pod, struct kube_pod *ret_pod);
/* Whether a pod's JSON was to have the agent from an image, and the cluster knows no such volumes:
 * then the API server has left out this volume, without a word. */
bool kube_pod_lacks_agent(const json_t *pod);
/* Whether it has ended in a way for which the Job starts all pods again. */
bool kube_pod_is_retried(const struct kube_pod *pod);
/* Whether pod is news of a pod in whose place there is another one, now, already: what is left of
 * it is told late, and stamps have whole seconds. */
bool kube_pod_is_past(const struct kube_pod *now, const struct kube_pod *pod);
/* Put into pod what is known of its node from old, news of it before: a node that was away, and is
 * back, says of what it ran no more than that it was killed. */
void kube_pod_remember_silence(const struct kube_pod *old, struct kube_pod *pod);
/* What has become of a Job, by its conditions. */
enum kube_job_state { KUBE_JOB_SUSPENDED, KUBE_JOB_ACTIVE, KUBE_JOB_COMPLETE, KUBE_JOB_FAILED };
enum kube_job_state kube_job_read(const json_t *job, char *ret_reason, size_t nbytes);
/* An event of Kubernetes', as far as it says why a pod or the Job does not come on: the name of the
 * pod, or that of the Job, and the reason. phase: what the pod is doing. False: it says nothing. */
bool kube_event_read(const json_t *event, const char **ret_name, enum rg_host_phase *ret_phase,
                     char *ret_reason, size_t nbytes);

/* A pod of the job, and what follows from its reason. */
struct kube_host {
    struct kube_pod pod;
    bool told_lost;             /* the user has heard that it is */
    bool by_event;              /* an event has said its reason, and a newer one may say better */
    const char *hopeless;       /* the kind of reason that does not go away, and */
    uint64_t hopeless_ns;       /* since when there is one */
};

/* Another pod than the head's that was the first to fail, in a way that the head cannot know of;
 * borrowed, or NULL. */
const struct kube_pod *kube_host_find_culprit(const struct kube_host *hosts, int nhosts);
/* Whether it takes part, or has done its part: what ends so that it is replaced does not. */
bool kube_host_is_up(const struct kube_host *host);
/* Why pods of the job of this name are not up, each reason once, appended. */
void kube_host_put_reasons(const struct kube_host *hosts, int nhosts, const char *name,
                           struct rg_buf *text);
/* Whether this pod, one of npods, is to be given up; ret_wait is set where it may be, soon.
 * ret_cause: why. */
bool kube_host_is_given_up(struct kube_host *host, int npods, bool *ret_wait,
                           struct kube_hopeless *ret_cause);

/* --- verdict.c: pods that are lost while their job goes on ------------------------------------ */

/* Whether it has ended, and another one takes its place where the job goes on. */
bool kube_pod_is_lost(const struct kube_pod *pod);
/* Say which pods are lost that nothing was said of, why, and how long Kubernetes waits before it
 * makes others. Returns that for all that are lost now, in ms. */
uint64_t kube_host_say_lost(struct kube_host *hosts, int nhosts,
                            void (*say)(void *arg, const char *text), void *arg);

/* --- verdict.c -------------------------------------------------------------------------------- */

/* What Kubernetes says of a pod's end, into err, which has no exit code then. */
void kube_pod_explain(const struct kube_pod *pod, struct rg_error *err);
/* What has ended a Job that has failed, into err, and the exit code for that; -1: nobody knows it.
 * culprit: the pod that it was, NULL: none is known; reason: the Job's. */
int kube_job_explain(const struct kube_pod *head, const struct kube_pod *culprit,
                     const char *reason, struct rg_error *err);
/* Say that pod has taken the place of old, the head's, and for which pod's sake, with a why; NULL:
 * nobody knows. */
void kube_pod_say_again(const struct kube_pod *pod, const struct kube_pod *old,
                        const struct kube_pod *culprit,
                        void (*say)(void *arg, const char *text), void *arg);
/* Say which devices of a job that has failed are not well. */
void kube_host_say_health(const struct kube_host *hosts, int nhosts,
                          void (*say)(void *arg, const char *text), void *arg);

/* A pod that has used more memory than it may would do so again, and its Job cannot know. */
struct kube_memory {
    void (*say)(void *arg, const char *text);
    void *arg;
    struct kube_stream stream;
    json_t *patch;       /* what that changes */
    struct kube_pod pod; /* no name: there was none */
};

/* See to it that the Job of this name is not tried again for the sake of pod, once; place and name
 * must last. Where that is refused, say so. */
void kube_memory_give_up(struct kube_memory *memory, struct rg_loop *loop,
                         const struct kube_place *place, const char *name,
                         const struct kube_pod *pod);
void kube_memory_fini(struct kube_memory *memory);

/* --- log.c ------------------------------------------------------------------------------------ */

/* A log with time stamps, which is read again after each cut, from a second on: kubelets know
 * whole ones. A line's place in the log does not change, so as many as were told are left out.
 * The head's marks (launch/host/logmark.h) are left out, too; they tell what is missing, as
 * kubelets rotate logs, and do not wait for their readers. Once there are marks, lines are held
 * until the next one, so that what is missing can be told in its place, which is where time has
 * made its greatest leap. A cut log with marks is read from the beginning of what is left, and
 * their places say what was told before, as stamps go back where a file begins.
 * Zeroed at first. */
struct kube_log {
    bool middle;          /* it does not begin at its beginning, as nobody wants it all */
    bool once;            /* it is read once and not followed: all is held until the first mark */
    bool hides_news;      /* those of the head are told to nobody */
    struct rg_buf part;   /* a line whose end has not come */
    int64_t newest_ns;    /* the newest stamp of a line that was told, since 1970; 0: none was */
    size_t now, before;   /* how many were told of the newest second, and of the one before it */
    size_t skip;          /* how many of these are to come again */
    bool within, skipping; /* the part's beginning was told, or left out */
    bool resuming;        /* it is read again, and the next mark says where that begins */
    uint64_t resume_nbytes, resume_nlines; /* what was told before */
    uint64_t again_nbytes; /* that come again, after that mark */
    struct rg_buf torn;   /* what the part was at a cut, without its stamp: its end may have been
                           * written to the next file */
    struct rg_logmark seen; /* where in it we are, by the newest mark and what has come since */
    struct rg_buf held;
    size_t leap_at;        /* in held: the line that came the longest time after the last one */
    int64_t leap_ns;
    uint64_t since_nlines; /* the newest mark; */
    bool released;         /* and some of these are not held any more */
};

typedef void kube_output_fn(void *arg, const void *bytes, size_t nbytes);

/* Take bytes of it, and tell of each line, with its end, that was not told before, and of what is
 * missing. */
void kube_log_take(struct kube_log *log, const char *bytes, size_t nbytes,
                   kube_output_fn *on_output, void *arg);
/* Nothing has come for a while: tell what is held. */
void kube_log_release(struct kube_log *log, kube_output_fn *on_output, void *arg);
/* It was cut, and is to be read again: from when on, "2026-01-31T23:59:59Z", or "" for all. */
void kube_log_cut(struct kube_log *log, char *ret_since, size_t nbytes);
/* Tell what is left, when no more will come, and what is missing of all that was written; 0: that
 * is not known. */
void kube_log_close(struct kube_log *log, uint64_t nbytes, uint64_t nlines,
                    kube_output_fn *on_output, void *arg);
/* The same where that is not known. */
void kube_log_end(struct kube_log *log, kube_output_fn *on_output, void *arg);
void kube_log_fini(struct kube_log *log);

/* --- queue.c ---------------------------------------------------------------------------------- */

/* The place of a submitted job; text, of KUBE_TEXT_MAX bytes, holds it. */
struct kube_place kube_place_submitted(const struct rg_submitted_job *job, char *text);

/* --- outlook.c -------------------------------------------------------------------------------- */

/* What the cluster would make of the job. Nothing is made. 0, or -errno with err: nobody could be
 * asked. */
int kube_look_ahead(const struct kube_parts *parts, struct rg_outlook *outlook,
                    struct rg_error *err);

#endif
