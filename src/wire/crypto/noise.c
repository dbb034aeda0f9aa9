/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake Noise_NNpsk0 over libsodium: no other pattern is needed, so none is there. */
#include "wire/crypto/noise.h"

#include <errno.h>
#include <string.h>

#include "wire/crypto/crypto.h"

#define PROTOCOL_NAME "Noise_NNpsk0_25519_ChaChaPoly_SHA256"

_Static_assert(crypto_scalarmult_BYTES == RG_NOISE_KEY_NBYTES &&
                   crypto_aead_chacha20poly1305_ietf_KEYBYTES == RG_NOISE_KEY_NBYTES &&
                   crypto_aead_chacha20poly1305_ietf_ABYTES == RG_NOISE_TAG_NBYTES &&
                   crypto_hash_sha256_BYTES == RG_NOISE_HASH_NBYTES,
               "the primitives' sizes are those of the protocol");

struct piece {
    const void *bytes;
    size_t nbytes;
};

static void hmac(const uint8_t *key, struct piece a, struct piece b, uint8_t *ret_mac)
{
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, key, RG_NOISE_HASH_NBYTES);
    crypto_auth_hmacsha256_update(&state, a.bytes, a.nbytes);
    crypto_auth_hmacsha256_update(&state, b.bytes, b.nbytes);
    crypto_auth_hmacsha256_final(&state, ret_mac);
    sodium_memzero(&state, sizeof(state));
}

/* HKDF of section 4.3: count outputs of 32 bytes each, into out[0 .. count - 1]. */
static void hkdf(const uint8_t *chaining_key, const void *input, size_t nbytes, int count,
                 uint8_t out[][RG_NOISE_HASH_NBYTES])
{
    uint8_t temp[RG_NOISE_HASH_NBYTES];

    hmac(chaining_key, (struct piece) { input, nbytes }, (struct piece) { "", 0 }, temp);
    for (int i = 0; i < count; i++) {
        uint8_t number = (uint8_t) (i + 1);
        struct piece before = { i ? out[i - 1] : temp, i ? RG_NOISE_HASH_NBYTES : 0 };

        hmac(temp, before, (struct piece) { &number, 1 }, out[i]);
    }
    sodium_memzero(temp, sizeof(temp));
}

static void mix_hash(struct rg_noise *noise, const void *bytes, size_t nbytes)
{
    crypto_hash_sha256_state state;

    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, noise->hash, sizeof(noise->hash));
    crypto_hash_sha256_update(&state, bytes, nbytes);
    crypto_hash_sha256_final(&state, noise->hash);
}

static void set_key(struct rg_noise *noise, const uint8_t *key)
{
    memcpy(noise->cipher.key, key, sizeof(noise->cipher.key));
    noise->cipher.counter = 0;
}

static void mix_key(struct rg_noise *noise, const uint8_t *input)
{
    uint8_t out[2][RG_NOISE_HASH_NBYTES];

    hkdf(noise->chaining_key, input, RG_NOISE_KEY_NBYTES, 2, out);
    memcpy(noise->chaining_key, out[0], sizeof(out[0]));
    set_key(noise, out[1]);
    sodium_memzero(out, sizeof(out));
}

static void mix_key_and_hash(struct rg_noise *noise, const uint8_t *input)
{
    uint8_t out[3][RG_NOISE_HASH_NBYTES];

    hkdf(noise->chaining_key, input, RG_NOISE_KEY_NBYTES, 3, out);
    memcpy(noise->chaining_key, out[0], sizeof(out[0]));
    mix_hash(noise, out[1], sizeof(out[1]));
    set_key(noise, out[2]);
    sodium_memzero(out, sizeof(out));
}

static void nonce_of(uint64_t counter, uint8_t nonce[12])
{
    memset(nonce, 0, 4);
    for (int i = 0; i < 8; i++)
        nonce[4 + i] = (uint8_t) (counter >> (8 * i));
}

static int seal_with(struct rg_noise_cipher *cipher, struct piece ad, const void *plain,
                     size_t nbytes, uint8_t *ret_sealed)
{
    uint8_t nonce[12];

    if (nbytes > RG_NOISE_MESSAGE_MAX - RG_NOISE_TAG_NBYTES)
        return -EMSGSIZE;
    if (cipher->counter == UINT64_MAX)
        return -EOVERFLOW;
    nonce_of(cipher->counter++, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt(ret_sealed, NULL, plain, nbytes, ad.bytes, ad.nbytes,
                                              NULL, nonce, cipher->key);
    return 0;
}

static int open_with(struct rg_noise_cipher *cipher, struct piece ad, const void *sealed,
                     size_t nbytes, uint8_t *ret_plain)
{
    uint8_t nonce[12];

    if (nbytes < RG_NOISE_TAG_NBYTES || nbytes > RG_NOISE_MESSAGE_MAX)
        return -EBADMSG;
    if (cipher->counter == UINT64_MAX)
        return -EOVERFLOW;
    nonce_of(cipher->counter, nonce);
    if (crypto_aead_chacha20poly1305_ietf_decrypt(ret_plain, NULL, NULL, sealed, nbytes, ad.bytes,
                                                  ad.nbytes, nonce, cipher->key) != 0)
        return -EBADMSG;
    cipher->counter++;
    return 0;
}

int rg_noise_seal(struct rg_noise_cipher *cipher, const void *plain, size_t nbytes,
                  uint8_t *ret_sealed)
{
    return seal_with(cipher, (struct piece) { NULL, 0 }, plain, nbytes, ret_sealed);
}

int rg_noise_open(struct rg_noise_cipher *cipher, const void *sealed, size_t nbytes,
                  uint8_t *ret_plain)
{
    return open_with(cipher, (struct piece) { NULL, 0 }, sealed, nbytes, ret_plain);
}

int rg_noise_start_fixed(struct rg_noise *noise, bool initiator, const uint8_t *psk,
                         const void *prologue, size_t nbytes, const uint8_t *secret)
{
    memset(noise, 0, sizeof(*noise));
    noise->initiator = initiator;
    /* The name is longer than a hash, so its hash stands for it (section 5.2). */
    crypto_hash_sha256(noise->hash, (const uint8_t *) PROTOCOL_NAME, strlen(PROTOCOL_NAME));
    memcpy(noise->chaining_key, noise->hash, sizeof(noise->hash));
    mix_hash(noise, prologue, nbytes);
    memcpy(noise->psk, psk, sizeof(noise->psk));
    memcpy(noise->secret, secret, sizeof(noise->secret));
    crypto_scalarmult_base(noise->public, noise->secret);
    return 0;
}

int rg_noise_start(struct rg_noise *noise, bool initiator, const uint8_t *psk,
                   const void *prologue, size_t nbytes)
{
    uint8_t secret[RG_NOISE_KEY_NBYTES];
    int rc = rg_crypto_init();

    if (rc < 0)
        return rc;
    randombytes_buf(secret, sizeof(secret));
    rc = rg_noise_start_fixed(noise, initiator, psk, prologue, nbytes, secret);
    sodium_memzero(secret, sizeof(secret));
    return rc;
}

void rg_noise_wipe(struct rg_noise *noise)
{
    sodium_memzero(noise, sizeof(*noise));
    noise->messages = -1;
}

/* The tokens before the payload, the same for who writes and who reads; key is the ephemeral public
 * key of the message. 0 or -EBADMSG. */
static int mix_tokens(struct rg_noise *noise, const uint8_t *key)
{
    uint8_t shared[RG_NOISE_KEY_NBYTES];

    if (noise->messages == 0)
        mix_key_and_hash(noise, noise->psk);
    mix_hash(noise, key, RG_NOISE_KEY_NBYTES);
    mix_key(noise, key); /* what a psk modifier adds to every "e" (section 9.2) */
    if (noise->messages == 0)
        return 0;
    if (crypto_scalarmult(shared, noise->secret, noise->peer_public) != 0)
        return -EBADMSG;
    mix_key(noise, shared);
    sodium_memzero(shared, sizeof(shared));
    return 0;
}

static bool is_turn_of(const struct rg_noise *noise, bool initiator)
{
    return noise->messages == (initiator ? 0 : 1);
}

static int end(struct rg_noise *noise, int rc)
{
    rg_noise_wipe(noise);
    return rc;
}

int rg_noise_write(struct rg_noise *noise, const void *payload, size_t nbytes,
                   uint8_t *ret_message)
{
    uint8_t *sealed = ret_message + RG_NOISE_KEY_NBYTES;
    struct piece ad = { noise->hash, sizeof(noise->hash) };

    if (!is_turn_of(noise, noise->initiator))
        return -EPROTO;
    if (nbytes > RG_NOISE_MESSAGE_MAX - RG_NOISE_OVERHEAD)
        return -EMSGSIZE;
    int rc = mix_tokens(noise, noise->public);

    if (rc == 0)
        rc = seal_with(&noise->cipher, ad, payload, nbytes, sealed);
    if (rc < 0)
        return end(noise, rc);
    memcpy(ret_message, noise->public, RG_NOISE_KEY_NBYTES);
    mix_hash(noise, sealed, nbytes + RG_NOISE_TAG_NBYTES);
    noise->messages++;
    return 0;
}

int rg_noise_read(struct rg_noise *noise, const void *message, size_t nbytes, uint8_t *ret_payload)
{
    const uint8_t *sealed = (const uint8_t *) message + RG_NOISE_KEY_NBYTES;
    struct piece ad = { noise->hash, sizeof(noise->hash) };

    if (!is_turn_of(noise, !noise->initiator))
        return -EPROTO;
    if (nbytes < RG_NOISE_OVERHEAD || nbytes > RG_NOISE_MESSAGE_MAX)
        return end(noise, -EBADMSG);
    memcpy(noise->peer_public, message, RG_NOISE_KEY_NBYTES);
    int rc = mix_tokens(noise, noise->peer_public);

    if (rc == 0)
        rc = open_with(&noise->cipher, ad, sealed, nbytes - RG_NOISE_KEY_NBYTES, ret_payload);
    if (rc < 0)
        return end(noise, -EBADMSG);
    mix_hash(noise, sealed, nbytes - RG_NOISE_KEY_NBYTES);
    noise->messages++;
    return 0;
}

int rg_noise_split(const struct rg_noise *noise, struct rg_noise_cipher *ret_send,
                   struct rg_noise_cipher *ret_receive)
{
    uint8_t out[2][RG_NOISE_HASH_NBYTES];
    int ours = noise->initiator ? 0 : 1;

    if (noise->messages != 2)
        return -EPROTO;
    hkdf(noise->chaining_key, "", 0, 2, out);
    memcpy(ret_send->key, out[ours], sizeof(ret_send->key));
    memcpy(ret_receive->key, out[1 - ours], sizeof(ret_receive->key));
    ret_send->counter = ret_receive->counter = 0;
    sodium_memzero(out, sizeof(out));
    return 0;
}
