/* SPDX-License-Identifier: Apache-2.0 */
/* Programs want each event as a line, and no status that moves. */
#include "head/show/presenter.h"

static void send(struct rg_presenter *p)
{
    if (rg_buf_status(&p->text) == 0)
        rg_output_event(p->output, rg_buf_bytes(&p->text), rg_buf_nbytes(&p->text));
    rg_buf_fini(&p->text);
}

static int starting(struct rg_presenter *p)
{
    rg_event_plan(&p->text, "start", &p->planned->job, &p->planned->plan);
    send(p);
    return 0;
}

static void phase(struct rg_presenter *p, int host, enum rg_host_phase phase, const char *reason)
{
    rg_event_host(&p->text, p->planned->plan.hosts[host].name, phase, reason);
    send(p);
}

static void running(struct rg_presenter *p)
{
    rg_event_running(&p->text);
    send(p);
}

static void epoch(struct rg_presenter *p, uint32_t epoch, int size, const int *rank_of)
{
    rg_event_epoch(&p->text, &p->planned->plan, epoch, size, rank_of);
    send(p);
}

static void rank_started(struct rg_presenter *p, int rank, const char *host, int pid,
                         const char *cpus)
{
    rg_event_rank_started(&p->text, rank, host, pid, cpus);
    send(p);
}

static void rank_ended(struct rg_presenter *p, const struct rg_rank_end *end)
{
    rg_event_rank_ended(&p->text, end);
    send(p);
}

static void note(struct rg_presenter *p, int rank, const char *words)
{
    rg_event_note(&p->text, rank, words);
    send(p);
}

#ifndef RG_AGENT
static void chaos(struct rg_presenter *p, const struct rg_chaos_event *event, int rank,
                  const char *host)
{
    rg_event_chaos(&p->text, event, rank, host);
    send(p);
}
#endif

static void slowed(struct rg_presenter *p, const struct rg_lateness *diagnosis, const char *host,
                   const char *to)
{
    rg_event_slowed(&p->text, diagnosis, host, to);
    send(p);
}

static void ended(struct rg_presenter *p, const struct rg_verdict *verdict, int again)
{
    if (again)
        rg_event_restart(&p->text, again, p->planned->job.max_restarts, verdict);
    else
        rg_event_verdict(&p->text, verdict);
    send(p);
}

const struct rg_presenter_ops rg_presenter_json = {
    .encode = rg_event_output,
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
    .slowed = slowed,
    .ended = ended,
};
