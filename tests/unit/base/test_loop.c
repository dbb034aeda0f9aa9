/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/loop.h"
#include "base/time.h"
#include "unit.h"

static struct rg_loop *loop;
static char trail[64]; /* what happened, a letter each */

static int make_loop(void **state)
{
    (void) state;
    memset(trail, 0, sizeof(trail));
    return rg_loop_create(&loop);
}

static int destroy_loop(void **state)
{
    (void) state;
    rg_loop_destroy(loop);
    return 0;
}

static void mark(void *arg)
{
    strcat(trail, arg);
}

static void mark_and_stop(void *arg)
{
    strcat(trail, arg);
    rg_loop_stop(loop);
}

static void timers_fire_in_order_and_the_loop_ends(void **state)
{
    struct rg_timer a = { 0 }, b = { 0 }, c = { 0 };
    uint64_t start = rg_now_ns();

    (void) state;
    rg_timer_start(&b, loop, 40, 0, mark, (void *) "b");
    rg_timer_start(&a, loop, 20, 0, mark, (void *) "a");
    rg_timer_start(&c, loop, 10, 0, mark, (void *) "c");
    rg_timer_stop(&c);
    rg_timer_stop(&c);
    assert_true(rg_timer_active(&a));
    rg_loop_run(loop);
    assert_string_equal(trail, "ab");
    assert_false(rg_timer_active(&a));
    assert_true(rg_now_ns() >= start + 39 * RG_NS_PER_MS);
    rg_loop_destroy(NULL);
}

static void started_timer_moves_to_its_new_arguments(void **state)
{
    struct rg_timer a = { 0 };

    (void) state;
    rg_timer_start(&a, loop, 60000, 0, mark, (void *) "x");
    rg_timer_start(&a, loop, 1, 0, mark, (void *) "y");
    rg_loop_run(loop);
    assert_string_equal(trail, "y");
}

static void timer_counts_from_its_start(void **state)
{
    struct rg_timer a = { 0 };

    (void) state;
    rg_sleep_ms(50); /* patient: the loop has not looked at the clock since its creation */
    uint64_t start = rg_now_ns();

    rg_timer_start(&a, loop, 40, 0, mark, (void *) "a");
    rg_loop_run(loop);
    assert_true(rg_now_ns() >= start + 39 * RG_NS_PER_MS);
}

struct repeating {
    struct rg_timer timer;
    int left;
};

static void count_down(void *arg)
{
    struct repeating *r = arg;

    strcat(trail, ".");
    if (--r->left == 0) {
        rg_timer_stop(&r->timer);
        free(r);
    }
}

static void repeating_timer_may_be_freed_in_its_callback(void **state)
{
    struct repeating *r = calloc(1, sizeof(*r));

    (void) state;
    r->left = 3;
    rg_timer_start(&r->timer, loop, 1, 1, count_down, r);
    rg_loop_run(loop);
    assert_string_equal(trail, "...");
}

static struct rg_io io;
static int fds[2];

static void read_once(void *arg, int events)
{
    char c;

    assert_int_equal(events, RG_IO_READ);
    assert_int_equal(read(fds[0], &c, 1), 1);
    strncat(trail, &c, 1);
    strcat(trail, arg);
    assert_true(rg_io_active(&io));
    rg_io_stop(&io);
    assert_false(rg_io_active(&io));
}

static void descriptor_is_reported_when_ready(void **state)
{
    struct rg_timer late = { 0 };

    (void) state;
    assert_int_equal(rg_pipe(fds), 0);
    rg_io_start(&io, loop, fds[0], RG_IO_READ, read_once, (void *) "!");
    rg_timer_start(&late, loop, 5, 0, mark, (void *) "t");
    assert_int_equal(write(fds[1], "q", 1), 1);
    rg_loop_run(loop);
    assert_string_equal(trail, "q!t");
    close(fds[0]);
    close(fds[1]);
}

static void stop_if_writable(void *arg, int events)
{
    assert_int_equal(events, RG_IO_WRITE);
    rg_io_stop(&io);
    mark(arg);
}

static void io_changes_from_reading_to_writing(void **state)
{
    (void) state;
    assert_int_equal(rg_socketpair(fds), 0);
    rg_io_start(&io, loop, fds[0], RG_IO_READ, read_once, (void *) "!");
    rg_io_start(&io, loop, fds[0], RG_IO_WRITE, stop_if_writable, (void *) "w");
    rg_loop_run(loop);
    assert_string_equal(trail, "w");
    close(fds[0]);
    close(fds[1]);
}

static void mark_io(void *arg, int events)
{
    (void) events;
    mark(arg);
    rg_io_stop(&io);
}

static void mark_signal(void *arg, int signo)
{
    (void) signo;
    mark(arg);
}

/* Who stood still has a deadline that has passed, and an answer that came in time. */
static void what_came_is_told_before_a_deadline_passes(void **state)
{
    struct rg_timer deadline = { 0 };
    struct rg_signal signal = { 0 };

    (void) state;
    assert_int_equal(rg_pipe(fds), 0);
    rg_timer_start(&deadline, loop, 1, 0, mark_and_stop, (void *) "t");
    rg_io_start(&io, loop, fds[0], RG_IO_READ, mark_io, (void *) "d");
    rg_signal_start(&signal, loop, SIGUSR2, mark_signal, (void *) "s");
    assert_int_equal(write(fds[1], "q", 1), 1);
    raise(SIGUSR2);
    rg_sleep_ms(20); /* patient: the deadline has to be over */
    rg_loop_run(loop);
    assert_string_equal(trail, "sdt");
    rg_signal_stop(&signal);
    close(fds[0]);
    close(fds[1]);
}

static struct rg_io crowd[200];
static int ncome;

static void mark_come(void *arg, int events)
{
    (void) events;
    ncome++;
    rg_io_stop(arg);
}

static void look_at_the_deadline(void *arg)
{
    (void) arg;
    assert_int_equal(ncome, rg_array_len(crowd));
}

static void all_that_came_is_told_before_a_deadline_passes(void **state)
{
    struct rg_timer deadline = { 0 };

    (void) state;
    assert_int_equal(rg_pipe(fds), 0);
    assert_int_equal(write(fds[1], "q", 1), 1);
    for (size_t i = 0; i < rg_array_len(crowd); i++) {
        int fd = dup(fds[0]);

        assert_true(fd >= 0);
        rg_io_start(&crowd[i], loop, fd, RG_IO_READ, mark_come, &crowd[i]);
    }
    rg_timer_start(&deadline, loop, 0, 0, look_at_the_deadline, NULL);
    rg_loop_run(loop);
    assert_int_equal(ncome, rg_array_len(crowd));
    for (size_t i = 0; i < rg_array_len(crowd); i++)
        close(crowd[i].w.key);
    close(fds[0]);
    close(fds[1]);
}

static struct rg_io reader, writer;

static void read_and_stop_both(void *arg, int events)
{
    char c;

    assert_int_equal(events, RG_IO_READ);
    assert_int_equal(read(fds[0], &c, 1), 1);
    mark(arg);
    rg_io_stop(&reader);
    rg_io_stop(&writer);
}

static void answer_once(void *arg, int events)
{
    assert_int_equal(events, RG_IO_WRITE);
    mark(arg);
    assert_int_equal(write(fds[1], "q", 1), 1);
    rg_io_stop(&writer);
}

static void descriptor_has_a_reader_and_a_writer(void **state)
{
    (void) state;
    assert_int_equal(rg_socketpair(fds), 0);
    rg_io_start(&reader, loop, fds[0], RG_IO_READ, read_and_stop_both, (void *) "r");
    rg_io_start(&writer, loop, fds[0], RG_IO_WRITE, answer_once, (void *) "w");
    rg_loop_run(loop);
    assert_string_equal(trail, "wr");
    /* Both at once: the second is stopped by the first, and is not told. */
    assert_int_equal(write(fds[1], "q", 1), 1);
    rg_io_start(&writer, loop, fds[0], RG_IO_READ, read_and_stop_both, (void *) "1");
    rg_io_start(&reader, loop, fds[0], RG_IO_READ, read_and_stop_both, (void *) "1");
    rg_loop_run(loop);
    assert_string_equal(trail, "wr1");
    close(fds[0]);
    close(fds[1]);
}

/* epoll takes no files; standard input may be one. */
static void file_is_always_ready(void **state)
{
    struct rg_timer end = { 0 };

    (void) state;
    fds[0] = memfd_create("file", MFD_CLOEXEC);
    assert_int_equal(pwrite(fds[0], "q", 1, 0), 1);
    rg_io_start(&io, loop, fds[0], RG_IO_READ, read_once, (void *) "!");
    rg_loop_run(loop);
    assert_string_equal(trail, "q!");
    close(fds[0]);
    /* Its number is another one's now. */
    assert_int_equal(rg_pipe(fds), 0);
    rg_io_start(&io, loop, fds[0], RG_IO_READ, read_once, (void *) "!");
    rg_timer_start(&end, loop, 1, 0, mark_and_stop, (void *) "t");
    rg_loop_run(loop);
    assert_string_equal(trail, "q!t");
    rg_io_stop(&io);
    close(fds[0]);
    close(fds[1]);
}

static void write_late(void *arg)
{
    (void) arg;
    assert_int_equal(write(fds[1], "q", 1), 1);
}

static void mark_number(void *arg, int events)
{
    char c;

    assert_int_equal(events, RG_IO_READ);
    assert_int_equal(read(fds[0], &c, 1), 1);
    mark(arg);
    rg_io_stop(&io);
    rg_io_stop(&writer);
}

/* It must not be taken for what is always ready. */
static void number_that_came_back_is_waited_for(void **state)
{
    struct rg_timer late = { 0 };
    int stale;

    (void) state;
    assert_int_equal(rg_pipe(fds), 0);
    stale = fds[0];
    rg_io_start(&writer, loop, stale, RG_IO_READ, mark_number, (void *) "?");
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(rg_pipe(fds), 0);
    assert_int_equal(fds[0], stale);
    rg_io_start(&io, loop, fds[0], RG_IO_READ, mark_number, (void *) "d");
    rg_timer_start(&late, loop, 1, 0, write_late, NULL);
    rg_loop_run(loop);
    assert_string_equal(trail, "d");
    close(fds[0]);
    close(fds[1]);
}

#define NTIMERS 300
struct due {
    struct rg_timer timer;
    uint64_t least_ns, most_ns; /* it is due in between */
};
static struct due dues[NTIMERS];
static uint64_t latest_ns;
static int nfired;

static void in_order(void *arg)
{
    struct due *due = arg;

    assert_true(due->most_ns >= latest_ns);
    latest_ns = due->least_ns > latest_ns ? due->least_ns : latest_ns;
    nfired++;
}

static void start_due(struct due *due, unsigned delay_ms)
{
    due->least_ns = rg_now_ns() + delay_ms * RG_NS_PER_MS;
    rg_timer_start(&due->timer, loop, delay_ms, 0, in_order, due);
    due->most_ns = rg_now_ns() + delay_ms * RG_NS_PER_MS;
}

static void many_timers_fire_in_order(void **state)
{
    unsigned random = 1;

    (void) state;
    latest_ns = 0;
    nfired = 0;
    for (int i = 0; i < NTIMERS; i++) {
        random = random * 1103515245 + 12345;
        start_due(&dues[i], (random >> 16) % 20);
    }
    for (int i = 0; i < NTIMERS; i += 3) /* from the middle; to the front, the end, and away */
        start_due(&dues[i], (unsigned) i % 20);
    for (int i = 0; i < NTIMERS; i += 5)
        rg_timer_stop(&dues[i].timer);
    rg_loop_run(loop);
    assert_int_equal(nfired, NTIMERS - NTIMERS / 5);
}

static struct rg_signal sig;

static void signal_came(void *arg, int signo)
{
    assert_int_equal(signo, SIGUSR1);
    mark(arg);
    rg_signal_stop(&sig);
}

static void signals_arrive_in_the_loop(void **state)
{
    (void) state;
    rg_signal_start(&sig, loop, SIGUSR1, signal_came, (void *) "s");
    raise(SIGUSR1);
    assert_string_equal(trail, "");
    rg_loop_run(loop);
    assert_string_equal(trail, "s");
}

static pid_t start_child(int code)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(code);
    return pid;
}

static struct rg_child any;
static int ended;

static void child_ended(void *arg, pid_t pid, int status)
{
    assert_true(pid > 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1); /* reaped */
    mark(arg);
}

static void child_is_reaped_and_reported_once(void **state)
{
    struct rg_child child = { 0 }, other = { 0 };

    (void) state;
    rg_child_start(&child, loop, start_child(7), child_ended, (void *) "c");
    rg_child_start(&other, loop, start_child(7), child_ended, (void *) "c");
    rg_loop_run(loop);
    assert_string_equal(trail, "cc");
    rg_child_stop(&child);
}

static void any_ended(void *arg, pid_t pid, int status)
{
    (void) arg;
    assert_true(pid > 0);
    ended += WEXITSTATUS(status);
    if (ended == 1 + 2 + 4 + 8 + 16)
        rg_child_stop(&any);
}

/* A grandchild whose parent has gone comes to us too, as a subreaper. */
static void any_child_includes_adopted_orphans(void **state)
{
    (void) state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    ended = 0;
    rg_child_start(&any, loop, 0, any_ended, NULL);
    for (int code = 1; code <= 8; code *= 2) {
        if (code != 4) {
            start_child(code);
            continue;
        }
        pid_t pid = fork();

        if (pid == 0) {
            pid_t parent = getpid();

            if (fork() == 0)
                _exit(unit_until(getppid() != parent, "the parent's end") ? 16 : 99);
            _exit(4);
        }
    }
    rg_loop_run(loop);
    assert_int_equal(ended, 31);
}

static void stop_leaves_other_watchers_alone(void **state)
{
    struct rg_timer a = { 0 }, b = { 0 };

    (void) state;
    rg_timer_start(&a, loop, 1, 0, mark_and_stop, (void *) "a");
    rg_timer_start(&b, loop, 30, 0, mark, (void *) "b");
    rg_loop_run(loop);
    assert_string_equal(trail, "a");
    rg_loop_run(loop);
    assert_string_equal(trail, "ab");
}

static void second_loop_runs_beside_the_first(void **state)
{
    struct rg_loop *second;
    struct rg_timer a = { 0 };

    (void) state;
    assert_int_equal(rg_loop_create(&second), 0);
    rg_timer_start(&a, second, 1, 0, mark, (void *) "2");
    rg_loop_run(second);
    rg_loop_destroy(second);
    assert_string_equal(trail, "2");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_loop, destroy_loop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(timers_fire_in_order_and_the_loop_ends),
        TEST(started_timer_moves_to_its_new_arguments),
        TEST(timer_counts_from_its_start),
        TEST(repeating_timer_may_be_freed_in_its_callback),
        TEST(descriptor_is_reported_when_ready),
        TEST(io_changes_from_reading_to_writing),
        TEST(what_came_is_told_before_a_deadline_passes),
        TEST(all_that_came_is_told_before_a_deadline_passes),
        TEST(descriptor_has_a_reader_and_a_writer),
        TEST(file_is_always_ready),
        TEST(number_that_came_back_is_waited_for),
        TEST(many_timers_fire_in_order),
        TEST(signals_arrive_in_the_loop),
        TEST(child_is_reaped_and_reported_once),
        TEST(any_child_includes_adopted_orphans),
        TEST(stop_leaves_other_watchers_alone),
        TEST(second_loop_runs_beside_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
