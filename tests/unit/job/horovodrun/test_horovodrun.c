/* SPDX-License-Identifier: Apache-2.0 */
#include "job/horovodrun/horovodrun.h"
#include "platform/drivers.h"
#include "unit.h"

#define ARGV_MAX 64

/* Split at blanks. */
static int parse_line(const char *line, struct rg_horovodrun *run, struct rg_error *err)
{
    char copy[512];
    char *argv[ARGV_MAX] = { (char *) "horovodrun" }, *save = NULL;
    int argc = 1;

    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok_r(copy, " ", &save); w && argc < ARGV_MAX; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    rg_horovodrun_init(run);
    return rg_horovodrun_parse(run, argc, argv, err);
}

static void must_parse(const char *line, struct rg_horovodrun *run)
{
    struct rg_error err = RG_ERROR_INIT;

    if (parse_line(line, run, &err) < 0)
        fail_msg("%s: %s", line, err.text);
}

static void must_refuse(const char *line, const char *says)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_horovodrun run;

    if (parse_line(line, &run, &err) >= 0)
        fail_msg("%s: accepted", line);
    assert_contains(err.text, says);
    assert_int_equal(err.exit_code, 2);
    rg_horovodrun_fini(&run);
}

static void must_set(const char *line, const char *name, const char *value)
{
    struct rg_horovodrun run;

    must_parse(line, &run);
    const char *is = rg_env_get(&run.request.job.env, name);
    if (!is || strcmp(is, value) != 0)
        fail_msg("%s: %s is %s", line, name, is ? is : "not set");
    rg_horovodrun_fini(&run);
}

static void the_usual_command_line_is_a_job(void **state)
{
    struct rg_horovodrun run;
    const struct rg_job *job = &run.request.job;

    (void) state;
    must_parse("-np 4 -H localhost:3,::1:1 --output-filename logs -prefix-timestamp --verbose "
               "--start-timeout 60 python train.py -np 9",
               &run);
    assert_int_equal(job->np, 4);
    assert_int_equal(job->nhosts, 2);
    assert_string_equal(job->output_dir, "logs");
    assert_true(job->timestamps);
    assert_int_equal(job->tag, RG_TAG_HOROVOD);
    assert_int_equal(job->start_timeout_ms, 60000);
    assert_int_equal(job->command.count, 4);
    assert_int_equal(run.request.notes.count, 0);
    rg_horovodrun_fini(&run);
}

static void flags_set_the_variables_that_ranks_read(void **state)
{
    static const char *const table[][3] = {
        {"--fusion-threshold-mb 32", "HOROVOD_FUSION_THRESHOLD", "33554432"},
        {"--cycle-time-ms 3.5", "HOROVOD_CYCLE_TIME", "3.5"},
        {"--cache-capacity=0", "HOROVOD_CACHE_CAPACITY", "0"},
        {"--no-hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", "0"},
        {"--torus-allreduce", "HOROVOD_TORUS_ALLREDUCE", "1"},
        {"--autotune", "HOROVOD_AUTOTUNE", "1"},
        {"--autotune --no-autotune", "HOROVOD_AUTOTUNE", "0"},
        {"--autotune-log-file a.csv", "HOROVOD_AUTOTUNE_LOG", "a.csv"},
        {"--timeline-filename t.json", "HOROVOD_TIMELINE", "t.json"},
        {"--timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES", "1"},
        {"--no-stall-check", "HOROVOD_STALL_CHECK_DISABLE", "1"},
        {"--stall-check", "HOROVOD_STALL_CHECK_DISABLE", "0"},
        {"--stall-check-warning-time-seconds 5", "HOROVOD_STALL_CHECK_TIME_SECONDS", "5"},
        {"--log-level debug", "HOROVOD_LOG_LEVEL", "DEBUG"},
        {"--log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME", "1"},
        {"--no-log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME", "0"},
        {"--network-interfaces eth0,eth1", "REIGEN_NETWORK_INTERFACE", "eth0,eth1"},
        {"--network-interfaces lo,eth0,lo,eth1", "REIGEN_NETWORK_INTERFACE", "eth0,eth1"},
        {"--network-interfaces lo,eth0", "HOROVOD_GLOO_IFACE", "eth0"},
        {"--network-interfaces lo", "REIGEN_NETWORK_INTERFACE", "lo"},
        {"--network-interface eth0 --network-interface eth1", "NCCL_SOCKET_IFNAME", "eth0,eth1"},
        {"--gloo-timeout-seconds 3", "HOROVOD_GLOO_TIMEOUT_SECONDS", "3"},
        {"--cache-cap 7", "HOROVOD_CACHE_CAPACITY", "7"},
    };
    char line[200];

    (void) state;
    for (size_t i = 0; i < rg_array_len(table); i++) {
        snprintf(line, sizeof line, "-np 1 %s x", table[i][0]);
        must_set(line, table[i][1], table[i][2]);
    }
}

static void wrong_values_are_refused_with_horovods_words(void **state)
{
    (void) state;
    must_refuse("-np 1 --cycle-time-ms -1 x", "cycle_time_ms=-1 must be >= 0");
    must_refuse("-np 1 --cache-capacity -3 x", "cache_capacity=-3 must be >= 0");
    must_refuse("-np 1 --autotune-gaussian-process-noise 1.5 x", "must be in [0, 1]");
    must_refuse("-np 1 --cycle-time-ms nan x", "not a number");
    must_refuse("-np 1 --cycle-time-ms 0x10 x", "not a number");
    must_refuse("-np two x", "not a whole number; give 0 to ");
    must_refuse("-np 0 x", "out of range");
    must_refuse("-np 1 --log-level loud x", "TRACE, DEBUG");
    must_refuse("-np 1 --jsrun x", "leave --jsrun out");
    must_refuse("-np 1 --gloo --mpi x", "not allowed with --gloo");
    must_refuse("-np 1 -H a:1 --hostfile b x", "not allowed with -H");
    must_refuse("-np 1 -i /no/such/key x", "No such file");
    must_refuse("-np 1 -p 0 x", "out of range");
    must_refuse("-np 1 --cache-capcity 3 x", "did you mean");
    must_refuse("-np 1 --hier x", "may be --hierarchical-allreduce or");
    must_refuse("-np 1 --gloo=1 x", "takes no value");
    must_refuse("-np 1", "no command");
    must_refuse("x", "-np is missing");
    must_refuse("-np", "needs a value");
}

static void what_has_no_meaning_here_is_accepted_with_a_note(void **state)
{
    static const char *const flags[] = {
        "--gloo", "--mpi", "--tcp",
        "--num-nccl-streams 2", "--mpi-threads-disable", "--cycle-time-ms 5",
        "--hierarchical-allgather",
    };
    char line[200];

    (void) state;
    for (size_t i = 0; i < rg_array_len(flags); i++) {
        struct rg_horovodrun run;
        snprintf(line, sizeof line, "-np 1 %s x", flags[i]);
        must_parse(line, &run);
        assert_int_equal(run.request.notes.count, 1);
        assert_contains(run.request.notes.v[0], "this does nothing");
        rg_horovodrun_fini(&run);
    }
    struct rg_horovodrun run;
    must_parse("-np 1 --gloo-timeout-seconds 3 x", &run); /* ranks read it */
    assert_int_equal(run.request.notes.count, 0);
    rg_horovodrun_fini(&run);
}

static int take_mpi_args(struct rg_horovodrun *run, const char *text, struct rg_error *err)
{
    rg_horovodrun_init(run);
    return rg_hvd_apply(run, rg_hvd_option_find("mpi-args"), "--mpi-args", text, err);
}

static void mpi_args_mean_what_they_mean_to_mpirun(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_horovodrun run;
    const struct rg_job *job = &run.request.job;

    (void) state;
    assert_int_equal(take_mpi_args(&run, "-x A='b c'\n -x \"D=e f\" --oversubscribe --bind-to core "
                                         "-map-by node --tag-output --allow-run-as-root -genv G H "
                                         "-env I J", &err), 0);
    assert_string_equal(rg_env_get(&job->env, "A"), "b c");
    assert_string_equal(rg_env_get(&job->env, "D"), "e f");
    assert_string_equal(rg_env_get(&job->env, "G"), "H");
    assert_string_equal(rg_env_get(&job->env, "I"), "J");
    assert_true(job->oversubscribe);
    assert_int_equal(job->bind, RG_BIND_CORE);
    assert_int_equal(job->map, RG_MAP_NODE);
    assert_int_equal(job->tag, RG_TAG_ON);
    assert_int_equal(run.request.notes.count, 1); /* on -env, which could be ours */
    rg_horovodrun_fini(&run);
}

static void what_of_mpi_args_has_no_meaning_is_named(void **state)
{
    static const char *const ignored[][2] = {
        { "-mca pml ob1 -x A=B", "-mca pml ob1: ignored" },
        { "--mca=btl ^openib -x A=B", "--mca=btl ^openib: ignored" },
        { "--rankfile f -x A=B", "--rankfile f: ignored; a rank's place" },
        { "--merge-stderr-to-stdout -x A=B", "--merge-stderr-to-stdout: ignored" },
        { "--frobnicate 1 2 -x A=B", "--frobnicate 1 2: ignored" },
        { "--report-uri - -x A=B", "--report-uri: ignored" },
        { "-mca btl_tcp_if_include ib0 -mca plm_rsh_args '-p 99' -x A=B", "--network-interface" },
        { "--map-by slot:PE=2 -x A=B", "--map-by slot:PE=2: taken for slot" },
    };
    static const char *const wrong[][2] = {
        { "echo x", "\"echo\" is no option" }, { "-x A=B : -n 1 x", "\":\" is no option" },
        { "-x 'A", "a quote is open" }, { "--bind-to foo", "--bind-to foo" },
        { "-x", "needs a value" }, { "-- x", "\"--\" is no option" },
    };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_horovodrun run;

    (void) state;
    for (size_t i = 0; i < rg_array_len(ignored); i++) {
        assert_int_equal(take_mpi_args(&run, ignored[i][0], &err), 0);
        assert_int_equal(run.request.notes.count, 1);
        assert_contains(run.request.notes.v[0], ignored[i][1]);
        assert_string_equal(rg_env_get(&run.request.job.env, "A"), "B");
        rg_horovodrun_fini(&run);
    }
    for (size_t i = 0; i < rg_array_len(wrong); i++) {
        assert_int_equal(take_mpi_args(&run, wrong[i][0], &err), -EINVAL);
        assert_contains(err.text, "--mpi-args: ");
        assert_contains(err.text, wrong[i][1]);
        rg_horovodrun_fini(&run);
    }
}

static void elastic_flags_are_checked_fully(void **state)
{
    struct rg_horovodrun run;

    (void) state;
    must_parse("-np 2 --min-np 1 --max-np 4 --host-discovery-script /bin/hostname --slots 2 "
               "--elastic-timeout 30 --reset-limit 3 --blacklist-cooldown-range 5 60 x",
               &run);
    assert_true(run.request.job.elastic.on);
    const struct rg_elastic *e = &run.request.job.elastic;
    assert_int_equal(e->min_np, 1);
    assert_int_equal(e->max_np, 4);
    assert_int_equal(e->slots_per_host, 2);
    assert_int_equal(run.request.job.hosts[0].nslots, 2);
    assert_string_equal(e->discovery, "'/bin/hostname'");
    assert_int_equal(e->timeout_ms, 30000);
    assert_int_equal(e->reset_limit, 3);
    assert_int_equal(e->cooldown_min_ms, 5000);
    assert_int_equal(e->cooldown_max_ms, 60000);
    rg_horovodrun_fini(&run);
    /* A fixed number of ranks: the program is asked. */
    must_parse("-np 2 --min-np 2 --max-np 2 --host-discovery-script /bin/hostname --slots 2 "
               "--reset-limit 3 x", &run);
    assert_false(run.request.job.elastic.on);
    assert_int_equal(run.request.job.nhosts, 1);
    assert_int_equal(run.request.job.hosts[0].nslots, 2);
    assert_contains(run.request.notes.v[0], "do nothing");
    rg_horovodrun_fini(&run);
    must_parse("-np 2 --host-discovery-script /bin/hostname x", &run);
    assert_true(run.request.job.elastic.on);
    assert_int_equal(run.request.job.elastic.min_np, 2);
    rg_horovodrun_fini(&run);
    must_parse("-np 2 --min-np 2 -H a:2,b:2 x", &run);
    assert_true(run.request.job.elastic.on);
    rg_horovodrun_fini(&run);
    must_parse("-np 2 --max-np 4 x", &run);
    assert_false(run.request.job.elastic.on);
    assert_contains(run.request.notes.v[0], "do nothing");
    rg_horovodrun_fini(&run);
    must_refuse("-np 2 --min-np 3 x", "more than -np 2");
    must_refuse("-np 2 --max-np 1 x", "less than -np 2");
    must_refuse("-np 2 --host-discovery-script /no/such x", "No such file");
    must_refuse("-np 2 --host-discovery-script /etc/passwd x", "not executable");
    must_refuse("-np 2 --blacklist-cooldown-range 9 5 x", "the least first");
    must_refuse("--host-discovery-script /bin/true x", "-np is missing");
    must_refuse("-np 2 --host-discovery-script /bin/true -H a:2 x", "not allowed with");
}

static void nothing_is_checked_with_help_version_or_check_build(void **state)
{
    static const char *const lines[] = { "-h", "--help", "-v", "--version", "-cb",
                                         "--check-build", "--check-build -np 3" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(lines); i++) {
        struct rg_horovodrun run;
        must_parse(lines[i], &run);
        assert_true(run.request.help || run.request.version || run.check_build);
        rg_horovodrun_fini(&run);
    }
}

static int read_text(struct rg_horovodrun *run, const char *text, struct rg_error *err)
{
    rg_horovodrun_init(run);
    return rg_hvd_file_parse(run, "h.yaml", text, strlen(text), err);
}

static void the_file_means_what_the_flags_mean(void **state)
{
    static const char text[] =
        "controller: gloo\nparams:\n  fusion_threshold_mb: 1\n  torus_allreduce: no\n"
        "autotune: {enabled: True, warmup_samples: 2}\ntimeline:\n  filename: t.json\n"
        "stall_check:\n  enabled: false\n"
        "library_options:\n  mpi_args: -x A=B\n  num_nccl_streams:\n"
        "logging: {level: info, with_timestamp: false}\n";
    static const char *const want[][2] = {
        {"HOROVOD_FUSION_THRESHOLD", "1048576"}, {"HOROVOD_TORUS_ALLREDUCE", "0"},
        {"HOROVOD_AUTOTUNE", "1"}, {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "2"},
        {"HOROVOD_TIMELINE", "t.json"}, {"HOROVOD_STALL_CHECK_DISABLE", "1"},
        {"HOROVOD_LOG_LEVEL", "INFO"}, {"HOROVOD_LOG_HIDE_TIME", "1"}, {"A", "B"},
    };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_horovodrun run;

    (void) state;
    if (read_text(&run, text, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < rg_array_len(want); i++)
        assert_string_equal(rg_env_get(&run.request.job.env, want[i][0]), want[i][1]);
    assert_null(rg_env_get(&run.request.job.env, "HOROVOD_NUM_NCCL_STREAMS"));
    rg_horovodrun_fini(&run);
    assert_int_equal(read_text(&run, "", &err), 0);
    rg_horovodrun_fini(&run);
}

static void errors_in_the_file_have_a_place(void **state)
{
    static const char *const table[][2] = {
        {"params:\n  fusion: 3\n", "h.yaml:2:3: unknown key params.fusion"},
        {"parms:\n  a: 3\n", "h.yaml:1:1: unknown key parms"},
        {"params:\n  cycle_time_ms: -1\n", "h.yaml:2:18: params.cycle_time_ms: cycle_time_ms=-1"},
        {"params: 3\n", "h.yaml:1:9: params: a value stands here"},
        {"params: {cache_capacity: [1]}\n", "h.yaml:1:27: params.cache_capacity: a list"},
        {"autotune: {enabled: perhaps}\n", "neither true nor false"},
        {"controller: jsrun\n", "jsrun"},
        {"controller: none\n", "gloo or mpi"},
        {"- a\n", "a list stands here"},
        {"a: b: c\n", "not YAML"},
        {"params: {cache_capacity: 1, cache_capacity: 2}\n", "h.yaml:1:"},
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(table); i++) {
        struct rg_error err = RG_ERROR_INIT;
        struct rg_horovodrun run;
        if (read_text(&run, table[i][0], &err) >= 0)
            fail_msg("%s: accepted", table[i][0]);
        assert_contains(err.text, table[i][1]);
        assert_int_equal(err.exit_code, 2);
        rg_horovodrun_fini(&run);
    }
}

static void the_command_line_wins_over_the_file_wherever_it_stands(void **state)
{
    char path[] = "/tmp/reigen-test-XXXXXX", line[200];
    static const char text[] = "params: {cache_capacity: 5, cycle_time_ms: 2}\ncontroller: mpi\n";
    int fd = mkstemp(path);

    (void) state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    snprintf(line, sizeof line, "-np 1 --cache-capacity 9 --config-file %s --gloo x", path);
    must_set(line, "HOROVOD_CACHE_CAPACITY", "9");
    must_set(line, "HOROVOD_CYCLE_TIME", "2");
    unlink(path);
    must_refuse(line, "cannot read --config-file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_command_line_is_a_job),
        cmocka_unit_test(flags_set_the_variables_that_ranks_read),
        cmocka_unit_test(wrong_values_are_refused_with_horovods_words),
        cmocka_unit_test(what_has_no_meaning_here_is_accepted_with_a_note),
        cmocka_unit_test(mpi_args_mean_what_they_mean_to_mpirun),
        cmocka_unit_test(what_of_mpi_args_has_no_meaning_is_named),
        cmocka_unit_test(elastic_flags_are_checked_fully),
        cmocka_unit_test(nothing_is_checked_with_help_version_or_check_build),
        cmocka_unit_test(the_file_means_what_the_flags_mean),
        cmocka_unit_test(errors_in_the_file_have_a_place),
        cmocka_unit_test(the_command_line_wins_over_the_file_wherever_it_stands),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
