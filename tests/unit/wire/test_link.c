/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "wire/link.h"

#define OPENING_NBYTES 56 /* greeting and handshake message */

static const uint8_t key[RG_KEY_NBYTES] = { 1, 2, 3 };
static const uint8_t other_key[RG_KEY_NBYTES] = { 1, 2, 4 };

struct side {
    struct rg_link *link;
    int opened;
    size_t frames;
    uint16_t type;     /* of the last frame */
    struct rg_buf got; /* all payloads */
    bool echo;
};

static void on_open(void *arg)
{
    ((struct side *) arg)->opened++;
}

static void on_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct side *side = arg;

    assert_int_equal(side->opened, 1);
    side->frames++;
    side->type = type;
    rg_buf_put(&side->got, payload, nbytes);
    if (side->echo)
        assert_int_equal(rg_link_send(side->link, type, payload, nbytes), 0);
}

static void make_with(struct side *side, bool initiator, const uint8_t *with, const char *job,
                      const char *role)
{
    struct rg_link_options options = { .key = with, .job_id = job, .role = role,
                                       .initiator = initiator, .on_open = on_open,
                                       .on_frame = on_frame, .arg = side };

    *side = (struct side) { .got = RG_BUF_INIT };
    assert_int_equal(rg_link_create(&options, &side->link), 0);
}

static void make(struct side *side, bool initiator)
{
    make_with(side, initiator, key, "job-1", "agent");
}

static void drop(struct side *side)
{
    rg_link_destroy(side->link);
    rg_buf_fini(&side->got);
}

/* Carry what one side has to say to the other, step bytes at a time. 0 or the receiver's error. */
static int carry(struct side *from, struct side *to, size_t step, struct rg_error *err)
{
    size_t nbytes;

    for (;;) {
        const uint8_t *bytes = rg_link_output(from->link, &nbytes);
        size_t part = nbytes < step ? nbytes : step;

        if (nbytes == 0)
            return 0;
        int rc = rg_link_receive(to->link, bytes, part, err);

        rg_link_sent(from->link, part);
        if (rc < 0)
            return rc;
    }
}

static void shake_hands(struct side *a, struct side *b, size_t step)
{
    assert_int_equal(carry(a, b, step, NULL), 0);
    assert_int_equal(carry(b, a, step, NULL), 0);
    assert_int_equal(carry(a, b, step, NULL), 0);
    assert_true(rg_link_open(a->link));
    assert_true(rg_link_open(b->link));
}

static void make_pair(struct side *a, struct side *b)
{
    make(a, true);
    make(b, false);
    shake_hands(a, b, SIZE_MAX);
}

static void frames_pass_in_both_directions(void **state)
{
    struct side a, b;

    (void) state;
    make_pair(&a, &b);
    assert_int_equal(a.opened, 1);
    assert_int_equal(b.opened, 1);
    assert_int_equal(rg_link_send(a.link, 7, "hello", 5), 0);
    assert_int_equal(rg_link_send(a.link, 65535, NULL, 0), 0);
    assert_int_equal(rg_link_send(b.link, 8, "back", 4), 0);
    assert_int_equal(carry(&a, &b, SIZE_MAX, NULL), 0);
    assert_int_equal(carry(&b, &a, SIZE_MAX, NULL), 0);
    assert_int_equal(b.frames, 2);
    assert_int_equal(b.type, 65535);
    assert_string_equal(rg_buf_text(&b.got), "hello");
    assert_int_equal(a.type, 8);
    assert_string_equal(rg_buf_text(&a.got), "back");
    drop(&a);
    drop(&b);
    rg_link_destroy(NULL);
}

static void frames_sent_early_wait_for_the_handshake(void **state)
{
    struct side a, b;

    (void) state;
    make(&a, true);
    make(&b, false);
    assert_int_equal(rg_link_send(a.link, 1, "early", 5), 0);
    assert_int_equal(rg_link_send(b.link, 2, "early too", 9), 0);
    assert_false(rg_link_open(a.link));
    assert_int_equal(rg_link_pending(a.link), OPENING_NBYTES + 6 + 5);
    shake_hands(&a, &b, SIZE_MAX);
    assert_string_equal(rg_buf_text(&b.got), "early");
    assert_int_equal(carry(&b, &a, SIZE_MAX, NULL), 0);
    assert_string_equal(rg_buf_text(&a.got), "early too");
    drop(&a);
    drop(&b);
}

static void bytes_may_come_one_by_one(void **state)
{
    struct side a, b;

    (void) state;
    make(&a, true);
    make(&b, false);
    shake_hands(&a, &b, 1);
    for (int i = 0; i < 100; i++)
        assert_int_equal(rg_link_send(a.link, 3, "0123456789", (size_t) (i % 11)), 0);
    assert_int_equal(carry(&a, &b, 1, NULL), 0);
    assert_int_equal(b.frames, 100);
    assert_int_equal(rg_buf_nbytes(&b.got), 9 * 55);
    drop(&a);
    drop(&b);
}

static uint8_t *make_pattern(size_t nbytes)
{
    uint8_t *bytes = malloc(nbytes);
    uint32_t x = 1;

    assert_non_null(bytes);
    for (size_t i = 0; i < nbytes; i++) {
        x = x * 1664525 + 1013904223;
        bytes[i] = (uint8_t) (x >> 24);
    }
    return bytes;
}

static void large_frame_passes(size_t nbytes, size_t step)
{
    rg_autofree uint8_t *bytes = make_pattern(nbytes);
    struct side a, b;

    make_pair(&a, &b);
    assert_int_equal(rg_link_send(a.link, 9, bytes, nbytes), 0);
    assert_int_equal(rg_link_send(a.link, 10, "end", 3), 0);
    assert_int_equal(carry(&a, &b, step, NULL), 0);
    assert_int_equal(b.frames, 2);
    assert_int_equal(rg_buf_nbytes(&b.got), nbytes + 3);
    assert_memory_equal(rg_buf_bytes(&b.got), bytes, nbytes);
    assert_int_equal(rg_link_pending(a.link), 0);
    drop(&a);
    drop(&b);
}

static void frames_of_every_size_class_pass(void **state)
{
    (void) state;
    /* Around the size of one record and of two, and large. */
    for (size_t n = 65519 - 8; n <= 65519 + 8; n++)
        large_frame_passes(n, 4096);
    for (size_t n = 2 * 65519 - 8; n <= 2 * 65519 + 8; n += 2)
        large_frame_passes(n, 100000);
    large_frame_passes(10u << 20, 65536);
    large_frame_passes(RG_FRAME_MAX, 1u << 20);
}

static void frame_beyond_the_cap_is_refused(void **state)
{
    rg_autofree uint8_t *bytes = calloc(1, RG_FRAME_MAX + 1);
    struct side a, b;

    (void) state;
    make_pair(&a, &b);
    assert_int_equal(rg_link_send(a.link, 1, bytes, RG_FRAME_MAX + 1), -EMSGSIZE);
    assert_int_equal(rg_link_send(a.link, 1, "fine", 4), 0);
    assert_int_equal(carry(&a, &b, SIZE_MAX, NULL), 0);
    assert_int_equal(b.frames, 1);
    drop(&a);
    drop(&b);
}

static void backlog_is_reported(void **state)
{
    rg_autofree uint8_t *bytes = calloc(1, 1u << 20);
    struct side a, b;

    (void) state;
    make_pair(&a, &b);
    for (int i = 0; i < 4; i++) {
        assert_false(rg_link_congested(a.link));
        assert_int_equal(rg_link_send(a.link, 1, bytes, 1u << 20), 0);
    }
    assert_true(rg_link_congested(a.link));
    assert_int_equal(carry(&a, &b, SIZE_MAX, NULL), 0);
    assert_false(rg_link_congested(a.link));
    drop(&a);
    drop(&b);
}

/* Both sides must refuse: the responder at the first message, with no answer. */
static void check_refused(const uint8_t *with, const char *job, const char *role)
{
    struct rg_error err = RG_ERROR_INIT;
    struct side a, b;

    make_with(&a, true, with, job, role);
    make(&b, false);
    assert_int_equal(rg_link_send(a.link, 1, "secret", 6), 0);
    assert_int_equal(carry(&a, &b, SIZE_MAX, &err), -EBADMSG);
    assert_contains(err.text, "wrong key: the peer's first message is not from");
    assert_int_equal(rg_link_pending(b.link), 0);
    assert_int_equal(b.opened, 0);
    assert_int_equal(rg_link_send(b.link, 1, "x", 1), -ENOTCONN);
    assert_int_equal(rg_link_receive(b.link, "x", 1, &err), -EBADMSG);
    drop(&a);
    drop(&b);
}

static void another_key_job_or_role_is_refused(void **state)
{
    (void) state;
    check_refused(other_key, "job-1", "agent");
    check_refused(key, "job-2", "agent");
    check_refused(key, "job-1", "rank");
    check_refused(key, "job-1a", "gent");
}

static void stranger_is_quoted(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct side a;

    (void) state;
    make(&a, true);
    assert_int_equal(rg_link_receive(a.link, "sh: reigen-agent: not found\n", 28, &err), -EBADMSG);
    assert_contains(err.text, "\"sh: reigen-agent: not found\"");
    drop(&a);
    make(&a, false);
    assert_int_equal(rg_link_receive(a.link, "\x16\x03\x01", 3, &err), -EBADMSG);
    assert_contains(err.text, "\"???\"");
    drop(&a);
}

static void another_version_is_named(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct side b;

    (void) state;
    make(&b, false);
    assert_int_equal(rg_link_receive(b.link, "reigen\x09\x01", 8, &err), -EBADMSG);
    assert_contains(err.text, "version 265");
    drop(&b);
}

/* A recorded beginning of a link gets an answer it cannot use, and opens nothing. */
static void replayed_link_opens_nothing(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    rg_autobuf struct rg_buf recording = RG_BUF_INIT;
    struct side a, b, c;
    size_t nbytes;

    (void) state;
    make(&a, true);
    make(&b, false);
    const uint8_t *bytes = rg_link_output(a.link, &nbytes);

    rg_buf_put(&recording, bytes, nbytes);
    assert_int_equal(carry(&a, &b, SIZE_MAX, NULL), 0);
    assert_int_equal(carry(&b, &a, SIZE_MAX, NULL), 0);
    assert_int_equal(rg_link_send(a.link, 1, "do it", 5), 0);
    bytes = rg_link_output(a.link, &nbytes);
    rg_buf_put(&recording, bytes, nbytes);
    assert_int_equal(carry(&a, &b, SIZE_MAX, NULL), 0);
    assert_int_equal(b.frames, 1);
    make(&c, false);
    assert_int_equal(rg_link_receive(c.link, rg_buf_bytes(&recording), OPENING_NBYTES, &err), 0);
    assert_false(rg_link_open(c.link));
    assert_int_equal(rg_link_receive(c.link, rg_buf_bytes(&recording) + OPENING_NBYTES,
                                     rg_buf_nbytes(&recording) - OPENING_NBYTES, &err),
                     -EBADMSG);
    assert_contains(err.text, "repeats");
    assert_int_equal(c.opened, 0);
    assert_int_equal(c.frames, 0);
    drop(&a);
    drop(&b);
    drop(&c);
}

/* Two records of one direction, to be cut, changed, repeated or swapped. */
struct wire {
    struct side a, b;
    uint8_t bytes[256];
    size_t first, total;
};

static void record_two(struct wire *wire)
{
    size_t nbytes;

    make_pair(&wire->a, &wire->b);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rg_link_send(wire->a.link, 1, i ? "second" : "first!", 6), 0);
        const uint8_t *bytes = rg_link_output(wire->a.link, &nbytes);

        memcpy(wire->bytes + i * nbytes, bytes, nbytes);
        rg_link_sent(wire->a.link, nbytes);
        wire->first = nbytes;
    }
    wire->total = 2 * nbytes;
}

static void drop_wire(struct wire *wire)
{
    drop(&wire->a);
    drop(&wire->b);
}

static void repeated_record_is_refused(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct wire w;

    (void) state;
    record_two(&w);
    assert_int_equal(rg_link_receive(w.b.link, w.bytes, w.first, &err), 0);
    assert_int_equal(rg_link_receive(w.b.link, w.bytes, w.first, &err), -EBADMSG);
    assert_contains(err.text, "changed, lost or repeated");
    assert_int_equal(w.b.frames, 1);
    drop_wire(&w);
}

static void swapped_records_are_refused(void **state)
{
    struct wire w;

    (void) state;
    record_two(&w);
    assert_int_equal(rg_link_receive(w.b.link, w.bytes + w.first, w.first, NULL), -EBADMSG);
    assert_int_equal(w.b.frames, 0);
    drop_wire(&w);
}

static void changed_bit_anywhere_is_refused(void **state)
{
    struct wire w;
    size_t total = 1;

    (void) state;
    for (size_t i = 0; i < total; i++) {
        record_two(&w);
        total = w.total;
        w.bytes[i] ^= 1;
        /* A length made longer leaves a record that waits for more: the end of the link is seen. */
        int rc = rg_link_receive(w.b.link, w.bytes, w.total, NULL);

        if (rc == 0)
            rc = rg_link_finish(w.b.link, NULL);
        assert_true(rc == -EBADMSG || rc == -EPIPE);
        assert_true(w.b.frames <= (i < w.first ? 0u : 1u));
        drop_wire(&w);
    }
}

static void truncation_at_every_byte_is_seen_at_the_end(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct wire w;
    size_t total = 1;

    (void) state;
    for (size_t n = 0; n <= total; n++) {
        record_two(&w);
        total = w.total;
        assert_int_equal(rg_link_receive(w.b.link, w.bytes, n, &err), 0);
        bool whole = n == 0 || n == w.first || n == w.total;

        assert_int_equal(rg_link_finish(w.b.link, &err), whole ? 0 : -EPIPE);
        assert_int_equal(w.b.frames, n / w.first);
        assert_int_equal(rg_link_finish(w.b.link, &err), -EBADMSG);
        drop_wire(&w);
    }
}

static void truncated_handshake_is_seen_at_the_end(void **state)
{
    struct side a, b;
    size_t nbytes;

    (void) state;
    for (size_t n = 0; n <= OPENING_NBYTES; n++) {
        make(&a, true);
        make(&b, false);
        const uint8_t *bytes = rg_link_output(a.link, &nbytes);

        assert_int_equal(rg_link_receive(b.link, bytes, n, NULL), 0);
        assert_int_equal(rg_link_finish(b.link, NULL),
                         n == 0 || n == OPENING_NBYTES ? 0 : -EPIPE);
        drop(&a);
        drop(&b);
    }
}

static void answers_may_be_sent_in_the_callback(void **state)
{
    struct side a, b;

    (void) state;
    make_pair(&a, &b);
    b.echo = true;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(rg_link_send(a.link, 1, "ping", 4), 0);
    assert_int_equal(carry(&a, &b, 1000, NULL), 0);
    assert_int_equal(carry(&b, &a, 777, NULL), 0);
    assert_int_equal(a.frames, 1000);
    drop(&a);
    drop(&b);
}

static void nothing_travels_in_clear(void **state)
{
    rg_autobuf struct rg_buf all = RG_BUF_INIT;
    struct side a, b;
    size_t nbytes;

    (void) state;
    make_pair(&a, &b);
    assert_int_equal(rg_link_send(a.link, 1, "TOPSECRETTOPSECRET", 18), 0);
    const uint8_t *bytes = rg_link_output(a.link, &nbytes);

    rg_buf_put(&all, bytes, nbytes);
    assert_null(memmem(rg_buf_bytes(&all), nbytes, "SECRET", 6));
    assert_int_equal(nbytes, 2 + 6 + 18 + 16);
    drop(&a);
    drop(&b);
}

static void bad_options_are_refused(void **state)
{
    char job[RG_JOB_ID_MAX + 2];
    struct rg_link_options good = { .key = key, .job_id = "", .role = "", .on_frame = on_frame };
    struct rg_link_options bad;
    struct rg_link *link = NULL;

    (void) state;
    memset(job, 'j', sizeof(job));
    job[sizeof(job) - 1] = '\0';
    bad = good;
    bad.key = NULL;
    assert_int_equal(rg_link_create(&bad, &link), -EINVAL);
    bad = good;
    bad.job_id = job;
    assert_int_equal(rg_link_create(&bad, &link), -EINVAL);
    bad = good;
    bad.role = job;
    assert_int_equal(rg_link_create(&bad, &link), -EINVAL);
    bad = good;
    bad.on_frame = NULL;
    assert_int_equal(rg_link_create(&bad, &link), -EINVAL);
    assert_null(link);
    assert_int_equal(rg_link_create(&good, &link), 0);
    rg_link_destroy(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_pass_in_both_directions),
        cmocka_unit_test(frames_sent_early_wait_for_the_handshake),
        cmocka_unit_test(bytes_may_come_one_by_one),
        cmocka_unit_test(frames_of_every_size_class_pass),
        cmocka_unit_test(frame_beyond_the_cap_is_refused),
        cmocka_unit_test(backlog_is_reported),
        cmocka_unit_test(another_key_job_or_role_is_refused),
        cmocka_unit_test(stranger_is_quoted),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(replayed_link_opens_nothing),
        cmocka_unit_test(repeated_record_is_refused),
        cmocka_unit_test(swapped_records_are_refused),
        cmocka_unit_test(changed_bit_anywhere_is_refused),
        cmocka_unit_test(truncation_at_every_byte_is_seen_at_the_end),
        cmocka_unit_test(truncated_handshake_is_seen_at_the_end),
        cmocka_unit_test(answers_may_be_sent_in_the_callback),
        cmocka_unit_test(nothing_travels_in_clear),
        cmocka_unit_test(bad_options_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
