/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting libsodium. Every entry point of this layer that draws randomness or allocates locked
 * memory calls it first.
 *
 * Thread rule: any thread; libsodium does the work once, under a lock of its own. Blocks only while
 * a freshly booted kernel has no entropy yet.
 */
#ifndef RG_WIRE_CRYPTO_CRYPTO_H
#define RG_WIRE_CRYPTO_CRYPTO_H

#include <errno.h>
#include <sodium.h>

/* 0, or -ENOSYS when the system gives no randomness. */
static inline int rg_crypto_init(void)
{
    return sodium_init() < 0 ? -ENOSYS : 0;
}

#endif
