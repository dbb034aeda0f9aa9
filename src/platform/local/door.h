/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local driver: agents on this computer, as children of this process, each with a socket pair
 * as its link and the job's key on its standard input.
 *
 * Its program is that of launch/host/agentfile.h; what a killed one leaves falls to
 * launch/host/leftover.h.
 *
 * Other drivers may call its functions. It has those that every driver has (discover, start, stop,
 * destroy) and no other. Messages of discover name the driver that --on asked for.
 */
#ifndef RG_PLATFORM_LOCAL_DOOR_H
#define RG_PLATFORM_LOCAL_DOOR_H

#include "launch/host/driver.h"

extern const struct rg_driver_ops rg_driver_local;

/* True when name is a name or address of this computer that can be told without asking the network:
 * localhost, 127.x.x.x, ::1, its host name, with or without domain, or a numeric address of one of
 * its interfaces. */
bool rg_local_is_here(const char *name);

#endif
