/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake's multiplication on Curve25519 by BearSSL, for the static agent: libsodium's comes
 * with 90 KiB of other curves, and BearSSL's with nothing. These functions stand in the place of
 * libsodium's, whose header has their contracts. Where there is no BearSSL this file is left out,
 * and the agent is larger.
 */
#include <string.h>

#include <bearssl.h>
#include <sodium.h>

#define NBYTES crypto_scalarmult_BYTES
#define STACK_NBYTES 2048 /* BearSSL takes half of it, and does not wipe it */

int _crypto_scalarmult_curve25519_pick_best_implementation(void);

/* sodium_init() calls it to choose the code for this processor. */
int _crypto_scalarmult_curve25519_pick_best_implementation(void)
{
    return 0;
}

/* BearSSL clamps the scalar and passes over the point's highest bit, as RFC 7748 wants it; both
 * have the lowest byte first. A point of small order makes zero, which is no secret. */
int crypto_scalarmult(unsigned char *q, const unsigned char *n, const unsigned char *p)
{
    memmove(q, p, NBYTES);
    uint32_t done = br_ec_c25519_m31.mul(q, NBYTES, n, NBYTES, BR_EC_curve25519);
    sodium_stackzero(STACK_NBYTES);
    return done && !sodium_is_zero(q, NBYTES) ? 0 : -1;
}

int crypto_scalarmult_base(unsigned char *q, const unsigned char *n)
{
    static const unsigned char base[NBYTES] = { 9 };

    return crypto_scalarmult(q, n, base);
}
