/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts are checked by the shells themselves in tests/behaviour/test_run_help.py. */
#include "cmd/commands.h"
#include "cmd/help.h"
#include "unit.h"

static void every_shell_learns_every_option_and_command(void **state)
{
    static const char *const shells[] = { "bash", "zsh", "fish" };
    size_t count;
    const struct rg_option *options = rg_options(&count);

    (void) state;
    for (size_t s = 0; s < rg_array_len(shells); s++) {
        rg_autobuf struct rg_buf text = RG_BUF_INIT;
        assert_int_equal(rg_completion_print(&text, shells[s]), 0);
        for (size_t i = 0; i < count; i++)
            assert_contains(rg_buf_text(&text), options[i].name);
        for (const struct rg_command *c = rg_commands; c->name; c++)
            assert_contains(rg_buf_text(&text), c->name);
    }
}

/* By itself, help would complete what somebody remembered to write there. */
static void help_is_completed_with_every_other_command(void **state)
{
    const struct rg_command *help = rg_commands;

    (void) state;
    while (strcmp(help->name, "help") != 0)
        help++;
    for (const struct rg_command *c = rg_commands; c != help; c++) {
        if (!rg_str_has_word(help->completes, c->name))
            fail_msg("not %s", c->name);
    }
}

static void another_shell_is_refused(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    assert_int_equal(rg_completion_print(&text, "csh"), -ENOENT);
    assert_int_equal(rg_buf_nbytes(&text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shell_learns_every_option_and_command),
        cmocka_unit_test(help_is_completed_with_every_other_command),
        cmocka_unit_test(another_shell_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
