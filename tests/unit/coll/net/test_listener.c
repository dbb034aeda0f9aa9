/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/time.h"
#include "coll/net/handshake.h"
#include "coll/net/listener.h"
#include "coll/net/sock.h"
#include "wire/link.h"

#define PURPOSE 0x74736574u
#define MANY (RG_LISTENER_PENDING_MAX + 50)

static uint8_t *key;
static struct rg_sockaddr address;
static struct rg_listener *listener;

/* Rank 0 of MANY + 1 listens. */
static int listen_here(void **unused)
{
    struct rg_listener_options options = { .nlisten = 1, .size = MANY + 1 };
    uint16_t port;

    (void) unused;
    options.key = key = rg_key_hold(NULL);
    memset(key, 7, RG_KEY_NBYTES);
    rg_sock_parse("127.0.0.1:0", &address);
    if (rg_sock_listen_tcp(&address, &options.listen_fds[0], &port) < 0)
        return -1;
    rg_sock_set_port(&address, port);
    return rg_listener_create(&options, &listener);
}

static int end_listening(void **unused)
{
    (void) unused;
    rg_listener_destroy(listener);
    rg_key_drop(key);
    return 0;
}

static int dial(void)
{
    int fd = -1;

    assert_int_equal(rg_sock_connect_tcp(NULL, &address, &fd), 0);
    return fd;
}

static void begin(struct rg_handshake *handshake, int rank)
{
    assert_int_equal(rg_handshake_dial(handshake, dial(), key, PURPOSE, rank, 0), 0);
    assert_int_equal(rg_handshake_step(handshake), 0);
}

/* Each rank dials once, before the listener looks; none is turned away. */
static void more_than_may_shake_hands_at_a_time_all_get_in(void **unused)
{
    static struct rg_handshake handshakes[MANY];
    uint64_t deadline_ns = rg_now_ns() + unit_limit_s(20) * RG_NS_PER_S;
    int nleft = MANY;

    (void) unused;
    for (int i = 0; i < MANY; i++)
        begin(&handshakes[i], i + 1);
    while (nleft > 0) {
        assert_true(rg_now_ns() < deadline_ns);
        rg_listener_progress(listener);
        nleft = 0;
        for (int i = 0; i < MANY; i++) {
            int r = rg_handshake_step(&handshakes[i]);

            assert_in_range(r, 0, 1);
            nleft += r == 0;
        }
    }
    for (int i = 0; i < MANY; i++) {
        int fd = rg_listener_claim(listener, PURPOSE, i + 1);

        assert_true(fd >= 0);
        close(fd);
        close(handshakes[i].fd);
        rg_handshake_fini(&handshakes[i]);
    }
}

/* As many as there is room for say nothing: the next one gets in all the same, long before they are
 * dropped as silent, and meanwhile nobody turns in circles. */
static void who_says_nothing_keeps_nobody_out(void **unused)
{
    int silent[RG_LISTENER_PENDING_MAX], fds[RG_LISTENER_WAIT_FDS_MAX], nwakes = 0, fd = -1;
    unsigned events[RG_LISTENER_WAIT_FDS_MAX];
    struct rg_handshake handshake;
    uint64_t from_ns = rg_now_ns();

    (void) unused;
    for (int i = 0; i < RG_LISTENER_PENDING_MAX; i++)
        silent[i] = dial();
    while (rg_listener_wait_fds(listener, fds, events, RG_LISTENER_WAIT_FDS_MAX) <
           RG_LISTENER_PENDING_MAX)
        rg_listener_progress(listener);
    begin(&handshake, 1);
    for (; fd < 0; nwakes++) {
        struct pollfd pfds[RG_LISTENER_WAIT_FDS_MAX];
        int n = rg_listener_wait_fds(listener, fds, events, RG_LISTENER_WAIT_FDS_MAX);

        for (int i = 0; i < n; i++)
            pfds[i] = (struct pollfd) { fds[i], POLLIN, 0 };
        assert_true(rg_now_ns() < from_ns + RG_LISTENER_HANDSHAKE_MS * RG_NS_PER_MS / 2);
        poll(pfds, (nfds_t) n, 50);
        rg_listener_progress(listener);
        assert_in_range(rg_handshake_step(&handshake), 0, 1);
        fd = rg_listener_claim(listener, PURPOSE, 1);
    }
    assert_true(nwakes < 200);
    close(fd);
    close(handshake.fd);
    rg_handshake_fini(&handshake);
    for (int i = 0; i < RG_LISTENER_PENDING_MAX; i++)
        close(silent[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(more_than_may_shake_hands_at_a_time_all_get_in,
                                        listen_here, end_listening),
        cmocka_unit_test_setup_teardown(who_says_nothing_keeps_nobody_out, listen_here,
                                        end_listening),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
