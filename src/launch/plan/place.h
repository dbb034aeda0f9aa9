/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher adds to the user's wish before it goes to hosts: the bundle
 * (container/bundle.h), which is packed only when a host lacks it; and for containers whose they
 * are, and the caller's directory.
 *
 * The bundle is made from the installation that this program belongs to: reigen's and horovod's
 * packages beside it, below lib/python3* of the same prefix, or in the source tree of a build.
 *
 * Thread rule: main thread; stats some hundred files and reads the libraries, so it blocks for some
 * milliseconds.
 */
#ifndef RG_LAUNCH_PLAN_PLACE_H
#define RG_LAUNCH_PLAN_PLACE_H

#include "base/buf.h"
#include "base/error.h"
#include "job/job.h"

/* Fill job->container.place (but host_index and one_host, which depend on the host). Without an
 * image that is the bundle alone, for a job that runs elsewhere than on this computer, or with
 * --inject-runtime. Without an installation of the packages there is no bundle, which is an
 * error with --inject-runtime only; bundle_error has the cause. 0 or -errno. */
int rg_place_job(struct rg_job *job, bool elsewhere, struct rg_error *err);

/* Whether the agents are sent that bundle: there is one, and no `contain` that mounts it. */
bool rg_place_sends_bundle(const struct rg_job *job);

/* The archive that place.bundle_digest and place.bundle_nbytes announce, appended. 0; -ESTALE
 * when the files have changed since; -errno. */
int rg_place_pack_bundle(const struct rg_container_place *place, struct rg_buf *buf,
                      struct rg_error *err);

/* HOST:PID:START of a process of this computer, START being its start in clock ticks since boot;
 * pid 0 is this one. NULL when there is no such process. The caller frees. */
char *rg_place_launcher(int pid);

#endif
