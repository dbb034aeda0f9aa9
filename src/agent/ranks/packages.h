/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our Python packages for ranks that run on the bare host: those of the launcher's installation
 * come over the link as one archive (container/bundle.h), are unpacked in a cache directory of the
 * user's by their digest, and stay there as the agent does. Where they come from is told to the
 * host's Python by PYTHONPATH:
 *
 *     JOBDIR/py-packages/reigen/__init__.py   takes the package that this Python has itself, in
 *                        horovod/__init__.py  whatever environment, else the one in bundle
 *                        bundle                  a link to the cache
 *                        why                  a text: why there is no bundle
 *                        later                in a pod, where the archive lies beside the agent: a
 *                                             command, word by line, that makes one of the two
 *
 * JOBDIR stands in the ranks' PATH, so the name is none that anybody gives a command.
 *
 * A Python that cannot use the bundle says so in the ImportError, with the reason.
 *
 * Nothing of this is done where the Python that the job's command names, or else the first one in
 * PATH, has packages of these names. SETUP's bundle_first puts the cache itself into PYTHONPATH.
 *
 * This header is internal to src/agent. Thread rule: the agent's thread. Blocks for file system
 * calls.
 */
#ifndef RG_AGENT_RANKS_PACKAGES_H
#define RG_AGENT_RANKS_PACKAGES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/ranks/agent.h"
#include "base/error.h"
#include "base/str.h"
#include "wire/codec.h"

/* SETUP came, and the job's directory is there: find the packages, or ask for them. */
void rg_packages_setup(struct rg_agent *agent);
/* Bytes of the archive; none: it cannot be sent. 0; -EBADMSG: more than was asked for. */
int rg_packages_data(struct rg_agent *agent, const struct rg_span *data);
/* `reigen-agent unpack NAME NBYTES DIRECTORY RUNTIME`, which `later` has: unpack the archive of
 * this name, and make `bundle` in JOBDIR/py-packages, else `why`. RUNTIME is the agent's
 * $XDG_RUNTIME_DIR, or "". argv: main's. The exit code. Blocks. */
int rg_packages_unpack(char **argv);
/* PYTHONPATH, for a process with this environment. 0 or -ENOMEM. */
int rg_packages_env(const struct rg_agent *agent, struct rg_strv *env);
void rg_packages_fini(struct rg_packages *packages);

#endif
