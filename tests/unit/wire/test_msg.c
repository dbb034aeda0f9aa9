/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "wire/msg.h"

#define NRANKS 100000

static void types_and_names_are_unique(void **state)
{
    (void) state;
    for (size_t i = 0; i < rg_msgs_count; i++) {
        assert_ptr_equal(rg_msg_find((uint16_t) rg_msgs[i].type), &rg_msgs[i]);
        /* The two directions have their own ranges of numbers. */
        assert_int_equal(rg_msgs[i].from_agent, rg_msgs[i].type < RG_MSG_SETUP);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(rg_msgs[i].name, rg_msgs[k].name);
    }
    assert_null(rg_msg_find(0));
    assert_null(rg_msg_find(9999));
}

static void every_message_survives_the_way(void **state)
{
    (void) state;
    for (size_t i = 0; i < rg_msgs_count; i++) {
        const struct rg_msg_info *info = &rg_msgs[i];
        rg_autobuf struct rg_buf bytes = RG_BUF_INIT, again = RG_BUF_INIT;
        union rg_msg zero, msg;
        memset(&zero, 0, sizeof(zero));
        uint32_t host = 0;
        rg_buf_put_u32(&bytes, 7 + (uint32_t) i);
        rg_codec_encode(info->fields, &zero, &bytes);
        assert_int_equal(rg_msg_decode(info->from_agent, (uint16_t) info->type,
                                       rg_buf_bytes(&bytes), rg_buf_nbytes(&bytes), &host, &msg),
                         0);
        assert_int_equal(host, 7 + i);
        rg_buf_put_u32(&again, host);
        rg_codec_encode(info->fields, &msg, &again);
        assert_int_equal(rg_buf_nbytes(&again), rg_buf_nbytes(&bytes));
        rg_msg_clear((uint16_t) info->type, &msg);
    }
}

static void set_up_is_decoded_as_it_was_sent(void **state)
{
    char *argv[] = { (char *) "python", (char *) "a b.py", NULL };
    struct rg_msg_setup setup = {
        .host = (char *) "localhost",
        .size = 4,
        .command = { argv, 2 },
        .inherit_env = 1,
        .lease_ms = 30000,
        .output_window = 77,
    };
    rg_autobuf struct rg_buf bytes = RG_BUF_INIT;
    union rg_msg msg;
    uint32_t host;

    (void) state;
    rg_buf_put_u32(&bytes, RG_MSG_ANY_HOST);
    rg_codec_encode(rg_msg_find(RG_MSG_SETUP)->fields, &setup, &bytes);
    assert_int_equal(rg_msg_decode(false, RG_MSG_SETUP, rg_buf_bytes(&bytes), rg_buf_nbytes(&bytes),
                                   &host, &msg),
                     0);
    assert_string_equal(msg.setup.host, "localhost");
    assert_string_equal(msg.setup.command.v[1], "a b.py");
    assert_string_equal(msg.setup.cwd, "");
    assert_int_equal(msg.setup.lease_ms, 30000);
    assert_int_equal(msg.setup.output_window, 77);
    rg_msg_clear(RG_MSG_SETUP, &msg);
    /* Every truncation is refused. */
    for (size_t n = 0; n < rg_buf_nbytes(&bytes); n++)
        assert_int_equal(rg_msg_decode(false, RG_MSG_SETUP, rg_buf_bytes(&bytes), n, &host,
                                       &msg),
                         -EBADMSG);
}

/* Encoded, put into a frame and decoded. */
static void goes_through(enum rg_msg_type type, const void *object, union rg_msg *ret_msg)
{
    const struct rg_msg_info *info = rg_msg_find((uint16_t) type);
    rg_autobuf struct rg_buf bytes = RG_BUF_INIT;
    uint32_t host;

    rg_buf_put_u32(&bytes, NRANKS - 1);
    rg_codec_encode(info->fields, object, &bytes);
    assert_int_equal(rg_buf_status(&bytes), 0);
    assert_in_range(rg_buf_nbytes(&bytes), 1, RG_FRAME_MAX);
    assert_int_equal(rg_msg_decode(info->from_agent, (uint16_t) type, rg_buf_bytes(&bytes),
                                   rg_buf_nbytes(&bytes), &host, ret_msg), 0);
    assert_int_equal(host, NRANKS - 1);
}

static void there_is_room_for_100000_ranks(void **state)
{
    struct rg_msg_setup setup = { .size = NRANKS, .np = NRANKS, .host_index = NRANKS - 1 };
    struct rg_msg_probe probe = { .limit_ms = 1 };
    struct rg_msg_peer_died died = { .rank = NRANKS - 1, .host = NRANKS - 1, .value = -1 };
    struct rg_msg_exited exited = { .rank = NRANKS - 1, .cut_by = NRANKS - 2 };
    union rg_msg msg;

    (void) state;
    assert_true(NRANKS <= RG_CODEC_STRV_MAX);
    for (int i = 0; i < NRANKS; i++) { /* one on each host, with a name as clouds give them */
        rg_strv_addf(&setup.hosts, "ip-10-%03d-%03d-%03d.compute.internal:1", i >> 16, i >> 8 & 255,
                     i & 255);
        rg_strv_addf(&probe.targets, "%016x 10.%d.%d.%d 45000", i, i >> 16, i >> 8 & 255, i & 255);
    }
    goes_through(RG_MSG_SETUP, &setup, &msg);
    assert_int_equal(msg.setup.hosts.count, NRANKS);
    assert_string_equal(msg.setup.hosts.v[NRANKS - 1], setup.hosts.v[NRANKS - 1]);
    rg_msg_clear(RG_MSG_SETUP, &msg);
    goes_through(RG_MSG_PROBE, &probe, &msg);
    assert_int_equal(msg.probe.targets.count, NRANKS);
    rg_msg_clear(RG_MSG_PROBE, &msg);
    goes_through(RG_MSG_PEER_DIED, &died, &msg);
    assert_int_equal(msg.peer_died.host, NRANKS - 1);
    rg_msg_clear(RG_MSG_PEER_DIED, &msg);
    goes_through(RG_MSG_EXITED, &exited, &msg);
    assert_int_equal(msg.exited.cut_by, NRANKS - 2);
    rg_msg_clear(RG_MSG_EXITED, &msg);
    rg_strv_fini(&setup.hosts);
    rg_strv_fini(&probe.targets);
}

static void wrong_direction_and_unknown_types_are_refused(void **state)
{
    static const uint8_t to_all[5] = { 0xff, 0xff, 0xff, 0xff, 0 };
    union rg_msg msg;
    uint32_t host;

    (void) state;
    assert_int_equal(rg_msg_decode(true, RG_MSG_KILL, to_all, 4, &host, &msg), -EBADMSG);
    assert_int_equal(rg_msg_decode(false, RG_MSG_PONG, to_all, 4, &host, &msg), -EBADMSG);
    assert_int_equal(rg_msg_decode(false, 4711, to_all, 4, &host, &msg), -EBADMSG);
    assert_int_equal(rg_msg_decode(false, RG_MSG_KILL, to_all, 5, &host, &msg), -EBADMSG);
    assert_int_equal(rg_msg_decode(false, RG_MSG_KILL, NULL, 0, &host, &msg), -EBADMSG);
    assert_int_equal(rg_msg_decode(false, RG_MSG_KILL, to_all, 4, &host, &msg), 0);
}

static void sending_without_a_channel_is_an_error(void **state)
{
    (void) state;
    assert_int_equal(rg_msg_send(NULL, 0, RG_MSG_PING, NULL), -ENOTCONN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_and_names_are_unique),
        cmocka_unit_test(every_message_survives_the_way),
        cmocka_unit_test(set_up_is_decoded_as_it_was_sent),
        cmocka_unit_test(there_is_room_for_100000_ranks),
        cmocka_unit_test(wrong_direction_and_unknown_types_are_refused),
        cmocka_unit_test(sending_without_a_channel_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
