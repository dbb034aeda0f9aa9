/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comma that was forgotten between hosts: of `-H node1 node2 python train.py` node2 is the
 * command, and nobody meant that.
 *
 * Thread rule: any thread. May ask the resolver for a name, which may take seconds; only where the
 * command is no program of this computer.
 */
#ifndef RG_JOB_REQUEST_COMMA_H
#define RG_JOB_REQUEST_COMMA_H

#include "job/request/walk.h"

/* The walk has come to the command. 0; -EINVAL with err: it stands behind the hosts, is no program
 * here, and is as a host is: HOST:SLOTS, this computer's name, alike to one that was named, or a
 * name that resolves.
 * Behind "--" it is a command, whatever it is like. */
int rg_comma_check(const struct rg_job *job, const struct rg_walk *walk, struct rg_error *err);

#endif
