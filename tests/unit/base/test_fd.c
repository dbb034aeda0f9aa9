/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "unit.h"

static int make_dir(void **state)
{
    char path[] = "/tmp/reigen-fd-XXXXXX";

    if (!mkdtemp(path))
        return -1;
    *state = strdup(path);
    return 0;
}

static int remove_dir(void **state)
{
    rg_autofree char *command = rg_strf("rm -rf '%s'", (char *) *state);

    int rc = system(command);

    free(*state);
    return rc;
}

static void write_text(const char *path, const char *text)
{
    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(rg_write_all(fd, text, strlen(text)), 0);
}

static void pipes_and_pairs_close_on_exec(void **state)
{
    int fds[4];

    (void) state;
    assert_int_equal(rg_pipe(fds), 0);
    assert_int_equal(rg_socketpair(fds + 2), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(rg_fd_set_nonblock(fds[0], true), 0);
    assert_int_equal(read(fds[0], &fds[1], 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(rg_fd_set_nonblock(fds[0], false), 0);
    assert_int_equal(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    assert_int_equal(rg_fd_set_nonblock(fds[0], true), -EBADF);
}

static void read_all_reports_an_early_end(void **state)
{
    char text[8] = "";
    int fds[2];

    (void) state;
    assert_int_equal(rg_pipe(fds), 0);
    assert_int_equal(rg_write_all(fds[1], "abcd", 4), 0);
    assert_int_equal(rg_read_all(fds[0], text, 3), 0);
    assert_string_equal(text, "abc");
    close(fds[1]);
    assert_int_equal(rg_read_all(fds[0], text, 2), -EPIPE);
    close(fds[0]);
    assert_int_equal(rg_read_all(fds[0], text, 2), -EBADF);
}

static void whole_file_is_read_up_to_its_cap(void **state)
{
    rg_autofree char *path = rg_strf("%s/file", (char *) *state);
    rg_autofree char *text = NULL;
    char *untouched = (char *) 1;
    size_t nbytes;

    write_text(path, "hello");
    assert_int_equal(rg_read_file(path, 5, &text, &nbytes), 0);
    assert_int_equal(nbytes, 5);
    assert_string_equal(text, "hello");
    assert_int_equal(rg_read_file(path, 4, &untouched, &nbytes), -EFBIG);
    assert_int_equal(rg_read_file("/rg-not-there", 4, &untouched, NULL), -ENOENT);
    assert_int_equal(rg_read_file(*state, 4, &untouched, NULL), -EISDIR);
    assert_ptr_equal(untouched, (char *) 1);
}

static void a_byte_order_mark_is_no_part_of_a_text(void **state)
{
    static const char *const texts[][2] = { { "\xef\xbb\xbfhost\r\n", "host\r\n" },
                                            { "\xef\xbb\xbf", "" }, { "\xef\xbb", "\xef\xbb" },
                                            { "a\xef\xbb\xbf", "a\xef\xbb\xbf" } };
    rg_autofree char *path = rg_strf("%s/named", (char *) *state);
    struct rg_error err = RG_ERROR_INIT;

    for (size_t i = 0; i < rg_array_len(texts); i++) {
        rg_autofree char *text = NULL;
        size_t nbytes;
        write_text(path, texts[i][0]);
        assert_int_equal(rg_read_named("host file", path, 100, &text, &nbytes, &err), 0);
        assert_string_equal(text, texts[i][1]);
        assert_int_equal(nbytes, strlen(texts[i][1]));
    }
    unlink(path);
}

static void nothing_but_a_regular_file_is_opened(void **state)
{
    rg_autofree char *path = rg_strf("%s/plain", (char *) *state);
    rg_autofree char *link = rg_strf("%s/link", (char *) *state);
    rg_autofree char *fifo = rg_strf("%s/fifo", (char *) *state);
    rg_autofree char *text = NULL, *untouched = NULL;
    size_t nbytes;

    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(rg_write_all(fd, "a\0b", 3), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(rg_read_regular(link, true, 3, &text, &nbytes), 0);
    assert_int_equal(nbytes, 3);
    assert_memory_equal(text, "a\0b", 4);
    assert_int_equal(rg_read_regular(link, false, 3, &untouched, &nbytes), -EINVAL);
    assert_int_equal(rg_read_regular(path, false, 2, &untouched, &nbytes), -EFBIG);
    assert_int_equal(rg_read_regular(fifo, true, 3, &untouched, NULL), -EINVAL);
    assert_int_equal(rg_read_regular(*state, true, 3, &untouched, NULL), -EINVAL);
    assert_int_equal(rg_read_regular("/rg-not-there", true, 3, &untouched, NULL), -ENOENT);
    assert_null(untouched);
    unlink(path);
    unlink(link);
    unlink(fifo);
}

static void files_without_a_size_are_read(void **state)
{
    rg_autofree char *text = NULL;

    (void) state;
    assert_int_equal(rg_read_file("/proc/self/status", 1 << 20, &text, NULL), 0);
    assert_contains(text, "Pid:");
}

static void large_file_is_read_whole(void **state)
{
    rg_autofree char *path = rg_strf("%s/large", (char *) *state);
    rg_autofree char *expected = malloc(300001);
    rg_autofree char *text = NULL;
    size_t nbytes;

    memset(expected, 'x', 300000);
    expected[300000] = '\0';
    write_text(path, expected);
    assert_int_equal(rg_read_file(path, 300000, &text, &nbytes), 0);
    assert_int_equal(nbytes, 300000);
    assert_string_equal(text, expected);
}

static void directories_are_made_with_parents(void **state)
{
    rg_autofree char *path = rg_strf("%s//a/b/c/", (char *) *state);
    struct rg_error err = RG_ERROR_INIT;
    struct stat st;

    assert_int_equal(rg_mkdir_all(path, 0755, &err), 0);
    assert_int_equal(rg_mkdir_all(path, 0755, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(rg_mkdir_all("/", 0755, &err), 0);
    assert_int_equal(rg_mkdir_all("", 0755, &err), -ENOENT);
}

static void file_in_the_way_is_named(void **state)
{
    rg_autofree char *file = rg_strf("%s/file", (char *) *state);
    rg_autofree char *path = rg_strf("%s/x/y", file);
    struct rg_error err = RG_ERROR_INIT;

    write_text(file, "");
    assert_int_equal(rg_mkdir_all(path, 0755, &err), -ENOTDIR);
    assert_contains(err.text, file);
}

static void a_network_s_or_unknown_file_system_is_not_local(void **state)
{
    rg_autoclose int disk = open((char *) *state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rg_autoclose int memory = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rg_autoclose int other = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(disk >= 0 && rg_fd_is_local(disk));
    assert_true(memory >= 0 && rg_fd_is_local(memory));
    assert_true(other >= 0 && !rg_fd_is_local(other));
    assert_false(rg_fd_is_local(-1));
}

static void accepting_pauses_while_there_is_no_descriptor(void **state)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t nbytes = sizeof(sa_family_t); /* the kernel finds a name */
    struct rg_acceptor acceptor = { 0, false };
    struct rlimit limit, none;
    rg_autoclose int server = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    rg_autoclose int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    rg_autoclose int fd = -1;
    bool tell = true;

    (void) state;
    assert_int_equal(bind(server, (struct sockaddr *) &address, nbytes), 0);
    assert_int_equal(listen(server, 4), 0);
    assert_int_equal(rg_accept(&acceptor, server, &tell), -EAGAIN);
    assert_false(tell || rg_accept_pauses(&acceptor));
    nbytes = sizeof(address);
    assert_int_equal(getsockname(server, (struct sockaddr *) &address, &nbytes), 0);
    assert_int_equal(connect(client, (struct sockaddr *) &address, nbytes), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){ 0, limit.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(rg_accept(&acceptor, server, &tell), -EMFILE);
    assert_true(tell && acceptor.resume_ns > rg_now_ns() - RG_NS_PER_MS * 1000);
    acceptor.resume_ns = 1; /* over */
    assert_int_equal(rg_accept(&acceptor, server, &tell), -EMFILE);
    assert_false(tell);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    acceptor.resume_ns = UINT64_MAX;
    assert_true(rg_accept_pauses(&acceptor));
    assert_int_equal(rg_accept(&acceptor, server, &tell), -EMFILE);
    acceptor.resume_ns = 1;
    fd = rg_accept(&acceptor, server, &tell);
    assert_true(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    assert_false(rg_accept_pauses(&acceptor));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipes_and_pairs_close_on_exec),
        cmocka_unit_test(read_all_reports_an_early_end),
        cmocka_unit_test_setup_teardown(whole_file_is_read_up_to_its_cap, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_byte_order_mark_is_no_part_of_a_text, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(nothing_but_a_regular_file_is_opened, make_dir, remove_dir),
        cmocka_unit_test(files_without_a_size_are_read),
        cmocka_unit_test_setup_teardown(large_file_is_read_whole, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(directories_are_made_with_parents, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(file_in_the_way_is_named, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_network_s_or_unknown_file_system_is_not_local, make_dir,
                                        remove_dir),
        cmocka_unit_test(accepting_pauses_while_there_is_no_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
