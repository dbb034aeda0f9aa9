/* SPDX-License-Identifier: Apache-2.0 */
/* A log that streams through the API server is cut now and then, and no line may be lost or come
 * twice for that. And reigen logs, for who was not there, or looks on again. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/time.h"
#include "launch/drivers/kubernetes/kubernetes_internal.h"
#include "launch/host/showlog.h"

#define LOG_MS 60000                /* a log that is not followed */
#define ASK_MS 10000                /* how many pods there are */
#define LINE_MAX_NBYTES (1u << 20) /* what is longer is told in pieces */
#define NS_PER_S ((int64_t) RG_NS_PER_S)

/* "2026-01-31T23:59:59.123456789Z text", or with +02:00: the stamp, and where the text begins. */
static bool read_stamp(const char *line, size_t nbytes, int64_t *ret_ns, size_t *ret_at)
{
    const char *blank = memchr(line, ' ', nbytes < 64 ? nbytes : 64);
    char text[64] = "", sign;
    struct tm tm = { 0 };
    int hours = 0, minutes = 0, used = 0;
    int64_t ns = 0;

    if (!blank)
        return false;
    memcpy(text, line, (size_t) (blank - line));
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &used) != 6)
        return false;
    const char *p = text + used;
    int64_t scale = NS_PER_S / 10;
    for (p += *p == '.'; *p >= '0' && *p <= '9'; p++, scale /= 10)
        ns += (*p - '0') * scale;
    if (*p != 'Z' && (sscanf(p, "%c%2d:%2d", &sign, &hours, &minutes) != 3 ||
                      (sign != '+' && sign != '-')))
        return false;
    int64_t offset_s = (hours * 60 + minutes) * 60;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *ret_ns = ((int64_t) timegm(&tm) - (*p == '-' ? -offset_s : offset_s)) * NS_PER_S + ns;
    *ret_at = (size_t) (blank - line) + 1;
    return true;
}

/* Whether it is to be told. Those of a second that is long over are not read again. */
static bool is_new(struct kube_log *log, int64_t ns)
{
    int64_t second = ns / NS_PER_S, newest = log->newest_ns / NS_PER_S;

    if (log->skip && ns <= log->newest_ns) {
        log->skip--;
        return false;
    }
    log->skip = 0;
    if (second > newest) {
        log->before = second == newest + 1 ? log->now : 0;
        log->now = 0;
    }
    if (second >= newest)
        log->now++;
    else if (second == newest - 1)
        log->before++;
    if (ns > log->newest_ns)
        log->newest_ns = ns;
    return true;
}

/* A line, or the next piece of one. */
static void take_line(struct kube_log *log, const char *line, size_t nbytes, bool whole,
                      void (*on_output)(void *arg, const void *bytes, size_t nbytes), void *arg)
{
    size_t at = 0;
    int64_t ns;

    if (!log->within && !log->skipping)
        log->skipping = read_stamp(line, nbytes, &ns, &at) && !is_new(log, ns);
    if (!log->skipping && nbytes > at)
        on_output(arg, line + at, nbytes - at);
    log->within = !whole && !log->skipping;
    log->skipping = !whole && log->skipping;
}

void kube_log_take(struct kube_log *log, const char *bytes, size_t nbytes,
                   void (*on_output)(void *arg, const void *bytes, size_t nbytes), void *arg)
{
    const uint8_t *end;

    rg_buf_put(&log->part, bytes, nbytes);
    while (rg_buf_nbytes(&log->part) &&
           (end = memchr(rg_buf_bytes(&log->part), '\n', rg_buf_nbytes(&log->part)))) {
        size_t length = (size_t) (end - rg_buf_bytes(&log->part)) + 1;
        take_line(log, (const char *) rg_buf_bytes(&log->part), length, true, on_output, arg);
        rg_buf_consume(&log->part, length);
    }
    if (rg_buf_nbytes(&log->part) > LINE_MAX_NBYTES) {
        take_line(log, (const char *) rg_buf_bytes(&log->part), rg_buf_nbytes(&log->part), false,
                  on_output, arg);
        rg_buf_clear(&log->part);
    }
}

void kube_log_cut(struct kube_log *log, char *ret_since, size_t nbytes)
{
    time_t since = (time_t) (log->newest_ns / NS_PER_S) - 1;
    char text[32] = "";
    struct tm tm;

    rg_buf_clear(&log->part);
    log->within = log->skipping = false;
    log->skip = log->now + log->before;
    if (log->newest_ns && gmtime_r(&since, &tm))
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(ret_since, nbytes, "%s", text);
}

void kube_log_end(struct kube_log *log,
                  void (*on_output)(void *arg, const void *bytes, size_t nbytes), void *arg)
{
    if (rg_buf_nbytes(&log->part))
        take_line(log, (const char *) rg_buf_bytes(&log->part), rg_buf_nbytes(&log->part), true,
                  on_output, arg);
    rg_buf_clear(&log->part);
}

void kube_log_fini(struct kube_log *log)
{
    rg_buf_fini(&log->part);
    *log = (struct kube_log){ .newest_ns = 0 };
}

/* --- reigen logs ------------------------------------------------------------------------------ */

/* Of one pod, as a List has it. */
static int show_pod(const struct kube_place *place, const json_t *pod, int fd,
                    struct rg_error *err)
{
    rg_autobuf struct rg_buf log = RG_BUF_INIT;
    const struct kube_request request = { .verb = KUBE_LOG, .container = KUBE_CONTAINER,
                                          .name = kube_text(pod, "metadata.name") };
    int r = kube_ask(place, &request, LOG_MS, &log, err);

    if (r < 0 || !rg_buf_nbytes(&log))
        return r;
    r = rg_write_all(fd, rg_buf_bytes(&log), rg_buf_nbytes(&log));
    return r == 0 ? 0 : rg_error_set_exit(err, -r, RG_EXIT_OUTPUT_LOST, "standard output was lost");
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
    const json_t *pod;
    size_t i;

    if (!selector)
        return rg_error_memory(err);
    int r = kube_get(&place, &request, LOG_MS, &pods, err);
    if (r == 0 && json_array_size(json_object_get(pods, "items")) == 0)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "it has no pods there: it waits, or was removed after its end");
    json_array_foreach(json_object_get(pods, "items"), i, pod) {
        r = r < 0 ? r : show_pod(&place, pod, fd, err);
    }
    return r;
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
