/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that tests/behaviour/test_pai.py does not reach one by one. */
#include "unit.h"

#include "platform/openpai/jobfile/pai_internal.h"

static void lines_become_one_only_where_each_is_a_whole_command(void **state)
{
    static const struct {
        const char *text, *line; /* NULL: refused */
    } cases[] = {
        { "ls", "ls" },
        { " ls # all ", " ls # all " }, /* one line stays as it is */
        { "a\nb", "a; b" },
        { "a\r\nb\r\n", "a; b" },
        { "a;\nb &\n\n  c\n", "a; b & c" },
        { "# why\na\n#\nb", "a; b" },
        { "a \\\n  b\nc", "a   b; c" },
        { "echo 'x\\'\nb", "echo 'x\\'; b" },
        { "echo \"a'b\"\nb", "echo \"a'b\"; b" },
        { "(a; b)\nc", "(a; b); c" },
        { "for i in 1; do a; done\nc", "for i in 1; do a; done; c" },
        { "cat <<<x\nb", "cat <<<x; b" },
        { "if a; then b; fi\nc", "if a; then b; fi; c" },
        { "a && b || c\nd", "a && b || c; d" },
        { "a ||\nb", NULL }, { "a &&\nb", NULL }, { "a |\nb", NULL },
        { "if a\nthen b\nfi", NULL }, { "for i in 1; do\na\ndone", NULL },
        { "(\na\n)", NULL }, { "f() {\na\n}", NULL }, { "cat <<E\nx\nE", NULL },
        { "echo 'a\nb'", NULL }, { "echo \"a\nb\"", NULL },
        { "a # b\nc", "a; c" }, { "a # it's\nb", "a; b" }, { "a # x \\\nb", "a; b" },
        { "a#b $# ${#c}\nd", "a#b $# ${#c}; d" }, { "echo '# a'\nb;# c", "echo '# a'; b;" },
        { "a\rb", NULL }, { "", NULL }, { "\n", NULL }, { "# only\n", NULL },
        { "case a in\na) b;;\nesac", NULL }, { "a\n&& b", NULL },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        rg_autofree char *line = NULL;
        int r = rg_pai_one_line(cases[i].text, &line);
        if (cases[i].line && r == 0)
            assert_string_equal(line, cases[i].line);
        else if (cases[i].line || r != -EINVAL)
            fail_msg("%s: %d", cases[i].text, r);
    }
}

static void a_hope_is_a_sleep_before_something(void **state)
{
    static const struct {
        const char *command;
        bool more, sleeps, worker_sleeps;
    } cases[] = {
        { "sleep 1000 &&  x", false, true, true }, { "  sleep 5m; x", false, true, false },
        { "sleep 0.5\nx", false, true, false }, { "sleep 9", true, true, false },
        { "sleep 9;", true, true, false }, { "sleep 9;", false, false, false },
        { "sleep 9", false, false, false }, { "sleep 9 && ", true, false, false },
        { "sleep infinity", true, false, false }, { "sleep $N && x", false, false, false },
        { "sleepy 9 && x", false, false, false }, { "sleep", true, false, false },
        { "x; sleep 9", true, false, false }, { "sleep 9 || x", false, false, false },
    };
    struct rg_pai_hope hope;

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        if (rg_pai_hope_find(cases[i].command, cases[i].more, true, &hope) != cases[i].sleeps ||
            rg_pai_hope_find(cases[i].command, cases[i].more, false, &hope) !=
                cases[i].worker_sleeps)
            fail_msg("%s", cases[i].command);
    }
}

static void templates_are_found_however_they_are_written(void **state)
{
    struct rg_pai_template found;
    const char *text = "a <% $parameters.x %><%$secrets.y%> <% $data.uri[0] %> <% z %> <% $p";

    (void) state;
    for (size_t i = 0; i < 4; i++, text = found.whole + found.nbytes) {
        static const char *const wanted[][2] = { { "parameters", "x" }, { "secrets", "y" },
                                                 { "data", "uri[0]" }, { "", "" } };
        assert_true(rg_pai_template_next(text, &found));
        assert_string_equal(found.kind, wanted[i][0]);
        assert_string_equal(found.name, wanted[i][1]);
    }
    assert_false(rg_pai_template_next(text, &found));
}

static void json_is_placed_whatever_yaml_says_of_it(void **state)
{
    static const char text[] = "{\t\"jobName\"\t:\t\"a\\/b\",\n\t\"image\": \"\\ud83d\\ude00\",\n"
                               "\t\"taskRoles\":[{\"name\":\"\\t\",\"command\":\"x\"}]\t}\n\t";
    struct rg_pai job = RG_PAI_INIT;
    struct rg_pai_findings found = RG_PAI_FINDINGS_INIT;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(rg_pai_read("job", text, strlen(text), &job, &found, &err), 0);
    assert_int_equal(found.count, 2);
    assert_string_equal(found.v[0].path, "jobName");
    assert_int_equal(found.v[0].column, 15);
    assert_string_equal(found.v[1].path, "taskRoles[0].name");
    assert_int_equal(found.v[1].line, 3);
    assert_int_equal(found.v[1].column, 23);
    rg_pai_findings_fini(&found);
    rg_pai_fini(&job);
}

static void defaults_of_a_version_are_filled_in(void **state)
{
    static const char v1[] = "{\"jobName\":\"a\",\"image\":\"b\",\"taskRoles\":"
                             "[{\"name\":\"m\",\"command\":\"x\",\"cpuNumber\":\"3\"}]}";
    struct rg_pai job = RG_PAI_INIT;
    struct rg_pai_findings found = RG_PAI_FINDINGS_INIT;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(rg_pai_read("job", v1, strlen(v1), &job, &found, &err), 0);
    assert_int_equal(found.count, 0);
    assert_int_equal(job.version, 1);
    assert_int_equal(job.nroles, 1);
    const struct rg_pai_role *role = &job.roles[0];
    assert_int_equal(role->tasks, 1);
    assert_int_equal(role->cpu, 3);
    assert_int_equal(role->gpu, 0);
    assert_int_equal(role->memory_mb, 100);
    assert_int_equal(role->shm_mb, 64);
    assert_int_equal(role->min_failed, 1);
    assert_true(role->min_succeeded == RG_PAI_NONE && job.retries == RG_PAI_NONE);
    rg_pai_fini(&job);
}

static void no_more_findings_are_kept_than_can_be_read(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_pai job = RG_PAI_INIT;
    struct rg_pai_findings found = RG_PAI_FINDINGS_INIT;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    rg_buf_printf(&text, "{\"jobName\":\"a\",\"image\":\"b\"");
    for (int i = 0; i < RG_PAI_FINDINGS_MAX + 50; i++)
        rg_buf_printf(&text, ",\"k%d\":0", i);
    rg_buf_printf(&text, "}");
    assert_int_equal(rg_pai_read("job", rg_buf_text(&text), rg_buf_nbytes(&text), &job, &found,
                                 &err), 0);
    assert_int_equal(found.count, RG_PAI_FINDINGS_MAX);
    assert_int_equal(found.nerrors, RG_PAI_FINDINGS_MAX + 51); /* taskRoles is not there */
    rg_pai_findings_fini(&found);
    rg_pai_fini(&job);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_one_only_where_each_is_a_whole_command),
        cmocka_unit_test(a_hope_is_a_sleep_before_something),
        cmocka_unit_test(templates_are_found_however_they_are_written),
        cmocka_unit_test(json_is_placed_whatever_yaml_says_of_it),
        cmocka_unit_test(defaults_of_a_version_are_filled_in),
        cmocka_unit_test(no_more_findings_are_kept_than_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
