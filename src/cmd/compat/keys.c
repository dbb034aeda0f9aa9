/* SPDX-License-Identifier: Apache-2.0 */
/* sshd and sshconfig both make keys by ssh-keygen, and read what it says when it fails. */
#include "cmd/compat/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/str.h"

#define FILE_MAX (1 << 20)

static int no_memory(const char *what, struct rg_error *err)
{
    return rg_error_set(err, ENOMEM, "%s: no memory", what);
}

char *rg_keys_look_up(const char *name)
{
    const char *path = getenv("PATH");
    rg_autofree char *places = rg_strf("%s:/usr/sbin:/usr/local/sbin:/sbin:/usr/bin",
                                       path ? path : "");

    for (char *rest = places, *dir; rest && (dir = strsep(&rest, ":"));) {
        rg_autofree char *file = *dir == '/' ? rg_strf("%s/%s", dir, name) : NULL;
        if (file && access(file, X_OK) == 0)
            return rg_steal_ptr(&file);
    }
    return NULL;
}

int rg_keys_run(const char *what, char *const *argv, struct rg_error *err)
{
    struct rg_spawn spec = { .argv = argv, .fds = { -1, 2, 2 } };
    pid_t pid;
    int status;

    int rc = rg_spawn(&spec, &pid, err);
    if (rc < 0)
        return rc;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!status)
        return 0;
    return rg_error_set(err, EIO, "%s: %s ended with %d; its message is above", what, argv[0],
                        rg_status_code(status));
}

/* A name where no key is: what is there, if anything, must not be replaced. A link leads to a place
 * that somebody has chosen, such as a volume that is not mounted. */
static int check_free(const char *what, const char *path, struct rg_error *err)
{
    struct stat st;

    if (lstat(path, &st) < 0 || S_ISREG(st.st_mode))
        return 0;
    return rg_error_set(err, EINVAL, "%s: %s is %s, and there is no key yet; remove it, or put the "
                        "key there", what, path,
                        S_ISLNK(st.st_mode) ? "a link" : "no ordinary file");
}

int rg_keys_make(const char *what, const char *keygen, const char *type, const char *bits,
                 const char *path, struct rg_error *err)
{
    rg_autofree char *fresh = rg_strf("%s.new-%d", path, (int) getpid());
    rg_autofree char *fresh_public = rg_strf("%s.new-%d.pub", path, (int) getpid());
    rg_autofree char *public = rg_strf("%s.pub", path);
    char *argv[] = { (char *) keygen, "-q", "-t", (char *) type, "-N", "", "-C", "reigen", "-f",
                     fresh, bits ? "-b" : NULL, (char *) bits, NULL };

    if (!fresh || !fresh_public || !public)
        return no_memory(what, err);
    int rc = check_free(what, path, err);

    rc = rc < 0 ? rc : check_free(what, public, err);
    if (rc < 0)
        return rc;
    unlink(fresh);
    rc = rg_keys_run(what, argv, err);
    /* Where the key is there, it is whole, and so is its other half. */
    if (rc == 0 && (rename(fresh_public, public) || rename(fresh, path)))
        rc = rg_error_set(err, errno, "%s: cannot write %s: %s", what, path, strerror(errno));
    if (rc < 0) {
        unlink(fresh);
        unlink(fresh_public);
    }
    return rc;
}

int rg_keys_public(const char *what, const char *path, char **ret_text, struct rg_error *err)
{
    rg_autofree char *file = rg_strf("%s.pub", path);
    rg_autofree char *text = NULL;
    int rc = file ? rg_read_file(file, FILE_MAX, &text, NULL) : -ENOMEM;

    if (rc < 0)
        return rg_error_set(err, -rc, "%s: cannot read %s: %s (ssh-keygen -y -f %s prints it)",
                            what, file ? file : path, strerror(-rc), path);
    size_t type = strcspn(text, " \n");
    size_t blank = strspn(text + type, " ");
    size_t blob = strcspn(text + type + blank, " \n");
    if (!type || !blob)
        return rg_error_set(err, EINVAL, "%s: %s is not a public key (ssh-keygen -y -f %s prints "
                            "it)", what, file, path);
    char *key = rg_strf("%.*s", (int) (type + blank + blob), text);
    if (!key)
        return no_memory(what, err);
    *ret_text = key;
    return 0;
}

int rg_keys_add_line(const char *what, const char *path, const char *line, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    size_t nbytes = 0;

    if (!path || !line)
        return no_memory(what, err);
    int rc = rg_read_file(path, FILE_MAX, &text, &nbytes);
    if (rc < 0 && rc != -ENOENT)
        return rg_error_set(err, -rc, "%s: cannot read %s: %s", what, path, strerror(-rc));
    if (rc >= 0 && strstr(text, line))
        return 0;
    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    bool open_end = rc >= 0 && nbytes && text[nbytes - 1] != '\n';
    rg_autofree char *whole = rg_strf("%s%s reigen\n", open_end ? "\n" : "", line);
    rc = fd < 0 ? -errno : whole ? rg_write_all(fd, whole, strlen(whole)) : -ENOMEM;
    if (rc < 0)
        return rg_error_set(err, -rc, "%s: cannot write %s: %s", what, path, strerror(-rc));
    return 1;
}

int rg_keys_lock(const char *dir, const char *name)
{
    rg_autofree char *path = rg_strf("%s/%s", dir, name);
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

    while (fd >= 0 && flock(fd, LOCK_EX) && errno == EINTR)
        ;
    return fd;
}
