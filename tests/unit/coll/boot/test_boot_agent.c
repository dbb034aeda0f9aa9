/* SPDX-License-Identifier: Apache-2.0 */
/* A rank under an agent, which is played by the test. */
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "coll/boot/find/find.h"
#include "coll/net/sock.h"
#include "coll/ranks.h"
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
    bool fail_fence, kill_peer;
};

static int on_agent_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    static uint8_t key[RG_KEY_NBYTES] = { 42 };
    struct agent *agent = arg;
    struct rg_rankmsg_hello hello = { 0 };
    struct rg_rankmsg_fence fence = { 0 };

    if (type == RG_RANKMSG_HELLO) {
        struct rg_rankmsg_welcome welcome = { 2, 2, { key, sizeof(key) }, 0 };

        if (rg_codec_decode(rg_rankmsg_hello_fields, payload, nbytes, &hello) < 0)
            return -EBADMSG;
        agent->said_hello = hello.rank == 1 && hello.token.nbytes == RG_RANK_TOKEN_NBYTES &&
                            hello.token.data[0] == 0xab && hello.pid == (uint32_t) getpid();
        rg_codec_clear(rg_rankmsg_hello_fields, &hello);
        return rg_conn_send(&agent->conn, RG_RANKMSG_WELCOME, rg_rankmsg_welcome_fields, &welcome);
    }
    if (type == RG_RANKMSG_NOTE)
        agent->noted = true;
    if (type == RG_RANKMSG_GOODBYE)
        agent->goodbye = true;
    if (type != RG_RANKMSG_FENCE)
        return 0;
    if (rg_codec_decode(rg_rankmsg_fence_fields, payload, nbytes, &fence) < 0)
        return -EBADMSG;
    agent->generations[agent->nfences++] = fence.generation;
    if (agent->fail_fence) {
        struct rg_rankmsg_fence_failed failed = { fence.generation, ECONNRESET,
                                                  (char *) (uintptr_t) "rank 0 ended", 0 };

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
        { fence.generation, all - first, { blobs.data, first }, 0 },
        { fence.generation, 0, { blobs.data + first, all - first }, 0 },
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
    struct rg_rankmsg_peer_died died = { .rank = 0, .host = (char *) (uintptr_t) "a",
                                         .end = RG_DEATH_SIGNAL, .value = 9 };

    for (;;) {
        int fd;

        if (rg_fd_wait(agent->listen_fd, POLLIN, ranks_deadline()) < 0)
            return NULL;
        fd = accept4(agent->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        rg_conn_init(&agent->conn, fd, &agent_ops, agent, NULL);
        while (rg_conn_pump(&agent->conn, NULL) == 0) {
            if (agent->kill_peer && agent->nfences > 0) {
                agent->kill_peer = false;
                rg_conn_send(&agent->conn, RG_RANKMSG_PEER_DIED, rg_rankmsg_peer_died_fields,
                             &died);
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
        cmocka_unit_test(an_agent_that_is_not_there_is_named),
    };

    ranks_clearenv();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
