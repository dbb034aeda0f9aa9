/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first bytes on a socket between two ranks: who dials whom for what, and the proof that both
 * hold the job's data key (wire/auth.h). Afterwards the socket carries what its purpose says, from
 * the next byte on.
 *
 *      dialler                                        listener
 *         | -- magic, purpose, from, to (4 x u32) ------> |
 *         | -- nonce, proof (64) -----------------------> |
 *         | <- nonce, proof (64) ------------------------ |
 *         | -- proof (32) ------------------------------> |
 *         | <- "!" (1): heard and taken ----------------- |
 *
 * The last byte tells the dialler that the listener has finished, so that a refusal is seen here
 * and not in the middle of the traffic. Integers are little-endian. The label of the proofs is
 * "purpose from to" in decimal.
 *
 * Thread rule: one thread at a time. Nothing blocks: call step when the descriptor is ready for
 * events.
 */
#ifndef RG_COLL_NET_HANDSHAKE_H
#define RG_COLL_NET_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/auth.h"

#define RG_HANDSHAKE_HEAD_NBYTES 16
#define RG_HANDSHAKE_MAGIC 0x324b4752u /* "RGK2" */

struct rg_handshake {
    int fd; /* borrowed */
    bool dialler, connecting, finished;
    uint32_t purpose;
    int from, to; /* ranks; from is -1 at the listener until it has read the head */
    const uint8_t *key; /* borrowed */
    struct rg_auth auth;
    uint8_t in[RG_AUTH_MESSAGE_MAX], out[RG_HANDSHAKE_HEAD_NBYTES + RG_AUTH_MESSAGE_MAX];
    size_t in_have, in_want, out_from, out_to;
};

/* Begin on a socket that is connected or connecting (dialler), or was just accepted. 0 or
 * -ENOSYS. */
int rg_handshake_dial(struct rg_handshake *handshake, int fd, const uint8_t *key, uint32_t purpose,
                      int from, int to);
void rg_handshake_answer(struct rg_handshake *handshake, int fd, const uint8_t *key, int me);
/* Do what can be done now. 1 done (purpose and from are known and proven); 0 later; -EACCES wrong
 * key or none; -EPROTO not this protocol; -EPIPE closed; -errno of the socket, connect's
 * included. Reads nothing beyond its part. */
int rg_handshake_step(struct rg_handshake *handshake);
/* What to poll for: POLLIN or POLLOUT. */
short rg_handshake_events(const struct rg_handshake *handshake);
/* As steps until the end. 0 or -errno, -ETIMEDOUT at the deadline. Blocks. */
int rg_handshake_finish(struct rg_handshake *handshake, uint64_t deadline_ns);
/* Forget the key; closes nothing. */
void rg_handshake_fini(struct rg_handshake *handshake);

#endif
