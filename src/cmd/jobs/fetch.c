/* SPDX-License-Identifier: Apache-2.0 */
/* The way to a head elsewhere, and what it says. */
#include "cmd/jobs/fetch.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/exitcode.h"
#include "base/process/spawn.h"
#include "base/str.h"
#include "cmd/jobs/copy.h"
#include "head/ask.h"

#define RECORD_MAX (256u << 20) /* of 1,000 ranks it is some 20 MB */
#define FETCH_MS 120000
#define SAID_MAX 200 /* bytes of a line */
#define LINES_SAID 2

/* --- from there ------------------------------------------------------------------------------- */

static char *first_line(const char *said)
{
    return strndup(said, strcspn(said, "\n") < SAID_MAX ? strcspn(said, "\n") : SAID_MAX);
}

/* The last lines that have something, in one: a platform's program ends with the cause, and may say
 * behind it that it has ended. */
static char *last_lines(const char *said)
{
    rg_autofree char *lines = NULL;
    size_t end = strlen(said);

    for (int i = 0; i < LINES_SAID; i++) {
        while (end && isspace((unsigned char) said[end - 1]))
            end--;
        size_t begin = end;
        while (begin && said[begin - 1] != '\n')
            begin--;
        if (begin == end)
            break;
        int n = (int) (end - begin < SAID_MAX ? end - begin : SAID_MAX);
        char *more = rg_strf("%.*s%s%s", n, said + begin, lines ? "; " : "", lines ? lines : "");
        free(lines);
        lines = more;
        end = begin;
    }
    return rg_steal_ptr(&lines);
}

static int fail_there(const char *said, int code, struct rg_error *err)
{
    const char *none = strstr(said, RG_HEAD_RECORD_NONE);
    rg_autofree char *why = none ? first_line(none + strlen(RG_HEAD_RECORD_NONE))
                                 : last_lines(said);

    if (!why)
        return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                                 "the program that leads to its head has ended with %d", code);
    return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE, "%s", why);
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
    if (strlen(text) == RECORD_MAX - 1)
        return rg_error_set_exit(err, EFBIG, RG_EXIT_UNAVAILABLE, "its record is larger than %u "
                                 "MB, the most that is copied; make the report where it is",
                                 RECORD_MAX >> 20);
    const char *record = strstr(text, RG_HEAD_RECORD);
    if (!record)
        return fail_there(text, r, err);
    *ret_record = record + strlen(RG_HEAD_RECORD);
    *ret_text = rg_steal_ptr(&text);
    return 0;
}

/* --- of which job ----------------------------------------------------------------------------- */

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
        r = rg_jobs_copy(dir, record, err);
    if (r == 0)
        *ret_dir = rg_steal_ptr(&dir);
    return r;
}
