/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/time.h"
#include "coll/links/links.h"
#include "coll/net/listener.h"
#include "coll/net/sock.h"
#include "coll/team/team.h"

#define PURPOSE 0x74736574u /* "test" */

enum { LOW, HIGH, NRANKS, NSOCKETS = 3 };

/* Two ranks in one process: the lower one dials, the higher one listens. */
static struct rg_team teams[NRANKS];
static struct rg_team_peer peers[NRANKS] = { { .host = "a" }, { .host = "b" } };
static char address[RG_SOCK_ADDRESS_MAX];
static char *addresses[NRANKS] = { address, address };
static uint8_t *keys[NRANKS];
static struct rg_links links[NRANKS];
static struct rg_socket sockets[NRANKS][NSOCKETS];

static int set_up(void **unused)
{
    struct rg_listener_options options = { .nlisten = 1, .rank = HIGH, .size = NRANKS };
    struct rg_sockaddr any;
    uint16_t port;

    (void) unused;
    for (int rank = 0; rank < NRANKS; rank++) {
        keys[rank] = rg_key_hold(NULL);
        memset(keys[rank], 7, RG_KEY_NBYTES);
        teams[rank] = (struct rg_team){ .rank = rank, .size = NRANKS, .nrails = 1, .peers = peers,
                                        .data_key = keys[rank], .addresses = addresses };
        links[rank] = (struct rg_links){ .team = &teams[rank], .purpose = PURPOSE,
                                         .ndials_max = 3 };
        for (int i = 0; i < NSOCKETS; i++)
            sockets[rank][i] = (struct rg_socket) RG_SOCKET_INIT;
    }
    rg_sock_parse("127.0.0.1:0", &any);
    if (rg_sock_listen_tcp(&any, &options.listen_fds[0], &port) < 0)
        return -1;
    rg_sock_set_port(&any, port);
    rg_sock_format(&any, address);
    options.key = keys[HIGH];
    return rg_listener_create(&options, &teams[HIGH].listener);
}

static int tear_down(void **unused)
{
    (void) unused;
    rg_listener_destroy(teams[HIGH].listener);
    for (int rank = 0; rank < NRANKS; rank++) {
        rg_key_drop(keys[rank]);
        for (int i = 0; i < NSOCKETS; i++)
            rg_links_close(&sockets[rank][i]);
    }
    return 0;
}

static int connect_some(int rank, int from, int end)
{
    bool moved = false;

    return rg_links_connect(&links[rank], !rank, sockets[rank], from, end, &moved);
}

/* A listener that nobody looks after: whoever it let in closes the connection in the middle of the
 * handshake. */
static void hang_up_on(int listen_fd)
{
    int fd;

    while ((fd = accept(listen_fd, NULL, NULL)) < 0)
        assert_int_equal(errno, EAGAIN);
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

static int listen_instead(void)
{
    struct rg_sockaddr any;
    uint16_t port;
    int fd = -1;

    rg_sock_parse("127.0.0.1:0", &any);
    assert_int_equal(rg_sock_listen_tcp(&any, &fd, &port), 0);
    rg_sock_set_port(&any, port);
    rg_sock_format(&any, address);
    return fd;
}

/* A port that nobody listens at, and nobody else gets. */
static int refuse_instead(void)
{
    struct rg_sockaddr any;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    rg_sock_parse("127.0.0.1:0", &any);
    assert_int_equal(bind(fd, &any.sa, any.nbytes), 0);
    assert_int_equal(getsockname(fd, &any.sa, &any.nbytes), 0);
    rg_sock_format(&any, address);
    return fd;
}

/* Until it is decided. */
static int dial(bool *moved)
{
    int r = 0;

    *moved = false;
    while (r == 0 && !*moved)
        r = rg_links_dial(&links[LOW], HIGH, 0, &sockets[LOW][0], moved);
    return r;
}

/* ------------------------------------------------------------ tests */

static void the_lower_rank_dials_and_the_higher_one_claims(void **unused)
{
    int r[NRANKS] = { 0, 0 };
    char byte = 0;

    (void) unused;
    assert_int_equal(connect_some(HIGH, 0, NSOCKETS), 0);
    assert_true(sockets[HIGH][0].awaited);
    while (r[LOW] == 0 || r[HIGH] == 0)
        for (int rank = 0; rank < NRANKS; rank++)
            r[rank] = connect_some(rank, 0, NSOCKETS);
    assert_int_equal(r[LOW], 1);
    assert_int_equal(r[HIGH], 1);
    for (int i = 0; i < NSOCKETS; i++) {
        assert_false(sockets[HIGH][i].awaited);
        assert_int_equal(send(sockets[LOW][i].fd, &(char){ (char) ('0' + i) }, 1, 0), 1);
        while (recv(sockets[HIGH][i].fd, &byte, 1, 0) < 0)
            assert_true(errno == EAGAIN);
        assert_int_equal(byte, '0' + i);
    }
}

static void a_socket_that_is_taken_is_the_callers(void **unused)
{
    int fd;

    (void) unused;
    while (connect_some(LOW, 0, 1) == 0)
        connect_some(HIGH, 0, 1);
    fd = rg_links_take(&sockets[LOW][0]);
    assert_true(fd >= 0);
    assert_int_equal(sockets[LOW][0].state, RG_SOCKET_NONE);
    rg_links_close(&sockets[LOW][0]);
    assert_int_equal(close(fd), 0);
}

static void who_is_hung_up_on_dials_again_so_often(void **unused)
{
    int fd = listen_instead(), r = 0;
    bool moved;

    (void) unused;
    for (int i = 0; i < links[LOW].ndials_max; i++) {
        assert_int_equal(r, 0);
        assert_int_equal(rg_links_dial(&links[LOW], HIGH, 0, &sockets[LOW][0], &moved), 0);
        assert_true(rg_links_events(&sockets[LOW][0]) & (EPOLLIN | EPOLLOUT));
        hang_up_on(fd);
        r = dial(&moved);
    }
    assert_true(r == -EPIPE || r == -ECONNRESET);
    assert_int_equal(sockets[LOW][0].cause, r);
    assert_int_equal(sockets[LOW][0].fd, -1);
    close(fd);
}

static void a_refusal_is_the_end_unless_it_may_be_early(void **unused)
{
    int fd = refuse_instead();
    bool moved;

    (void) unused;
    assert_int_equal(dial(&moved), -ECONNREFUSED);
    links[LOW].takes_refusals = true;
    links[LOW].ndials_max = 0;
    links[LOW].pause_ms = 3600 * 1000;
    assert_int_equal(dial(&moved), 0);
    assert_int_equal(sockets[LOW][0].cause, -ECONNREFUSED);
    assert_true(sockets[LOW][0].again_ns > rg_now_ns());
    moved = false;
    assert_int_equal(rg_links_dial(&links[LOW], HIGH, 0, &sockets[LOW][0], &moved), 0);
    assert_false(moved);
    close(fd);
}

static void another_key_is_the_end(void **unused)
{
    struct rg_error err = RG_ERROR_INIT;
    int r;

    (void) unused;
    memset(keys[LOW], 8, RG_KEY_NBYTES);
    while ((r = connect_some(LOW, 0, 1)) == 0)
        assert_true(connect_some(HIGH, 0, 1) == 0);
    assert_int_equal(r, -EACCES);
    assert_int_equal(rg_links_tell(&teams[LOW], HIGH, r, &err), -EACCES);
    assert_string_equal(err.text, "rank 1 on b has another key");
}

static void who_has_no_address_cannot_be_dialled(void **unused)
{
    struct rg_error err = RG_ERROR_INIT;

    (void) unused;
    teams[LOW].addresses = NULL;
    assert_int_equal(connect_some(LOW, 0, 1), -EDESTADDRREQ);
    assert_int_equal(rg_links_tell(&teams[LOW], HIGH, -EDESTADDRREQ, &err), -EINVAL);
    assert_string_equal(err.text, "rank 1 has no address to connect to");
    assert_int_equal(rg_links_tell(&teams[LOW], HIGH, -EPIPE, &err), -ECONNRESET);
    assert_string_equal(err.text, "the connection to rank 1 on b is lost: it was closed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_lower_rank_dials_and_the_higher_one_claims, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_socket_that_is_taken_is_the_callers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_hung_up_on_dials_again_so_often, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_is_the_end_unless_it_may_be_early, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(another_key_is_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_no_address_cannot_be_dialled, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
