/* SPDX-License-Identifier: Apache-2.0 */
/*
 * X25519 (RFC 7748) in a few hundred instructions, for the static agent: libsodium's comes with
 * 90 KiB of other curves, of which the handshake uses nothing. Its time does not depend on secrets.
 *
 * Thread rule: any thread; nothing blocks.
 */
#ifndef RG_WIRE_X25519_H
#define RG_WIRE_X25519_H

#include <stdint.h>

#define RG_X25519_NBYTES 32

/* The point multiplied by the scalar. 0; -1 when the point has a small order, so that the result
 * is zero and no secret. */
int rg_x25519(uint8_t ret_point[RG_X25519_NBYTES], const uint8_t scalar[RG_X25519_NBYTES],
              const uint8_t point[RG_X25519_NBYTES]);

#endif
