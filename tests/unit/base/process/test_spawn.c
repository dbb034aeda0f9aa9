/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/str.h"
#include "base/time.h"
#include "unit.h"

#define ARGV(...) ((char **) (const char *[]) { __VA_ARGS__, NULL })
#define WORDS(...) ((const char *[]) { __VA_ARGS__, NULL })

static char dir[64];

static int make_dir(void **state)
{
    (void) state;
    strcpy(dir, "/tmp/reigen-spawn-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    rg_autofree char *command = rg_strf("rm -rf '%s'", dir);

    (void) state;
    return system(command);
}

/* A file in dir with that text and mode; its path until the next call. */
static char *make_file(const char *name, const char *text, mode_t mode)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(rg_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

/* Run it with its standard output in a pipe; the text it wrote, and its wait status. */
static char *output_of(struct rg_spawn spec, int *ret_status)
{
    static char text[8192];
    struct rg_error err = RG_ERROR_INIT;
    size_t length = 0;
    ssize_t n;
    int fds[2];
    pid_t pid;

    assert_int_equal(rg_pipe(fds), 0);
    spec.fds[0] = -1;
    spec.fds[1] = fds[1];
    spec.fds[2] = 2;
    if (rg_spawn(&spec, &pid, &err) < 0)
        fail_msg("%s", err.text);
    close(fds[1]);
    while ((n = read(fds[0], text + length, sizeof(text) - 1 - length)) > 0)
        length += (size_t) n;
    text[length] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, ret_status, 0), pid);
    return text;
}

static void program_is_found_in_path_and_its_code_comes_back(void **state)
{
    struct rg_spawn spec = { .argv = ARGV("sh", "-c", "echo out; exit 7") };
    char text[64];
    int status;

    (void) state;
    assert_string_equal(output_of(spec, &status), "out\n");
    assert_int_equal(rg_status_code(status), 7);
    assert_string_equal(rg_status_text(status, text, sizeof(text)), "exit code 7");
}

static void death_by_signal_is_told_as_128_and_more(void **state)
{
    struct rg_spawn spec = { .argv = ARGV("sh", "-c", "kill -9 $$") };
    char text[64];
    int status;

    (void) state;
    output_of(spec, &status);
    assert_int_equal(rg_status_code(status), 137);
    assert_string_equal(rg_status_text(status, text, sizeof(text)), "signal 9 (Killed)");
}

static void check_failure(const struct rg_spawn *spec, int errnum, int exit_code, const char *part)
{
    struct rg_error err = RG_ERROR_INIT;
    pid_t pid = 42;

    assert_int_equal(rg_spawn(spec, &pid, &err), -errnum);
    assert_int_equal(err.exit_code, exit_code);
    assert_contains(err.text, part);
    assert_int_equal(pid, 42);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie is left */
}

static void missing_program_is_127(void **state)
{
    struct rg_spawn spec = { .argv = ARGV("reigen-no-such-program"), .fds = { -1, -1, -1 } };

    (void) state;
    check_failure(&spec, ENOENT, 127, "reigen-no-such-program: not found in PATH");
    spec.argv = ARGV("./reigen-no-such-program");
    check_failure(&spec, ENOENT, 127, "no such file");
    spec.argv = ARGV("/dev/null/x");
    check_failure(&spec, ENOENT, 127, "no such file");
    spec.argv = ARGV("");
    check_failure(&spec, EINVAL, 2, "without a name");
}

static void program_that_may_not_run_is_126(void **state)
{
    struct rg_spawn spec = { .fds = { -1, -1, -1 } };

    (void) state;
    spec.argv = ARGV(make_file("data", "#!/bin/sh\n", 0600));
    check_failure(&spec, EACCES, 126, "not executable");
    spec.argv = ARGV(make_file("run.sh", "#!/bin/sh\n", 0600));
    check_failure(&spec, EACCES, 126, "did you mean sh ");
    spec.argv = ARGV(dir);
    check_failure(&spec, EACCES, 126, "is a directory");
    spec.argv = ARGV(make_file("text", "no interpreter\n", 0700));
    check_failure(&spec, ENOEXEC, 126, "#! line");
}

static void missing_interpreter_is_told_apart(void **state)
{
    struct rg_spawn spec = { .fds = { -1, -1, -1 } };

    (void) state;
    spec.argv = ARGV(make_file("script", "#!/rg-not-there/python\n", 0700));
    check_failure(&spec, ENOENT, 127, "interpreter");
}

static void bad_working_directory_is_named(void **state)
{
    struct rg_spawn spec = { .argv = ARGV("true"), .fds = { -1, -1, -1 } };

    (void) state;
    spec.cwd = "/rg-not-there";
    check_failure(&spec, ENOENT, 2, "working directory /rg-not-there");
    spec.cwd = "/dev/null";
    check_failure(&spec, ENOTDIR, 2, "/dev/null");
}

static void path_is_that_of_the_childs_environment(void **state)
{
    rg_autofree char *path = rg_strf("PATH=/rg-not-there:%s:/bin:/usr/bin", dir);
    char *env[] = { path, (char *) "X=1", NULL };
    struct rg_spawn spec = { .argv = ARGV("mine"), .envp = env, .fds = { -1, -1, -1 } };
    int status;

    (void) state;
    check_failure(&spec, ENOENT, 127, "not found");
    make_file("mine", "#!/bin/sh\necho mine $X\n", 0700);
    assert_string_equal(output_of(spec, &status), "mine 1\n");
}

/* A directory of PATH that holds an unusable file does not hide the next one. */
static void path_goes_on_after_a_file_that_may_not_run(void **state)
{
    rg_autofree char *first = rg_strf("%s/first", dir);
    rg_autofree char *path = rg_strf("PATH=%s/first:%s", dir, dir);
    char *env[] = { path, NULL };
    struct rg_spawn spec = { .argv = ARGV("tool"), .envp = env, .fds = { -1, -1, -1 } };
    int status;

    (void) state;
    assert_int_equal(mkdir(first, 0700), 0);
    make_file("first/tool", "", 0600);
    check_failure(&spec, EACCES, 126, "not executable");
    make_file("tool", "#!/bin/sh\necho second\n", 0700);
    assert_string_equal(output_of(spec, &status), "second\n");
}

/* A folder in PATH that has the program's name is none of the programs. */
static void path_goes_on_after_a_directory(void **state)
{
    rg_autofree char *folder = rg_strf("%s/python", dir), *path = rg_strf("PATH=%s", dir);
    char *env[] = { path, NULL };
    struct rg_spawn spec = { .argv = ARGV("python"), .envp = env, .fds = { -1, -1, -1 } };

    (void) state;
    assert_int_equal(mkdir(folder, 0700), 0);
    check_failure(&spec, ENOENT, 127, "python: not found in PATH; give its path");
    make_file("python3", "#!/bin/sh\n", 0700);
    check_failure(&spec, ENOENT, 127, "not found in PATH, but python3 is there: say python3, or");
    assert_int_equal(rmdir(folder), 0);
    make_file("python", "#!/bin/sh\n", 0700);
    rg_autofree char *three = rg_strf("%s/python3", dir);
    assert_int_equal(unlink(three), 0);
    spec.argv = ARGV("python3");
    check_failure(&spec, ENOENT, 127, "but python is there: say python, or give the path");
}

static void relative_path_counts_from_the_new_directory(void **state)
{
    char *env[] = { (char *) "PATH=", NULL };
    struct rg_spawn spec = { .argv = ARGV("here"), .envp = env, .cwd = dir };
    int status;

    (void) state;
    make_file("here", "#!/bin/sh\necho here\n", 0700);
    assert_string_equal(output_of(spec, &status), "here\n");
}

static void descriptors_are_placed_even_when_they_cross(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    char text[128] = "";
    int out[2], in[2], status;
    pid_t pid;

    (void) state;
    assert_int_equal(rg_pipe(out), 0);
    assert_int_equal(rg_pipe(in), 0);
    /* The sources lie at the targets of others. */
    int saved[4];

    for (int i = 0; i < 4; i++)
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 20);
    int read_end = fcntl(out[0], F_DUPFD_CLOEXEC, 20);
    int write_end = fcntl(out[1], F_DUPFD_CLOEXEC, 20);
    int in_read = fcntl(in[0], F_DUPFD_CLOEXEC, 20);
    int in_write = fcntl(in[1], F_DUPFD_CLOEXEC, 20);

    dup2(write_end, 0);
    dup2(in_read, 1);
    dup2(in_write, 2);
    struct rg_spawn spec = {
        .argv = ARGV("sh", "-c", "read x; echo got $x; echo err >&2; echo three >&3"),
        .fds = { 1, 0, 0 }, .extra_fd = 0, .extra_fd_set = true,
    };

    fcntl(0, F_SETFD, FD_CLOEXEC);
    assert_int_equal(write(in_write, "word\n", 5), 5);
    int rc = rg_spawn(&spec, &pid, &err);

    for (int i = 0; i < 4; i++) {
        if (saved[i] >= 0)
            dup2(saved[i], i);
    }
    close(write_end);
    close(out[1]);
    assert_int_equal(rc, 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rg_read_all(read_end, text, strlen("got word\nerr\nthree\n")), 0);
    assert_string_equal(text, "got word\nerr\nthree\n");
    close(read_end);
    close(in_read);
    close(in_write);
}

static void our_descriptors_do_not_leak(void **state)
{
    struct rg_spawn spec = { .argv = ARGV("ls", "-1", "/proc/self/fd") };
    int status, fds[2];

    (void) state;
    assert_int_equal(rg_pipe(fds), 0);
    /* Descriptors inherited from who started the test are not ours. */
    for (int fd = 3; fd < 256; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    /* 3 is the directory that ls reads. */
    assert_string_equal(output_of(spec, &status), "0\n1\n2\n3\n");
    close(fds[0]);
    close(fds[1]);
}

static void signals_are_unblocked_and_default(void **state)
{
    struct rg_spawn spec = { .argv = ARGV("grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status") };
    unsigned long long blocked = 1, ignored = 1;
    sigset_t set, now;
    int status;

    (void) state;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(sscanf(output_of(spec, &status), "SigBlk: %llx SigIgn: %llx", &blocked,
                            &ignored), 2);
    assert_true(blocked == 0);
    /* 32 and 33 are the C library's: posix_spawn ignores them, and who started us may have used
     * it. */
    assert_true((ignored & ~(3ull << 31)) == 0);
    sigprocmask(SIG_UNBLOCK, &set, &now);
    assert_true(sigismember(&now, SIGTERM)); /* ours are as before */
    assert_false(sigismember(&now, SIGINT));
    signal(SIGPIPE, SIG_DFL);
}

static void session_and_group_are_the_childs_own(void **state)
{
    struct rg_spawn spec = { .argv = ARGV("cat", "/proc/self/stat") };
    static const char stat_format[] = "%d (cat) %*c %*d %d %d";
    int pid, pgid, sid, status;

    (void) state;
    spec.new_session = true;
    assert_int_equal(sscanf(output_of(spec, &status), stat_format, &pid, &pgid, &sid), 3);
    assert_int_equal(sid, pid);
    assert_int_equal(pgid, pid);
    spec.new_session = false;
    spec.new_group = true;
    assert_int_equal(sscanf(output_of(spec, &status), stat_format, &pid, &pgid, &sid), 3);
    assert_int_equal(pgid, pid);
    assert_int_equal(sid, getsid(0));
}

static void affinity_is_set(void **state)
{
    struct rg_spawn spec = { .argv = ARGV("grep", "Cpus_allowed_list", "/proc/self/status") };
    char expected[64];
    cpu_set_t all, one;
    int status, cpu = 0;

    (void) state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    spec.affinity = &one;
    snprintf(expected, sizeof(expected), "Cpus_allowed_list:\t%d\n", cpu);
    assert_string_equal(output_of(spec, &status), expected);
    CPU_ZERO(&one);
    spec.fds[0] = spec.fds[1] = spec.fds[2] = -1;
    check_failure(&spec, EINVAL, 0, "processors");
}

static void child_dies_with_its_parent(void **state)
{
    int fds[2], status;
    char byte;
    pid_t parent = -1;

    (void) state;
    assert_int_equal(rg_pipe(fds), 0);
    parent = fork();
    if (parent == 0) {
        struct rg_spawn spec = { .argv = ARGV("sleep", "infinity"), .fds = { -1, fds[1], -1 },
                                 .death_signal = SIGKILL };
        pid_t pid;

        _exit(rg_spawn(&spec, &pid, NULL) < 0);
    }
    close(fds[1]);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_int_equal(rg_status_code(status), 0);
    assert_int_equal(read(fds[0], &byte, 1), 0); /* the pipe ends with the child */
    close(fds[0]);
}

static void starting_many_is_quick(void **state)
{
    struct rg_spawn spec = { .argv = ARGV("true"), .fds = { -1, -1, -1 } };
    uint64_t best = UINT64_MAX;

    (void) state;
    for (int i = 0; i < 20; i++) {
        uint64_t start = rg_now_ns();
        pid_t pid;

        assert_int_equal(rg_spawn(&spec, &pid, NULL), 0);
        uint64_t took = rg_now_ns() - start;

        best = took < best ? took : best;
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    print_message("a start takes %llu us\n", (unsigned long long) best / 1000);
    assert_true(best < 50 * RG_NS_PER_MS); /* loose: sanitizers and busy machines */
}

static void what_a_program_says_is_captured_with_its_code(void **state)
{
    char text[16];

    (void) state;
    assert_int_equal(rg_capture(WORDS("sh", "-c", "echo in; echo err >&2; exit 3"), NULL, false,
                                10000, text, sizeof(text)), 3);
    assert_string_equal(text, "in\n");
    assert_int_equal(rg_capture(WORDS("sh", "-c", "echo in; echo err >&2"), NULL,
                                true, 10000, text, sizeof(text)), 0);
    assert_string_equal(text, "in\nerr\n");
    assert_int_equal(rg_capture(WORDS("sh", "-c", "yes | head -c 1000000"), NULL,
                                false, 10000, text, 4), 0);
    assert_string_equal(text, "y\ny"); /* the rest is read, so that it can end */
    assert_int_equal(rg_capture(WORDS("rg-no-such"), NULL, false, 10000, text,
                                sizeof(text)), -ENOENT);
    assert_string_equal(text, "");
}

/* It hangs with its output open, or closed, or writes for ever. */
static void a_program_that_does_not_end_is_killed(void **state)
{
    char text[16];

    (void) state;
    assert_int_equal(rg_capture(WORDS("sh", "-c", "echo in; sleep 60"), NULL,
                                false, 300, text, sizeof(text)), -ETIMEDOUT);
    assert_string_equal(text, "in\n");
    assert_int_equal(rg_capture(WORDS("sh", "-c", "exec >&- 2>&-; sleep 60"), NULL, false, 100,
                                text, sizeof(text)), -ETIMEDOUT);
    assert_int_equal(rg_capture(WORDS("yes"), NULL, false, 100, text, 4), -ETIMEDOUT);
    assert_string_equal(text, "y\ny");
}

static void who_holds_an_ended_programs_output_is_not_waited_for(void **state)
{
    char text[16];

    (void) state;
    assert_int_equal(rg_capture(WORDS("sh", "-c", "sleep 60 & echo $!; exit 4"), NULL, true, 10000,
                                text, sizeof(text)), 4);
    assert_true(atoi(text) > 1);
    assert_int_equal(kill((pid_t) atoi(text), SIGKILL), 0);
}

static void all_that_a_program_says_is_asked_for(void **state)
{
    rg_autofree char *text = NULL;

    (void) state;
    assert_int_equal(rg_spawn_ask(ARGV("sh", "-c", "echo 1234; exit 5"), 10000, 5, &text), 5);
    assert_string_equal(text, "1234\n");
    assert_int_equal(rg_spawn_ask(ARGV("echo", "12345"), 10000, 5, NULL), -EFBIG);
    assert_int_equal(rg_spawn_ask(ARGV("/rg-not-there"), 10000, 5, NULL), -ENOENT);
    assert_int_equal(rg_spawn_ask(ARGV("sleep", "60"), 10, 5, NULL), -ETIMEDOUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_is_found_in_path_and_its_code_comes_back),
        cmocka_unit_test(death_by_signal_is_told_as_128_and_more),
        cmocka_unit_test(missing_program_is_127),
        cmocka_unit_test_setup_teardown(program_that_may_not_run_is_126, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(missing_interpreter_is_told_apart, make_dir, remove_dir),
        cmocka_unit_test(bad_working_directory_is_named),
        cmocka_unit_test_setup_teardown(path_is_that_of_the_childs_environment, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(path_goes_on_after_a_file_that_may_not_run, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(path_goes_on_after_a_directory, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(relative_path_counts_from_the_new_directory, make_dir,
                                        remove_dir),
        cmocka_unit_test(descriptors_are_placed_even_when_they_cross),
        cmocka_unit_test(our_descriptors_do_not_leak),
        cmocka_unit_test(signals_are_unblocked_and_default),
        cmocka_unit_test(session_and_group_are_the_childs_own),
        cmocka_unit_test(affinity_is_set),
        cmocka_unit_test(child_dies_with_its_parent),
        cmocka_unit_test(starting_many_is_quick),
        cmocka_unit_test(what_a_program_says_is_captured_with_its_code),
        cmocka_unit_test(a_program_that_does_not_end_is_killed),
        cmocka_unit_test(who_holds_an_ended_programs_output_is_not_waited_for),
        cmocka_unit_test(all_that_a_program_says_is_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
