/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/commands.h"
#include "head/console/words.h"
#include "cmd/help/help.h"
#include "cmd/help/texts.h"
#include "platform/drivers.h"
#include "unit.h"

static size_t longest_line(const char *text)
{
    size_t longest = 0;

    for (const char *p = text; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] == '\n')) {
        size_t n = strcspn(p, "\n");
        longest = n > longest ? n : longest;
    }
    return longest;
}

static void help_names_every_option_and_fits_the_terminal(void **state)
{
    size_t count;
    const struct rg_option *options = rg_options(&count);

    (void) state;
    for (int columns = 60; columns <= 120; columns += 20) {
        rg_autobuf struct rg_buf text = RG_BUF_INIT;
        assert_int_equal(rg_help_run(&text, columns, "all"), 0);
        for (size_t i = 0; i < count; i++)
            assert_contains(rg_buf_text(&text), options[i].name);
        assert_true(longest_line(rg_buf_text(&text)) <= (size_t) columns);
    }
}

static const struct rg_text *page_for(const char *name)
{
    const struct rg_text *t = rg_manual_pages;

    while (t->name && strcmp(t->name, name) != 0)
        t++;
    assert_non_null(t->name);
    return t;
}

/* The man page and --help of a command, by its own name and by that of the script. */
static void scripts_have_help_and_a_page_with_every_option(void **state)
{
    (void) state;
    for (const struct rg_command *c = rg_commands; c->name; c++) {
        const struct rg_script *s = c->script;
        rg_autobuf struct rg_buf help = RG_BUF_INIT;
        rg_autofree char *name = rg_strf("reigen-%s", c->name);
        const struct rg_text *page = page_for(strcmp(c->name, "horovodrun") == 0 ? c->name : name);
        assert_string_equal(page->also, s && s->name ? s->name : "");
        if (!s)
            continue;
        rg_help_script(&help, 80, c);
        assert_true(longest_line(rg_buf_text(&help)) <= 80);
        assert_true(longest_line(page->text) <= 80);
        if (s->name) {
            assert_contains(page->text, s->name);
            assert_contains(rg_buf_text(&help), s->name);
        }
        for (const struct rg_script_option *o = s->options; o->name; o++) {
            rg_autobuf struct rg_buf left = RG_BUF_INIT;
            rg_script_option_print(&left, o);
            rg_autofree char *line = rg_strf("\n  %s", rg_buf_text(&left));
            assert_contains(rg_buf_text(&help), line);
            rg_autofree char *bold = rg_strf("\n.B \\-\\-%.2s", o->name);
            assert_contains(page->text, bold);
        }
    }
}

static void help_names_every_command(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    rg_help_reigen(&text, 80, rg_commands);
    for (const struct rg_command *c = rg_commands; c->name; c++)
        assert_contains(rg_buf_text(&text), c->name);
    rg_help_all(&text, 80, rg_commands);
    for (const struct rg_command *c = rg_commands; c->name; c++) {
        assert_contains(rg_buf_text(&text), c->name);
        for (const struct rg_command_option *o = c->shared; o && o->left; o++)
            assert_contains(rg_buf_text(&text), o->left);
    }
    assert_true(longest_line(rg_buf_text(&text)) <= 80);
}

static void wrapping_keeps_words_and_indents(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    rg_wrap(&text, "aa bb cc averyveryverylongword d", 2, 9);
    assert_string_equal(rg_buf_text(&text), "  aa bb\n  cc\n  averyveryverylongword\n  d\n");
}

static void manual_pages_are_of_the_tables(void **state)
{
    size_t count;
    const struct rg_option *options = rg_options(&count);
    const char *run = page_for("reigen-run")->text, *job = page_for("reigen-job")->text;

    (void) state;
    for (const struct rg_text *t = rg_manual_pages; t->name; t++)
        assert_int_equal(strncmp(t->text, ".TH ", 4), 0);
    assert_contains(run, "\\-\\-start\\-timeout TIME");
    assert_contains(run, "124 (timeout)");
    for (size_t i = 0; i < count; i++) {
        char line[80];
        snprintf(line, sizeof line, "\n.B %.2s", rg_option_key(&options[i]));
        if (options[i].file != RG_FILE_NONE)
            assert_contains(job, line);
    }
}

static void shell_words_are_quoted_only_where_needed(void **state)
{
    static const char *const cases[][2] = {
        {"plain-1.0/x", "plain-1.0/x"}, {"", "''"},       {"a b", "'a b'"}, {"it's", "'it'\\''s'"},
        {"$HOME", "'$HOME'"},           {"a=b", "'a=b'"}, {"*", "'*'"},     {"~", "'~'"},
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        rg_autobuf struct rg_buf text = RG_BUF_INIT;
        rg_shell_quote(&text, cases[i][0]);
        assert_string_equal(rg_buf_text(&text), cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_names_every_option_and_fits_the_terminal),
        cmocka_unit_test(scripts_have_help_and_a_page_with_every_option),
        cmocka_unit_test(help_names_every_command),
        cmocka_unit_test(wrapping_keeps_words_and_indents),
        cmocka_unit_test(manual_pages_are_of_the_tables),
        cmocka_unit_test(shell_words_are_quoted_only_where_needed),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
