/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher adds to the user's wish for containers before it goes to hosts: whose they are,
 * the caller's directory, and the kit (container/kit.h), which is packed only when a host lacks it.
 *
 * The kit is made from the installation that this program belongs to: reigen's and horovod's
 * packages beside it, below lib/python3* of the same prefix, or in the source tree of a build.
 *
 * Thread rule: main thread; stats some hundred files, so it blocks for about a millisecond.
 */
#ifndef RG_LAUNCH_PLACE_H
#define RG_LAUNCH_PLACE_H

#include "base/buf.h"
#include "base/error.h"
#include "spec/job.h"

/* Fill job->container.place (but host_index and one_host, which depend on the host). Nothing is
 * done without an image. Without an installation of the packages there is no kit, which is an error
 * with --inject-runtime only. 0 or -errno. */
int rg_place_container(struct rg_job *job, struct rg_error *err);

/* The archive that place.kit_digest and place.kit_nbytes announce, appended. 0; -ESTALE when the
 * files have changed since; -errno. */
int rg_place_pack_kit(const struct rg_container_place *place, struct rg_buf *buf,
                      struct rg_error *err);

/* HOST:PID:START of a process of this computer, START being its start in clock ticks since boot;
 * pid 0 is this one. NULL when there is no such process. The caller frees. */
char *rg_place_launcher(int pid);

#endif
