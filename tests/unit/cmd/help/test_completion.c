/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts are checked by the shells themselves in tests/behaviour/test_run_help.py. */
#include "cmd/commands.h"
#include "cmd/help/help.h"
#include "cmd/help/texts.h"
#include "platform/drivers.h"
#include "unit.h"

static const char *text_for(const struct rg_text *texts, const char *name)
{
    while (texts->name && strcmp(texts->name, name) != 0)
        texts++;
    assert_non_null(texts->name);
    return texts->text;
}

static void every_shell_learns_every_option_and_command(void **state)
{
    static const char *const shells[] = { "bash", "zsh", "fish" };
    size_t count;
    const struct rg_option *options = rg_options(&count);

    (void) state;
    for (size_t s = 0; s < rg_array_len(shells); s++) {
        const char *text = text_for(rg_completions, shells[s]);
        for (size_t i = 0; i < count; i++)
            assert_contains(text, options[i].name);
        assert_contains(text, "--planes --clean");
        for (const struct rg_command *c = rg_commands; c->name; c++)
            assert_contains(text, c->name);
    }
}

/* What a shell's script has for a command with a script: in bash and zsh its function. */
static char *part_for(const char *text, const char *shell, const struct rg_command *c)
{
    if (strcmp(shell, "fish") == 0)
        return strdup(text);
    rg_autofree char *name = rg_strf("_reigen_%s() {\n", c->name);
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : *p;
    const char *part = strstr(text, name);
    assert_non_null(part);
    return strndup(part, (size_t) (strstr(part, "\n}\n") - part));
}

/* Each option of a command's own table; of srun-docker and the like under both names. */
static void options_of_tables_are_completed_under_all_names(void **state)
{
    static const char *const shells[] = { "bash", "zsh", "fish" };

    (void) state;
    for (size_t n = 0; n < rg_array_len(shells); n++) {
        const char *text = text_for(rg_completions, shells[n]);
        int count = 0;
        for (const struct rg_command *c = rg_commands; c->name; c++) {
            const struct rg_script *s = c->script;
            if (!s)
                continue;
            rg_autofree char *part = part_for(text, shells[n], c);
            if (s->name)
                assert_contains(text, s->name);
            count += s->name != NULL;
            for (const struct rg_script_option *o = s->options; o->name; o++) {
                rg_autofree char *here = n < 2 || !s->name
                                             ? rg_strf("%s%s", n < 2 ? "--" : "-l ", o->name)
                                             : rg_strf("complete -c %s -l %s ", s->name, o->name);
                rg_autofree char *there = rg_strf("from %s' -l %s ", c->name, o->name);
                assert_contains(part, here);
                if (n == 2)
                    assert_contains(part, there);
            }
        }
        assert_int_equal(count, 3);
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
    for (const struct rg_text *t = rg_manual_pages; t->name; t++) {
        const char *page = t->name;
        page += rg_str_starts(page, "reigen-") ? strlen("reigen-") : 0;
        if (!rg_str_has_word(man->completes, page))
            fail_msg("not %s", page);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shell_learns_every_option_and_command),
        cmocka_unit_test(options_of_tables_are_completed_under_all_names),
        cmocka_unit_test(help_is_completed_with_every_other_command),
        cmocka_unit_test(every_page_is_completed),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
