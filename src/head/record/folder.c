/* SPDX-License-Identifier: Apache-2.0 */
/* Only what is a record is ever replaced: whoever names the wrong folder loses nothing. */
#include "head/record/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/say.h"
#include "base/str.h"
#include "base/time.h"
#include "head/record/files.h"

#define FRESH ".fresh" /* what a file is called until it takes another's place */
#define MARK "{\"record\":"
#define LOST MARK "1,\"event\":\"record\",\"lost\":" /* behind this is the number, */
#define LOST_WIDTH 12                                  /* in so many columns */

_Static_assert(RG_RECORD_VERSION == 1, "LOST has the version");

static const char *const names[] = { RG_RECORD_EVENTS, RG_RECORD_SAMPLES, RG_RECORD_TAILS,
                                     RG_RECORD_PAGE, FRESH };

/* --- the lock --------------------------------------------------------------------------------- */

int rg_record_lock(int events_fd)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    if (fcntl(events_fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    return errno == EACCES || errno == EAGAIN ? -EWOULDBLOCK : -errno;
}

bool rg_record_is_locked(int events_fd)
{
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

    return fcntl(events_fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* --- making it -------------------------------------------------------------------------------- */

static int refuse(const char *path, int r, const char *why, struct rg_error *err)
{
    int code = r == -ENOSPC || r == -EDQUOT || r == -EIO || r == -EFBIG ? RG_EXIT_OUTPUT_LOST
               : r == -EACCES || r == -EPERM || r == -EROFS ? RG_EXIT_NO_PERMISSION
               : r == -EBUSY ? RG_EXIT_UNAVAILABLE : RG_EXIT_USAGE;

    return rg_error_set_exit(err, -r, code, "--record %s: %s", path, why ? why : strerror(-r));
}

static int open_dir(struct rg_record_folder *folder, struct rg_error *err)
{
    struct stat st;
    bool made = mkdir(folder->path, 0700) == 0;

    if (!made && errno == ENOENT)
        return refuse(folder->path, -ENOENT, "the folder that it is to be made in is not there; "
                      "make that first, or name another", err);
    if (!made && errno != EEXIST)
        return refuse(folder->path, -errno, NULL, err);
    folder->dir_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->dir_fd < 0)
        return refuse(folder->path, -errno, errno == ENOTDIR ? "it is no folder; name another"
                                                             : NULL, err);
    if (fstat(folder->dir_fd, &st) < 0)
        return refuse(folder->path, -errno, NULL, err);
    if (st.st_uid != geteuid())
        return refuse(folder->path, -EPERM, "it is another user's; name a new one", err);
    return 0;
}

/* The index into names; -1: it is none of them. */
static int find_name(const char *name)
{
    for (size_t i = 0; i < rg_array_len(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return (int) i;
    }
    return -1;
}

/* How many files there are beside the events; -errno where one is no record's. */
static int look_around(const struct rg_record_folder *folder, struct rg_error *err)
{
    int fd = openat(folder->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
    rg_autodir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    char why[512];

    if (!dir) {
        int errnum = errno;
        if (fd >= 0)
            close(fd);
        return refuse(folder->path, -errnum, NULL, err);
    }
    for (const struct dirent *entry; (entry = readdir(dir));) {
        int name = find_name(entry->d_name);
        n += name > 0;
        if (name >= 0 || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(why, sizeof(why), "it holds %.255s, which is no record's; name a new folder",
                 entry->d_name);
        return refuse(folder->path, -ENOTEMPTY, why, err);
    }
    return n;
}

/* One that never got its first line, as the disk was full or we were killed, is empty and alone. */
static bool is_record(int fd, bool alone)
{
    char head[sizeof(MARK)] = "";
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid())
        return false;
    if (st.st_size == 0)
        return alone;
    return pread(fd, head, strlen(MARK), 0) >= 0 && strcmp(head, MARK) == 0;
}

/* Whose lock it is; alone: there is no other file. */
static int take_events(struct rg_record_folder *folder, bool alone, struct rg_error *err)
{
    int flags = O_RDWR | (alone ? O_CREAT : 0) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = openat(folder->dir_fd, RG_RECORD_EVENTS, flags, 0600);

    folder->events_fd = fd;
    if (fd < 0 && (alone || errno != ENOENT))
        return refuse(folder->path, -errno, NULL, err);
    if (fd >= 0 && rg_record_lock(fd) == -EWOULDBLOCK)
        return refuse(folder->path, -EBUSY, "another job is recorded there; name a new folder",
                      err);
    if (fd < 0 || !is_record(fd, alone))
        return refuse(folder->path, -ENOTEMPTY, "its " RG_RECORD_EVENTS " is no record's; name a "
                      "new folder", err);
    return 0;
}

static int write_first(struct rg_record_folder *folder)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;

    rg_buf_printf(&line, LOST "%*d,\"time\":%.6f,\"version\":\"%s\"}\n", LOST_WIDTH, 0,
                  (double) rg_wall_ns() / 1e9, RG_VERSION);
    return rg_record_folder_append(folder, &line);
}

static int make(struct rg_record_folder *folder, struct rg_error *err)
{
    int r = open_dir(folder, err), n;

    if (r < 0)
        return r;
    n = look_around(folder, err);
    r = n < 0 ? n : take_events(folder, n == 0, err);
    if (r < 0)
        return r;
    for (size_t i = 1; i < rg_array_len(names); i++)
        unlinkat(folder->dir_fd, names[i], 0);
    r = ftruncate(folder->events_fd, 0) < 0 ? -errno : write_first(folder);
    return r < 0 ? refuse(folder->path, r, NULL, err) : 0;
}

int rg_record_folder_open(const char *path, struct rg_record_folder *ret_folder,
                          struct rg_error *err)
{
    struct rg_record_folder folder = { .path = strdup(path), .dir_fd = -1, .events_fd = -1 };

    signal(SIGXFSZ, SIG_IGN); /* writing fails then; otherwise it would end us, and the job */
    int r = folder.path ? make(&folder, err) : rg_error_memory(err);
    if (r < 0) {
        rg_record_folder_close(&folder);
        return r;
    }
    *ret_folder = folder;
    return 0;
}

void rg_record_folder_close(struct rg_record_folder *folder)
{
    if (folder->dir_fd >= 0)
        close(folder->dir_fd);
    if (folder->events_fd >= 0)
        close(folder->events_fd);
    free(folder->path);
}

/* --- writing ---------------------------------------------------------------------------------- */

int rg_record_folder_append(struct rg_record_folder *folder, const struct rg_buf *lines)
{
    int r = rg_buf_status(lines);

    if (r == 0 && lseek(folder->events_fd, (off_t) folder->events_nbytes, SEEK_SET) < 0)
        r = -errno;
    if (r == 0)
        r = rg_write_all(folder->events_fd, rg_buf_bytes(lines), rg_buf_nbytes(lines));
    if (r == 0)
        folder->events_nbytes += rg_buf_nbytes(lines);
    else if (ftruncate(folder->events_fd, (off_t) folder->events_nbytes) < 0)
        r = -errno;
    return r;
}

int rg_record_folder_add(struct rg_record_folder *folder, const char *name,
                         const struct rg_buf *lines)
{
    struct stat st;
    rg_autoclose int fd = openat(folder->dir_fd, name,
                                 O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK |
                                     O_CLOEXEC, 0600);
    int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : rg_buf_status(lines);

    if (r == 0)
        r = rg_write_all(fd, rg_buf_bytes(lines), rg_buf_nbytes(lines));
    if (r < 0 && fd >= 0 && ftruncate(fd, st.st_size) < 0)
        r = -errno;
    return r;
}

int rg_record_folder_replace(struct rg_record_folder *folder, const char *name,
                             const struct rg_buf *text)
{
    int r = rg_buf_status(text);

    unlinkat(folder->dir_fd, FRESH, 0);
    rg_autoclose int fd = openat(folder->dir_fd, FRESH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                                 0600);
    if (r == 0)
        r = fd < 0 ? -errno : rg_write_all(fd, rg_buf_bytes(text), rg_buf_nbytes(text));
    if (r == 0 && renameat(folder->dir_fd, FRESH, folder->dir_fd, name) < 0)
        r = -errno;
    if (r < 0)
        unlinkat(folder->dir_fd, FRESH, 0);
    return r;
}

void rg_record_folder_judge(struct rg_record_folder *folder, int r)
{
    if (r < 0 && !folder->told)
        rg_say("--record %s: cannot write it: %s; the job goes on, and the record lacks what "
               "could not be written", folder->path, strerror(-r));
    folder->told |= r < 0;
}

void rg_record_folder_lost(struct rg_record_folder *folder, uint64_t count)
{
    char number[LOST_WIDTH + 1];
    int n = snprintf(number, sizeof(number), "%*llu", LOST_WIDTH, (unsigned long long) count);

    if (n == LOST_WIDTH && pwrite(folder->events_fd, number, LOST_WIDTH, strlen(LOST)) < 0)
        rg_record_folder_judge(folder, -errno);
}
