/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutual authentication at the start of a data socket between two ranks: both sides prove that they
 * know a 32-byte key, bound to a label and to fresh nonces of both. What follows on the socket is
 * neither encrypted nor authenticated: a host that can rewrite the traffic of others is outside
 * what this protects against, a process that connects without the key is inside.
 *
 *      initiator                                  responder
 *          | -- nonce_i (32), proof_h (32) --------> |
 *          | <- nonce_r (32), proof_r (32) --------- |
 *          | -- proof_i (32) ----------------------> |
 *
 *      proof_x = HMAC-SHA256 by the key (RFC 2104), over
 *                "reigen auth 3", role (u8: 0 of the hello, 1 initiator, 2 responder), u32 length
 *                of the label, label, nonce_i, nonce_r; in the hello's, zeros for nonce_r
 *
 * The caller proves first, so that nobody gets something made of the key by calling. The roles
 * differ, so a proof cannot be sent back to who made it; the nonces are fresh, so a recorded
 * exchange is worth nothing; a label names all that both sides must agree on ("data 3 5": purpose
 * and ranks), so an exchange cannot be moved to another socket's purpose. A caller without the key
 * is answered by zeros: that tells who has a wrong one of it, and everybody else nothing.
 *
 * Messages are built and read here; the owner moves them, on a blocking or non-blocking socket:
 *
 *      rc = rg_auth_start(&auth, initiator, key, label, message, &nbytes);  write nbytes
 *      while (rc == 0 && (wanted = rg_auth_wanted(&auth)) > 0) {
 *          read exactly wanted bytes;
 *          rc = rg_auth_receive(&auth, bytes, wanted, message, &nbytes);    write nbytes
 *      }
 *
 * Thread rule: one thread per object. Nothing blocks, nothing is allocated.
 */
#ifndef RG_WIRE_AUTH_H
#define RG_WIRE_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_AUTH_KEY_NBYTES 32
#define RG_AUTH_NONCE_NBYTES 32
#define RG_AUTH_PROOF_NBYTES 32
#define RG_AUTH_HELLO_NBYTES (RG_AUTH_NONCE_NBYTES + RG_AUTH_PROOF_NBYTES)    /* first message */
#define RG_AUTH_ANSWER_NBYTES (RG_AUTH_NONCE_NBYTES + RG_AUTH_PROOF_NBYTES)   /* second */
#define RG_AUTH_CONFIRM_NBYTES RG_AUTH_PROOF_NBYTES                           /* third */
#define RG_AUTH_MESSAGE_MAX RG_AUTH_ANSWER_NBYTES
#define RG_AUTH_LABEL_MAX 128 /* characters, */
#define RG_AUTH_PLACE_MAX 100 /* and of a place's name, so that "dial PLACE" is a label */

struct rg_auth {
    bool initiator;
    bool answered; /* the responder has sent its message */
    size_t wanted; /* bytes of the peer's next message */
    bool proven;   /* the peer knows the key */
    uint8_t key[RG_AUTH_KEY_NBYTES];
    uint8_t nonces[2][RG_AUTH_NONCE_NBYTES]; /* the initiator's, the responder's */
    char label[RG_AUTH_LABEL_MAX + 1];
};

/* Begin. The initiator gets the first message, *ret_nbytes of it; the responder gets nothing to
 * write (*ret_nbytes is 0). ret_message has room for RG_AUTH_MESSAGE_MAX. 0; -EINVAL when the label
 * is too long; -ENOSYS without randomness. The object is wiped after a failure. */
int rg_auth_start(struct rg_auth *auth, bool initiator, const uint8_t *key, const char *label,
                  uint8_t *ret_message, size_t *ret_nbytes);

/* How many bytes to read next; 0 when the exchange is over, well or badly. */
size_t rg_auth_wanted(const struct rg_auth *auth);

/* Take the peer's next message, nbytes of it, and get what to write now (perhaps nothing).
 * 0; -EACCES when the peer does not know the key or has another label in mind; -EPROTO when nbytes
 * is not what is wanted. The object is wiped after a failure; close the socket, but first write
 * what there is: *ret_nbytes is then 0, or that of a refusal, whose loss harms nobody. */
int rg_auth_receive(struct rg_auth *auth, const void *message, size_t nbytes,
                    uint8_t *ret_message, size_t *ret_nbytes);

/* True when the peer has proven itself. The initiator's last message may still have to be
 * written. */
bool rg_auth_done(const struct rg_auth *auth);

/* Forget the key. */
void rg_auth_wipe(struct rg_auth *auth);

#endif
