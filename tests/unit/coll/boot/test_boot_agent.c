/* SPDX-License-Identifier: Apache-2.0 */
/* A rank under an agent, which is played by the test. */
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "coll/boot/find/find.h"
#include "coll/net/sock.h"
#include "coll/ranks.h"
#include "reigen/reigen.h"
#include "wire/conn.h"
#include "wire/rankmsg.h"

static struct rg_boots boots; /* of this process */

struct agent {
    int listen_fd;
    char name[64];
    struct rg_conn conn;
    bool said_hello, goodbye, noted;
    uint32_t generations[16];
    int nfences;
    atomic_bool fail_fence, kill_peer; /* of both threads, as the next */
    /* an elastic job's */
    bool elastic;
    atomic_bool update;
    const struct rg_rankmsg_epoch *seats; /* given one after the other, for each MEET */
    int nmeets, nknows;
    struct rg_rankmsg_meet meets[8];
    uint32_t epochs[16]; /* of fences */
};

static const uint8_t epoch_keys[2][RG_KEY_NBYTES] = { { 1 }, { 2 } };

static int tell_death(struct agent *agent)
{
    struct rg_rankmsg_peer_died died = { .rank = 0, .host = (char *) (uintptr_t) "a",
                                         .end = RG_DEATH_SIGNAL, .value = 9 };

    agent->kill_peer = false;
    return rg_conn_send(&agent->conn, RG_RANKMSG_PEER_DIED, rg_rankmsg_peer_died_fields, &died);
}

/* A rank has come to meet: it is told who it is, unless there is no seat for it yet. */
static int on_meet(struct agent *agent, const uint8_t *payload, size_t nbytes)
{
    struct rg_rankmsg_update update = { 7000, REIGEN_HOSTS_COME };
    int i = agent->nmeets++;

    if (rg_codec_decode(rg_rankmsg_meet_fields, payload, nbytes, &agent->meets[i]) < 0)
        return -EBADMSG;
    int r = rg_conn_send(&agent->conn, RG_RANKMSG_EPOCH, rg_rankmsg_epoch_fields,
                         &agent->seats[i]);

    if (r == 0 && agent->fail_fence) { /* before this rank has begun one */
        struct rg_rankmsg_fence_failed failed = { 1, ECONNRESET,
                                                  (char *) (uintptr_t) "rank 0 ended",
                                                  agent->seats[i].epoch };

        r = rg_conn_send(&agent->conn, RG_RANKMSG_FENCE_FAILED, rg_rankmsg_fence_failed_fields,
                         &failed);
    }
    if (r == 0 && agent->update)
        r = rg_conn_send(&agent->conn, RG_RANKMSG_UPDATE, rg_rankmsg_update_fields, &update);
    return r == 0 && agent->kill_peer ? tell_death(agent) : r;
}

static int on_agent_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    static uint8_t key[RG_KEY_NBYTES] = { 42 };
    struct agent *agent = arg;
    struct rg_rankmsg_hello hello = { 0 };
    struct rg_rankmsg_fence fence = { 0 };

    if (type == RG_RANKMSG_HELLO) {
        struct rg_rankmsg_welcome welcome = { 2, 2, { key, sizeof(key) }, 0 };

        if (agent->elastic)
            welcome = (struct rg_rankmsg_welcome) { .elastic = 1 };
        if (rg_codec_decode(rg_rankmsg_hello_fields, payload, nbytes, &hello) < 0)
            return -EBADMSG;
        agent->said_hello = hello.rank == (agent->elastic ? 7 : 1) &&
                            hello.token.nbytes == RG_RANK_TOKEN_NBYTES &&
                            hello.token.data[0] == 0xab && hello.pid == (uint32_t) getpid();
        rg_codec_clear(rg_rankmsg_hello_fields, &hello);
        return rg_conn_send(&agent->conn, RG_RANKMSG_WELCOME, rg_rankmsg_welcome_fields, &welcome);
    }
    if (type == RG_RANKMSG_NOTE)
        agent->noted = true;
    if (type == RG_RANKMSG_GOODBYE)
        agent->goodbye = true;
    if (type == RG_RANKMSG_ELASTIC)
        agent->nknows++;
    if (type == RG_RANKMSG_MEET)
        return on_meet(agent, payload, nbytes);
    if (type != RG_RANKMSG_FENCE)
        return 0;
    if (rg_codec_decode(rg_rankmsg_fence_fields, payload, nbytes, &fence) < 0)
        return -EBADMSG;
    agent->epochs[agent->nfences] = fence.epoch;
    agent->generations[agent->nfences++] = fence.generation;
    if (agent->fail_fence) {
        struct rg_rankmsg_fence_failed failed = { fence.generation, ECONNRESET,
                                                  (char *) (uintptr_t) "rank 0 ended",
                                                  fence.epoch };

        rg_codec_clear(rg_rankmsg_fence_fields, &fence);
        return rg_conn_send(&agent->conn, RG_RANKMSG_FENCE_FAILED, rg_rankmsg_fence_failed_fields,
                            &failed);
    }
    rg_autobuf struct rg_buf blobs = RG_BUF_INIT;

    rg_buf_put_span(&blobs, "zero", 4);
    rg_buf_put_span(&blobs, fence.blob.data, fence.blob.nbytes);
    /* Two parts, cut within a blob. */
    uint32_t all = (uint32_t) rg_buf_nbytes(&blobs), first = 6;
    struct rg_rankmsg_fence_done parts[] = {
        /* of an epoch that is over: to be dropped */
        { fence.generation, 0, { blobs.data, all }, fence.epoch + 1 },
        { fence.generation, all - first, { blobs.data, first }, fence.epoch },
        { fence.generation, 0, { blobs.data + first, all - first }, fence.epoch },
    };
    int r = 0;

    rg_codec_clear(rg_rankmsg_fence_fields, &fence);
    for (size_t i = 0; r == 0 && i < rg_array_len(parts); i++)
        r = rg_conn_send(&agent->conn, RG_RANKMSG_FENCE_DONE, rg_rankmsg_fence_done_fields,
                         &parts[i]);
    return r;
}

static size_t frame_max(void *arg, uint16_t type)
{
    (void) arg;
    (void) type;
    return RG_RANKMSG_PAYLOAD_MAX;
}

static const struct rg_conn_ops agent_ops = { on_agent_frame, frame_max, .secret = false };

/* Serves connections one after the other until its listening socket is shut down. */
static void *serve_agent(void *arg)
{
    struct agent *agent = arg;

    for (;;) {
        int fd;

        if (rg_fd_wait(agent->listen_fd, POLLIN, ranks_deadline()) < 0)
            return NULL;
        fd = accept4(agent->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        rg_conn_init(&agent->conn, fd, &agent_ops, agent, NULL);
        while (rg_conn_pump(&agent->conn, NULL) == 0) {
            if (agent->kill_peer && !agent->elastic && agent->nfences > 0) {
                tell_death(agent);
                continue;
            }
            rg_fd_wait(fd, rg_conn_events(&agent->conn), ranks_deadline());
        }
        rg_conn_fini(&agent->conn);
    }
}

static void start_agent(struct agent *agent, pthread_t *ret_thread)
{
    static int number;

    snprintf(agent->name, sizeof(agent->name), "@reigen-test-%d-%d", (int) getpid(), number++);
    assert_int_equal(rg_sock_listen_unix(agent->name, &agent->listen_fd), 0);
    ranks_setenv("REIGEN_AGENT_SOCKET", agent->name);
    ranks_setenv("REIGEN_RANK_TOKEN", "abcdef0123456789abcdef0123456789");
    ranks_setenv("REIGEN_RANK", "1");
    ranks_setenv("REIGEN_SIZE", "2");
    ranks_setenv("REIGEN_LOCAL_RANK", "1");
    assert_int_equal(pthread_create(ret_thread, NULL, serve_agent, agent), 0);
}

/* This process has place 7, and whatever its variables said of a rank is of another epoch. */
static void start_elastic_agent(struct agent *agent, const struct rg_rankmsg_epoch *seats,
                                pthread_t *ret_thread)
{
    agent->elastic = true;
    agent->seats = seats;
    start_agent(agent, ret_thread);
    ranks_setenv("REIGEN_ELASTIC", "1");
    ranks_setenv("REIGEN_PLACE", "7");
}

static void stop_agent(struct agent *agent, pthread_t thread)
{
    shutdown(agent->listen_fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(agent->listen_fd);
    ranks_clearenv();
}

static void an_agent_serves_fences_and_numbers_go_on_after_a_new_start(void **state)
{
    struct rg_config config = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct agent agent = { 0 };
    struct rg_boot *boot;
    struct rg_blob blobs[2];
    pthread_t thread;

    (void) state;
    start_agent(&agent, &thread);
    for (int start = 0; start < 2; start++) {
        assert_int_equal(rg_boot_open(&boots, &config, ranks_deadline(), &boot, &err), 0);
        assert_string_equal(rg_boot_way(boot)->name, "agent");
        assert_int_equal(rg_boot_identity(boot)->rank, 1);
        assert_int_equal(rg_boot_identity(boot)->local_rank, 1);
        assert_int_equal(rg_boot_identity(boot)->local_size, 2);
        assert_int_equal(rg_boot_identity(boot)->key[0], 42);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(rg_boot_fence(boot, "one", 3, ranks_deadline(), blobs, &err), 0);
            assert_memory_equal(blobs[0].data, "zero", 4);
            assert_memory_equal(blobs[1].data, "one", 3);
            free(blobs[0].data);
        }
        rg_boot_note(boot, 1, "hear, hear");
        rg_boot_close(boot, true);
    }
    stop_agent(&agent, thread);
    assert_true(agent.said_hello && agent.noted && agent.goodbye);
    for (uint32_t i = 1; i < 4; i++)
        assert_int_equal(agent.generations[i], agent.generations[0] + i);
}

static void an_agent_tells_of_deaths(void **state)
{
    struct rg_config config = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct agent agent = { .kill_peer = true };
    struct rg_boot *boot;
    struct rg_blob blobs[2];
    pthread_t thread;
    int rank = -1, r = 0;

    (void) state;
    start_agent(&agent, &thread);
    assert_int_equal(rg_boot_open(&boots, &config, ranks_deadline(), &boot, &err), 0);
    r = rg_boot_fence(boot, "one", 3, ranks_deadline(), blobs, &err);
    if (r == 0) {
        free(blobs[0].data);
        while ((r = rg_boot_poll(boot, &rank, &err)) == 0)
            assert_int_equal(rg_fd_wait(rg_boot_poll_fd(boot), POLLIN,
                                          ranks_deadline()), 0);
        assert_int_equal(r, 1);
        assert_int_equal(rank, 0);
    }
    assert_string_equal(err.text, "rank 0 on a: signal 9 (Killed)");
    rg_boot_close(boot, false);
    stop_agent(&agent, thread);
}

static void a_failed_fence_says_why_and_may_be_tried_again(void **state)
{
    struct rg_config config = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct agent agent = { .fail_fence = true };
    struct rg_boot *boot;
    struct rg_blob blobs[2];
    pthread_t thread;

    (void) state;
    start_agent(&agent, &thread);
    assert_int_equal(rg_boot_open(&boots, &config, ranks_deadline(), &boot, &err), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rg_boot_fence(boot, "one", 3, ranks_deadline(), blobs, &err),
                         -ECONNRESET);
        assert_string_equal(err.text, "rank 0 ended");
    }
    rg_boot_close(boot, false);
    stop_agent(&agent, thread);
    assert_int_equal(agent.generations[0], agent.generations[1]);
}

static struct rg_span key_of(int epoch)
{
    return (struct rg_span) { (uint8_t *) (uintptr_t) epoch_keys[epoch - 1], RG_KEY_NBYTES };
}

static void fence_once(struct rg_boot *boot)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_blob blobs[2];

    assert_int_equal(rg_boot_fence(boot, "one", 3, ranks_deadline(), blobs, &err), 0);
    assert_memory_equal(blobs[1].data, "one", 3);
    free(blobs[0].data);
}

/* Of boots that end before the process. */
static void forget(struct rg_boots *own)
{
    for (int i = 0; i < RG_BOOTS_MAX; i++)
        free(own->kept[i]);
}

static void each_epoch_has_its_own_numbers_key_and_fences(void **state)
{
    const struct rg_rankmsg_epoch seats[] = {
        { 1, 1, 2, 1, 2, 0, 1, 1, key_of(1) },
        { 1, 1, 2, 1, 2, 0, 1, 1, key_of(1) }, /* init and shutdown, and no word of elastic */
        { 4, 0, 2, 0, 1, 0, 2, 0, key_of(2) },
    };
    static const struct { uint32_t epoch, generation; } expected[] = { { 1, 1 }, { 1, 2 },
                                                                       { 1, 3 }, { 1, 4 },
                                                                       { 4, 1 }, { 4, 2 } };
    struct rg_boots own = { 0 };
    struct rg_config config = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct agent agent = { 0 };
    pthread_t thread;

    (void) state;
    start_elastic_agent(&agent, seats, &thread);
    for (size_t i = 0; i < rg_array_len(seats); i++) {
        const struct rg_boot_identity *identity;
        struct rg_boot *boot;

        assert_int_equal(rg_boot_open(&own, &config, ranks_deadline(), &boot, &err), 0);
        identity = rg_boot_identity(boot);
        assert_int_equal(identity->epoch, seats[i].epoch);
        assert_int_equal(identity->sync, seats[i].sync);
        assert_int_equal(identity->rank, seats[i].rank);
        assert_int_equal(identity->size, seats[i].size);
        assert_int_equal(identity->local_rank, seats[i].local_rank);
        assert_int_equal(identity->local_size, seats[i].local_size);
        assert_int_equal(identity->cross_size, seats[i].cross_size);
        assert_memory_equal(identity->key, seats[i].key.data, RG_KEY_NBYTES);
        fence_once(boot);
        fence_once(boot);
        if (i == 1)
            rg_boot_elastic(boot, false);
        rg_boot_close(boot, true);
    }
    stop_agent(&agent, thread);
    forget(&own);
    assert_true(agent.said_hello && agent.goodbye);
    assert_int_equal(agent.nknows, 2); /* and again where it meets, in case it was lost */
    assert_int_equal(agent.nmeets, 3);
    assert_int_equal(agent.meets[0].epoch, 0);
    assert_int_equal(agent.meets[1].epoch, 1);
    assert_int_equal(agent.meets[2].epoch, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(agent.meets[i].failed, 0);
    assert_int_equal(agent.nfences, rg_array_len(expected));
    for (int i = 0; i < agent.nfences; i++) {
        assert_int_equal(agent.epochs[i], expected[i].epoch);
        assert_int_equal(agent.generations[i], expected[i].generation);
    }
}

/* Of the ranks with which it was to meet one has died; and then one with which it has met. */
static void who_has_lost_an_epoch_says_so_when_it_meets_again(void **state)
{
    const struct rg_rankmsg_epoch seats[] = { { 1, 1, 2, 1, 2, 0, 1, 1, key_of(1) },
                                              { 2, 1, 2, 0, 1, 0, 1, 1, key_of(2) },
                                              { 3, 1, 2, 0, 1, 0, 1, 1, key_of(1) },
                                              { 4, 1, 2, 0, 1, 0, 1, 1, key_of(2) },
                                              { 5, 1, 2, 0, 1, 0, 1, 1, key_of(2) } };
    struct rg_boots own = { 0 };
    struct rg_config config = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct agent agent = { .fail_fence = true };
    struct rg_boot *boot;
    struct rg_blob blobs[2];
    pthread_t thread;
    int rank = -1, r;

    (void) state;
    start_elastic_agent(&agent, seats, &thread);
    assert_int_equal(rg_boot_open(&own, &config, ranks_deadline(), &boot, &err), 0);
    assert_int_equal(rg_boot_fence(boot, "one", 3, ranks_deadline(), blobs, &err), -ECONNRESET);
    rg_boot_close(boot, false);
    agent.fail_fence = false;
    agent.kill_peer = true;
    assert_int_equal(rg_boot_open(&own, &config, ranks_deadline(), &boot, &err), 0);
    while ((r = rg_boot_poll(boot, &rank, &err)) == 0)
        assert_int_equal(rg_fd_wait(rg_boot_poll_fd(boot), POLLIN, ranks_deadline()), 0);
    assert_int_equal(r, 1);
    assert_int_equal(rank, 0);
    rg_boot_close(boot, true);
    assert_int_equal(rg_boot_open(&own, &config, ranks_deadline(), &boot, &err), 0);
    rg_boot_close(boot, true);
    assert_int_equal(rg_boot_open(&own, &config, ranks_deadline(), &boot, &err), 0);
    rg_boot_elastic(boot, RG_MEET_LACKS); /* an operation has failed by something else */
    rg_boot_elastic(boot, RG_MEET_FAILED);
    rg_boot_close(boot, true);
    assert_int_equal(rg_boot_open(&own, &config, ranks_deadline(), &boot, &err), 0);
    rg_boot_close(boot, true);
    stop_agent(&agent, thread);
    forget(&own);
    static const uint32_t epochs[] = { 0, 1, 2, 3, 4 }, failed[] = { 0, 1, 1, 0, 2 };

    assert_int_equal(agent.nmeets, 5);
    for (int i = 0; i < agent.nmeets; i++) {
        assert_int_equal(agent.meets[i].epoch, epochs[i]);
        assert_int_equal(agent.meets[i].failed, failed[i]);
    }
}

static void an_update_is_of_the_present_epoch(void **state)
{
    const struct rg_rankmsg_epoch seats[] = { { 1, 1, 2, 1, 2, 0, 1, 1, key_of(1) },
                                              { 2, 1, 2, 0, 1, 0, 1, 1, key_of(2) } };
    struct rg_boots own = { 0 };
    struct rg_config config = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct agent agent = { .update = true };
    struct rg_boot *boot;
    pthread_t thread;
    int rank, result;

    (void) state;
    start_elastic_agent(&agent, seats, &thread);
    assert_int_equal(rg_boot_open(&own, &config, ranks_deadline(), &boot, &err), 0);
    while (rg_boot_update(boot, &result) == 0) {
        assert_int_equal(result, 0);
        assert_int_equal(rg_fd_wait(rg_boot_poll_fd(boot), POLLIN, ranks_deadline()), 0);
        assert_int_equal(rg_boot_poll(boot, &rank, &err), 0);
    }
    assert_int_equal(rg_boot_update(boot, &result), 7000);
    assert_int_equal(result, REIGEN_HOSTS_COME);
    rg_boot_close(boot, true);
    agent.update = false;
    assert_int_equal(rg_boot_open(&own, &config, ranks_deadline(), &boot, &err), 0);
    fence_once(boot);
    assert_int_equal(rg_boot_update(boot, &result), 0);
    rg_boot_close(boot, true);
    stop_agent(&agent, thread);
    forget(&own);
}

static void an_environment_that_does_not_fit_the_agent_is_named(void **state)
{
    struct rg_config config = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct agent agent = { 0 };
    struct rg_boot *boot;
    pthread_t thread;

    (void) state;
    start_agent(&agent, &thread);
    ranks_setenv("REIGEN_ELASTIC", "1");
    assert_int_equal(rg_boot_open(&boots, &config, ranks_deadline(), &boot, &err), -EINVAL);
    assert_contains(err.text, "REIGEN_PLACE is not");
    ranks_setenv("REIGEN_PLACE", "7");
    assert_int_equal(rg_boot_open(&boots, &config, ranks_deadline(), &boot, &err), -EINVAL);
    assert_contains(err.text, "the job is not elastic, and REIGEN_ELASTIC says otherwise");
    stop_agent(&agent, thread);
}

static void an_agent_that_is_not_there_is_named(void **state)
{
    struct rg_config config = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_boot *boot;

    (void) state;
    ranks_setenv("REIGEN_AGENT_SOCKET", "/nowhere/agent");
    ranks_setenv("REIGEN_RANK", "0");
    ranks_setenv("REIGEN_SIZE", "2");
    assert_int_equal(rg_boot_open(&boots, &config, ranks_deadline(), &boot, &err), -EINVAL);
    assert_contains(err.text, "REIGEN_RANK_TOKEN");
    ranks_setenv("REIGEN_RANK_TOKEN", "abcdef0123456789abcdef0123456789");
    assert_int_equal(rg_boot_open(&boots, &config, ranks_deadline(), &boot, &err), -ECONNREFUSED);
    assert_contains(err.text, "REIGEN_AGENT_SOCKET=/nowhere/agent");
    ranks_clearenv();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_serves_fences_and_numbers_go_on_after_a_new_start),
        cmocka_unit_test(an_agent_tells_of_deaths),
        cmocka_unit_test(a_failed_fence_says_why_and_may_be_tried_again),
        cmocka_unit_test(each_epoch_has_its_own_numbers_key_and_fences),
        cmocka_unit_test(who_has_lost_an_epoch_says_so_when_it_meets_again),
        cmocka_unit_test(an_update_is_of_the_present_epoch),
        cmocka_unit_test(an_environment_that_does_not_fit_the_agent_is_named),
        cmocka_unit_test(an_agent_that_is_not_there_is_named),
    };

    ranks_clearenv();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
