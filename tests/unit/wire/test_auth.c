/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "wire/auth.h"
#include "wire/link.h"

static uint8_t key[RG_AUTH_KEY_NBYTES], other_key[RG_AUTH_KEY_NBYTES];

static int make_keys(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t) i;
    memcpy(other_key, key, sizeof(key));
    other_key[31] ^= 1;
    return 0;
}

struct side {
    struct rg_auth auth;
    uint8_t out[RG_AUTH_MESSAGE_MAX];
    size_t nbytes;
};

static void start(struct side *side, bool initiator, const uint8_t *with, const char *label)
{
    assert_int_equal(rg_auth_start(&side->auth, initiator, with, label, side->out, &side->nbytes),
                     0);
}

static int pass(const struct side *from, struct side *to)
{
    return rg_auth_receive(&to->auth, from->out, from->nbytes, to->out, &to->nbytes);
}

static void both_sides_prove_themselves_in_three_messages(void **state)
{
    struct side a, b;

    (void) state;
    start(&a, true, key, "data 3 5");
    start(&b, false, key, "data 3 5");
    assert_int_equal(a.nbytes, RG_AUTH_HELLO_NBYTES);
    assert_int_equal(b.nbytes, 0);
    assert_int_equal(rg_auth_wanted(&b.auth), RG_AUTH_HELLO_NBYTES);
    assert_int_equal(pass(&a, &b), 0);
    assert_false(rg_auth_done(&b.auth));
    assert_int_equal(rg_auth_wanted(&a.auth), b.nbytes);
    assert_int_equal(pass(&b, &a), 0);
    assert_true(rg_auth_done(&a.auth));
    assert_int_equal(rg_auth_wanted(&a.auth), 0);
    assert_int_equal(rg_auth_wanted(&b.auth), a.nbytes);
    assert_int_equal(pass(&a, &b), 0);
    assert_true(rg_auth_done(&b.auth));
    assert_int_equal(b.nbytes, 0);
    assert_int_equal(pass(&a, &b), -EPROTO); /* nothing may follow */
}

#define HELLO_PROOF "5e1fd3477c48d803695a0cf61c5ea17afc67441a3b0de1a05470a51278b4c5ca"
#define RESPONDER_PROOF "23d4630c4de1366fa76cca816322667f9d349cd1fdf78a3816deea6ecf07ba75"
#define INITIATOR_PROOF "2f969b34bf9fde40dd8dc0676c5679c960f7f4cbad435f36dd1c60b09acd435a"

/* Proofs computed by Python's hmac with SHA-256 over the bytes that wire/auth.h describes. */
static void proofs_are_those_of_the_description(void **state)
{
    uint8_t expected[RG_AUTH_PROOF_NBYTES];
    struct side a, b;

    (void) state;
    start(&a, true, key, "data 3 5");
    start(&b, false, key, "data 3 5");
    memset(a.auth.nonces[0], 1, RG_AUTH_NONCE_NBYTES);
    memset(a.out, 1, RG_AUTH_NONCE_NBYTES);
    assert_int_equal(rg_key_parse(HELLO_PROOF, a.out + RG_AUTH_NONCE_NBYTES), 0);
    assert_int_equal(pass(&a, &b), 0);
    /* What the responder has drawn is replaced, and its proof made anew. */
    memset(b.out, 2, RG_AUTH_NONCE_NBYTES);
    memset(b.auth.nonces[1], 2, RG_AUTH_NONCE_NBYTES);
    assert_int_equal(rg_key_parse(RESPONDER_PROOF, b.out + RG_AUTH_NONCE_NBYTES), 0);
    assert_int_equal(pass(&b, &a), 0);
    assert_int_equal(rg_key_parse(INITIATOR_PROOF, expected), 0);
    assert_memory_equal(a.out, expected, sizeof(expected));
    assert_int_equal(pass(&a, &b), 0);
}

/* Nothing that is made of the key is told to who has not shown that he has it. */
static void the_caller_proves_first(void **state)
{
    static const uint8_t nothing[RG_AUTH_ANSWER_NBYTES];
    struct side a, b;

    (void) state;
    for (size_t i = 0; i < RG_AUTH_HELLO_NBYTES; i++) {
        start(&a, true, key, "dial worker-0");
        start(&b, false, key, "dial worker-0");
        memset(b.out, 42, sizeof(b.out));
        a.out[i] ^= 1;
        assert_int_equal(pass(&a, &b), -EACCES);
        assert_int_equal(b.nbytes, sizeof(nothing));
        assert_memory_equal(b.out, nothing, sizeof(nothing));
        assert_int_equal(pass(&b, &a), -EACCES); /* by which the caller learns of it */
        assert_int_equal(a.nbytes, 0);
    }
}

static void exchange_fails(const uint8_t *key_b, const char *label_b)
{
    static const uint8_t zeros[RG_AUTH_KEY_NBYTES];
    struct side a, b;

    start(&a, true, key, "data 0 1");
    start(&b, false, key_b, label_b);
    assert_int_equal(pass(&a, &b), -EACCES);
    assert_false(rg_auth_done(&b.auth));
    assert_memory_equal(b.auth.key, zeros, sizeof(zeros));
    assert_int_equal(pass(&b, &a), -EACCES);
    assert_false(rg_auth_done(&a.auth));
    assert_int_equal(rg_auth_wanted(&a.auth), 0);
    assert_memory_equal(a.auth.key, zeros, sizeof(zeros));
}

static void wrong_key_or_label_is_refused(void **state)
{
    (void) state;
    exchange_fails(other_key, "data 0 1");
    exchange_fails(key, "data 0 2");
    exchange_fails(key, "data 0 11");
    exchange_fails(key, "");
}

static void every_damaged_byte_is_seen(void **state)
{
    (void) state;
    for (size_t i = 0; i < RG_AUTH_ANSWER_NBYTES; i++) {
        struct side a, b;

        start(&a, true, key, "l");
        start(&b, false, key, "l");
        assert_int_equal(pass(&a, &b), 0);
        b.out[i] ^= 0x20;
        assert_int_equal(pass(&b, &a), -EACCES);
    }
    for (size_t i = 0; i < RG_AUTH_CONFIRM_NBYTES; i++) {
        struct side a, b;

        start(&a, true, key, "l");
        start(&b, false, key, "l");
        assert_int_equal(pass(&a, &b), 0);
        assert_int_equal(pass(&b, &a), 0);
        a.out[i] ^= 0x01;
        assert_int_equal(pass(&a, &b), -EACCES);
        assert_false(rg_auth_done(&b.auth));
    }
}

static void recorded_exchange_is_worth_nothing(void **state)
{
    struct side a, b, again;
    uint8_t hello[RG_AUTH_HELLO_NBYTES], confirm[RG_AUTH_CONFIRM_NBYTES];

    (void) state;
    start(&a, true, key, "l");
    start(&b, false, key, "l");
    memcpy(hello, a.out, sizeof(hello));
    assert_int_equal(pass(&a, &b), 0);
    assert_int_equal(pass(&b, &a), 0);
    memcpy(confirm, a.out, sizeof(confirm));
    assert_int_equal(pass(&a, &b), 0);
    start(&again, false, key, "l");
    assert_int_equal(
        rg_auth_receive(&again.auth, hello, sizeof(hello), again.out, &again.nbytes), 0);
    assert_int_equal(
        rg_auth_receive(&again.auth, confirm, sizeof(confirm), again.out, &again.nbytes), -EACCES);
}

/* A stranger sends back to a responder what it has proven, with the nonce that it was for. */
static void proof_cannot_be_reflected(void **state)
{
    struct side a, b;

    (void) state;
    start(&a, true, key, "l");
    start(&b, false, key, "l");
    assert_int_equal(pass(&a, &b), 0);
    assert_int_equal(rg_auth_receive(&b.auth, b.out + RG_AUTH_NONCE_NBYTES, RG_AUTH_PROOF_NBYTES,
                                     b.out, &b.nbytes), -EACCES);
    assert_int_equal(b.nbytes, 0);
    start(&b, false, key, "l");
    assert_int_equal(pass(&a, &b), 0);
    assert_int_equal(pass(&b, &a), 0); /* a recorded answer is no hello */
    struct side c;
    start(&c, false, key, "l");
    assert_int_equal(pass(&b, &c), -EACCES);
}

static void message_of_another_length_is_refused(void **state)
{
    struct side b;
    uint8_t bytes[RG_AUTH_MESSAGE_MAX] = { 0 };

    (void) state;
    for (size_t n = 0; n <= sizeof(bytes); n++) {
        start(&b, false, key, "l");
        assert_int_equal(rg_auth_receive(&b.auth, bytes, n, b.out, &b.nbytes),
                         n == RG_AUTH_HELLO_NBYTES ? -EACCES : -EPROTO);
    }
}

static void label_is_capped(void **state)
{
    char label[RG_AUTH_LABEL_MAX + 2];
    struct side a;

    (void) state;
    memset(label, 'l', sizeof(label));
    label[sizeof(label) - 1] = '\0';
    assert_int_equal(rg_auth_start(&a.auth, true, key, label, a.out, &a.nbytes), -EINVAL);
    label[RG_AUTH_LABEL_MAX] = '\0';
    start(&a, true, key, label);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_prove_themselves_in_three_messages),
        cmocka_unit_test(proofs_are_those_of_the_description),
        cmocka_unit_test(the_caller_proves_first),
        cmocka_unit_test(wrong_key_or_label_is_refused),
        cmocka_unit_test(every_damaged_byte_is_seen),
        cmocka_unit_test(recorded_exchange_is_worth_nothing),
        cmocka_unit_test(proof_cannot_be_reflected),
        cmocka_unit_test(message_of_another_length_is_refused),
        cmocka_unit_test(label_is_capped),
    };

    return cmocka_run_group_tests(tests, make_keys, NULL);
}
