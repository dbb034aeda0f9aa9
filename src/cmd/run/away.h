/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen run` on a platform where a job's head never is here (platform.away): the job is handed
 * over, and stayed with until it has ended. The first SIGINT, SIGTERM or SIGHUP ends it, the second
 * leaves it. Should this process be killed, the job goes on.
 *
 * Main thread.
 */
#ifndef RG_CMD_RUN_AWAY_H
#define RG_CMD_RUN_AWAY_H

#include "platform/drivers.h"
#include "launch/jobs/submitted.h"
#include "launch/plan/plan_file.h"

struct rg_request;

/* Plan the job here, with the hosts that the driver will make for it. Elsewhere than on such a
 * platform it does nothing, as the head plans. request: what the job was made of. 0 or -errno with
 * err. */
int rg_away_plan(const struct rg_driver_ops *driver, const struct rg_request *request,
                 struct rg_planned *planned, struct rg_error *err);
/* Hand a job to the driver's queue, with its plan as a file, and take a note of it. 0 or -errno
 * with err, exit code 69 unless it has one. */
int rg_away_submit(const struct rg_driver_ops *driver, const struct rg_planned *planned,
                   struct rg_submitted_job *job, struct rg_error *err);
/* Tell the user, unless all is quiet, what was noted of a planned job, with --display-map its map;
 * and what the driver has remarked when it took the job. */
void rg_away_say_notes(const struct rg_planned *planned);
void rg_away_say_remarks(const struct rg_planned *planned, const struct rg_submitted_job *job);
/* Print what would be handed over. The exit code. */
int rg_away_describe(const struct rg_driver_ops *driver, const struct rg_request *request,
                     struct rg_planned *planned, const char *command);
/* Run it. Blocks until it has ended. command: whose --help usage errors name. The exit code. */
int rg_away_run(const struct rg_driver_ops *driver, const struct rg_request *request,
                struct rg_planned *planned, const char *command);

#endif
