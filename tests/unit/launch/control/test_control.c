/* SPDX-License-Identifier: Apache-2.0 */
/* Questions come from another process, which a thread stands for here. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "launch/control/control.h"
#include "unit.h"

#define SILENT 20
#define QUEUE 100 /* more than wait to be let in */
#define TIMEOUT_MS 60000

static struct rg_loop *loop;
static struct rg_control *control;
static char job[64];
static struct rg_control_request heard;
static int nheard;
static size_t answer_nbytes; /* of an answer that is that long; 0: a short one */

static void answer(void *arg, const struct rg_control_request *request, struct rg_buf *text)
{
    assert_ptr_equal(arg, &heard);
    heard = *request;
    nheard++;
    rg_buf_printf(text, "{\"fine\":true");
    while (rg_buf_nbytes(text) < answer_nbytes)
        rg_buf_printf(text, "%1024s", "");
    rg_buf_printf(text, "}");
}

static int begin(void **state)
{
    (void) state;
    snprintf(job, sizeof(job), "test-control-%d", (int) getpid());
    answer_nbytes = 0;
    nheard = 0;
    if (rg_loop_create(&loop) < 0)
        return -1;
    return rg_control_listen(loop, job, answer, &heard, &control);
}

static int end(void **state)
{
    (void) state;
    rg_control_close(control);
    rg_loop_destroy(loop);
    return 0;
}

/* Runs the loop while a thread asks. */
struct asking {
    void *(*ask)(void *asking);
    struct rg_control_request request;
    struct rg_buf text;
    struct rg_io io;
    int result, fds[2];
};

static void on_done(void *arg, int events)
{
    struct asking *asking = arg;

    (void) events;
    rg_io_stop(&asking->io);
    rg_loop_stop(loop);
}

static void *ask_well(void *arg)
{
    struct asking *asking = arg;

    asking->result = rg_control_ask(job, &asking->request, TIMEOUT_MS, &asking->text);
    close(asking->fds[1]);
    return NULL;
}

/* -1: its queue is full. */
static int connect_soon(void)
{
    struct sockaddr_un address;
    char name[96];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(name, sizeof(name), "@reigen-job-%s", job);
    socklen_t nbytes = rg_unix_address(name, &address);
    if (connect(fd, (struct sockaddr *) &address, nbytes) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_to_it(void)
{
    int fd = connect_soon();

    if (fd < 0)
        abort();
    fcntl(fd, F_SETFL, 0);
    return fd;
}

static void *ask_in_another_language(void *arg)
{
    struct asking *asking = arg;
    char text[256] = "";
    int fd = connect_to_it();
    ssize_t n = write(fd, "status?", 7);

    n = n == 7 ? read(fd, text, sizeof(text) - 1) : -1;
    rg_buf_printf(&asking->text, "%s", text);
    asking->result = n > 0 ? 0 : -1;
    close(fd);
    close(asking->fds[1]);
    return NULL;
}

static void run(struct asking *asking)
{
    pthread_t thread;

    assert_int_equal(rg_pipe(asking->fds), 0);
    rg_io_start(&asking->io, loop, asking->fds[0], RG_IO_READ, on_done, asking);
    assert_int_equal(pthread_create(&thread, NULL, asking->ask, asking), 0);
    rg_loop_run(loop);
    pthread_join(thread, NULL);
    close(asking->fds[0]);
}

static void a_question_and_all_that_it_says_is_answered(void **state)
{
    struct asking asking = { .ask = ask_well,
                             .request = { RG_CONTROL_DRAIN, "me@b", 12345, 678, true } };

    (void) state;
    run(&asking);
    assert_int_equal(asking.result, 0);
    assert_string_equal(rg_buf_text(&asking.text), "{\"fine\":true}");
    assert_int_equal(heard.question, RG_CONTROL_DRAIN);
    assert_string_equal(heard.host, "me@b");
    assert_int_equal(heard.deadline_ms, 12345);
    assert_int_equal(heard.from, 678);
    assert_true(heard.force);
    rg_buf_fini(&asking.text);
}

struct half {
    struct rg_io io;
    int fd, result;
    struct rg_buf text;
};

static void on_answer(void *arg, int events)
{
    struct half *half = arg;

    (void) events;
    half->result = rg_control_take(half->fd, &half->text);
    rg_io_stop(&half->io);
    rg_loop_stop(loop);
}

static void who_has_a_loop_need_not_wait(void **state)
{
    struct rg_control_request request = { .question = RG_CONTROL_NUMBERS, .from = 7 };
    struct half half = { .fd = rg_control_begin(job, &request), .text = RG_BUF_INIT };

    (void) state;
    assert_true(half.fd >= 0);
    assert_int_equal(rg_control_take(half.fd, &half.text), -EAGAIN);
    rg_io_start(&half.io, loop, half.fd, RG_IO_READ, on_answer, &half);
    rg_loop_run(loop);
    assert_int_equal(half.result, 0);
    assert_string_equal(rg_buf_text(&half.text), "{\"fine\":true}");
    assert_int_equal(heard.from, 7);
    close(half.fd);
    rg_buf_fini(&half.text);
    assert_int_equal(rg_control_begin("nobody", &request), -ECONNREFUSED);
}

static void a_long_answer_comes_whole_or_not_at_all(void **state)
{
    struct asking asking = { .ask = ask_well, .request = { .question = RG_CONTROL_STATUS } };

    (void) state;
    answer_nbytes = 300 << 10;
    run(&asking);
    assert_int_equal(asking.result, 0);
    assert_true(rg_buf_nbytes(&asking.text) >= answer_nbytes);
    rg_buf_clear(&asking.text);
    answer_nbytes = 8 << 20;
    run(&asking);
    assert_int_equal(asking.result, 0);
    assert_string_equal(rg_buf_text(&asking.text), "{\"error\":\"too-long\"}");
    rg_buf_fini(&asking.text);
}

/* A launcher that is stopped: its queue is full, and it takes up later who was told so. */
static void who_was_told_that_nobody_answers_is_not_heard_later(void **state)
{
    struct rg_control_request request = { .question = RG_CONTROL_DRAIN, .host = "b" };
    struct asking asking = { .ask = ask_well, .request = { .question = RG_CONTROL_STATUS } };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int waiting[QUEUE];

    (void) state;
    heard = (struct rg_control_request){ 0 };
    assert_int_equal(rg_control_ask(job, &request, 1, &text), -ETIMEDOUT);
    for (int i = 0; i < QUEUE; i++)
        waiting[i] = connect_soon();
    assert_int_equal(rg_control_ask(job, &request, 1, &text), -ETIMEDOUT);
    for (int i = 0; i < QUEUE; i++) {
        if (waiting[i] >= 0)
            close(waiting[i]);
    }
    run(&asking);
    assert_int_equal(asking.result, 0);
    assert_int_equal(heard.question, RG_CONTROL_STATUS);
    assert_int_equal(nheard, 1);
    rg_buf_fini(&asking.text);
}

static void what_is_no_question_is_told_so(void **state)
{
    struct asking asking = { .ask = ask_in_another_language };

    (void) state;
    run(&asking);
    assert_int_equal(asking.result, 0);
    assert_string_equal(rg_buf_text(&asking.text), "{\"error\":\"version\"}");
    rg_buf_fini(&asking.text);
}

static void who_says_nothing_keeps_nobody_out(void **state)
{
    struct asking asking = { .ask = ask_well, .request = { .question = RG_CONTROL_STATUS } };
    int silent[SILENT];

    (void) state;
    for (int i = 0; i < SILENT; i++)
        silent[i] = connect_to_it();
    run(&asking);
    assert_int_equal(asking.result, 0);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    rg_buf_fini(&asking.text);
}

static void a_job_has_one_launcher_and_none_when_it_is_over(void **state)
{
    struct rg_control_request request = { .question = RG_CONTROL_STATUS };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_control *other = NULL;

    (void) state;
    assert_int_equal(rg_control_listen(loop, job, answer, &heard, &other), -EADDRINUSE);
    assert_null(other);
    rg_control_close(control);
    control = NULL;
    assert_int_equal(rg_control_ask(job, &request, TIMEOUT_MS, &text), -ECONNREFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_question_and_all_that_it_says_is_answered, begin, end),
        cmocka_unit_test_setup_teardown(who_has_a_loop_need_not_wait, begin, end),
        cmocka_unit_test_setup_teardown(a_long_answer_comes_whole_or_not_at_all, begin, end),
        cmocka_unit_test_setup_teardown(who_was_told_that_nobody_answers_is_not_heard_later, begin,
                                        end),
        cmocka_unit_test_setup_teardown(what_is_no_question_is_told_so, begin, end),
        cmocka_unit_test_setup_teardown(who_says_nothing_keeps_nobody_out, begin, end),
        cmocka_unit_test_setup_teardown(a_job_has_one_launcher_and_none_when_it_is_over, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
