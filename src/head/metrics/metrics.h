/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --metrics: what the ranks of a job do, as Prometheus reads it: from a file that is replaced every
 * few seconds, or by HTTP. docs/metrics.md has all names and units. Nothing is told but numbers,
 * ranks, names of hosts, and the job's id and platform: no command, no environment.
 *
 * An agent is never the head of such a job: it keeps no numbers, and no plan's file has the option.
 *
 * Thread rule: the loop's thread. Nothing blocks, but that opening may look up a host's name, and
 * writing a file takes as long as its file system does.
 */
#ifndef RG_HEAD_METRICS_METRICS_H
#define RG_HEAD_METRICS_METRICS_H

#include "base/error.h"
#include "base/loop.h"
#include "head/metrics/text.h"

struct rg_metrics;

/* Called for each text that is made: say what the head knows. */
typedef void rg_metrics_look(void *arg, struct rg_metrics_state *ret_state);

#ifndef RG_AGENT
/* Take the address, or write the file once, before anything of the job is there. 0; -errno with
 * err, which says why the value will not do: exit_code 2, 69 where the address is taken, 77 without
 * permission, 74 for a full disk. NULL for where: nothing is wanted, and *ret_metrics is NULL. */
int rg_metrics_open(const char *where, struct rg_metrics **ret_metrics, struct rg_error *err);
/* The loop is there: answer, or write every few seconds. NULL is fine here and below. */
void rg_metrics_start(struct rg_metrics *metrics, struct rg_loop *loop, rg_metrics_look *look,
                      void *arg);
/* Where it can be read: "http://127.0.0.1:9100/metrics". NULL: in a file. Borrowed. */
const char *rg_metrics_url(const struct rg_metrics *metrics);
/* The user left the port open, so that only we know it. */
bool rg_metrics_chose_port(const struct rg_metrics *metrics);
/* The job has ended by this code: write the file for the last time. Nobody is answered any more.
 * Frees it. The session that look tells of must still be there. */
void rg_metrics_close(struct rg_metrics *metrics, int exit_code);
#else
static inline int rg_metrics_open(const char *where, struct rg_metrics **ret_metrics,
                                  struct rg_error *err)
{
    (void) where;
    (void) ret_metrics;
    (void) err;
    return 0;
}
static inline void rg_metrics_start(struct rg_metrics *metrics, struct rg_loop *loop,
                                    rg_metrics_look *look, void *arg)
{
    (void) metrics;
    (void) loop;
    (void) look;
    (void) arg;
}
static inline const char *rg_metrics_url(const struct rg_metrics *metrics)
{
    (void) metrics;
    return NULL;
}
static inline bool rg_metrics_chose_port(const struct rg_metrics *metrics)
{
    (void) metrics;
    return false;
}
static inline void rg_metrics_close(struct rg_metrics *metrics, int exit_code)
{
    (void) metrics;
    (void) exit_code;
}
#endif

#endif
