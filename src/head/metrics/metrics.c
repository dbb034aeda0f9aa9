/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers are for who looks on: once the job runs, nothing that goes wrong here ends it. */
#include "head/metrics/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "head/metrics/server.h"
#include "job/options/metrics.h"

#define WRITE_MS 5000 /* docs/metrics.md says it, too */

struct rg_metrics {
    char *path; /* a file; else NULL, */
    struct rg_server *server; /* and this */
    struct rg_timer timer;
    rg_metrics_look *look; /* NULL: nothing is known yet */
    void *arg;
    bool chose_port;
    bool failed;           /* to write; the user knows */
    uint64_t since_ns;
    bool ended;
    int exit_code;
};

static void put(void *arg, enum rg_metrics_format format, struct rg_buf *text)
{
    const struct rg_metrics *metrics = arg;
    struct rg_metrics_state state = { .plan = NULL };

    if (metrics->look)
        metrics->look(metrics->arg, &state);
    state.since_ns = metrics->since_ns;
    state.ended = metrics->ended;
    state.exit_code = metrics->exit_code;
    rg_metrics_put(&state, format, text);
}

/* --- the file --------------------------------------------------------------------------------- */

static int refuse_file(const char *path, int r, const char *why, struct rg_error *err)
{
    int code = r == -ENOSPC || r == -EDQUOT || r == -EIO || r == -EFBIG ? RG_EXIT_OUTPUT_LOST
               : r == -EACCES || r == -EPERM || r == -EROFS         ? RG_EXIT_NO_PERMISSION
                                                                    : RG_EXIT_USAGE;

    return rg_error_set_exit(err, -r, code, "--metrics %s: cannot write it: %s", path,
                             why ? why : rg_open_to_write_why(r));
}

/* Renaming knows nothing of who led us to the target: so the path is opened as it would be for
 * writing, and has to lead to the same file. */
static int judge_target(const char *path, const struct stat *target)
{
    struct stat st;
    rg_autoclose int fd = rg_open_to_write(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);

    if (fd < 0 || fstat(fd, &st) < 0)
        return fd < 0 ? fd : -errno;
    return st.st_dev == target->st_dev && st.st_ino == target->st_ino ? 0 : -EPERM;
}

/* Where renaming puts it: a link stays one. */
static int find_target(const char *path, char target[PATH_MAX], struct rg_error *err)
{
    struct stat st;
    int r;

    if (!realpath(path, target)) {
        if (errno != ENOENT)
            return refuse_file(path, -errno, NULL, err);
        if (lstat(path, &st) == 0)
            return refuse_file(path, -ENOENT, "it is a link to what is not there", err);
        return snprintf(target, PATH_MAX, "%s", path) < PATH_MAX
                   ? 0 : refuse_file(path, -ENAMETOOLONG, NULL, err);
    }
    if (stat(target, &st) < 0)
        return refuse_file(path, -errno, NULL, err);
    if (!S_ISREG(st.st_mode))
        return refuse_file(path, -EINVAL, "it is no regular file; name another", err);
    r = judge_target(path, &st);
    return r < 0 ? refuse_file(path, r, NULL, err) : 0;
}

/* Whoever reads it finds the old one or the new one, whole. */
static int replace(const char *target, const struct rg_buf *text)
{
    rg_autofree char *fresh = rg_strf("%s.%d.tmp", target, (int) getpid());

    if (!fresh || rg_buf_status(text) < 0)
        return -ENOMEM;
    unlink(fresh); /* of one that was killed, and had our number */
    rg_autoclose int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int r = fd < 0 ? -errno : rg_write_all(fd, rg_buf_bytes(text), rg_buf_nbytes(text));

    if (r == 0 && rename(fresh, target) < 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        unlink(fresh);
    return r;
}

static int write_file(struct rg_metrics *metrics, struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char target[PATH_MAX];
    int r = find_target(metrics->path, target, err);

    if (r < 0)
        return r;
    put(metrics, RG_METRICS_PROMETHEUS, &text);
    r = replace(target, &text);
    return r < 0 ? refuse_file(metrics->path, r, NULL, err) : 0;
}

/* A failure is told once, until it goes well again. */
static void write_again(void *arg)
{
    struct rg_metrics *metrics = arg;
    struct rg_error err = RG_ERROR_INIT;
    bool failed = write_file(metrics, &err) < 0;

    if (failed && !metrics->failed)
        rg_say("%s%s", err.text, metrics->ended ? "" : "; the job goes on");
    metrics->failed = failed;
}

/* --- both ------------------------------------------------------------------------------------- */

static int open_either(struct rg_metrics *metrics, const char *where, struct rg_error *err)
{
    rg_autofree char *host = NULL;
    int port, r = rg_metrics_split("--metrics", where, &host, &port, err);

    metrics->chose_port = r > 0 && port == 0;
    if (r != 0)
        return r < 0 ? r : rg_server_open(host, port, &metrics->server, err);
    metrics->path = strdup(where);
    return metrics->path ? write_file(metrics, err) : rg_error_memory(err);
}

int rg_metrics_open(const struct rg_job *job, struct rg_metrics **ret_metrics,
                    struct rg_error *err)
{
    if (!job->metrics) {
        *ret_metrics = NULL;
        return 0;
    }
    struct rg_metrics *metrics = calloc(1, sizeof(*metrics));
    if (!metrics)
        return rg_error_memory(err);
    metrics->since_ns = rg_wall_ns();
    int r = open_either(metrics, job->metrics, err);
    if (r == 0) {
        *ret_metrics = metrics;
        return 0;
    }
    free(metrics->path);
    free(metrics);
    return r;
}

void rg_metrics_start(struct rg_metrics *metrics, struct rg_loop *loop, rg_metrics_look *look,
                      void *arg)
{
    if (!metrics)
        return;
    metrics->look = look;
    metrics->arg = arg;
    if (metrics->server)
        rg_server_start(metrics->server, loop, put, metrics);
    else
        rg_timer_start(&metrics->timer, loop, 0, WRITE_MS, write_again, metrics);
}

const char *rg_metrics_url(const struct rg_metrics *metrics)
{
    return metrics && metrics->server ? rg_server_url(metrics->server) : NULL;
}

bool rg_metrics_chose_port(const struct rg_metrics *metrics)
{
    return metrics && metrics->chose_port;
}

void rg_metrics_close(struct rg_metrics *metrics, int exit_code)
{
    if (!metrics)
        return;
    metrics->ended = true;
    metrics->exit_code = exit_code;
    rg_timer_stop(&metrics->timer);
    if (metrics->path)
        write_again(metrics);
    rg_server_close(metrics->server);
    free(metrics->path);
    free(metrics);
}
