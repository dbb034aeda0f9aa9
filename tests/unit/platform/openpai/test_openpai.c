/* SPDX-License-Identifier: Apache-2.0 */
/* What OpenPAI's REST server answers, against texts that are written down here, and its exit
 * codes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/openpai/server/server_internal.h"
#include "unit.h"

/* --- jobs ------------------------------------------------------------------------------------- */

static const char job_text[] =
    "{\"name\":\"alice~train\",\"jobStatus\":{\"username\":\"alice\",\"state\":\"FAILED\","
    "\"retries\":1,\"createdTime\":1700000000000,\"completedTime\":null,\"appExitCode\":-1200,"
    "\"appExitTriggerMessage\":\"out of memory\",\"appExitTriggerTaskRoleName\":\"worker\","
    "\"appExitTriggerTaskIndex\":1,\"virtualCluster\":\"default\"},\"taskRoles\":{\"master\":{"
    "\"taskRoleStatus\":{\"name\":\"master\"},\"taskStatuses\":[{\"taskIndex\":0,"
    "\"taskState\":\"RUNNING\",\"containerIp\":\"10.0.0.5\",\"containerPorts\":{\"ssh\":\"3001\","
    "\"reigen\":\"3002,3003\",\"http\":3000,\"odd\":\"70000\"},\"containerLog\":\"http://x/\","
    "\"containerId\":\"c1\",\"containerExitCode\":null}]},\"worker\":{\"taskStatuses\":[{"
    "\"taskIndex\":0,\"taskState\":\"STOPPED\",\"containerExitCode\":-220},{\"taskIndex\":1,"
    "\"taskState\":\"FAILED\",\"containerExitCode\":137}]}}}";

static void a_job_is_read_with_its_tasks(void **state)
{
    struct pai_job job = { .ntasks = 0 };

    (void) state;
    assert_int_equal(pai_read_job(job_text, strlen(job_text), &job), 0);
    assert_string_equal(job.user, "alice");
    assert_string_equal(job.name, "train");
    assert_int_equal(job.state, PAI_FAILED);
    assert_true(job.has_exit);
    assert_int_equal(job.exit_code, -1200);
    assert_string_equal(job.said, "out of memory");
    assert_string_equal(job.trigger_role, "worker");
    assert_int_equal(job.trigger_index, 1);
    assert_true(job.created_ms == 1700000000000 && job.completed_ms == 0);
    assert_int_equal(job.ntasks, 3);
    assert_string_equal(job.tasks[0].ip, "10.0.0.5");
    assert_false(job.tasks[0].has_exit);
    assert_int_equal(pai_task_port(&job.tasks[0], "ssh"), 3001);
    assert_int_equal(pai_task_port(&job.tasks[0], "reigen"), 3002);
    assert_int_equal(pai_task_port(&job.tasks[0], "http"), 3000);
    assert_int_equal(pai_task_port(&job.tasks[0], "odd"), 0);
    assert_int_equal(pai_task_port(&job.tasks[0], "none"), 0);
    assert_int_equal(pai_task_port(&job.tasks[1], "ssh"), 0);
    assert_string_equal(job.tasks[2].role, "worker");
    assert_int_equal(job.tasks[2].exit_code, 137);
    assert_int_equal(pai_job_exit(2, &job), 137);
    pai_job_fini(&job);
}

static void what_is_no_job_is_refused(void **state)
{
    static const char *const texts[] = {
        "", "null", "[]", "{}", "{\"name\":\"a\"}", "{\"name\":\"a\",\"jobStatus\":3}",
        "{\"jobStatus\":{}}", "<html></html>", "{\"name\":\"a\",\"jobStatus\":{",
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(texts); i++) {
        struct pai_job job = { .ntasks = 0 };
        if (pai_read_job(texts[i], strlen(texts[i]), &job) != -EPROTO)
            fail_msg("%s", texts[i]);
        pai_job_fini(&job);
    }
    /* Fields of the wrong type are as those that are not there. */
    struct pai_job job = { .ntasks = 0 };
    const char odd[] = "{\"name\":\"a\",\"jobStatus\":{\"state\":7,\"appExitCode\":\"x\","
                       "\"username\":[]},\"taskRoles\":{\"r\":{\"taskStatuses\":[5,null]},"
                       "\"s\":1}}";
    assert_int_equal(pai_read_job(odd, strlen(odd), &job), 0);
    assert_int_equal(job.state, PAI_UNKNOWN);
    assert_false(job.has_exit);
    assert_int_equal(job.ntasks, 2);
    pai_job_fini(&job);
}

static void a_list_is_read_for_one_user_and_name(void **state)
{
    static const char text[] =
        "[{\"name\":\"a\",\"username\":\"u\",\"state\":\"RUNNING\"},"
        "{\"name\":\"u~b\",\"username\":\"u\",\"state\":\"SUCCEEDED\"},"
        "{\"name\":\"a\",\"username\":\"v\",\"state\":\"WAITING\"}]";
    struct pai_answer answer = { .was_there = false };

    (void) state;
    assert_int_equal(pai_read_jobs(text, strlen(text), NULL, NULL, &answer.jobs), 0);
    assert_int_equal(answer.jobs.count, 3);
    assert_string_equal(answer.jobs.v[1].name, "b");
    pai_answer_fini(&answer);
    assert_int_equal(pai_read_jobs(text, strlen(text), "u", NULL, &answer.jobs), 0);
    assert_int_equal(answer.jobs.count, 2);
    pai_answer_fini(&answer);
    assert_int_equal(pai_read_jobs(text, strlen(text), "u", "a", &answer.jobs), 0);
    assert_int_equal(answer.jobs.count, 1);
    assert_int_equal(answer.jobs.v[0].state, PAI_RUNNING);
    pai_answer_fini(&answer);
    assert_int_equal(pai_read_jobs("[3]", 3, NULL, NULL, &answer.jobs), -EPROTO);
    pai_answer_fini(&answer);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void a_refusal_has_fields(void **state)
{
    static const struct {
        long status;
        const char *type, *text;
        enum pai_refused why;
        const char *code, *said;
    } cases[] = {
        { 404, "application/json", "{\"code\":\"NoJobError\",\"message\":\"Job a is not found.\"}",
          PAI_MISSING, "NoJobError", "Job a is not found." },
        { 404, "application/json", "{\"code\":\"NoApiError\",\"message\":\"API /x not found.\"}",
          PAI_OTHER_VERSION, "NoApiError", "API /x not found." },
        { 409, "", "{\"code\":\"ConflictJobError\",\"message\":\"m\"}", PAI_EXISTS,
          "ConflictJobError", "m" },
        { 400, "", "{\"code\":\"IncorrectPasswordError\",\"message\":\"m\"}", PAI_DENIED,
          "IncorrectPasswordError", "m" },
        { 400, "", "{\"message\":\"bad indentation\"}", PAI_INVALID, "", "bad indentation" },
        { 400, "",
          "{\"code\":\"InvalidProtocolError\",\"message\":\"[{\\\"dataPath\\\":\\\".taskRoles\\\","
          "\\\"message\\\":\\\"should be object\\\"},{\\\"dataPath\\\":\\\"\\\",\\\"message\\\":"
          "\\\"should NOT have additional properties\\\",\\\"params\\\":{"
          "\\\"additionalProperty\\\":"
          "\\\"x\\\"}}]\"}",
          PAI_INVALID, "InvalidProtocolError",
          ".taskRoles: should be object\n"
          "the file: should NOT have additional properties: x" },
        { 500, "", "{\"code\":\"UnknownError\",\"message\":\"m\"}", PAI_REFUSED, "UnknownError",
          "m" },
        { 502, "text/html", "<html>Bad Gateway</html>", PAI_AWAY, "", "a page in HTML" },
        { 429, "text/plain", "Too many requests\nplease", PAI_BUSY, "", "Too many requests" },
        { 403, "text/html; charset=utf-8", "<html>", PAI_FOREIGN, "", "a page in HTML" },
        { 200, "", "hello\x01there", PAI_FOREIGN, "", "hellothere" },
        { 400, "", "", PAI_FOREIGN, "", "nothing that can be read" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct pai_refusal refusal;
        pai_read_refusal(cases[i].status, cases[i].type, cases[i].text, strlen(cases[i].text),
                         &refusal);
        if (refusal.why != cases[i].why || strcmp(refusal.code, cases[i].code) != 0 ||
            strcmp(refusal.text, cases[i].said) != 0)
            fail_msg("%s: %d '%s' '%s'", cases[i].text, refusal.why, refusal.code, refusal.text);
    }
}

static void a_token_says_whose_it_is(void **state)
{
    /* {"username":"alice","iat":1}, and parts that are none. */
    char *user = pai_token_user("e30.eyJ1c2VybmFtZSI6ImFsaWNlIiwiaWF0IjoxfQ.c2ln");

    (void) state;
    assert_string_equal(user, "alice");
    free(user);
    assert_null(pai_token_user("secret"));
    assert_null(pai_token_user("a.!!.b"));
    assert_null(pai_token_user("a.e30.b"));
    assert_null(pai_token_user(".."));
}

static void the_same_job_may_be_written_otherwise(void **state)
{
    static const char mine[] = "protocolVersion: 2\nname: a\ntype: job\nsecrets: {k: abc}\n"
                               "prerequisites: [{name: i, type: dockerimage, uri: x}]\n"
                               "taskRoles: {m: {commands: [echo <% $secrets.k %>],\n"
                               "  dockerImage: i,\n"
                               "  resourcePerInstance: {cpu: 1, memoryMB: 100, gpu: 0}}}\n";
    static const char theirs[] = "name: a\nprotocolVersion: 2\ntype: job\nsecrets: '******'\n"
                                 "prerequisites:\n- {type: dockerimage, uri: x, name: i}\n"
                                 "taskRoles:\n  m:\n    dockerImage: i\n    commands:\n"
                                 "    - echo <% $secrets.k %>\n    resourcePerInstance: "
                                 "{gpu: 0, cpu: 1, memoryMB: 100}\n";
    static const char other[] = "protocolVersion: 2\nname: a\ntype: job\n"
                                "prerequisites: [{name: i, type: dockerimage, uri: x}]\n"
                                "taskRoles: {m: {dockerImage: i, commands: [echo b],\n"
                                "  resourcePerInstance: {cpu: 1, memoryMB: 100, gpu: 0}}}\n";

    (void) state;
    assert_true(pai_same_job(mine, strlen(mine), mine, strlen(mine)));
    assert_true(pai_same_job(mine, strlen(mine), theirs, strlen(theirs)));
    assert_false(pai_same_job(mine, strlen(mine), other, strlen(other)));
    assert_false(pai_same_job(mine, strlen(mine), "", 0));
    assert_false(pai_same_job(mine, strlen(mine), "<html>", 6));
}

/* --- logs ------------------------------------------------------------------------------------- */

static void a_log_is_told_once(void **state)
{
    static const struct {
        const char *text;
        bool whole;
        const char *told;
        bool skipped;
    } steps[] = {
        { "one\n", true, "one\n", false },    { "one\n", true, "", false },
        { "one\ntwo\n", true, "two\n", false }, { "three\n", false, "three\n", false },
        { "e\ntwo\nthree\nfour\n", true, "four\n", false }, /* its end alone */
        { "", true, "", false },              { "nine\n", true, "nine\n", true },
    };
    struct pai_log log = { .offset = 0 };

    (void) state;
    for (size_t i = 0; i < rg_array_len(steps); i++) {
        rg_autobuf struct rg_buf text = RG_BUF_INIT;
        bool skipped;
        assert_int_equal(pai_log_take(&log, steps[i].text, strlen(steps[i].text), steps[i].whole,
                                      &text, &skipped), 0);
        if (strcmp(rg_buf_text(&text), steps[i].told) != 0 || skipped != steps[i].skipped)
            fail_msg("%zu: '%s' %d", i, rg_buf_text(&text), skipped);
    }
    assert_int_equal(log.offset, strlen("one\ntwo\nthree\nfour\nnine\n"));
    pai_log_fini(&log);
}

static void a_page_leads_to_a_log(void **state)
{
    static const struct {
        const char *url, *html, *to;
    } cases[] = {
        { "http://n:1/log-manager/tail/u/j/r/p/", "<a href=\"stderr\">x</a><a href='all'>y</a>",
          "http://n:1/log-manager/tail/u/j/r/p/all" },
        { "http://n:8042/node/containerlogs/c/u/",
          "<a href=\"/node/containerlogs/c/u/user.pai.stdout/?start=-4096\">s</a>",
          "http://n:8042/node/containerlogs/c/u/user.pai.stdout/?start=0" },
        { "http://n/p?x=/y", "<a href=\"stdout?a\">", "http://n/stdout?a" },
        { "http://n", "<a href=\"//m/stdout\">", "http://m/stdout" },
        { "http://n/", "<a href=\"https://m/stdout\">", "https://m/stdout" },
        { "http://n/", "<a href=\"file://m/stdout\">", NULL },
        { "http://n/", "<a href=\"other\">", NULL },
        { "http://n/", "<a href=", NULL },
        { "http://n/", "<a href=\"stdout", NULL },
        { "http://n/", "", NULL },
    };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    static const char page[] = "<html><pre class=\"x\">a &lt;b&gt; &amp;&#x27; <b>c</b>\n</pre>";

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        char *to = pai_log_link(cases[i].url, cases[i].html, strlen(cases[i].html));
        if (!to != !cases[i].to || (to && strcmp(to, cases[i].to) != 0))
            fail_msg("%s: %s", cases[i].html, to ? to : "NULL");
        free(to);
    }
    assert_true(pai_log_shown(page, strlen(page), &text));
    assert_string_equal(rg_buf_text(&text), "a <b> &' c\n");
    assert_false(pai_log_shown("<pre>a", 6, &text));
    assert_false(pai_log_shown("", 0, &text));
}

static void what_is_asked_for_of_a_log(void **state)
{
    static const char tail[] = "http://n/log-manager/tail/u/j/r/p/";
    static const struct {
        const char *url, *asked;
        uint64_t offset;
        bool all, part, too_long;
    } cases[] = {
        { tail, "http://n/log-manager/full/u/j/r/p/user.pai.all", 0, false, false, false },
        { tail, "http://n/log-manager/tail/u/j/r/p/user.pai.all", 0, false, false, true },
        { tail, "http://n/log-manager/tail/u/j/r/p/user.pai.all", 9, false, false, false },
        { tail, "http://n/log-manager/full/u/j/r/p/user.pai.all", 9, true, false, false },
        { "http://n/log-manager/tail/p/all", "http://n/log-manager/tail/p/all", 9, false, false,
          false },
        { "http://n/a?start=0", "http://n/a?start=0&end=16777216", 0, false, true, false },
        { "http://n/a?start=0&x", "http://n/a?start=5&end=16777225&x", 9, false, true, false },
        { "http://n/a?start=0", "http://n/a?start=0", 9, true, false, false },
        { "http://n/a?start=07", "http://n/a?start=07", 9, false, false, false },
        { "http://n/a", "http://n/a", 9, false, false, false },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        const struct pai_log log = { .offset = cases[i].offset, .ntail = cases[i].offset ? 4 : 0,
                                     .too_long = cases[i].too_long };
        bool part;
        char *asked = pai_log_url(&log, cases[i].url, cases[i].all, &part);
        assert_string_equal(asked, cases[i].asked);
        assert_int_equal(part, cases[i].part);
        free(asked);
    }
}

static void the_manager_of_logs_adds_line_ends(void **state)
{
    static const char older[] = "http://n/log-manager/tail/p/all";
    static const char newer[] = "http://n/log-manager/n:1/api/v1/logs/user.pai.all?token=t";
    static const struct {
        const char *url, *text, *clean;
        bool once;
        int r;
    } cases[] = {
        { older, "a\nb\n", "a\nb", false, 0 },    { older, "a\nb\n", "a\nb\n", true, 0 },
        { older, "a", "a", false, 0 },            { older, "", "", false, 0 },
        { older, "No such file!\n", "", false, -ENOENT },
        { older, "No such file!\nx", "No such file!\nx", false, 0 },
        { newer, "a\n\n", "a\n", true, 0 },       { newer, "a\n", "a", true, 0 },
        { "http://n/a", "No such file!\n", "No such file!\n", false, 0 },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        rg_autobuf struct rg_buf clean = RG_BUF_INIT;
        assert_int_equal(pai_log_clean(cases[i].url, cases[i].text, strlen(cases[i].text),
                                       cases[i].once, &clean), cases[i].r);
        assert_string_equal(rg_buf_text(&clean), cases[i].clean);
    }
}

/* --- exit codes ------------------------------------------------------------------------------- */

static void each_exit_code_has_one_meaning(void **state)
{
    size_t n, count[3] = { 0 };
    const struct pai_exit *exits = pai_exit_table(&n);

    (void) state;
    for (size_t i = 0; i < n; i++) {
        const struct pai_exit *one = &exits[i];
        int code = pai_exit_code(one->version, one->code);
        if (pai_exit_find(one->version, one->code) != one || !*one->phrase || !*one->words ||
            code < 0 || code > 255 || (code == 0) != (one->fault == PAI_FAULT_NONE) ||
            one->words[strlen(one->words) - 1] == '.')
            fail_msg("%d of version %d: %d", one->code, one->version, code);
        count[one->version]++;
    }
    assert_int_equal(count[1], 53);
    assert_int_equal(count[2], 56);
}

static void an_end_has_an_exit_code(void **state)
{
    static const struct {
        int version, code, ours;
    } cases[] = {
        { 1, 0, 0 },       { 1, 1, 1 },        { 2, 42, 42 },     { 2, 137, 137 },
        { 1, 255, 1 },     { 2, 255, 1 },      { 2, -210, 75 },   { 1, -7351, 75 },
        { 2, -220, 75 },   { 2, -1200, 137 },  { 1, 196, 137 },   { 2, 254, 125 },
        { 2, -1001, 76 },  { 1, -7111, 76 },   { 2, 251, 69 },    { 1, -7252, 69 },
        { 2, 249, 124 },   { 2, 220, 127 },    { 1, 220, 220 },   { 2, -5, 76 },
        { 1, 99999, 76 },  { 2, -200, 2 },     { 1, -7300, 2 },
    };
    struct pai_job job = { .state = PAI_SUCCEEDED, .has_exit = true, .exit_code = 3 };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        if (pai_exit_code(cases[i].version, cases[i].code) != cases[i].ours)
            fail_msg("%d of version %d: %d", cases[i].code, cases[i].version,
                     pai_exit_code(cases[i].version, cases[i].code));
    }
    assert_int_equal(pai_job_exit(1, &job), 0);
    job.state = PAI_STOPPED;
    assert_int_equal(pai_job_exit(1, &job), RG_EXIT_PREEMPTED);
    job.state = PAI_FAILED;
    assert_int_equal(pai_job_exit(1, &job), 3);
    job.exit_code = 0;
    assert_int_equal(pai_job_exit(1, &job), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_read_with_its_tasks),
        cmocka_unit_test(what_is_no_job_is_refused),
        cmocka_unit_test(a_list_is_read_for_one_user_and_name),
        cmocka_unit_test(a_refusal_has_fields),
        cmocka_unit_test(a_token_says_whose_it_is),
        cmocka_unit_test(the_same_job_may_be_written_otherwise),
        cmocka_unit_test(a_log_is_told_once),
        cmocka_unit_test(a_page_leads_to_a_log),
        cmocka_unit_test(what_is_asked_for_of_a_log),
        cmocka_unit_test(the_manager_of_logs_adds_line_ends),
        cmocka_unit_test(each_exit_code_has_one_meaning),
        cmocka_unit_test(an_end_has_an_exit_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
