/* SPDX-License-Identifier: Apache-2.0 */
#include "head/show/status.h"

#include "head/console/terminal.h"
#include "unit.h"

#define WIPE "\r\033[K"
#define HOSTS_MAX 40
#define LINES 60

/* A terminal that knows what we use: \r, \n, and to move up and to erase. */
struct screen {
    char line[LINES][128];
    int row, column;
};

struct shown {
    struct rg_loop *loop;
    struct rg_buf text;
    struct screen screen;
};

static const char *escape(struct screen *screen, const char *p)
{
    int n = (int) strtol(p, (char **) &p, 10);

    if (*p == 'A') {
        assert_true(screen->row >= n);
        screen->row -= n;
        return p;
    }
    assert_true(*p == 'K' || *p == 'J');
    memset(screen->line[screen->row] + screen->column, 0, 128 - (size_t) screen->column);
    for (int i = screen->row + 1; *p == 'J' && i < LINES; i++)
        memset(screen->line[i], 0, sizeof(screen->line[i]));
    return p;
}

static void draw(struct screen *screen, const char *text)
{
    for (const char *p = text; *p; p++) {
        assert_true(screen->row < LINES && screen->column < 127);
        if (*p == '\r')
            screen->column = 0;
        else if (*p == '\n')
            screen->row++, screen->column = 0;
        else if (p[0] == '\033' && p[1] == '[')
            p = escape(screen, p + 2);
        else
            screen->line[screen->row][screen->column++] = *p;
    }
}

static void say(void *arg, const char *text)
{
    struct shown *shown = arg;

    rg_buf_clear(&shown->text);
    rg_buf_printf(&shown->text, "%s", text);
    draw(&shown->screen, text);
    rg_loop_stop(shown->loop);
}

/* What stands on a terminal or in a log while both hosts do what the reason says. */
static void start(struct rg_status *status, struct shown *shown, bool tty, int nhosts,
                  const char *reason)
{
    static char names[HOSTS_MAX][16];
    static struct rg_plan_host hosts[HOSTS_MAX];
    static struct rg_plan plan;

    for (int h = 0; h < nhosts; h++) {
        snprintf(names[h], sizeof(names[h]), "node%d", h + 1);
        hosts[h] = (struct rg_plan_host){ .name = names[h] };
    }
    plan = (struct rg_plan){ .hosts = hosts, .nhosts = nhosts };
    setenv("TERM", "xterm", 1);
    *shown = (struct shown){ .text = RG_BUF_INIT };
    assert_int_equal(rg_loop_create(&shown->loop), 0);
    assert_int_equal(rg_status_start(status, shown->loop, &plan, tty, say, shown), 0);
    for (int h = 0; h < nhosts; h++)
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
                                 "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc"
                                 "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc the end";
    struct rg_status status;
    struct shown shown;
    int width = 0;

    (void) state;
    start(&status, &shown, true, 1, reason);
    const char *text = rg_buf_text(&shown.text);
    assert_int_equal(strncmp(text, WIPE "reigen: 0 of 1 host ready", strlen(WIPE) + 25), 0);
    for (const char *p = text + strlen(WIPE); *p; p++)
        width += (*p & 0xc0) != 0x80;
    assert_int_equal(width, rg_terminal_columns(2) - 1);
    /* The end of a reason is kept, and what stands beside the gap is whole. */
    const char *gap = strstr(text, "...");
    assert_non_null(gap);
    assert_string_equal(text + strlen(text) - 8, "the end)");
    assert_true((gap[-1] & 0xc0) != 0xc0 && (gap[3] & 0xc0) != 0x80);
    end(&status, &shown);
}

static void what_is_said_besides_has_a_line_of_its_own(void **state)
{
    struct rg_status status;
    struct shown shown;

    (void) state;
    start(&status, &shown, true, 1, "");
    rg_status_wipe(&status);
    assert_string_equal(rg_buf_text(&shown.text), WIPE);
    rg_buf_clear(&shown.text);
    rg_status_wipe(&status); /* nothing is there */
    assert_int_equal(rg_buf_nbytes(&shown.text), 0);
    end(&status, &shown);
}

static void hosts_that_run_are_counted_where_nobody_can_see_whether_they_are_ready(void **state)
{
    struct rg_status status;
    struct shown shown;
    struct screen *screen = &shown.screen;

    (void) state;
    start(&status, &shown, true, 3, "");
    rg_status_seen(&status, 0, RG_PHASE_CONNECTING, "");
    rg_status_seen(&status, 1, RG_PHASE_CONNECTING, "its node does not answer");
    rg_status_seen(&status, 2, RG_PHASE_STARTING, "");
    rg_loop_run(shown.loop);
    assert_int_equal(strncmp(screen->line[0], "reigen: 1 of 3 hosts up after", 29), 0);
    assert_int_equal(strncmp(screen->line[1], "  node1  up in ", 15), 0);
    assert_string_equal(screen->line[2], "  node2  its node does not answer");
    end(&status, &shown);
}

static void several_hosts_have_rows_that_change_in_place(void **state)
{
    struct rg_status status;
    struct shown shown;
    struct screen *screen = &shown.screen;

    (void) state;
    start(&status, &shown, true, 3, "");
    assert_int_equal(strncmp(screen->line[0], "reigen: 0 of 3 hosts ready", 26), 0);
    assert_string_equal(screen->line[1], "  node1  pulling the image");
    rg_status_phase(&status, 0, RG_PHASE_PULLING, "base: 40 %\033[2J");
    rg_status_phase(&status, 1, RG_PHASE_READY, "");
    rg_status_phase(&status, 2, RG_PHASE_STARTING, "sending the agent");
    rg_loop_run(shown.loop);
    assert_int_equal(strncmp(screen->line[0], "reigen: 1 of 3 hosts ready", 26), 0);
    assert_string_equal(screen->line[1], "  node1  pulling base: 40 %\\x1b[2J"); /* no cursor */
    assert_int_equal(strncmp(screen->line[2], "  node2  ready in 0.", 20), 0);
    assert_string_equal(screen->line[3], "  node3  sending the agent");
    assert_string_equal(screen->line[4], "");
    rg_status_stop(&status); /* nothing of it stays */
    for (int i = 0; i < 6; i++)
        assert_string_equal(screen->line[i], "");
    assert_int_equal(screen->row + screen->column, 0);
    end(&status, &shown);
}

static void of_more_hosts_than_lines_those_that_are_awaited_are_shown(void **state)
{
    struct rg_status status;
    struct shown shown;
    struct screen *screen = &shown.screen;
    int rows, columns;

    (void) state;
    if (rg_terminal_size(2, &rows, &columns)) /* else there are 24 */
        skip();
    start(&status, &shown, true, HOSTS_MAX, "");
    rg_status_phase(&status, 0, RG_PHASE_READY, "");
    rg_loop_run(shown.loop);
    assert_int_equal(screen->row, 23); /* of 24 */
    assert_string_equal(screen->line[1], "  node2   pulling the image");
    assert_string_equal(screen->line[22], "  and 19 more");
    end(&status, &shown);
}

static void a_terminal_without_a_cursor_gets_lines(void **state)
{
    struct rg_status status;
    struct rg_plan_host host = { .name = "n" };
    const struct rg_plan plan = { .hosts = &host, .nhosts = 1 };
    struct shown shown = { .text = RG_BUF_INIT };

    (void) state;
    assert_int_equal(rg_loop_create(&shown.loop), 0);
    setenv("TERM", "dumb", 1);
    assert_int_equal(rg_status_start(&status, shown.loop, &plan, true, say, &shown), 0);
    assert_false(status.tty);
    end(&status, &shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_fits_into_the_terminal_that_it_is_wiped_from),
        cmocka_unit_test(hosts_that_run_are_counted_where_nobody_can_see_whether_they_are_ready),
        cmocka_unit_test(several_hosts_have_rows_that_change_in_place),
        cmocka_unit_test(of_more_hosts_than_lines_those_that_are_awaited_are_shown),
        cmocka_unit_test(a_terminal_without_a_cursor_gets_lines),
        cmocka_unit_test(what_is_said_besides_has_a_line_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
