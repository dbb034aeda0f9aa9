/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "unit.h"
#include "wire/link.h"

#define TARGETS_MAX 8
#define LIMIT_MS 20000

static struct rg_loop *loop;
static struct rg_prober *ours, *theirs;
static uint8_t key[RG_KEY_NBYTES] = { 1, 2, 3 };
static uint32_t outcomes[TARGETS_MAX];
static size_t noutcomes, nwanted;

static int begin(void **state)
{
    (void) state;
    noutcomes = 0;
    memset(outcomes, 0xff, sizeof(outcomes));
    return rg_loop_create(&loop) || rg_prober_create(loop, key, &ours) ||
           rg_prober_create(loop, key, &theirs);
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
    unsigned port = rg_prober_port(theirs);

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
                 (unsigned long long) rg_prober_instance(stranger), rg_prober_port(stranger));
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

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(the_wanted_agent_is_reached_and_another_is_not),
        TEST(agent_of_another_job_is_not_reached),
        TEST(closed_port_is_refused_and_a_silent_one_times_out),
        TEST(broken_targets_are_invalid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
