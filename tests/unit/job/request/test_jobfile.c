/* SPDX-License-Identifier: Apache-2.0 */
#include "job/request/jobfile.h"
#include "job/request/request.h"
#include "platform/drivers.h"
#include "job/yaml/yaml.h"
#include "unit.h"

static void must_parse(const char *text, struct rg_request *request)
{
    struct rg_error err = RG_ERROR_INIT;

    rg_request_init(request);
    if (rg_jobfile_parse(request, "job.yaml", text, strlen(text), &err) < 0)
        fail_msg("%s", err.text);
}

static void a_full_file_fills_the_job(void **state)
{
    static const char text[] =
        "version: 1\n"
        "command: [python, train.py, --epochs, 4, \"\"]\n"
        "np: 4\n"
        "hosts:\n  localhost: 4\n"
        "env:\n  A: 1\n  B: \"two words\"\n  HOME:\n  E: \"\"\n"
        "share-env: [TOKEN, KEY]\n"
        "cwd: /tmp\ntimeout: 2h\nbind-to: core\ntag-output: false\n"
        "timestamp-output: true\nranks: \"0,2\"\nstdin: none\noutput-dir: 'a b'\n";
    struct rg_request request;
    const struct rg_job *job = &request.job;

    (void) state;
    must_parse(text, &request);
    assert_int_equal(job->command.count, 5);
    assert_string_equal(job->command.v[3], "4");
    assert_string_equal(job->command.v[4], "");
    assert_int_equal(job->np, 4);
    assert_int_equal(job->nhosts, 1);
    assert_int_equal(job->hosts[0].nslots, 4);
    assert_int_equal(job->env.count, 4);
    assert_string_equal(rg_env_get(&job->env, "B"), "two words");
    assert_string_equal(job->env.v[2], "HOME");
    assert_string_equal(rg_env_get(&job->env, "E"), "");
    assert_int_equal(job->share_env.count, 2);
    assert_int_equal(job->timeout_ms, 7200000);
    assert_int_equal(job->bind, RG_BIND_CORE);
    assert_int_equal(job->tag, RG_TAG_OFF);
    assert_true(job->timestamps);
    assert_int_equal(job->stdin_mode, RG_STDIN_NONE);
    assert_string_equal(job->output_dir, "a b");
    rg_request_fini(&request);
}

static void a_command_of_one_text_goes_to_the_shell(void **state)
{
    struct rg_request request;

    (void) state;
    must_parse("command: |\n  echo one\n  echo two\n", &request);
    assert_int_equal(request.job.command.count, 3);
    assert_string_equal(request.job.command.v[1], "-c");
    assert_string_equal(request.job.command.v[2], "echo one\necho two\n");
    rg_request_fini(&request);
}

static void hosts_may_be_text_list_or_mapping(void **state)
{
    static const char *const texts[] = {"hosts: a:2,b:4\n", "hosts: [a:2, b:4]\n",
                                        "hosts: {a: 2, b: 4}\n", "hosts:\n- a:2\n- b:4\n"};

    (void) state;
    for (size_t i = 0; i < rg_array_len(texts); i++) {
        struct rg_request request;
        must_parse(texts[i], &request);
        assert_int_equal(request.job.nhosts, 2);
        assert_int_equal(request.job.hosts[1].nslots, 4);
        assert_int_equal(request.hosts_source, RG_FROM_JOBFILE);
        rg_request_fini(&request);
    }
}

static void nul_bytes_and_huge_files_are_refused(void **state)
{
    struct rg_request request;
    struct rg_error err = RG_ERROR_INIT;
    size_t nbytes = RG_YAML_NBYTES_MAX + 1;
    char *huge = malloc(nbytes);

    (void) state;
    memset(huge, ' ', nbytes);
    rg_request_init(&request);
    assert_int_equal(rg_jobfile_parse(&request, "j", "np: 1\0", 6, &err), -EINVAL);
    assert_contains(err.text, "j:1:6: byte 0x00");
    assert_int_equal(rg_jobfile_parse(&request, "j", huge, nbytes, &err), -EFBIG);
    assert_int_equal(err.exit_code, 2);
    rg_request_fini(&request);
    free(huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_file_fills_the_job),
        cmocka_unit_test(a_command_of_one_text_goes_to_the_shell),
        cmocka_unit_test(hosts_may_be_text_list_or_mapping),
        cmocka_unit_test(nul_bytes_and_huge_files_are_refused),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
