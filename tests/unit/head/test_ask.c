/* SPDX-License-Identifier: Apache-2.0 */
/* The program beside a head is another process, and so it is here. */
#include "unit.h"

#include <sys/wait.h>

#include "base/fd.h"
#include "base/str.h"
#include "head/ask.h"
#include "launch/control/control.h"

static struct rg_loop *loop;

static void answer(void *arg, const struct rg_control_request *request, struct rg_buf *text)
{
    assert_int_equal(request->question, RG_CONTROL_RECORD);
    rg_buf_printf(text, "%s", (const char *) arg);
}

static void on_ended(void *arg, pid_t pid, int status)
{
    (void) pid;
    *(int *) arg = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    rg_loop_stop(loop);
}

/* What `reigen-agent record` writes where the head answers so; the caller's. */
static char *record_of(const char *answered, int *ret_code)
{
    struct rg_control *control;
    struct rg_child child = { 0 };
    char job[64], *text = NULL;
    int fds[2];

    snprintf(job, sizeof(job), "test-ask-%d", (int) getpid());
    assert_int_equal(rg_loop_create(&loop), 0);
    assert_int_equal(rg_control_listen(loop, job, answer, (void *) (uintptr_t) answered, &control),
                     0);
    assert_int_equal(rg_pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(dup2(fds[1], 1) == 1 ? rg_head_record_main(job) : 99);
    close(fds[1]);
    rg_child_start(&child, loop, pid, on_ended, ret_code);
    rg_loop_run(loop);
    assert_int_equal(rg_read_fd(fds[0], 4096, &text, NULL), 0);
    close(fds[0]);
    rg_control_close(control);
    rg_loop_destroy(loop);
    return text;
}

static void check_told(const char *answered, const char *told)
{
    int code = -1;
    rg_autofree char *text = record_of(answered, &code);
    rg_autofree char *line = rg_strf(RG_HEAD_RECORD_NONE "%s", told);

    assert_int_equal(code, 69);
    assert_contains(text, line);
}

static void why_there_is_no_record_is_told(void **state)
{
    (void) state;
    check_told("{\"error\":\"unrecorded\"}",
               "it has no record, or its folder is not there any more");
    check_told("{\"error\":\"version\"}", "its head is of another version of Reigen");
    check_told("{\"error\":\"fixed\"}", "its head is of another version of Reigen");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(why_there_is_no_record_is_told) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
