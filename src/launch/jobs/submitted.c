/* SPDX-License-Identifier: Apache-2.0 */
/* The files by which jobs that were submitted are found again. */
#include "launch/jobs/submitted.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "launch/jobs/state.h"

#define PLAN "plan."
#define FILE_MAX (64u << 10)
#define KEPT_S (90 * 24 * 3600) /* since the job's end, or its submission */

bool rg_submitted_is_over(const struct rg_submitted_job *job)
{
    return job->exit_code >= 0 && job->exit_code != RG_EXIT_PREEMPTED &&
           job->exit_code != RG_EXIT_HOST_LOST && job->exit_code != 128 + SIGTERM;
}

char *rg_submitted_folder(const struct rg_platform *platform, struct rg_error *err)
{
    struct rg_error cause = RG_ERROR_INIT;
    rg_autofree char *dir = jobs_folder(platform->name);
    /* A job whose head is elsewhere has a note without --submit, too, and no node reads it. */
    const char *option = platform->away ? "" : "--submit: ",
               *seen = platform->away ? "" : " that the nodes see";

    if (!dir) {
        rg_error_set_exit(err, ENOENT, RG_EXIT_USAGE,
                          "%sthere is no place for a note of the job, since HOME is not set, or "
                          "not there; name a directory%s: XDG_STATE_HOME=DIR", option, seen);
        return NULL;
    }
    int r = rg_mkdir_all(dir, 0700, &cause);
    if (r == 0 && access(dir, W_OK | X_OK) < 0)
        r = -errno;
    if (r == 0)
        return rg_steal_ptr(&dir);
    rg_error_set_exit(err, -r, RG_EXIT_USAGE,
                      "%sa note of each job is kept in %s, where nothing can be written (%s); make "
                      "it writable, or name another directory%s: XDG_STATE_HOME=DIR", option, dir,
                      strerror(-r), seen);
    return NULL;
}

char *rg_submitted_plan(const struct rg_platform *platform, struct rg_error *err)
{
    rg_autofree char *dir = rg_submitted_folder(platform, err);
    char *path = dir ? rg_strf("%s/" PLAN "XXXXXX", dir) : NULL;
    rg_autoclose int fd = path ? mkostemp(path, O_CLOEXEC) : -1;

    if (fd >= 0 || !dir)
        return path;
    rg_error_set(err, errno, "--submit: the job's plan: %s", strerror(errno));
    free(path);
    return NULL;
}

/* --- names ------------------------------------------------------------------------------------ */

bool rg_submitted_is_id(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-_";

    return *text && *text != '-' && !text[strspn(text, letters)] &&
           strlen(text) < RG_SUBMITTED_ID_MAX;
}

int rg_submitted_name_check(const char *what, const char *name, struct rg_error *err)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz";
    size_t n = strlen(name);

    if (n && n <= RG_SUBMITTED_NAME_MAX && strchr(first, *name) && jobs_is_id(name) &&
        name[n - 1] != '-')
        return 0;
    return rg_error_set(err, EINVAL, "%s %.80s: a job's name has at most %d lower-case letters, "
                        "digits and -, and begins with a letter", what, name,
                        RG_SUBMITTED_NAME_MAX);
}

int rg_submitted_name_make(char text[RG_SUBMITTED_ID_MAX], struct rg_error *err)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz";
    uint8_t random[8];

    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return rg_error_set(err, EIO, "the system gives no random numbers");
    int n = snprintf(text, RG_SUBMITTED_ID_MAX, "reigen-");
    for (size_t i = 0; i < sizeof(random); i++)
        text[n++] = letters[random[i] % (sizeof(letters) - 1)];
    text[n] = '\0';
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Ids are used again some day, and no one asks after such old ones. */
static void forget_old(const char *dir)
{
    DIR *all = opendir(dir);
    struct stat st;

    for (struct dirent *e; all && (e = readdir(all));) {
        if ((rg_submitted_is_id(e->d_name) || rg_str_starts(e->d_name, PLAN)) &&
            fstatat(dirfd(all), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && time(NULL) - st.st_mtime > KEPT_S)
            unlinkat(dirfd(all), e->d_name, 0);
    }
    if (all)
        closedir(all);
}

static void put_file(const struct rg_submitted_job *submitted, const struct rg_job *job,
                     struct rg_buf *text)
{
    rg_buf_printf(text, "log %s\n", submitted->log);
    if (submitted->cluster)
        rg_buf_printf(text, "cluster %s\n", submitted->cluster);
    rg_buf_printf(text, "command ");
    jobs_put_command(text, job);
    rg_buf_printf(text, "\n");
}

int rg_submitted_add(const struct rg_submitted_job *submitted, const struct rg_job *job)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job old = { .exit_code = -1 };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autofree char *dir = jobs_folder(submitted->platform->name);
    rg_autofree char *path = jobs_path(submitted->platform->name, submitted->id);

    if (!dir || !path)
        return -ENOMEM;
    forget_old(dir);
    if (rg_submitted_read(submitted->platform, submitted->id, &old) == 0)
        unlink(path); /* of another job with this id */
    put_file(submitted, job, &text);
    /* A quick job's exit code is there already. */
    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : rg_buf_status(&text);
    return r < 0 ? r : rg_write_all(fd, rg_buf_bytes(&text), rg_buf_nbytes(&text));
}

/* --- reading ---------------------------------------------------------------------------------- */

static void take_line(struct rg_submitted_job *job, const char *line)
{
    int64_t code;

    if (rg_str_starts(line, "log ") && !job->log)
        job->log = strdup(line + 4);
    else if (rg_str_starts(line, "command ") && !job->command)
        job->command = strdup(line + 8);
    else if (rg_str_starts(line, "cluster ") && !job->cluster)
        job->cluster = strdup(line + 8);
    else if (strcmp(line, "begin") == 0 || rg_str_starts(line, "begin "))
        job->exit_code = -1;
    else if (rg_str_starts(line, "exit ") &&
             rg_parse_int("exit", line + 5, 0, 255, &code, NULL) == 0)
        job->exit_code = (int) code;
}

static int read_job(const struct rg_platform *platform, const char *id,
                    struct rg_submitted_job *ret_job, struct rg_error *err)
{
    struct rg_submitted_job job = { .platform = platform, .exit_code = -1 };
    rg_autofree char *path = jobs_path(platform->name, id), *text = NULL;

    if (!rg_submitted_is_id(id))
        return -EINVAL;
    int r = path ? rg_read_trusted("the job's file", path, RG_TRUST_UNCHANGED, FILE_MAX, &text,
                                   NULL, err) : -ENOENT;
    if (r < 0)
        return r;
    for (char *line, *rest = text; (line = strsep(&rest, "\n"));)
        take_line(&job, line);
    if (!job.log || !job.command) {
        rg_submitted_fini(&job);
        return -ENOENT;
    }
    snprintf(job.id, sizeof(job.id), "%s", id);
    *ret_job = job;
    return 0;
}

int rg_submitted_read(const struct rg_platform *platform, const char *id,
                      struct rg_submitted_job *ret_job)
{
    return read_job(platform, id, ret_job, NULL);
}

void rg_submitted_end(const struct rg_submitted_job *submitted)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job known = { .exit_code = -1 };
    rg_autofree char *path = jobs_path(submitted->platform->name, submitted->id);
    rg_autofree char *line = rg_strf("exit %d\n", submitted->exit_code);

    if (!path || !line || rg_submitted_read(submitted->platform, submitted->id, &known) < 0 ||
        known.exit_code == submitted->exit_code)
        return;
    rg_autoclose int fd = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        rg_write_all(fd, line, strlen(line)); /* else the platform is asked again */
}

static int by_number(const void *a, const void *b)
{
    const char *one = *(char *const *) a, *two = *(char *const *) b;
    size_t none = strlen(one), ntwo = strlen(two);

    return none != ntwo ? (none < ntwo ? -1 : 1) : strcmp(one, two);
}

int rg_submitted_list(const struct rg_platform *platform, struct rg_submitted_list *list)
{
    rg_autostrv struct rg_strv ids = RG_STRV_INIT;
    rg_autofree char *path = jobs_folder(platform->name);
    DIR *dir = path ? opendir(path) : NULL;
    int r = 0;

    for (struct dirent *e; r == 0 && dir && (e = readdir(dir));) {
        if (rg_submitted_is_id(e->d_name))
            r = rg_strv_add(&ids, e->d_name);
    }
    if (dir)
        closedir(dir);
    void *more = r == 0 ? reallocarray(list->jobs, list->count + ids.count + 1, sizeof(*list->jobs))
                        : NULL;
    if (!more)
        return -ENOMEM;
    list->jobs = more;
    if (ids.count)
        qsort(ids.v, ids.count, sizeof(*ids.v), by_number);
    for (size_t i = 0; i < ids.count; i++) {
        struct rg_error err = RG_ERROR_INIT;
        r = read_job(platform, ids.v[i], &list->jobs[list->count], &err);
        list->count += r == 0;
        if (r < 0 && r != -ENOENT && rg_strv_add(&list->remarks, err.text) < 0)
            return -ENOMEM;
    }
    return 0;
}

void rg_submitted_set(char **text, const char *value)
{
    free(*text);
    *text = strdup(value ? value : "");
}

/* "3:12", "1:02:03" */
void rg_submitted_set_elapsed(struct rg_submitted_job *job, int64_t since_s)
{
    long s = (long) (time(NULL) - since_s);

    s = s > 0 ? s : 0;
    free(job->elapsed);
    job->elapsed = s >= 3600 ? rg_strf("%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60)
                             : rg_strf("%ld:%02ld", s / 60, s % 60);
}

void rg_submitted_fini(struct rg_submitted_job *job)
{
    char *texts[] = { job->log, job->command, job->cluster, job->word, job->reason, job->hint,
                      job->since, job->elapsed, job->nodes };

    for (size_t i = 0; i < rg_array_len(texts); i++)
        free(texts[i]);
    rg_strv_fini(&job->remarks);
    *job = (struct rg_submitted_job){ .exit_code = -1 };
}

void rg_submitted_list_fini(struct rg_submitted_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        rg_submitted_fini(&list->jobs[i]);
    free(list->jobs);
    rg_strv_fini(&list->remarks);
    *list = (struct rg_submitted_list){ .count = 0 };
}
