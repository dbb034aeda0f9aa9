/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ssh driver: one ssh connection per host, whose standard input and output become the agent's
 * link. A host that is this computer is reached without ssh, by a child and a socket pair. With an
 * image, what is started on a host is `reigen-agent contain`, which starts the agent in a container
 * there (agent/contain/contain.h).
 *
 * ssh is the program that REIGEN_SSH names, else ssh: the user's own configuration, keys, agent and
 * jump hosts serve. The remote command is a short script for any login shell: it looks for the
 * agent by digest in the host's cache directories, and asks for it when it is not there; what it
 * says is described in launch/host/preamble.h. The job's key travels over standard input only,
 * after the other side has said that an agent is reading.
 *
 * A host whose packets are dropped would hold ssh for more than two minutes: ssh gets a
 * ConnectTimeout of RG_SSH_CONNECT_S, unless the user's options or ssh configuration set one.
 *
 * At most 64 hosts are being connected at once. What a busy sshd drops is tried again,
 * until the session gives up.
 */
#ifndef RG_PLATFORM_SSH_DOOR_H
#define RG_PLATFORM_SSH_DOOR_H

#include "launch/host/driver.h"

#define RG_SSH_CONNECT_S 10 /* for a host to answer, where neither option nor configuration says */

extern const struct rg_driver_ops rg_driver_ssh;

#endif
