/* SPDX-License-Identifier: Apache-2.0 */
/* mpirun and scripts of the user's find reigen rsh and the list of hosts by files in one
 * directory of the job. */
#include "agent/store/jobdir.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/store/store.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/process/self.h"

#define YOUNG_S 60 /* an agent that has made its directory may not have named it yet */

void rg_jobdir_remove(struct rg_jobdir *dir)
{
    if (!*dir->path)
        return;
    int fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        rg_store_empty(fd);
    if (!dir->keep) {
        rmdir(dir->path);
        *strrchr(dir->path, '/') = '\0';
        rmdir(dir->path); /* fails while another job of this user has one */
    }
    if (dir->fd >= 0)
        close(rg_steal_fd(&dir->fd));
    *dir->path = '\0';
}

/* --- making ----------------------------------------------------------------------------------- */

/* Its agent was killed: the lock is free. Until it is locked it has another name, and its time. */
static bool is_left_behind(int fd, const char *name)
{
    struct stat st;

    if (rg_str_starts(name, "new-"))
        return fstat(fd, &st) == 0 && time(NULL) - st.st_mtime > YOUNG_S;
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static int sweep(const char *base)
{
    rg_autodir DIR *list = opendir(base);
    const struct dirent *entry;
    int count = 0;

    if (!list)
        return 0;
    /* On a network's disk, which TMPDIR may name, another host may hold what is free here. */
    while (rg_fd_is_local(dirfd(list)) && (entry = readdir(list))) {
        if (!rg_str_starts(entry->d_name, "job-") && !rg_str_starts(entry->d_name, "new-"))
            continue;
        rg_autoclose int fd = openat(dirfd(list), entry->d_name,
                                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || !is_left_behind(fd, entry->d_name))
            continue;
        rg_store_empty(dup(fd));
        count += unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR) == 0;
    }
    return count;
}

#define ROOTS getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"

static bool name_base(const char *root, char base[RG_JOBDIR_PATH_MAX])
{
    return root && *root == '/' &&
           snprintf(base, RG_JOBDIR_PATH_MAX, "%s/reigen-%u", root, (unsigned) geteuid()) <
               RG_JOBDIR_PATH_MAX - 16;
}

int rg_jobdir_sweep(void)
{
    const char *roots[] = { ROOTS };
    char base[RG_JOBDIR_PATH_MAX];
    int count = 0;

    for (size_t i = 0; i < rg_array_len(roots); i++) {
        if (!name_base(roots[i], base) || !rg_store_is_private(base))
            continue;
        int n = sweep(base);
        if (n)
            rmdir(base); /* fails while anything is in it */
        count += n;
    }
    return count;
}

/* Ours alone: who could write there could replace rsh. */
static bool make_base(const char *root, char base[RG_JOBDIR_PATH_MAX])
{
    if (!name_base(root, base) || (mkdir(base, 0700) < 0 && errno != EEXIST))
        return false;
    return rg_store_is_private(base);
}

/* Lock it, then give it the name by which others know that it is locked. */
static bool claim(struct rg_jobdir *dir)
{
    char name[RG_JOBDIR_PATH_MAX];

    dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd < 0)
        return false;
    if (flock(dir->fd, LOCK_EX | LOCK_NB) < 0) {
        close(rg_steal_fd(&dir->fd));
        return false; /* no locks there: nobody could tell whether it is used */
    }
    strcpy(name, dir->path);
    memcpy(strrchr(name, '/') + 1, "job", 3);
    if (rename(dir->path, name) == 0) {
        strcpy(dir->path, name);
        return true;
    }
    close(rg_steal_fd(&dir->fd));
    return false;
}

/* The base may vanish in between, as another agent removes it when it is empty. */
static bool make_in(const char *root, struct rg_jobdir *dir)
{
    char base[RG_JOBDIR_PATH_MAX];

    for (int attempt = 0; attempt < 3 && make_base(root, base); attempt++) {
        if (snprintf(dir->path, sizeof(dir->path), "%s/new-XXXXXX", base) < RG_JOBDIR_PATH_MAX &&
            mkdtemp(dir->path) && claim(dir))
            return true;
    }
    *dir->path = '\0';
    return false;
}

static int write_hosts(const struct rg_jobdir *dir, const struct rg_strv *hosts)
{
    rg_autobuf struct rg_buf openmpi = RG_BUF_INIT, mpich = RG_BUF_INIT;

    for (size_t i = 0; i < hosts->count; i++) {
        const char *colon = strrchr(hosts->v[i], ':');
        if (!colon)
            continue;
        rg_buf_printf(&openmpi, "%.*s slots=%s\n", (int) (colon - hosts->v[i]), hosts->v[i],
                      colon + 1);
        rg_buf_printf(&mpich, "%s\n", hosts->v[i]);
    }
    if (rg_buf_status(&openmpi) < 0 || rg_buf_status(&mpich) < 0)
        return -ENOMEM;
    int r = rg_store_write(dir->fd, "hosts", rg_buf_bytes(&openmpi), rg_buf_nbytes(&openmpi), 0600);
    return r < 0 ? r : rg_store_write(dir->fd, "hosts.mpich", rg_buf_bytes(&mpich),
                                      rg_buf_nbytes(&mpich), 0600);
}

static int fill(struct rg_jobdir *dir, const struct rg_strv *hosts)
{
    static const char *const links[] = { "rsh", "ssh", "reigen-rsh" };
    char agent[PATH_MAX];
    int r = rg_self_path(agent);

    if (r < 0)
        return r;
    if (dir->fd < 0)
        dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd < 0)
        return -errno;
    for (size_t i = 0; i < rg_array_len(links); i++) {
        unlinkat(dir->fd, links[i], 0);
        if (symlinkat(agent, dir->fd, links[i]) < 0)
            return -errno;
    }
    return write_hosts(dir, hosts);
}

static int fail(struct rg_jobdir *dir, int r, struct rg_error *err)
{
    rg_error_set(err, -r, "the job's directory %s: %s", dir->path, strerror(-r));
    rg_jobdir_remove(dir);
    return r;
}

/* The first that takes the files, too: one that is full may have room for a directory. */
static int choose(const struct rg_strv *hosts, struct rg_jobdir *dir, struct rg_error *err)
{
    const char *roots[] = { ROOTS };
    struct rg_error cause = RG_ERROR_INIT;

    rg_jobdir_sweep();

    for (size_t i = 0; i < rg_array_len(roots); i++) {
        if (!make_in(roots[i], dir))
            continue;
        int r = fill(dir, hosts);
        if (r == 0)
            return 0;
        fail(dir, r, &cause);
    }
    return rg_error_set(err, cause.errnum ? cause.errnum : EROFS,
                        "no directory for the job's files can be made in XDG_RUNTIME_DIR, TMPDIR, "
                        "/tmp, /var/tmp or /dev/shm%s%s%s: reigen rsh and REIGEN_HOSTFILE are not "
                        "there; make one of them writable, with room in it",
                        *cause.text ? " (" : "", cause.text, *cause.text ? ")" : "");
}

int rg_jobdir_make(const char *given, const struct rg_strv *hosts, struct rg_jobdir *ret_dir,
                   struct rg_error *err)
{
    struct rg_jobdir dir = RG_JOBDIR_INIT;
    int r;

    if (access(RG_SELF, F_OK) < 0)
        return rg_error_set(err, ENOENT, "/proc is not mounted here: reigen rsh and "
                            "REIGEN_HOSTFILE are not there, and processes that ranks leave behind "
                            "are not found; mount it");
    dir.keep = given != NULL;
    if (given) {
        snprintf(dir.path, sizeof(dir.path), "%s", given);
        r = fill(&dir, hosts);
        if (r < 0)
            fail(&dir, r, err);
    } else {
        r = choose(hosts, &dir, err);
    }
    if (r < 0)
        return r;
    *ret_dir = dir;
    return 0;
}

unsigned rg_jobdir_sshd_failed(const struct rg_jobdir *dir, char ret_host[RG_JOBDIR_HOST_MAX + 1])
{
    rg_autofree char *path = *dir->path ? rg_strf("%s/sshd-failed", dir->path) : NULL;
    rg_autofree char *text = NULL;

    if (!path || rg_read_file(path, 4096, &text, NULL) < 0)
        return 0;
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-");
    unsigned long port = strtoul(text + n, NULL, 10);
    if (n == 0 || n > RG_JOBDIR_HOST_MAX || text[n] != ' ' || port > UINT16_MAX)
        return 0;
    memcpy(ret_host, text, n);
    ret_host[n] = '\0';
    return (unsigned) port;
}

int rg_jobdir_env(const struct rg_jobdir *dir, struct rg_strv *env)
{
    if (!*dir->path)
        return 0;
    int r = rg_env_set(env, "REIGEN_JOB_DIR", dir->path);
    if (r == 0)
        r = rg_env_setf(env, "REIGEN_RSH", "%s/rsh", dir->path);
    return r < 0 ? r : rg_env_setf(env, "REIGEN_HOSTFILE", "%s/hosts", dir->path);
}
