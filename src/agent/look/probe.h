/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who reaches whom: before the ranks start, agents try each other's addresses over TCP, so that the
 * launcher can choose a network that really connects the hosts, or say which two it does not.
 *
 * Each agent listens on one port that the kernel chooses, from LISTEN to SETUP: a few seconds, and
 * never for a job on one host. Both sides prove that they know the job's key, and the listener that
 * it is the wanted instance (wire/auth.h): on networks with the same address on two machines the
 * wrong one does not count as reached, and who does not know the key learns nothing.
 *
 * Then who called sends RG_PROBE_LOAD zeros, and when they have come, the listener a byte and as
 * many: several full packets each way. Where hosts are set to larger packets than the network
 * between them carries and nothing tells them so, a connection opens, and stalls with the first of
 * these: EMSGSIZE.
 *
 * Thread rule: the agent's thread; nothing blocks. One object per agent; rg_prober_destroy takes
 * NULL.
 */
#ifndef RG_AGENT_LOOK_PROBE_H
#define RG_AGENT_LOOK_PROBE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/str.h"

struct rg_prober;

#define RG_PROBE_DIALS_MAX 4096    /* under way in one agent */
#define RG_PROBE_ACCEPTED_MAX 1024 /* who call us; others wait in the kernel's queue */
#define RG_PROBE_ACCEPTED_MS 10000    /* how long an incoming connection may take */
#define RG_PROBE_PATIENCE_MS 300   /* the same for one that has not proven itself, while others
                                      wait for its place or descriptor */
#define RG_PROBE_LOAD 32768        /* bytes each way: packets of any MTU but loopback's */
#define RG_PROBE_STALL_MS 4000     /* without progress: the kernel has sent again some times */

/* Listens to nobody yet. key: the job's. 0 or -ENOMEM, -ENOSYS. */
int rg_prober_create(struct rg_loop *loop, const uint8_t *key, struct rg_prober **ret_prober);
void rg_prober_destroy(struct rg_prober *prober);
/* Listen on one of these ports; again: nothing happens. The port; 0: that is not possible here, and
 * an agent without sockets can still serve a job on one host. */
uint32_t rg_prober_listen(struct rg_prober *prober, const struct rg_ports *ports);
/* Listen no more, and send away who is here. What was dialled goes on. */
void rg_prober_hush(struct rg_prober *prober);
/* For HELLO. */
uint64_t rg_prober_instance(const struct rg_prober *prober);
/* A TCP port that nobody on this host uses now; 0 when there is no telling. */
uint32_t rg_prober_free_port(void);
/* count others, of this range, appended to buf as 2 bytes each, little-endian; fewer, where there
 * are not so many. */
void rg_prober_free_ports(const struct rg_ports *ports, uint32_t count, struct rg_buf *buf);

/* Try the targets of a PROBE, all at once. on_probed is called once for each, perhaps before this
 * returns; errnum 0: reached, with the round trip of the connection; EMSGSIZE: small packets pass
 * there and back, large ones do not. A target that is not of the form "INSTANCE ADDRESS PORT" gives
 * EINVAL. Targets under way from an earlier call go on. on_probed must not destroy the prober. */
void rg_prober_try(struct rg_prober *prober, const struct rg_strv *targets, uint32_t limit_ms,
                   void (*on_probed)(void *arg, uint32_t index, uint32_t errnum, uint32_t rtt_us),
                   void *arg);

#endif
