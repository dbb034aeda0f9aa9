/* SPDX-License-Identifier: Apache-2.0 */
#include "job/envfile.h"
#include "job/request/request.h"
#include "platform/drivers.h"
#include "unit.h"

#define ARGV_MAX 64

/* Split at blanks; '_' in a word stands for a blank. */
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

static void must_parse(const char *line, struct rg_request *request)
{
    struct rg_error err = RG_ERROR_INIT;

    if (parse_line(line, request, &err) < 0)
        fail_msg("%s: %s", line, err.text);
}

static void every_spelling_of_np_means_the_same(void **state)
{
    static const char *const lines[] = {"-np 4 x",        "--np 4 x",      "-np=4 x",
                                        "--np=4 x",       "-n 4 x",        "-c 4 x",
                                        "--num-proc 4 x", "-np 2 -np 4 x", "-np 4 -- x"};

    (void) state;
    for (size_t i = 0; i < rg_array_len(lines); i++) {
        struct rg_request request;
        must_parse(lines[i], &request);
        assert_int_equal(request.job.np, 4);
        assert_int_equal(request.job.command.count, 1);
        assert_string_equal(request.job.command.v[0], "x");
        rg_request_fini(&request);
    }
}

static void parsing_stops_at_the_command(void **state)
{
    struct rg_request request;

    (void) state;
    must_parse("-np 2 python -np 9 --help -- x", &request);
    assert_int_equal(request.job.np, 2);
    assert_false(request.help);
    assert_int_equal(request.job.command.count, 6);
    assert_string_equal(request.job.command.v[4], "--");
    rg_request_fini(&request);
    must_parse("-- -weird --help", &request);
    assert_string_equal(request.job.command.v[0], "-weird");
    rg_request_fini(&request);
}

static void must_fail(const char *line, const char *says)
{
    struct rg_request request;
    struct rg_error err = RG_ERROR_INIT;

    if (parse_line(line, &request, &err) == 0)
        fail_msg("%s: accepted", line);
    assert_contains(err.text, says);
    assert_int_equal(err.exit_code, 2);
    rg_request_fini(&request);
}

static void flags_of_other_launchers_mean_the_same(void **state)
{
    struct rg_request request;

    (void) state;
    must_parse("--nproc_per_node=3 --max_restarts 2 -N4 x", &request);
    assert_int_equal(request.job.ranks_per_host, 4);
    assert_int_equal(request.job.max_restarts, 2);
    assert_false(request.job.oversubscribe);
    rg_request_fini(&request);
    must_parse("-N 2 --on slurm --mem 1g -A team -J t --exclusive -n8 x", &request);
    assert_string_equal(rg_env_get(&request.job.settings, "nodes"), "2");
    assert_int_equal(request.job.ranks_per_host, 0);
    assert_string_equal(rg_env_get(&request.job.settings, "account"), "team");
    rg_autostrv struct rg_strv options = RG_STRV_INIT;
    assert_int_equal(rg_job_settings(&request.job, "slurm-option", &options), 0);
    assert_int_equal(options.count, 3);
    assert_string_equal(options.v[0], "--mem=1g");
    assert_string_equal(options.v[1], "--job-name=t");
    assert_string_equal(options.v[2], "--exclusive");
    rg_request_fini(&request);
    must_parse("-genv A b -genvlist C,D=e --nnodes 2 -Ha:1,b:2 --launcher ssh x", &request);
    assert_string_equal(request.job.env.v[0], "A=b");
    assert_int_equal(request.job.nhosts, 2);
    assert_string_equal(request.job.on, "ssh");
    rg_request_fini(&request);
    must_fail("--nnodes 3 -H a,b x", "2 hosts are named");
    must_fail("--node_rank=1 x", "reigen starts all nodes itself, from one command");
    must_fail("-genv A", "-genv needs two values: -genv NAME VALUE");
    must_fail("--mem=1g x", "--mem=1g is for Slurm");
    must_fail("-np4x x", "unknown option -np4x");
    must_fail("--standalone=1 x", "--standalone takes no value");
    must_fail("--cycle-time-ms 1 x", "unknown option --cycle-time-ms");
}

static void every_name_and_alias_is_unique_and_found(void **state)
{
    size_t count;
    const struct rg_option *options = rg_options(&count);

    (void) state;
    for (size_t i = 0; i < count; i++) {
        const struct rg_option *o = &options[i];
        assert_ptr_equal(rg_option_find(o->name), o);
        assert_true(strlen(o->help) > 0 && o->help[strlen(o->help) - 1] == '.');
        if (o->file != RG_FILE_NONE)
            assert_ptr_equal(rg_option_find_key(rg_option_key(o)), o);
        for (const char *p = o->aliases; p && *p;) {
            char name[64];
            size_t n = strcspn(p, " ");
            snprintf(name, sizeof name, "%.*s", (int) n, p);
            assert_ptr_equal(rg_option_find(name), o);
            p += n + (p[n] == ' ');
        }
    }
    assert_null(rg_option_find(""));
    assert_null(rg_option_find("n c"));
    assert_null(rg_option_find("nosuch"));
}

static void mpiruns_command_lines_are_accepted(void **state)
{
    static const char *const lines[] = {
        "-np 4 -H localhost:4 python keras_mnist_advanced.py",
        "-np 16 -H host1:4,host2:4,host3:4,host4:4 -mca plm_rsh_args p12345 python x.py",
        "-np 3 -H localhost:3 --mca orte_keep_fqdn_hostnames t --allow-run-as-root --display-map "
        "--tag-output --timestamp-output sh -c x",
        "-n 2 --allow-run-as-root --display-map --tag-output --timestamp-output sh -c x",
        "-np 4 -bind-to none -map-by slot -x NCCL_DEBUG=INFO -x PATH -mca pml ob1 -mca btl ^openib "
        "x",
        "-np 4 --bind-to hwthread --map-by node:OVERSUBSCRIBE -wdir /tmp --report-bindings -q x",
        "--oversubscribe -np 4 --output-filename out --timeout 10 --stdin none x",
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(lines); i++) {
        struct rg_request request;
        must_parse(lines[i], &request);
        rg_request_fini(&request);
    }
}

static char *write_file(const char *text)
{
    char *path = strdup("/tmp/rg-options-XXXXXX");
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t) strlen(text));
    close(fd);
    return path;
}

static void files_of_variables_are_read_as_docker_reads_them(void **state)
{
    char *path = write_file("\xef\xbb\xbf# a comment\n\nA=1\r\n  B= \"x\" # no comment\nPATH\nC=\n"
                            "A=2\n");
    struct rg_request request;
    char line[300];

    (void) state;
    snprintf(line, sizeof line, "--env A=0 --env C=9 --env-file %s --env B2=3 x", path);
    must_parse(line, &request);
    assert_int_equal(request.job.env.count, 5);
    assert_string_equal(rg_env_get(&request.job.env, "A"), "2");
    assert_string_equal(rg_env_get(&request.job.env, "B"), " \"x\" # no comment");
    assert_string_equal(rg_env_get(&request.job.env, "C"), "");
    assert_true(rg_strv_has(&request.job.env, "PATH"));
    rg_request_fini(&request);
    unlink(path);
    free(path);
}

static void broken_files_of_variables_are_refused_by_line(void **state)
{
    static const struct { const char *text, *says; } cases[] = {
        { "A=1\n=2\n", ":2 \"=2\": a variable's name is missing" },
        { "A=1\n\n#\nB C=2\n", ":4 \"B C\"" },
        { "7=1", ":1 \"7\"" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        rg_autostrv struct rg_strv entries = RG_STRV_INIT;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_envfile_parse("vars", cases[i].text, strlen(cases[i].text), &entries,
                                          &err), -EINVAL);
        assert_contains(err.text, "vars:");
        assert_contains(err.text, cases[i].says);
    }
    rg_autostrv struct rg_strv entries = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_envfile_read("/rg-not-there/vars", &entries, &err), -ENOENT);
    assert_contains(err.text, "/rg-not-there/vars");
    assert_int_equal(rg_envfile_parse("vars", "A=\0", 3, &entries, &err), -EINVAL);
}

static void connect_timeout_is_an_option_of_sshs_in_whole_seconds(void **state)
{
    struct rg_request request;

    (void) state;
    must_parse("--connect-timeout 1500ms --ssh-option Port=1 --connect-timeout 3500ms x", &request);
    assert_int_equal(request.job.ssh_options.count, 2);
    assert_string_equal(request.job.ssh_options.v[0], "Port=1");
    assert_string_equal(request.job.ssh_options.v[1], "ConnectTimeout=4");
    rg_request_fini(&request);
}

static void mca_is_noted_once_and_ignored(void **state)
{
    struct rg_request request;

    (void) state;
    must_parse("-mca pml ob1 -mca btl ^openib -np 2 x", &request);
    assert_int_equal(request.notes.count, 1);
    assert_contains(request.notes.v[0], "-mca");
    assert_int_equal(request.job.np, 2);
    assert_string_equal(request.job.command.v[0], "x");
    rg_request_fini(&request);
}

static void what_mca_says_of_ssh_and_the_environment_is_obeyed(void **state)
{
    char *args[] = {"reigen", "-mca", "plm_rsh_args", "-q -p 99 -o Compression=yes -l bob -i /key",
                    "--prtemca", "plm_ssh_agent", "/usr/bin/ssh -J gate", "-gmca",
                    "mca_base_env_list", "A=1;;B=2 3", "-mca", "rmaps_base_oversubscribe", "1",
                    "-mca", "plm_rsh_agent", "rsh", "-mca", "btl_tcp_if_include", "eth0", "-genv",
                    "C=4", "-np", "2", "x", NULL};
    static const char *const ssh[] = {"-q", "-p99", "Compression=yes", "-lbob", "-i/key",
                                      "-Jgate"};
    struct rg_request request;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    rg_request_init(&request);
    assert_int_equal(rg_request_parse(&request, rg_array_len(args) - 1, args, &err), 0);
    assert_int_equal(request.job.ssh_options.count, rg_array_len(ssh));
    for (size_t i = 0; i < rg_array_len(ssh); i++)
        assert_string_equal(request.job.ssh_options.v[i], ssh[i]);
    assert_string_equal(rg_env_get(&request.job.env, "A"), "1");
    assert_string_equal(rg_env_get(&request.job.env, "B"), "2 3");
    assert_string_equal(rg_env_get(&request.job.env, "C"), "4");
    assert_true(request.job.oversubscribe);
    assert_int_equal(request.notes.count, 2);
    assert_contains(request.notes.v[0], "--ssh-option");
    assert_contains(request.notes.v[1], "--network-interface");
    rg_request_fini(&request);
}

static void values_reach_their_fields(void **state)
{
    struct rg_request request;
    const struct rg_job *job = &request.job;

    (void) state;
    setenv("RG_TEST_SECRET", "s3cret", 1);
    must_parse("-np 8 --env A=1 -x A=2 -x PATH --share-env RG_TEST_SECRET --cwd /tmp --ranks 0,3-5 "
               "--stdin all --timeout 2m --start-timeout 500ms --grace 0 --lease 1h --tf-config "
               "--no-tag-output --timestamp-output --json -v -v --bind-to socket --map-by node cmd",
               &request);
    assert_int_equal(job->env.count, 2);
    assert_string_equal(rg_env_get(&job->env, "A"), "2");
    assert_string_equal(job->env.v[1], "PATH");
    assert_string_equal(job->share_env.v[0], "RG_TEST_SECRET");
    assert_string_equal(job->cwd, "/tmp");
    assert_true(rg_ranks_has(&job->show, 4) && !rg_ranks_has(&job->show, 1));
    assert_int_equal(job->stdin_mode, RG_STDIN_ALL);
    assert_int_equal(job->timeout_ms, 120000);
    assert_int_equal(job->start_timeout_ms, 500);
    assert_int_equal(job->grace_ms, 0);
    assert_int_equal(job->lease_ms, 3600000);
    assert_true(job->tf_config && job->timestamps && job->json);
    assert_int_equal(job->tag, RG_TAG_OFF);
    assert_int_equal(job->verbose, 2);
    assert_int_equal(job->bind, RG_BIND_SOCKET);
    assert_int_equal(job->map, RG_MAP_NODE);
    rg_request_fini(&request);
    unsetenv("RG_TEST_SECRET");
}

static void elastic_jobs_have_a_range_of_ranks(void **state)
{
    struct rg_request request;
    const struct rg_elastic *e = &request.job.elastic;

    (void) state;
    must_parse("-np 3 --min-np 2 --max-np 8 -H a:1,b:2 --blacklist-cooldown-range 60:300 x",
               &request);
    assert_true(e->on);
    assert_int_equal(e->min_np, 2);
    assert_int_equal(e->max_np, 8);
    assert_int_equal(e->cooldown_min_ms, 60000);
    assert_int_equal(e->cooldown_max_ms, 300000);
    rg_request_fini(&request);
    must_parse("-np 2 --min-np 2 --max-np 2 --spares 1 -H a:1,b:2 x", &request);
    assert_true(e->on);
    assert_int_equal(e->spares, 1);
    assert_int_equal(request.job.lease_ms, RG_ELASTIC_LEASE_MS);
    rg_request_fini(&request);
    must_parse("-np 1 --spares 1 --on openpai --image i x", &request);
    assert_true(e->on);
    rg_request_fini(&request);
    must_parse("-np 2 --spares 1 --lease 30 -H a:1,b:2 x", &request);
    assert_true(e->on);
    assert_int_equal(request.job.lease_ms, 30000);
    assert_int_equal(e->min_np, 2);
    assert_int_equal(e->max_np, 2);
    rg_request_fini(&request);
    must_fail("--spares 1 x", "-np is missing");
    must_fail("-np 2 --min-np 3 x", "more than -np 2");
    must_fail("-np 4 --max-np 3 x", "less than -np 4");
    must_fail("--min-np 4 --max-np 3 x", "less than --min-np 4");
    must_fail("--max-np 3 x", "-np is missing");
    must_fail("--min-np 1 --blacklist-cooldown-range 9:5 x", "the least first");
    must_fail("--min-np 1 --engine openmpi x", "mpirun starts the ranks");
    must_fail("--min-np 1 -n 1 x : -n 2 y", "several programs");
    must_fail("--min-np 1 --host-discovery-script /bin/true --on openpai x",
              "on OpenPAI the hosts are those that it gives the job");
    must_fail("--min-np 2 --host-discovery-script /bin/true -H a x", "other hosts are named");
}

static void without_hosts_any_number_of_ranks_is_meant(void **state)
{
    struct rg_request request;

    (void) state;
    must_parse("-np 4 x", &request);
    assert_true(request.job.oversubscribe);
    rg_request_fini(&request);
    must_parse("-np 4 -H localhost:4 x", &request);
    assert_false(request.job.oversubscribe);
    rg_request_fini(&request);
}

static void a_variable_that_is_not_set_is_noted_as_mpirun_does(void **state)
{
    struct rg_request request;

    (void) state;
    unsetenv("RG_TEST_UNSET");
    must_parse("-x RG_TEST_UNSET -x HOME x", &request);
    assert_int_equal(request.job.env.count, 1);
    assert_int_equal(request.notes.count, 1);
    assert_contains(request.notes.v[0], "RG_TEST_UNSET");
    rg_request_fini(&request);
}

static void a_colon_stands_between_programs(void **state)
{
    struct rg_request request;

    (void) state;
    must_parse("-n 1 -H a p x : -n 3 -x A=1 -H b:2,c q : -env B 2 --wdir / -n 2 -H d:2 r",
               &request);
    const struct rg_job *job = &request.job;
    const struct rg_strv *words = &job->command;

    assert_int_equal(job->np, 6);
    assert_int_equal(job->nhosts, 4);
    assert_int_equal(job->hosts[0].nslots, 1);
    assert_int_equal(job->hosts[2].nslots, 1);
    assert_string_equal(words->v[0], "sh");
    assert_string_equal(words->v[4], "1");
    assert_string_equal(words->v[5], "2");
    assert_string_equal(words->v[6], "p");
    assert_string_equal(words->v[8], "3");
    assert_string_equal(words->v[11], "A=1");
    assert_string_equal(words->v[12], "q");
    assert_string_equal(words->v[words->count - 2], "/");
    assert_string_equal(words->v[words->count - 1], "r");
    rg_request_fini(&request);
}

static void what_stands_in_front_of_the_first_program_is_its_own(void **state)
{
    struct rg_request request;

    (void) state;
    must_parse("-x A=1 -env B 2 -np 1 -genv C 3 --wdir /tmp --chdir / p : --mca btl tcp -n 1 "
               "--allow-run-as-root -x D=4 q", &request);
    const char *const own[] = { "1", "8", "env", "A=1", "B=2", "sh", "-c",
                                "cd -- \"$0\" && exec \"$@\"", "/", "p", "1", "3", "env", "D=4",
                                "q" };
    const struct rg_strv *words = &request.job.command;

    assert_int_equal(words->count, 4 + rg_array_len(own));
    for (size_t i = 0; i < rg_array_len(own); i++)
        assert_string_equal(words->v[4 + i], own[i]);
    assert_null(request.job.cwd);
    assert_int_equal(request.job.env.count, 1);
    assert_string_equal(request.job.env.v[0], "C=3");
    assert_int_equal(request.notes.count, 1);
    rg_request_fini(&request);
    must_parse("-x A=1 --wdir / -np 2 mpirun -n 1 p : -n 1 q", &request);
    assert_string_equal(request.job.env.v[0], "A=1");
    assert_string_equal(request.job.cwd, "/");
    rg_request_fini(&request);
    must_parse("-x RG_NOT_SET -x HOME -np 1 p : -n 1 q", &request);
    assert_true(rg_str_starts(request.job.command.v[7], "HOME=/"));
    assert_int_equal(request.notes.count, 1);
    rg_request_fini(&request);
}

static void a_colon_is_an_argument_where_one_command_is_meant(void **state)
{
    static const char *const lines[] = { "-np 1 -- p : q", "-np 2 mpirun -n 1 p : -n 1 q",
                                         "-np 2 --engine script p : q", "-np 1 p :x", "-np 1 p x:",
                                         "-np 1 p ::" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(lines); i++) {
        struct rg_request request;
        must_parse(lines[i], &request);
        assert_string_not_equal(request.job.command.v[0], "sh");
        rg_request_fini(&request);
    }
}

static void what_may_follow_an_object_of_map_by(void **state)
{
    static const struct { const char *value; int per_host, map, oversubscribe, notes; } cases[] = {
        { "ppr:2:node", 2, RG_MAP_SLOT, 0, 0 },
        { "ppr:2:node:PE=2", 2, RG_MAP_SLOT, 0, 1 },
        { "PPR:3:Node:pe=2:SPAN", 3, RG_MAP_SLOT, 0, 2 },
        { "slot:PE=2", 0, RG_MAP_SLOT, 0, 1 },
        { "node:PE=2,OVERSUBSCRIBE", 0, RG_MAP_NODE, 1, 1 },
        { "node:oversubscribe", 0, RG_MAP_NODE, 1, 0 },
        { ":OVERSUBSCRIBE", 0, RG_MAP_SLOT, 1, 0 },
        { "Node", 0, RG_MAP_NODE, 0, 0 },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_request request;
        char line[80];
        snprintf(line, sizeof line, "-H a:9 --map-by %s x", cases[i].value);
        must_parse(line, &request);
        assert_int_equal(request.job.ranks_per_host, cases[i].per_host);
        assert_int_equal(request.job.map, cases[i].map);
        assert_int_equal(request.job.oversubscribe, cases[i].oversubscribe);
        assert_int_equal(request.notes.count, cases[i].notes);
        rg_request_fini(&request);
    }
}

static void help_wins_over_everything_else(void **state)
{
    struct rg_request request;

    (void) state;
    must_parse("-np 0 --help", &request);
    assert_true(request.help);
    rg_request_fini(&request);
}

static void options_override_the_file_wherever_they_stand(void **state)
{
    static const char *const orders[] = { "-np 3 --config %s -H b:3", "--config %s -np 3 -H b:3",
                                          "-np 3 -H b:3 --config=%s" };
    char *path = write_file("np: 2\nhosts: [a:1, c:1]\ncommand: [prog, arg]\nenv: {A: 1, B: 2}\n");

    (void) state;
    for (size_t i = 0; i < rg_array_len(orders); i++) {
        struct rg_request request;
        char line[256];
        snprintf(line, sizeof line, orders[i], path);
        strcat(line, " -x A=9");
        must_parse(line, &request);
        assert_int_equal(request.job.np, 3);
        assert_int_equal(request.job.nhosts, 1);
        assert_string_equal(request.job.hosts[0].name, "b");
        assert_string_equal(rg_env_get(&request.job.env, "A"), "9");
        assert_string_equal(rg_env_get(&request.job.env, "B"), "2");
        assert_string_equal(request.job.command.v[1], "arg");
        rg_request_fini(&request);
    }
    unlink(path);
    free(path);
}

static void usual_hosts_are_for_ssh_and_give_way(void **state)
{
    struct rg_request request;

    (void) state;
    assert_int_equal(setenv("REIGEN_HOSTS", "a:2,b:2", 1), 0);
    must_parse("--on ssh -np 4 x", &request);
    assert_int_equal(request.job.nhosts, 2);
    assert_string_equal(request.job.hosts[1].name, "b");
    assert_int_equal(request.job.hosts[1].nslots, 2);
    assert_false(request.job.oversubscribe);
    rg_request_fini(&request);
    must_parse("--on ssh -H c:4 -np 4 x", &request);
    assert_int_equal(request.job.nhosts, 1);
    assert_string_equal(request.job.hosts[0].name, "c");
    rg_request_fini(&request);
    static const char *const others[] = { "x", "--on local x", "--on slurm x",
                                          "--on kubernetes --image i x" };
    for (size_t i = 0; i < rg_array_len(others); i++) {
        must_parse(others[i], &request);
        assert_int_equal(request.job.nhosts, 0);
        rg_request_fini(&request);
    }
    setenv("REIGEN_HOSTS", "a:0", 1);
    must_fail("--on ssh x", "slots of host a");
    setenv("REIGEN_HOSTS", "./no-such-file", 1);
    must_fail("--on ssh x", "REIGEN_HOSTS: cannot read host file ./no-such-file");
    assert_int_equal(unsetenv("REIGEN_HOSTS"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_of_np_means_the_same),
        cmocka_unit_test(parsing_stops_at_the_command),
        cmocka_unit_test(flags_of_other_launchers_mean_the_same),
        cmocka_unit_test(every_name_and_alias_is_unique_and_found),
        cmocka_unit_test(mpiruns_command_lines_are_accepted),
        cmocka_unit_test(files_of_variables_are_read_as_docker_reads_them),
        cmocka_unit_test(broken_files_of_variables_are_refused_by_line),
        cmocka_unit_test(connect_timeout_is_an_option_of_sshs_in_whole_seconds),
        cmocka_unit_test(mca_is_noted_once_and_ignored),
        cmocka_unit_test(what_mca_says_of_ssh_and_the_environment_is_obeyed),
        cmocka_unit_test(values_reach_their_fields),
        cmocka_unit_test(elastic_jobs_have_a_range_of_ranks),
        cmocka_unit_test(without_hosts_any_number_of_ranks_is_meant),
        cmocka_unit_test(usual_hosts_are_for_ssh_and_give_way),
        cmocka_unit_test(a_variable_that_is_not_set_is_noted_as_mpirun_does),
        cmocka_unit_test(a_colon_stands_between_programs),
        cmocka_unit_test(what_stands_in_front_of_the_first_program_is_its_own),
        cmocka_unit_test(a_colon_is_an_argument_where_one_command_is_meant),
        cmocka_unit_test(what_may_follow_an_object_of_map_by),
        cmocka_unit_test(help_wins_over_everything_else),
        cmocka_unit_test(options_override_the_file_wherever_they_stand),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
