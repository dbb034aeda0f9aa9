/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/status.h"

#include "cmd/terminal.h"
#include "unit.h"

#define WIPE "\r\033[K"

struct shown {
    struct rg_loop *loop;
    struct rg_buf text;
};

static void say(void *arg, const char *text)
{
    struct shown *shown = arg;

    rg_buf_clear(&shown->text);
    rg_buf_printf(&shown->text, "%s", text);
    rg_loop_stop(shown->loop);
}

/* What stands on a terminal or in a log while both hosts do what the reason says. */
static void start(struct rg_status *status, struct shown *shown, bool tty, const char *reason)
{
    static struct rg_plan_host hosts[2] = { { .name = "node1" }, { .name = "node2" } };
    static const struct rg_plan plan = { .hosts = hosts, .nhosts = 2 };

    *shown = (struct shown){ .text = RG_BUF_INIT };
    assert_int_equal(rg_loop_create(&shown->loop), 0);
    assert_int_equal(rg_status_start(status, shown->loop, &plan, tty, say, shown), 0);
    for (int h = 0; h < 2; h++)
        rg_status_phase(status, h, RG_PHASE_PULLING, reason);
    rg_loop_run(shown->loop);
}

static void end(struct rg_status *status, struct shown *shown)
{
    rg_status_stop(status);
    rg_status_fini(status);
    rg_buf_fini(&shown->text);
    rg_loop_destroy(shown->loop);
}

static void a_line_fits_into_the_terminal_that_it_is_wiped_from(void **state)
{
    /* On a terminal of any width: this many characters do not fit beside the names. */
    static const char reason[] = "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc"
                                 "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc"
                                 "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc";
    struct rg_status status;
    struct shown shown;
    int width = 0;

    (void) state;
    start(&status, &shown, true, reason);
    const char *text = rg_buf_text(&shown.text);
    assert_int_equal(strncmp(text, WIPE "reigen: 0 of 2 hosts ready", strlen(WIPE) + 26), 0);
    for (const char *p = text + strlen(WIPE); *p; p++)
        width += (*p & 0xc0) != 0x80;
    assert_int_equal(width, rg_terminal_columns(2) - 1);
    assert_string_equal(text + strlen(text) - 3, "...");
    assert_true((text[strlen(text) - 4] & 0xc0) != 0xc0); /* a whole character */
    end(&status, &shown);
}

static void what_is_said_besides_has_a_line_of_its_own(void **state)
{
    struct rg_status status;
    struct shown shown;

    (void) state;
    start(&status, &shown, true, "");
    rg_status_wipe(&status);
    assert_string_equal(rg_buf_text(&shown.text), WIPE);
    rg_buf_clear(&shown.text);
    rg_status_wipe(&status); /* nothing is there */
    assert_int_equal(rg_buf_nbytes(&shown.text), 0);
    end(&status, &shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_fits_into_the_terminal_that_it_is_wiped_from),
        cmocka_unit_test(what_is_said_besides_has_a_line_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
