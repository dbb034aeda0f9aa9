/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/doctor/doctor.h"
#include "unit.h"

#define GOOD                                                                                 \
    "kernel 6.1 x86_64\nlibc glibc 2.36\ncpus 4\nmemory 68719476736 34359738368\n"          \
    "shm 2147483648 2147483648\nmemlock unlimited\nnofile 65536 65536\ncma 0 0 0 0\n"       \
    "disk 100000000000 50000000000 /home/a b\nrdma-devices 0\ngpu 0\n"                     \
    "route 0.0.0.0/0 eth0 10.0.0.254\nmpi /usr/bin/mpirun mpirun (Open MPI) 4.1.4\n"        \
    "python /usr/bin/python3 3.11.2\npackage numpy 1.24.2\nresolve a 10.0.0.1\nend\n"

static struct rg_strv addresses;
static struct rg_doctor_host hosts[2];
static struct rg_doctor_input input;
static struct rg_findings findings;

static int begin(void **state)
{
    (void) state;
    for (int i = 0; i < 2; i++)
        hosts[i] = (struct rg_doctor_host){ .name = i ? "b" : "a", .facts = GOOD,
                                            .addresses = &addresses, .nranks = 2 };
    input = (struct rg_doctor_input){ .hosts = hosts, .nhosts = 1 };
    return rg_strv_add(&addresses, "10.0.0.1/24 eth0");
}

static int end(void **state)
{
    (void) state;
    rg_findings_fini(&findings);
    rg_strv_fini(&addresses);
    return 0;
}

/* The only finding of this check that is not ok, or NULL. */
static const struct rg_finding *bad(const char *check)
{
    const struct rg_finding *found = NULL;

    rg_findings_fini(&findings);
    assert_int_equal(rg_doctor_judge(&input, &findings), 0);
    for (size_t i = 0; i < findings.count; i++) {
        const struct rg_finding *f = &findings.v[i];
        assert_int_equal(*f->remedy != '\0', f->level != RG_FINDING_OK);
        if (f->level == RG_FINDING_OK)
            continue;
        if (strcmp(f->check, check) != 0)
            fail_msg("%s: %s", f->check, f->value);
        found = f;
    }
    return found;
}

static void good_host_has_no_bad_finding(void **state)
{
    (void) state;
    assert_null(bad(""));
}

/* GOOD with other lines for some facts. */
static const char *with(const char *lines)
{
    static char text[4096];
    const char *line = GOOD;
    size_t used = (size_t) snprintf(text, sizeof(text), "%s", lines);

    for (size_t n; *line; line += n + 1) {
        char name[64];
        n = strcspn(line, "\n");
        snprintf(name, sizeof(name), "%.*s", (int) strcspn(line, " \n"), line);
        const char *other = strstr(lines, name);
        if (!other || (other != lines && other[-1] != '\n'))
            used += (size_t) snprintf(text + used, sizeof(text) - used, "%.*s\n", (int) n, line);
    }
    return text;
}

static void each_fact_warns_with_a_remedy_that_fits(void **state)
{
    static const struct {
        const char *facts, *check, *value, *remedy_contained, *remedy_bare;
    } cases[] = {
        { "shm 67108864 67108864\n", "shm", "64 MiB", "--shm-size", "remount" },
        { "shm 0 0\n", "shm", "no /dev/shm", "--shm-size", "remount" },
        { "cpus 1\n", "cpus", "1 core, for 2 ranks", "--cpus", "fewer ranks" },
        { "quota 100000 100000\n", "cpus", "limited to 1", "--cpus", "fewer ranks" },
        { "memory 1073741824 536870912\n", "memory", "512 MiB free", "--memory", "fewer ranks" },
        { "nofile 256 4096\n", "nofile", "256", "--ulimit=nofile", "limits.conf" },
        { "nproc 512\n", "nproc", "512 processes and threads", "--ulimit=nproc", "limits.conf" },
        { "vmem 4294967296\n", "vmem", "4 GiB", "ulimit -v", "ulimit -v" },
        { "fsize 1048576\n", "fsize", "1 MiB", "--ulimit=fsize", "limits.conf" },
        { "gpu-trouble late\n", "gpu", "does not come to its end", "nvidia-smi", "dmesg" },
        { "gpu 2\ngpu-trouble failed\n", "gpu", "2 device files: nvidia-smi fails", "dmesg",
          "dmesg" },
        { "disk 1000000000000 1000 /tmp\n", "disk", "/tmp", "--mount", "make room" },
        { "cma 1 2 0 0\n", "cma", "seccomp", "--cap-add=SYS_PTRACE", "seccomp=unconfined" },
        { "cma 1 0 1 0\n", "cma", "yama", "--cap-add=SYS_PTRACE", "sysctl" },
        { "cma 1 2 1 0\n", "cma", "yama", "lifts both", "lifts both" },
        { "cma 38 0 0 0\n", "cma", "does not exist", "CROSS_MEMORY", "CROSS_MEMORY" },
        { "rdma mlx5_0 4: ACTIVE\n", "rdma", "mlx5_0", "--ibdevices", "drivers" },
        { "rdma mlx5_0 1: DOWN\nrdma-devices 1\n", "rdma", "DOWN", "ibstat", "ibstat" },
        { "rdma m 4: ACTIVE\nrdma-devices 1\nmemlock 65536\n", "memlock", "64 KiB",
          "--ulimit=memlock", "limits.conf" },
        { "gpu 2\n", "gpu", "2 device files", "nvidia-smi", "nvidia-smi" },
        { "no-horovod musl\n", "python", "No horovod: musl", "install Reigen", "install Reigen" },
        { "resolve a 10.0.0.1\nresolve b -\n", "names", "b", "--add-host", "/etc/hosts" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        hosts[0].facts = with(cases[i].facts);
        for (int contained = 0; contained < 2; contained++) {
            input.contained = contained;
            const struct rg_finding *f = bad(cases[i].check);
            assert_non_null(f);
            assert_int_equal(f->level, RG_FINDING_WARN);
            if (!strstr(f->value, cases[i].value))
                fail_msg("%s is not in: %s", cases[i].value, f->value);
            const char *remedy = contained ? cases[i].remedy_contained : cases[i].remedy_bare;
            if (!strstr(f->remedy, remedy))
                fail_msg("%s is not in: %s", remedy, f->remedy);
        }
    }
}

/* 16384 is IPC_LOCK, 2097152 SYS_ADMIN. */
static void ipc_lock_counts_only_for_processes_that_have_it(void **state)
{
    (void) state;
    hosts[0].facts = with("memlock 65536\ncaps 0 16384\n");
    const struct rg_finding *f = bad("memlock");
    assert_non_null(f);
    assert_non_null(strstr(f->value, "does nothing for an ordinary user's"));
    assert_non_null(strstr(f->remedy, "LimitMEMLOCK=infinity"));
    hosts[0].facts = with("memlock 65536\ncaps 0 2113536\n"); /* as outside of containers */
    assert_null(bad("memlock"));
    hosts[0].facts = with("memlock 65536\nrdma m 4: ACTIVE\nrdma-devices 1\ncaps 16384 16384\n");
    assert_null(bad("memlock"));
    hosts[0].facts = with("memlock unlimited\ncaps 0 16384\n");
    assert_null(bad("memlock"));
    rg_autostrv struct rg_strv wanted = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    rg_strv_add(&wanted, "memlock=1g");
    input.required = &wanted;
    hosts[0].facts = with("memlock 65536\ncaps 16384 16384\n");
    assert_int_equal(rg_doctor_require(&input, &err), 0);
    hosts[0].facts = with("memlock 65536\ncaps 0 16384\n");
    assert_int_equal(rg_doctor_require(&input, &err), -EOPNOTSUPP);
    input.required = NULL;
}

static void host_that_was_not_looked_at_to_the_end_is_told(void **state)
{
    (void) state;
    hosts[0].facts = "kernel 6.1 x86_64\nlate\n";
    assert_non_null(bad("doctor"));
    for (size_t i = 0; i < findings.count; i++) {
        const struct rg_finding *f = &findings.v[i];
        if (strcmp(f->check, "mpi") == 0 || strcmp(f->check, "python") == 0 ||
            strcmp(f->check, "gpu") == 0)
            assert_string_equal(f->value, "not known");
    }
    hosts[0].facts = "error no /proc\nend\n";
    assert_int_equal(bad("doctor")->level, RG_FINDING_FAIL);
}

static void clock_counts_beyond_what_the_measurement_leaves_open(void **state)
{
    (void) state;
    hosts[0].clock_ns = -90000000;
    assert_null(bad(""));
    hosts[0].clock_ns = -300000000;
    hosts[0].clock_bound_ns = 250000000;
    assert_null(bad(""));
    hosts[0].clock_bound_ns = 1000000;
    assert_non_null(strstr(bad("clock")->remedy, "NTP"));
    assert_string_equal(bad("clock")->value,
                        "300.000 ms behind this computer's, give or take 1.000 ms");
    static const struct { int64_t ns; const char *text; } times[] = {
        { INT64_C(3599997613000), "1 h 0 min ahead of this computer's" },
        { -INT64_C(187000000000), "3 min 7 s behind this computer's" },
        { INT64_C(5000000000), "5 s ahead" }, { INT64_C(190800000000000), "2 d 5 h ahead" },
    };
    for (size_t i = 0; i < rg_array_len(times); i++) {
        hosts[0].clock_ns = times[i].ns;
        assert_non_null(strstr(bad("clock")->value, times[i].text));
    }
}

static void hosts_that_differ_are_told(void **state)
{
    (void) state;
    input.nhosts = 2;
    assert_null(bad(""));
    hosts[1].facts = with("mpi /opt/mpi/mpirun HYDRA build details:\n");
    const struct rg_finding *f = bad("mpi");
    assert_non_null(strstr(f->value, "a has /usr/bin/mpirun"));
    assert_non_null(strstr(f->value, "b has /opt/mpi/mpirun"));
    assert_int_equal(f->host, -1);
}

static void nccls_that_differ_are_told(void **state)
{
#define GPU "gpu-name GPU 0: x\npackage numpy 1.24.2\n"
    static char first[4096];

    (void) state;
    input.nhosts = 2;
    strcpy(first, with(GPU "package nccl 2.27.5\n"));
    hosts[0].facts = first;
    hosts[1].facts = with(GPU "nccl libnccl.so.2.27.5\n");
    assert_null(bad(""));
    hosts[1].facts = with(GPU "nccl libnccl.so.2.21.5\n");
    const struct rg_finding *f = bad("nccl");
    assert_non_null(strstr(f->value, "a has 2.27.5; b has 2.21.5"));
    assert_int_equal(f->host, -1);
    hosts[1].facts = with("nccl libnccl.so.2.21.5\n"); /* without a GPU it is not used */
    assert_null(bad(""));
#undef GPU
}

static void pythons_that_differ_in_what_matters_are_told(void **state)
{
    static const struct { const char *facts, *value; /* of b */ } cases[] = {
        { "python /opt/venv/bin/python3 3.11.9\n", NULL },
        { "package numpy 1.26.4\n", NULL },
        { "package numpy ?\n", NULL },
        { "package horovod 0.1.0\npackage numpy 1.24.2\n", NULL },
        { "python /usr/bin/python3 3.1\n", "3.11.2; b has /usr/bin/python3 3.1" },
        { "package numpy 2.1.0\n", "a has numpy 1.24.2; b has numpy 2.1.0" },
        { "package torch 2.1\npackage numpy 1.24.2\n", "a has torch none; b has torch 2.1" },
    };

    (void) state;
    input.nhosts = 2;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        hosts[1].facts = with(cases[i].facts);
        const struct rg_finding *f = bad("python");
        assert_int_equal(f != NULL, cases[i].value != NULL);
        if (f && !strstr(f->value, cases[i].value))
            fail_msg("%s is not in: %s", cases[i].value, f->value);
    }
}

static void requirements_name_host_value_and_remedy(void **state)
{
    static const struct { const char *word; bool holds; } cases[] = {
        { "shm=1g", true }, { "shm=3g", false }, { "memlock=unlimited", true }, { "cpus=4", true },
        { "cpus=5", false }, { "nofile=65536", true }, { "memory=60g", true }, { "cma", true },
        { "disk=40g", true }, { "disk=1t", false }, { "rdma", false }, { "gpu", false },
        { "mpi", true }, { "python", true }, { "numpy", true }, { "torch", false },
        { "clock=10ms", true },
    };

    (void) state;
    input.nhosts = 2;
    hosts[0].facts = with("shm 9999999999 9999999999\ncpus 64\ndisk 9999999999999 9999999999999 /\n"
                          "rdma m 4: ACTIVE\nrdma-devices 1\ngpu 8\npackage torch 2.1\n"
                          "package numpy 1.26\n");
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        rg_autostrv struct rg_strv required = RG_STRV_INIT;
        struct rg_error err = RG_ERROR_INIT;
        rg_strv_add(&required, cases[i].word);
        input.required = &required;
        int r = rg_doctor_require(&input, &err);
        input.required = NULL;
        if ((r == 0) != cases[i].holds)
            fail_msg("%s: %s", cases[i].word, err.text);
        if (r == 0)
            continue;
        assert_int_equal(err.exit_code, 69);
        assert_non_null(strstr(err.text, "host b: --require"));
        assert_non_null(strstr(err.text, cases[i].word));
        assert_non_null(strstr(err.text, "; "));
    }
}

static void what_is_required_must_be_usable(void **state)
{
    rg_autostrv struct rg_strv required = RG_STRV_INIT;

    (void) state;
    rg_strv_add(&required, "rdma");
    input.required = &required;
    hosts[0].facts = with("rdma m 1: DOWN\nrdma-devices 1\n");
    assert_int_equal(rg_doctor_require(&input, NULL), -EOPNOTSUPP);
    hosts[0].facts = with("rdma m 1: DOWN\nrdma n 4: ACTIVE\nrdma-devices 2\n");
    assert_int_equal(rg_doctor_require(&input, NULL), 0);
    hosts[0].facts = with("rdma m 4: ACTIVE\nrdma-devices 0\n");
    assert_int_equal(rg_doctor_require(&input, NULL), -EOPNOTSUPP);
    rg_strv_fini(&required);
    rg_strv_add(&required, "cpus=2");
    hosts[0].facts = with("quota 150000 100000\n");
    assert_int_equal(rg_doctor_require(&input, NULL), -EOPNOTSUPP);
    hosts[0].facts = with("quota 200000 100000\n");
    assert_int_equal(rg_doctor_require(&input, NULL), 0);
    input.required = NULL;
}

/* On each host that lacks it, with a remedy as other findings have. */
static void what_is_required_and_missing_is_a_finding(void **state)
{
    rg_autostrv struct rg_strv required = RG_STRV_INIT;

    (void) state;
    input.nhosts = 2;
    input.required = &required;
    rg_strv_add(&required, "numpy");
    rg_strv_add(&required, "shm=3g");
    const struct rg_finding *f = bad("require");
    assert_non_null(f);
    assert_int_equal(f->level, RG_FINDING_FAIL);
    assert_int_equal(f->host, 1);
    assert_string_equal(f->value, "--require shm=3g: it has 2 GiB");
    assert_non_null(strstr(f->remedy, "/dev/shm"));
    rg_strv_fini(&required);
    rg_strv_add(&required, "shm=2g");
    assert_null(bad("require"));
}

/* Two hosts on eth0 and eth1; what each try by the other's address comes to. */
static struct rg_network *connect_hosts(struct rg_strv lists[2], int over_eth0, int over_eth1)
{
    static const char *const all[2][2] = { { "10.0.0.1/24 eth0", "10.1.0.1/24 eth1" },
                                           { "10.0.0.2/24 eth0", "10.1.0.2/24 eth1" } };
    struct rg_network_host from[2];
    struct rg_strv any = RG_STRV_INIT;
    struct rg_network *network;
    size_t count;

    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < 2; i++)
            assert_int_equal(rg_strv_add(&lists[h], all[h][i]), 0);
        from[h] = (struct rg_network_host){ hosts[h].name, hosts[h].name, 7, 7, 4000, &lists[h] };
        hosts[h].addresses = &lists[h];
    }
    assert_int_equal(rg_network_create(from, 2, &any, true, &network, NULL), 0);
    const struct rg_network_probe *tries = rg_network_all(network, &count);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(rg_network_probed(network, tries[i].from, (uint32_t) (i % 2),
                                           strcmp(tries[i].interface, "eth0") == 0 ? over_eth0
                                                                                   : over_eth1,
                                           90), 0);
    input = (struct rg_doctor_input){ .hosts = hosts, .nhosts = 2, .network = network };
    return network;
}

static void network_that_is_closed_beside_an_open_one_is_told(void **state)
{
    static const struct { int over_eth0, over_eth1, level; const char *value; } cases[] = {
        { 0, 0, RG_FINDING_OK, "" },
        { 0, ETIMEDOUT, RG_FINDING_WARN, "b cannot reach a at 10.1.0.1 (eth1): no answer" },
        { ECONNREFUSED, ETIMEDOUT, RG_FINDING_FAIL, "b cannot reach a: 10.0.0.1 (eth0): refused" },
        { 0, EMSGSIZE, RG_FINDING_WARN, "(eth1): small packets pass, large ones do not" },
        { EMSGSIZE, ETIMEDOUT, RG_FINDING_FAIL, "(eth0): small packets pass, large ones do not" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_strv lists[2] = { RG_STRV_INIT, RG_STRV_INIT };
        struct rg_network *network = connect_hosts(lists, cases[i].over_eth0, cases[i].over_eth1);
        const struct rg_finding *f = bad("reach");

        assert_int_equal(f != NULL, cases[i].level != RG_FINDING_OK);
        if (f) {
            assert_int_equal(f->level, cases[i].level);
            assert_non_null(strstr(f->value, cases[i].value));
            bool large = cases[i].over_eth0 == EMSGSIZE || cases[i].over_eth1 == EMSGSIZE;
            assert_int_equal(strstr(f->remedy, "ip link set dev") != NULL, large);
        }
        rg_network_destroy(network);
        rg_strv_fini(&lists[0]);
        rg_strv_fini(&lists[1]);
    }
}

static void names_that_lead_elsewhere_are_told(void **state)
{
    static const struct {
        const char *facts, *value; /* of b */
    } cases[] = {
        { "resolve a 10.0.0.1\nresolve b 10.1.0.2\n", NULL },
        { "resolve a 10.0.0.2\nresolve b 10.0.0.2\n", "a is 10.0.0.2, which is b" },
        { "resolve a 127.0.1.1\n", "a is 127.0.1.1, which is this host itself" },
        { "resolve b 127.0.1.1\n", "b is 127.0.1.1, by which no other host" },
        { "resolve b ::1\n", "b is ::1, by which no other host" },
        { "resolve a 192.0.2.9\n", "a is 192.0.2.9, which is no address of that host" },
        { "resolve a 10.0.0.22\nresolve b 10.0.0\n", "b is 10.0.0, which is no address" },
        { "resolve localhost ::1\n", NULL },
        { "resolve other 192.0.2.9\nresolve 10.9.9.9 127.0.0.1\n", NULL },
    };
    struct rg_strv lists[2] = { RG_STRV_INIT, RG_STRV_INIT };
    struct rg_network *network = connect_hosts(lists, 0, 0);

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        hosts[1].name = strstr(cases[i].facts, "localhost") ? "localhost" : "b";
        hosts[1].facts = with(cases[i].facts);
        const struct rg_finding *f = bad("names");
        assert_int_equal(f != NULL, cases[i].value != NULL);
        if (f && !strstr(f->value, cases[i].value))
            fail_msg("%s is not in: %s", cases[i].value, f->value);
    }
    /* Alone, a host may call itself what it likes. */
    hosts[0].facts = with("resolve a 127.0.1.1\n");
    input.nhosts = 1;
    assert_null(bad("names"));
    rg_network_destroy(network);
    rg_strv_fini(&lists[0]);
    rg_strv_fini(&lists[1]);
}

static void two_names_of_one_machine_are_told(void **state)
{
    static const char *const at[] = { "10.0.0.1/24 eth0", "10.0.0.2/24 eth0", "10.0.0.2/24 eth0" };
    static const char *const names[] = { "a", "b", "c" };
    struct rg_doctor_host three[3];
    struct rg_network_host from[3];
    struct rg_strv lists[3] = { RG_STRV_INIT, RG_STRV_INIT, RG_STRV_INIT }, any = RG_STRV_INIT;
    struct rg_network *network;

    (void) state;
    for (int h = 0; h < 3; h++) {
        rg_strv_add(&lists[h], at[h]);
        three[h] = hosts[0];
        three[h].name = names[h];
        three[h].addresses = &lists[h];
        from[h] = (struct rg_network_host){ names[h], h ? "b" : "a", 7, 7, 4000, &lists[h] };
    }
    assert_int_equal(rg_network_create(from, 3, &any, true, &network, NULL), 0);
    input = (struct rg_doctor_input){ .hosts = three, .nhosts = 3, .network = network };
    rg_findings_fini(&findings);
    assert_int_equal(rg_doctor_judge(&input, &findings), 0);
    const struct rg_finding *f = NULL;
    for (size_t i = 0; i < findings.count; i++) {
        if (strcmp(findings.v[i].check, "names") == 0 && findings.v[i].level == RG_FINDING_WARN)
            f = &findings.v[i];
    }
    assert_non_null(f);
    assert_string_equal(f->value, "b and c are one machine");
    rg_network_destroy(network);
    for (int h = 0; h < 3; h++)
        rg_strv_fini(&lists[h]);
}

static void intel_mpi_is_told_what_the_host_has(void **state)
{
    static const struct {
        const char *facts, *settings[2];
        bool warns;
    } cases[] = {
#define IMPI "mpi /opt/bin/mpirun Intel(R) MPI Library for Linux* OS, Version "
#define MLX "rdma mlx5_0 4: ACTIVE\nrdma-devices 1\n"
        { IMPI "2021.19 Build 2025\n", { "I_MPI_FABRICS=shm:ofi", "FI_PROVIDER=tcp" }, false },
        { IMPI "2021.19 Build 2025\n" MLX, { "I_MPI_FABRICS=shm:ofi", "FI_PROVIDER=verbs" },
          false },
        { IMPI "2021.19 Build 2025\nucx 1\n" MLX, { "I_MPI_FABRICS=shm:ofi", "FI_PROVIDER=mlx" },
          false },
        { IMPI "2019 Update 4 Build 2019\nucx 1\n" MLX,
          { "I_MPI_FABRICS=shm:ofi", "FI_PROVIDER=verbs" }, false },
        { IMPI "2019 Update 5 Build 2019\nucx 1\n" MLX,
          { "I_MPI_FABRICS=shm:ofi", "FI_PROVIDER=mlx" }, false },
        { IMPI "2021.19\nucx 1\nrdma irdma0 4: ACTIVE\nrdma-devices 1\n",
          { "I_MPI_FABRICS=shm:ofi", "FI_PROVIDER=verbs" }, false },
        { IMPI "2021.19\nrdma efa_0 4: ACTIVE\nrdma-devices 1\n",
          { "I_MPI_FABRICS=shm:ofi", "FI_PROVIDER=efa" }, false },
        { IMPI "2021.19\nrdma hfi1_0 4: ACTIVE\nrdma-devices 1\n",
          { "I_MPI_FABRICS=shm:ofi" }, false },
        { IMPI "2021.19\nrdma mlx5_0 1: DOWN\nrdma-devices 1\n",
          { "I_MPI_FABRICS=shm:ofi", "FI_PROVIDER=tcp" }, false },
        { IMPI "2021.19\nrdma mlx5_0 4: ACTIVE\nrdma-devices 0\n",
          { "I_MPI_FABRICS=shm:ofi", "FI_PROVIDER=tcp" }, false },
        { IMPI "5.1.3 Build 2016\ndapl ofa-v2-mlx4_0-1\ndapl ofa-v2-ib0\n" MLX,
          { "I_MPI_FABRICS=shm:dapl", "I_MPI_DAPL_PROVIDER=ofa-v2-ib0" }, false },
        { IMPI "2018 Update 3 Build 2018\ndapl ofa-v2-mlx5_0-1\n" MLX,
          { "I_MPI_FABRICS=shm:dapl", "I_MPI_DAPL_PROVIDER=ofa-v2-mlx5_0-1" }, false },
        { IMPI "5.1.3 Build 2016\n" MLX, { "I_MPI_FABRICS=shm:tcp" }, true },
        { IMPI "5.1.3 Build 2016\ndapl ofa-v2-ib0\n", { "I_MPI_FABRICS=shm:tcp" }, false },
        { IMPI "unknown\n" MLX, { NULL }, false },
        { "mpi /usr/bin/mpirun mpirun (Open MPI) 4.1.4\n" MLX, { NULL }, false },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        const struct rg_finding *f = NULL;
        hosts[0].facts = cases[i].facts;
        rg_findings_fini(&findings);
        assert_int_equal(rg_doctor_judge(&input, &findings), 0);
        for (size_t k = 0; k < findings.count; k++) {
            if (strcmp(findings.v[k].check, "impi") == 0)
                f = &findings.v[k];
        }
        assert_int_equal(f != NULL, cases[i].settings[0] != NULL);
        if (!f)
            continue;
        assert_int_equal(f->settings.count, cases[i].settings[1] ? 2 : 1);
        for (size_t k = 0; k < f->settings.count; k++) {
            assert_string_equal(f->settings.v[k], cases[i].settings[k]);
            assert_non_null(strstr(f->value, f->settings.v[k]));
        }
        assert_int_equal(f->level, cases[i].warns ? RG_FINDING_WARN : RG_FINDING_OK);
        assert_int_equal(*f->remedy != '\0', cases[i].warns);
    }
}

static void nonsense_is_no_fact(void **state)
{
    static const char *const texts[] = {
        "", "\n\n\n", "shm", "shm x y\n", "shm 1\n", "cpus -1\nmemory 1 \n", "disk 1 2\n",
        "cma 1 2\n",
        "quota 1 0\ncpus 2\n", "rdma\ngpu-name\nresolve\nroute\npackage\nmpi\npython\n",
        "end\xff\xfe\n\x01\x02", "mpi \x1b[31mred\x1b[0m\n",
    };

    (void) state;
    input.nhosts = 2;
    for (size_t i = 0; i < rg_array_len(texts); i++) {
        hosts[1].facts = texts[i];
        rg_findings_fini(&findings);
        assert_int_equal(rg_doctor_judge(&input, &findings), 0);
        for (size_t k = 0; k < findings.count; k++)
            assert_null(strpbrk(findings.v[k].value, "\x1b\n\t"));
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(good_host_has_no_bad_finding),
        TEST(each_fact_warns_with_a_remedy_that_fits),
        TEST(ipc_lock_counts_only_for_processes_that_have_it),
        TEST(host_that_was_not_looked_at_to_the_end_is_told),
        TEST(clock_counts_beyond_what_the_measurement_leaves_open),
        TEST(hosts_that_differ_are_told),
        TEST(nccls_that_differ_are_told),
        TEST(pythons_that_differ_in_what_matters_are_told),
        TEST(requirements_name_host_value_and_remedy),
        TEST(what_is_required_must_be_usable),
        TEST(network_that_is_closed_beside_an_open_one_is_told),
        TEST(names_that_lead_elsewhere_are_told),
        TEST(two_names_of_one_machine_are_told),
        TEST(what_is_required_and_missing_is_a_finding),
        TEST(intel_mpi_is_told_what_the_host_has),
        TEST(nonsense_is_no_fact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
