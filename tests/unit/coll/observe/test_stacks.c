/* SPDX-License-Identifier: Apache-2.0 */
/* A function stands for what an interpreter would write. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/observe/process.h"
#include "coll/observe/stacks.h"
#include "unit.h"
#include "wait.h"

#define OWN "/py/reigen:/py/horovod"
#define OTHERS "/usr/lib/python3.11:/usr/lib/python3/dist-packages"

static const char text_of_three[] =
    "Thread 0x00000000000000aa [worker] (most recent call first):\n"
    "  File \"/usr/lib/python3.11/threading.py\", line 320 in wait\n"
    "  File \"/data/a/pool.py\", line 8 in work\n"
    "\n"
    "Thread 0x00000000000000bb (most recent call first):\n"
    "  <no Python frame>\n"
    "\n"
    "Current thread 0x00000000000000cc (most recent call first):\n"
    "  File \"/py/reigen/_handles.py\", line 12 in wait\n"
    "  File \"/py/horovod/torch/mpi_ops.py\", line 90 in synchronize\n"
    "  File \"/data/a/tr\", line 7 in.py\", line 41 in step\n"
    "  File \"<string>\", line 1 in <module>\n";

static void assert_place(const char *text, unsigned long ident, const char *expected)
{
    char copy[4096], place[256];

    snprintf(copy, sizeof(copy), "%s", text);
    rg_stacks_parse(copy, ident, OWN, OTHERS, place, sizeof(place));
    assert_string_equal(place, expected);
}

static void the_first_line_of_the_user_is_found(void **state)
{
    (void) state;
    assert_place(text_of_three, 0xcc, "/data/a/tr\", line 7 in.py:41 in step");
    assert_place(text_of_three, 0xaa, "/data/a/pool.py:8 in work (not the main thread), which "
                                      "calls /usr/lib/python3.11/threading.py:320 in wait");
    /* A thread without a stack, and one that is none of Python's: the main one. */
    assert_place(text_of_three, 0xbb, "/data/a/tr\", line 7 in.py:41 in step");
    assert_place(text_of_three, 0, "/data/a/tr\", line 7 in.py:41 in step");
}

static void broken_stacks_give_what_there_is(void **state)
{
    (void) state;
    assert_place("", 1, "");
    assert_place("Thread 0x1\n  File \"a.py\", lin", 1, "");
    assert_place("unable to get the interpreter state\n", 1, "");
    assert_place("Thread 0x1\n  File \"a.py\", line \n  File \"", 1, "a.py:0 in ?");
    assert_place("  File \"/usr/lib/python3.11/x.py\", line 3 in f\n", 1,
                 "/usr/lib/python3.11/x.py:3 in f");
}

static int fd;
static int (*volatile unmapped) = (int *) 8;

static void write_stack(int signum)
{
    static const char text[] = "Thread 0x1\n  File \"train.py\", line 41 in load_batch\n";

    (void) signum;
    if (write(fd, text, strlen(text)) < 0)
        _exit(2);
}

static void die(int signum)
{
    write_stack(signum);
    *unmapped = signum;
}

static void hang(int signum)
{
    (void) signum;
    for (;;)
        pause();
}

static void handle(int signum, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler };

    assert_int_equal(sigaction(signum, &action, NULL), 0);
}

static void assert_read(int signum, void (*handler)(int), const char *expected)
{
    char place[256];

    handle(signum, handler);
    assert_int_equal(rg_stacks_use(signum, OWN, OTHERS), 0);
    rg_stacks_place(pthread_self(), place, sizeof(place));
    assert_string_equal(place, expected);
}

static void a_stack_is_read_without_a_signal_and_survives_its_reader(void **state)
{
    int signum = 0, named = SIGUSR1, used = SIGUSR2;
    char place[256];
    FILE *file = tmpfile();
    int own, saved;

    (void) state;
    assert_non_null(file);
    handle(SIGUSR2, hang);
    handle(SIGRTMAX - 4, hang);
    assert_int_equal(rg_stacks_file(&used), -EBUSY);
    fd = rg_stacks_file(&signum);
    assert_true(fd >= 0 && signum == SIGRTMAX - 5);
    assert_int_equal(rg_stacks_file(&named), fd);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(rg_stacks_use(signum, OWN, OTHERS), -EINVAL); /* nothing is registered */
    assert_read(signum, write_stack, "train.py:41 in load_batch");
    assert_read(signum, hang, "");
    assert_read(signum, die, "train.py:41 in load_batch");
    assert_read(signum, write_stack, "train.py:41 in load_batch");
    /* Nobody has to wait for these processes, and no child of the program is taken. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    /* The program has closed what it does not know, and has a file of its own in that place. */
    own = fileno(file);
    assert_int_equal(write(own, "kept", 4), 4);
    saved = dup(fd);
    assert_int_equal(dup2(own, fd), fd);
    rg_stacks_place(pthread_self(), place, sizeof(place));
    assert_string_equal(place, "");
    assert_int_equal(lseek(own, 0, SEEK_END), 4);
    assert_int_equal(dup2(saved, fd), fd);
    assert_read(signum, write_stack, "train.py:41 in load_batch");
    fclose(file);
    close(saved);
    /* The program takes the signal for itself. */
    handle(signum, hang);
    rg_stacks_place(pthread_self(), place, sizeof(place));
    assert_string_equal(place, "");
    assert_int_equal(rg_stacks_use(0, NULL, NULL), 0);
}

/* What the main thread waits in, as seen by another one, which then ends that wait. */
struct look {
    int pipe[2];
    char call[256];
};

static bool reads_a_pipe(struct look *look)
{
    rg_proc_call_read(getpid(), look->call, sizeof(look->call));
    return strncmp(look->call, "read(pipe:", 10) == 0;
}

static void *look_at_main(void *arg)
{
    struct look *look = arg;

    unit_until(reads_a_pipe(look), "the main thread in read");
    if (write(look->pipe[1], "x", 1) != 1)
        close(look->pipe[1]);
    return NULL;
}

static void the_call_of_the_main_thread_is_named(void **state)
{
    struct look look;
    pthread_t thread;
    char byte;

    (void) state;
    assert_int_equal(pipe(look.pipe), 0);
    assert_int_equal(pthread_create(&thread, NULL, look_at_main, &look), 0);
    assert_int_equal(read(look.pipe[0], &byte, 1), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(strncmp(look.call, "read(pipe:", 10), 0);
    close(look.pipe[0]);
    close(look.pipe[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_line_of_the_user_is_found),
        cmocka_unit_test(broken_stacks_give_what_there_is),
        cmocka_unit_test(a_stack_is_read_without_a_signal_and_survives_its_reader),
        cmocka_unit_test(the_call_of_the_main_thread_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
