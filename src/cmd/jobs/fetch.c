/* SPDX-License-Identifier: Apache-2.0 */
/* What others have sent is believed as far as the names of files: there are three. */
#include "cmd/jobs/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/str.h"
#include "head/ask.h"
#include "head/record/files.h"

#define RECORD_MAX (256u << 20) /* of 1,000 ranks it is some 20 MB */
#define FETCH_MS 120000
#define SAID_MAX 300
#define FRESH ".fresh"

static const char *const names[] = { RG_RECORD_EVENTS, RG_RECORD_SAMPLES, RG_RECORD_TAILS };

/* --- from there ------------------------------------------------------------------------------- */

static int fail_there(const char *said, int code, struct rg_error *err)
{
    const char *none = strstr(said, RG_HEAD_RECORD_NONE);

    said = none ? none + strlen(RG_HEAD_RECORD_NONE) : said;
    int n = (int) strcspn(said, "\n");

    if (!n)
        return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                                 "the program that leads to its head has ended with %d", code);
    return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE, "%.*s",
                             n < SAID_MAX ? n : SAID_MAX, said);
}

/* The platform's own program may say something before and behind it. */
static int ask(char *const *argv, char **ret_text, const char **ret_record, struct rg_error *err)
{
    rg_autofree char *text = malloc(RECORD_MAX);
    int r = text ? rg_capture((const char *const *) argv, NULL, true, FETCH_MS, text, RECORD_MAX)
                 : -ENOMEM;

    if (r == -ENOMEM)
        return rg_error_memory(err);
    if (r < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_UNAVAILABLE, "%s: %s", argv[0], strerror(-r));
    const char *record = strstr(text, RG_HEAD_RECORD);
    if (!record)
        return fail_there(text, r, err);
    *ret_record = record + strlen(RG_HEAD_RECORD);
    *ret_text = rg_steal_ptr(&text);
    return 0;
}

/* --- to here ---------------------------------------------------------------------------------- */

static int fail_file(const char *path, int r, struct rg_error *err)
{
    int code = r == -EACCES || r == -EPERM || r == -EROFS ? RG_EXIT_NO_PERMISSION
                                                          : RG_EXIT_OUTPUT_LOST;

    return rg_error_set_exit(err, -r, code, "%s: %s", path, strerror(-r));
}

static int make_folder(const char *dir, struct rg_error *err)
{
    rg_autofree char *events = rg_strf("%s/%s", dir, RG_RECORD_EVENTS);

    if (!events)
        return rg_error_memory(err);
    if (mkdir(dir, 0700) == 0 || (errno == EEXIST && access(events, F_OK) == 0))
        return 0;
    if (errno == ENOENT || errno == EEXIST || errno == ENOTDIR)
        return rg_error_set_exit(err, EEXIST, RG_EXIT_USAGE, "%s, where its record is to be, is "
                                 "there and holds no record; move it away", dir);
    return fail_file(dir, -errno, err);
}

/* Who reads it meanwhile finds the one or the other, whole. */
static int put_file(const char *dir, const char *name, const char *bytes, size_t nbytes,
                    struct rg_error *err)
{
    rg_autofree char *path = rg_strf("%s/%s", dir, name);
    rg_autofree char *fresh = rg_strf("%s/" FRESH, dir);
    rg_autoclose int fd = path && fresh ? open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC |
                                                          O_NOFOLLOW, 0600) : -1;
    int r = fd < 0 ? -errno : rg_write_all(fd, bytes, nbytes);

    if (!path || !fresh)
        return rg_error_memory(err);
    if (r == 0 && rename(fresh, path) < 0)
        r = -errno;
    return r < 0 ? fail_file(path, r, err) : 0;
}

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
static int put_files(const char *dir, const char *text, struct rg_error *err)
{
    struct rg_jobs_record_file file;
    const char *look = text;
    int r;

    do
        r = rg_jobs_record_next(&look, &file);
    while (r > 0);
    if (r < 0)
        return rg_error_set_exit(err, EPROTO, RG_EXIT_UNAVAILABLE,
                                 "its record did not come whole; try again");
    r = make_folder(dir, err);
    while (r == 0 && rg_jobs_record_next(&text, &file) > 0)
        r = put_file(dir, file.name, file.bytes, file.nbytes, err);
    return r;
}

/* --- both ------------------------------------------------------------------------------------- */

static int fail_not_running(const struct rg_submitted_job *job, const char *dir,
                            struct rg_error *err)
{
    bool ended = job->state == RG_SUBMITTED_ENDED;
    struct stat st;

    if (ended && stat(dir, &st) == 0)
        return rg_error_set_exit(err, ESRCH, RG_EXIT_UNAVAILABLE, "it has ended; what was fetched "
                                 "of its record before is in %s: reigen report %s", dir, dir);
    return rg_error_set_exit(err, ESRCH, RG_EXIT_UNAVAILABLE, "%s says %s; its record is fetched "
                             "while it runs%s", job->platform->title,
                             job->word && *job->word ? job->word : "nothing of it",
                             ended ? ", and is now where --record DIR was, if that is a volume or "
                                     "a shared directory" : "");
}

static int find_words(const struct rg_driver_ops *driver, struct rg_submitted_job *job,
                      const char *dir, struct rg_strv *words, struct rg_error *err)
{
    char *argv[] = { (char *) "record", job->id, NULL };

    if (!driver->queue || !driver->queue->beside)
        return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE, "its record is where %s "
                                 "runs its head, and %s leads nobody there; let --record DIR be "
                                 "on storage that you reach, too", driver->platform.title,
                                 driver->platform.title);
    int r = driver->queue->status(job, 1, err);
    if (r < 0)
        return r;
    return job->state == RG_SUBMITTED_RUNS ? driver->queue->beside(job, argv, words, err)
                                           : fail_not_running(job, dir, err);
}

int rg_jobs_fetch_record(const struct rg_driver_ops *driver, struct rg_submitted_job *job,
                    char **ret_dir, struct rg_error *err)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    rg_autofree char *dir = rg_strf("%s.record", job->id);
    rg_autofree char *text = NULL;
    const char *record = NULL;
    int r = dir ? find_words(driver, job, dir, &words, err) : rg_error_memory(err);

    if (r == 0)
        r = ask(words.v, &text, &record, err);
    if (r == 0)
        r = put_files(dir, record, err);
    if (r == 0)
        *ret_dir = rg_steal_ptr(&dir);
    return r;
}
