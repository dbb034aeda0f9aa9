/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong command lines and job files: each refusal names the value and what to do about it. */
#include "job/request/jobfile.h"
#include "job/request/request.h"
#include "platform/drivers.h"
#include "unit.h"

#define ARGV_MAX 16

struct refusal {
    const char *input;
    const char *value;  /* what the text must name */
    const char *remedy; /* a part of what it must advise */
};

static const struct refusal command_lines[] = {
    { "", "no command", "reigen run -np 4" },
    { "-np 2", "no command", "reigen run" },
    { "-np 0 x", "-np 0", "1 to 131072" },
    { "-np -1 x", "-1", "1 to 131072" },
    { "-np four x", "four", "1 to 131072" },
    { "-np 4x x", "4x", "1 to" },
    { "-np 131073 x", "131073", "131072" },
    { "-np 99999999999999999999 x", "99999999999999999999", "131072" },
    { "-np", "-np needs a value", "-np N" },
    { "--metrics -- true", "--metrics needs a value", "ADDRESS" },
    { "--np= x", "--np", "1 to" },
    { "--nq 4 x", "--nq", "put -- in front" },
    { "--hostfil f x", "--hostfil", "did you mean --hostfile" },
    { "--tag x", "--tag", "did you mean --tag-output" },
    { "--tagoutput x", "--tagoutput", "did you mean --tag-output" },
    { "--tag-output=yes x", "--tag-output=yes", "takes no value" },
    { "--json=1 x", "--json=1", "takes no value" },
    { "--mca one", "--mca needs two values", "NAME VALUE" },
    { "-H", "-H needs a value", "HOST" },
    { "-H= x", "-H", "localhost:4" },
    { "-H a: x", "slots of host a", "1 to" },
    { "-H a:0 x", "slots of host a", "1 to" },
    { "-H a:4097 x", "4097", "4096" },
    { "-H a:two x", "two", "1 to" },
    { "-H a,,b x", "a,,b", "beside a comma" },
    { "-H a, x", "\"a,\"", "beside a comma" },
    { "-H :4 x", ":4", "NAME:SLOTS" },
    { "-H a/b x", "a/b", "letters, digits" },
    { "-H -a:2 x", "-a", "does not begin" },
    { "-H [::1 x", "[::1", "[::1]:2" },
    { "--hostfile /rg-not-there x", "/rg-not-there", "cannot read" },
    { "--hostfile /tmp x", "/tmp", "cannot read" },
    { "--map-by ppr:2:socket x", "ppr:2:socket", "--ranks-per-host" },
    { "--map-by ppr x", "ppr", "--ranks-per-host" },
    { "--map-by ppr:x:node x", "--map-by x", "whole number" },
    { "--map-by ppr:2:socket:PE=2 x", "ppr:2:socket", "--ranks-per-host" },
    { "--map-by ppr:2:node:PE=x x", "PE=x", "PE=2" },
    { "--map-by slot:nolocal x", "nolocal", "PE=N" },
    { "-n 1 a : b", "b: how many ranks", "-n 1 loader : -n 4 trainer" },
    { "a : -n 1 b", "a: how many ranks", "-n 1 loader : -n 4 trainer" },
    { "-n 1 a :", "no program behind", "write -- in front" },
    { "-n 1 : -n 1 b", "no program in front", "write -- in front" },
    { "-n 1 a : -n 1", "no program behind", "write -- in front" },
    { "-n 1 a : -n 0 b", "-n 0", "1 to" },
    { "-n 1 a : -n 1 --bind-to core b", "--bind-to", "in front of the first program" },
    { "-n 1 a : --nosuch b", "--nosuch", "in front of the first program" },
    { "-n 1 a : -n 1 -x 1A=2 b", "1A", "letters, digits" },
    { "-n 1 -x 1A=2 a : -n 1 b", "1A", "letters, digits" },
    { "-n 1 a : -n 1 --mca btl", "--mca", "two values" },
    { "-n 1 a : -n 1 --hostfile f b", "--hostfile", "in front of the first program" },
    { "-n 1 -H a:1 p : -n 1 -H a:1 q", "-H a:1", "name all hosts once" },
    { "-n 1 -H a:2 p : -n 1 -H b:1 q", "p: of programs with hosts", "-H HOST:SLOTS" },
    { "-n 1 p : -n 1 -H b:1 q", "p: of programs with hosts", "-H HOST:SLOTS" },
    { "--map-by node -n 2 -H a:2 p : -n 2 -H b:2 q", "--map-by node", "name all hosts once" },
    { "--app x -np 2 a", "--app x", "leave one of them out" },
    { "--multi-prog x a", "--multi-prog", "-np 1 loader : -np 3 trainer" },
    { "--map-by slots x", "slots", "did you mean slot" },
    { "--map-by moon x", "moon", "slot, node" },
    { "-np 4 server1:2,server2:2 python x.py", "server1:2,server2:2: these are hosts", "-H" },
    { "-np 1 localhost:1", "localhost:1", "-H in front" },
    { "--bind-to cores x", "cores", "did you mean core" },
    { "--bind-to the-moon x", "the-moon", "none, core, socket" },
    { "--on cloud x", "cloud", "local, ssh, slurm, kubernetes, pods, openpai or openpai-tasks" },
    { "--env x", "no command", "say what to run" },
    { "--env =1 x", "=1", "NAME=VALUE" },
    { "--env 1A=2 x", "1A", "letters, digits" },
    { "-x A-B=2 x", "A-B", "letters, digits" },
    { "--share-env A=secret x", "A=...", "export" },
    { "--share-env RG_TEST_NOT_SET x", "RG_TEST_NOT_SET", "export it first" },
    { "--share-env HOME --env HOME=1 x", "HOME", "keep one" },
    { "--cwd= x", "--cwd", "empty" },
    { "--output-dir= x", "--output-dir", "empty" },
    { "--ranks 3-1 x", "3-1", "0,3-5" },
    { "--ranks some x", "some", "0,3-5" },
    { "-np 2 --ranks 0-2 x", "no rank 2", "0 to 1" },
    { "--stdin some x", "some", "all or none" },
    { "--stdin -1 x", "-1", "all or none" },
    { "-np 2 --stdin 2 x", "--stdin 2", "0 to 1" },
    { "--pty --json x", "--json and --pty", "drop one" },
    { "--pty --stdin all x", "--pty", "--stdin 0" },
    { "-np 2 --debug-rank 2 x", "--debug-rank 2", "0 to 1" },
    { "--debug-rank all x", "--debug-rank all", "number" },
    { "--timeout soon x", "soon", "--timeout" },
    { "--timeout -5 x", "-5", "--timeout" },
    { "--timeout 5y x", "5y", "--timeout" },
    { "--connect-timeout 0 x", "--connect-timeout 0", "give seconds" },
    { "--env-file /rg-not-there/vars x", "/rg-not-there/vars", "No such file" },
    { "--start-timeout 0 x", "--start-timeout 0", "give seconds" },
    { "--lease 1 x", "--lease 1", "at least 3" },
    { "--lease 0 x", "--lease 0", "give seconds" },
    { "--grace x x", "--grace", "x" },
    { "--config /rg-not-there.yaml x", "/rg-not-there.yaml", "cannot read" },
    { "--config", "--config needs a value", "FILE" },
    { "---np 4 x", "---np", "did you mean -np" },
    { "-= x", "-=", "put -- in front" },
};

static const struct refusal job_files[] = {
    { "", "job.yaml:1:1", "command: [python, train.py]" },
    { "# nothing\n", "job.yaml:1:1", "empty" },
    { "- a\n- b\n", "a list", "mapping" },
    { "just words\n", "job.yaml:1:1", "mapping" },
    { "np: 0\n", "job.yaml:1:5: np 0", "1 to 131072" },
    { "command: [x]\nnp: many\n", "job.yaml:2:5: np many", "1 to" },
    { "np: [1, 2]\n", "job.yaml:1", "one value" },
    { "np:\n", "nothing stands here", "one value" },
    { "npp: 4\n", "job.yaml:1:1: unknown key \"npp\"", "did you mean np" },
    { "commnd: [x]\n", "job.yaml:1:1", "did you mean command" },
    { "zzzzzz: 1\n", "zzzzzz", "lists all keys" },
    { "config: other.yaml\n", "\"config\"", "command line only" },
    { "dry-run: true\n", "\"dry-run\"", "command line only" },
    { "command: []\n", "the list is empty", "name a program" },
    { "command: {a: b}\n", "a mapping stands here", "a list of arguments or one text" },
    { "command:\n  - a\n  - [b]\n", "job.yaml:3", "a list of texts" },
    { "json: yes\n", "job.yaml:1:7: json: \"yes\"", "true nor false" },
    { "json: [true]\n", "a list", "true or false" },
    { "env:\n  A: [1]\n", "A: a list", "one value" },
    { "env:\n  1A: x\n", "job.yaml:2:7", "1A" },
    { "env: [\"A B=1\"]\n", "job.yaml:1:7", "A B" },
    { "hosts: {a: two}\n", "slots of host a", "1 to" },
    { "hosts:\n  - a:1\n  - b:0\n", "job.yaml:3:5", "b" },
    { "np: 1\nnp: 2\n", "job.yaml:2", "duplicate" },
    { "a: &x 1\nnp: *x\n", "job.yaml:1:1", "unknown key \"a\"" },
    { "np: &x 1\ntimeout: *x\n", "an alias stands here", "one value" },
    { "np: !!int 4\n", "tags", "leave it out" },
    { "version: 2\n", "version: \"2\"", "reads version 1" },
    { "timeout: 5 minutes\n", "job.yaml:1:10", "timeout" },
    { "bind-to: numaa\n", "job.yaml:1:10", "did you mean numa" },
    { "np: 4\nenv: [\n", "job.yaml:", "YAML" },
    { "np: \"4\n", "job.yaml:", "YAML" },
    { "\tnp: 4\n", "job.yaml:1", "YAML" },
    { "share-env: [A=1]\n", "A=...", "export" },
    { "np: 4\n# \xc3\xa9\xff\n", "job.yaml:2:4: byte 0xff", "UTF-8" },
    { "np: 4\n%Mt\xe9", "job.yaml:2:4: byte 0xe9", "UTF-8" }, /* hung the YAML reader once */
    { "cwd: \xed\xa0\x80\n", "job.yaml:1:6: byte 0xed", "UTF-8" },
    { "cwd: a\033[2J\n", "byte 0x1b", "UTF-8" },
    { "? [a]\n: 1\n", "a list", "a name" },
};

static int parse_line(const char *line, struct rg_request *request, struct rg_error *err)
{
    char copy[512];
    char *argv[ARGV_MAX] = { (char *) "run" }, *save = NULL;
    int argc = 1;

    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok_r(copy, " ", &save); w && argc < ARGV_MAX; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    rg_request_init(request);
    return rg_request_parse(request, argc, argv, err);
}

/* 1 when something is wrong, after saying what: one run shows all. */
static int check(const struct refusal *r, int rc, const struct rg_error *err)
{
    if (rc < 0 && err->exit_code == 2 && strstr(err->text, r->value) &&
        strstr(err->text, r->remedy))
        return 0;
    print_error("%s: %d, exit code %d, \"%s\" is to name \"%s\" and \"%s\"\n", r->input, rc,
                err->exit_code, err->text, r->value, r->remedy);
    return 1;
}

static void wrong_command_lines_name_value_and_remedy(void **state)
{
    int wrong = 0;

    (void) state;
    unsetenv("RG_TEST_NOT_SET");
    for (size_t i = 0; i < rg_array_len(command_lines); i++) {
        struct rg_request request;
        struct rg_error err = RG_ERROR_INIT;
        int rc = parse_line(command_lines[i].input, &request, &err);
        wrong += check(&command_lines[i], rc, &err);
        rg_request_fini(&request);
    }
    assert_int_equal(wrong, 0);
}

static void wrong_job_files_name_place_value_and_remedy(void **state)
{
    int wrong = 0;

    (void) state;
    for (size_t i = 0; i < rg_array_len(job_files); i++) {
        const char *text = job_files[i].input;
        struct rg_request request;
        struct rg_error err = RG_ERROR_INIT;
        rg_request_init(&request);
        int rc = rg_jobfile_parse(&request, "job.yaml", text, strlen(text), &err);
        wrong += check(&job_files[i], rc, &err) || !strstr(err.text, "job.yaml:");
        rg_request_fini(&request);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_command_lines_name_value_and_remedy),
        cmocka_unit_test(wrong_job_files_name_place_value_and_remedy),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
