/* SPDX-License-Identifier: Apache-2.0 */
/* A program knows where its file lies: by links, and after it has been removed. */
#include "base/process/self.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "unit.h"

/* Copies this program to path. */
static void copy_to(const char *path)
{
    rg_autofree char *data = NULL;
    size_t nbytes;

    assert_int_equal(rg_read_file(RG_SELF, 1 << 30, &data, &nbytes), 0);
    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    assert_int_equal(rg_write_all(fd, data, nbytes), 0);
}

/* What the program says of itself when it is started by this name, and removes remove before. */
static void asked(const char *program, const char *remove, char ret_text[PATH_MAX])
{
    int fds[2];

    assert_int_equal(rg_pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], 1);
        execl(program, program, "where", remove, NULL);
        _exit(127);
    }
    close(fds[1]);
    rg_autofree char *text = NULL;
    assert_int_equal(rg_read_fd(fds[0], PATH_MAX, &text, NULL), 0);
    close(fds[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    strcpy(ret_text, text);
}

static int say_where(const char *remove)
{
    char path[PATH_MAX];

    if ((remove && unlink(remove) < 0) || rg_self_path(path) < 0)
        return 1;
    return rg_write_all(1, path, strlen(path)) < 0;
}

static void the_path_is_that_of_the_file(void **state)
{
    (void) state;
    char path[PATH_MAX], folder[PATH_MAX];
    struct stat named, own;

    assert_int_equal(rg_self_path(path), 0);
    assert_int_equal(stat(path, &named), 0);
    assert_int_equal(stat(RG_SELF, &own), 0);
    assert_true(path[0] == '/' && named.st_ino == own.st_ino && named.st_dev == own.st_dev);
    assert_int_equal(rg_self_folder(folder), 0);
    *strrchr(path, '/') = '\0';
    assert_string_equal(folder, path);
}

static void links_and_a_removed_file(void **state)
{
    (void) state;
    char made[] = "/tmp/rg-self-XXXXXX", text[PATH_MAX], folder[PATH_MAX];

    assert_non_null(mkdtemp(made));
    assert_non_null(realpath(made, folder));
    rg_autofree char *program = rg_strf("%s/program", folder);
    rg_autofree char *marked = rg_strf("%s/program (deleted)", folder);
    rg_autofree char *link = rg_strf("%s/link", folder);
    copy_to(program);
    copy_to(marked);
    assert_int_equal(symlink("program", link), 0);
    asked(link, NULL, text);
    assert_string_equal(text, program);
    asked(marked, NULL, text); /* a name is no sign that it is gone */
    assert_string_equal(text, marked);
    assert_int_equal(unlink(marked), 0);
    asked(program, program, text);
    assert_string_equal(text, program);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "where") == 0)
        return say_where(argc > 2 ? argv[2] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_is_that_of_the_file),
        cmocka_unit_test(links_and_a_removed_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
