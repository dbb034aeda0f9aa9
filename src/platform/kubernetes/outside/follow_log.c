/* SPDX-License-Identifier: Apache-2.0 */
/* The head's log, as a job that is stayed with has it: read to its end, over all cuts. */
#include "base/time.h"
#include "platform/kubernetes/outside/followed.h"

#define SETTLE_MS 1000    /* between the end of a log and that of its pod */
#define HELD_MS 300       /* a line of the log that is held, for the next mark */

/* It is read no more, nor taken up again. */
void follow_stop_log(struct follow *f)
{
    rg_timer_stop(&f->logs.timer);
    kube_stream_stop(&f->logs.stream);
}

static void release_log(void *arg)
{
    struct follow *f = arg;

    kube_log_release(&f->log.lines, f->us.o.on_output, f->us.o.arg);
}

static void take_log(void *arg, const void *bytes, size_t nbytes)
{
    struct follow *f = arg;

    rg_follower_is_back(&f->us);
    f->logs.ncomplaints = 0;
    f->log.at_ns = rg_now_ns();
    f->log.lines.hides_news = f->us.o.on_running && !f->running;
    kube_log_take(&f->log.lines, bytes, nbytes, f->us.o.on_output, f->us.o.arg);
    if (rg_buf_nbytes(&f->log.lines.held) && !rg_timer_active(&f->log.held_timer))
        rg_timer_start(&f->log.held_timer, f->us.o.loop, HELD_MS, 0, release_log, f);
}

/* Of a long log the kubelet may have begun another file, and a reader who is late when the
 * container ends hears nothing of that: so it is read once more, until nothing more comes. */
static bool reads_on(struct follow *f)
{
    const struct rg_logmark *seen = &f->log.lines.seen;
    bool all = f->head.log_nbytes && seen->nbytes >= f->head.log_nbytes && !f->log.lines.resuming;
    bool more = seen->marked_nbytes || f->log.lines.resuming;

    more &= !all && !f->gone && seen->nbytes != f->log.read_nbytes;
    f->log.read_nbytes = seen->nbytes;
    if (more)
        follow_start_log(f);
    return more;
}

/* It seems to be read to its end; has the pod ended, too? */
static void settle_log(void *arg)
{
    struct follow *f = arg;

    if ((f->head.ended || f->gone) && !reads_on(f)) {
        f->log.over = true;
        f->log.on_over(f);
    } else if (!f->logs.stream.started) {
        follow_start_log(f);
    }
}

static void on_log_end(void *arg)
{
    struct follow *f = arg;
    bool well = f->logs.stream.refusal.why == KUBE_FINE && f->pods.stream.started;

    if (f->us.done)
        return;
    if (f->us.ending && (f->gone || !well)) {
        f->log.over = true;
        return;
    }
    if (well && f->head.ended && reads_on(f))
        return;
    /* A pod that is missing is gone, and its log with it. */
    if ((well && f->head.ended) || f->logs.stream.refusal.why == KUBE_MISSING) {
        f->log.over = true;
        f->log.on_over(f);
        return;
    }
    if (well)
        rg_timer_start(&f->logs.timer, f->us.o.loop, SETTLE_MS, 0, settle_log, f);
    else if (follow_may_retry(f, &f->logs))
        follow_try_again(&f->logs, f, follow_start_log);
}

void follow_start_log(void *arg)
{
    struct follow *f = arg;
    char since[64];

    f->logs.since_ns = rg_now_ns();
    kube_log_release(&f->log.lines, f->us.o.on_output, f->us.o.arg);
    kube_log_cut(&f->log.lines, since, sizeof(since));
    const struct kube_request request = { .verb = KUBE_LOG, .name = f->log.pod,
                                          .container = KUBE_CONTAINER,
                                          .since = *since ? since : NULL, .follow = true,
                                          .ntail = *since || f->log.lines.resuming ? 0
                                                                                   : f->us.o.nlast,
                                          .stamps = true };
    if (follow_start_stream(f, &f->logs.stream, &request,
                     (struct kube_listener){ .on_bytes = take_log, .on_end = on_log_end },
                     &f->us.err) < 0)
        rg_follower_finish(&f->us, -1);
}
