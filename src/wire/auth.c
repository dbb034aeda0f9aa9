/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets between ranks carry tensors in clear, for speed; so whoever opens one proves the key
 * first. */
#include "wire/auth.h"

#include <string.h>

#include "wire/crypto/crypto.h"

#define DOMAIN "reigen auth 3"

enum role { HELLO = 0, INITIATOR = 1, RESPONDER = 2 };

void rg_auth_wipe(struct rg_auth *auth)
{
    sodium_memzero(auth, sizeof(*auth));
}

static void make_proof(const struct rg_auth *auth, enum role role, uint8_t *ret_proof)
{
    size_t length = strlen(auth->label);
    uint8_t head[5] = { (uint8_t) role, (uint8_t) length, (uint8_t) (length >> 8), 0, 0 };
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, auth->key, sizeof(auth->key));
    crypto_auth_hmacsha256_update(&state, (const uint8_t *) DOMAIN, strlen(DOMAIN));
    crypto_auth_hmacsha256_update(&state, head, sizeof(head));
    crypto_auth_hmacsha256_update(&state, (const uint8_t *) auth->label, length);
    crypto_auth_hmacsha256_update(&state, auth->nonces[0], sizeof(auth->nonces));
    crypto_auth_hmacsha256_final(&state, ret_proof);
    sodium_memzero(&state, sizeof(state));
}

static bool is_proof(const struct rg_auth *auth, enum role role, const uint8_t *proof)
{
    uint8_t expected[RG_AUTH_PROOF_NBYTES];

    make_proof(auth, role, expected);
    bool same = sodium_memcmp(expected, proof, sizeof(expected)) == 0;

    sodium_memzero(expected, sizeof(expected));
    return same;
}

int rg_auth_start(struct rg_auth *auth, bool initiator, const uint8_t *key, const char *label,
                  uint8_t *ret_message, size_t *ret_nbytes)
{
    size_t length = strlen(label);
    int rc = length > RG_AUTH_LABEL_MAX ? -EINVAL : rg_crypto_init();

    rg_auth_wipe(auth);
    if (rc < 0)
        return rc;
    auth->initiator = initiator;
    memcpy(auth->key, key, sizeof(auth->key));
    memcpy(auth->label, label, length + 1);
    auth->wanted = initiator ? RG_AUTH_ANSWER_NBYTES : RG_AUTH_HELLO_NBYTES;
    if (initiator) {
        randombytes_buf(auth->nonces[0], RG_AUTH_NONCE_NBYTES);
        memcpy(ret_message, auth->nonces[0], RG_AUTH_NONCE_NBYTES);
        make_proof(auth, HELLO, ret_message + RG_AUTH_NONCE_NBYTES);
    }
    *ret_nbytes = initiator ? RG_AUTH_HELLO_NBYTES : 0;
    return 0;
}

size_t rg_auth_wanted(const struct rg_auth *auth)
{
    return auth->wanted;
}

bool rg_auth_done(const struct rg_auth *auth)
{
    return auth->proven;
}

/* Until here the responder's nonce is zeros, on both sides. */
static int take_hello(struct rg_auth *auth, const uint8_t *message, uint8_t *ret_message,
                      size_t *ret_nbytes)
{
    *ret_nbytes = RG_AUTH_ANSWER_NBYTES;
    memcpy(auth->nonces[0], message, RG_AUTH_NONCE_NBYTES);
    if (!is_proof(auth, HELLO, message + RG_AUTH_NONCE_NBYTES)) {
        memset(ret_message, 0, RG_AUTH_ANSWER_NBYTES);
        return -EACCES;
    }
    randombytes_buf(auth->nonces[1], RG_AUTH_NONCE_NBYTES);
    memcpy(ret_message, auth->nonces[1], RG_AUTH_NONCE_NBYTES);
    make_proof(auth, RESPONDER, ret_message + RG_AUTH_NONCE_NBYTES);
    auth->wanted = RG_AUTH_CONFIRM_NBYTES;
    auth->answered = true;
    return 0;
}

static int take_answer(struct rg_auth *auth, const uint8_t *message, uint8_t *ret_message,
                       size_t *ret_nbytes)
{
    memcpy(auth->nonces[1], message, RG_AUTH_NONCE_NBYTES);
    if (!is_proof(auth, RESPONDER, message + RG_AUTH_NONCE_NBYTES))
        return -EACCES;
    make_proof(auth, INITIATOR, ret_message);
    *ret_nbytes = RG_AUTH_CONFIRM_NBYTES;
    auth->wanted = 0;
    auth->proven = true;
    return 0;
}

static int take_confirm(struct rg_auth *auth, const uint8_t *message)
{
    if (!is_proof(auth, INITIATOR, message))
        return -EACCES;
    auth->wanted = 0;
    auth->proven = true;
    return 0;
}

int rg_auth_receive(struct rg_auth *auth, const void *message, size_t nbytes,
                    uint8_t *ret_message, size_t *ret_nbytes)
{
    int rc = 0;

    *ret_nbytes = 0;
    if (auth->wanted == 0 || nbytes != auth->wanted)
        rc = -EPROTO;
    else if (auth->initiator)
        rc = take_answer(auth, message, ret_message, ret_nbytes);
    else if (!auth->answered)
        rc = take_hello(auth, message, ret_message, ret_nbytes);
    else
        rc = take_confirm(auth, message);
    if (rc < 0)
        rg_auth_wipe(auth);
    return rc;
}
