/* SPDX-License-Identifier: Apache-2.0 */
/* A copy goes with its job, but for what ranks wrote into it. Neither a link nor a mount in it
 * leads out: each directory is opened below the one that holds it. */
#include "agent/sync/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/store/store.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

#define DEPTH_MAX 400 /* of directories, each with a descriptor; what is deeper stays */
#define FRESH_S 3600
#define KEPT_S (RG_SYNC_KEPT_DAYS * 24 * 3600)
#define CACHED "__pycache__" /* Python makes what is in it again */

struct tidy {
    bool all;              /* nothing is kept */
    struct timespec from, since; /* what is newer is, or older than the copy: it was moved there */
    uint64_t count, nbytes;
    char first[PATH_MAX];
    char path[PATH_MAX];   /* of the directory that is being emptied, with a slash; or "" */
};

static void empty(struct tidy *tidy, int take_fd, int depth, bool cached);

static void keep(struct tidy *tidy, const char *name, uint64_t nbytes)
{
    if (tidy->count++ == 0)
        snprintf(tidy->first, sizeof(tidy->first), "%.*s%s", PATH_MAX - 300, tidy->path, name);
    tidy->nbytes += nbytes;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

static void remove_dir(struct tidy *tidy, int dir_fd, const char *name, int depth)
{
    size_t length = strlen(tidy->path);

    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
        return;
    int fd = errno == EBUSY      ? -EBUSY /* a mount, also where openat2 is missing */
             : depth < DEPTH_MAX ? rg_store_open_below(dir_fd, name)
                                 : -EMFILE;
    if (fd >= 0) {
        if (tidy->all)
            fchmod(fd, 0700); /* ranks may have made it read-only */
        snprintf(tidy->path + length, sizeof(tidy->path) - length, "%s/", name);
        empty(tidy, fd, depth + 1, strcmp(name, CACHED) == 0);
        tidy->path[length] = '\0';
    } else if (fd != -ENOENT) {
        keep(tidy, name, 0);
    }
    unlinkat(dir_fd, name, AT_REMOVEDIR); /* fails where something was kept */
}

static void remove_entry(struct tidy *tidy, int dir_fd, const char *name, int depth, bool cached)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISDIR(st.st_mode)) {
        remove_dir(tidy, dir_fd, name, depth);
        return;
    }
    if (!tidy->all && !*tidy->path && strcmp(name, RG_SYNC_STAMP) == 0)
        return; /* it goes last */
    bool holds = (S_ISREG(st.st_mode) && !cached) || S_ISLNK(st.st_mode);
    if (!tidy->all && holds &&
        (is_newer(&st.st_ctim, &tidy->since) || is_newer(&tidy->from, &st.st_ctim)))
        keep(tidy, name, S_ISREG(st.st_mode) ? (uint64_t) st.st_size : 0);
    else if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
        keep(tidy, name, 0);
}

static void empty(struct tidy *tidy, int take_fd, int depth, bool cached)
{
    rg_autodir DIR *dir = fdopendir(take_fd);

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_entry(tidy, take_fd, entry->d_name, depth, cached);
    }
    if (!dir)
        close(take_fd);
}

void rg_sync_remove(int base_fd, const char *name)
{
    static struct tidy tidy;

    tidy = (struct tidy){ .all = true };
    remove_dir(&tidy, base_fd, name, 0);
}

/* All of a folder, as ranks may write beside the copy, too ("../out"). Without a stamp no rank has
 * seen it, unless it is known to be complete: then all is kept. */
static void tidy_folder(int base_fd, const char *name, bool complete, struct tidy *tidy)
{
    rg_autoclose int fd = rg_store_open_below(base_fd, name);
    struct stat st;

    *tidy = (struct tidy){ .all = !complete };
    if (fd < 0)
        return;
    if (fstatat(fd, RG_SYNC_STAMP, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        tidy->all = false;
        tidy->from = st.st_mtim;
        tidy->since = st.st_ctim;
    }
    empty(tidy, dup(fd), 0, false);
    if (tidy->count)
        return;
    unlinkat(fd, RG_SYNC_STAMP, 0);
    if (unlinkat(base_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        keep(tidy, "", 0); /* it came only now */
}

/* 0, or where it cannot be: -errno. ret_kept: of a folder of this name. */
static int keep_folder(int base_fd, const char *name, char ret_kept[NAME_MAX + 1])
{
    snprintf(ret_kept, NAME_MAX + 1, RG_SYNC_KEPT_AS "%s", name + strlen(RG_SYNC_JOB));
    rg_autoclose int fd = rg_store_open_below(base_fd, name);
    if (fd >= 0)
        futimens(fd, NULL); /* its time begins */
    return renameat(base_fd, name, base_fd, ret_kept) < 0 ? -errno : 0;
}

/* *ret_name is within folder. The base's descriptor or -errno. */
static int open_base_of(const char *folder, const char **ret_name)
{
    const char *slash = strrchr(folder, '/');
    char base[PATH_MAX];

    if (!slash || !rg_str_starts(slash + 1, RG_SYNC_JOB))
        return -EINVAL;
    snprintf(base, sizeof(base), "%.*s", (int) (slash - folder), folder);
    *ret_name = slash + 1;
    if (!rg_store_is_private(base))
        return -EPERM;
    int fd = open(base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* How many files were kept, in tidy; the folder's name then. */
static int tidy_by_path(const char *folder, struct tidy *tidy, char ret_kept[NAME_MAX + 1])
{
    const char *name;
    rg_autoclose int base_fd = open_base_of(folder, &name);

    if (base_fd < 0)
        return base_fd;
    tidy_folder(base_fd, name, true, tidy);
    return tidy->count ? keep_folder(base_fd, name, ret_kept) : 0;
}

int rg_sync_tidy_main(const char *folder)
{
    static struct tidy tidy;
    char kept[NAME_MAX + 1], path[PATH_MAX], beside[PATH_MAX + 4];
    rg_autobuf struct rg_buf payload = RG_BUF_INIT, out = RG_BUF_INIT;
    int r = tidy_by_path(folder, &tidy, kept);

    if (r < 0 || !tidy.count)
        return r < 0;
    snprintf(path, sizeof(path), "%.*s/%s/" RG_SYNC_WORK, (int) (strrchr(folder, '/') - folder),
             folder, kept);
    bool below = rg_str_starts(tidy.first, RG_SYNC_WORK "/");
    snprintf(beside, sizeof(beside), "../%s", tidy.first);
    const struct rg_sync_kept msg = { tidy.count, tidy.nbytes,
                                      below ? tidy.first + sizeof(RG_SYNC_WORK) : beside, path };
    rg_codec_encode(rg_sync_kept_fields, &msg, &payload);
    rg_frame_put(&out, RG_SYNC_KEPT, rg_buf_bytes(&payload), rg_buf_nbytes(&payload));
    return rg_buf_status(&out) < 0 ||
           rg_write_all(1, rg_buf_bytes(&out), rg_buf_nbytes(&out)) < 0;
}

void rg_sync_tidy(const char *folder)
{
    static struct tidy tidy;
    char kept[NAME_MAX + 1];

    tidy_by_path(folder, &tidy, kept);
}

/* --- what is left ----------------------------------------------------------------------------- */

/* A lock on a network's disk may be known to another host alone. */
static bool is_left(int base_fd, const char *name)
{
    rg_autoclose int fd = rg_fd_is_local(base_fd) ? rg_store_open_below(base_fd, name) : -1;

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static bool sweep_entry(int base_fd, const char *name)
{
    static struct tidy tidy;
    char kept[NAME_MAX + 1];
    struct stat st;

    if (rg_str_starts(name, RG_SYNC_JOB)) {
        if (!is_left(base_fd, name))
            return false;
        tidy_folder(base_fd, name, false, &tidy);
        return !tidy.count || keep_folder(base_fd, name, kept) == 0;
    }
    bool fresh = rg_str_starts(name, "." RG_SYNC_JOB);
    if ((fresh || rg_str_starts(name, RG_SYNC_KEPT_AS)) &&
        fstatat(base_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        time(NULL) - st.st_mtime > (fresh ? FRESH_S : KEPT_S))
        rg_sync_remove(base_fd, name);
    return false;
}

int rg_sync_sweep_in(int base_fd)
{
    rg_autodir DIR *list = fdopendir(dup(base_fd));
    int count = 0;

    if (list)
        rewinddir(list); /* the duplicate is where the last one has stopped */
    for (struct dirent *entry; list && (entry = readdir(list));)
        count += sweep_entry(base_fd, entry->d_name);
    return count;
}

int rg_sync_base(int place, char path[PATH_MAX])
{
    rg_autoclose int fd = -1;
    struct stat st;

    if (!rg_store_place((enum rg_store_place) place, path, PATH_MAX))
        return -1;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))
        return -1;
    return rg_steal_fd(&fd);
}

int rg_sync_sweep(void)
{
    char path[PATH_MAX];
    int count = 0;

    for (int place = RG_STORE_VAR_TMP; place < RG_STORE_PLACES; place++) {
        rg_autoclose int fd = rg_sync_base(place, path);
        count += fd >= 0 ? rg_sync_sweep_in(fd) : 0;
    }
    return count;
}
