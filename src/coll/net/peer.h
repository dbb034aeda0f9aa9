/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end of a unix socket between ranks that have no secret in common.
 *
 * The kernel tells the peer's user; but a container that has our network name space can run
 * processes of our uid, and /proc/net/unix shows them every abstract name. So the peer must see the
 * same files and the same processes as we do: its mount and pid name spaces are ours. A process in
 * a container can enter neither.
 *
 * Thread rule: any thread. Nothing blocks.
 */
#ifndef RG_COLL_NET_PEER_H
#define RG_COLL_NET_PEER_H

#include "base/error.h"

/* Look at the peer of a connected unix socket. 0 when it is of our effective uid and of our mount
 * and pid name spaces; else, with a phrase in err that goes on "...: ": -EPERM another user; -EXDEV
 * another name space; -EACCES there is no telling (no /proc, or it lets nobody look); -ESRCH it has
 * ended; -errno of the socket. */
int rg_peer_check(int fd, struct rg_error *err);

#endif
