/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noise_NNpsk0_25519_ChaChaPoly_SHA256: the handshake of a link, and the ciphers it ends with.
 *
 * Source: The Noise Protocol Framework, revision 34 (2018-07-11), sections 5 (state objects), 7
 * (pattern NN), 9 (psk0 modifier) and 12 (functions). X25519 is RFC 7748, ChaCha20-Poly1305 is RFC
 * 8439, HKDF is RFC 5869 over HMAC-SHA256 (RFC 2104). tests/unit/wire checks it by the published
 * vectors of an independent implementation.
 *
 *      initiator                           responder
 *          | ------ psk, e, {payload} -----> |      rg_noise_write / rg_noise_read
 *          | <----- e, ee, {payload} ------- |      rg_noise_read  / rg_noise_write
 *          split                           split    rg_noise_split
 *
 * The first message shows knowledge of the key but may be a recording; only a message under the
 * ciphers of the split shows that the peer is alive. So a responder trusts nothing before the first
 * such message has been opened (wire/link.c does this).
 *
 * Thread rule: one thread at a time. Nothing blocks. Objects are embedded by their owner, who keeps
 * them in locked memory and wipes them.
 */
#ifndef RG_WIRE_CRYPTO_NOISE_H
#define RG_WIRE_CRYPTO_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_NOISE_KEY_NBYTES 32
#define RG_NOISE_HASH_NBYTES 32
#define RG_NOISE_TAG_NBYTES 16
#define RG_NOISE_OVERHEAD (RG_NOISE_KEY_NBYTES + RG_NOISE_TAG_NBYTES) /* of a handshake message */
#define RG_NOISE_MESSAGE_MAX 65535 /* bytes of any Noise message, tag included (section 3) */

/* One direction after the split. */
struct rg_noise_cipher {
    uint8_t key[RG_NOISE_KEY_NBYTES];
    uint64_t counter; /* the next nonce; UINT64_MAX is never used (section 5.1) */
};

struct rg_noise {
    struct rg_noise_cipher cipher;             /* k and n of the specification's CipherState */
    uint8_t chaining_key[RG_NOISE_HASH_NBYTES];
    uint8_t hash[RG_NOISE_HASH_NBYTES];
    uint8_t psk[RG_NOISE_KEY_NBYTES];
    uint8_t secret[RG_NOISE_KEY_NBYTES];       /* our ephemeral key pair */
    uint8_t public[RG_NOISE_KEY_NBYTES];
    uint8_t peer_public[RG_NOISE_KEY_NBYTES];
    bool initiator;
    int messages; /* of the handshake, done so far: 0, 1, 2; -1 after a failure */
};

/* Begin a handshake with a fresh ephemeral key. psk: 32 bytes. prologue: any bytes, equal on both
 * sides, authenticated and not sent. 0, or -ENOSYS without randomness. */
int rg_noise_start(struct rg_noise *noise, bool initiator, const uint8_t *psk,
                   const void *prologue, size_t nbytes);
/* The same with a given ephemeral secret: for published vectors and fuzzing, never for a link. */
int rg_noise_start_fixed(struct rg_noise *noise, bool initiator, const uint8_t *psk,
                         const void *prologue, size_t nbytes, const uint8_t *secret);
/* Forget everything secret. */
void rg_noise_wipe(struct rg_noise *noise);

/* Write the next message of the handshake around a payload, which the key protects: nbytes +
 * RG_NOISE_OVERHEAD bytes. 0; -EPROTO when it is not our turn; -EMSGSIZE above
 * RG_NOISE_MESSAGE_MAX; -EBADMSG when the peer's public key is of low order. */
int rg_noise_write(struct rg_noise *noise, const void *payload, size_t nbytes,
                   uint8_t *ret_message);
/* Read the peer's message; ret_payload has room for nbytes - RG_NOISE_OVERHEAD. 0; -EPROTO when it
 * is not the peer's turn; -EBADMSG when it cannot be verified: the handshake is over then. */
int rg_noise_read(struct rg_noise *noise, const void *message, size_t nbytes,
                  uint8_t *ret_payload);

/* After both messages: the ciphers of both directions. 0 or -EPROTO. The handshake hash, equal on
 * both sides and unique to this handshake, stays in noise->hash until the wipe. */
int rg_noise_split(const struct rg_noise *noise, struct rg_noise_cipher *ret_send,
                   struct rg_noise_cipher *ret_receive);

/* Encrypt nbytes to nbytes + RG_NOISE_TAG_NBYTES; both may start at the same address. 0;
 * -EMSGSIZE above RG_NOISE_MESSAGE_MAX; -EOVERFLOW when the counter has run out. */
int rg_noise_seal(struct rg_noise_cipher *cipher, const void *plain, size_t nbytes,
                  uint8_t *ret_sealed);
/* The reverse: nbytes with the tag, room for nbytes - RG_NOISE_TAG_NBYTES. 0; -EBADMSG when it is
 * not the peer's next message; -EOVERFLOW. After an error the counter has not moved. */
int rg_noise_open(struct rg_noise_cipher *cipher, const void *sealed, size_t nbytes,
                  uint8_t *ret_plain);

#endif
