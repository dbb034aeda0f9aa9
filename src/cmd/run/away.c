/* SPDX-License-Identifier: Apache-2.0 */
/* A job whose head is elsewhere: this process makes it, looks on, and may go away at any time. */
#include "cmd/run/away.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/say.h"
#include "head/console/exit.h"
#include "head/show/events.h"
#include "head/show/status.h"
#include "job/request/blame.h"
#include "launch/plan/sizes.h"

static const int ending[] = { SIGINT, SIGTERM, SIGHUP };

struct away {
    const struct rg_driver_ops *driver;
    const struct rg_planned *planned;
    struct rg_submitted_job submitted;
    struct rg_loop *loop;
    struct rg_signal signals[3];
    struct rg_status status;
    void *followed;
    int signo;        /* of the first signal that ended it; 0: none */
    bool left;        /* the job goes on without this process */
    bool output_lost; /* standard output takes no more */
    int exit_code;
};

static int make_plan(const struct rg_driver_ops *driver, struct rg_planned *planned,
                     struct rg_error *err)
{
    struct rg_job *job = &planned->job, sized;
    int r = rg_sizes_check(job, err);

    if (r < 0 || !driver->platform.away)
        return r;
    r = rg_job_take_ports(job, err);
    r = r < 0 ? r : driver->discover(NULL, job, err);
    r = r < 0 ? r : rg_plan_make(job, &planned->plan, err);
    r = r < 0 ? r : rg_sizes_check_plan(&planned->plan, job, err);
    if (r < 0)
        return r;
    sized = *job;
    sized.np = planned->plan.nranks;
    r = rg_job_check(&sized, err);
    if (r < 0)
        err->exit_code = RG_EXIT_USAGE;
    return r;
}

int rg_away_plan(const struct rg_driver_ops *driver, const struct rg_request *request,
                 struct rg_planned *planned, struct rg_error *err)
{
    int r = make_plan(driver, planned, err);

    return r < 0 ? rg_request_blame(request, r, err) : r;
}

void rg_away_say_notes(const struct rg_planned *planned)
{
    rg_autobuf struct rg_buf map = RG_BUF_INIT;

    for (size_t i = 0; i < planned->notes.count && !planned->quiet; i++)
        rg_say("%s", planned->notes.v[i]);
    if (planned->display_map)
        rg_plan_print(&planned->plan, &planned->job, &map);
    rg_say_lines(rg_buf_text(&map));
}

void rg_away_say_remarks(const struct rg_planned *planned, const struct rg_submitted_job *job)
{
    for (size_t i = 0; i < job->remarks.count && !planned->quiet; i++)
        rg_say("%s", job->remarks.v[i]);
}

int rg_away_submit(const struct rg_driver_ops *driver, const struct rg_planned *planned,
                   struct rg_submitted_job *job, struct rg_error *err)
{
    rg_autofree char *path = rg_submitted_plan(&driver->platform, err);
    char *argv[] = { (char *) "head", (char *) "--plan", path, NULL };
    struct rg_planned written = *planned; /* which owns all of it */

    if (path && driver->queue->notice_ms)
        written.job.notice_ms = driver->queue->notice_ms();
    int r = path ? rg_planned_write(&written, path, err) : -err->errnum;

    if (r == 0)
        r = driver->queue->submit(&planned->job, argv, job, err);
    if (r < 0 && path)
        unlink(path);
    if (r < 0) {
        err->exit_code = err->exit_code ? err->exit_code : RG_EXIT_UNAVAILABLE;
        if (*job->id && job->log) /* it may run: so it can be asked after */
            rg_submitted_add(job, &planned->job);
        return r;
    }
    r = rg_submitted_add(job, &planned->job);
    return r < 0 ? rg_error_set(err, -r,
                                "job %s was submitted, but no note of it can be written: %s",
                                job->id, strerror(-r)) : 0;
}

int rg_away_describe(const struct rg_driver_ops *driver, const struct rg_request *request,
                     struct rg_planned *planned, const char *command)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_away_plan(driver, request, planned, &err);

    if (r == 0 && planned->job.json)
        rg_event_plan(&text, "plan", &planned->job, &planned->plan);
    else if (r == 0)
        r = driver->away->describe(planned, &text, &err);
    if (r == 0)
        rg_away_say_notes(planned);
    return r < 0 ? rg_fail(&err, command) : rg_print_exact(rg_buf_text(&text));
}

/* --- what is told ----------------------------------------------------------------------------- */

static void say(void *arg, const char *text)
{
    (void) arg;
    rg_say_exact(text);
}

static rg_printf(2, 3) void sayf(struct away *away, const char *fmt, ...)
{
    rg_autofree char *text = NULL;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        text = NULL;
    va_end(args);
    rg_status_wipe(&away->status);
    rg_say("%s", text ? text : "(out of memory)");
}

/* The job goes on, and this process does not. */
static void leave(struct away *away, int exit_code)
{
    away->left = true;
    away->exit_code = exit_code;
    rg_loop_stop(away->loop);
}

static void end(struct away *away)
{
    if (away->followed) /* else begin() does it */
        away->driver->away->end(away->followed);
}

/* Where the reader has gone away, the job is not to run for nobody, as it would not here either. A
 * full disk is no reason to end it: the platform keeps what it writes. */
static void put(struct away *away, const void *bytes, size_t nbytes)
{
    int r = away->output_lost ? 0 : rg_write_all(1, bytes, nbytes);
    const char *id = away->submitted.id;

    if (r == 0)
        return;
    away->output_lost = true;
    bool gone = r == -EPIPE || r == -EIO; /* EIO: a terminal that was closed */
    if (gone || away->signo) {
        sayf(away, "cannot write to standard output: %s; ending job %s", strerror(-r), id);
        end(away);
        return;
    }
    sayf(away, "cannot write to standard output: %s; job %s goes on (reigen attach %s shows what "
         "it writes, reigen stop %s ends it)", strerror(-r), id, id, id);
    leave(away, RG_EXIT_OUTPUT_LOST);
}

static int show_start(struct away *away)
{
    bool quiet = away->planned->quiet || away->planned->job.json;

    rg_status_fini(&away->status);
    int r = rg_status_start(&away->status, away->loop, &away->planned->plan, isatty(2) && !quiet,
                            say, away);
    if (r == 0 && quiet)
        rg_status_stop(&away->status);
    return r;
}

static void on_phase(void *arg, int host, int phase, const char *reason)
{
    struct away *away = arg;
    const char *name = away->planned->plan.hosts[host].name;
    rg_autobuf struct rg_buf event = RG_BUF_INIT;

    if (away->status.over && show_start(away) < 0) /* it is started again */
        return;
    rg_status_seen(&away->status, host, phase, reason);
    if (away->planned->job.json) {
        rg_event_host(&event, name, phase, reason);
        put(away, rg_buf_bytes(&event), rg_buf_nbytes(&event));
    } else if (away->planned->job.verbose > 1) {
        sayf(away, "%s: %s%s%s", name, rg_phase_name(phase), *reason ? ": " : "", reason);
    }
}

static void on_running(void *arg)
{
    struct away *away = arg;

    rg_status_stop(&away->status);
}

static void on_output(void *arg, const void *bytes, size_t nbytes)
{
    struct away *away = arg;

    rg_status_wipe(&away->status);
    put(away, bytes, nbytes);
}

static void on_say(void *arg, const char *text)
{
    struct away *away = arg;

    if (!away->planned->quiet)
        sayf(away, "%s", text);
}

static void on_done(void *arg, int exit_code, const struct rg_error *err)
{
    struct away *away = arg;
    int code = err && err->exit_code ? err->exit_code
               : exit_code >= 0      ? exit_code : RG_EXIT_UNAVAILABLE;

    rg_status_stop(&away->status);
    away->exit_code = away->output_lost ? RG_EXIT_OUTPUT_LOST
                      : away->signo     ? RG_EXIT_SIGNAL + away->signo : code;
    if (err)
        sayf(away, "%s", err->text);
    if (away->signo && !err)
        sayf(away, "job %s was ended, and nothing of it is left", away->submitted.id);
    away->submitted.exit_code = away->exit_code;
    if (exit_code != RG_FOLLOW_LEFT)
        rg_submitted_end(&away->submitted);
    rg_loop_stop(away->loop);
}

/* --- signals ---------------------------------------------------------------------------------- */

static void on_signal(void *arg, int signo)
{
    struct away *away = arg;

    if (!away->signo) {
        away->signo = signo;
        sayf(away, "ending job %s", away->submitted.id);
        end(away);
        return;
    }
    sayf(away, "left; look at reigen status %s, and end it by reigen stop %s",
         away->submitted.id, away->submitted.id);
    leave(away, RG_EXIT_SIGNAL + away->signo);
}

/* Before anything is made that a signal would leave behind: the loop hands it on later. */
static void watch_signals(struct away *away)
{
    struct sigaction old;

    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < rg_array_len(ending); i++) {
        if (sigaction(ending[i], NULL, &old) < 0 || old.sa_handler != SIG_IGN)
            rg_signal_start(&away->signals[i], away->loop, ending[i], on_signal, away);
    }
}

/* --- from the beginning to the end ------------------------------------------------------------ */

static int begin(struct away *away, struct rg_error *err)
{
    const struct rg_planned *planned = away->planned;
    const struct rg_follow_options options = {
        .loop = away->loop, .submitted = &away->submitted, .job = &planned->job,
        .nhosts = planned->plan.nhosts, .on_phase = on_phase, .on_running = on_running,
        .on_output = on_output, .on_say = on_say, .on_done = on_done, .arg = away,
    };
    int r = rg_away_submit(away->driver, planned, &away->submitted, err);

    if (r < 0)
        return r;
    rg_status_wipe(&away->status);
    rg_away_say_remarks(planned, &away->submitted);
    if (planned->job.verbose)
        sayf(away, "job %s; it goes on if this reigen goes away", away->submitted.id);
    r = away->driver->away->follow(&options, &away->followed, err);
    if (r == 0 && away->output_lost && !away->left)
        end(away);
    return r;
}

static int start(struct away *away, struct rg_error *err)
{
    if (rg_loop_create(&away->loop) < 0 || show_start(away) < 0)
        return rg_error_memory(err);
    watch_signals(away);
    return begin(away, err);
}

int rg_away_run(const struct rg_driver_ops *driver, const struct rg_request *request,
                struct rg_planned *planned, const char *command)
{
    struct away away = { .driver = driver, .planned = planned,
                         .submitted = { .platform = &driver->platform, .exit_code = -1 } };
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_away_plan(driver, request, planned, &err);

    if (r == 0) {
        rg_away_say_notes(planned);
        r = start(&away, &err);
    }
    if (r == 0 && !away.left)
        rg_loop_run(away.loop);
    else if (r < 0)
        away.exit_code = rg_fail(&err, command);
    if (away.followed)
        driver->away->unfollow(away.followed);
    for (size_t i = 0; i < rg_array_len(ending); i++)
        rg_signal_stop(&away.signals[i]);
    rg_status_stop(&away.status);
    rg_status_fini(&away.status);
    rg_loop_destroy(away.loop);
    rg_submitted_fini(&away.submitted);
    return away.exit_code;
}
