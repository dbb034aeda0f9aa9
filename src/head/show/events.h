/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --json: what happens, one JSON object per line. Every object has "schema" (1), "event" and "time"
 * (seconds since 1970, with fractions). docs/jobs.md lists the events and their fields.
 * Fields may be added; none changes its meaning within a schema.
 *
 * Each function appends one line to text. Out of memory shows in rg_buf_status. Any thread.
 */
#ifndef RG_HEAD_SHOW_EVENTS_H
#define RG_HEAD_SHOW_EVENTS_H

#include "base/buf.h"
#include "head/show/lines.h"
#include "job/chaos/chaos.h"
#include "launch/diagnosis/diagnosis.h"
#include "launch/plan/plan.h"
#include "launch/session/session.h"

#define RG_EVENTS_SCHEMA 1

/* "start", or "plan" of --dry-run, which starts nothing: version, job, ranks, hosts [{name, slots,
 * ranks}], command. */
void rg_event_plan(struct rg_buf *text, const char *event, const struct rg_job *job,
                   const struct rg_plan *plan);
/* "host": host, phase, reason. */
void rg_event_host(struct rg_buf *text, const char *host, enum rg_host_phase phase,
                   const char *reason);
/* "running": all ranks were told to start. */
void rg_event_running(struct rg_buf *text);
/* "epoch": epoch, size, ranks: the host of each. rank_of: by place, -1: none. */
void rg_event_epoch(struct rg_buf *text, const struct rg_plan *plan, uint32_t epoch, int size,
                    const int *rank_of);
/* "rank-started": rank, host, pid, and cpus ("0-3,8") where it is bound. cpus: "" where not. */
void rg_event_rank_started(struct rg_buf *text, int rank, const char *host, int pid,
                           const char *cpus);
/* "output": rank, stream ("stdout", "stderr"), text (or base64, where the bytes are not UTF-8),
 * newline, continued. */
void rg_event_output(struct rg_buf *text, int rank, int stream, const struct rg_line *line);
/* "rank-ended": rank, host, how ("exit", "signal", "not-started", "lost"), value, oom, memory,
 * consequence, note, place, after. */
void rg_event_rank_ended(struct rg_buf *text, const struct rg_rank_end *end);
/* An event of --chaos; rank -1: all of the host's. */
void rg_event_chaos(struct rg_buf *text, const struct rg_chaos_event *chaos, int rank,
                    const char *host);
/* "slowed": cause, rank, host, to (null for none), share, value, usual. */
void rg_event_slowed(struct rg_buf *text, const struct rg_lateness *diagnosis, const char *host,
                     const char *to);
/* "note": rank (or null), text. */
void rg_event_note(struct rg_buf *text, int rank, const char *note);
/* "restart": restart (1, 2, ...), of, exit_code and cause of the failure before it. */
void rg_event_restart(struct rg_buf *text, int restart, int of, const struct rg_verdict *failure);
/* "verdict": exit_code, ok, cause, first (a rank or null), same (ranks), last_lines, seconds; and
 * twice, where restarts could not help: see twice.h. */
void rg_event_verdict(struct rg_buf *text, const struct rg_verdict *verdict);

/* "pulling": the word for a phase. */
const char *rg_phase_name(enum rg_host_phase phase);

#endif
