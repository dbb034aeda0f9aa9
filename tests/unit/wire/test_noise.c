/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "wire/crypto/crypto.h"
#include "wire/crypto/noise.h"

/*
 * The vector of this protocol from vectors/cacophony.txt of the Haskell implementation "cacophony"
 * (repository haskell-cryptography/cacophony), which other implementations check themselves by.
 * Messages 1 and 2 are the handshake; then initiator and responder take turns.
 */
static const char vector_prologue[] = "4a6f686e2047616c74";
static const char vector_psk[] = "54686973206973206d7920417573747269616e20706572737065637469766521";
static const char *const vector_ephemeral[2] = {
    "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
    "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
};
static const struct {
    const char *payload;
    const char *ciphertext;
} vector_messages[] = {
    { "4c756477696720766f6e204d69736573",
      "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944"
      "79b962b8aff8485742ac32f905ba45369e2465fb59e138a93d67a0d1266b6a54" },
    { "4d757272617920526f746862617264",
      "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843"
      "d6062704d5a9c422a8e834423f8c1feada7e8d0d910a1a2cd030fb584221e3" },
    { "462e20412e20486179656b", "e632c3763d7669067383433197a3baddf146e9e70ad4b4e9e59e0f" },
    { "4361726c204d656e676572", "64c6bee32ea91c8474bb4c21d7a700109ad45af77b29764ba5eb1e" },
    { "4a65616e2d426170746973746520536179",
      "e2fa0bed0603b62d3ccac2ecabbf3fe33f3e86514909b323361626266cb2471cc8" },
    { "457567656e2042f6686d20766f6e2042617765726b",
      "0c01dc9cec1fe4ddd692e8dd32188aa351088dc91183639a53b57aa4692b5ebdef8b8ca111" },
};

static size_t unhex(const char *hex, uint8_t *bytes, size_t size)
{
    size_t nbytes;

    assert_int_equal(sodium_hex2bin(bytes, size, hex, strlen(hex), NULL, &nbytes, NULL), 0);
    return nbytes;
}

static void start_vector(struct rg_noise sides[2])
{
    uint8_t prologue[16], psk[32], secret[32];
    size_t nbytes = unhex(vector_prologue, prologue, sizeof(prologue));

    unhex(vector_psk, psk, sizeof(psk));
    for (int i = 0; i < 2; i++) {
        unhex(vector_ephemeral[i], secret, sizeof(secret));
        assert_int_equal(
            rg_noise_start_fixed(&sides[i], i == 0, psk, prologue, nbytes, secret), 0);
    }
}

static void published_vector_is_reproduced(void **state)
{
    struct rg_noise sides[2];
    struct rg_noise_cipher send[2], receive[2];

    (void) state;
    start_vector(sides);
    for (size_t i = 0; i < 6; i++) {
        uint8_t payload[64], expected[128], sealed[128], opened[64];
        size_t nbytes = unhex(vector_messages[i].payload, payload, sizeof(payload));
        size_t total = unhex(vector_messages[i].ciphertext, expected, sizeof(expected));
        size_t from = i % 2;

        if (i < 2) {
            assert_int_equal(rg_noise_write(&sides[from], payload, nbytes, sealed), 0);
            assert_int_equal(total, nbytes + RG_NOISE_OVERHEAD);
            assert_memory_equal(sealed, expected, total);
            assert_int_equal(rg_noise_read(&sides[1 - from], sealed, total, opened), 0);
        } else {
            assert_int_equal(rg_noise_seal(&send[from], payload, nbytes, sealed), 0);
            assert_int_equal(total, nbytes + RG_NOISE_TAG_NBYTES);
            assert_memory_equal(sealed, expected, total);
            assert_int_equal(rg_noise_open(&receive[1 - from], sealed, total, opened), 0);
        }
        assert_memory_equal(opened, payload, nbytes);
        if (i == 1) {
            assert_memory_equal(sides[0].hash, sides[1].hash, sizeof(sides[0].hash));
            for (int s = 0; s < 2; s++)
                assert_int_equal(rg_noise_split(&sides[s], &send[s], &receive[s]), 0);
        }
    }
}

static void fresh_handshakes_never_repeat(void **state)
{
    static const uint8_t psk[32] = { 1 };
    struct rg_noise a, b;
    uint8_t first[RG_NOISE_OVERHEAD], second[RG_NOISE_OVERHEAD];

    (void) state;
    assert_int_equal(rg_noise_start(&a, true, psk, "p", 1), 0);
    assert_int_equal(rg_noise_start(&b, true, psk, "p", 1), 0);
    assert_int_equal(rg_noise_write(&a, "", 0, first), 0);
    assert_int_equal(rg_noise_write(&b, "", 0, second), 0);
    assert_memory_not_equal(first, second, sizeof(first));
}

static void messages_out_of_turn_are_refused(void **state)
{
    struct rg_noise sides[2];
    struct rg_noise_cipher send, receive;
    uint8_t message[RG_NOISE_OVERHEAD], nothing[1];

    (void) state;
    start_vector(sides);
    assert_int_equal(rg_noise_write(&sides[1], "", 0, message), -EPROTO);
    assert_int_equal(rg_noise_read(&sides[0], message, sizeof(message), nothing), -EPROTO);
    assert_int_equal(rg_noise_split(&sides[0], &send, &receive), -EPROTO);
    assert_int_equal(rg_noise_write(&sides[0], "", 0, message), 0);
    assert_int_equal(rg_noise_write(&sides[0], "", 0, message), -EPROTO);
    assert_int_equal(rg_noise_read(&sides[1], message, sizeof(message), nothing), 0);
    assert_int_equal(rg_noise_read(&sides[1], message, sizeof(message), nothing), -EPROTO);
}

static void handshake_with(const uint8_t *psk_a, const uint8_t *psk_b, const char *prologue_a,
                           const char *prologue_b, int expected)
{
    struct rg_noise a, b;
    uint8_t message[RG_NOISE_OVERHEAD], nothing[1];

    assert_int_equal(rg_noise_start(&a, true, psk_a, prologue_a, strlen(prologue_a)), 0);
    assert_int_equal(rg_noise_start(&b, false, psk_b, prologue_b, strlen(prologue_b)), 0);
    assert_int_equal(rg_noise_write(&a, "", 0, message), 0);
    assert_int_equal(rg_noise_read(&b, message, sizeof(message), nothing), expected);
}

static void key_and_prologue_must_agree(void **state)
{
    static const uint8_t one[32] = { 1 }, other[32] = { 2 };

    (void) state;
    handshake_with(one, one, "same", "same", 0);
    handshake_with(one, other, "same", "same", -EBADMSG);
    handshake_with(one, one, "same", "samf", -EBADMSG);
    handshake_with(one, one, "same", "", -EBADMSG);
}

static void every_damaged_bit_of_a_handshake_is_seen(void **state)
{
    uint8_t first[RG_NOISE_OVERHEAD], second[RG_NOISE_OVERHEAD], nothing[1];

    (void) state;
    for (size_t bit = 0; bit < 8 * RG_NOISE_OVERHEAD; bit += 3) {
        struct rg_noise sides[2];

        start_vector(sides);
        assert_int_equal(rg_noise_write(&sides[0], "", 0, first), 0);
        struct rg_noise fresh = sides[1];

        first[bit / 8] ^= (uint8_t) (1 << bit % 8);
        assert_int_equal(rg_noise_read(&sides[1], first, sizeof(first), nothing), -EBADMSG);
        assert_int_equal(rg_noise_write(&sides[1], "", 0, second), -EPROTO); /* it is over */
        first[bit / 8] ^= (uint8_t) (1 << bit % 8);
        assert_int_equal(rg_noise_read(&fresh, first, sizeof(first), nothing), 0);
        assert_int_equal(rg_noise_write(&fresh, "", 0, second), 0);
        second[bit / 8] ^= (uint8_t) (1 << bit % 8);
        assert_int_equal(rg_noise_read(&sides[0], second, sizeof(second), nothing), -EBADMSG);
    }
}

static void handshake_of_any_other_length_is_refused(void **state)
{
    uint8_t message[RG_NOISE_OVERHEAD + 1] = { 0 }, nothing[2];

    (void) state;
    for (size_t n = 0; n <= RG_NOISE_OVERHEAD + 1; n++) {
        struct rg_noise sides[2];

        start_vector(sides);
        assert_int_equal(rg_noise_write(&sides[0], "", 0, message), 0);
        assert_int_equal(rg_noise_read(&sides[1], message, n, nothing),
                         n == RG_NOISE_OVERHEAD ? 0 : -EBADMSG);
    }
}

/* A point of low order would make the shared secret a constant. */
static void public_key_of_low_order_is_refused(void **state)
{
    static const uint8_t psk[32] = { 3 };
    struct rg_noise a, b;
    uint8_t message[RG_NOISE_OVERHEAD], nothing[1];

    (void) state;
    assert_int_equal(rg_noise_start(&a, true, psk, "", 0), 0);
    assert_int_equal(rg_noise_start(&b, false, psk, "", 0), 0);
    memset(a.public, 0, sizeof(a.public));
    assert_int_equal(rg_noise_write(&a, "", 0, message), 0);
    assert_int_equal(rg_noise_read(&b, message, sizeof(message), nothing), 0);
    assert_int_equal(rg_noise_write(&b, "", 0, message), -EBADMSG);
}

static void transport_keeps_order_and_integrity(void **state)
{
    struct rg_noise_cipher send = { .key = { 1 } }, receive = { .key = { 1 } };
    uint8_t one[4 + RG_NOISE_TAG_NBYTES], two[4 + RG_NOISE_TAG_NBYTES], opened[4];

    (void) state;
    assert_int_equal(rg_noise_seal(&send, "one!", 4, one), 0);
    assert_int_equal(rg_noise_seal(&send, "two!", 4, two), 0);
    assert_int_equal(rg_noise_open(&receive, two, sizeof(two), opened), -EBADMSG);
    assert_int_equal(rg_noise_open(&receive, one, sizeof(one) - 1, opened), -EBADMSG);
    assert_int_equal(rg_noise_open(&receive, one, 3, opened), -EBADMSG);
    assert_int_equal(rg_noise_open(&receive, one, sizeof(one), opened), 0);
    assert_int_equal(rg_noise_open(&receive, one, sizeof(one), opened), -EBADMSG);
    assert_int_equal(rg_noise_open(&receive, two, sizeof(two), opened), 0);
    assert_memory_equal(opened, "two!", 4);
}

static void counter_never_wraps_and_sizes_are_capped(void **state)
{
    struct rg_noise_cipher send = { .counter = UINT64_MAX };
    static uint8_t large[RG_NOISE_MESSAGE_MAX + 1];

    (void) state;
    assert_int_equal(rg_noise_seal(&send, "x", 1, large), -EOVERFLOW);
    assert_int_equal(rg_noise_open(&send, large, 17, large), -EOVERFLOW);
    send.counter = 0;
    assert_int_equal(rg_noise_seal(&send, large, RG_NOISE_MESSAGE_MAX - RG_NOISE_TAG_NBYTES + 1,
                                   large), -EMSGSIZE);
    assert_int_equal(rg_noise_seal(&send, large, RG_NOISE_MESSAGE_MAX - RG_NOISE_TAG_NBYTES, large),
                     0);
    assert_int_equal(rg_noise_open(&send, large, sizeof(large), large), -EBADMSG);
}

static void wipe_leaves_no_secret(void **state)
{
    struct rg_noise sides[2];
    static const uint8_t zeros[32];

    (void) state;
    start_vector(sides);
    rg_noise_wipe(&sides[0]);
    assert_memory_equal(sides[0].psk, zeros, 32);
    assert_memory_equal(sides[0].secret, zeros, 32);
    assert_memory_equal(sides[0].chaining_key, zeros, 32);
}

static int start_sodium(void **state)
{
    (void) state;
    return rg_crypto_init();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vector_is_reproduced),
        cmocka_unit_test(fresh_handshakes_never_repeat),
        cmocka_unit_test(messages_out_of_turn_are_refused),
        cmocka_unit_test(key_and_prologue_must_agree),
        cmocka_unit_test(every_damaged_bit_of_a_handshake_is_seen),
        cmocka_unit_test(handshake_of_any_other_length_is_refused),
        cmocka_unit_test(public_key_of_low_order_is_refused),
        cmocka_unit_test(transport_keeps_order_and_integrity),
        cmocka_unit_test(counter_never_wraps_and_sizes_are_capped),
        cmocka_unit_test(wipe_leaves_no_secret),
    };

    return cmocka_run_group_tests(tests, start_sodium, NULL);
}
