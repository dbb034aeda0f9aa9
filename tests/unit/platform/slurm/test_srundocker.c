/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/slurm/srundocker/srundocker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/process/spawn.h"
#include "job/engine.h"
#include "job/request/request.h"
#include "platform/drivers.h"
#include "unit.h"

static int parse(struct rg_srundocker *s, const char *const *words, struct rg_error *err)
{
    int argc = 0;

    while (words[argc])
        argc++;
    rg_srundocker_init(s);
    return rg_srundocker_parse(s, argc, (char *const *) words, err);
}

#define PARSE(s, err, ...) \
    parse(s, (const char *const[]){ "srun-docker", __VA_ARGS__, NULL }, err)

static void check_list(const struct rg_strv *list, const char *const *expected)
{
    size_t n = 0;

    while (expected[n])
        n++;
    assert_int_equal(list->count, n);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(list->v[i], expected[i]);
}

#define CHECK_LIST(list, ...) check_list(list, (const char *const[]){ __VA_ARGS__, NULL })

static void values_stand_after_an_equals_sign_or_a_blank(void **state)
{
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker s;

    (void) state;
    assert_int_equal(PARSE(&s, NULL, "--container=img:1", "--script", "./job.sh",
                           "--slots_per_node", "4", "--datamnts=/a,/b", "--privileged",
                           "--nodelist=n[1-2]", "--sshdport=2222", "--sshconfigdir", "/x/ssh",
                           "--envlist=A,B_2", "--dockname=d", "--ibdevices"),
                     0);
    assert_string_equal(s.container, "img:1");
    assert_string_equal(s.script, "./job.sh");
    assert_int_equal(s.slots_per_node, 4);
    CHECK_LIST(&s.datamnts, "/a", "/b");
    assert_true(s.privileged);
    assert_string_equal(s.nodelist, "n[1-2]");
    assert_int_equal(s.sshdport, 2222);
    assert_string_equal(s.sshconfigdir, "/x/ssh");
    CHECK_LIST(&s.envlist, "A", "B_2");
    assert_string_equal(s.dockname, "d");
    assert_true(s.ibdevices);
    assert_int_equal(s.devices.count, 0);
    assert_int_equal(s.args.count, 0);
}

static void what_is_not_ours_goes_to_the_script_byte_by_byte(void **state)
{
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker s;

    (void) state;
    assert_int_equal(PARSE(&s, NULL, "--container=i", "--url=http://h:80/p", "two words", "",
                           "--script=s", "-x", "it's \"q\"", "--epochs", "5", "--", "--script=t",
                           "--privileged"),
                     0);
    CHECK_LIST(&s.args, "--url=http://h:80/p", "two words", "", "-x", "it's \"q\"", "--epochs", "5",
               "--script=t", "--privileged");
    assert_string_equal(s.script, "s");
    assert_false(s.privileged);
}

static void script_help_is_the_scripts_last_argument(void **state)
{
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker s;

    (void) state;
    assert_int_equal(PARSE(&s, NULL, "--script_help", "--container=i", "--script=s", "a"), 0);
    CHECK_LIST(&s.args, "a", "--help");
    assert_false(s.help);
}

static void the_last_of_a_name_counts(void **state)
{
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker s;

    (void) state;
    assert_int_equal(PARSE(&s, NULL, "--container=a", "--container=b", "--script=s",
                           "--datamnts=/x", "--datamnts=/y,", "--dockopts=-v /a:/b",
                           "--dockopts=--ipc=host"),
                     0);
    assert_string_equal(s.container, "b");
    CHECK_LIST(&s.datamnts, "/y");
    CHECK_LIST(&s.dockopts, "--ipc=host");
}

static void docker_options_are_split_as_a_shell_would(void **state)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(rg_srundocker_split("--dockopts",
                                         " --ipc=host  -e 'A=x y' -e B=\"q \\\" $H\" c\\ d ''\te",
                                         &words, NULL),
                     0);
    CHECK_LIST(&words, "--ipc=host", "-e", "A=x y", "-e", "B=q \" $H", "c d", "", "e");
    assert_int_equal(rg_srundocker_split("--dockopts", "-e 'A=x", &words, &err), -EINVAL);
    assert_contains(err.text, "--dockopts: a quote is open in: -e 'A=x");
}

/* Which docker reads as CSV; without quotes it refuses a list of devices. */
static void lists_of_gpus_get_the_quotes_that_docker_wants(void **state)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;

    (void) state;
    assert_int_equal(rg_srundocker_dockopts("--dockopts",
                                            "--gpus \"device=0,1\" --gpus=device=2,3 "
                                            "--gpus device=4 --gpus '\"device=5,6\"' "
                                            "--gpus=device=0,capabilities=x -e device=7,8 "
                                            "--gpus all",
                                            &words, NULL), 0);
    CHECK_LIST(&words, "--gpus", "\"device=0,1\"", "--gpus=\"device=2,3\"", "--gpus", "device=4",
               "--gpus", "\"device=5,6\"", "--gpus=device=0,capabilities=x", "-e", "device=7,8",
               "--gpus", "all");
}

static void docker_options_may_stand_by_themselves(void **state)
{
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker s;

    (void) state;
    assert_int_equal(PARSE(&s, NULL, "--container=a", "--dockopts", "--ipc=host -e A=1",
                           "--script=s"), 0);
    CHECK_LIST(&s.dockopts, "--ipc=host", "-e", "A=1");
}

struct refusal {
    const char *words[5];
    const char *text;
};

static void what_cannot_be_meant_is_refused_with_a_remedy(void **state)
{
    static const struct refusal refusals[] = {
        { { "x", "--script=s" }, "--container is missing; write for example --container=IMAGE" },
        { { "x", "--container=i" }, "--script is missing; write for example --script=./job.sh" },
        { { "x", "--contaner=i", "--script=s" }, "--contaner went to the script: did you mean "
                                                 "--container?" },
        { { "x", "--container=", "--script=s" }, "--container: the value is empty" },
        { { "x", "--container=i", "--script" }, "--script: its value is missing; write "
                                                "--script=FILE" },
        { { "x", "--container", "--script=s" }, "--container: its value is missing" },
        { { "x", "--container=-v", "--script=s" }, "does not begin with '-'" },
        { { "x", "--slots_per_node=0" }, "--slots_per_node" },
        { { "x", "--slots_per_node=two" }, "--slots_per_node two" },
        { { "x", "--sshdport=70000" }, "--sshdport" },
        { { "x", "--datamnts=data" }, "\"data\" is not a directory's full path" },
        { { "x", "--datamnts=/a:/b" }, "--dockopts=\"-v /from:/to\"" },
        { { "x", "--dockopts=\"a" }, "a quote is open" },
        { { "x", "--envlist=A=1" }, "\"A=1\" is not a variable's name" },
        { { "x", "--ibdevices=mlx5_0" }, "is not a device" },
        { { "x", "--dockname=a b" }, "is not a name" },
        { { "x", "--privileged=yes" }, "--privileged takes no value" },
        { { "x", "--start-timeout=soon" }, "--start-timeout soon" },
        { { "x", "--start-timeout=0" }, "give for example 1h" },
        { { "x", "--container-runtime=dokcer" }, "give docker, podman" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(refusals); i++) {
        rg_cleanup(rg_srundocker_fini) struct rg_srundocker s;
        struct rg_error err = RG_ERROR_INIT;
        assert_true(parse(&s, refusals[i].words, &err) < 0);
        assert_contains(err.text, refusals[i].text);
    }
}

static void help_checks_nothing(void **state)
{
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker a, b;

    (void) state;
    assert_int_equal(PARSE(&a, NULL, "--help"), 0);
    assert_true(a.help);
    assert_int_equal(PARSE(&b, NULL, "-h"), 0);
    assert_true(b.help);
}

/* --- jobs ------------------------------------------------------------------------------------ */

static const char *const step_lines[] = {
    "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_JOB_CPUS_PER_NODE=4,2(x2)",
    "SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_STEP_NODELIST=n[1-2]", "SLURM_LOCALID=0",
    "SLURM_STEP_TASKS_PER_NODE=1(x2)", "SLURM_NTASKS=2", "MINE=a b",
    NULL
};

struct fixture {
    char dir[64], before[4096];
    struct rg_strv env;
    struct rg_slurm_allocation step;
    struct rg_request request;
    struct rg_error err;
};

static int make_file(const char *name, const char *text, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    int rc = fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;

    if (fd >= 0)
        close(fd);
    return rc;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    *state = f;
    strcpy(f->dir, "/tmp/reigen-srundocker-XXXXXX");
    assert_non_null(getcwd(f->before, sizeof f->before));
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(chdir(f->dir), 0);
    assert_int_equal(make_file("job.sh", "#!/bin/sh\n", 0755), 0);
    assert_int_equal(make_file("bare.sh", "echo\n", 0755), 0);
    assert_int_equal(make_file("plain.sh", "#!/bin/sh\n", 0644), 0);
    assert_int_equal(make_file("bare.py", "import torch\n", 0755), 0);
    assert_int_equal(mkdir("folder", 0755), 0);
    for (size_t i = 0; step_lines[i]; i++)
        assert_int_equal(rg_strv_add(&f->env, step_lines[i]), 0);
    assert_int_equal(rg_slurm_allocation_read(&f->env, RG_SLURM_STEP, &f->step, NULL), 0);
    rg_request_init(&f->request);
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    static const char *const files[] = { "job.sh", "bare.sh", "plain.sh", "bare.py", "rsh",
                                         "saving.sh", "ended.n1", "ended.n2" };

    for (size_t i = 0; i < rg_array_len(files); i++)
        unlink(files[i]);
    rmdir("folder");
    assert_int_equal(chdir(f->before), 0);
    rmdir(f->dir);
    rg_strv_fini(&f->env);
    rg_slurm_allocation_fini(&f->step);
    rg_request_fini(&f->request);
    free(f);
    return 0;
}

static int fill(struct fixture *f, const char *const *words)
{
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker s;

    assert_int_equal(parse(&s, words, &f->err), 0);
    return rg_srundocker_fill(&s, &f->env, &f->step, &f->request, &f->err);
}

#define FILL(f, ...) \
    fill(f, (const char *const[]){ "x", "--container=img", __VA_ARGS__, NULL })

static void the_job_is_the_script_once_on_the_nodes_of_the_step(void **state)
{
    struct fixture *f = *state;
    const struct rg_job *job = &f->request.job;

    assert_int_equal(FILL(f, "--script=job.sh", "--datamnts=/d", "--privileged", "--ibdevices",
                          "--dockopts=--ipc=host", "--envlist=NOBODYS,MINE", "a b"), 0);
    assert_int_equal(job->engine, RG_ENGINE_SCRIPT);
    assert_string_equal(job->on, "slurm");
    assert_string_equal(rg_env_get(&job->settings, "announce"), "reigen-slurm-7-0");
    CHECK_LIST(&job->command, "./job.sh", "a b");
    assert_string_equal(rg_job_engine_program(job), "job.sh");
    assert_int_equal(job->nhosts, 2);
    assert_string_equal(job->hosts[0].name, "n1");
    assert_int_equal(job->hosts[0].nslots, 4);
    assert_string_equal(job->hosts[1].name, "n2");
    assert_int_equal(job->hosts[1].nslots, 2);
    assert_string_equal(job->container.image, "img");
    assert_string_equal(job->container.network, "host");
    assert_true(job->container.privileged && job->container.ibdevices);
    CHECK_LIST(&job->container.mounts, "/d");
    CHECK_LIST(&job->container.options, "--ipc=host");
    CHECK_LIST(&job->env, "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-3]", "scriptpath=job.sh",
               "MINE=a b", "ENVLIST=MINE");
    CHECK_LIST(&f->request.notes, "--envlist: NOBODYS is not set, and left out");
}

static void nodelist_takes_nodes_of_the_step_in_its_own_order(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(FILL(f, "--script=./job.sh", "--nodelist=n2,n1", "--slots_per_node=8"), 0);
    assert_int_equal(f->request.job.nhosts, 2);
    assert_string_equal(f->request.job.hosts[0].name, "n2");
    assert_int_equal(f->request.job.hosts[0].nslots, 8);
    assert_int_equal(f->request.notes.count, 1);
    assert_contains(f->request.notes.v[0], "--slots_per_node=8, but the job has 4 CPUs on node n1");
}

static void a_script_without_a_first_line_for_it_is_the_shells(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(FILL(f, "--script=bare.sh"), 0);
    CHECK_LIST(&f->request.job.command, "sh", "./bare.sh");
    assert_string_equal(rg_job_engine_program(&f->request.job), "bare.sh"); /* in messages */
}

static void a_program_of_the_image_need_not_be_here(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(FILL(f, "--script=/opt/only/in/the/image", "--net"), 0);
    CHECK_LIST(&f->request.job.command, "/opt/only/in/the/image", "--net");
}

static void a_script_that_no_container_shows_is_remarked(void **state)
{
    struct fixture *f = *state;
    rg_autofree char *path = rg_strf("--script=%s/job.sh", f->dir);
    rg_autofree char *mount = rg_strf("--datamnts=/srv,%s/", f->dir);
    const struct {
        const char *cwd, *words[5];
        bool remarked;
    } cases[] = {
        { "/proc", { "x", "--container=i", path }, true },
        { "/proc", { "x", "--container=i", path, mount }, false },
        { "/proc", { "x", "--container=i", "--script=/bin/sh" }, false },
        { f->dir, { "x", "--container=i", path }, false },
    };

    for (size_t i = 0; i < rg_array_len(cases); i++) {
        assert_int_equal(chdir(cases[i].cwd), 0);
        assert_int_equal(fill(f, cases[i].words), 0);
        assert_int_equal(f->request.notes.count, cases[i].remarked);
        if (cases[i].remarked)
            assert_contains(f->request.notes.v[0], "add --datamnts=/tmp/reigen-srundocker-");
        rg_request_fini(&f->request);
        rg_request_init(&f->request);
    }
}

static void a_network_among_the_docker_options_is_the_network(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(FILL(f, "--script=job.sh", "--dockopts=--net=none -e A=1", "--dockname=d",
                          "--ibdevices=/dev/x"), 0);
    assert_string_equal(f->request.job.container.network, "none");
    CHECK_LIST(&f->request.job.container.options, "--device=/dev/x", "--cap-add=IPC_LOCK", "-e",
               "A=1");
    assert_string_equal(f->request.job.container.name, "d");
}

static void a_networks_name_may_be_a_word_of_its_own(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(FILL(f, "--script=job.sh", "--dockopts=--network mine --init"), 0);
    assert_string_equal(f->request.job.container.network, "mine");
    CHECK_LIST(&f->request.job.container.options, "--init");
}

static void what_starts_containers_by_hand_is_left_out_with_a_remark(void **state)
{
    struct fixture *f = *state;
    const struct rg_strv *notes = &f->request.notes;

    assert_int_equal(FILL(f, "--script=job.sh",
                          "--dockopts=-it -d --tty --rm=false --init -v /a:/b"), 0);
    CHECK_LIST(&f->request.job.container.options, "--init", "-v", "/a:/b");
    assert_int_equal(notes->count, 4);
    assert_string_equal(notes->v[0], "--dockopts: -it is left out");
}

static void options_of_other_runtimes_are_not_judged_as_dockers(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(FILL(f, "--script=job.sh", "--container-runtime=apptainer",
                          "--dockopts=-i --network none"), 0);
    CHECK_LIST(&f->request.job.container.options, "-i", "--network", "none");
    assert_int_equal(f->request.notes.count, 0);
}

static void check_refused(struct fixture *f, const char *option, int errnum, const char *text)
{
    assert_int_equal(fill(f, (const char *const[]){ "x", "--container=i", "--script=job.sh", option,
                                                    NULL }), -errnum);
    assert_contains(f->err.text, text);
    rg_request_fini(&f->request);
    rg_request_init(&f->request);
}

static void what_the_job_cannot_have_is_refused(void **state)
{
    struct fixture *f = *state;

    check_refused(f, "--script=no.sh", ENOENT, "--script=no.sh: there is no such file in /");
    check_refused(f, "--script=./no.sh", ENOENT, "there is no such file in");
    check_refused(f, "--script=folder", EISDIR, "this is a directory");
    check_refused(f, "--script=/dev/null", EINVAL, "this is no file");
    check_refused(f, "--nodelist=n[1-3]", EINVAL,
                  "srun did not start a task on node n3, only on n[1-2]");
    check_refused(f, "--nodelist=n[1-", EINVAL, "is not a list of nodes");
    check_refused(f, "--script=plain.sh", EACCES, "not executable; try: chmod +x ./plain.sh");
    check_refused(f, "--script=bare.py", EINVAL,
                  "so sh would; begin it with #!/usr/bin/env python3");
    check_refused(f, "--dockopts=--init --entrypoint=/bin/sh", EINVAL,
                  "let the script start the program");
    check_refused(f, "--dockopts=ipc=host", EINVAL, "\"ipc=host\" is no option");
}

static void an_sshd_surrounds_the_script(void **state)
{
    struct fixture *f = *state;
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker s, bad;

    assert_int_equal(PARSE(&s, NULL, "--container=i", "--script=job.sh", "--sshdport=2222", "a b"),
                     0);
    assert_int_equal(rg_srundocker_settle_sshd(&s, "/h", NULL), 0);
    assert_string_equal(s.sshconfigdir, "/h/mpisshconfig");
    assert_int_equal(rg_srundocker_fill(&s, &f->env, &f->step, &f->request, NULL), 0);
    const struct rg_strv *line = &f->request.job.command;
    assert_int_equal(line->count, 8);
    assert_string_equal(line->v[4], "/h/mpisshconfig");
    assert_string_equal(line->v[5], "2222");
    assert_string_equal(line->v[6], "./job.sh");
    assert_string_equal(line->v[7], "a b");
    assert_int_equal(PARSE(&bad, NULL, "--container=i", "--script=s", "--sshdport=22"), 0);
    assert_int_equal(rg_srundocker_settle_sshd(&bad, "/h", &f->err), -EINVAL);
    assert_contains(f->err.text, "such as 12345");
    rg_srundocker_fini(&bad);
    assert_int_equal(PARSE(&bad, NULL, "--container=i", "--script=s", "--sshconfigdir=/it's"), 0);
    assert_int_equal(rg_srundocker_settle_sshd(&bad, "/h", &f->err), -EINVAL);
    assert_contains(f->err.text, "must have no single quotes");
}

/* The line that runs the script, for real, with a program in the place of reigen rsh. All processes
 * of the script's group get the signal; sshd's clients that are left must see their input's end. */
static void a_signal_is_the_script_s_and_takes_no_sshd_away(void **state)
{
    struct fixture *f = *state;
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker s;
    char rsh[sizeof f->dir + 16], path[4096];
    char *env[] = { path, "hostlist=n1:1,n2:1", rsh, NULL };
    int status = 0;
    pid_t pid;

    assert_int_equal(make_file("rsh", "#!/bin/sh\necho Server listening on 0.0.0.0\n"
                                      "cat >/dev/null; echo ended >ended.$1\n", 0755), 0);
    assert_int_equal(make_file("saving.sh", "#!/bin/sh\ntrap 'trap : TERM; kill -TERM 0; exit 7' "
                                            "USR1\nkill -USR1 0\nexit 8\n", 0755), 0);
    snprintf(rsh, sizeof rsh, "REIGEN_RSH=%s/rsh", f->dir);
    snprintf(path, sizeof path, "PATH=%s", getenv("PATH"));
    assert_int_equal(PARSE(&s, NULL, "--container=i", "--script=saving.sh", "--sshdport=2222"), 0);
    assert_int_equal(rg_srundocker_settle_sshd(&s, "/h", NULL), 0);
    assert_int_equal(rg_srundocker_fill(&s, &f->env, &f->step, &f->request, NULL), 0);
    const struct rg_spawn spawn = { .argv = f->request.job.command.v, .envp = env,
                                    .fds = { -1, 1, 2 }, .new_session = true };
    assert_int_equal(rg_spawn(&spawn, &pid, NULL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rg_status_code(status), 7);
    assert_int_equal(unlink("ended.n1"), 0);
    assert_int_equal(unlink("ended.n2"), 0);
}

static void a_slip_in_an_option_s_name_is_remarked(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(FILL(f, "--script=job.sh", "--epochs=5", "--slots_per_nod=2"), 0);
    assert_int_equal(f->request.notes.count, 1);
    assert_contains(f->request.notes.v[0], "--slots_per_nod goes to the script; did you mean "
                                           "--slots_per_node?");
}

static void no_slip_is_looked_for_behind_dashes(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(FILL(f, "--script=job.sh", "--epochs", "--", "--slots_per_nod=2"), 0);
    assert_int_equal(f->request.notes.count, 0);
}

static void values_that_scripts_leave_empty_say_nothing(void **state)
{
    static const char *const words[] = { "x", "--container=i", "--script=s", "--slots_per_node=",
                                         "--nodelist=", "--dockname=", "--sshconfigdir=",
                                         "--sshdport=", "--datamnts=", "--envlist=", "--dockopts=",
                                         "--ibdevices=", "--container-runtime=",
                                         "--start-timeout=", NULL };
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker s;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(parse(&s, words, &err), 0);
    assert_null(s.nodelist);
    assert_null(s.dockname);
    assert_int_equal(s.slots_per_node, 0);
    assert_false(rg_srundocker_has_sshd(&s));
    assert_false(s.ibdevices);
    assert_null(s.runtime);
    assert_int_equal(s.start_timeout_ms, RG_SRUNDOCKER_START_MS);
}

static void starting_may_take_as_long_as_fetching_an_image_does(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(FILL(f, "--script=job.sh"), 0);
    assert_int_equal(f->request.job.start_timeout_ms, 1800000);
    rg_request_fini(&f->request);
    rg_request_init(&f->request);
    assert_int_equal(FILL(f, "--script=job.sh", "--start-timeout=2h"), 0);
    assert_int_equal(f->request.job.start_timeout_ms, 7200000);
}

static void more_tasks_than_one_on_a_node_are_remarked(void **state)
{
    struct fixture *f = *state;

    f->step.nodes[1].ntasks = 2;
    assert_int_equal(FILL(f, "--script=job.sh"), 0);
    assert_int_equal(f->request.notes.count, 1);
    assert_contains(f->request.notes.v[0], "use srun --ntasks-per-node=1");
}

int main(void)
{
#define JOB_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stand_after_an_equals_sign_or_a_blank),
        cmocka_unit_test(what_is_not_ours_goes_to_the_script_byte_by_byte),
        cmocka_unit_test(script_help_is_the_scripts_last_argument),
        cmocka_unit_test(the_last_of_a_name_counts),
        cmocka_unit_test(docker_options_are_split_as_a_shell_would),
        cmocka_unit_test(lists_of_gpus_get_the_quotes_that_docker_wants),
        cmocka_unit_test(docker_options_may_stand_by_themselves),
        cmocka_unit_test(what_cannot_be_meant_is_refused_with_a_remedy),
        cmocka_unit_test(help_checks_nothing),
        JOB_TEST(the_job_is_the_script_once_on_the_nodes_of_the_step),
        JOB_TEST(nodelist_takes_nodes_of_the_step_in_its_own_order),
        JOB_TEST(a_script_without_a_first_line_for_it_is_the_shells),
        JOB_TEST(a_program_of_the_image_need_not_be_here),
        JOB_TEST(a_script_that_no_container_shows_is_remarked),
        JOB_TEST(a_network_among_the_docker_options_is_the_network),
        JOB_TEST(a_networks_name_may_be_a_word_of_its_own),
        JOB_TEST(what_starts_containers_by_hand_is_left_out_with_a_remark),
        JOB_TEST(options_of_other_runtimes_are_not_judged_as_dockers),
        JOB_TEST(what_the_job_cannot_have_is_refused),
        JOB_TEST(an_sshd_surrounds_the_script),
        JOB_TEST(a_signal_is_the_script_s_and_takes_no_sshd_away),
        JOB_TEST(a_slip_in_an_option_s_name_is_remarked),
        JOB_TEST(no_slip_is_looked_for_behind_dashes),
        cmocka_unit_test(values_that_scripts_leave_empty_say_nothing),
        JOB_TEST(starting_may_take_as_long_as_fetching_an_image_does),
        JOB_TEST(more_tasks_than_one_on_a_node_are_remarked),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
