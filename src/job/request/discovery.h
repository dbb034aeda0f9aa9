/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts that a command names: --host-discovery-script, as Horovod's elastic jobs have it, and as
 * mpi-operator writes it into the launcher's pod. /bin/sh runs it, as Horovod does: a script with
 * arguments, one without a #! line, a pipeline. For a job with a fixed number of ranks the command
 * is run at the start alone, again and again until its hosts have room for them.
 *
 * Thread rule: the main thread of a program. Blocks, for --start-timeout at most.
 */
#ifndef RG_JOB_REQUEST_DISCOVERY_H
#define RG_JOB_REQUEST_DISCOVERY_H

#include "job/options/options.h"

/* Make the job elastic where --min-np, --max-np or, with script, a command that names hosts asks
 * for it. And where the request has such a command: put its hosts into the job. A host without a
 * number of slots gets discovery_slots, or nslots where that is 0, at least one. hosts_come is set,
 * since a host may be named before its sshd runs. request->tell hears what is waited for, when that
 * has changed. A host that is named again is one host, as in Horovod; a note tells where the number
 * of slots differs, and the last one counts. What the program complains of goes to standard error;
 * one that fails is asked again. 0, also where there is none; -EINVAL: -np is missing, other hosts
 * are named too, the platform has its own hosts, or a line is no host; -ETIMEDOUT with exit_code
 * 124: there was no room in time; -ENOENT where the shell cannot run it, with its exit_code 126 or
 * 127; -EFBIG; -ENOMEM. Of an elastic job these are the first hosts, of which one is enough; a
 * command that fails, or takes 30 s or elastic.timeout_ms, is an error then (69), as are numbers
 * that do not fit together. */
int rg_discovery_settle(struct rg_request *request, int nslots, bool script, struct rg_error *err);

#endif
