/* SPDX-License-Identifier: Apache-2.0 */
/* Handshake and transport messages: whatever differs from what the peer wrote is refused. */
#include "fuzz.h"
#include "wire/crypto/noise.h"

static const uint8_t psk[RG_NOISE_KEY_NBYTES] = { 7 };
static const uint8_t secret_a[RG_NOISE_KEY_NBYTES] = { 1 };
static const uint8_t secret_b[RG_NOISE_KEY_NBYTES] = { 2 };

static void start(struct rg_noise *a, struct rg_noise *b)
{
    must(rg_noise_start_fixed(a, true, psk, "p", 1, secret_a) == 0);
    must(rg_noise_start_fixed(b, false, psk, "p", 1, secret_b) == 0);
}

/* The input instead of the first message. */
static void replace_first(const uint8_t *data, size_t nbytes)
{
    struct rg_noise a, b;
    uint8_t good[RG_NOISE_OVERHEAD];
    uint8_t *payload = malloc(nbytes + 1);

    must(payload != NULL);
    start(&a, &b);
    must(rg_noise_write(&a, "", 0, good) == 0);
    bool same = nbytes == sizeof(good) && memcmp(data, good, nbytes) == 0;

    must((rg_noise_read(&b, data, nbytes, payload) == 0) == same);
    free(payload);
}

/* The input instead of the second message, and of a transport message. */
static void replace_later(const uint8_t *data, size_t nbytes)
{
    struct rg_noise a, b;
    struct rg_noise_cipher send, receive;
    uint8_t first[RG_NOISE_OVERHEAD], second[RG_NOISE_OVERHEAD];
    uint8_t *payload = malloc(nbytes + 1);

    must(payload != NULL);
    start(&a, &b);
    must(rg_noise_write(&a, "", 0, first) == 0);
    must(rg_noise_read(&b, first, sizeof(first), payload) == 0);
    must(rg_noise_write(&b, "", 0, second) == 0);
    must(rg_noise_split(&b, &send, &receive) == 0);
    must(rg_noise_open(&receive, data, nbytes, payload) < 0);
    bool same = nbytes == sizeof(second) && memcmp(data, second, nbytes) == 0;

    must((rg_noise_read(&a, data, nbytes, payload) == 0) == same);
    free(payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    replace_first(data, nbytes);
    replace_later(data, nbytes);
    return 0;
}
