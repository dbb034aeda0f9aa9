/* SPDX-License-Identifier: Apache-2.0 */
/* What others have sent is believed as far as the names of files: there are three. A copy is often
 * all that is left of a job, so only a later one of the same record replaces it. */
#include "cmd/jobs/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/str.h"
#include "head/ask.h"
#include "head/record/files.h"

#define FIRST_MAX 4096 /* bytes of the first line that are looked at */
#define FRESH ".fresh" /* what a file is called until it takes another's place */
#define COPIED "{\"event\":\"" RG_RECORD_COPIED "\"}\n"

static const char *const names[] = { RG_RECORD_EVENTS, RG_RECORD_SAMPLES, RG_RECORD_TAILS };

struct copy {
    const char *path;
    int dir_fd;
};

static int fail(const char *path, int r, struct rg_error *err)
{
    int code = r == -EACCES || r == -EPERM || r == -EROFS ? RG_EXIT_NO_PERMISSION
                                                          : RG_EXIT_OUTPUT_LOST;

    return rg_error_set_exit(err, -r, code, "%s: %s", path, strerror(-r));
}

static int refuse(const struct copy *copy, const char *why, struct rg_error *err)
{
    return rg_error_set_exit(err, EEXIST, RG_EXIT_USAGE, "%s, where its record is to be, is there "
                             "and %s; move it away", copy->path, why);
}

/* --- what there is ---------------------------------------------------------------------------- */

static int open_dir(struct copy *copy, struct rg_error *err)
{
    struct stat st;

    if (mkdir(copy->path, 0700) < 0 && errno != EEXIST)
        return fail(copy->path, -errno, err);
    copy->dir_fd = open(copy->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (copy->dir_fd < 0)
        return errno == ENOTDIR || errno == ELOOP ? refuse(copy, "is no folder", err)
                                                  : fail(copy->path, -errno, err);
    if (fstat(copy->dir_fd, &st) < 0)
        return fail(copy->path, -errno, err);
    return st.st_uid == geteuid() ? 0 : refuse(copy, "is another user's", err);
}

/* Or has no more than what a copy has left that was cut off. */
static bool is_empty(const struct copy *copy)
{
    int fd = openat(copy->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rg_autodir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool empty = dir != NULL;

    if (fd >= 0 && !dir)
        close(fd);
    for (const struct dirent *entry; empty && (entry = readdir(dir));)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                strcmp(entry->d_name, FRESH) == 0;
    return empty;
}

/* When a record began, to the microsecond: which it is. 0: it is none. */
static double begin_of(const char *events, size_t nbytes)
{
    const char *end = nbytes ? memchr(events, '\n', nbytes) : NULL;
    json_t *line = end ? json_loadb(events, (size_t) (end - events), 0, NULL) : NULL;
    bool is_record = json_is_integer(json_object_get(line, "record"));
    double began_s = is_record ? json_number_value(json_object_get(line, "time")) : 0;

    json_decref(line);
    return began_s;
}

/* Whether the record that began then may be copied there. */
static int check_events(const struct copy *copy, double began_s, struct rg_error *err)
{
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    rg_autoclose int fd = openat(copy->dir_fd, RG_RECORD_EVENTS, flags);
    char first[FIRST_MAX];
    struct stat st;

    if (fd < 0 && errno == ENOENT)
        return is_empty(copy) ? 0 : refuse(copy, "holds no record", err);
    if (fd < 0 && errno != ELOOP)
        return fail(copy->path, -errno, err);
    ssize_t n = fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)
                    ? 0 : pread(fd, first, sizeof(first), 0);
    double has_s = begin_of(first, n > 0 ? (size_t) n : 0);
    if (!(has_s > 0))
        return refuse(copy, "holds no record", err);
    if (has_s < began_s || has_s > began_s)
        return refuse(copy, "holds what another job, or an earlier start of this one, has recorded",
                      err);
    if (rg_record_is_locked(fd))
        return rg_error_set_exit(err, EBUSY, RG_EXIT_USAGE, "%s is where it is recorded: reigen "
                                 "report %s", copy->path, copy->path);
    return 0;
}

/* --- what comes ------------------------------------------------------------------------------- */

/* The last line may be cut off. */
static int write_events(int fd, const struct rg_jobs_record_file *events)
{
    bool whole = events->bytes[events->nbytes - 1] == '\n';
    int r = rg_write_all(fd, events->bytes, events->nbytes);

    if (r == 0 && !whole)
        r = rg_write_all(fd, "\n", 1);
    return r == 0 ? rg_write_all(fd, COPIED, strlen(COPIED)) : r;
}

/* Who reads it meanwhile finds the one or the other, whole. */
static int put(const struct copy *copy, const struct rg_jobs_record_file *file, bool events,
               struct rg_error *err)
{
    unlinkat(copy->dir_fd, FRESH, 0);
    rg_autoclose int fd = openat(copy->dir_fd, FRESH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                                 0600);
    int r = fd < 0   ? -errno
            : events ? write_events(fd, file)
                     : rg_write_all(fd, file->bytes, file->nbytes);

    if (r == 0 && renameat(copy->dir_fd, FRESH, copy->dir_fd, file->name) < 0)
        r = -errno;
    if (r == 0)
        return 0;
    unlinkat(copy->dir_fd, FRESH, 0);
    fail(copy->path, r, err);
    rg_error_prepend(err, "%s", file->name);
    return r;
}

/* The events are the first. One without bytes did not come. */
static int copy_files(const char *path, const struct rg_jobs_record_file *files,
                      struct rg_error *err)
{
    struct copy copy = { .path = path, .dir_fd = -1 };
    double began_s = begin_of(files[0].bytes, files[0].nbytes);

    if (!(began_s > 0))
        return rg_error_set_exit(err, EPROTO, RG_EXIT_UNAVAILABLE, "what came from its head is no "
                                 "record; try again");
    int r = open_dir(&copy, err);
    rg_autoclose int dir_fd = copy.dir_fd;
    r = r == 0 ? check_events(&copy, began_s, err) : r;
    for (size_t i = 0; r == 0 && i < rg_array_len(names); i++) {
        if (files[i].bytes)
            r = put(&copy, &files[i], i == 0, err);
        else
            unlinkat(dir_fd, names[i], 0);
    }
    return r;
}

/* --- the text --------------------------------------------------------------------------------- */

int rg_jobs_record_next(const char **text, struct rg_jobs_record_file *ret_file)
{
    for (size_t i = 0; i < rg_array_len(names); i++) {
        size_t length = strlen(names[i]);
        char *end;
        if (!rg_str_starts(*text, names[i]) || (*text)[length] != ' ')
            continue;
        unsigned long nbytes = strtoul(*text + length + 1, &end, 10);
        if (*end != '\n' || nbytes > strlen(end + 1))
            return -EPROTO;
        *ret_file = (struct rg_jobs_record_file){ names[i], end + 1, nbytes };
        *text = end + 1 + nbytes;
        return 1;
    }
    return rg_str_starts(*text, RG_HEAD_RECORD_END) ? 0 : -EPROTO;
}

/* Nothing of one that is cut is kept. */
int rg_jobs_copy(const char *path, const char *text, struct rg_error *err)
{
    struct rg_jobs_record_file files[rg_array_len(names)] = { { .bytes = NULL } }, file;
    int r;

    while ((r = rg_jobs_record_next(&text, &file)) > 0) {
        for (size_t i = 0; i < rg_array_len(names); i++)
            files[i] = file.name == names[i] ? file : files[i];
    }
    if (r < 0)
        return rg_error_set_exit(err, EPROTO, RG_EXIT_UNAVAILABLE,
                                 "its record did not come whole; try again");
    return copy_files(path, files, err);
}
