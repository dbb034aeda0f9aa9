/* SPDX-License-Identifier: Apache-2.0 */
/* People are told little while all is well: that is what --verbose is for. */
#include "head/show/presenter.h"

#include <stdarg.h>
#include <unistd.h>

#include "base/say.h"
#include "head/show/verdict.h"

void rg_presenter_say(struct rg_presenter *p, const char *fmt, ...)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    va_list args;

    va_start(args, fmt);
    rg_shown_vprintf(&text, fmt, args);
    va_end(args);
    rg_status_wipe(&p->status);
    rg_output_say(p->output, rg_buf_text(&text));
}

/* Who reads the log elsewhere may know that already, and better. */
static void say_status(void *arg, const char *text)
{
    struct rg_presenter *p = arg;

    if (p->log)
        rg_output_say(p->output, RG_LOGMARK_NEWS);
    (p->status.tty ? rg_output_status : rg_output_say)(p->output, text);
}

static int starting(struct rg_presenter *p)
{
    bool tty = isatty(p->status_fd);
    int rc = rg_status_start(&p->status, p->loop, &p->planned->plan, tty, say_status, p);

    p->status.fd = p->status_fd;
    if (rc == 0 && p->planned->quiet)
        rg_status_stop(&p->status);
    return rc;
}

static void phase(struct rg_presenter *p, int host, enum rg_host_phase phase, const char *reason)
{
    rg_status_phase(&p->status, host, phase, reason);
    if (p->planned->job.verbose > 1)
        rg_presenter_say(p, "reigen: %s: %s%s%s\n", p->planned->plan.hosts[host].name,
                         rg_phase_name(phase), reason && *reason ? ": " : "",
                         reason ? reason : "");
}

static void running(struct rg_presenter *p)
{
    const struct rg_plan *plan = &p->planned->plan;

    rg_status_stop(&p->status);
    if (p->planned->job.verbose && plan->engine)
        rg_presenter_say(p, "reigen: %s started on %s, for %d rank%s\n", plan->engine,
                         plan->hosts[0].name, plan->np, plan->np == 1 ? "" : "s");
    else if (p->planned->job.verbose)
        rg_presenter_say(p, "reigen: %d rank%s started\n", plan->nranks,
                         plan->nranks == 1 ? "" : "s");
}

static void epoch(struct rg_presenter *p, uint32_t epoch, int size, const int *rank_of)
{
    (void) rank_of;
    if ((epoch > 1 && !p->planned->quiet) || p->planned->job.verbose)
        rg_presenter_say(p, "reigen: epoch %u: %d rank%s\n", epoch, size, size == 1 ? "" : "s");
}

static void rank_started(struct rg_presenter *p, int rank, const char *host, int pid,
                         const char *cpus)
{
    (void) cpus;
    if (p->planned->job.verbose > 1)
        rg_presenter_say(p, "reigen: rank %d is process %d on %s\n", rank, pid, host);
}

static void rank_ended(struct rg_presenter *p, const struct rg_rank_end *end)
{
    rg_autobuf struct rg_buf how = RG_BUF_INIT;

    if (p->planned->job.verbose < 2)
        return;
    rg_rank_end_print(end, &how);
    rg_presenter_say(p, "reigen: rank %d on %s ended: %s\n", end->rank, end->host,
                     rg_buf_text(&how));
}

static void note(struct rg_presenter *p, int rank, const char *text)
{
    rg_autobuf struct rg_buf lines = RG_BUF_INIT;

    if (p->planned->quiet)
        return;
    rg_buf_printf(&lines, "reigen: ");
    if (rank >= 0)
        rg_buf_printf(&lines, "rank %d: ", rank);
    rg_verdict_indent(text, &lines);
    rg_buf_printf(&lines, "\n");
    rg_status_wipe(&p->status);
    rg_output_say(p->output, rg_buf_text(&lines));
}

#ifndef RG_AGENT
static void chaos(struct rg_presenter *p, const struct rg_chaos_event *event, int rank,
                  const char *host)
{
    rg_autobuf struct rg_buf words = RG_BUF_INIT;

    rg_buf_printf(&words, "chaos: ");
    rg_chaos_describe(event, rank, host, &words);
    note(p, -1, rg_buf_text(&words));
}
#endif

/* The verdict is read last, behind all output: the head says it. */
static void ended(struct rg_presenter *p, const struct rg_verdict *verdict, int again)
{
    (void) p, (void) verdict, (void) again;
}

const struct rg_presenter_ops rg_presenter_plain = {
    .starting = starting,
    .phase = phase,
    .running = running,
    .epoch = epoch,
    .rank_started = rank_started,
    .rank_ended = rank_ended,
    .note = note,
#ifndef RG_AGENT
    .chaos = chaos,
#endif
    .ended = ended,
};
