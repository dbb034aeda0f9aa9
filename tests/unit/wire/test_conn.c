/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of frames against a peer that writes and reads as it likes. */
#include <poll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/time.h"
#include "unit.h"
#include "wire/conn.h"
#include "wire/codec.h"

#define SHORT_MAX 16
#define LONG_TYPE 9
#define LONG_MAX (1u << 20)

struct seen {
    struct rg_conn conn;
    int peer, frames, refuse_at;
    size_t nbytes;
    uint16_t type;
    uint8_t last;
};

static size_t frame_max(void *arg, uint16_t type)
{
    (void) arg;
    return type == LONG_TYPE ? LONG_MAX : SHORT_MAX;
}

static int on_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct seen *seen = arg;

    seen->frames++;
    seen->type = type;
    seen->nbytes = nbytes;
    seen->last = nbytes > 0 ? payload[nbytes - 1] : 0;
    return seen->frames == seen->refuse_at ? -EPROTO : 0;
}

static const struct rg_conn_ops ops = { on_frame, frame_max, .secret = true };

static int set_up(void **state)
{
    struct seen *seen = calloc(1, sizeof(*seen));
    int fds[2];

    *state = seen;
    if (!seen || rg_socketpair(fds) < 0)
        return -1;
    seen->peer = fds[1];
    return rg_conn_init(&seen->conn, fds[0], &ops, seen, NULL);
}

static int tear_down(void **state)
{
    struct seen *seen = *state;

    rg_conn_fini(&seen->conn);
    if (seen->peer >= 0)
        close(seen->peer);
    free(seen);
    return 0;
}

static void put(struct seen *seen, const void *bytes, size_t nbytes)
{
    assert_int_equal(rg_write_all(seen->peer, bytes, nbytes), 0);
}

static void test_a_frame_that_comes_byte_by_byte_is_taken_once_it_is_whole(void **state)
{
    struct seen *seen = *state;
    rg_autobuf struct rg_buf two = RG_BUF_INIT;

    rg_frame_put(&two, 3, "abcdef", 6);
    rg_frame_put(&two, 0xFFFF, NULL, 0);
    for (size_t i = 0; i < rg_buf_nbytes(&two); i++) {
        assert_int_equal(seen->frames, i < 12 ? 0 : 1);
        put(seen, rg_buf_bytes(&two) + i, 1);
        assert_int_equal(rg_conn_pump(&seen->conn, NULL), 0);
    }
    assert_int_equal(seen->frames, 2);
    assert_int_equal(seen->type, 0xFFFF);
    assert_int_equal(seen->nbytes, 0);
    assert_null(seen->conn.in.data); /* secret: nothing is left of it */
}

static void test_a_length_beyond_its_types_cap_ends_it_before_the_payload_comes(void **state)
{
    struct seen *seen = *state;
    struct rg_error err = RG_ERROR_INIT;
    const uint8_t fits[] = { SHORT_MAX + 1, 0, 0, 0, LONG_TYPE, 0 };
    const uint8_t over[] = { SHORT_MAX + 1, 0, 0, 0, 3, 0 };
    uint8_t payload[SHORT_MAX + 1] = { 0 };

    put(seen, fits, sizeof(fits));
    put(seen, payload, sizeof(payload));
    assert_int_equal(rg_conn_pump(&seen->conn, &err), 0);
    assert_int_equal(seen->frames, 1);
    put(seen, over, sizeof(over));
    assert_int_equal(rg_conn_pump(&seen->conn, &err), -EBADMSG);
    assert_int_equal(seen->frames, 1);
    assert_true(err.text[0]);
}

static void test_a_refused_frame_is_the_last_one(void **state)
{
    struct seen *seen = *state;
    const uint8_t two[] = { 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0 };

    seen->refuse_at = 1;
    put(seen, two, sizeof(two));
    assert_int_equal(rg_conn_pump(&seen->conn, NULL), -EPROTO);
    assert_int_equal(rg_conn_pump(&seen->conn, NULL), -EPROTO);
    assert_int_equal(seen->frames, 1);
}

/* More than the socket takes at once, to a peer that reads in small bites. */
static void test_what_is_queued_arrives_whole_and_in_order(void **state)
{
    struct seen *seen = *state;
    rg_autofree uint8_t *bytes = malloc(LONG_MAX);
    rg_autobuf struct rg_buf got = RG_BUF_INIT;
    struct rg_frame frame;

    for (size_t i = 0; i < LONG_MAX; i++)
        bytes[i] = (uint8_t) (i * 7 >> 3);
    for (uint16_t type = 1; type <= 3; type++)
        assert_int_equal(rg_conn_send_raw(&seen->conn, type, bytes, LONG_MAX), 0);
    assert_int_equal(rg_conn_flush(&seen->conn), 0);
    assert_true(rg_conn_pending(&seen->conn) > 0);
    assert_int_equal(rg_conn_events(&seen->conn), POLLIN | POLLOUT);
    for (uint16_t type = 1; type <= 3;) {
        ssize_t n = read(seen->peer, rg_buf_reserve(&got, 5000), 5000);

        assert_true(n > 0);
        rg_buf_commit(&got, (size_t) n);
        assert_int_equal(rg_conn_pump(&seen->conn, NULL), 0);
        if (!rg_frame_peek(&got, &frame) || !frame.payload)
            continue;
        assert_int_equal(frame.type, type++);
        assert_int_equal(frame.nbytes, LONG_MAX);
        assert_memory_equal(frame.payload, bytes, LONG_MAX);
        rg_frame_drop(&got, &frame);
    }
    assert_int_equal(rg_conn_events(&seen->conn), POLLIN);
    assert_null(seen->conn.out.data);
}

static void test_what_the_peer_said_before_it_closed_is_heard(void **state)
{
    struct seen *seen = *state;
    const uint8_t frame[] = { 1, 0, 0, 0, 5, 0, 'x' };
    int r = 0;

    put(seen, frame, sizeof(frame));
    close(rg_steal_fd(&seen->peer));
    rg_conn_send_raw(&seen->conn, 1, "y", 1);
    while (r == 0)
        r = rg_conn_pump(&seen->conn, NULL);
    assert_int_equal(r, -EPIPE);
    assert_int_equal(seen->frames, 1);
    assert_int_equal(seen->last, 'x');
    assert_int_equal(rg_conn_pending(&seen->conn), 0);
}

static void test_drain_ends_with_a_peer_that_reads_nothing(void **state)
{
    struct seen *seen = *state;
    rg_autofree uint8_t *bytes = calloc(1, LONG_MAX);
    uint64_t before_ns = rg_now_ns();

    for (int i = 0; i < 4; i++)
        rg_conn_send_raw(&seen->conn, 1, bytes, LONG_MAX);
    rg_conn_drain(&seen->conn, before_ns + 50 * RG_NS_PER_MS);
    assert_true(rg_now_ns() >= before_ns + 50 * RG_NS_PER_MS);
    assert_true(rg_conn_pending(&seen->conn) > 0);
    rg_conn_fini(&seen->conn);
    assert_int_equal(rg_conn_send_raw(&seen->conn, 1, bytes, 1), -ENOTCONN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_frame_that_comes_byte_by_byte_is_taken_once_it_is_whole),
        TEST(test_a_length_beyond_its_types_cap_ends_it_before_the_payload_comes),
        TEST(test_a_refused_frame_is_the_last_one),
        TEST(test_what_is_queued_arrives_whole_and_in_order),
        TEST(test_what_the_peer_said_before_it_closed_is_heard),
        TEST(test_drain_ends_with_a_peer_that_reads_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
