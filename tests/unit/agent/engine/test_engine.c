/* SPDX-License-Identifier: Apache-2.0 */
/* Settings and command lines of engines; tests/hosts/test_engines.py shows that real ones heed
 * them. */
#include <sys/stat.h>

#include "agent/engine/engine.h"
#include "unit.h"

static struct rg_msg_setup make(const char *engine, const char *command)
{
    struct rg_msg_setup setup = {
        .host = (char *) "a", .engine = (char *) engine, .np = 3, .network = (char *) "10.1.0.0/16",
        .interface = (char *) "eth7",
    };

    assert_int_equal(rg_strv_add(&setup.command, command), 0);
    assert_int_equal(rg_strv_add(&setup.hosts, "a:2"), 0);
    assert_int_equal(rg_strv_add(&setup.hosts, "localhost:1"), 0);
    return setup;
}

static void clear(struct rg_msg_setup *setup)
{
    rg_strv_fini(&setup->command);
    rg_strv_fini(&setup->hosts);
    rg_strv_fini(&setup->env);
    rg_strv_fini(&setup->secret_env);
    rg_strv_fini(&setup->engine_options);
}

static void every_engine_is_told_rsh_hosts_and_network(void **state)
{
    struct rg_msg_setup setup = make("script", "x");
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    (void) state;
    assert_int_equal(rg_env_set(&env, "PATH", "/bin"), 0);
    assert_int_equal(rg_engine_env(&setup, "/run/j", 0, &env), 0);
    assert_string_equal(rg_env_get(&env, "OMPI_MCA_plm_rsh_agent"), "/run/j/rsh:reigen-rsh");
    assert_string_equal(rg_env_get(&env, "PRTE_MCA_plm_ssh_agent"), "/run/j/rsh:reigen-rsh");
    assert_string_equal(rg_env_get(&env, "HYDRA_LAUNCHER_EXEC"), "/run/j/rsh");
    assert_string_equal(rg_env_get(&env, "I_MPI_HYDRA_HOST_FILE"), "/run/j/hosts.mpich");
    assert_string_equal(rg_env_get(&env, "OMPI_MCA_orte_default_hostfile"), "/run/j/hosts");
    assert_string_equal(rg_env_get(&env, "OMPI_MCA_btl_tcp_if_include"), "10.1.0.0/16");
    assert_string_equal(rg_env_get(&env, "HYDRA_IFACE"), "eth7");
    assert_string_equal(rg_env_get(&env, "hostlist"), "a:2,reigen-host-1:1");
    assert_string_equal(rg_env_get(&env, "PATH"), "/run/j:/bin");
    clear(&setup);
}

static void engines_are_told_the_ports_that_the_firewall_lets_through(void **state)
{
    struct rg_msg_setup setup = make("script", "x");
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    (void) state;
    assert_int_equal(rg_strv_add(&setup.env, "REIGEN_PORT_RANGE=20000-20099"), 0);
    assert_int_equal(rg_strv_add(&setup.env, "I_MPI_PORT_RANGE=1:2"), 0);
    assert_int_equal(rg_engine_env(&setup, "/run/j", 0, &env), 0);
    assert_string_equal(rg_env_get(&env, "OMPI_MCA_btl_tcp_port_min_v4"), "20000");
    assert_string_equal(rg_env_get(&env, "OMPI_MCA_btl_tcp_port_range_v4"), "75");
    assert_string_equal(rg_env_get(&env, "OMPI_MCA_oob_tcp_dynamic_ipv4_ports"), "20075-20099");
    assert_string_equal(rg_env_get(&env, "MPIR_CVAR_CH3_PORT_RANGE"), "20000:20099");
    assert_string_equal(rg_env_get(&env, "FI_TCP_PORT_HIGH_RANGE"), "20099");
    assert_null(rg_env_get(&env, "I_MPI_PORT_RANGE"));
    clear(&setup);
}

static void ranks_of_ours_get_no_host_list_and_their_own_ssh(void **state)
{
    struct rg_msg_setup setup = make("native", "x");
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    (void) state;
    assert_int_equal(rg_env_set(&env, "PATH", "/bin"), 0);
    assert_int_equal(rg_engine_env(&setup, "/run/j", 0, &env), 0);
    assert_null(rg_env_get(&env, "hostlist"));
    assert_string_equal(rg_env_get(&env, "PATH"), "/bin:/run/j");
    assert_string_equal(rg_env_get(&env, "HYDRA_LAUNCHER"), "ssh");
    clear(&setup);
}

static void what_the_user_sets_is_left_alone_and_what_an_image_sets_in_part(void **state)
{
    struct rg_msg_setup setup = make("mpirun", "mpirun");
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    (void) state;
    assert_int_equal(rg_strv_add(&setup.env, "OMPI_MCA_plm=slurm"), 0);
    assert_int_equal(rg_env_set(&env, "OMPI_MCA_plm", "slurm"), 0);
    /* An image's: where daemons come from is not its business, binding is. */
    assert_int_equal(rg_env_set(&env, "OMPI_MCA_plm_rsh_agent", "ssh"), 0);
    assert_int_equal(rg_env_set(&env, "OMPI_MCA_hwloc_base_binding_policy", "core"), 0);
    assert_int_equal(rg_engine_env(&setup, "/run/j", RG_USER_BTL, &env), 0);
    assert_string_equal(rg_env_get(&env, "OMPI_MCA_plm"), "slurm");
    assert_string_equal(rg_env_get(&env, "OMPI_MCA_plm_rsh_agent"), "/run/j/rsh:reigen-rsh");
    assert_string_equal(rg_env_get(&env, "OMPI_MCA_hwloc_base_binding_policy"), "core");
    assert_null(rg_env_get(&env, "OMPI_MCA_btl_tcp_if_include"));
    assert_non_null(rg_env_get(&env, "OMPI_MCA_oob_tcp_if_include"));
    clear(&setup);
}

static void without_a_directory_nothing_points_into_it(void **state)
{
    struct rg_msg_setup setup = make("script", "x");
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    (void) state;
    assert_int_equal(rg_engine_env(&setup, "", 0, &env), 0);
    assert_null(rg_env_get(&env, "HYDRA_LAUNCHER_EXEC"));
    assert_null(rg_env_get(&env, "PATH"));
    clear(&setup);
}

/* --- finding them ----------------------------------------------------------------------------- */

static void put_program(const char *dir, const char *name, const char *script)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", script);
    fclose(f);
    assert_int_equal(chmod(path, 0755), 0);
}

static void remove_program(const char *dir, const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(unlink(path), 0);
}

static void an_engine_is_known_by_what_it_says_and_gets_the_ranks(void **state)
{
    struct rg_msg_setup setup = make("openmpi", "train"), other = make("hydra", "train");
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    char dir[] = "/tmp/rg-engine-XXXXXX";

    (void) state;
    assert_non_null(mkdtemp(dir));
    put_program(dir, "mpirun", "echo HYDRA build details:");
    put_program(dir, "mpirun.openmpi", "echo 'mpirun.openmpi (OpenRTE) 4.1.4'");
    assert_int_equal(rg_env_set(&env, "PATH", dir), 0);
    assert_int_equal(rg_env_set(&env, "REIGEN_JOB_DIR", "/run/j"), 0);
    assert_int_equal(rg_env_set(&env, "REIGEN_AGENT_TOKEN", "0123"), 0);
    assert_int_equal(rg_env_set(&env, "PLAIN", "p"), 0);
    assert_int_equal(rg_env_set(&env, "SECRET", "s"), 0);
    assert_int_equal(rg_strv_add(&setup.engine_options, "-v"), 0);
    assert_int_equal(rg_engine_prepare(&setup, &env, &err), 0);
    static const char *const wanted[] = { "mpirun.openmpi", "-np", "3", "-v", "train" };
    for (size_t i = 0; i < rg_array_len(wanted); i++)
        assert_string_equal(setup.command.v[i], wanted[i]);
    assert_int_equal(setup.command.count, rg_array_len(wanted));

    assert_int_equal(rg_strv_add(&other.secret_env, "SECRET=s"), 0);
    assert_int_equal(rg_engine_prepare(&other, &env, &err), 0);
    static const char *const hydra[] = { "mpirun", "-n", "3", "-genvlist", "PLAIN", "train" };
    for (size_t i = 0; i < rg_array_len(hydra); i++)
        assert_string_equal(other.command.v[i], hydra[i]);
    clear(&setup);
    clear(&other);

    remove_program(dir, "mpirun.openmpi");
    setup = make("openmpi", "train");
    assert_int_equal(rg_engine_prepare(&setup, &env, &err), -ENOENT);
    assert_int_equal(err.exit_code, 127);
    assert_contains(err.text, "no mpirun of Open MPI in PATH on host a, only");
    assert_contains(err.text, "HYDRA build details");
    clear(&setup);
    remove_program(dir, "mpirun");
    rmdir(dir);
}

static void the_users_mpirun_finds_the_hydra_beside_it(void **state)
{
    char dir[] = "/tmp/rg-engine-XXXXXX", program[64], path[128];
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_non_null(mkdtemp(dir));
    put_program(dir, "mpirun", "");
    snprintf(program, sizeof program, "%s/mpirun", dir);
    struct rg_msg_setup setup = make("mpirun", program);
    assert_int_equal(rg_env_set(&env, "PATH", "/bin"), 0);
    assert_int_equal(rg_engine_prepare(&setup, &env, &err), 0);
    assert_string_equal(rg_env_get(&env, "PATH"), "/bin");
    put_program(dir, "mpiexec.hydra", "");
    assert_int_equal(rg_engine_prepare(&setup, &env, &err), 0);
    snprintf(path, sizeof path, "%s:/bin", dir);
    assert_string_equal(rg_env_get(&env, "PATH"), path);
    assert_int_equal(setup.command.count, 1);
    remove_program(dir, "mpirun");
    assert_int_equal(rg_engine_prepare(&setup, &env, &err), -ENOENT);
    assert_contains(err.text, "reigen run -np 3 -- PROGRAM");
    remove_program(dir, "mpiexec.hydra");
    rmdir(dir);
    clear(&setup);
}

/* --- what users say --------------------------------------------------------------------------- */

static void put_text(const char *dir, const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static unsigned asked(const char *dir, const char *first, const char *second, const char *entry)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT, command = RG_STRV_INIT;

    assert_int_equal(rg_env_set(&env, "HOME", dir), 0);
    assert_int_equal(rg_env_set(&env, "PATH", dir), 0);
    if (entry)
        assert_int_equal(rg_strv_add(&env, entry), 0);
    assert_int_equal(rg_strv_add(&command, first), 0);
    if (second)
        assert_int_equal(rg_strv_add(&command, second), 0);
    /* This machine's own files may say something, too. */
    return rg_engine_user_sets(&command, dir, NULL, &env);
}

static void what_users_say_is_found_where_they_say_it(void **state)
{
    char dir[] = "/tmp/rg-engine-XXXXXX", params[300], list[256], folder[256];

    (void) state;
    assert_non_null(mkdtemp(dir));
    const unsigned none = asked(dir, "mpirun", "a.out", NULL);
    assert_int_equal(none & (RG_USER_BTL | RG_USER_OOB), 0);
    assert_int_equal(asked(dir, "mpirun", "btl_tcp_if_exclude", NULL), none | RG_USER_BTL);
    assert_int_equal(asked(dir, "sh", "mpirun -mca oob_tcp_if_exclude lo", NULL),
                     none | RG_USER_OOB);
    assert_int_equal(asked(dir, "x", NULL, "OMPI_MCA_btl_tcp_if_exclude=lo"), none | RG_USER_BTL);
    assert_int_equal(asked(dir, "x", NULL, "MORE=-mca oob_tcp_if_exclude lo"), none | RG_USER_OOB);
    put_text(dir, "outer.sh", "#!/bin/sh\n  # btl_tcp_if_exclude\nexec \"$D/inner.sh\" now\n");
    put_text(dir, "inner.sh", "mpirun -mca oob_tcp_if_include eth0 x\nsh ./outer.sh\n");
    assert_int_equal(asked(dir, "sh", "outer.sh", NULL), none | RG_USER_OOB);
    assert_int_equal(asked(dir, "run", "--script=./outer.sh", NULL), none | RG_USER_OOB);
    put_text(dir, "inner.sh", "mpirun x\n");
    assert_int_equal(asked(dir, "sh", "outer.sh", NULL), none);
    /* What stands in a fifo's place would wait, and a program's own text names nothing. */
    char fifo[300];
    snprintf(fifo, sizeof fifo, "%s/train.py", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(asked(dir, "python", "./train.py", NULL), none);
    unlink(fifo);
    put_text(dir, "train.py", "run('outer.sh')\n");
    put_text(dir, "outer.sh", "mpirun -mca btl_tcp_if_exclude lo\n");
    assert_int_equal(asked(dir, "python", "train.py", NULL), none);
    unlink(fifo);
    put_text(dir, "mine.conf", "# oob_tcp_if_exclude = lo\nhwloc_base_binding_policy = core\n");
    snprintf(list, sizeof list, "OMPI_MCA_mca_base_param_files=/nowhere:%s/mine.conf", dir);
    assert_int_equal(asked(dir, "x", NULL, list), none | RG_USER_BINDING);
    snprintf(folder, sizeof folder, "%s/.openmpi", dir);
    assert_int_equal(mkdir(folder, 0755), 0);
    put_text(folder, "mca-params.conf", "oob_tcp_if_exclude = docker0\n");
    put_text(dir, ".nccl.conf", "NCCL_SOCKET_IFNAME=ib0\n");
    put_text(dir, "ucx.conf", "UCX_NET_DEVICES=mlx5_0:1\n");
    assert_int_equal(asked(dir, "x", NULL, NULL),
                     none | RG_USER_OOB | RG_USER_NCCL | RG_USER_UCX);
    snprintf(params, sizeof params, "%s/mca-params.conf", folder);
    unlink(params);
    rmdir(folder);
    static const char *const names[] = { "outer.sh", "inner.sh", "mine.conf", ".nccl.conf",
                                          "ucx.conf" };
    for (size_t i = 0; i < rg_array_len(names); i++)
        remove_program(dir, names[i]);
    rmdir(dir);
}

static void a_daemon_is_known_by_its_name(void **state)
{
    (void) state;
    assert_true(rg_engine_is_daemon("orted -mca ess env"));
    assert_true(rg_engine_is_daemon("X=1; export X; /opt/p/bin/prted --prtemca a b"));
    assert_true(rg_engine_is_daemon("\"orted\" x"));
    assert_false(rg_engine_is_daemon("sorted x; exported prtedx"));
    assert_false(rg_engine_is_daemon("mpirun hostname"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_engine_is_told_rsh_hosts_and_network),
        cmocka_unit_test(engines_are_told_the_ports_that_the_firewall_lets_through),
        cmocka_unit_test(ranks_of_ours_get_no_host_list_and_their_own_ssh),
        cmocka_unit_test(what_the_user_sets_is_left_alone_and_what_an_image_sets_in_part),
        cmocka_unit_test(without_a_directory_nothing_points_into_it),
        cmocka_unit_test(an_engine_is_known_by_what_it_says_and_gets_the_ranks),
        cmocka_unit_test(the_users_mpirun_finds_the_hydra_beside_it),
        cmocka_unit_test(what_users_say_is_found_where_they_say_it),
        cmocka_unit_test(a_daemon_is_known_by_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
