/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The authenticated, encrypted link between two of our processes, over any pair of descriptors.
 *
 * Handshake: Noise_NNpsk0_25519_ChaChaPoly_SHA256 (The Noise Protocol Framework, revision 34),
 * keyed by the job's 256-bit secret; the prologue is protocol version, job id and the initiator's
 * role, so that a link of another job, version or role fails. Then transport messages: a u16
 * little-endian length in clear and the ciphertext (RFC 8439 AEAD, 64-bit counter nonce), carrying
 * frames: u32 length, u16 message type, payload (wire/msg.h). A frame may span transport messages.
 * In front of each handshake message goes the greeting: "reigen" and the version as u16, so that
 * another program or version is told apart from a wrong key. The initiator ends the handshake with
 * an empty transport message; only this opens the link for the responder, whom a recorded first
 * message could deceive. Nothing is accepted before the handshake is complete; a wrong key, a
 * replay, a truncation or a length beyond the caps ends the link with -EBADMSG.
 *
 * A link does no I/O of its own accord and knows no event loop: the owner moves bytes.
 *
 *      bytes read from the peer -> rg_link_receive -> on_frame(...)      (zero or more calls)
 *      rg_link_send -> rg_link_output -> bytes to write -> rg_link_sent
 *
 *      HANDSHAKE --(both messages verified)--> OPEN --(any error)--> DEAD
 *
 * Thread rule: one thread at a time. No call blocks. on_frame must not destroy the link; it may
 * send. Frame bytes are valid during the callback only.
 */
#ifndef RG_WIRE_LINK_H
#define RG_WIRE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "wire/codec.h"

#define RG_KEY_NBYTES 32
#define RG_JOB_ID_MAX 64               /* characters */
#define RG_ROLE_MAX 32                 /* characters */
#define RG_PROTOCOL_VERSION 4
#define RG_LINK_BACKLOG (4u << 20)     /* rg_link_send asks the owner to pause above this */

struct rg_link;

struct rg_link_options {
    const uint8_t *key;   /* RG_KEY_NBYTES, copied into locked memory, wiped at destruction */
    const char *job_id;   /* at most RG_JOB_ID_MAX */
    const char *role;     /* what the initiator is: "agent", "rank", ...; equal on both sides */
    bool initiator;       /* true on the side that dialled */
    void (*on_open)(void *arg); /* the handshake is complete; may be NULL */
    void (*on_frame)(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes);
    void *arg;
};

/* 0, -EINVAL (arguments), -ENOMEM, -ENOSYS (libsodium cannot start). */
int rg_link_create(const struct rg_link_options *options, struct rg_link **ret_link);
/* Wipes keys and frees. NULL is fine. */
void rg_link_destroy(struct rg_link *link);

/* Feed bytes from the peer, as they come. 0, or -EBADMSG with the cause ("wrong key", ...),
 * or -ENOMEM: the link is dead then and the owner closes the descriptors. */
int rg_link_receive(struct rg_link *link, const void *bytes, size_t nbytes, struct rg_error *err);

/* The peer's bytes have ended. 0; -EPIPE when they ended within a message or a frame, as they do
 * when the peer is killed; -EBADMSG when the link had failed before. It is dead afterwards. */
int rg_link_finish(struct rg_link *link, struct rg_error *err);

/* Queue one frame (kept until the handshake is done). 0; -EMSGSIZE above RG_FRAME_MAX; -ENOMEM;
 * -ENOTCONN when dead. */
int rg_link_send(struct rg_link *link, uint16_t type, const void *payload, size_t nbytes);

/* Bytes to write to the peer now: *ret_nbytes of them (0: nothing), borrowed until the next call on
 * this link. rg_link_sent drops the nbytes that were written. */
const uint8_t *rg_link_output(struct rg_link *link, size_t *ret_nbytes);
void rg_link_sent(struct rg_link *link, size_t nbytes);
/* Bytes that wait: output, and frames kept until the handshake is done. */
size_t rg_link_pending(const struct rg_link *link);

/* True while more than RG_LINK_BACKLOG bytes wait: producers of bulk data should pause. */
bool rg_link_congested(const struct rg_link *link);
bool rg_link_open(const struct rg_link *link);

/* A fresh random key. 0 or -ENOSYS. */
int rg_key_generate(uint8_t ret_key[RG_KEY_NBYTES]);
/* Room for a key that is kept: memory that is guarded, left out of core dumps, and locked where the
 * system allows it. Holds a copy of key, or zeros when that is NULL; NULL when there is no memory.
 * rg_key_drop wipes and frees; NULL is fine. */
uint8_t *rg_key_hold(const uint8_t *key);
void rg_key_drop(uint8_t *key);
/* 64 hexadecimal digits to a key (white space around is fine). 0 or -EINVAL. */
int rg_key_parse(const char *hex, uint8_t ret_key[RG_KEY_NBYTES]);
/* A key of a longer secret that serves something else already, such as a file of ssh's: HKDF with
 * HMAC-SHA256 (RFC 5869) without a salt, info being its info. Cannot fail. */
void rg_key_extract(const void *secret, size_t nbytes, const char *info,
                    uint8_t ret_key[RG_KEY_NBYTES]);
/* hex: room for 2 * RG_KEY_NBYTES + 1. */
void rg_key_format(const uint8_t key[RG_KEY_NBYTES], char *ret_hex);

/* Key of a purpose, derived from the job's key by HMAC-SHA256 (RFC 2104) of the purpose's name: the
 * same secret never serves two protocols. Cannot fail. */
void rg_key_derive(const uint8_t key[RG_KEY_NBYTES], const char *purpose,
                   uint8_t ret_key[RG_KEY_NBYTES]);

#endif
