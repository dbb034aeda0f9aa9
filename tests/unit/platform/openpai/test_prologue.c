/* SPDX-License-Identifier: Apache-2.0 */
/* What the text does in real shells, with a URL as well: tests/behaviour/test_pai_shells.py. */
#include "unit.h"

#include "base/exitcode.h"
#include "platform/openpai/jobfile/prologue.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void a_source_that_a_shell_would_not_leave_alone_is_refused(void **state)
{
    static const struct {
        struct rg_pai_agent_source source;
        const char *words; /* NULL: it is taken */
    } cases[] = {
        { { NULL, NULL }, NULL },
        { { "/mnt/tools/reigen-agent", NULL }, NULL },
        { { "reigen-agent", NULL }, "absolute path" },
        { { "/a'b", NULL }, "absolute path" }, { { "/a\nb", NULL }, "absolute path" },
        { { "/$HOME/a", NULL }, "absolute path" }, { { "/<% x %>", NULL }, "absolute path" },
        { { NULL, "https://host/agent#sha256=" HEX }, NULL },
        { { NULL, "http://[::1]:80/a?b=c&d=%20#sha256=" HEX }, NULL },
        { { NULL, "ftp://host/agent#sha256=" HEX }, "write https://" },
        { { NULL, "https://#sha256=" HEX }, "write https://" },
        { { NULL, "https://host/agent" }, "append #sha256=" },
        { { NULL, "https://host/agent#sha256=0123" }, "append #sha256=" },
        { { NULL, "https://host/agent#sha256=" HEX "0" }, "append #sha256=" },
        { { NULL, "https://host/a b#sha256=" HEX }, "at most 1024" },
        { { NULL, "https://host/a'b#sha256=" HEX }, "at most 1024" },
        { { NULL, "https://host/$b#sha256=" HEX }, "at most 1024" },
        { { "/a", "https://host/a#sha256=" HEX }, "take one out" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_error err = RG_ERROR_INIT;
        int r = rg_pai_agent_source_check(&cases[i].source, &err);
        if (!cases[i].words) {
            assert_int_equal(r, 0);
            continue;
        }
        assert_int_equal(r, -EINVAL);
        assert_int_equal(err.exit_code, RG_EXIT_USAGE);
        if (!strstr(err.text, cases[i].words))
            fail_msg("%zu: %s", i, err.text);
    }
}

static void the_text_is_one_line_that_no_template_is_in(void **state)
{
    static const struct rg_pai_agent_source sources[] = {
        { NULL, NULL }, { "/mnt/reigen-agent", NULL }, { NULL, "https://host/a#sha256=" HEX },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(sources); i++) {
        rg_autobuf struct rg_buf text = RG_BUF_INIT;
        rg_pai_agent_prologue(&sources[i], &text);
        const char *line = rg_buf_text(&text);
        size_t n = strlen(line);
        assert_true(rg_buf_status(&text) == 0 && n > 2);
        assert_string_equal(line + n - 2, "; ");
        assert_null(strpbrk(line, "\r\n\t"));
        assert_null(strstr(line, "<%"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_that_a_shell_would_not_leave_alone_is_refused),
        cmocka_unit_test(the_text_is_one_line_that_no_template_is_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
