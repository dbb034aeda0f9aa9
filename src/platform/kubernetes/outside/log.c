/* SPDX-License-Identifier: Apache-2.0 */
/* A log that streams through the API server is cut now and then, and no line may be lost or come
 * twice for that. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "platform/kubernetes/outside/internal.h"

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

/* --- what is missing -------------------------------------------------------------------------- */

/* leap: since the line before it. */
static void hold(struct kube_log *log, int64_t leap_ns, const char *bytes, size_t nbytes)
{
    if (leap_ns > log->leap_ns) {
        log->leap_ns = leap_ns;
        log->leap_at = rg_buf_nbytes(&log->held);
    }
    rg_buf_put(&log->held, bytes, nbytes);
}

static void release(struct kube_log *log, size_t nbytes, kube_output_fn *on_output, void *arg)
{
    if (nbytes)
        on_output(arg, rg_buf_bytes(&log->held), nbytes);
    rg_buf_consume(&log->held, nbytes);
}

void kube_log_release(struct kube_log *log, kube_output_fn *on_output, void *arg)
{
    if (log->resuming)
        return;
    log->released |= rg_buf_nbytes(&log->held) > 0;
    release(log, rg_buf_nbytes(&log->held), on_output, arg);
    log->leap_at = 0;
    log->leap_ns = 0;
}

static void tell_missing(const char *where, uint64_t nbytes, uint64_t nlines,
                         kube_output_fn *on_output, void *arg)
{
    char text[256];
    int n = snprintf(text, sizeof(text), "reigen: %llu lines (%llu bytes) are missing %s: "
                     "Kubernetes keeps only a part of a long log\n", (unsigned long long) nlines,
                     (unsigned long long) nbytes, where);

    on_output(arg, text, (size_t) n);
}

/* It was read again: what has come since is the beginning of a file, and the mark says where that
 * is. What was told before is left out. */
static void resume(struct kube_log *log, uint64_t nbytes, uint64_t nlines,
                   kube_output_fn *on_output, void *arg)
{
    uint64_t front = nbytes > log->seen.nbytes ? nbytes - log->seen.nbytes : 0;
    uint64_t lines = nlines > log->seen.nlines ? nlines - log->seen.nlines : 0;
    uint64_t again = log->resume_nbytes > front ? log->resume_nbytes - front : 0;
    uint64_t lost = front > log->resume_nbytes ? front - log->resume_nbytes : 0;

    if (lost && lost == rg_buf_nbytes(&log->torn))
        on_output(arg, rg_buf_bytes(&log->torn), rg_buf_nbytes(&log->torn));
    else if (lost)
        tell_missing("here", lost,
                     lines > log->resume_nlines ? lines - log->resume_nlines : 0, on_output, arg);
    uint64_t held = rg_buf_nbytes(&log->held);
    rg_buf_consume(&log->held, again < held ? again : held);
    log->again_nbytes = again > held ? again - held : 0;
    log->resuming = false;
}

/* All before it are seen.nbytes by our own count, and nbytes by the head's. */
static void take_mark(struct kube_log *log, uint64_t nbytes, uint64_t nlines,
                      kube_output_fn *on_output, void *arg)
{
    bool first = !log->seen.marked_nbytes;
    uint64_t lost = nbytes > log->seen.nbytes ? nbytes - log->seen.nbytes : 0;
    uint64_t lines = nlines > log->seen.nlines ? nlines - log->seen.nlines : 0;
    char where[64] = "here";

    if (log->released || (first && !log->once))
        snprintf(where, sizeof(where), "among the last %llu lines above",
                 (unsigned long long) log->since_nlines);
    if (log->resuming) {
        resume(log, nbytes, nlines, on_output, arg);
    } else if (lost && !(first && log->middle)) {
        release(log, first ? 0 : log->leap_at, on_output, arg);
        tell_missing(where, lost, lines, on_output, arg);
    }
    kube_log_release(log, on_output, arg);
    log->seen = (struct rg_logmark){ nbytes, nlines, nbytes, false };
    log->since_nlines = 0;
    log->released = false;
}

/* A whole line without its stamp: whether it was a mark. */
static bool is_mark(struct kube_log *log, const char *line, size_t length,
                    kube_output_fn *on_output, void *arg)
{
    unsigned long long nbytes, nlines;
    char text[64] = "";

    if (length >= sizeof(text) || !rg_str_starts(memcpy(text, line, length), RG_LOGMARK) ||
        sscanf(text + strlen(RG_LOGMARK), "%20llu %20llu", &nbytes, &nlines) != 2)
        return false;
    take_mark(log, nbytes, nlines, on_output, arg);
    return true;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void tell(struct kube_log *log, int64_t leap_ns, const char *text, size_t nbytes,
                 kube_output_fn *on_output, void *arg)
{
    bool held = log->once || log->resuming || log->seen.marked_nbytes;
    bool news = !log->within && nbytes && *text == *RG_LOGMARK_NEWS;

    log->since_nlines += !log->within;
    rg_mark_count(&log->seen, text, nbytes);
    if (log->again_nbytes) {
        log->again_nbytes -= nbytes < log->again_nbytes ? nbytes : log->again_nbytes;
        return;
    }
    if (news && log->hides_news && !log->resuming)
        return;
    if (held)
        hold(log, leap_ns, text + (news && !log->resuming), nbytes - (news && !log->resuming));
    else
        on_output(arg, text + news, nbytes - news);
    if (!log->once && rg_buf_nbytes(&log->held) > LINE_MAX_NBYTES)
        kube_log_release(log, on_output, arg);
}

/* The part, before it is forgotten: a kubelet begins a new file in the middle of a line, too, and
 * who follows a log to its end may see the old file alone. */
static void keep_torn(struct kube_log *log)
{
    const char *line = (const char *) rg_buf_bytes(&log->part);
    size_t at = 0, nbytes = rg_buf_nbytes(&log->part);
    int64_t ns;

    rg_buf_clear(&log->torn);
    if (nbytes && !log->within && !log->skipping && read_stamp(line, nbytes, &ns, &at))
        rg_buf_put(&log->torn, line + at, nbytes - at);
}

/* A line, or the next piece of one. */
static void take_line(struct kube_log *log, const char *line, size_t nbytes, bool whole,
                      kube_output_fn *on_output, void *arg)
{
    size_t at = 0;
    int64_t ns = log->newest_ns, before = ns;

    if (!log->within && !log->skipping)
        log->skipping = read_stamp(line, nbytes, &ns, &at) && !is_new(log, ns) && !log->resuming;
    if (!log->skipping && nbytes > at &&
        (log->within || !whole || !is_mark(log, line + at, nbytes - at, on_output, arg)))
        tell(log, ns - before, line + at, nbytes - at, on_output, arg);
    log->within = !whole && !log->skipping;
    log->skipping = !whole && log->skipping;
}

void kube_log_take(struct kube_log *log, const char *bytes, size_t nbytes,
                   kube_output_fn *on_output, void *arg)
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

/* Of a log with marks all that there is is read again: their places are surer than stamps. */
static void begin_again(struct kube_log *log)
{
    if (!log->resuming && log->seen.marked_nbytes) {
        keep_torn(log);
        log->resume_nbytes = log->seen.nbytes + log->again_nbytes;
        log->resume_nlines = log->seen.nlines;
        log->resuming = true;
        log->again_nbytes = 0;
    }
    if (log->resuming) {
        rg_buf_clear(&log->held);
        log->seen = (struct rg_logmark){ .nbytes = 0 };
    }
}

void kube_log_cut(struct kube_log *log, char *ret_since, size_t nbytes)
{
    time_t since = (time_t) (log->newest_ns / NS_PER_S) - 1;
    char text[32] = "";
    struct tm tm;

    begin_again(log);
    rg_buf_clear(&log->part);
    log->within = log->skipping = false;
    log->skip = log->resuming ? 0 : log->now + log->before;
    if (log->newest_ns && !log->resuming && gmtime_r(&since, &tm))
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(ret_since, nbytes, "%s", text);
}

void kube_log_end(struct kube_log *log, kube_output_fn *on_output, void *arg)
{
    if (rg_buf_nbytes(&log->part))
        take_line(log, (const char *) rg_buf_bytes(&log->part), rg_buf_nbytes(&log->part), true,
                  on_output, arg);
    rg_buf_clear(&log->part);
    if (log->resuming)
        rg_buf_clear(&log->held); /* nobody knows where these belong */
    kube_log_release(log, on_output, arg);
}

void kube_log_close(struct kube_log *log, uint64_t nbytes, uint64_t nlines,
                    kube_output_fn *on_output, void *arg)
{
    bool known = log->seen.marked_nbytes && !log->resuming;

    if (log->resuming && log->resume_nbytes) {
        log->seen.nbytes = log->resume_nbytes;
        log->seen.nlines = log->resume_nlines;
        known = true;
    }
    kube_log_end(log, on_output, arg);
    if (known && nbytes > log->seen.nbytes)
        tell_missing("at the end", nbytes - log->seen.nbytes,
                     nlines > log->seen.nlines ? nlines - log->seen.nlines : 0, on_output, arg);
}

void kube_log_fini(struct kube_log *log)
{
    rg_buf_fini(&log->part);
    rg_buf_fini(&log->held);
    rg_buf_fini(&log->torn);
    *log = (struct kube_log){ .newest_ns = 0 };
}
