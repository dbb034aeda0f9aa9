/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "unit.h"
#include "wire/loop_link.h"

static const uint8_t key[RG_KEY_NBYTES] = { 1, 2, 3 };
static const uint8_t other_key[RG_KEY_NBYTES] = { 4 };

struct side {
    struct rg_channel *channel;
    int opened, closed, drained;
    size_t frames, nbytes;
    struct rg_error err;
    struct rg_buf got;
    size_t destroy_at; /* destroy the channel at this frame */
    size_t close_at;   /* end the loop at this frame */
    bool destroy_on_close;
};

static struct rg_loop *loop;
static struct rg_timer watchdog;

static void too_long(void *arg)
{
    (void) arg;
    fail_msg("the loop did not end in time");
}

static int make_loop(void **state)
{
    (void) state;
    signal(SIGPIPE, SIG_IGN);
    return rg_loop_create(&loop);
}

static int destroy_loop(void **state)
{
    (void) state;
    rg_loop_destroy(loop);
    return 0;
}

static void run(void)
{
    rg_timer_start(&watchdog, loop, 20000, 0, too_long, NULL);
    rg_loop_run(loop);
    rg_timer_stop(&watchdog);
}

static void on_open(void *arg)
{
    ((struct side *) arg)->opened++;
}

static void on_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct side *side = arg;

    assert_int_equal(side->opened, 1);
    assert_int_equal(side->closed, 0);
    assert_non_null(side->channel);
    side->frames++;
    side->nbytes += nbytes;
    if (type == 1)
        rg_buf_put(&side->got, payload, nbytes);
    if (side->frames == side->destroy_at) {
        rg_channel_destroy(side->channel);
        side->channel = NULL;
        rg_loop_stop(loop);
    }
    if (side->frames == side->close_at)
        rg_loop_stop(loop);
}

static void on_close(void *arg, const struct rg_error *err)
{
    struct side *side = arg;

    side->closed++;
    side->err = *err;
    if (side->destroy_on_close) {
        rg_channel_destroy(side->channel);
        side->channel = NULL;
    }
    rg_loop_stop(loop);
}

static void on_drain(void *arg)
{
    ((struct side *) arg)->drained++;
}

static void make(struct side *side, bool initiator, int read_fd, int write_fd, const uint8_t *with)
{
    struct rg_channel_options options = {
        .loop = loop, .read_fd = read_fd, .write_fd = write_fd,
        .link = { .key = with, .job_id = "j", .role = "r", .initiator = initiator,
                  .on_open = on_open, .on_frame = on_frame, .arg = side },
        .on_close = on_close, .on_drain = on_drain,
    };

    *side = (struct side) { .got = RG_BUF_INIT };
    assert_int_equal(rg_channel_create(&options, &side->channel), 0);
}

static void make_pair(struct side *a, struct side *b)
{
    int fds[2];

    assert_int_equal(rg_socketpair(fds), 0);
    make(a, true, fds[0], fds[0], key);
    make(b, false, fds[1], fds[1], key);
}

static void drop(struct side *side)
{
    rg_channel_destroy(side->channel);
    rg_buf_fini(&side->got);
}

static void stop_loop(void *arg)
{
    (void) arg;
    rg_loop_stop(loop);
}

/* What either side says meanwhile waits, and comes when the line is whole again. */
static void nothing_passes_a_cut_line(void **state)
{
    struct rg_timer later = { 0 };
    struct side a, b;

    (void) state;
    make_pair(&a, &b);
    assert_int_equal(rg_channel_send(b.channel, 1, "0", 1), 0);
    a.close_at = 1;
    run();
    rg_channel_cut(a.channel, true);
    rg_channel_cut(a.channel, true);
    assert_int_equal(rg_channel_send(a.channel, 1, "to b", 4), 0);
    assert_int_equal(rg_channel_send(b.channel, 1, "to a", 4), 0);
    rg_timer_start(&later, loop, 50, 0, stop_loop, NULL);
    rg_loop_run(loop);
    rg_timer_stop(&later);
    assert_int_equal(a.frames, 1);
    assert_int_equal(b.frames, 0);
    rg_channel_cut(a.channel, false);
    a.close_at = 2;
    run();
    while (b.frames == 0) {
        b.close_at = 1;
        run();
    }
    assert_string_equal(rg_buf_text(&a.got), "0to a");
    assert_string_equal(rg_buf_text(&b.got), "to b");
    rg_channel_cut(a.channel, true);
    drop(&a); /* with its descriptors, also now: */
    run();
    assert_int_equal(b.closed, 1);
    drop(&b);
}

static void frames_pass_over_a_socket(void **state)
{
    struct side a, b;

    (void) state;
    make_pair(&a, &b);
    assert_int_equal(rg_channel_send(a.channel, 1, "hello", 5), 0);
    assert_int_equal(rg_channel_send(b.channel, 1, "back", 4), 0);
    a.close_at = 1;
    run();
    assert_true(rg_channel_open(a.channel));
    assert_string_equal(rg_buf_text(&a.got), "back");
    assert_string_equal(rg_buf_text(&b.got), "hello");
    drop(&a);
    drop(&b);
    rg_channel_destroy(NULL);
}

static void frames_pass_over_two_pipes(void **state)
{
    struct side a, b;
    int there[2], back[2];

    (void) state;
    assert_int_equal(rg_pipe(there), 0);
    assert_int_equal(rg_pipe(back), 0);
    make(&a, true, back[0], there[1], key);
    make(&b, false, there[0], back[1], key);
    assert_int_equal(rg_channel_send(a.channel, 1, "hello", 5), 0);
    b.close_at = 1;
    run();
    assert_string_equal(rg_buf_text(&b.got), "hello");
    drop(&a);
    b.destroy_on_close = true;
    run();
    assert_int_equal(b.closed, 1);
    assert_int_equal(b.err.errnum, 0);
    drop(&b);
}

/* The last frames before a close must arrive, then the close, once. */
static void nothing_is_lost_before_a_close(void **state)
{
    struct side a, b;
    char bytes[1000] = "";

    (void) state;
    make_pair(&a, &b);
    a.close_at = 1;
    assert_int_equal(rg_channel_send(b.channel, 2, "", 0), 0);
    run();
    for (int i = 0; i < 50; i++)
        assert_int_equal(rg_channel_send(a.channel, 2, bytes, sizeof(bytes)), 0);
    drop(&a);
    run();
    assert_int_equal(b.frames, 50);
    assert_int_equal(b.closed, 1);
    assert_int_equal(b.err.errnum, 0);
    assert_int_equal(rg_channel_send(b.channel, 2, "", 0), -ENOTCONN);
    assert_false(rg_channel_open(b.channel));
    drop(&b);
}

static void wrong_key_ends_both_sides(void **state)
{
    struct side a, b;
    int fds[2];

    (void) state;
    assert_int_equal(rg_socketpair(fds), 0);
    make(&a, true, fds[0], fds[0], other_key);
    make(&b, false, fds[1], fds[1], key);
    b.destroy_on_close = true;
    run();
    assert_int_equal(b.closed, 1);
    assert_int_equal(b.err.errnum, EBADMSG);
    assert_contains(b.err.text, "wrong key");
    if (!a.closed)
        run();
    assert_int_equal(a.closed, 1);
    assert_int_equal(a.opened + b.opened, 0);
    assert_int_equal(a.err.errnum, 0);
    assert_contains(a.err.text, "before it was open");
    drop(&a);
    drop(&b);
}

static void garbage_and_truncation_end_the_channel(void **state)
{
    static const char *const texts[] = { "GET / HTTP/1.1\r\n\r\n", "reig" };
    struct side b;
    int fds[2];

    (void) state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rg_socketpair(fds), 0);
        make(&b, false, fds[1], fds[1], key);
        assert_int_equal(rg_write_all(fds[0], texts[i], strlen(texts[i])), 0);
        close(fds[0]);
        run();
        assert_int_equal(b.closed, 1);
        assert_int_equal(b.err.errnum, i == 0 ? EBADMSG : EPIPE);
        assert_contains(b.err.text, i == 0 ? "GET / HTTP" : "middle of a message");
        drop(&b);
    }
}

static void channel_may_be_destroyed_in_a_frame(void **state)
{
    struct side a, b;

    (void) state;
    make_pair(&a, &b);
    b.destroy_at = 3;
    for (int i = 0; i < 10; i++)
        assert_int_equal(rg_channel_send(a.channel, 1, "x", 1), 0);
    run();
    assert_int_equal(b.frames, 3);
    assert_int_equal(b.closed, 0);
    run(); /* the other side sees it go */
    assert_int_equal(a.closed, 1);
    drop(&a);
    drop(&b);
}

static struct rg_timer pump_timer;
static struct side *pump_from;
static size_t pump_left;

/* A producer that minds the backlog. */
static void pump(void *arg)
{
    static const uint8_t bytes[100000];

    (void) arg;
    while (pump_left > 0 && !rg_channel_congested(pump_from->channel)) {
        assert_int_equal(rg_channel_send(pump_from->channel, 2, bytes, sizeof(bytes)), 0);
        pump_left--;
    }
    if (pump_left == 0)
        rg_timer_stop(&pump_timer);
}

static void backlog_stays_bounded_and_drains(void **state)
{
    struct side a, b;

    (void) state;
    make_pair(&a, &b);
    pump_from = &a;
    pump_left = 300;
    b.close_at = 300;
    rg_timer_start(&pump_timer, loop, 1, 1, pump, NULL);
    run();
    assert_int_equal(b.nbytes, 300 * 100000);
    assert_true(a.drained > 0);
    assert_int_equal(b.drained, 0);
    drop(&a);
    drop(&b);
}

/* A peer that reads no more is reported from the loop, not out of the call that noticed. */
static void failed_write_closes_from_the_loop(void **state)
{
    struct side a, b;
    int there[2], back[2];

    (void) state;
    assert_int_equal(rg_pipe(there), 0);
    assert_int_equal(rg_pipe(back), 0);
    make(&a, true, back[0], there[1], key);
    make(&b, false, there[0], back[1], key);
    a.close_at = 1;
    assert_int_equal(rg_channel_send(b.channel, 2, "", 0), 0);
    run();
    int keep = fcntl(back[1], F_DUPFD_CLOEXEC, 0); /* so that no end of file comes */

    drop(&b);
    assert_int_equal(rg_channel_send(a.channel, 2, "x", 1), 0);
    assert_int_equal(a.closed, 0);
    assert_int_equal(rg_channel_send(a.channel, 2, "x", 1), -ENOTCONN);
    a.destroy_on_close = true;
    run();
    assert_int_equal(a.closed, 1);
    assert_int_equal(a.err.errnum, EPIPE);
    close(keep);
    drop(&a);
}

/* What the peer said before it went is read, though our own write has failed. */
static void last_words_are_heard_after_a_failed_write(void **state)
{
    struct side a, b;

    (void) state;
    make_pair(&a, &b);
    a.close_at = 1;
    assert_int_equal(rg_channel_send(b.channel, 2, "", 0), 0);
    run();
    assert_int_equal(rg_channel_send(b.channel, 1, "last words", 10), 0);
    drop(&b);
    assert_int_equal(rg_channel_send(a.channel, 2, "x", 1), 0);
    run();
    assert_string_equal(rg_buf_text(&a.got), "last words");
    assert_int_equal(a.closed, 1);
    drop(&a);
}

static void failed_creation_closes_the_descriptors(void **state)
{
    struct rg_channel_options options = { .loop = loop, .link = { .key = key } };
    struct rg_channel *channel = NULL;
    int fds[2];

    (void) state;
    assert_int_equal(rg_socketpair(fds), 0);
    options.read_fd = options.write_fd = fds[0];
    assert_int_equal(rg_channel_create(&options, &channel), -EINVAL);
    assert_null(channel);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    close(fds[1]);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_loop, destroy_loop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(frames_pass_over_a_socket),
        TEST(nothing_passes_a_cut_line),
        TEST(frames_pass_over_two_pipes),
        TEST(nothing_is_lost_before_a_close),
        TEST(wrong_key_ends_both_sides),
        TEST(garbage_and_truncation_end_the_channel),
        TEST(channel_may_be_destroyed_in_a_frame),
        TEST(backlog_stays_bounded_and_drains),
        TEST(failed_write_closes_from_the_loop),
        TEST(last_words_are_heard_after_a_failed_write),
        TEST(failed_creation_closes_the_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
