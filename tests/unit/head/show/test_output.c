/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <time.h>

#include "base/fd.h"
#include "head/show/output.h"
#include "head/show/sink.h"
#include "unit.h"

/* An output between pipes, and what it reported. */
struct bench {
    struct rg_loop *loop;
    struct rg_job job;
    struct rg_output *output;
    struct rg_logmark *mark;
    int nticks;
    int out[2], err[2], echo[2];
    int npauses, nresumes, ndrained, nlost;
    bool closed;
    char cause[200];
};

static void on_pause(void *arg, bool pause)
{
    struct bench *b = arg;

    b->npauses += pause;
    b->nresumes += !pause;
}

static void on_lost(void *arg, const char *cause, bool closed)
{
    struct bench *b = arg;

    b->nlost++;
    b->closed = closed;
    snprintf(b->cause, sizeof b->cause, "%s", cause);
}

static void on_drained(void *arg)
{
    struct bench *b = arg;

    b->ndrained++;
    rg_loop_stop(b->loop);
}

static void begin(struct bench *b, int nranks)
{
    struct rg_output_options options = { .job = &b->job, .nranks = nranks, .on_pause = on_pause,
                                         .on_lost = on_lost, .on_drained = on_drained, .arg = b };
    struct rg_error err = RG_ERROR_INIT;

    if (!b->out[1]) {
        assert_int_equal(rg_pipe(b->out), 0);
        assert_int_equal(rg_pipe(b->err), 0);
    }
    assert_int_equal(rg_loop_create(&b->loop), 0);
    options.loop = b->loop;
    options.mark = b->mark;
    options.out_fd = b->out[1];
    options.err_fd = b->err[1];
    options.echoes = b->echo[1];
    options.echo_fd = b->echo[1];
    if (rg_output_create(&options, &b->output, &err) < 0)
        fail_msg("%s", err.text);
}

static void end(struct bench *b)
{
    rg_output_destroy(b->output);
    rg_loop_destroy(b->loop);
    rg_job_fini(&b->job);
    for (int i = 0; i < 2; i++) {
        rg_cleanup_close(&b->out[i]);
        rg_cleanup_close(&b->err[i]);
    }
}

static void feed(struct bench *b, int rank, int stream, const char *text)
{
    rg_output_data(b->output, rank, stream, (const uint8_t *) text, strlen(text));
}

static void expect(int fd, const char *wanted)
{
    char got[4096];
    struct pollfd p = { .fd = fd, .events = POLLIN };
    ssize_t n = poll(&p, 1, 0) > 0 ? read(fd, got, sizeof got - 1) : 0;

    got[n > 0 ? n : 0] = '\0';
    assert_string_equal(got, wanted);
}

static void one_rank_is_shown_as_it_is(void **state)
{
    struct bench b = { 0 };

    (void) state;
    rg_job_init(&b.job);
    begin(&b, 1);
    feed(&b, 0, 1, "a\nno newline");
    feed(&b, 0, 2, "e");
    expect(b.out[0], "a\nno newline");
    expect(b.err[0], "e");
    rg_output_finish(b.output);
    expect(b.out[0], "");
    end(&b);
}

static void ranks_lines_are_tagged_and_never_mixed(void **state)
{
    struct bench b = { 0 };

    (void) state;
    rg_job_init(&b.job);
    begin(&b, 2);
    feed(&b, 0, 1, "one ");
    feed(&b, 1, 1, "two\nthree ");
    feed(&b, 0, 1, "more\n");
    feed(&b, 1, 2, "oops\n");
    expect(b.out[0], "[1] two\n[0] one more\n");
    expect(b.err[0], "[1] oops\n");
    rg_output_data(b.output, 1, 1, NULL, 0);
    expect(b.out[0], "[1] three \n"); /* a tagged last line gets its newline */
    end(&b);
}

static void untagged_lines_stay_whole_and_gain_no_byte(void **state)
{
    struct bench b = { 0 };

    (void) state;
    rg_job_init(&b.job);
    b.job.tag = RG_TAG_OFF;
    begin(&b, 2);
    feed(&b, 0, 1, "half");
    feed(&b, 1, 1, "whole\nrest");
    expect(b.out[0], "whole\n");
    rg_output_finish(b.output);
    expect(b.out[0], "halfrest");
    end(&b);
}

static void long_lines_go_on_with_a_plus(void **state)
{
    struct bench b = { 0 };
    static uint8_t line[70000];
    char got[80000];
    size_t have = 0;

    (void) state;
    memset(line, 'z', sizeof line);
    line[sizeof line - 1] = '\n';
    rg_job_init(&b.job);
    begin(&b, 2);
    assert_true(fcntl(b.out[1], F_SETPIPE_SZ, 1 << 18) > 0);
    rg_output_data(b.output, 1, 1, line, sizeof line);
    for (ssize_t n;
         have < sizeof line + 9 && (n = read(b.out[0], got + have, sizeof got - have)) > 0;)
        have += (size_t) n;
    assert_int_equal(have, 4 + 65536 + 1 + 5 + (69999 - 65536) + 1);
    assert_memory_equal(got, "[1] zzz", 7);
    assert_memory_equal(got + 4 + 65536, "\n[1]+ zzz", 9);
    end(&b);
}

static void only_chosen_ranks_are_shown_but_files_get_all(void **state)
{
    struct bench b = { 0 };
    char dir[] = "/tmp/rg-output-XXXXXX", path[128], command[64];
    rg_autofree char *text = NULL;

    (void) state;
    rg_job_init(&b.job);
    assert_non_null(mkdtemp(dir));
    b.job.output_dir = strdup(dir);
    assert_int_equal(rg_ranks_parse("1", &b.job.show, NULL), 0);
    begin(&b, 11);
    feed(&b, 0, 1, "hid\0den\n");
    rg_output_data(b.output, 0, 1, (const uint8_t *) "\0\xff", 2);
    feed(&b, 1, 1, "seen\n");
    expect(b.out[0], "[1] seen\n");
    rg_output_finish(b.output);
    snprintf(path, sizeof path, "%s/rank.00/stdout", dir); /* padded to the width of 10 */
    size_t nbytes;
    assert_int_equal(rg_read_file(path, 100, &text, &nbytes), 0);
    assert_int_equal(nbytes, 5);
    assert_memory_equal(text, "hid\0\xff", 5);
    snprintf(path, sizeof path, "%s/rank.10/stderr", dir);
    assert_int_equal(access(path, F_OK), 0);
    end(&b);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void an_echo_that_nobody_reads_holds_ranks_up_only_while_it_is_there(void **state)
{
    struct bench b = { 0 };
    static uint8_t data[RG_OUTPUT_HIGH_NBYTES + (1 << 20)]; /* more than a pipe takes, too */
    int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void) state;
    rg_job_init(&b.job);
    assert_int_equal(rg_pipe(b.echo), 0);
    b.out[1] = null_fd;
    b.err[1] = dup(null_fd);
    begin(&b, 1);
    rg_output_data(b.output, 0, 1, data, sizeof data);
    assert_int_equal(b.npauses, 1);
    assert_false(rg_output_drained(b.output));
    rg_output_echo_end(b.output);
    assert_int_equal(b.nresumes, 1);
    assert_true(rg_output_drained(b.output));
    b.out[0] = b.err[0] = -1;
    end(&b);
    rg_cleanup_close(&b.echo[0]);
    rg_cleanup_close(&b.echo[1]);
}

static void time_stamps_stand_in_front(void **state)
{
    struct bench b = { 0 };
    char got[100] = "";
    int y, mo, d, h, mi, s, ms, used = 0;

    (void) state;
    setenv("TZ", "XYZ+3:30", 1); /* west of Greenwich */
    tzset();
    rg_job_init(&b.job);
    b.job.timestamps = true;
    begin(&b, 1);
    feed(&b, 0, 1, "x\n");
    assert_true(read(b.out[0], got, sizeof got - 1) > 0);
    assert_int_equal(sscanf(got, "%d-%d-%dT%d:%d:%d.%d-03:30 %n", &y, &mo, &d, &h, &mi, &s, &ms,
                            &used), 7);
    assert_string_equal(got + used, "x\n");
    end(&b);
}

static int drain_bytes(int fd, size_t *ret_nbytes)
{
    static char data[1 << 16];
    struct pollfd p = { .fd = fd, .events = POLLIN };
    ssize_t n = poll(&p, 1, 0) > 0 ? read(fd, data, sizeof data) : 0;

    *ret_nbytes += n > 0 ? (size_t) n : 0;
    return n > 0;
}

static void read_more(void *arg)
{
    struct { struct bench *b; size_t nbytes; } *x = arg;

    drain_bytes(x->b->out[0], &x->nbytes);
}

/* Nobody reads: writing returns, and asks for less; then all arrives in the end. */
static void a_slow_reader_pauses_the_ranks_and_gets_every_byte(void **state)
{
    struct bench b = { 0 };
    static uint8_t chunk[100000];
    struct { struct bench *b; size_t nbytes; } x = { &b, 0 };
    struct rg_timer timer = { 0 };
    size_t sent = 0;

    (void) state;
    memset(chunk, 'c', sizeof chunk);
    rg_job_init(&b.job);
    begin(&b, 1);
    for (; b.npauses == 0 && sent < (10u << 20); sent += sizeof chunk)
        rg_output_data(b.output, 0, 1, chunk, sizeof chunk);
    assert_int_equal(b.npauses, 1);
    assert_false(rg_output_drained(b.output));
    assert_true(sent <= RG_OUTPUT_HIGH_NBYTES + 3 * sizeof chunk);
    rg_timer_start(&timer, b.loop, 1, 1, read_more, &x);
    rg_loop_run(b.loop); /* until drained */
    rg_timer_stop(&timer);
    while (drain_bytes(b.out[0], &x.nbytes))
        ;
    assert_int_equal(x.nbytes, sent);
    assert_int_equal(b.nresumes, 1);
    assert_int_equal(b.ndrained, 1);
    assert_int_equal(b.nlost, 0);
    end(&b);
}

static void the_shared_pipe_stays_blocking(void **state)
{
    struct bench b = { 0 };

    (void) state;
    rg_job_init(&b.job);
    begin(&b, 1);
    feed(&b, 0, 1, "x");
    assert_int_equal(fcntl(b.out[1], F_GETFL) & O_NONBLOCK, 0);
    end(&b);
}

static void a_reader_that_goes_away_is_reported_once(void **state)
{
    struct bench b = { 0 };

    (void) state;
    rg_job_init(&b.job);
    begin(&b, 1);
    close(b.out[0]);
    b.out[0] = -1;
    feed(&b, 0, 1, "x");
    feed(&b, 0, 1, "y");
    assert_int_equal(b.nlost, 1);
    assert_true(b.closed);
    assert_contains(b.cause, "standard output");
    end(&b);
}

static void a_full_disk_is_named(void **state)
{
    struct bench b = { 0 };

    (void) state;
    rg_job_init(&b.job);
    b.out[0] = b.err[0] = -1;
    b.out[1] = open("/dev/full", O_WRONLY | O_CLOEXEC);
    b.err[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
    begin(&b, 1);
    feed(&b, 0, 1, "x");
    assert_int_equal(b.nlost, 1);
    assert_false(b.closed);
    assert_contains(b.cause, "No space left");
    end(&b);
}

static void sockets_and_files_take_every_byte(void **state)
{
    struct bench b = { 0 };
    char path[] = "/tmp/rg-sink-XXXXXX";
    rg_autofree char *text = NULL;

    (void) state;
    rg_job_init(&b.job);
    assert_int_equal(rg_socketpair(b.out), 0);
    b.err[0] = -1;
    b.err[1] = mkstemp(path);
    assert_true(b.err[1] >= 0);
    begin(&b, 1);
    feed(&b, 0, 1, "to a socket");
    feed(&b, 0, 2, "to a file");
    expect(b.out[0], "to a socket");
    assert_int_equal(rg_read_file(path, 100, &text, NULL), 0);
    assert_string_equal(text, "to a file");
    end(&b);
    unlink(path);
}

/* Standard error is where reigen speaks; standard output is elsewhere. */
static void what_stands_above_the_last_words_is_known(void **state)
{
    static const char *const lines[] = { "a\r", "oops", "", "to a file", "" };
    struct bench b = { 0 };

    (void) state;
    rg_job_init(&b.job);
    begin(&b, 2);
    feed(&b, 1, 2, "a\r\noops\n\n");
    assert_int_equal(rg_output_shown(b.output, 1, lines, 5), 2); /* "to a file" is still to tell */
    assert_int_equal(rg_output_shown(b.output, 1, lines, 3), 3);
    assert_int_equal(rg_output_shown(b.output, 0, lines, 3), 0);
    feed(&b, 1, 1, "to a file\n\n");
    assert_int_equal(rg_output_shown(b.output, 1, lines, 5), 2);
    for (int i = 0; i < 40; i++)
        feed(&b, 0, 2, "something else\n");
    assert_int_equal(rg_output_shown(b.output, 1, lines, 5), 0); /* far above by now */
    end(&b);
    b = (struct bench){ 0 };
    rg_job_init(&b.job);
    begin(&b, 1);
    feed(&b, 0, 2, "oo");
    feed(&b, 0, 2, "ps");
    rg_output_finish(b.output);
    assert_int_equal(rg_output_shown(b.output, 0, lines, 2), 2); /* of bytes as they are, too */
    end(&b);
}

/* The verdict of a rank whose lines stand there as another's does not repeat them. */
static void lines_shown_as_another_ranks_are_known_whatever_number_pytorch_wrote(void **state)
{
    static const char *const lines[] = { "[rank1]: Traceback (most recent call last):",
                                         "[rank1]: Error" };
    struct bench b = { 0 };

    (void) state;
    rg_job_init(&b.job);
    begin(&b, 2);
    feed(&b, 0, 2, "[rank0]: Traceback (most recent call last):\n[rank0]: Error\n");
    feed(&b, 1, 2, "[rank1]: Traceback (most recent call last):\n[rank1]: Error\n");
    rg_output_finish(b.output);
    expect(b.err[0], "[0] [rank0]: Traceback (most recent call last):\n[0] [rank0]: Error\n");
    assert_int_equal(rg_output_shown(b.output, 1, lines, 2), 2);
    assert_int_equal(rg_output_shown(b.output, 0, lines, 2), 2);
    end(&b);
}

static void an_equal_traceback_is_shown_once_but_kept_twice(void **state)
{
    static const char text[] = "Traceback (most recent call last):\nError\n";
    static const char *const lines[] = { "Traceback (most recent call last):", "Error" };
    struct bench b = { 0 };
    char dir[] = "/tmp/rg-output-XXXXXX", path[128], command[64];
    rg_autofree char *kept = NULL;
    rg_autobuf struct rg_buf told = RG_BUF_INIT;

    (void) state;
    rg_job_init(&b.job);
    assert_non_null(mkdtemp(dir));
    b.job.output_dir = strdup(dir);
    begin(&b, 2);
    feed(&b, 0, 2, text);
    feed(&b, 1, 2, text);
    rg_output_finish(b.output);
    expect(b.err[0], "[0] Traceback (most recent call last):\n[0] Error\n");
    rg_output_tell_same(b.output, &told);
    assert_string_equal(rg_buf_text(&told), "reigen: rank 1: the same traceback as rank 0's\n");
    assert_int_equal(rg_output_shown(b.output, 1, lines, 2), 2);
    snprintf(path, sizeof path, "%s/rank.1/stderr", dir);
    assert_int_equal(rg_read_file(path, 100, &kept, NULL), 0);
    assert_string_equal(kept, text);
    end(&b);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* Here the loop does not run, so that no time passes for it. */
static void a_progress_bar_is_seen_at_once_and_as_it_ends(void **state)
{
    struct bench b = { 0 };

    (void) state;
    rg_job_init(&b.job);
    begin(&b, 2);
    feed(&b, 0, 2, "\r  0%");
    expect(b.err[0], "[0]   0%\n");
    feed(&b, 0, 2, "\r 50%");
    feed(&b, 0, 2, "\r100%");
    expect(b.err[0], "");
    feed(&b, 0, 2, "\nend\n");
    expect(b.err[0], "[0] 100%\n[0] end\n");
    feed(&b, 1, 1, "\r50%\r100%");
    rg_output_finish(b.output);
    expect(b.out[0], "[1] 100%\n");
    end(&b);
}

static void on_tick(void *arg)
{
    struct bench *b = arg;
    struct pollfd p = { .fd = b->out[0], .events = POLLIN };

    if (poll(&p, 1, 0) > 0 || ++b->nticks == 1000)
        rg_loop_stop(b->loop);
}

static void run_until_output(struct bench *b)
{
    struct rg_timer tick = { 0 };

    b->nticks = 0;
    rg_timer_start(&tick, b->loop, 10, 10, on_tick, b);
    rg_loop_run(b->loop);
    rg_timer_stop(&tick);
}

/* The rank says no more: what it has drawn last is shown in time all the same. */
static void a_progress_bar_that_stands_still_is_shown_as_it_stands(void **state)
{
    struct bench b = { 0 };

    (void) state;
    rg_job_init(&b.job);
    begin(&b, 2);
    feed(&b, 0, 1, "\r10%");
    expect(b.out[0], "[0] 10%\n");
    feed(&b, 0, 1, "\r20%");
    feed(&b, 0, 1, "\r30%");
    run_until_output(&b);
    expect(b.out[0], "[0] 30%\n");
    end(&b);
}

static void a_kept_log_gets_its_mark_while_a_bar_stands_still(void **state)
{
    struct rg_logmark mark = { .nbytes = RG_LOGMARK_FIRST_NBYTES,
                               .marked_nbytes = RG_LOGMARK_FIRST_NBYTES };
    struct bench b = { .mark = &mark };

    (void) state;
    rg_job_init(&b.job);
    begin(&b, 2);
    feed(&b, 0, 1, "\r10%");
    expect(b.out[0], "[0] 10%\n");
    run_until_output(&b);
    expect(b.out[0], RG_LOGMARK "1048584 1\n");
    end(&b);
}

static void begin_on_terminal(struct bench *b)
{
    struct winsize size = { .ws_row = 24, .ws_col = 80 };
    struct termios raw;

    setenv("TERM", "xterm", 1);
    b->out[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_int_equal(grantpt(b->out[0]), 0);
    assert_int_equal(unlockpt(b->out[0]), 0);
    b->out[1] = open(ptsname(b->out[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(b->out[1] >= 0);
    assert_int_equal(tcgetattr(b->out[1], &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(b->out[1], TCSANOW, &raw), 0);
    assert_int_equal(ioctl(b->out[1], TIOCSWINSZ, &size), 0);
    b->err[0] = fcntl(b->out[0], F_DUPFD_CLOEXEC, 3);
    b->err[1] = fcntl(b->out[1], F_DUPFD_CLOEXEC, 3);
    begin(b, 2);
}

static void lines_leave_the_rows_below_them(void **state)
{
    struct bench b = { 0 };

    (void) state;
    rg_job_init(&b.job);
    begin_on_terminal(&b);
    feed(&b, 0, 1, "\r10%");
    expect(b.out[0], "\r\033[K[0] 10%\r");
    for (int i = 0; i < 3; i++) {
        feed(&b, 1, 2, "word\n");
        expect(b.out[0], "\r\033[J[1] word\n\r\033[K[0] 10%\r");
    }
    rg_output_finish(b.output);
    expect(b.out[0], "\r\033[J[0] 10%\n");
    end(&b);
}

static void a_terminal_that_takes_nothing_gets_no_rows_in_the_meantime(void **state)
{
    struct bench b = { 0 };
    char text[32], got[512] = "";

    (void) state;
    rg_job_init(&b.job);
    begin_on_terminal(&b);
    feed(&b, 0, 1, "\r10%");
    expect(b.out[0], "\r\033[K[0] 10%\r");
    assert_int_equal(tcflow(b.out[1], TCOOFF), 0);
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof(text), "\r%d%%word\n\r11%%", i);
        feed(&b, 0, 1, text);
    }
    assert_int_equal(tcflow(b.out[1], TCOON), 0);
    for (size_t n = 0; !strstr(got, "4%word\n\r\033[K[0] 11%\r"); got[n] = '\0') {
        run_until_output(&b);
        ssize_t more = read(b.out[0], got + n, sizeof(got) - 1 - n);
        assert_true(more > 0);
        n += (size_t) more;
    }
    assert_string_equal(got, "\r\033[J[0] 0%word\n\r\033[K[0] 11%\r\r\033[J[0] 1%word\n"
                             "[0] 2%word\n[0] 3%word\n[0] 4%word\n\r\033[K[0] 11%\r");
    end(&b);
}

/* Its 2 rows of 75 and 7 columns have become 3 and 1. */
static void rows_that_a_narrower_window_broke_are_erased(void **state)
{
    struct winsize size = { .ws_row = 24, .ws_col = 30 };
    struct bench b = { 0 };
    char text[80];

    (void) state;
    rg_job_init(&b.job);
    begin_on_terminal(&b);
    snprintf(text, sizeof(text), "\r%070d%%", 0);
    feed(&b, 1, 1, "\r10%");
    expect(b.out[0], "\r\033[K[1] 10%\r");
    feed(&b, 0, 1, text);
    run_until_output(&b);
    expect(b.out[0], "\r\033[K[0] 0000000000000000000000000000000000000000000000000000000000000"
                     "000000000%\r\n\033[K[1] 10%\r");
    assert_int_equal(ioctl(b.out[1], TIOCSWINSZ, &size), 0);
    run_until_output(&b);
    expect(b.out[0], "\r\033[3A\033[J\r\033[K[0] 0000000000000000000000000\r\n"
                     "\033[K[1] 10%\r");
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_is_shown_as_it_is),
        cmocka_unit_test(ranks_lines_are_tagged_and_never_mixed),
        cmocka_unit_test(untagged_lines_stay_whole_and_gain_no_byte),
        cmocka_unit_test(long_lines_go_on_with_a_plus),
        cmocka_unit_test(only_chosen_ranks_are_shown_but_files_get_all),
        cmocka_unit_test(an_echo_that_nobody_reads_holds_ranks_up_only_while_it_is_there),
        cmocka_unit_test(time_stamps_stand_in_front),
        cmocka_unit_test(a_slow_reader_pauses_the_ranks_and_gets_every_byte),
        cmocka_unit_test(the_shared_pipe_stays_blocking),
        cmocka_unit_test(a_reader_that_goes_away_is_reported_once),
        cmocka_unit_test(a_full_disk_is_named),
        cmocka_unit_test(what_stands_above_the_last_words_is_known),
        cmocka_unit_test(lines_shown_as_another_ranks_are_known_whatever_number_pytorch_wrote),
        cmocka_unit_test(an_equal_traceback_is_shown_once_but_kept_twice),
        cmocka_unit_test(sockets_and_files_take_every_byte),
        cmocka_unit_test(a_progress_bar_is_seen_at_once_and_as_it_ends),
        cmocka_unit_test(a_progress_bar_that_stands_still_is_shown_as_it_stands),
        cmocka_unit_test(a_kept_log_gets_its_mark_while_a_bar_stands_still),
        cmocka_unit_test(lines_leave_the_rows_below_them),
        cmocka_unit_test(a_terminal_that_takes_nothing_gets_no_rows_in_the_meantime),
        cmocka_unit_test(rows_that_a_narrower_window_broke_are_erased),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
