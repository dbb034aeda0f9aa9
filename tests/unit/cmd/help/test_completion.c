/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts are checked by the shells themselves in tests/behaviour/test_run_help.py. */
#include "cmd/commands.h"
#include "cmd/help/help.h"
#include "launch/drivers/drivers.h"
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
        assert_contains(rg_buf_text(&text), "--planes --clean");
        for (const struct rg_command *c = rg_commands; c->name; c++)
            assert_contains(rg_buf_text(&text), c->name);
    }
}

/* What a shell's script has for one of rg_scripts: in bash and zsh its function. */
static char *part_for(const char *text, const char *shell, const struct rg_script *s)
{
    if (strcmp(shell, "fish") == 0)
        return strdup(text);
    rg_autofree char *name = rg_strf("_reigen_%s() {\n", s->command);
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : *p;
    const char *part = strstr(text, name);
    assert_non_null(part);
    return strndup(part, (size_t) (strstr(part, "\n}\n") - part));
}

/* Each option of srun-docker and the like, as its two names are completed. */
static void scripts_are_completed_under_both_names(void **state)
{
    static const char *const shells[] = { "bash", "zsh", "fish" };
    struct rg_script_option o;

    (void) state;
    for (size_t n = 0; n < rg_array_len(shells); n++) {
        rg_autobuf struct rg_buf text = RG_BUF_INIT;
        assert_int_equal(rg_completion_print(&text, shells[n]), 0);
        for (const struct rg_script *s = rg_scripts; s->command; s++) {
            rg_autofree char *part = part_for(rg_buf_text(&text), shells[n], s);
            assert_contains(rg_buf_text(&text), s->name);
            for (size_t i = 0; s->option(i, &o); i++) {
                rg_autofree char *here = n < 2 ? rg_strf("--%s", o.name)
                                               : rg_strf("complete -c %s -l %s ", s->name, o.name);
                rg_autofree char *there = rg_strf("from %s' -l %s ", s->command, o.name);
                assert_contains(part, here);
                if (n == 2)
                    assert_contains(part, there);
            }
        }
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

static void every_page_is_completed(void **state)
{
    const struct rg_command *man = rg_commands;

    (void) state;
    while (strcmp(man->name, "man") != 0)
        man++;
    for (size_t i = 0; rg_manual_pages[i]; i++) {
        const char *page = rg_manual_pages[i];
        page += rg_str_starts(page, "reigen-") ? strlen("reigen-") : 0;
        if (!rg_str_has_word(man->completes, page))
            fail_msg("not %s", page);
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
        cmocka_unit_test(scripts_are_completed_under_both_names),
        cmocka_unit_test(help_is_completed_with_every_other_command),
        cmocka_unit_test(every_page_is_completed),
        cmocka_unit_test(another_shell_is_refused),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
