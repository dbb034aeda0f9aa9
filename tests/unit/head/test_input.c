/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/buf.h"
#include "base/fd.h"
#include "head/input.h"
#include "unit.h"

/* Ranks that take so many bytes at a time. What they leave they ask for again a moment later. */
struct ranks {
    struct rg_loop *loop;
    struct rg_input *input;
    struct rg_timer again;
    struct rg_buf got;
    size_t at_once; /* 0: everything */
    int nfull;      /* times to answer "full" in between */
    bool eof, deaf;
};

static void ask_again(void *arg)
{
    struct ranks *ranks = arg;

    rg_input_ready(ranks->input);
}

static int take_some(struct ranks *ranks, const void *data, size_t nbytes)
{
    if (ranks->nfull-- > 0)
        return 0;
    size_t n = ranks->at_once && nbytes > ranks->at_once ? ranks->at_once : nbytes;
    rg_buf_put(&ranks->got, data, n);
    return (int) n;
}

static int take(void *arg, const void *data, size_t nbytes)
{
    struct ranks *ranks = arg;

    if (ranks->deaf) {
        rg_loop_stop(ranks->loop);
        return -EPIPE;
    }
    if (!nbytes) {
        ranks->eof = true;
        rg_loop_stop(ranks->loop);
        return 0;
    }
    int n = take_some(ranks, data, nbytes);

    if (n < (int) nbytes)
        rg_timer_start(&ranks->again, ranks->loop, 1, 0, ask_again, ranks);
    return n;
}

static void run(struct ranks *ranks, int fd)
{
    static struct rg_input input;

    input = (struct rg_input){ 0 };
    ranks->input = &input;
    assert_int_equal(rg_loop_create(&ranks->loop), 0);
    rg_input_start(&input, ranks->loop, fd, take, ranks);
    if (!input.over)
        rg_loop_run(ranks->loop);
    rg_input_stop(&input);
    rg_timer_stop(&ranks->again);
    rg_loop_destroy(ranks->loop);
}

static void a_pipe_reaches_the_ranks_whole_and_with_its_end(void **state)
{
    struct ranks ranks = { .at_once = 7, .nfull = 2 };
    int fds[2];

    (void) state;
    assert_int_equal(rg_pipe(fds), 0);
    assert_int_equal(rg_write_all(fds[1], "some words to be read", 21), 0);
    close(fds[1]);
    run(&ranks, fds[0]);
    assert_true(ranks.eof);
    assert_string_equal(rg_buf_text(&ranks.got), "some words to be read");
    assert_int_equal(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
    rg_buf_fini(&ranks.got);
    close(fds[0]);
}

static void files_and_devices_and_nothing_are_read(void **state)
{
    struct ranks file = { 0 }, null = { 0 }, none = { 0 };
    char path[] = "/tmp/rg-input-XXXXXX";
    int fd = mkstemp(path), devnull = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void) state;
    assert_int_equal(rg_write_all(fd, "from a file", 11), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    run(&file, fd);
    assert_true(file.eof);
    assert_string_equal(rg_buf_text(&file.got), "from a file");
    run(&null, devnull);
    assert_true(null.eof);
    run(&none, -1);
    assert_true(none.eof);
    rg_buf_fini(&file.got);
    close(fd);
    close(devnull);
    unlink(path);
}

static void input_stops_when_nobody_reads_any_more(void **state)
{
    struct ranks ranks = { .deaf = true };
    int fds[2];

    (void) state;
    assert_int_equal(rg_pipe(fds), 0);
    assert_int_equal(rg_write_all(fds[1], "x", 1), 0);
    run(&ranks, fds[0]);
    assert_false(ranks.eof);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_reaches_the_ranks_whole_and_with_its_end),
        cmocka_unit_test(files_and_devices_and_nothing_are_read),
        cmocka_unit_test(input_stops_when_nobody_reads_any_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
