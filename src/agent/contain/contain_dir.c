/* SPDX-License-Identifier: Apache-2.0 */
/* Where a container's start keeps what it needs on the host: a directory for each job, whose lock
 * says that somebody still uses it. What has none was left by a start that was killed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "agent/contain/contain.h"
#include "agent/store/store.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/self.h"

#define PROGRAM_MAX (64u << 20) /* bytes of our own program, debug builds included */
#define REMOVE_MS 10000

/* --- where ----------------------------------------------------------------------------------- */

/* On a disk: $XDG_RUNTIME_DIR is memory. */
void rg_contain_find_images(struct rg_contain *contain)
{
    const char *cache = getenv("ENROOT_CACHE_PATH");
    const size_t max = sizeof(contain->images);
    char *path = contain->images;

    contain->host.image_dir = path;
    if (cache && *cache == '/' && mkdir(cache, 0700) < 0 && errno != EEXIST)
        cache = NULL;
    if (cache && *cache == '/' && snprintf(path, max, "%s/reigen", cache) < (int) max &&
        rg_store_is_ours(path))
        return;
    snprintf(path, max, "/var/tmp/reigen-%u", (unsigned) geteuid());
    if (!rg_store_is_ours(path))
        snprintf(path, max, "%.*s", (int) max - 8, contain->base);
    strcat(path, "/images");
    mkdir(path, 0700);
}

int rg_contain_find_base(struct rg_contain *contain, struct rg_error *err)
{
    /* The home comes last: on a network's disk a daemon that runs as root may not enter it. */
    for (enum rg_store_place place = 0; place < RG_STORE_PLACES; place++) {
        if (rg_store_place(place, contain->base, sizeof(contain->base)) &&
            rg_store_is_good(contain->base))
            return 0;
    }
    return rg_error_set_exit(err, EACCES, RG_EXIT_NO_PERMISSION,
                             "no directory for the container's agent: none of $XDG_RUNTIME_DIR, "
                             "/var/tmp, /tmp and ~/.cache can be written to and lets programs run");
}

/* --- removal --------------------------------------------------------------------------------- */

void rg_contain_remove_dir(struct rg_contain *contain)
{
    if (*contain->dir)
        rg_store_remove_tree(contain->dir);
    *contain->dir = '\0';
}

/* --- what others have left behind ------------------------------------------------------------ */

const char *rg_contain_id(const char *dir, const char *name, char *buf, size_t nbytes)
{
    char path[PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/" RG_CONTAINER_CID, dir);
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, buf, nbytes - 1);
    buf[n > 0 ? n : 0] = '\0';
    buf[strspn(buf, "0123456789abcdef")] = '\0';
    return *buf ? buf : name;
}

static void remove_container(const char *dir, const char *name)
{
    char id[RG_CONTAIN_ID_MAX + 1];
    char path[PATH_MAX + 16];
    rg_autofree char *program = NULL;
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;

    snprintf(path, sizeof(path), "%s/runtime", dir);
    if (rg_read_file(path, PATH_MAX, &program, NULL) < 0)
        return;
    program[strcspn(program, "\n")] = '\0';
    const char *slash = strrchr(program, '/');
    const struct rg_container_ops *ops = rg_container_find(slash ? slash + 1 : program);

    if (ops && ops->remove &&
        ops->remove(program, rg_contain_id(dir, name, id, sizeof(id)), &argv) == 0)
        rg_contain_do(&argv, REMOVE_MS);
}

/* In base, but not name. Returns how many jobs had left something. */
static int sweep_in(const char *base, const char *own)
{
    rg_autodir DIR *list = opendir(base);
    char dir[PATH_MAX], lock[PATH_MAX + 8];
    int count = 0;

    rg_store_sweep_bundles(base);
    /* On a network's disk, such as a home, another host may hold the lock that is free here. */
    bool known = list && rg_fd_is_local(dirfd(list));
    for (struct dirent *entry; known && (entry = readdir(list));) {
        const char *name = entry->d_name;
        if (strcmp(name, own) == 0 ||
            snprintf(dir, sizeof(dir), "%s/%s", base, name) >= (int) sizeof(dir))
            continue;
        if (!rg_str_starts(name, "reigen-"))
            continue;
        snprintf(lock, sizeof(lock), "%s/lock", dir);
        rg_autoclose int fd = open(lock, O_RDONLY | O_CLOEXEC);
        /* Without a lock it is one whose removal was cut short. */
        if (fd < 0 ? errno != ENOENT : flock(fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        remove_container(dir, name);
        rg_store_remove_tree(dir);
        count++;
    }
    return count;
}

void rg_contain_sweep(struct rg_contain *contain)
{
    sweep_in(contain->base, contain->name);
}

/* Not the home: on a network's disk a lock may be known to one host only. */
int rg_contain_sweep_all(void)
{
    char base[PATH_MAX];
    int count = 0;

    for (enum rg_store_place place = 0; place < RG_STORE_HOME; place++) {
        if (rg_store_place(place, base, sizeof(base)) && rg_store_is_private(base))
            count += sweep_in(base, "");
    }
    return count;
}

/* --- the job's ------------------------------------------------------------------------------- */

int rg_contain_write(const char *dir, const char *name, const void *data, size_t nbytes,
                     mode_t mode)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return rg_store_write(AT_FDCWD, path, data, nbytes, mode);
}

/* Our own program, and its other names, in a directory that holds nothing else: the cache may lie
 * where the container's runtime cannot see it. */
static int copy_program(const char *dir)
{
    char path[PATH_MAX];
    rg_autofree char *program = NULL;
    size_t nbytes;

    snprintf(path, sizeof(path), "%s/bin", dir);
    if (mkdir(path, 0755) < 0 || chmod(path, 0755) < 0)
        return -errno;
    int r = rg_read_file(RG_SELF, PROGRAM_MAX, &program, &nbytes);
    if (r < 0)
        return r;
    r = rg_contain_write(dir, "bin/reigen-agent", program, nbytes, 0755);
    static const char *const links[] = { "rsh", "ssh" };
    for (size_t i = 0; r == 0 && i < rg_array_len(links); i++) {
        snprintf(path, sizeof(path), "%s/bin/%s", dir, links[i]);
        if (symlink("reigen-agent", path) < 0)
            r = -errno;
    }
    return r;
}

const char *rg_contain_socket(const struct rg_contain *contain, char *buf, size_t nbytes)
{
    snprintf(buf, nbytes, "%s/run/" RG_CONTAINER_SOCKET, contain->dir);
    return buf;
}

/* Whoever runs inside must be able to call, and to write; the directory above keeps others out. */
static int listen_in(struct rg_contain *contain)
{
    struct sockaddr_un address;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/run", contain->dir);
    if (mkdir(path, 0700) < 0 || chmod(path, contain->container.user ? 0777 : 0700) < 0)
        return -errno;
    socklen_t length = rg_unix_address(rg_contain_socket(contain, path, sizeof(path)), &address);
    if (!length)
        return -ENAMETOOLONG;
    contain->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (contain->listen_fd < 0 ||
        bind(contain->listen_fd, (struct sockaddr *) &address, length) < 0 ||
        chmod(path, 0777) < 0 || listen(contain->listen_fd, 4) < 0)
        return -errno;
    return 0;
}

static int fill_dir(struct rg_contain *contain, const char *dir)
{
    char path[PATH_MAX];

    if (mkdir(dir, 0700) < 0)
        return -errno;
    snprintf(path, sizeof(path), "%s/lock", dir);
    contain->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (contain->lock_fd < 0 || flock(contain->lock_fd, LOCK_EX) < 0)
        return -errno;
    return copy_program(dir);
}

int rg_contain_make_dir(struct rg_contain *contain, struct rg_error *err)
{
    char fresh[sizeof(contain->dir)];

    /* Under its own name only once it is locked: what is not would be swept away. */
    snprintf(fresh, sizeof(fresh), "%s/.%s.%d", contain->base, contain->name, (int) getpid());
    snprintf(contain->dir, sizeof(contain->dir), "%s/%s", contain->base, contain->name);
    int r = fill_dir(contain, fresh);
    if (r == 0 && rename(fresh, contain->dir) < 0)
        r = -errno;
    if (r < 0) {
        rg_store_remove_tree(fresh);
        int errnum = -r == ENOTEMPTY ? EEXIST : -r;
        int code = errnum == EEXIST ? RG_EXIT_CONTAINER : RG_EXIT_UNAVAILABLE;
        rg_error_set_exit(err, errnum, code, "the directory of the job, %s: %s", contain->dir,
                          strerror(errnum));
        *contain->dir = '\0';
        return r;
    }
    r = listen_in(contain);
    return r < 0 ? rg_error_set_exit(err, -r, RG_EXIT_UNAVAILABLE,
                                     "the agent's socket in %s: %s", contain->dir,
                                     strerror(-r)) : 0;
}
