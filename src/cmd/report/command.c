/* SPDX-License-Identifier: Apache-2.0 */
/* reigen report: which records are meant, and where the page goes. */
#include "cmd/report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/str.h"
#include "cmd/jobs/fetch.h"
#include "cmd/jobs/jobs.h"
#include "cmd/report/compare.h"
#include "cmd/report/page.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "head/record/files.h"

#define SECONDS_MAX 1e9
#define STEPS_SHOWN 6   /* of the timeline, if nothing is asked for, */
#define LENGTH_MAX_S 60 /* and no more than that */

/* A record that was named, and all that is made of it. */
struct read {
    char *dir;
    char *job; /* its id, where it was named by that */
    struct rg_recorded record;
    struct rg_figures figures;
    char *timeline;
    struct rg_window window; /* of it */
    bool has_window;
    bool runs;
    bool fetched; /* just now, from where its head runs */
};

static void read_fini(struct read *read)
{
    free(read->dir);
    free(read->job);
    free(read->timeline);
    rg_window_fini(&read->window);
    rg_figures_fini(&read->figures);
    rg_recorded_fini(&read->record);
}

/* --- which record ----------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A job's id, a number of Slurm's, or the name of a job that was submitted here or is said to be
 * in a place; what else is no folder is a wrong path. */
static bool may_be_job(const char *name, const struct rg_jobs_place *place)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job submitted = { .exit_code = -1 };

    return *name && !strchr(name, '/') &&
           (strncmp(name, "r-", 2) == 0 || name[strspn(name, "0123456789")] == '\0' ||
            rg_jobs_names_place(place) || rg_jobs_find_submitted(name, &submitted));
}

static int fail_unrecorded(const char *id)
{
    struct rg_error err = RG_ERROR_INIT;

    rg_error_set_exit(&err, ENOENT, RG_EXIT_UNAVAILABLE, "job %s was not recorded; start it by "
                      "reigen run --record DIR, and a report can be made while it runs, and later",
                      id);
    return rg_fail(&err, "report");
}

/* Its head has noted it where our list of jobs is, or can be asked. */
static int find_submitted(const struct rg_driver_ops *driver, struct rg_submitted_job *submitted,
                          struct rg_registry_job *job, struct read *read)
{
    struct rg_error err = RG_ERROR_INIT;

    if (job->record && is_folder(job->record)) {
        read->dir = rg_steal_ptr(&job->record);
        read->job = rg_steal_ptr(&job->id);
        return 0;
    }
    if (job->id && !job->record)
        return fail_unrecorded(submitted->id);
    if (rg_jobs_fetch_record(driver, submitted, &read->dir, &err) < 0)
        return rg_jobs_fail_submitted("report", submitted, &err);
    read->fetched = true;
    return 0;
}

static int find_job(const char *id, const struct rg_jobs_place *place, struct read *read)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job submitted = { .exit_code = -1 };
    rg_cleanup(rg_registry_job_fini) struct rg_registry_job job = { 0 };
    const struct rg_driver_ops *driver;
    int code = rg_jobs_find_at("report", id, place, &submitted, &driver);

    /* A name may begin as others' ids do; a number does not. */
    if (code == 0 && driver && driver->platform.variable)
        code = rg_jobs_look("report", id, &job);
    else if (code == 0 && !driver)
        code = rg_jobs_find("report", id, &job);
    if (code)
        return code;
    if (driver)
        return find_submitted(driver, &submitted, &job, read);
    if (!job.record)
        return fail_unrecorded(job.id);
    read->dir = rg_steal_ptr(&job.record);
    read->job = rg_steal_ptr(&job.id);
    return 0;
}

/* A later job may have been recorded in the same folder. */
static int check_job(const struct read *read)
{
    const struct rg_recorded *record = &read->record;
    struct rg_error err = RG_ERROR_INIT;

    if (!read->job || record->nlost > 0)
        return 0;
    for (size_t i = 0; i < record->nstarts; i++) {
        if (strcmp(record->starts[i].job, read->job) == 0)
            return 0;
    }
    rg_error_set_exit(&err, ENOENT, RG_EXIT_UNAVAILABLE, "the record of job %s is gone: %s has "
                      "that of a later job; give each a folder of its own", read->job, read->dir);
    return rg_fail(&err, "report");
}

/* While its launcher is at it, it holds a lock on the events. */
static bool is_locked(const char *dir)
{
    rg_autofree char *path = rg_strf("%s/%s", dir, RG_RECORD_EVENTS);
    rg_autoclose int fd = path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;

    return fd >= 0 && rg_record_is_locked(fd);
}

/* Rank 0's, where each rank writes its own. */
static char *of_rank_0(const char *path)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    while (*path) {
        size_t n = strncmp(path, "{rank}", 6) == 0 ? 6 : strncmp(path, "%r", 2) == 0 ? 2 : 0;
        rg_buf_put(&text, n ? "0" : path, 1);
        path += n ? n : 1;
    }
    return rg_buf_status(&text) == 0 ? strdup(rg_buf_text(&text)) : NULL;
}

/* Where the job's timeline is; NULL: it is not here. */
static char *find_timeline(const struct rg_recorded *record)
{
    rg_autofree char *path = of_rank_0(record->timeline);
    char *whole = !path || !*path ? NULL
                  : *path == '/'  ? strdup(path)
                                  : rg_strf("%s/%s", record->cwd, path);

    if (whole && access(whole, R_OK) == 0)
        return whole;
    free(whole);
    return NULL;
}

/* --- what of it is drawn ---------------------------------------------------------------------- */

/* Seconds since the job began, from "FROM..TO"; to 0: nothing is asked for. */
struct seconds {
    double from, to;
};

static bool parse_seconds(const char *text, struct seconds *ret_seconds)
{
    const char *dots = strstr(text, "..");
    rg_autofree char *head = dots ? strndup(text, (size_t) (dots - text)) : NULL;
    double from = 0, to = 0;
    const char *after = head ? rg_str_number(head, &from) : NULL;
    const char *end = dots ? rg_str_number(dots + 2, &to) : NULL;

    if (!dots || !after || *after || !end || *end || from < 0 || to <= from || to > SECONDS_MAX)
        return false;
    *ret_seconds = (struct seconds){ from, to };
    return true;
}

/* What cannot be read is not drawn, and the page says so. */
static void read_window(struct read *read, const struct seconds *seconds)
{
    struct rg_window_want want = { .length_s = 0 };
    double rate = read->figures.steps_per_s;

    if (!read->timeline)
        return;
    if (seconds->to > 0) {
        want.from_s = read->record.began_s + seconds->from;
        want.to_s = read->record.began_s + seconds->to;
    } else if (rate > 0) {
        want.length_s = fmin(STEPS_SHOWN / rate, LENGTH_MAX_S);
    }
    read->has_window = rg_window_read(read->timeline, &want, &read->window) == 0;
}

static int read_one(const char *name, const struct rg_jobs_place *place, struct read *read)
{
    struct rg_error err = RG_ERROR_INIT;
    int code = 0;

    if (!is_folder(name) && may_be_job(name, place))
        code = find_job(name, place, read);
    else
        read->dir = strdup(name);
    if (code)
        return code;
    if (!read->dir)
        return rg_jobs_fail_memory("report");
    for (size_t n = strlen(read->dir); n > 1 && read->dir[n - 1] == '/'; n--)
        read->dir[n - 1] = '\0';
    read->runs = is_locked(read->dir);
    if (rg_recorded_read(read->dir, &read->record, &err) < 0)
        return rg_fail(&err, "report");
    read->runs |= read->fetched && !read->record.ended;
    if ((code = check_job(read)) != 0)
        return code;
    if (rg_figures_make(&read->record, &read->figures) < 0)
        return rg_jobs_fail_memory("report");
    /* A copy's timeline is where its head is: a file of that name here is another job's. */
    read->timeline = rg_recorded_is_copy(&read->record) ? NULL : find_timeline(&read->record);
    return 0;
}

/* --- the page --------------------------------------------------------------------------------- */

/* As an address that a browser takes. */
static char *link_to(const char *path)
{
    rg_autobuf struct rg_buf link = RG_BUF_INIT;

    for (; path && *path; path++) {
        bool plain = (*path >= '0' && *path <= '9') || (*path >= 'A' && *path <= 'Z') ||
                     (*path >= 'a' && *path <= 'z') || strchr("/-._~", *path);
        rg_buf_printf(&link, plain ? "%c" : "%%%02X", (unsigned char) *path);
    }
    return path && rg_buf_status(&link) == 0 ? strdup(rg_buf_text(&link)) : NULL;
}

static struct rg_report_run as_run(const struct read *read, const char *link)
{
    return (struct rg_report_run){ .record = &read->record, .figures = &read->figures,
                                   .name = read->dir, .timeline = link,
                                   .window = read->has_window ? &read->window : NULL,
                                   .runs = read->runs };
}

static int write_page(const struct rg_buf *page, const char *path)
{
    rg_autofree char *line = rg_strf("%s\n", path);
    int code = rg_buf_status(page) < 0 || !line ? rg_jobs_fail_memory("report")
                                                : rg_print_to(path, page, "report");

    return code ? code : rg_print(line);
}

static int make_page(const struct read *first, const struct read *other, const char *out)
{
    rg_autobuf struct rg_buf page = RG_BUF_INIT;
    rg_autofree char *link = link_to(first->timeline);
    rg_autofree char *path = out ? strdup(out) : rg_strf("%s/%s", first->dir, RG_RECORD_PAGE);
    const struct rg_report_run run = as_run(first, link), after = as_run(other, NULL);

    if (!path)
        return rg_jobs_fail_memory("report");
    if (other->dir)
        rg_report_compare(&page, &run, &after);
    else
        rg_report_page(&page, &run);
    if (!out)
        umask(0077); /* as all that is in the folder, whoever may look into that */
    if (strcmp(path, "-") != 0)
        return write_page(&page, path);
    return rg_buf_status(&page) < 0 ? rg_jobs_fail_memory("report")
                                    : rg_print_exact(rg_buf_text(&page));
}

int rg_cmd_report(int argc, char **argv)
{
    rg_cleanup(read_fini) struct read first = { 0 };
    rg_cleanup(read_fini) struct read other = { 0 };
    const char *out = NULL, *text = NULL;
    struct seconds seconds = { 0, 0 };
    struct rg_jobs_place place = { { NULL } };
    const struct rg_arg args[] = { { .name = "output", .letter = 'o', .what = "FILE",
                                     .value = &out },
                                   { .name = "seconds", .what = "FROM..TO", .value = &text },
                                   RG_JOBS_PLACE_ARGS(place), { NULL } };
    int n = rg_args_parse(argc, argv, args, 2);

    if (n < 0)
        return -1 - n;
    if (n == 0)
        return rg_fail_usage("report", "report: of what? give the folder of a --record, or a job");
    if (text && !parse_seconds(text, &seconds))
        return rg_fail_usage("report", "report --seconds %.80s: give seconds since the job began, "
                             "such as 30..32 or 0.5..1", text);
    if (text && n > 1)
        return rg_fail_usage("report", "report --seconds %.80s: two records have no timeline on "
                             "their page; leave it out, or make a page of one", text);
    int code = read_one(argv[1], &place, &first);
    if (code == 0 && n > 1)
        code = read_one(argv[2], &place, &other);
    if (code == 0 && n == 1)
        read_window(&first, &seconds);
    return code ? code : make_page(&first, &other, out);
}
