/* SPDX-License-Identifier: Apache-2.0 */
/* The job's secret: drawn, written as text, and held in guarded memory; each purpose gets a key
 * derived from it. Tokens have the same kind of text. */
#include <string.h>

#include "wire/crypto/crypto.h"
#include "wire/link.h"
#include "wire/rankmsg.h"

int rg_key_generate(uint8_t ret_key[RG_KEY_NBYTES])
{
    int rc = rg_crypto_init();

    if (rc == 0)
        randombytes_buf(ret_key, RG_KEY_NBYTES);
    return rc;
}

uint8_t *rg_key_hold(const uint8_t *key)
{
    uint8_t *held = rg_crypto_init() < 0 ? NULL : sodium_malloc(RG_KEY_NBYTES);

    if (held && key)
        memcpy(held, key, RG_KEY_NBYTES);
    else if (held)
        memset(held, 0, RG_KEY_NBYTES);
    return held;
}

void rg_key_drop(uint8_t *key)
{
    sodium_free(key);
}

/* length digits to nbytes, not more than a key's. 0 or -EINVAL; ret_bytes is untouched then. */
static int parse_hex(const char *hex, size_t length, uint8_t *ret_bytes, size_t nbytes)
{
    uint8_t bytes[RG_KEY_NBYTES];
    size_t n = 0;
    bool good = length == 2 * nbytes &&
                sodium_hex2bin(bytes, nbytes, hex, length, NULL, &n, NULL) == 0 && n == nbytes;

    if (good)
        memcpy(ret_bytes, bytes, nbytes);
    sodium_memzero(bytes, sizeof(bytes));
    return good ? 0 : -EINVAL;
}

int rg_key_parse(const char *hex, uint8_t ret_key[RG_KEY_NBYTES])
{
    static const char blanks[] = " \t\n\v\f\r";

    hex += strspn(hex, blanks);
    size_t length = strcspn(hex, blanks);
    const char *rest = hex + length + strspn(hex + length, blanks);

    return *rest ? -EINVAL : parse_hex(hex, length, ret_key, RG_KEY_NBYTES);
}

/* HMAC-SHA256 of the text and of last, where there is one. ret_mac may be key itself. */
static void mac_of(const uint8_t key[RG_KEY_NBYTES], const char *text, const uint8_t *last,
                   uint8_t ret_mac[RG_KEY_NBYTES])
{
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, key, RG_KEY_NBYTES);
    crypto_auth_hmacsha256_update(&state, (const uint8_t *) text, strlen(text));
    if (last)
        crypto_auth_hmacsha256_update(&state, last, 1);
    crypto_auth_hmacsha256_final(&state, ret_mac);
    sodium_memzero(&state, sizeof(state));
}

void rg_key_extract(const void *secret, size_t nbytes, const char *info,
                    uint8_t ret_key[RG_KEY_NBYTES])
{
    static const uint8_t salt[crypto_auth_hmacsha256_KEYBYTES], first = 1;
    uint8_t prk[crypto_auth_hmacsha256_BYTES];

    crypto_auth_hmacsha256(prk, secret, nbytes, salt);
    mac_of(prk, info, &first, ret_key);
    sodium_memzero(prk, sizeof(prk));
}

int rg_rank_token_parse(const char *text, uint8_t ret_token[RG_RANK_TOKEN_NBYTES])
{
    return text ? parse_hex(text, strlen(text), ret_token, RG_RANK_TOKEN_NBYTES) : -EINVAL;
}

void rg_rank_token_format(const uint8_t token[RG_RANK_TOKEN_NBYTES], char *ret_text)
{
    sodium_bin2hex(ret_text, RG_RANK_TOKEN_TEXT, token, RG_RANK_TOKEN_NBYTES);
}

void rg_key_format(const uint8_t key[RG_KEY_NBYTES], char *ret_hex)
{
    sodium_bin2hex(ret_hex, 2 * RG_KEY_NBYTES + 1, key, RG_KEY_NBYTES);
}

void rg_key_derive(const uint8_t key[RG_KEY_NBYTES], const char *purpose,
                   uint8_t ret_key[RG_KEY_NBYTES])
{
    mac_of(key, purpose, NULL, ret_key);
}
