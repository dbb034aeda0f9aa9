/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/host/listener.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/start/dial.h"
#include "base/fd.h"
#include "base/str.h"
#include "unit.h"
#include "wire/link.h"

struct caller {
    char address[32];
    const char *place;
    uint8_t key[RG_KEY_NBYTES];
    int result;
};

static struct {
    struct rg_loop *loop; /* to be stopped then */
    int nlinked;
    char last[32];
} seen;

static void on_linked(void *arg, const char *place, int take_fd)
{
    (void) arg;
    seen.nlinked++;
    snprintf(seen.last, sizeof(seen.last), "%s", place);
    close(take_fd);
    if (seen.loop)
        rg_loop_stop(seen.loop);
}

static void *call(void *arg)
{
    struct caller *caller = arg;

    caller->result = rg_agent_dial(caller->address, caller->place, caller->key, NULL);
    if (caller->result >= 0) {
        char byte;
        ssize_t ignored = read(caller->result, &byte, 1); /* the other side closes first */
        (void) ignored;
        close(caller->result);
    }
    return NULL;
}

static void stop(void *arg)
{
    rg_loop_stop(arg);
}

/* One call of an agent, while the loop runs for a while; its outcome. The listener is then another
 * one, at the same port. */
static int try_to_call(struct rg_listener **listener, struct rg_listener_options *o,
                       const char *place, const uint8_t *key, unsigned ms)
{
    struct caller caller = { .place = place };
    struct rg_timer timer = { 0 };
    pthread_t thread;

    snprintf(caller.address, sizeof(caller.address), "127.0.0.1:%d", rg_listener_port(*listener));
    memcpy(caller.key, key, sizeof(caller.key));
    pthread_create(&thread, NULL, call, &caller);
    rg_timer_start(&timer, o->loop, ms, 0, stop, o->loop);
    rg_loop_run(o->loop);
    rg_timer_stop(&timer);
    /* A caller that is not let in tries again: the listener must be shut for it to give up. */
    rg_listener_close(*listener);
    pthread_join(thread, NULL);
    assert_int_equal(rg_listener_open(o, listener, NULL), 0);
    return caller.result;
}

static void only_agents_that_have_the_key_get_in(void **state)
{
    static const uint8_t key[RG_KEY_NBYTES] = { 1 }, other[RG_KEY_NBYTES] = { 2 };
    struct rg_listener_options o = { .key = key, .on_linked = on_linked };
    struct rg_listener *listener, *second;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(rg_loop_create(&o.loop), 0);
    assert_int_equal(rg_listener_open(&o, &listener, NULL), 0);
    /* In a range of one port, which the kernel keeps for a minute after each caller. */
    o.ports.first = o.ports.last = rg_listener_port(listener);
    o.only = true;
    assert_true(rg_listener_open(&o, &second, &err) < 0);
    assert_contains(err.text, "--port-range");
    assert_int_equal(err.exit_code, 69);
    rg_listener_close(listener);
    assert_int_equal(rg_listener_open(&o, &listener, NULL), 0);
    assert_true(try_to_call(&listener, &o, "node2", key, 1000) >= 0);
    assert_int_equal(seen.nlinked, 1);
    assert_string_equal(seen.last, "node2");
    assert_true(try_to_call(&listener, &o, "node1", other, 500) < 0);
    assert_int_equal(seen.nlinked, 1);
    assert_true(try_to_call(&listener, &o, "node1", key, 1000) >= 0);
    assert_int_equal(seen.nlinked, 2);
    assert_string_equal(seen.last, "node1");
    rg_listener_close(listener);
    rg_loop_destroy(o.loop);
}

#define STRANGERS 600

/* One that says nothing. */
static int stand_at(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    connect(fd, (struct sockaddr *) &address, sizeof(address));
    return fd;
}

static void a_crowd_that_says_nothing_keeps_no_agent_out(void **state)
{
    static const uint8_t key[RG_KEY_NBYTES] = { 1 };
    struct rg_listener_options o = { .key = key, .on_linked = on_linked };
    struct rg_listener *listener;
    int fds[STRANGERS];

    (void) state;
    seen.nlinked = 0;
    assert_int_equal(rg_loop_create(&o.loop), 0);
    seen.loop = o.loop;
    assert_int_equal(rg_listener_open(&o, &listener, NULL), 0);
    for (int i = 0; i < STRANGERS; i++)
        fds[i] = stand_at(rg_listener_port(listener));
    /* If each were waited for as long as when nobody else comes, its turn came after 20 s. */
    assert_true(try_to_call(&listener, &o, "node1", key, 12000) >= 0);
    assert_int_equal(seen.nlinked, 1);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    seen.loop = NULL;
    rg_listener_close(listener);
    rg_loop_destroy(o.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_agents_that_have_the_key_get_in),
        cmocka_unit_test(a_crowd_that_says_nothing_keeps_no_agent_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
