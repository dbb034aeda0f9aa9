/* SPDX-License-Identifier: Apache-2.0 */
/* reigen logs, for who was not there, or looks on again. */
#include <string.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "launch/host/showlog.h"
#include "platform/kubernetes/outside/internal.h"

#define LOG_MS 60000 /* a log that is not followed */
#define ASK_MS 10000 /* how many pods there are */

struct shown {
    int fd;
    int r; /* 0, or why nothing more can be written */
};

static void show_bytes(void *arg, const void *bytes, size_t nbytes)
{
    struct shown *shown = arg;

    if (shown->r == 0)
        shown->r = rg_write_all(shown->fd, bytes, nbytes);
}

/* Of one pod, as a List has it. */
static int show_pod(const struct kube_place *place, const json_t *pod, int fd,
                    struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct kube_log log = { .once = true };
    struct shown shown = { .fd = fd };
    const struct kube_request request = { .verb = KUBE_LOG, .container = KUBE_CONTAINER,
                                          .name = kube_text(pod, "metadata.name"),
                                          .stamps = true };
    int r = kube_ask(place, &request, LOG_MS, &text, err);

    if (r < 0 || !rg_buf_nbytes(&text))
        return r;
    kube_log_take(&log, (const char *) rg_buf_bytes(&text), rg_buf_nbytes(&text), show_bytes,
                  &shown);
    kube_log_end(&log, show_bytes, &shown);
    kube_log_fini(&log);
    return shown.r == 0 ? 0 : rg_error_set_exit(err, -shown.r, RG_EXIT_OUTPUT_LOST,
                                                "standard output was lost");
}

/* For qsort: the older one first. A head that was replaced has left its pod. */
static int by_age(const void *a, const void *b)
{
    const json_t *one = *(json_t *const *) a, *other = *(json_t *const *) b;
    int r = strcmp(kube_text(one, "metadata.creationTimestamp"),
                   kube_text(other, "metadata.creationTimestamp"));

    return r ? r : strcmp(kube_text(one, "metadata.name"), kube_text(other, "metadata.name"));
}

/* A pod that has no log yet, or none any more, takes nothing from the others. */
static int show_pods(const struct kube_place *place, const json_t *items, int fd,
                     struct rg_error *err)
{
    size_t n = json_array_size(items), nshown = 0;
    rg_autofree json_t **pods = calloc(n, sizeof(json_t *));
    struct rg_error first = RG_ERROR_INIT;

    if (!pods)
        return rg_error_memory(err);
    for (size_t i = 0; i < n; i++)
        pods[i] = json_array_get(items, i);
    qsort(pods, n, sizeof(json_t *), by_age);
    for (size_t i = 0; i < n && first.exit_code != RG_EXIT_OUTPUT_LOST; i++)
        nshown += show_pod(place, pods[i], fd, first.errnum ? NULL : &first) == 0;
    if (!first.errnum || (nshown && first.exit_code != RG_EXIT_OUTPUT_LOST))
        return 0;
    *err = first;
    return -first.errnum;
}

static int show_all(const struct rg_submitted_job *job, int fd, struct rg_error *err)
{
    char text[KUBE_TEXT_MAX];
    struct kube_place place = kube_place_submitted(job, text);
    rg_autofree char *selector = rg_strf(KUBE_JOB_PODS
                                         ",batch.kubernetes.io/job-completion-index=0", job->id);
    const struct kube_request request = { .verb = KUBE_GET, .kind = "pods",
                                          .selector = selector };
    KUBE_AUTO_JSON json_t *pods = NULL;

    if (!selector)
        return rg_error_memory(err);
    int r = kube_get(&place, &request, LOG_MS, &pods, err);
    if (r == 0 && json_array_size(json_object_get(pods, "items")) == 0)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "it has no pods there: it waits, or was removed after its end");
    return r < 0 ? r : show_pods(&place, json_object_get(pods, "items"), fd, err);
}

/* How many pods the job has, so that others than the head's are looked at; 0: nobody knows. */
static int count_pods(const struct rg_submitted_job *job)
{
    char text[KUBE_TEXT_MAX];
    struct kube_place place = kube_place_submitted(job, text);
    const struct kube_request request = { .verb = KUBE_GET, .kind = "jobs", .name = job->id,
                                          .ms = ASK_MS };
    KUBE_AUTO_JSON json_t *object = NULL;

    kube_get(&place, &request, ASK_MS, &object, NULL);
    json_int_t n = json_integer_value(kube_at(object, "spec.completions"));
    return n > 0 && n <= RG_JOB_HOSTS_MAX ? (int) n : 0;
}

int kube_logs(const struct rg_submitted_job *job, bool follow, int fd,
              void (*on_say)(void *arg, const char *text), struct rg_error *err)
{
    const struct rg_show_log show = { .follow = kube_follow, .unfollow = kube_unfollow,
                                      .nhosts = follow ? count_pods(job) : 0, .fd = fd,
                                      .on_say = on_say };

    return follow ? rg_show_log(&show, job, err) : show_all(job, fd, err);
}
