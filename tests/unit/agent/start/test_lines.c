/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/start/lines.h"
#include "base/fd.h"
#include "wire/link.h"
#include "unit.h"

#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define TEXT_OF(number) #number
#define TEXT(macro) TEXT_OF(macro)
#define FIRST "reigen-agent " TEXT(RG_PROTOCOL_VERSION) "\n"
#define GOOD FIRST "job j-1\nkey " KEY "\nlink fd 3\n"

static void good_lines_are_understood_in_any_order(void **state)
{
    struct rg_agent_lines boot;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(rg_agent_lines_parse(GOOD, &boot, &err), 0);
    assert_string_equal(boot.job_id, "j-1");
    assert_int_equal(boot.link_fd, 3);
    assert_int_equal(boot.key[31], 0x1f);
    assert_int_equal(rg_agent_lines_parse("link fd 9\nkey " KEY "\njob x\n" FIRST "\nrest",
                                         &boot, &err),
                     0);
    assert_int_equal(boot.link_fd, 9);
    assert_int_equal(boot.link_write_fd, 9);
    assert_int_equal(rg_agent_lines_parse(FIRST "job x\nlink stdio\nkey " KEY "\n", &boot,
                                         &err),
                     0);
    assert_int_equal(boot.link_fd, 0);
    assert_int_equal(boot.link_write_fd, 1);
    assert_int_equal(boot.guard, RG_GUARD_NONE);
    assert_int_equal(rg_agent_lines_parse("guard report\n" GOOD, &boot, &err), 0);
    assert_int_equal(boot.guard, RG_GUARD_REPORT);
    assert_int_equal(rg_agent_lines_parse(GOOD "guard on\n", &boot, &err), 0);
    assert_int_equal(boot.guard, RG_GUARD_ON);
    assert_false(boot.tracked);
    assert_int_equal(rg_agent_lines_parse("tracked on\n" GOOD, &boot, &err), 0);
    assert_true(boot.tracked);
}

static void an_agent_that_calls_knows_where_and_as_whom(void **state)
{
    struct rg_agent_lines boot;
    struct rg_error err = RG_ERROR_INIT;
    char buf[16];

    (void) state;
    assert_int_equal(rg_agent_lines_parse(FIRST "job j\nkey " KEY "\nplace $X\n"
                                         "link dial $A:1,[::1]:2\nannounce n-1\n",
                                         &boot, &err), 0);
    assert_string_equal(boot.dial, "$A:1,[::1]:2");
    assert_string_equal(boot.place, "$X");
    assert_string_equal(boot.announce, "n-1");
    assert_int_equal(boot.link_fd, -1);
    assert_int_equal(rg_agent_lines_parse(FIRST "job j\nkey " KEY "\nlink socket\n",
                                         &boot, &err), 0);
    assert_true(boot.silent && boot.link_fd == 0 && boot.link_write_fd == 1);
    setenv("REIGEN_TEST_PLACE", "node1", 1);
    assert_string_equal(rg_dial_expand("$REIGEN_TEST_PLACE", buf, sizeof(buf)), "node1");
    assert_string_equal(rg_dial_expand("node2", buf, sizeof(buf)), "node2");
    setenv("REIGEN_TEST_PLACE", "sixteen-characters", 1);
    assert_string_equal(rg_dial_expand("$REIGEN_TEST_PLACE", buf, sizeof(buf)), "");
    unsetenv("REIGEN_TEST_PLACE");
    assert_string_equal(rg_dial_expand("$REIGEN_TEST_PLACE", buf, sizeof(buf)), "");
}

/* Nobody is at home at either address; the text says so of each. */
static void a_call_that_reaches_nobody_tells_of_every_address(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    const uint8_t key[RG_KEY_NBYTES] = { 1 };

    (void) state;
    assert_true(rg_agent_dial("127.0.0.1:1,nonsense", "node1", key, &err) < 0);
    assert_int_equal(err.exit_code, 69);
    assert_contains(err.text, "127.0.0.1:1 (");
    assert_contains(err.text, "nonsense (Invalid argument)");
    assert_true(rg_agent_dial("127.0.0.1:1", "$REIGEN_TEST_PLACE", key, &err) < 0);
    assert_contains(err.text, "$REIGEN_TEST_PLACE");
}

static void bad_lines_are_named_but_never_the_key(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "", "must bring the lines" },
        { FIRST "job j\nlink fd 3\n", "must bring the lines" },
        { "reigen-agent 2\n", "protocol version" },
        { "job \n", "job id" },
        { "job 01234567890123456789012345678901234567890123456789012345678901234\n", "65" },
        { "key 0001\n", "64 hexadecimal digits" },
        { "key zz" KEY "\n", "64 hexadecimal digits" },
        { "link fd 2\n", "link fd" },
        { "link fd x\n", "link fd" },
        { "link tcp 3\n", "no line of" },
        { "link dial \n", "link dial" },
        { "place \n", "place" },
        { "announce \n", "announce" },
        { "nonsense\n", "nonsense" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_agent_lines boot = { .link_fd = 77 };
        struct rg_error err = RG_ERROR_INIT;
        assert_int_not_equal(rg_agent_lines_parse(cases[i].text, &boot, &err), 0);
        assert_contains(err.text, cases[i].says);
        assert_null(strstr(err.text, "0001"));
        assert_int_equal(boot.link_fd, 77);
    }
}

static int read_from(const char *text, struct rg_agent_lines *boot, struct rg_error *err)
{
    int fds[2];

    assert_int_equal(rg_pipe(fds), 0);
    assert_int_equal(rg_write_all(fds[1], text, strlen(text)), 0);
    close(fds[1]);
    int r = rg_agent_lines_read(fds[0], boot, err);
    close(fds[0]);
    return r;
}

static void input_is_read_to_its_end_or_an_empty_line(void **state)
{
    static char flood[RG_AGENT_LINES_MAX + 10];
    struct rg_agent_lines boot;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(read_from(GOOD, &boot, &err), 0);
    assert_int_equal(read_from(GOOD "\n", &boot, &err), 0);
    assert_int_equal(read_from("", &boot, &err), -EPIPE);
    memset(flood, 'x', sizeof(flood) - 1);
    assert_int_equal(read_from(flood, &boot, &err), -EMSGSIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_lines_are_understood_in_any_order),
        cmocka_unit_test(an_agent_that_calls_knows_where_and_as_whom),
        cmocka_unit_test(a_call_that_reaches_nobody_tells_of_every_address),
        cmocka_unit_test(bad_lines_are_named_but_never_the_key),
        cmocka_unit_test(input_is_read_to_its_end_or_an_empty_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
