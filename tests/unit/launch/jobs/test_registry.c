/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>
#include <sys/wait.h>

#include "launch/plan/place.h"
#include "launch/jobs/registry.h"
#include "platform/drivers.h"
#include "unit.h"

static char root[] = "/tmp/reigen-registry-XXXXXX";

/* A job on a host that is not this computer, or in a container. */
static void make_job(struct rg_job *job, struct rg_plan *plan, const char *id, const char *image)
{
    static char *const command[] = { (char *) "python", (char *) "a\nb", NULL };

    rg_job_init(job);
    memset(plan, 0, sizeof(*plan));
    snprintf(plan->job_id, sizeof(plan->job_id), "%s", id);
    plan->hosts = calloc(2, sizeof(*plan->hosts));
    plan->nhosts = image ? 2 : 1;
    plan->hosts[0].name = strdup("localhost");
    plan->hosts[1].name = strdup("elsewhere");
    rg_job_add_host(job, "localhost", 1, NULL);
    rg_job_add_host(job, "ada@elsewhere", 1, NULL);
    rg_strv_add_all(&job->command, command);
    job->ssh_port = 2222;
    rg_strv_add(&job->ssh_options, "User=x");
    if (image)
        job->container.image = strdup(image);
}

static void free_job(struct rg_job *job, struct rg_plan *plan)
{
    free(plan->hosts[0].name);
    free(plan->hosts[1].name);
    free(plan->hosts);
    rg_job_fini(job);
}

static void a_job_is_listed_while_it_runs(void **state)
{
    struct rg_job job;
    struct rg_plan plan;
    struct rg_registry list = { 0 };
    struct stat st;
    struct rg_registration own = RG_REGISTRATION_INIT;

    (void) state;
    make_job(&job, &plan, "r-1", "i:1");
    assert_int_equal(rg_registry_add(&plan, &job, &own), 0);
    assert_non_null(own.path);
    assert_int_equal(stat(own.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(rg_registry_list(&list), 0);
    assert_int_equal(list.count, 1);
    const struct rg_registry_job *one = &list.jobs[0];
    assert_string_equal(one->id, "r-1");
    assert_string_equal(one->image, "i:1");
    assert_string_equal(one->command, "python a b");
    assert_int_equal(one->hosts.count, 2);
    assert_int_equal(one->grace_ms, RG_GRACE_MS);
    assert_string_equal(one->hosts.v[1], "ada@elsewhere");
    assert_string_equal(one->ssh.v[1], "-o");
    assert_string_equal(one->ssh.v[2], "User=x");
    assert_string_equal(one->ssh.v[3], "-p2222");
    assert_int_equal(rg_registry_launcher(one), getpid());
    rg_registry_fini(&list);
    rg_registry_end(&own, 7);
    assert_int_equal(rg_registry_list(&list), 0);
    assert_int_equal(list.count, 0);
    rg_registry_fini(&list);
    free_job(&job, &plan);
}

static void a_job_that_has_ended_is_remembered_with_its_exit_code(void **state)
{
    struct rg_job job;
    struct rg_plan plan;
    struct rg_registry list = { 0 };
    struct rg_registration own = RG_REGISTRATION_INIT;
    char id[32];

    (void) state;
    for (int i = 0; i < RG_REGISTRY_ENDED_MAX + 2; i++) {
        snprintf(id, sizeof(id), "r-%03d", i);
        make_job(&job, &plan, id, NULL);
        plan.np = 3;
        assert_int_equal(rg_registry_add(&plan, &job, &own), 0);
        rg_registry_end(&own, i);
        free_job(&job, &plan);
    }
    assert_int_equal(rg_registry_list_ended(&list), 0);
    assert_int_equal(list.count, RG_REGISTRY_ENDED_MAX);
    const struct rg_registry_job *last = &list.jobs[list.count - 1];
    assert_int_equal(last->exit_code, RG_REGISTRY_ENDED_MAX + 1);
    assert_int_equal(last->nranks, 3);
    assert_int_equal(rg_registry_state(last), RG_JOB_ENDED);
    rg_registry_fini(&list);
    assert_int_equal(rg_registry_list(&list), 0);
    assert_int_equal(list.count, 0);
    rg_registry_fini(&list);
    make_job(&job, &plan, "r-x", NULL);
    assert_int_equal(rg_registry_add(&plan, &job, &own), 0);
    rg_registry_end(&own, -1); /* it never began */
    free_job(&job, &plan);
}

/* Its process is gone, and its lock with it. */
static void add_killed(const char *id, const char *image)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct rg_registration own;
        struct rg_job job;
        struct rg_plan plan;
        make_job(&job, &plan, id, image);
        _exit(rg_registry_add(&plan, &job, &own) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Change a word of a job's file, in its place: the lock stays. */
static void rewrite(const char *id, const char *from, const char *to)
{
    char path[512], text[8192];

    snprintf(path, sizeof(path), "%s/reigen/jobs/%s", root, id);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    char *at = strstr(text, from);
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    rewind(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    fclose(file);
}

static enum rg_registry_state state_of(const char *id)
{
    struct rg_registry list = { 0 };
    enum rg_registry_state found = RG_JOB_ENDED;

    assert_int_equal(rg_registry_list(&list), 0);
    for (size_t i = 0; i < list.count; i++) {
        if (strcmp(list.jobs[i].id, id) == 0)
            found = rg_registry_state(&list.jobs[i]);
    }
    rg_registry_fini(&list);
    return found;
}

/* A pid of another name space, or computer, is no proof; a lock on the same kernel is. */
static void only_what_is_proved_dead_is_swept(void **state)
{
    struct rg_job job;
    struct rg_plan plan;
    struct rg_registration own = RG_REGISTRATION_INIT;

    (void) state;
    add_killed("r-dead", NULL);
    add_killed("r-contained", NULL);
    rewrite("r-contained", "pid:[4", "pid:[9");
    add_killed("r-unlocked", NULL);
    rewrite("r-unlocked", "pid:[4", "pid:[9");
    rewrite("r-unlocked", "locked", "l-cked");
    add_killed("r-elsewhere", NULL);
    rewrite("r-elsewhere", "kernel ", "kernel x"); /* which no boot has */
    rewrite("r-elsewhere", "pid:[4", "pid:[9");
    add_killed("r-image", "i:1");
    make_job(&job, &plan, "r-lives", NULL);
    assert_int_equal(rg_registry_add(&plan, &job, &own), 0);
    rewrite("r-lives", "pid:[4", "pid:[9");
    assert_int_equal(state_of("r-dead"), RG_JOB_DEAD);
    assert_int_equal(state_of("r-contained"), RG_JOB_DEAD);
    assert_int_equal(state_of("r-unlocked"), RG_JOB_ELSEWHERE);
    assert_int_equal(state_of("r-elsewhere"), RG_JOB_ELSEWHERE);
    assert_int_equal(state_of("r-lives"), RG_JOB_RUNS); /* in a container, as its lock shows */
    assert_int_equal(rg_registry_sweep(), 2);
    assert_int_equal(state_of("r-dead"), RG_JOB_ENDED);
    assert_int_equal(state_of("r-contained"), RG_JOB_ENDED);
    assert_int_equal(state_of("r-image"), RG_JOB_DEAD); /* its containers may be there */
    assert_int_equal(state_of("r-lives"), RG_JOB_RUNS);
    rg_registry_end(&own, 0);
    free_job(&job, &plan);
    struct rg_registry list = { 0 };
    assert_int_equal(rg_registry_list(&list), 0);
    for (size_t i = 0; i < list.count; i++)
        rg_registry_forget(&list.jobs[i]);
    rg_registry_fini(&list);
}

/* Whoever kills its launcher finds nothing to remove, and need not reach the nodes by ssh. */
static void a_job_on_slurms_nodes_is_listed_with_its_number(void **state)
{
    struct rg_job job;
    struct rg_plan plan;
    struct rg_registry list = { 0 };
    struct rg_registration own = RG_REGISTRATION_INIT;

    (void) state;
    make_job(&job, &plan, "r-3", "i:1");
    free(job.on);
    job.on = strdup("slurm");
    setenv("SLURM_JOB_ID", "123", 1);
    assert_int_equal(rg_registry_add(&plan, &job, &own), 0);
    assert_non_null(own.path);
    assert_int_equal(rg_registry_list(&list), 0);
    assert_int_equal(list.count, 1);
    unsetenv("SLURM_JOB_ID");
    assert_string_equal(list.jobs[0].within_id, "123");
    assert_null(list.jobs[0].image);
    assert_int_equal(list.jobs[0].ssh.count, 0);
    assert_int_equal(list.jobs[0].hosts.count, 2);
    rg_registry_fini(&list);
    rg_registry_end(&own, 7);
    free_job(&job, &plan);
}

static void launchers_are_known_by_host_pid_and_start(void **state)
{
    struct rg_registry_job job = { 0 };
    char text[512], host[256];

    (void) state;
    gethostname(host, sizeof(host));
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitid(P_PID, (id_t) pid, NULL, WEXITED | WNOWAIT); /* it stays a zombie, which is an end */
    rg_autofree char *zombie = rg_place_launcher(pid);
    assert_null(zombie);
    waitpid(pid, NULL, 0);
    static const struct { const char *form; int expected; } cases[] = {
        { "launcher %s:1:0\n", 0 }, { "launcher %s:x\n", 0 }, { "launcher not-%s:1:1\n", -1 },
        { "launcher %s\n", 0 },
    };
    for (size_t i = 0; i < rg_array_len(cases); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof(text), cases[i].form, host);
#pragma GCC diagnostic pop
        assert_int_equal(rg_registry_parse(text, &job), 0);
        assert_int_equal(rg_registry_launcher(&job), cases[i].expected);
        rg_registry_job_fini(&job);
    }
}

/* They go into command lines of a shell. */
static void ids_of_later_starts_are_kept_and_nothing_else_there(void **state)
{
    struct rg_registry_job job = { 0 };
    struct rg_registry list = { 0 };
    struct rg_registration own;
    struct rg_job of;
    struct rg_plan plan;

    (void) state;
    assert_int_equal(rg_registry_parse("launcher h:1:1\nrestart r-b\nrestart $(id)\n", &job), 0);
    assert_int_equal(job.restarts.count, 1);
    assert_string_equal(job.restarts.v[0], "r-b");
    rg_registry_job_fini(&job);
    make_job(&of, &plan, "r-first", NULL);
    assert_int_equal(rg_registry_add(&plan, &of, &own), 0);
    rg_registry_restart(&own, "r-second");
    rg_registry_end(&own, 3);
    assert_int_equal(rg_registry_list_ended(&list), 0);
    const struct rg_registry_job *last = &list.jobs[list.count - 1];
    assert_string_equal(last->id, "r-first");
    assert_string_equal(last->restarts.v[0], "r-second");
    assert_int_equal(last->exit_code, 3);
    rg_registry_fini(&list);
    free_job(&of, &plan);
}

static void files_that_are_none_of_ours_are_passed_over(void **state)
{
    static const char *const texts[] = { "", "\n\n", "launcher\n", "image x\n", " \n" };
    struct rg_registry_job job = { 0 };
    struct rg_registry list = { 0 };
    char path[512];

    (void) state;
    for (size_t i = 0; i < rg_array_len(texts); i++)
        assert_int_equal(rg_registry_parse(texts[i], &job), -EINVAL);
    snprintf(path, sizeof(path), "%s/reigen/jobs/$(x)", root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("launcher h:1:1\n", file);
    fclose(file);
    assert_int_equal(rg_registry_list(&list), 0);
    assert_int_equal(list.count, 0);
    rg_registry_fini(&list);
}

static int begin(void **state)
{
    (void) state;
    return mkdtemp(root) && setenv("XDG_STATE_HOME", root, 1) == 0 &&
                   unsetenv("REIGEN_SSH") == 0 ? 0 : -1;
}

static int end(void **state)
{
    rg_autofree char *command = rg_strf("rm -rf '%s'", root);

    (void) state;
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_listed_while_it_runs),
        cmocka_unit_test(a_job_that_has_ended_is_remembered_with_its_exit_code),
        cmocka_unit_test(only_what_is_proved_dead_is_swept),
        cmocka_unit_test(a_job_on_slurms_nodes_is_listed_with_its_number),
        cmocka_unit_test(launchers_are_known_by_host_pid_and_start),
        cmocka_unit_test(ids_of_later_starts_are_kept_and_nothing_else_there),
        cmocka_unit_test(files_that_are_none_of_ours_are_passed_over),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, begin, end);
}
