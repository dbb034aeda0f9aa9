/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a job's events for whoever follows it: words for people, or --json's lines for
 * programs. Another way to show a job is one more table. The ranks' output, the verdict in words
 * and the map go the same way with all of them.
 *
 * Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_HEAD_SHOW_PRESENTER_H
#define RG_HEAD_SHOW_PRESENTER_H

#include "head/show/events.h"
#include "head/show/output.h"
#include "head/show/status.h"
#include "launch/diagnosis/diagnosis.h"
#include "launch/plan/plan_file.h"

struct rg_record;

struct rg_presenter {
    const struct rg_presenter_ops *ops;
    struct rg_record *record;         /* of those ops (head/record); else NULL */
    const struct rg_planned *planned; /* borrowed, with the plan of this start */
    struct rg_loop *loop;
    struct rg_output *output;         /* of this start */
    bool log;                         /* somebody keeps a log, and may know better how it starts */
    struct rg_buf text;               /* while an event is composed */
    int status_fd;                    /* where it is seen */
    struct rg_status status;          /* while the job starts; zeroed where nobody wants it */
};

/* As the functions of rg_session_ops are told. */
struct rg_presenter_ops {
    rg_output_encode *encode; /* of output; or NULL */
    int (*starting)(struct rg_presenter *p); /* 0 or -ENOMEM */
    void (*phase)(struct rg_presenter *p, int host, enum rg_host_phase phase, const char *reason);
    void (*running)(struct rg_presenter *p);
    void (*epoch)(struct rg_presenter *p, uint32_t epoch, int size, const int *rank_of);
    void (*rank_started)(struct rg_presenter *p, int rank, const char *host, int pid,
                         const char *cpus);
    void (*rank_ended)(struct rg_presenter *p, const struct rg_rank_end *end);
    void (*note)(struct rg_presenter *p, int rank, const char *text);
    /* again: after this failure it is started again, for the nth time; 0: it is not. */
    void (*ended)(struct rg_presenter *p, const struct rg_verdict *verdict, int again);
#ifndef RG_AGENT /* whose jobs have none */
    void (*chaos)(struct rg_presenter *p, const struct rg_chaos_event *event, int rank,
                  const char *host);
#endif
    /* Before ended: what was waited for most of the time; host, to: NULL for none. NULL: the line
     * for people is enough. */
    void (*slowed)(struct rg_presenter *p, const struct rg_lateness *diagnosis, const char *host,
                   const char *to);
};

extern const struct rg_presenter_ops rg_presenter_plain, rg_presenter_json;

/* Whole lines onto standard error, from which the status is wiped before. */
void rg_presenter_say(struct rg_presenter *p, const char *fmt, ...) rg_printf(2, 3);

#endif
