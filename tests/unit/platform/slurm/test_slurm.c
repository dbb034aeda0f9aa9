/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/slurm/door.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "platform/slurm/internal.h"
#include "unit.h"
#include "wire/link.h"

static bool has(const struct rg_strv *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->v[i], text) == 0)
            return true;
    }
    return false;
}

/* --- the command line ------------------------------------------------------------------------- */

static void sruns_options_are_not_taken_from_our_own_job(void **state)
{
    RG_AUTO_JOB struct rg_job job;
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    (void) state;
    rg_job_init(&job);
    setenv("SLURM_NTASKS", "7", 1);
    setenv("SLURM_CONF", "/etc/slurm.conf", 1);
    setenv("SLURM_ARRAY_TASK_ID", "3", 1);
    setenv("REIGEN_TEST_SECRET", "s", 1);
    assert_int_equal(rg_strv_add(&job.share_env, "REIGEN_TEST_SECRET"), 0);
    assert_int_equal(slurm_command_env(&job, &env), 0);
    assert_null(rg_env_get(&env, "SLURM_NTASKS"));
    assert_null(rg_env_get(&env, "REIGEN_TEST_SECRET"));
    assert_string_equal(rg_env_get(&env, "SLURM_CONF"), "/etc/slurm.conf");
    assert_string_equal(rg_env_get(&env, "SLURM_ARRAY_TASK_ID"), "3");
    unsetenv("SLURM_NTASKS");
}

static void defaults_for_slurms_programs_stay_unless_they_harm(void **state)
{
    RG_AUTO_JOB struct rg_job job;
    rg_autostrv struct rg_strv outside = RG_STRV_INIT, inside = RG_STRV_INIT;

    (void) state;
    rg_job_init(&job);
    setenv("SLURM_CLUSTERS", "far", 1);
    setenv("SLURM_WORKING_CLUSTER", "far:10.0.0.1:6817:9728:109", 1);
    setenv("SALLOC_PARTITION", "p", 1);
    setenv("SBATCH_WAIT", "1", 1);
    assert_int_equal(slurm_command_env(&job, &outside), 0);
    setenv("SLURM_JOB_ID", "12", 1);
    setenv("SLURM_STEPMGR", "node1", 1);
    assert_int_equal(slurm_command_env(&job, &inside), 0);
    assert_string_equal(rg_env_get(&outside, "SLURM_CLUSTERS"), "far");
    assert_null(rg_env_get(&inside, "SLURM_CLUSTERS"));
    assert_non_null(rg_env_get(&inside, "SLURM_WORKING_CLUSTER"));
    assert_string_equal(rg_env_get(&inside, "SLURM_STEPMGR"), "node1");
    assert_string_equal(rg_env_get(&outside, "SALLOC_PARTITION"), "p");
    assert_null(rg_env_get(&outside, "SBATCH_WAIT"));
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_CLUSTERS");
}

static void a_complaint_is_the_last_error_and_has_a_remedy(void **state)
{
    char line[64];

    (void) state;
    slurm_complaint("salloc: x\nsalloc: error: Invalid partition name\nsalloc: bye\n", line, 64);
    assert_string_equal(line, "salloc: error: Invalid partition name");
    assert_contains(slurm_remedy(line), "sinfo -s");
    slurm_complaint("salloc: Pending job allocation 7\nsalloc: Job allocation 7 has been revoked."
                    "\n\n", line, sizeof(line));
    assert_string_equal(line, "salloc: Job allocation 7 has been revoked");
    assert_contains(slurm_remedy(line), "cancelled");
    assert_string_equal(slurm_complaint("", line, sizeof(line)), "");
    assert_string_equal(slurm_complaint("error: 0123456789", line, 8), "error: ");
    assert_string_equal(slurm_remedy(""), "");
}

static void one_step_has_one_task_on_each_of_its_nodes(void **state)
{
    RG_AUTO_JOB struct rg_job job;
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct slurm_step steps[2] = { { .nhosts = 2, .group = -1, .ngpus = -1 },
                                   { .nhosts = 1, .group = 1, .ngpus = 3 } };
    struct slurm_host hosts[3] = { { .name = "a", .step = &steps[0] },
                                   { .name = "b", .step = &steps[1] },
                                   { .name = "c", .step = &steps[0] } };
    struct rg_plan plan = { .nhosts = 3, .job_id = "r-1" };
    struct slurm slurm = { .hosts = hosts, .allocation.job_id = (char *) "12",
                           .shared = { .o = { .job = &job, .plan = &plan },
                                       .agent_path = "/a'b/reigen-agent" } };

    (void) state;
    rg_job_init(&job);
    steps[0].slurm = steps[1].slurm = &slurm;
    assert_int_equal(slurm_command_make(&steps[0], &argv), 0);
    assert_true(has(&argv, "--jobid=12") && has(&argv, "--nodelist=a,c"));
    assert_true(has(&argv, "--ntasks=2") && has(&argv, "--nodes=2") && has(&argv, "--overlap"));
    assert_string_equal(argv.v[argv.count - 1], "reigen-agent");
    for (size_t i = 0; i < argv.count; i++) /* a list of processes is for people */
        assert_true(strlen(argv.v[i]) < 60);
    slurm_command_script(&slurm, &text);
    const char *script = rg_buf_text(&text);
    assert_ptr_equal(strchr(script, '\n'), script + strlen(script) - 1);
    assert_contains(script, "f='/a'\\''b/reigen-agent'");
    assert_contains(script, "\"$f\" agent <&3");
    rg_strv_fini(&argv);
    assert_int_equal(slurm_command_make(&steps[1], &argv), 0);
    assert_true(has(&argv, "--het-group=1") && has(&argv, "--nodelist=b"));
    assert_true(has(&argv, "--gpus=3"));
    assert_false(has(&argv, "--no-kill"));
    rg_strv_fini(&argv);
    job.elastic.on = true;
    steps[0].ngpus = 2;
    assert_int_equal(slurm_command_make(&steps[0], &argv), 0);
    assert_true(has(&argv, "--gpus-per-node=2") && has(&argv, "--no-kill"));
    rg_strv_fini(&argv);
    steps[0].ngpus = 0;
    assert_int_equal(slurm_command_make(&steps[0], &argv), 0);
    assert_true(has(&argv, "--gres=none"));
}

/* --- asking for an allocation ----------------------------------------------------------------- */

/* It says as much as may be, and one word more as it ends. */
static const char salloc[] = "#!/bin/sh\ncd \"${0%/*}\"; head -c 16777216 /dev/zero; touch full\n"
                             "until [ -e go ]; do sleep 0.01; done; echo bye; exit 1\n";

static struct {
    char dir[32];
    struct rg_timer timer;
    int nlooks, ndone;
    char text[RG_ERROR_TEXT_MAX];
} asking;

static void put_file(const char *name, const char *text)
{
    rg_autofree char *path = rg_strf("%s/%s", asking.dir, name);
    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);

    assert_int_equal(rg_write_all(fd, text, strlen(text)), 0);
}

/* The loop is to see its last word and its end at once. */
static void let_salloc_end(void *arg)
{
    rg_autofree char *path = rg_strf("%s/full", asking.dir);
    siginfo_t info;

    (void) arg;
    asking.nlooks += access(path, F_OK) == 0;
    if (asking.nlooks < 3) /* what it said before is read by then */
        return;
    rg_timer_stop(&asking.timer);
    put_file("go", "");
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
}

static void on_say(void *arg, const char *text)
{
    (void) arg, (void) text;
}

static void on_done(void *arg, const struct rg_error *err)
{
    (void) arg;
    asking.ndone++;
    snprintf(asking.text, sizeof(asking.text), "%s", err ? err->text : "");
}

static void why_there_is_no_allocation_is_told_once(void **state)
{
    RG_AUTO_JOB struct rg_job job;
    struct rg_acquire_options options = { .job = &job, .on_say = on_say, .on_done = on_done };
    rg_autofree char *before = strdup(getenv("PATH"));
    void *held = NULL;

    (void) state;
    rg_job_init(&job);
    strcpy(asking.dir, "/tmp/reigen-salloc-XXXXXX");
    assert_non_null(mkdtemp(asking.dir));
    put_file("salloc", salloc);
    rg_autofree char *path = rg_strf("%s:%s", asking.dir, before);
    rg_autofree char *clear = rg_strf("rm -r %s", asking.dir);
    setenv("PATH", path, 1);
    assert_int_equal(rg_loop_create(&options.loop), 0);
    assert_int_equal(rg_driver_slurm.acquire(&options, &held, NULL), 0);
    rg_timer_start(&asking.timer, options.loop, 10, 10, let_salloc_end, NULL);
    rg_loop_run(options.loop);
    assert_int_equal(asking.ndone, 1);
    assert_contains(asking.text, "salloc says more than 16 MiB");
    rg_driver_slurm.release(held);
    rg_loop_destroy(options.loop);
    setenv("PATH", before, 1);
    assert_int_equal(system(clear), 0);
}

/* --- what srun says --------------------------------------------------------------------------- */

static struct {
    int count, first;
    char text[RG_ERROR_TEXT_MAX];
} gone;

static void on_gone(void *arg, int host, const struct rg_error *err)
{
    (void) arg;
    if (gone.count++)
        return;
    gone.first = host;
    snprintf(gone.text, sizeof(gone.text), "%s", err->text);
}

static void a_node_that_srun_cannot_reach_is_the_cause_and_not_what_follows(void **state)
{
    static const char said[] =
        "srun: error: Task launch for StepId=12.0 failed on node node[2-3]: Communication "
        "connection failure\n"
        "srun: error: Application launch failed: Communication connection failure\n"
        "slurmstepd-node1: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-01-01T00:00:00 ***\n";
    static const struct rg_driver_events events = { .on_gone = on_gone };
    static struct slurm_step step;
    struct slurm_host hosts[4] = { { .name = "node1" }, { .name = "node2" }, { .name = "node3" },
                                   { .name = "node3", .linked = true } };
    struct rg_plan plan = { .nhosts = 4 };
    struct slurm slurm = { .hosts = hosts, .shared.o = { .plan = &plan, .events = &events } };

    (void) state;
    assert_int_equal(rg_loop_create(&slurm.shared.o.loop), 0);
    step.slurm = &slurm;
    for (int i = 0; i < 4; i++) {
        hosts[i].slurm = &slurm;
        hosts[i].step = &step;
        hosts[i].index = i;
        hosts[i].task = -1;
    }
    step.nhosts = 4;
    assert_int_equal(slurm_step_prepare(&step), 0);
    slurm_step_take_errors(&step, said, 50); /* lines come in parts */
    slurm_step_take_errors(&step, said + 50, strlen(said) - 50);
    rg_loop_run(slurm.shared.o.loop);
    assert_int_equal(gone.count, 2);
    assert_true(hosts[1].gone && hosts[2].gone && !hosts[3].gone);
    assert_int_equal(gone.first, 1);
    assert_contains(gone.text, "Communication connection failure; the node or its slurmd is down");
    slurm_step_fini(&step);
    rg_loop_destroy(slurm.shared.o.loop);
}

static void a_task_that_was_killed_with_its_shell_is_not_waited_for(void **state)
{
    static const char said[] = "srun: error: task 1 launch failed: Slurmd could not execve job\n"
                               "srun: error: node[2-3]: tasks 1-2: Killed\n";
    static const struct rg_driver_events events = { .on_gone = on_gone };
    static struct slurm_step step;
    struct slurm_host hosts[3] = { { .name = "node1" }, { .name = "node2" },
                                   { .name = "node3", .linked = true } };
    struct rg_plan plan = { .nhosts = 3 };
    struct slurm slurm = { .hosts = hosts, .shared.o = { .plan = &plan, .events = &events } };

    (void) state;
    memset(&gone, 0, sizeof(gone));
    assert_int_equal(rg_loop_create(&slurm.shared.o.loop), 0);
    step.slurm = &slurm;
    for (int i = 0; i < 3; i++) {
        hosts[i].slurm = &slurm;
        hosts[i].step = &step;
        hosts[i].index = i;
        hosts[i].task = -1;
    }
    step.nhosts = 3;
    assert_int_equal(slurm_step_prepare(&step), 0);
    slurm_step_take_errors(&step, said, strlen(said));
    rg_loop_run(slurm.shared.o.loop);
    assert_int_equal(gone.count, 2);
    assert_int_equal(gone.first, 1);
    assert_contains(gone.text, "srun did not start its agent (its task has ended): srun: error: ");
    assert_contains(gone.text, "tasks 1-2: Killed");
    assert_true(hosts[2].gone && hosts[2].killed);
    /* Its shell was killed with it, and so nobody but srun tells of its end. */
    assert_string_equal(hosts[2].err.text, "its agent ended: signal 9 (Killed)");
    slurm_step_fini(&step);
    rg_loop_destroy(slurm.shared.o.loop);
}

static void srun_says_which_node_has_failed(void **state)
{
    static const char said[] = "srun: error: Node failure on node[2-3]\n"
                               "srun: error: node2: task 1: Killed\n";
    static const struct rg_driver_events events = { .on_gone = on_gone };
    static struct slurm_step step;
    struct slurm_host hosts[3] = { { .name = "node1", .linked = true },
                                   { .name = "node2", .linked = true },
                                   { .name = "node3", .linked = true, .gone = true } };
    struct rg_plan plan = { .nhosts = 3 };
    struct slurm slurm = { .hosts = hosts, .shared.o = { .plan = &plan, .events = &events } };

    (void) state;
    memset(&gone, 0, sizeof(gone));
    assert_int_equal(rg_loop_create(&slurm.shared.o.loop), 0);
    step.slurm = &slurm;
    for (int i = 0; i < 3; i++) {
        hosts[i].slurm = &slurm;
        hosts[i].step = &step;
        hosts[i].index = i;
    }
    step.nhosts = 3;
    assert_int_equal(slurm_step_prepare(&step), 0);
    slurm_step_take_errors(&step, said, strlen(said));
    rg_loop_run(slurm.shared.o.loop);
    assert_int_equal(gone.count, 1);
    assert_int_equal(gone.first, 1);
    assert_string_equal(gone.text, "Slurm says that this node has failed");
    assert_int_equal(hosts[1].err.exit_code, 76);
    slurm_step_fini(&step);
    rg_loop_destroy(slurm.shared.o.loop);
}

static struct {
    int order[4], norder, ntold;
} taken;

static void on_taken(void *arg, int host)
{
    (void) arg;
    taken.order[taken.norder++] = host;
}

static void on_gone_after(void *arg, int host, const struct rg_error *err)
{
    (void) arg;
    taken.order[taken.norder++] = host + 100;
    assert_non_null(strstr(err->text, host == 1 ? "taken" : "Killed"));
}

static void on_told(void *arg, int host, const char *text)
{
    (void) arg, (void) host, (void) text;
    taken.ntold++;
}

/* Slurm is asked once for both. */
static void of_nodes_that_are_missed_those_that_the_job_has_no_more_have_not_failed(void **state)
{
    static const char squeue[] = "#!/bin/sh\necho >>\"${0%/*}/asked\"\n"
                                 "case $* in *--jobs=12*) echo 'node[1,3]';; esac\n";
    static const struct rg_driver_events events = { .on_gone = on_gone_after,
                                                    .on_taken = on_taken, .on_note = on_told };
    static struct slurm_step step;
    struct slurm_host hosts[3] = { { .name = "node1" }, { .name = "node2" }, { .name = "node3" } };
    struct rg_plan plan = { .nhosts = 3 };
    struct slurm slurm = { .hosts = hosts, .on_missed = slurm_miss,
                           .allocation.job_id = (char *) "12",
                           .shared.o = { .plan = &plan, .events = &events } };
    char said[] = "srun: error: node[2-3]: tasks 1-2: Killed\n", text[8];
    rg_autofree char *before = strdup(getenv("PATH"));

    (void) state;
    strcpy(asking.dir, "/tmp/reigen-squeue-XXXXXX");
    assert_non_null(mkdtemp(asking.dir));
    put_file("squeue", squeue);
    put_file("asked", "");
    rg_autofree char *path = rg_strf("%s:%s", asking.dir, before);
    rg_autofree char *clear = rg_strf("rm -r %s", asking.dir);
    rg_autofree char *asked = rg_strf("%s/asked", asking.dir);
    setenv("PATH", path, 1);
    assert_int_equal(rg_loop_create(&slurm.shared.o.loop), 0);
    step.slurm = &slurm;
    for (int i = 0; i < 3; i++) {
        hosts[i].slurm = &slurm;
        hosts[i].step = &step;
        hosts[i].index = i;
        hosts[i].linked = true;
    }
    step.nhosts = 3;
    assert_int_equal(slurm_step_prepare(&step), 0);
    slurm_step_take_errors(&step, said, strlen(said));
    rg_loop_run(slurm.shared.o.loop);
    assert_int_equal(taken.norder, 3);
    int first = taken.order[0] == 1 ? 0 : 1; /* node2 is taken, and then gone */
    assert_int_equal(taken.order[first], 1);
    assert_int_equal(taken.order[first + 1], 101);
    assert_int_equal(taken.ntold, 1);
    assert_false(hosts[0].gone);
    rg_autoclose int fd = open(asked, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, text, sizeof(text)), 1);
    slurm_step_fini(&step);
    rg_loop_destroy(slurm.shared.o.loop);
    setenv("PATH", before, 1);
    assert_int_equal(system(clear), 0);
}

/* A task's prolog may write what it likes, and no newline. */
static void our_words_are_found_behind_what_a_prolog_writes(void **state)
{
    static const struct rg_driver_events events = { .on_gone = on_gone };
    static struct slurm_step step;
    static char longer[20000];
    struct slurm_host hosts[3] = { { .name = "node1" }, { .name = "node2" }, { .name = "node3" } };
    struct rg_plan plan = { .nhosts = 3 };
    struct slurm slurm = { .hosts = hosts, .shared.o = { .plan = &plan, .events = &events } };

    (void) state;
    assert_int_equal(rg_loop_create(&slurm.shared.o.loop), 0);
    step.slurm = &slurm;
    step.nhosts = 3;
    assert_int_equal(slurm_step_prepare(&step), 0);
    for (int i = 0; i < 3; i++) {
        hosts[i].slurm = &slurm;
        hosts[i].step = &step;
        hosts[i].index = i;
        hosts[i].task = -1;
    }
    static const char said[] = "0: \033]0;title\007\0reigen-slurm at node2 12.0\n"
                               "2: reigen-slurm at node3 12.0\n";
    slurm_step_take(&step, said, sizeof(said) - 1);
    memset(longer, 'x', sizeof(longer));
    slurm_step_take(&step, "1: ", 3);
    slurm_step_take(&step, longer, sizeof(longer));
    slurm_step_take(&step, "reigen-slurm at node1 12.0\n", 27);
    assert_int_equal(hosts[0].task, 1);
    assert_int_equal(hosts[1].task, 0);
    assert_int_equal(hosts[2].task, 2);
    slurm_step_fini(&step);
    rg_loop_destroy(slurm.shared.o.loop);
}

/* --- where agents call ------------------------------------------------------------------------ */

static struct {
    int nconnected, last;
} seen;

static void on_connected(void *arg, int host, int take_read_fd, int take_write_fd)
{
    (void) arg;
    assert_int_equal(take_read_fd, take_write_fd);
    seen.nconnected++;
    seen.last = host;
    close(take_read_fd);
}

static void hosts_of_the_job_are_linked_once_each_and_others_are_sent_away(void **state)
{
    static const struct rg_driver_events events = { .on_connected = on_connected };
    struct slurm_host hosts[3] = { { .name = "node1" }, { .name = "node2" },
                                   { .name = "node3", .stopped = true } };
    struct rg_plan plan = { .nhosts = 3 };
    struct slurm slurm = { .hosts = hosts, .shared.o = { .plan = &plan, .events = &events } };
    static const char *const places[] = { "node2", "node2", "node3", "node4", "node1" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(places); i++) {
        int fd = dup(0);
        slurm_linked(&slurm, places[i], fd);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
        assert_int_equal(seen.nconnected, i < 4 ? 1 : 2);
        assert_int_equal(seen.last, i < 4 ? 1 : 0);
    }
}

static void agents_call_at_a_port_that_srun_may_use(void **state)
{
    struct rg_job job = { .nhosts = 0 };
    static const uint8_t key[RG_KEY_NBYTES] = { 1 };
    struct slurm slurm = { .shared.o = { .job = &job, .key = key } };
    struct slurm other = slurm;
    char range[32];

    (void) state;
    assert_int_equal(rg_loop_create(&slurm.shared.o.loop), 0);
    other.shared.o.loop = slurm.shared.o.loop;
    assert_int_equal(slurm_listen(&slurm, NULL), 0);
    int port = rg_listener_port(slurm.listener);
    rg_listener_close(slurm.listener);
    snprintf(range, sizeof(range), "%d", port); /* was free a moment ago */
    setenv("REIGEN_SLURM_PORTS", range, 1);
    assert_int_equal(slurm_listen(&slurm, NULL), 0);
    assert_int_equal(rg_listener_port(slurm.listener), port);
    assert_int_equal(slurm_listen(&other, NULL), 0); /* none is left: any other */
    assert_int_not_equal(rg_listener_port(other.listener), port);
    unsetenv("REIGEN_SLURM_PORTS");
    rg_listener_close(slurm.listener);
    rg_listener_close(other.listener);
    rg_loop_destroy(slurm.shared.o.loop);
}

static void why_slurm_ends_a_job_is_known_by_its_words_or_its_record(void **state)
{
    static const struct {
        const char *said, *noted, *why;
        int code;
    } cases[] = {
        { "slurmstepd: error: *** STEP 3.0 ON n CANCELLED AT 2026 DUE TO TIME LIMIT ***", "",
          "time limit is reached; ask for more time", 75 },
        { "slurmstepd: error: *** STEP 3.0 ON n CANCELLED AT 2026 ***", " JobState=TIMEOUT ",
          "cancelled (scancel)", 75 },
        { "slurmstepd: error: *** STEP 3.0 ON n CANCELLED AT 2026 DUE TO NODE FAILURE ***", "",
          "a node of the job has failed", 76 },
        { "srun: CANCELLED AT", " JobState=COMPLETING Reason=TimeLimit ", "time limit", 75 },
        { "", " JobState=COMPLETING Reason=None PreemptTime=2026-01-01T0:00 ", "preempted", 75 },
        { "", " JobState=COMPLETING Reason=None PreemptTime=None ", "or a node was set down", 75 },
        { "", " JobState=CANCELLED Reason=None ", "cancelled (scancel)", 75 },
        { "", " JobState=NODE_FAIL Reason=NodeDown ", "a node of the job has failed", 76 },
        { "", " JobState=RUNNING Reason=None PreemptTime=None ", "", 0 },
        { "", "slurm_load_jobs error: Invalid job id specified\n", "", 0 },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct slurm slurm = { .nsteps = 0 };
        int code = 0;

        slurm_ending_said(&slurm, cases[i].said);
        slurm_ending_noted(&slurm, cases[i].noted);
        const char *why = rg_driver_slurm.ending(&slurm, &code);

        assert_int_equal(code, cases[i].code);
        if (*cases[i].why)
            assert_contains(why, cases[i].why);
        else
            assert_null(why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(why_slurm_ends_a_job_is_known_by_its_words_or_its_record),
        cmocka_unit_test(sruns_options_are_not_taken_from_our_own_job),
        cmocka_unit_test(defaults_for_slurms_programs_stay_unless_they_harm),
        cmocka_unit_test(a_complaint_is_the_last_error_and_has_a_remedy),
        cmocka_unit_test(one_step_has_one_task_on_each_of_its_nodes),
        cmocka_unit_test(a_node_that_srun_cannot_reach_is_the_cause_and_not_what_follows),
        cmocka_unit_test(our_words_are_found_behind_what_a_prolog_writes),
        cmocka_unit_test(a_task_that_was_killed_with_its_shell_is_not_waited_for),
        cmocka_unit_test(srun_says_which_node_has_failed),
        cmocka_unit_test(of_nodes_that_are_missed_those_that_the_job_has_no_more_have_not_failed),
        cmocka_unit_test(hosts_of_the_job_are_linked_once_each_and_others_are_sent_away),
        cmocka_unit_test(agents_call_at_a_port_that_srun_may_use),
        cmocka_unit_test(why_there_is_no_allocation_is_told_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
