/* SPDX-License-Identifier: Apache-2.0 */
/* --output-dir keeps what each rank wrote, byte for byte, in two files that stay open. */
#include "head/show/outfiles.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/say.h"
#include "base/str.h"
#include "base/exitcode.h"

#define NAME_NBYTES 32 /* of a rank's directory */

static const char *const stream_names[] = { "stdout", "stderr" };

static int exit_code_of(int errnum)
{
    if (errnum == ENOSPC || errnum == EDQUOT || errnum == EIO)
        return RG_EXIT_OUTPUT_LOST;
    return errnum == EACCES || errnum == EPERM || errnum == EROFS ? RG_EXIT_NO_PERMISSION
                                                                  : RG_EXIT_USAGE;
}

static int *fd_of(struct rg_outfiles *files, int rank, int stream)
{
    return &files->fds[2 * rank + stream - 1];
}

static char *path_of(const struct rg_outfiles *files, int rank, int stream)
{
    return rg_strf("%s/rank.%0*d/%s", files->dir, files->width, rank, stream_names[stream - 1]);
}

static int open_file(struct rg_outfiles *files, int rank, int stream, bool append,
                     struct rg_error *err)
{
    rg_autofree char *path = path_of(files, rank, stream);
    int how = O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC);
    int fd = path ? rg_open_to_write(path, how, 0666) : -ENOMEM;

    if (fd < 0) {
        int e = -fd;
        return rg_error_set_exit(err, e, exit_code_of(e), "--output-dir: cannot create %s: %s%s",
                                 path, rg_open_to_write_why(fd),
                                 e == EMFILE ? "; raise ulimit -n" : "");
    }
    *fd_of(files, rank, stream) = fd;
    return 0;
}

static int open_rank(struct rg_outfiles *files, int rank, bool append, struct rg_error *err)
{
    rg_autofree char *dir = rg_strf("%s/rank.%0*d", files->dir, files->width, rank);

    if (!dir)
        return rg_error_memory(err);
    int rc = rg_mkdir_all(dir, 0777, err);

    if (rc < 0) {
        rg_error_prepend(err, "--output-dir");
        if (err)
            err->exit_code = exit_code_of(-rc);
        return rc;
    }
    rc = open_file(files, rank, 1, append, err);
    return rc < 0 ? rc : open_file(files, rank, 2, append, err);
}

static int width_of(int nranks)
{
    char number[16];

    return snprintf(number, sizeof number, "%d", nranks ? nranks - 1 : 0);
}

/* How many there are, and the name of the lowest rank's. */
static int find_earlier(const char *dir, int nranks, char ret_name[NAME_NBYTES])
{
    DIR *all = opendir(dir);
    int count = 0, width = width_of(nranks);
    int64_t lowest = INT64_MAX, rank;

    for (struct dirent *entry; all && (entry = readdir(all));) {
        const char *name = entry->d_name, *digits = name + strlen("rank.");
        size_t n = rg_str_starts(name, "rank.") ? strspn(digits, "0123456789") : 0;

        if (!n || digits[n] || strlen(name) >= NAME_NBYTES ||
            rg_parse_int("rank", digits, 0, INT_MAX, &rank, NULL) < 0 ||
            (rank < nranks && (int) n == width))
            continue;
        count++;
        if (rank < lowest)
            snprintf(ret_name, NAME_NBYTES, "%s", name);
        lowest = rank < lowest ? rank : lowest;
    }
    if (all)
        closedir(all);
    return count;
}

void rg_outfiles_say_earlier(const char *dir, int nranks)
{
    char name[NAME_NBYTES];
    int n = find_earlier(dir, nranks, name);

    if (n == 1)
        rg_say("--output-dir %s: %s is of an earlier job, and stays as it is", dir, name);
    else if (n)
        rg_say("--output-dir %s: %s and %d more are of an earlier job, and stay as they are", dir,
               name, n - 1);
}

int rg_outfiles_open(struct rg_outfiles *files, const char *dir, int nranks, bool append,
                     struct rg_error *err)
{
    int rc = 0;

    *files = (struct rg_outfiles){
        .dir = strdup(dir), .nranks = nranks,
        .width = width_of(nranks),
        .fds = malloc(2 * (size_t) nranks * sizeof(int) + 1),
    };
    if (!files->dir || !files->fds) {
        free(files->fds);
        files->fds = NULL;
        rg_outfiles_fini(files);
        return rg_error_memory(err);
    }
    for (int i = 0; i < 2 * nranks; i++)
        files->fds[i] = -1;
    for (int r = 0; rc == 0 && r < nranks; r++)
        rc = open_rank(files, r, append, err);
    if (rc < 0)
        rg_outfiles_fini(files);
    return rc;
}

int rg_outfiles_grow(struct rg_outfiles *files, int nranks, struct rg_error *err)
{
    int *fds = realloc(files->fds, 2 * (size_t) nranks * sizeof(int)), rc = 0;

    if (!fds)
        return rg_error_memory(err);
    files->fds = fds;
    for (; rc == 0 && files->nranks < nranks; files->nranks++) {
        fds[2 * files->nranks] = fds[2 * files->nranks + 1] = -1;
        rc = open_rank(files, files->nranks, false, err);
    }
    return rc;
}

int rg_outfiles_reopen(struct rg_outfiles *files, int rank, struct rg_error *err)
{
    return *fd_of(files, rank, 1) < 0 && *fd_of(files, rank, 2) < 0
               ? open_rank(files, rank, true, err) : 0;
}

static int lost(struct rg_outfiles *files, int rank, int stream, int errnum, struct rg_error *err)
{
    rg_autofree char *path = path_of(files, rank, stream);

    return rg_error_set_exit(err, errnum, RG_EXIT_OUTPUT_LOST, "cannot write %s: %s",
                             path ? path : "an output file", strerror(errnum));
}

int rg_outfiles_write(struct rg_outfiles *files, int rank, int stream, const uint8_t *data,
                      size_t nbytes, struct rg_error *err)
{
    int *fd = fd_of(files, rank, stream);
    int rc = *fd < 0 ? 0 : rg_write_all(*fd, data, nbytes);

    if (rc == 0)
        return 0;
    close(*fd);
    *fd = -1;
    return lost(files, rank, stream, -rc, err);
}

int rg_outfiles_close(struct rg_outfiles *files, int rank, int stream, struct rg_error *err)
{
    int fd = rg_steal_fd(fd_of(files, rank, stream));

    if (fd < 0 || close(fd) == 0 || errno == EINTR)
        return 0;
    return lost(files, rank, stream, errno, err);
}

void rg_outfiles_fini(struct rg_outfiles *files)
{
    for (int i = 0; files->fds && i < 2 * files->nranks; i++)
        rg_cleanup_close(&files->fds[i]);
    free(files->fds);
    free(files->dir);
    *files = (struct rg_outfiles){ 0 };
}
