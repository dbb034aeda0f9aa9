/* SPDX-License-Identifier: Apache-2.0 */
/* Where keys are made, kept and derived. */
#include <ctype.h>
#include <string.h>

#include "wire/crypto.h"
#include "wire/link.h"

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

int rg_key_parse(const char *hex, uint8_t ret_key[RG_KEY_NBYTES])
{
    uint8_t key[RG_KEY_NBYTES];
    size_t nbytes = 0;
    const char *end = NULL;

    while (isspace((unsigned char) *hex))
        hex++;
    int rc = sodium_hex2bin(key, sizeof(key), hex, strspn(hex, "0123456789abcdefABCDEF"), NULL,
                            &nbytes, &end);

    while (rc == 0 && isspace((unsigned char) *end))
        end++;
    bool good = rc == 0 && nbytes == RG_KEY_NBYTES && *end == '\0';

    if (good)
        memcpy(ret_key, key, RG_KEY_NBYTES);
    sodium_memzero(key, sizeof(key));
    return good ? 0 : -EINVAL;
}

void rg_key_format(const uint8_t key[RG_KEY_NBYTES], char *ret_hex)
{
    sodium_bin2hex(ret_hex, 2 * RG_KEY_NBYTES + 1, key, RG_KEY_NBYTES);
}

void rg_key_derive(const uint8_t key[RG_KEY_NBYTES], const char *purpose,
                   uint8_t ret_key[RG_KEY_NBYTES])
{
    uint8_t derived[RG_KEY_NBYTES]; /* ret_key may be key itself */

    crypto_generichash(derived, sizeof(derived), (const uint8_t *) purpose, strlen(purpose), key,
                       RG_KEY_NBYTES);
    memcpy(ret_key, derived, sizeof(derived));
    sodium_memzero(derived, sizeof(derived));
}
