/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "launch/plan/plan.h"
#include "job/hostlist.h"
#include "platform/drivers.h"
#include "unit.h"

static void make(const char *hosts, int np, enum rg_map map, bool over, struct rg_job *job,
                 struct rg_plan *plan)
{
    struct rg_error err = RG_ERROR_INIT;

    rg_job_init(job);
    assert_int_equal(rg_hostlist_parse(job, "-H", hosts, NULL), 0);
    job->np = np;
    job->map = map;
    job->oversubscribe = over;
    if (rg_plan_make(job, plan, &err) < 0)
        fail_msg("%s", err.text);
}

/* hosts of rank 0, 1, ... as digits */
static void check_hosts(const struct rg_plan *plan, const char *digits)
{
    assert_int_equal(plan->nranks, strlen(digits));
    for (int r = 0; r < plan->nranks; r++)
        assert_int_equal(plan->ranks[r].host, digits[r] - '0');
}

static void check_sound(const struct rg_plan *plan)
{
    int index = 0;

    for (int h = 0; h < plan->nhosts; h++) {
        assert_int_equal(plan->hosts[h].first_rank_index, index);
        for (int i = 0; i < plan->hosts[h].nranks; i++, index++) {
            const struct rg_plan_rank *rank = &plan->ranks[plan->by_host[index]];
            assert_int_equal(rank->host, h);
            assert_int_equal(rank->local_rank, i);
            assert_int_equal(rank->local_size, plan->hosts[h].nranks);
            assert_true(i == 0 || plan->by_host[index] > plan->by_host[index - 1]);
        }
    }
    assert_int_equal(index, plan->nranks);
}

static void slots_are_filled_host_by_host(void **state)
{
    struct rg_job job;
    struct rg_plan plan;

    (void) state;
    make("a:2,b:3", 0, RG_MAP_SLOT, false, &job, &plan);
    check_hosts(&plan, "00111");
    check_sound(&plan);
    rg_plan_fini(&plan);
    rg_job_fini(&job);
    make("a:2,b:3", 2, RG_MAP_SLOT, false, &job, &plan);
    check_hosts(&plan, "00");
    assert_int_equal(plan.nhosts, 1); /* only hosts that have ranks */
    rg_plan_fini(&plan);
    rg_job_fini(&job);
}

static void nodes_are_dealt_in_turn(void **state)
{
    struct rg_job job;
    struct rg_plan plan;

    (void) state;
    make("a:2,b:4,c:1", 0, RG_MAP_NODE, false, &job, &plan);
    check_hosts(&plan, "0120111");
    check_sound(&plan);
    rg_plan_fini(&plan);
    rg_job_fini(&job);
}

static void surplus_ranks_go_on_from_the_front(void **state)
{
    struct rg_job job;
    struct rg_plan plan;

    (void) state;
    make("a:1,b:2", 7, RG_MAP_SLOT, true, &job, &plan);
    check_hosts(&plan, "0110110");
    check_sound(&plan);
    rg_plan_fini(&plan);
    rg_job_fini(&job);
    make("a:1,b:2", 7, RG_MAP_NODE, true, &job, &plan);
    check_hosts(&plan, "0110101");
    check_sound(&plan);
    rg_plan_fini(&plan);
    rg_job_fini(&job);
}

static void cross_ranks_count_hosts_that_have_the_local_rank(void **state)
{
    struct rg_job job;
    struct rg_plan plan;

    (void) state;
    make("a:1,b:3,c:2", 0, RG_MAP_SLOT, false, &job, &plan); /* 0: a; 1-3: b; 4-5: c */
    assert_int_equal(plan.ranks[0].cross_size, 3);
    assert_int_equal(plan.ranks[1].cross_rank, 1);
    assert_int_equal(plan.ranks[4].cross_rank, 2);
    assert_int_equal(plan.ranks[2].cross_rank, 0);
    assert_int_equal(plan.ranks[2].cross_size, 2);
    assert_int_equal(plan.ranks[5].cross_rank, 1);
    assert_int_equal(plan.ranks[3].cross_size, 1);
    rg_plan_fini(&plan);
    rg_job_fini(&job);
}

static void more_ranks_than_slots_are_refused_with_both_numbers(void **state)
{
    RG_AUTO_JOB struct rg_job job;
    struct rg_plan plan = { 0 };
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_hostlist_parse(&job, "-H", "localhost:2", NULL), 0);
    job.np = 4;
    assert_int_equal(rg_plan_make(&job, &plan, &err), -EINVAL);
    assert_int_equal(err.exit_code, 2);
    assert_contains(err.text, "-np 4");
    assert_contains(err.text, "2 slots");
    assert_contains(err.text, "localhost:4");
    assert_contains(err.text, "--oversubscribe");
    assert_null(plan.ranks);
}

static void rank_env(const struct rg_plan *plan, const struct rg_job *job, int rank,
                     const struct rg_strv *base, struct rg_strv *env)
{
    *env = (struct rg_strv) RG_STRV_INIT;
    assert_int_equal(rg_plan_rank_env(plan, job, rank, base, env), 0);
}

static void check_env(const struct rg_strv *env, const char *name, const char *value)
{
    const char *got = rg_env_get(env, name);

    if (!got || strcmp(got, value) != 0)
        fail_msg("%s is %s, not %s", name, got ? got : "unset", value);
}

static void ranks_find_every_variable_of_the_contract(void **state)
{
    static const char *const names[][2] = {
        { "REIGEN_RANK", "2" }, { "REIGEN_SIZE", "4" }, { "REIGEN_LOCAL_RANK", "2" },
        { "REIGEN_LOCAL_SIZE", "4" }, { "REIGEN_CROSS_RANK", "0" }, { "REIGEN_CROSS_SIZE", "1" },
        { "HOROVOD_RANK", "2" }, { "HOROVOD_SIZE", "4" }, { "HOROVOD_LOCAL_RANK", "2" },
        { "HOROVOD_LOCAL_SIZE", "4" }, { "HOROVOD_CROSS_RANK", "0" }, { "HOROVOD_CROSS_SIZE", "1" },
        { "HOROVOD_HOSTNAME", "localhost" }, { "REIGEN_HOSTNAME", "localhost" }, { "RANK", "2" },
        { "WORLD_SIZE", "4" }, { "LOCAL_RANK", "2" }, { "LOCAL_WORLD_SIZE", "4" },
        { "GROUP_RANK", "0" }, { "ROLE_RANK", "2" }, { "ROLE_WORLD_SIZE", "4" },
        { "MASTER_ADDR", "127.0.0.1" }, { "PYTHONUNBUFFERED", "1" },
    };
    struct rg_job job;
    struct rg_plan plan;
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    (void) state;
    make("localhost:4", 0, RG_MAP_SLOT, false, &job, &plan);
    rank_env(&plan, &job, 2, NULL, &env);
    for (size_t i = 0; i < rg_array_len(names); i++)
        check_env(&env, names[i][0], names[i][1]);
    check_env(&env, "REIGEN_JOB_ID", plan.job_id);
    assert_true(atoi(rg_env_get(&env, "MASTER_PORT")) >= 1024);
    assert_true(atoi(rg_env_get(&env, "OMP_NUM_THREADS")) >= 1);
    assert_null(rg_env_get(&env, "TF_CONFIG"));
    rg_plan_fini(&plan);
    rg_job_fini(&job);
}

static void threads_are_shared_out_unless_someone_decided(void **state)
{
    struct rg_job job;
    struct rg_plan plan;
    rg_autostrv struct rg_strv base = RG_STRV_INIT;
    rg_autostrv struct rg_strv shared = RG_STRV_INIT, kept = RG_STRV_INIT, given = RG_STRV_INIT;

    (void) state;
    make("localhost:3", 0, RG_MAP_SLOT, false, &job, &plan);
    plan.hosts[0].ncores = 13;
    rank_env(&plan, &job, 0, &base, &shared);
    check_env(&shared, "OMP_NUM_THREADS", "4");
    assert_int_equal(rg_env_set(&base, "OMP_NUM_THREADS", "9"), 0);
    rank_env(&plan, &job, 0, &base, &kept);
    assert_null(rg_env_get(&kept, "OMP_NUM_THREADS"));
    assert_int_equal(rg_strv_add(&job.env, "OMP_NUM_THREADS=2"), 0);
    assert_int_equal(rg_strv_add(&job.env, "MASTER_PORT=4242"), 0);
    rank_env(&plan, &job, 0, NULL, &given);
    assert_null(rg_env_get(&given, "OMP_NUM_THREADS"));
    assert_null(rg_env_get(&given, "MASTER_PORT"));
    rg_plan_fini(&plan);
    rg_job_fini(&job);
}

static void a_limit_that_is_given_hides_an_inherited_one(void **state)
{
    struct rg_job job;
    struct rg_plan plan;
    rg_autostrv struct rg_strv base = RG_STRV_INIT;
    rg_autostrv struct rg_strv kept = RG_STRV_INIT, off = RG_STRV_INIT, set = RG_STRV_INIT;

    (void) state;
    make("localhost:3", 0, RG_MAP_SLOT, false, &job, &plan);
    assert_int_equal(rg_env_set(&base, "REIGEN_DEADLOCK_SECONDS", "9"), 0);
    rank_env(&plan, &job, 0, &base, &kept);
    assert_null(rg_env_get(&kept, "REIGEN_DEADLOCK_SECONDS"));
    job.deadlock_ms = 0;
    rank_env(&plan, &job, 0, &base, &off);
    check_env(&off, "REIGEN_DEADLOCK_SECONDS", "0ms");
    assert_int_equal(rg_strv_add(&job.env, "REIGEN_DEADLOCK_SECONDS=2"), 0);
    rank_env(&plan, &job, 0, &base, &set);
    assert_null(rg_env_get(&set, "REIGEN_DEADLOCK_SECONDS"));
    rg_plan_fini(&plan);
    rg_job_fini(&job);
}

static void tf_config_names_every_worker_with_a_port_of_its_own(void **state)
{
    RG_AUTO_JOB struct rg_job job;
    struct rg_plan plan;
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    char wanted[256];

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_hostlist_parse(&job, "-H", "localhost:2", NULL), 0);
    job.tf_config = true;
    assert_int_equal(rg_plan_make(&job, &plan, NULL), 0);
    assert_int_not_equal(plan.tf_ports[0], plan.tf_ports[1]);
    rank_env(&plan, &job, 1, NULL, &env);
    snprintf(wanted, sizeof wanted,
             "{\"cluster\": {\"worker\": [\"127.0.0.1:%d\", \"127.0.0.1:%d\"]}, "
             "\"task\": {\"type\": \"worker\", \"index\": 1}}", plan.tf_ports[0], plan.tf_ports[1]);
    check_env(&env, "TF_CONFIG", wanted);
    rg_plan_fini(&plan);
}

/* A listener on this computer, as the ranks have them, and a connection that it has ended first. */
static int listener_after_a_connection(int *ret_port)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    rg_autoclose int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t nbytes = sizeof addr;
    const int on = 1;
    char byte;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &addr, sizeof addr), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &addr, &nbytes), 0);
    assert_int_equal(connect(client, (struct sockaddr *) &addr, sizeof addr), 0);
    close(accept(fd, NULL, NULL));
    assert_int_equal(read(client, &byte, 1), 0);
    *ret_port = ntohs(addr.sin_port);
    return fd;
}

static void a_port_is_free_once_nobody_listens_there(void **state)
{
    RG_AUTO_JOB struct rg_job job;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_plan plan;
    int port, fd = listener_after_a_connection(&port);

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_hostlist_parse(&job, "-H", "localhost:2", NULL), 0);
    job.ports = (struct rg_ports){ .first = port, .last = port };
    assert_int_equal(rg_plan_make(&job, &plan, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "all of these ports are in use here"));
    close(fd);
    /* The connection has ended, and the kernel keeps it for a minute. */
    assert_int_equal(rg_plan_make(&job, &plan, &err), 0);
    assert_int_equal(plan.master_port, port);
    rg_plan_fini(&plan);
}

static void job_ids_differ_and_have_plain_letters(void **state)
{
    struct rg_job job;
    struct rg_plan a, b;

    (void) state;
    make("localhost:1", 0, RG_MAP_SLOT, false, &job, &a);
    rg_job_fini(&job);
    make("localhost:1", 0, RG_MAP_SLOT, false, &job, &b);
    rg_job_fini(&job);
    assert_string_not_equal(a.job_id, b.job_id);
    assert_int_equal(strspn(a.job_id, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(a.job_id));
    rg_plan_fini(&a);
    rg_plan_fini(&b);
}

static void the_map_shows_hosts_slots_and_ranks(void **state)
{
    struct rg_job job;
    struct rg_plan plan;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    make("a:2,bb:4", 0, RG_MAP_NODE, false, &job, &plan);
    rg_plan_print(&plan, &job, &text);
    assert_contains(rg_buf_text(&text), "6 ranks on 2 hosts");
    assert_contains(rg_buf_text(&text), "0,2\n");
    assert_contains(rg_buf_text(&text), "1,3-5\n");
    rg_plan_fini(&plan);
    rg_job_fini(&job);
}

static void an_engine_is_the_only_task_and_hosts_keep_their_share(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    struct rg_job job;
    struct rg_plan plan;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_hostlist_parse(&job, "-H", "a:2,b:2,c:2", NULL), 0);
    assert_int_equal(rg_strv_add(&job.command, "/usr/bin/mpirun"), 0);
    job.np = 3;
    assert_int_equal(rg_plan_make(&job, &plan, &err), 0);
    check_hosts(&plan, "0");
    check_sound(&plan);
    assert_int_equal(plan.np, 3);
    assert_int_equal(plan.nhosts, 2); /* c is to have none */
    assert_int_equal(plan.hosts[0].nplanned, 2);
    assert_int_equal(plan.hosts[1].nplanned, 1);
    assert_string_equal(plan.engine, "mpirun");
    rg_plan_print(&plan, &job, &text);
    assert_contains(rg_buf_text(&text), "3 ranks on 2 hosts, started by mpirun on a");
    assert_int_equal(rg_plan_rank_env(&plan, &job, 0, NULL, &env), 0);
    assert_string_equal(rg_env_get(&env, "np"), "3");
    assert_null(rg_env_get(&env, "REIGEN_RANK"));
    assert_null(rg_env_get(&env, "WORLD_SIZE"));
    rg_plan_fini(&plan);
    rg_job_fini(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_filled_host_by_host),
        cmocka_unit_test(nodes_are_dealt_in_turn),
        cmocka_unit_test(surplus_ranks_go_on_from_the_front),
        cmocka_unit_test(cross_ranks_count_hosts_that_have_the_local_rank),
        cmocka_unit_test(more_ranks_than_slots_are_refused_with_both_numbers),
        cmocka_unit_test(ranks_find_every_variable_of_the_contract),
        cmocka_unit_test(threads_are_shared_out_unless_someone_decided),
        cmocka_unit_test(a_limit_that_is_given_hides_an_inherited_one),
        cmocka_unit_test(tf_config_names_every_worker_with_a_port_of_its_own),
        cmocka_unit_test(a_port_is_free_once_nobody_listens_there),
        cmocka_unit_test(job_ids_differ_and_have_plain_letters),
        cmocka_unit_test(the_map_shows_hosts_slots_and_ranks),
        cmocka_unit_test(an_engine_is_the_only_task_and_hosts_keep_their_share),
    };

    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
