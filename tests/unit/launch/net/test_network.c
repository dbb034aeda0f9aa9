/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/net/network.h"
#include "unit.h"

#define HOSTS_MAX 8

static struct rg_network *network;
static struct rg_error err;
static struct rg_strv addresses[HOSTS_MAX];
static struct rg_network_host hosts[HOSTS_MAX];
static struct rg_strv wanted;
static char names[HOSTS_MAX][8];
static int nhosts;

static int begin(void **state)
{
    (void) state;
    nhosts = 0;
    err = (struct rg_error) RG_ERROR_INIT;
    return 0;
}

static int end(void **state)
{
    (void) state;
    rg_network_destroy(network);
    network = NULL;
    for (int h = 0; h < HOSTS_MAX; h++)
        rg_strv_fini(&addresses[h]);
    rg_strv_fini(&wanted);
    return 0;
}

/* The next host, named a, b, ..., each in a name space of its own. */
static void host(const char *const *list)
{
    for (int i = 0; list[i]; i++)
        assert_int_equal(rg_strv_add(&addresses[nhosts], list[i]), 0);
    snprintf(names[nhosts], sizeof(names[0]), "%c", 'a' + nhosts);
    hosts[nhosts] = (struct rg_network_host){ names[nhosts], "boot", 100 + (uint64_t) nhosts,
                                              7 + (uint64_t) nhosts, 4000, &addresses[nhosts] };
    nhosts++;
}
#define HOST(...) host((const char *const[]){ __VA_ARGS__, NULL })

static void make(void)
{
    if (rg_network_create(hosts, nhosts, &wanted, false, &network, &err) < 0)
        fail_msg("%s", err.text);
}

/* The outcome of every try towards this address. */
static void tell(const char *address, int errnum)
{
    size_t count;
    const struct rg_network_probe *all = rg_network_all(network, &count);
    uint32_t index[HOSTS_MAX] = { 0 };
    bool some = false;

    for (size_t i = 0; i < count; i++) {
        uint32_t mine = index[all[i].from]++;
        if (strcmp(all[i].address, address) != 0)
            continue;
        assert_int_equal(rg_network_probed(network, all[i].from, mine, errnum, 120), 0);
        some = true;
    }
    assert_true(some);
}

static void common_subnet_is_chosen_and_docker0_is_not(void **state)
{
    (void) state;
    HOST("172.17.0.1/16 docker0", "10.77.0.1/24 eth0", "127.0.0.1/8 lo");
    HOST("172.17.0.1/16 docker0", "10.77.0.2/24 eth3", "127.0.0.1/8 lo");
    make();
    size_t count;
    rg_network_all(network, &count);
    assert_int_equal(count, 2); /* one address of each is worth a try */
    assert_int_equal(rg_network_decide(network, false, &err), 0);
    tell("10.77.0.1", 0);
    tell("10.77.0.2", 0);
    assert_int_equal(rg_network_decide(network, false, &err), 1);
    assert_string_equal(rg_network_cidr(network), "10.77.0.0/24");
    assert_string_equal(rg_network_address(network, 0), "10.77.0.1");
    assert_string_equal(rg_network_interface(network, 1), "eth3");
}

static void second_subnet_serves_when_the_first_leads_nowhere(void **state)
{
    (void) state;
    HOST("10.1.0.1/16 eth0", "10.2.0.1/16 eth1");
    HOST("10.1.0.2/16 eth0", "10.2.0.2/16 eth1");
    make();
    tell("10.2.0.1", 0);
    tell("10.2.0.2", 0);
    assert_int_equal(rg_network_decide(network, false, &err), 0); /* the first may still come */
    assert_int_equal(rg_network_decide(network, true, &err), 1);
    assert_string_equal(rg_network_cidr(network), "10.2.0.0/16");
}

static void failed_first_subnet_is_not_waited_for(void **state)
{
    (void) state;
    HOST("10.1.0.1/16 eth0", "10.2.0.1/16 eth1");
    HOST("10.1.0.2/16 eth0", "10.2.0.2/16 eth1");
    make();
    tell("10.2.0.1", 0);
    tell("10.2.0.2", 0);
    tell("10.1.0.2", ETIMEDOUT);
    assert_int_equal(rg_network_decide(network, false, &err), 1);
    assert_string_equal(rg_network_cidr(network), "10.2.0.0/16");
}

static void routed_addresses_serve_without_a_common_subnet(void **state)
{
    (void) state;
    HOST("10.1.0.5/32 eth0");
    HOST("10.2.0.7/24 eth0", "192.168.9.1/24 eth1");
    HOST("10.3.0.9/32 eth0", "172.18.0.1/16 br-77");
    make();
    tell("10.1.0.5", 0);
    tell("10.2.0.7", EHOSTUNREACH);
    tell("192.168.9.1", 0);
    tell("10.3.0.9", 0);
    assert_int_equal(rg_network_decide(network, false, &err), 1);
    assert_string_equal(rg_network_cidr(network), "10.1.0.5/32,192.168.9.0/24,10.3.0.9/32");
    assert_string_equal(rg_network_address(network, 1), "192.168.9.1");
}

static void no_network_names_two_hosts_the_addresses_and_the_remedy(void **state)
{
    (void) state;
    HOST("172.18.0.2/16 eth0");
    HOST("172.18.0.3/16 eth0");
    make();
    tell("172.18.0.3", EHOSTUNREACH);
    tell("172.18.0.2", ETIMEDOUT);
    assert_int_equal(rg_network_decide(network, false, &err), -EHOSTUNREACH);
    assert_int_equal(err.exit_code, 69);
    assert_non_null(strstr(err.text, "host a cannot reach host b"));
    assert_non_null(strstr(err.text, "172.18.0.3 (eth0)"));
    assert_non_null(strstr(err.text, "--network host"));
    assert_non_null(strstr(err.text, "--network-interface"));
}

static void hosts_whose_only_address_is_the_same_are_refused(void **state)
{
    (void) state;
    HOST("172.17.0.2/16 eth0", "127.0.0.1/8 lo");
    HOST("172.17.0.2/16 eth0", "127.0.0.1/8 lo");
    make();
    assert_int_equal(rg_network_decide(network, false, &err), -EHOSTUNREACH);
    assert_non_null(strstr(err.text, "172.17.0.2 on eth0"));
    rg_network_destroy(network);
    network = NULL;
    rg_strv_fini(&addresses[1]);
    assert_int_equal(rg_strv_add(&addresses[1], "127.0.0.1/8 lo"), 0);
    rg_strv_fini(&addresses[0]);
    assert_int_equal(rg_strv_add(&addresses[0], "127.0.0.1/8 lo"), 0);
    make();
    assert_int_equal(rg_network_decide(network, false, &err), -EHOSTUNREACH);
    assert_non_null(strstr(err.text, "loopback"));
}

static void two_names_of_one_machine_need_no_network(void **state)
{
    (void) state;
    HOST("10.77.0.1/24 eth0", "127.0.0.1/8 lo");
    HOST("10.77.0.1/24 eth0", "127.0.0.1/8 lo");
    hosts[1].netns = hosts[0].netns;
    make();
    assert_true(rg_network_is_one_place(network));
    assert_int_equal(rg_network_decide(network, false, &err), 1);
    assert_string_equal(rg_network_cidr(network), "");
    assert_string_equal(rg_network_address(network, 1), "127.0.0.1");
}

static void one_machine_of_two_names_beside_another_has_its_address_once(void **state)
{
    (void) state;
    HOST("10.77.0.1/24 eth0");
    HOST("10.77.0.1/24 eth0");
    HOST("10.77.0.2/24 eth0");
    hosts[1].netns = hosts[0].netns;
    make();
    tell("10.77.0.1", 0);
    tell("10.77.0.2", 0);
    assert_int_equal(rg_network_decide(network, false, &err), 1);
    assert_string_equal(rg_network_cidr(network), "10.77.0.0/24");
}

static void interface_by_name_by_network_and_by_host(void **state)
{
    (void) state;
    assert_int_equal(rg_strv_add(&wanted, "10.2.0.0/16"), 0);
    assert_int_equal(rg_strv_add(&wanted, "b=ib0"), 0);
    HOST("10.1.0.1/16 eth0", "10.2.0.1/16 eth1");
    HOST("10.1.0.2/16 eth0", "10.2.0.2/16 eth1", "10.2.9.2/16 ib0");
    make();
    tell("10.2.0.1", 0);
    tell("10.2.9.2", 0);
    assert_int_equal(rg_network_decide(network, false, &err), 1);
    assert_string_equal(rg_network_address(network, 1), "10.2.9.2");
    assert_string_equal(rg_network_interface(network, 0), "eth1");
}

static void missing_interface_is_named_with_those_that_are_there(void **state)
{
    (void) state;
    assert_int_equal(rg_strv_add(&wanted, "ib0"), 0);
    HOST("10.1.0.1/16 ib0");
    HOST("10.1.0.2/16 eth0");
    assert_int_equal(rg_network_create(hosts, nhosts, &wanted, false, &network, &err), -ENODEV);
    assert_int_equal(err.exit_code, 69);
    assert_non_null(strstr(err.text, "host b"));
    assert_non_null(strstr(err.text, "10.1.0.2/16 eth0"));
    assert_non_null(strstr(err.text, "b=NAME"));
}

static void host_that_the_job_has_not_is_named_with_those_that_it_has(void **state)
{
    (void) state;
    assert_int_equal(rg_strv_add(&wanted, "bb=eth0"), 0);
    HOST("10.1.0.1/16 eth0");
    HOST("10.1.0.2/16 eth0");
    assert_int_equal(rg_network_create(hosts, nhosts, &wanted, false, &network, &err), -ENODEV);
    assert_int_equal(err.exit_code, 69);
    assert_non_null(strstr(err.text, "bb=eth0: no host of the job has this name"));
    assert_non_null(strstr(err.text, "a, b"));
}

static void each_host_tries_the_next_and_the_first(void **state)
{
    (void) state;
    static const char *const list[] = { "10.0.0.1/24 e", "10.0.0.2/24 e", "10.0.0.3/24 e",
                                        "10.0.0.4/24 e", "10.0.0.5/24 e" };
    size_t count;

    for (int i = 0; i < 5; i++)
        HOST(list[i]);
    make();
    const struct rg_network_probe *all = rg_network_all(network, &count);
    assert_int_equal(count, 8); /* next: 5, host 0: 4, of which host e's is the same */
    for (size_t i = 0; i < count; i++)
        assert_true(all[i].to == 0 || all[i].to == all[i].from + 1);
    rg_autostrv struct rg_strv targets = RG_STRV_INIT;
    assert_int_equal(rg_network_probes(network, 1, &targets), 0);
    assert_string_equal(targets.v[0], "0000000000000009 10.0.0.3 4000");
    rg_network_destroy(network);
    assert_int_equal(rg_network_create(hosts, nhosts, &wanted, true, &network, &err), 0);
    rg_network_all(network, &count);
    assert_int_equal(count, 20);
}

static void outcomes_are_checked(void **state)
{
    (void) state;
    HOST("10.0.0.1/24 e");
    HOST("10.0.0.2/24 e");
    make();
    assert_int_equal(rg_network_probed(network, 0, 1, 0, 1), -EBADMSG);
    assert_int_equal(rg_network_probed(network, 0, 0, 0, 1), 0);
    assert_int_equal(rg_network_probed(network, 0, 0, 0, 1), -EBADMSG);
}

static void broken_addresses_are_skipped(void **state)
{
    (void) state;
    HOST("", "x", "10.0.0.1/99 e", "10.0.0.1/24", "fe80::1/64 e", "169.254.3.3/16 e",
         "10.0.0.1/24 with-a-name-that-is-much-too-long");
    HOST("10.0.0.2/24 e", "fd00::2/64 e", "fe80::2/64 e");
    make();
    size_t count;
    const struct rg_network_probe *all = rg_network_all(network, &count);
    for (size_t i = 0; i < count; i++)
        assert_true(strncmp(all[i].address, "10.0.0.", 7) == 0 ||
                    strcmp(all[i].address, "fd00::2") == 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(common_subnet_is_chosen_and_docker0_is_not),
        TEST(second_subnet_serves_when_the_first_leads_nowhere),
        TEST(failed_first_subnet_is_not_waited_for),
        TEST(routed_addresses_serve_without_a_common_subnet),
        TEST(no_network_names_two_hosts_the_addresses_and_the_remedy),
        TEST(hosts_whose_only_address_is_the_same_are_refused),
        TEST(two_names_of_one_machine_need_no_network),
        TEST(one_machine_of_two_names_beside_another_has_its_address_once),
        TEST(interface_by_name_by_network_and_by_host),
        TEST(missing_interface_is_named_with_those_that_are_there),
        TEST(host_that_the_job_has_not_is_named_with_those_that_it_has),
        TEST(each_host_tries_the_next_and_the_first),
        TEST(outcomes_are_checked),
        TEST(broken_addresses_are_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
