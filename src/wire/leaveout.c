/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the static agent and libreigen.so have in the place of parts of libsodium. The archive's
 * members are linked whole, and sodium_init() names those of every algorithm: other hashes, another
 * cipher and, in the agent, other curves would come along, a quarter of it. With the names
 * defined here they stay in the archive. If another version of a library calls them otherwise, the
 * agent works, and the test of its size tells.
 */
#include <stdint.h>

#include <sodium.h>

int _crypto_pwhash_argon2_pick_best_implementation(void);
int _crypto_stream_salsa20_pick_best_implementation(void);
int _crypto_generichash_blake2b_pick_best_implementation(void);

/* sodium_init() calls them to choose the code for this processor; nothing here is ever used. */
int _crypto_pwhash_argon2_pick_best_implementation(void)
{
    return 0;
}

int _crypto_stream_salsa20_pick_best_implementation(void)
{
    return 0;
}

int _crypto_generichash_blake2b_pick_best_implementation(void)
{
    return 0;
}
