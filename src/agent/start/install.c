/* SPDX-License-Identifier: Apache-2.0 */
/* What has to be checked of the cached agent is checked here, as hosts have few programs that a
 * script could use. */
#include "agent/start/install.h"

#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/process/self.h"

#define PREFIX "agent-"
#define DIGEST_DIGITS 16
#define PROGRAM_MAX (64u << 20)

/* In pieces: on a host of many nodes at once, memory for all of it costs more than the hash. */
static int hash_file(int fd, unsigned char hash[crypto_hash_sha256_BYTES])
{
    crypto_hash_sha256_state state;
    unsigned char bytes[16 << 10];
    size_t nbytes = 0;
    ssize_t n;

    crypto_hash_sha256_init(&state);
    while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
        nbytes += (size_t) n;
        if (nbytes > PROGRAM_MAX)
            return -EFBIG;
        crypto_hash_sha256_update(&state, bytes, (unsigned long long) n);
    }
    if (n < 0)
        return -errno;
    crypto_hash_sha256_final(&state, hash);
    return 0;
}

/* Does the program's digest begin as its name says? */
static int check_digest(const char *path, const char *name, struct rg_error *err)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof(hash) + 1];
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : hash_file(fd, hash);

    if (r < 0)
        return rg_error_set(err, -r, "%s cannot be read: %s", path, strerror(-r));
    sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 ||
        strlen(name) != strlen(PREFIX) + DIGEST_DIGITS ||
        strncmp(name + strlen(PREFIX), hex, DIGEST_DIGITS) != 0)
        return rg_error_set(err, EBADMSG, "the agent was damaged on its way there");
    return 0;
}

/* What others may write they may replace behind our back. */
static int check_owner(const char *dir, struct rg_error *err)
{
    struct stat st;

    if (lstat(dir, &st) < 0)
        return rg_error_set(err, errno, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return rg_error_set(err, ENOTDIR, "%s is no directory", dir);
    if (st.st_uid != geteuid())
        return rg_error_set(err, EPERM, "%s belongs to someone else", dir);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return rg_error_set(err, EPERM, "%s can be written by others", dir);
    return 0;
}

/* Other jobs and, with a shared home, other hosts do the same at the same time. A program that is
 * there and whole stays: other hosts may be running it, and a file server that sees it replaced
 * takes its pages from under them. */
static int put(const char *from, int dir_fd, const char *dir, const char *name)
{
    char there[PATH_MAX + 32];

    snprintf(there, sizeof(there), "%s/reigen-agent", dir);
    bool linked = linkat(AT_FDCWD, from, dir_fd, "reigen-agent", 0) == 0;
    if (linked || (errno == EEXIST && access(there, X_OK) == 0 &&
                   check_digest(there, name, NULL) == 0)) {
        unlink(from);
        return 0;
    }
    return renameat(AT_FDCWD, from, dir_fd, "reigen-agent") < 0 ? -errno : 0;
}

static int place(const char *from, const char *dir, const char *name, struct rg_error *err)
{
    char to[PATH_MAX];
    int n = snprintf(to, sizeof(to), "%s/%s", dir, name);

    if (n < 0 || n + 32 > (int) sizeof(to))
        return rg_error_set(err, ENAMETOOLONG, "%s: the name is too long", dir);
    if (mkdir(to, 0700) < 0 && errno != EEXIST)
        return rg_error_set(err, errno, "%s: %s", to, strerror(errno));
    int r = check_owner(to, err);
    if (r < 0)
        return r;
    rg_autoclose int fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = fd < 0 ? -errno : put(from, fd, to, name);
    if (r < 0)
        return rg_error_set(err, -r, "%s: %s", to, strerror(-r));
    if ((symlinkat("reigen-agent", fd, "rsh") < 0 && errno != EEXIST) ||
        (symlinkat("reigen-agent", fd, "ssh") < 0 && errno != EEXIST))
        return rg_error_set(err, errno, "%s: links: %s", to, strerror(errno));
    return 0;
}

int rg_agent_same(const char *name, struct rg_error *err)
{
    return check_digest(RG_SELF, name, err);
}

int rg_agent_install(const char *name, struct rg_error *err)
{
    char from[PATH_MAX], dir[PATH_MAX];

    if (rg_self_path(from) < 0)
        return rg_error_set(err, ENOENT, "there is no /proc");
    strcpy(dir, from);
    char *slash = strrchr(dir, '/');
    if (!slash || slash == dir)
        return rg_error_set(err, EINVAL, "%s is no cache directory", dir);
    *slash = '\0';
    int r = check_owner(dir, err);
    if (r == 0)
        r = check_digest(from, name, err);
    return r < 0 ? r : place(from, dir, name, err);
}
