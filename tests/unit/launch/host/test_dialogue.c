/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/host/dialogue.h"

#include <sys/socket.h>

#include "base/fd.h"
#include "launch/plan/plan.h"
#include "unit.h"
#include "wire/link.h"

/* What a dialogue asked its driver to do, a letter each: Agent, Boot, bundle (K), Link, Error. */
static char asked[32];
static struct rg_error last;
static int nnotes;

static void ask(char what)
{
    size_t n = strlen(asked);

    assert_true(n + 1 < sizeof(asked));
    asked[n] = what;
}

static void send_agent(void *arg, const struct rg_agent_file *agent)
{
    (void) arg;
    assert_string_equal(agent->machine, "x86_64");
    ask('A');
}

static void send_boot(void *arg)
{
    (void) arg;
    ask('B');
}

static void send_bundle(void *arg)
{
    (void) arg;
    ask('K');
}

static void on_error(void *arg, const struct rg_error *err, bool said)
{
    (void) arg;
    last = *err;
    ask(said ? 'e' : 'E');
}

static void on_link(void *arg)
{
    (void) arg;
    ask('L');
}

static void on_phase(void *arg, int host, int phase, const char *reason)
{
    (void) arg, (void) phase, (void) reason;
    assert_int_equal(host, 2);
}

static void on_note(void *arg, int host, const char *text)
{
    (void) arg, (void) text;
    assert_int_equal(host, 2);
    nnotes++;
}

static const struct rg_dialogue_ops ops = { send_agent, send_boot, send_bundle, on_error, on_link };
static const struct rg_dialogue_ops calling_ops = { send_agent, send_boot, send_bundle, on_error,
                                                    NULL };
static const struct rg_driver_events events = { .on_phase = on_phase, .on_note = on_note };

static struct rg_job job = { .container.place.bundle_digest = (char *) "d" };
static struct rg_plan plan = { .nhosts = 3, .job_id = "r-1" };

static struct rg_dialogue_shared shared = {
    .o = { .job = &job, .plan = &plan, .events = &events },
    .agents[1] = { .machine = "x86_64", .data = (uint8_t *) "x" },
};

/* What is asked of the driver when a host says this. Returns the last result. */
static int say(const struct rg_dialogue_ops *how, const char *text)
{
    static struct rg_dialogue dialogue;
    size_t left = strlen(text);
    int r = 0;

    memset(asked, 0, sizeof(asked));
    dialogue = (struct rg_dialogue){ .shared = &shared, .ops = how, .host = 2 };
    while (left > 0) {
        size_t n = rg_preamble_peek(text, left);
        r = rg_dialogue_feed(&dialogue, text, n);
        text += n;
        left -= n;
    }
    return r;
}

#define B "reigen-boot "

static void a_host_gets_what_it_asks_for_in_order_and_once(void **state)
{
    static const struct {
        const char *says, *asked, *error;
    } cases[] = {
        { "Welcome\n" B "ready\n" B "link\n", "BL", NULL },
        { B "need agent x86_64\n" B "ready\n" B "need bundle\nhm\n" B "link\n", "ABKL", NULL },
        { B "need agent riscv64\n" B "ready\n", "E", "it asked for an agent that there is not" },
        { B "need agent x86_64\n" B "need agent x86_64\n", "AE", "asked for an agent" },
        { B "ready\n" B "need agent x86_64\n", "BE", "asked for an agent" },
        { B "ready\n" B "ready\n", "BE", "it was ready twice" },
        { B "need bundle\n", "E", "it asked for a bundle that there is not" },
        { B "ready\n" B "need bundle\n" B "need bundle\n", "BKE", "asked for a bundle" },
        { B "link\n" B "ready\n", "E", "it offered a link before an agent was there" },
        { B "need agent x86_64\n" B "link\n", "AE", "offered a link" },
        { B "error 70 no room\n" B "ready\n" B "need agent x86_64\n", "e", "no room" },
        { B "bread\n" B "ready\n", "E", "another version of Reigen, or damaged" },
        { B "ready\n" B "link\n" B "ready\n" B "error 69 late\n", "BL", NULL },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        say(&ops, cases[i].says);
        assert_string_equal(asked, cases[i].asked);
        if (cases[i].error)
            assert_contains(last.text, cases[i].error);
    }
    assert_int_equal(say(&ops, B "error 70 no room\n"), 1);
    assert_int_equal(last.exit_code, 70);
    assert_int_equal(say(&ops, B "link\n"), -EPROTO);
    assert_int_equal(say(&ops, "noise\n"), 0);
}

static void a_host_whose_agent_calls_offers_no_link(void **state)
{
    (void) state;
    say(&calling_ops, B "ready\n" B "link\n" B "need bundle\n");
    assert_string_equal(asked, "BK");
}

static void what_many_hosts_remark_is_shown_once(void **state)
{
    (void) state;
    for (int i = 0; i < 3; i++)
        say(&ops, B "note old kernel\n" B "note old kernel\n");
    assert_int_equal(nnotes, 1);
    say(&ops, B "note another\n");
    assert_int_equal(nnotes, 2);
    rg_strv_fini(&shared.notes);
}

static void no_byte_of_the_link_is_taken(void **state)
{
    static const char text[] = "motd\n" B "ready\n" B "link\n\1\2";
    struct rg_dialogue dialogue = { .shared = &shared, .ops = &ops, .host = 2 };
    char rest[16];
    int fds[2];

    (void) state;
    memset(asked, 0, sizeof(asked));
    assert_int_equal(rg_socketpair(fds), 0);
    assert_int_equal(rg_dialogue_read(&dialogue, fds[0]), -EAGAIN);
    assert_int_equal(send(fds[1], text, sizeof(text) - 1, 0), sizeof(text) - 1);
    assert_int_equal(rg_dialogue_read(&dialogue, fds[0]), 0);
    assert_int_equal(rg_dialogue_read(&dialogue, fds[0]), 1);
    assert_int_equal(rg_dialogue_read(&dialogue, fds[0]), 1);
    assert_string_equal(asked, "BL");
    assert_int_equal(dialogue.state, RG_DIALOGUE_LINKED);
    assert_int_equal(recv(fds[0], rest, sizeof(rest), 0), 2);
    close(fds[1]);
    assert_true(rg_dialogue_read(&dialogue, fds[0]) < 0);
    close(fds[0]);
}

static void boot_lines_end_with_the_key(void **state)
{
    static const uint8_t key[RG_KEY_NBYTES] = { 0xab };
    struct rg_dialogue_boot boot = { .lines = "link stdio\n", .cwd = "/data" };
    struct rg_buf out = RG_BUF_INIT;

    (void) state;
    shared.o.key = key;
    assert_int_equal(rg_dialogue_put_boot(&shared.o, &boot, &out), 0);
    const char *text = rg_buf_text(&out);
    assert_contains(text, "reigen-agent ");
    assert_contains(text, "\njob r-1\nlink stdio\ncwd /data\nkey ab00");
    assert_string_equal(text + strlen(text) - 4, "00\n\n");
    rg_buf_wipe(&out);
    boot.cwd = "/two\nlines"; /* as if it were not known */
    assert_int_equal(rg_dialogue_put_boot(&shared.o, &boot, &out), 0);
    assert_null(strstr(rg_buf_text(&out), "cwd"));
    rg_buf_wipe(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_gets_what_it_asks_for_in_order_and_once),
        cmocka_unit_test(a_host_whose_agent_calls_offers_no_link),
        cmocka_unit_test(what_many_hosts_remark_is_shown_once),
        cmocka_unit_test(no_byte_of_the_link_is_taken),
        cmocka_unit_test(boot_lines_end_with_the_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
