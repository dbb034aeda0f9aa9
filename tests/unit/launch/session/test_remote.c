/* SPDX-License-Identifier: Apache-2.0 */
/* How the session routes remote commands: which host is meant, and what agents may say of them. */
#include "base/fd.h"
#include "launch/session/remote/remote.h"
#include "unit.h"

#define NHOSTS 4

struct world {
    struct rg_loop *loop;
    struct rg_job job;
    struct rg_plan plan;
    struct rg_plan_host planned[NHOSTS];
    struct session_host hosts[NHOSTS];
    struct rg_session session;
    int peers[NHOSTS];
};

static void no_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    (void) arg, (void) type, (void) payload, (void) nbytes;
}

static void no_close(void *arg, const struct rg_error *err)
{
    (void) arg, (void) err;
}

/* A link whose other end never answers: what is sent waits in it. */
static void connect_host(struct world *w, int i)
{
    static const uint8_t key[RG_KEY_NBYTES];
    int fds[2];

    assert_int_equal(rg_socketpair(fds), 0);
    w->peers[i] = fds[1];
    struct rg_channel_options options = {
        .loop = w->loop, .read_fd = fds[0], .write_fd = fds[0],
        .link = { .key = key, .job_id = "j", .role = "agent", .on_frame = no_frame },
        .on_close = no_close,
    };
    assert_int_equal(rg_channel_create(&options, &w->hosts[i].channel), 0);
}

static int set_up(void **state)
{
    static const char *const names[NHOSTS] = { "localhost", "node2", "node3.example.org",
                                               "10.0.0.4" };
    static const char *const hostnames[NHOSTS] = { "head.cluster", "node2", "n3", "n4.cluster" };
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    assert_int_equal(rg_loop_create(&w->loop), 0);
    w->plan.hosts = w->planned;
    w->plan.nhosts = w->plan.room_hosts = NHOSTS;
    w->session.o.plan = &w->plan;
    w->session.o.job = &w->job;
    w->session.hosts = w->hosts;
    w->session.state = STATE_RUNNING;
    assert_int_equal(session_part_create(&w->session, &session_engine_part), 0);
    assert_int_equal(session_part_create(&w->session, &session_remotes_part), 0);
    for (int i = 0; i < NHOSTS; i++) {
        struct session_host *host = &w->hosts[i];
        w->planned[i].name = (char *) names[i];
        host->session = &w->session;
        host->index = i;
        host->state = HOST_READY;
        host->hello.hostname = strdup(hostnames[i]);
        rg_strv_addf(&host->hello.addresses, "10.0.0.%d/24 eth0", i + 1);
        rg_strv_addf(&host->hello.addresses, "fe80::%d/64 eth0", i + 1);
        rg_strv_add(&host->hello.addresses, "172.17.0.1/16 docker0");
        connect_host(w, i);
    }
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    session_part_destroy(&w->session, &session_remotes_part);
    session_part_destroy(&w->session, &session_engine_part);
    for (int i = 0; i < NHOSTS; i++) {
        rg_channel_destroy(w->hosts[i].channel);
        rg_strv_fini(&w->hosts[i].hello.addresses);
        free(w->hosts[i].hello.hostname);
        close(w->peers[i]);
    }
    rg_loop_destroy(w->loop);
    free(w);
    return 0;
}

/* --- names ------------------------------------------------------------------------------------ */

static void hosts_are_found_by_all_their_names(void **state)
{
    static const struct {
        const char *name;
        int from, found; /* -1: none */
    } cases[] = {
        { "localhost", 1, 0 },       /* a name of the plan before all else */
        { "127.0.0.1", 1, 1 },       /* else the one who asks */
        { "::1", 2, 2 },
        { "node2", 0, 1 },
        { "NODE2", 0, 1 },
        { "node2.example.org", 0, 1 },
        { "node3", 0, 2 },
        { "node3.example.org", 2, 2 },
        { "node3.elsewhere.org", 0, -1 },
        { "head", 3, 0 },
        { "head.cluster", 3, 0 },
        { "n3", 0, 2 },
        { "n4", 0, 3 },
        { "10.0.0.4", 0, 3 },
        { "10.0.0.3", 0, 2 },
        { "10.0.0.33", 0, -1 },
        { "10", 0, -1 },             /* no short form of an address */
        { "10.0.0", 0, -1 },
        { "fe80::2", 0, 1 },
        { "fe80::2%eth0", 0, 1 },
        { "FE80::2", 0, 1 },
        { "172.17.0.1", 2, 2 },      /* everybody's: the one who asks */
        { "reigen-host-0", 3, 0 },
        { "reigen-host-3", 0, 3 },
        { "reigen-host-4", 0, -1 },
        { "", 0, -1 },
        { ".", 0, -1 },
        { "%", 0, -1 },
        { "node", 0, -1 },
    };
    struct world *w = *state;

    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct session_host *found = session_find_host(&w->hosts[cases[i].from], cases[i].name);
        if ((found ? found->index : -1) != cases[i].found)
            fail_msg("%s from %d: %d", cases[i].name, cases[i].from, found ? found->index : -1);
    }
}

static void an_address_of_several_others_leads_nowhere(void **state)
{
    struct world *w = *state;

    free(rg_steal_ptr(&w->hosts[0].hello.addresses.v[2]));
    w->hosts[0].hello.addresses.count = 2;
    assert_null(session_find_host(&w->hosts[0], "172.17.0.1"));
}

/* --- what agents may say ---------------------------------------------------------------------- */

static int open_remote(struct session_host *from, uint32_t id, const char *host)
{
    union rg_msg msg = { .remote_open = { id, (char *) host, (char *) "true" } };

    return session_on_remote(from, RG_MSG_REMOTE_OPEN, &msg);
}

static int data(struct session_host *from, uint32_t id, uint8_t stream, size_t nbytes)
{
    static uint8_t bytes[RG_MSG_REMOTE_WINDOW + 1];
    union rg_msg msg = { .remote_data = { id, stream, { bytes, nbytes } } };

    return session_on_remote(from, RG_MSG_REMOTE_DATA, &msg);
}

static int credit(struct session_host *from, uint32_t id, uint8_t stream, uint32_t nbytes)
{
    union rg_msg msg = { .remote_credit = { id, stream, nbytes } };

    return session_on_remote(from, RG_MSG_REMOTE_CREDIT, &msg);
}

static int ends(struct session_host *from, uint32_t id, int status)
{
    union rg_msg msg = { .remote_exit = { id, status, NULL } };

    return session_on_remote(from, RG_MSG_REMOTE_EXIT, &msg);
}

static int closes(struct session_host *from, uint32_t id)
{
    union rg_msg msg = { .remote_id = { id } };

    return session_on_remote(from, RG_MSG_REMOTE_CLOSE, &msg);
}

static void windows_are_kept_to_in_both_directions(void **state)
{
    struct world *w = *state;
    struct session_host *client = &w->hosts[0], *target = &w->hosts[1];

    assert_int_equal(open_remote(client, 5, "node2"), 0);
    assert_int_equal(data(client, 5, 0, 1), -EBADMSG); /* it does not run yet */
    assert_int_equal(credit(target, 0, 0, RG_MSG_REMOTE_WINDOW + 1), -EBADMSG);
    assert_int_equal(credit(target, 0, 0, RG_MSG_REMOTE_WINDOW), 0);
    assert_int_equal(credit(target, 0, 0, 1), -EBADMSG);
    assert_int_equal(data(client, 5, 0, RG_MSG_REMOTE_WINDOW), 0);
    assert_int_equal(data(client, 5, 0, 1), -EBADMSG);
    for (uint8_t stream = 1; stream <= 2; stream++) {
        assert_int_equal(data(target, 0, stream, RG_MSG_REMOTE_WINDOW), 0);
        assert_int_equal(data(target, 0, stream, 1), -EBADMSG);
        assert_int_equal(credit(client, 5, stream, 10), 0);
        assert_int_equal(data(target, 0, stream, 10), 0);
        assert_int_equal(credit(client, 5, stream, RG_MSG_REMOTE_WINDOW + 1), -EBADMSG);
    }
    assert_int_equal(data(client, 5, 3, 0), -EBADMSG);
    assert_int_equal(credit(target, 0, 3, 0), -EBADMSG);
    assert_int_equal(ends(target, 0, 0), 0);
}

static void only_the_two_hosts_have_a_say(void **state)
{
    struct world *w = *state;

    assert_int_equal(open_remote(&w->hosts[0], 0, "node2"), 0);
    assert_int_equal(open_remote(&w->hosts[0], 0, "node2"), -EBADMSG); /* taken */
    assert_int_equal(open_remote(&w->hosts[0], RG_MSG_REMOTES_MAX, "node2"), -EBADMSG);
    assert_int_equal(ends(&w->hosts[2], 0, 0), -EBADMSG);
    assert_int_equal(ends(&w->hosts[0], 0, 0), -EBADMSG);
    assert_int_equal(ends(&w->hosts[1], 77, 0), -EBADMSG);
    assert_int_equal(data(&w->hosts[2], 0, 1, 5), 0);  /* nothing of its: let go */
    assert_int_equal(closes(&w->hosts[2], 0), 0);
    assert_int_equal(ends(&w->hosts[1], 0, 0), 0);
    assert_int_equal(data(&w->hosts[0], 0, 0, 5), 0);  /* crossed the end */
    assert_int_equal(credit(&w->hosts[0], 0, 1, 5), 0);
    assert_int_equal(closes(&w->hosts[0], 0), 0);
    assert_int_equal(open_remote(&w->hosts[0], 0, "node2"), 0);
}

static void a_number_is_free_after_the_last_word(void **state)
{
    struct world *w = *state;

    assert_int_equal(open_remote(&w->hosts[0], 0, "node2"), 0);
    assert_int_equal(closes(&w->hosts[0], 0), 0);
    assert_int_equal(open_remote(&w->hosts[0], 0, "node3"), 0); /* ENDED was sent */
    assert_int_equal(data(&w->hosts[1], 0, 1, 100), 0);          /* for nobody */
    assert_int_equal(ends(&w->hosts[2], 0, 0), -EBADMSG);        /* it is number 1 there */
    assert_int_equal(ends(&w->hosts[2], 1, 0), 0);
    assert_int_equal(ends(&w->hosts[1], 0, 9), 0);
    assert_int_equal(ends(&w->hosts[1], 0, 0), -EBADMSG);
}

static void there_is_a_limit(void **state)
{
    struct world *w = *state;

    for (uint32_t i = 0; i < RG_MSG_REMOTES_MAX; i++)
        assert_int_equal(open_remote(&w->hosts[0], i, "node2"), 0);
    assert_int_equal(open_remote(&w->hosts[2], 0, "node2"), 0); /* refused, politely */
    assert_int_equal(data(&w->hosts[2], 0, 0, 1), 0);
    assert_int_equal(ends(&w->hosts[1], 4000, 0), 0);
    assert_int_equal(open_remote(&w->hosts[2], 0, "node2"), 0);
    assert_int_equal(data(&w->hosts[2], 0, 0, 1), -EBADMSG);    /* now there is one */
}

static void a_lost_host_takes_its_commands_and_clients_along(void **state)
{
    struct world *w = *state;

    assert_int_equal(open_remote(&w->hosts[0], 0, "node2"), 0);
    assert_int_equal(open_remote(&w->hosts[0], 1, "node3"), 0);
    assert_int_equal(open_remote(&w->hosts[2], 0, "node2"), 0);
    assert_int_equal(open_remote(&w->hosts[2], 1, "node3"), 0); /* itself */
    w->hosts[2].state = HOST_LOST;
    session_remote_host_gone(&w->hosts[2]);
    assert_int_equal(ends(&w->hosts[2], 1, 0), -EBADMSG);
    assert_int_equal(open_remote(&w->hosts[0], 1, "node2"), 0); /* ENDED was sent for it */
    assert_int_equal(open_remote(&w->hosts[0], 2, "node3"), 0); /* refused */
    assert_int_equal(data(&w->hosts[0], 2, 0, 1), 0);
    assert_int_equal(ends(&w->hosts[1], 0, 0), 0);
    assert_int_equal(ends(&w->hosts[1], 2, 9), 0); /* hung up with its client's host */
    assert_int_equal(ends(&w->hosts[1], 1, 0), 0);
    assert_int_equal(ends(&w->hosts[1], 1, 0), -EBADMSG);
}

/* --- engines' daemons ------------------------------------------------------------------------- */

static void a_daemon_is_known_by_its_name_and_other_words_are_not(void **state)
{
    static const struct {
        const char *command, *daemon, *engine; /* engine: whom to ask for its version */
    } cases[] = {
        { "orted -mca ess env", "orted", "mpirun" },
        { " PATH=/o/bin:$PATH ; /o/bin/orted -mca ess env", "orted", "/o/bin/mpirun" },
        { "echo sorted; prted --leader", "prted", "mpirun" },
        { "\"/m/bin/hydra_pmi_proxy\" --rmk user", "hydra_pmi_proxy", "/m/bin/mpiexec.hydra" },
        { "python sorted.py", NULL, NULL },
        { "echo supported imported exported", NULL, NULL },
        { "/tmp/orted.log my-orted orted_2", NULL, NULL },
        { "", NULL, NULL },
    };
    struct world *w = *state;

    for (size_t i = 0; i < rg_array_len(cases); i++) {
        const char *found = session_engine_daemon(cases[i].command);
        if (!cases[i].daemon && found)
            fail_msg("%s: %s", cases[i].command, found);
        if (!cases[i].daemon)
            continue;
        assert_non_null(found);
        assert_string_equal(found, cases[i].daemon);
        /* It forgets where the last one was. */
        session_part_destroy(&w->session, &session_engine_part);
        assert_int_equal(session_part_create(&w->session, &session_engine_part), 0);
        session_engine_started(&w->session, cases[i].command, found);
        assert_string_equal(session_engine_program(&w->session), cases[i].engine);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hosts_are_found_by_all_their_names),
        TEST(an_address_of_several_others_leads_nowhere),
        TEST(windows_are_kept_to_in_both_directions),
        TEST(only_the_two_hosts_have_a_say),
        TEST(a_number_is_free_after_the_last_word),
        TEST(there_is_a_limit),
        TEST(a_lost_host_takes_its_commands_and_clients_along),
        TEST(a_daemon_is_known_by_its_name_and_other_words_are_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
