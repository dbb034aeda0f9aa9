/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "wire/msg.h"

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
        rg_codec_encode(info->fields, &zero, &bytes);
        assert_int_equal(rg_msg_decode(info->from_agent, (uint16_t) info->type,
                                       rg_buf_bytes(&bytes), rg_buf_nbytes(&bytes), &msg),
                         0);
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

    (void) state;
    rg_codec_encode(rg_msg_find(RG_MSG_SETUP)->fields, &setup, &bytes);
    assert_int_equal(rg_msg_decode(false, RG_MSG_SETUP, rg_buf_bytes(&bytes), rg_buf_nbytes(&bytes),
                                   &msg),
                     0);
    assert_string_equal(msg.setup.host, "localhost");
    assert_string_equal(msg.setup.command.v[1], "a b.py");
    assert_string_equal(msg.setup.cwd, "");
    assert_int_equal(msg.setup.lease_ms, 30000);
    assert_int_equal(msg.setup.output_window, 77);
    rg_msg_clear(RG_MSG_SETUP, &msg);
    /* Every truncation is refused. */
    for (size_t n = 0; n < rg_buf_nbytes(&bytes); n++)
        assert_int_equal(rg_msg_decode(false, RG_MSG_SETUP, rg_buf_bytes(&bytes), n, &msg),
                         -EBADMSG);
}

static void wrong_direction_and_unknown_types_are_refused(void **state)
{
    union rg_msg msg;

    (void) state;
    assert_int_equal(rg_msg_decode(true, RG_MSG_KILL, NULL, 0, &msg), -EBADMSG);
    assert_int_equal(rg_msg_decode(false, RG_MSG_PONG, NULL, 0, &msg), -EBADMSG);
    assert_int_equal(rg_msg_decode(false, 4711, NULL, 0, &msg), -EBADMSG);
    assert_int_equal(rg_msg_decode(false, RG_MSG_KILL, (const uint8_t *) "x", 1, &msg), -EBADMSG);
    assert_int_equal(rg_msg_decode(false, RG_MSG_KILL, NULL, 0, &msg), 0);
}

static void sending_without_a_channel_is_an_error(void **state)
{
    (void) state;
    assert_int_equal(rg_msg_send(NULL, RG_MSG_PING, NULL), -ENOTCONN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_and_names_are_unique),
        cmocka_unit_test(every_message_survives_the_way),
        cmocka_unit_test(set_up_is_decoded_as_it_was_sent),
        cmocka_unit_test(wrong_direction_and_unknown_types_are_refused),
        cmocka_unit_test(sending_without_a_channel_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
