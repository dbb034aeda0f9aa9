/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --metrics: what the ranks of a job do, as Prometheus reads it: from a file that is replaced every
 * few seconds, or by HTTP. docs/metrics.md has all names and units. Nothing is told but numbers,
 * ranks, names of hosts, and the job's id and platform: no command, no environment.
 *
 * An agent that is the head of a job has one way only: it answers at a port of all addresses of its
 * host (port.c). Its page is the same.
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

/* Take the address, or write the file once, before anything of the job is there. 0; -errno with
 * err, which says why the value will not do: exit_code 2, 69 where the address is taken, 77 without
 * permission, 74 for a full disk. Where the job wants nothing, *ret_metrics is NULL. */
int rg_metrics_open(const struct rg_job *job, struct rg_metrics **ret_metrics,
                    struct rg_error *err);
/* The loop is there: answer, or write every few seconds. NULL is fine here and below. */
void rg_metrics_start(struct rg_metrics *metrics, struct rg_loop *loop, rg_metrics_look *look,
                      void *arg);
/* Where it can be read: "http://127.0.0.1:9100/metrics". NULL: in a file, or at the
 * port of an agent. Borrowed. */
const char *rg_metrics_url(const struct rg_metrics *metrics);
/* The user left the port open, so that only we know it. */
bool rg_metrics_chose_port(const struct rg_metrics *metrics);
/* The job has ended by this code: write the file for the last time. Nobody is answered any more.
 * Frees it. The session that look tells of must still be there. */
void rg_metrics_close(struct rg_metrics *metrics, int exit_code);

#endif
