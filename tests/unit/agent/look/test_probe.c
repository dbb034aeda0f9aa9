/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "unit.h"
#include "wire/auth.h"
#include "wire/link.h"

static const struct rg_ports any_port = { 0, 0 };

#define TARGETS_MAX 8
#define LIMIT_MS 20000

static struct rg_loop *loop;
static struct rg_prober *ours, *theirs;
static uint32_t port; /* theirs */
static uint8_t key[RG_KEY_NBYTES] = { 1, 2, 3 };
static uint32_t outcomes[TARGETS_MAX];
static size_t noutcomes, nwanted;

static int begin(void **state)
{
    (void) state;
    noutcomes = 0;
    memset(outcomes, 0xff, sizeof(outcomes));
    if (rg_loop_create(&loop) || rg_prober_create(loop, key, &ours) ||
        rg_prober_create(loop, key, &theirs))
        return -1;
    port = rg_prober_listen(theirs, &any_port);
    return port ? 0 : -1;
}

static int end(void **state)
{
    (void) state;
    rg_prober_destroy(ours);
    rg_prober_destroy(theirs);
    rg_loop_destroy(loop);
    return 0;
}

static void on_probed(void *arg, uint32_t index, uint32_t errnum, uint32_t rtt_us)
{
    (void) arg;
    assert_true(index < TARGETS_MAX);
    assert_int_equal(outcomes[index], UINT32_MAX); /* each is told once */
    assert_true(errnum == 0 || rtt_us == 0);
    outcomes[index] = errnum;
    if (++noutcomes == nwanted)
        rg_loop_stop(loop);
}

/* Try the targets until all outcomes are there. */
static void try_all(const struct rg_strv *targets, uint32_t limit_ms)
{
    nwanted = targets->count;
    rg_prober_try(ours, targets, limit_ms, on_probed, NULL);
    if (noutcomes < nwanted)
        rg_loop_run(loop);
    assert_int_equal(noutcomes, nwanted);
}

/* A listener that never answers; its port. */
static int listen_silently(int *ret_fd)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t nbytes = sizeof(address);

    *ret_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(*ret_fd, (struct sockaddr *) &address, nbytes), 0);
    assert_int_equal(getsockname(*ret_fd, (struct sockaddr *) &address, &nbytes), 0);
    return ntohs(address.sin_port);
}

static void the_wanted_agent_is_reached_and_another_is_not(void **state)
{
    rg_autostrv struct rg_strv targets = RG_STRV_INIT;
    unsigned long long instance = rg_prober_instance(theirs);

    (void) state;
    rg_strv_addf(&targets, "%016llx 127.0.0.1 %u", instance, port);
    rg_strv_addf(&targets, "%016llx 127.0.0.1 %u", instance + 1, port);
    rg_strv_addf(&targets, "%016llx ::1 %u", instance, port);
    try_all(&targets, LIMIT_MS);
    assert_int_equal(outcomes[0], 0);
    assert_int_equal(outcomes[1], EACCES);
    assert_true(outcomes[2] == 0 || outcomes[2] == EADDRNOTAVAIL || outcomes[2] == ENETUNREACH);
}

static void agent_of_another_job_is_not_reached(void **state)
{
    rg_autostrv struct rg_strv targets = RG_STRV_INIT;
    uint8_t other[RG_KEY_NBYTES] = { 9 };
    struct rg_prober *stranger;

    (void) state;
    assert_int_equal(rg_prober_create(loop, other, &stranger), 0);
    rg_strv_addf(&targets, "%016llx 127.0.0.1 %u",
                 (unsigned long long) rg_prober_instance(stranger),
                 rg_prober_listen(stranger, &any_port));
    try_all(&targets, LIMIT_MS);
    assert_int_equal(outcomes[0], EACCES);
    rg_prober_destroy(stranger);
}

static void closed_port_is_refused_and_a_silent_one_times_out(void **state)
{
    rg_autostrv struct rg_strv targets = RG_STRV_INIT;
    int closed, silent;

    (void) state;
    rg_strv_addf(&targets, "%x 127.0.0.1 %d", 1, listen_silently(&closed));
    rg_strv_addf(&targets, "%x 127.0.0.1 %d", 1, listen_silently(&silent));
    assert_int_equal(listen(silent, 4), 0);
    try_all(&targets, 50);
    assert_int_equal(outcomes[0], ECONNREFUSED);
    assert_int_equal(outcomes[1], ETIMEDOUT);
    close(closed);
    close(silent);
}

/* What the kernel keeps for a minute after a listener that closed a connection first. */
static void a_range_s_port_serves_again_at_once(void **state)
{
    rg_autoclose int client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int server, on = 1;
    char byte;

    (void) state;
    const int last_port = listen_silently(&server);
    const struct rg_ports one = { last_port, last_port };
    address.sin_port = htons((uint16_t) last_port);
    assert_int_equal(setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    assert_int_equal(listen(server, 4), 0);
    assert_int_equal(rg_prober_listen(ours, &one), 0); /* taken */
    assert_int_equal(connect(client, (struct sockaddr *) &address, sizeof(address)), 0);
    int taken = accept(server, NULL, NULL);
    assert_true(taken >= 0);
    close(taken);
    assert_int_equal(read(client, &byte, 1), 0);
    close(server);
    close(rg_steal_fd(&client));
    assert_int_equal(rg_prober_listen(ours, &one), last_port);
}

static int fake_fd;
static size_t fake_says; /* bytes of the load's answer */
static pid_t fake_pid;

/* An agent of the job's that proves itself, reads the load, and says so much of its own. */
static _Noreturn void be_an_agent(unsigned long long instance)
{
    uint8_t probe_key[RG_KEY_NBYTES], in[RG_AUTH_MESSAGE_MAX], out[RG_AUTH_MESSAGE_MAX];
    static uint8_t bytes[RG_PROBE_LOAD + 1];
    struct rg_auth auth;
    char label[64];
    size_t nout;

    rg_key_derive(key, "probe", probe_key);
    snprintf(label, sizeof(label), "probe %016llx", instance);
    int fd = accept(fake_fd, NULL, NULL);
    rg_auth_start(&auth, false, probe_key, label, out, &nout);
    while (rg_auth_wanted(&auth) > 0) {
        size_t wanted = rg_auth_wanted(&auth);
        if (rg_read_all(fd, in, wanted) < 0 || rg_auth_receive(&auth, in, wanted, out, &nout) < 0 ||
            rg_write_all(fd, out, nout) < 0)
            _exit(1);
    }
    if (rg_read_all(fd, bytes, RG_PROBE_LOAD) < 0 || rg_write_all(fd, bytes, fake_says) < 0)
        _exit(2);
    pause();
    _exit(0);
}

/* What a network does to large packets is tried on hosts; here, what is made of it. */
static void who_proves_itself_must_also_answer_the_load(void **state)
{
    static const struct {
        size_t says;
        uint32_t errnum;
    } cases[] = {
        { RG_PROBE_LOAD + 1, 0 },
        { 1, EMSGSIZE },              /* the byte came, and nothing that was sent with it */
        { RG_PROBE_LOAD, EMSGSIZE },
        { 0, ETIMEDOUT },             /* it is busy: its kernel has what we sent */
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        rg_autostrv struct rg_strv targets = RG_STRV_INIT;
        rg_strv_addf(&targets, "%016x 127.0.0.1 %d", 5, listen_silently(&fake_fd));
        assert_int_equal(listen(fake_fd, 1), 0);
        fake_says = cases[i].says;
        noutcomes = 0;
        memset(outcomes, 0xff, sizeof(outcomes));
        fake_pid = fork();
        if (fake_pid == 0)
            be_an_agent(5);
        try_all(&targets, cases[i].errnum ? 1000 : LIMIT_MS);
        kill(fake_pid, SIGKILL);
        waitpid(fake_pid, NULL, 0);
        close(fake_fd);
        assert_int_equal(outcomes[0], cases[i].errnum);
    }
}

static void broken_targets_are_invalid(void **state)
{
    rg_autostrv struct rg_strv targets = RG_STRV_INIT;
    static const char *const broken[] = { "", "1", "1 127.0.0.1", "1 127.0.0.1 0",
                                          "1 127.0.0.1 70000", "1 nowhere 4000",
                                          "1 127.0.0.1 4000 and more" };

    (void) state;
    for (size_t i = 0; i < rg_array_len(broken); i++)
        rg_strv_add(&targets, broken[i]);
    try_all(&targets, LIMIT_MS);
    for (size_t i = 0; i < rg_array_len(broken); i++)
        assert_int_equal(outcomes[i], EINVAL);
}

static void it_listens_when_it_is_told_and_until_it_is_hushed(void **state)
{
    rg_autostrv struct rg_strv targets = RG_STRV_INIT;

    (void) state;
    assert_int_equal(rg_prober_listen(theirs, &any_port), port);
    rg_prober_hush(theirs);
    rg_prober_hush(ours); /* has never listened */
    rg_strv_addf(&targets, "%016llx 127.0.0.1 %u",
                 (unsigned long long) rg_prober_instance(theirs), port);
    try_all(&targets, LIMIT_MS);
    assert_int_equal(outcomes[0], ECONNREFUSED);
    assert_int_not_equal(rg_prober_listen(theirs, &any_port), 0);
}

#define CROWD 300

static struct rg_child child;
static struct rg_timer alarm_timer;
static int child_status;

static void on_child(void *arg, pid_t pid, int status)
{
    (void) arg;
    (void) pid;
    child_status = status;
    rg_loop_stop(loop);
}

static void on_alarm(void *arg)
{
    (void) arg;
    rg_loop_stop(loop);
}

static int handshake(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return fd >= 0 && connect(fd, (struct sockaddr *) &address, sizeof(address)) == 0 ? fd : -1;
}

/* The exchange as another agent has it; blocks. */
static bool is_answered(int fd)
{
    uint8_t probe_key[RG_KEY_NBYTES], in[RG_AUTH_MESSAGE_MAX], out[RG_AUTH_MESSAGE_MAX];
    struct rg_auth auth;
    char label[64];
    size_t nout;

    rg_key_derive(key, "probe", probe_key);
    snprintf(label, sizeof(label), "probe %016llx",
             (unsigned long long) rg_prober_instance(theirs));
    return rg_auth_start(&auth, true, probe_key, label, out, &nout) == 0 &&
           rg_write_all(fd, out, nout) == 0 && rg_read_all(fd, in, rg_auth_wanted(&auth)) == 0 &&
           rg_auth_receive(&auth, in, rg_auth_wanted(&auth), out, &nout) == 0;
}

/* Another process: CROWD connections that say nothing; on a byte from us, a probe. */
static _Noreturn void be_a_crowd(int ready_fd, int go_fd)
{
    char byte = 0;

    for (int i = 0; i < CROWD; i++) {
        if (handshake() < 0)
            _exit(2);
    }
    if (write(ready_fd, &byte, 1) != 1 || read(go_fd, &byte, 1) != 1)
        _exit(3);
    _exit(is_answered(handshake()) ? 0 : 4);
}

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Without a free descriptor for them all, too. */
static void a_crowd_that_says_nothing_keeps_no_agent_out(void **state)
{
    struct rlimit limit, low;
    int ready[2], go[2];
    char byte;

    (void) state;
    getrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(rg_pipe(ready), 0);
    assert_int_equal(rg_pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0)
        be_a_crowd(ready[1], go[0]);
    assert_true(pid > 0);
    low = limit;
    low.rlim_cur = 100;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    rg_child_start(&child, loop, pid, on_child, NULL);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    double before = cpu_seconds();
    rg_timer_start(&alarm_timer, loop, 500, 0, on_alarm, NULL);
    rg_loop_run(loop);
    assert_int_equal(write(go[1], &byte, 1), 1);
    rg_loop_run(loop);
    assert_true(WIFEXITED(child_status));
    assert_int_equal(WEXITSTATUS(child_status), 0);
    assert_true(cpu_seconds() - before < 0.5); /* it does not turn in circles */
    setrlimit(RLIMIT_NOFILE, &limit);
    rg_child_stop(&child);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(the_wanted_agent_is_reached_and_another_is_not),
        TEST(agent_of_another_job_is_not_reached),
        TEST(closed_port_is_refused_and_a_silent_one_times_out),
        TEST(a_range_s_port_serves_again_at_once),
        TEST(who_proves_itself_must_also_answer_the_load),
        TEST(broken_targets_are_invalid),
        TEST(it_listens_when_it_is_told_and_until_it_is_hushed),
        TEST(a_crowd_that_says_nothing_keeps_no_agent_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
