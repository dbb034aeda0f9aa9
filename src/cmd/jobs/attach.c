/* SPDX-License-Identifier: Apache-2.0 */
/* reigen attach: stay with a job that somebody has started, here or on another computer, as the
 * reigen run that started it does: show its start and its output, and end with its exit code. Only
 * Ctrl-C is another thing: it leaves the job alone. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/say.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "cmd/jobs/jobs.h"
#include "head/show/status.h"

#define LINES_MAX 1000000000

static const int leaving[] = { SIGINT, SIGTERM, SIGHUP };

struct attach {
    const struct rg_driver_ops *driver;
    struct rg_submitted_job job;
    struct rg_loop *loop;
    struct rg_signal signals[3];
    struct rg_plan plan; /* nothing but names */
    struct rg_status status;
    void *followed;
    bool output_lost;
    int exit_code;
};

/* --- what is told ----------------------------------------------------------------------------- */

static void say(void *arg, const char *text)
{
    (void) arg;
    rg_say_exact(text);
}

static void on_phase(void *arg, int host, int phase, const char *reason)
{
    struct attach *attach = arg;

    rg_status_seen(&attach->status, host, phase, reason);
}

static void on_running(void *arg)
{
    struct attach *attach = arg;

    rg_status_stop(&attach->status);
}

static void on_output(void *arg, const void *bytes, size_t nbytes)
{
    struct attach *attach = arg;

    rg_status_wipe(&attach->status);
    int r = attach->output_lost ? 0 : rg_write_all(1, bytes, nbytes);
    if (r == 0)
        return;
    attach->output_lost = true;
    if (r != -EPIPE)
        rg_say("cannot write to standard output: %s; job %s goes on", strerror(-r), attach->job.id);
    attach->exit_code = RG_EXIT_OUTPUT_LOST;
    rg_loop_stop(attach->loop);
}

static void on_say(void *arg, const char *text)
{
    struct attach *attach = arg;

    rg_status_wipe(&attach->status);
    rg_say("%s", text);
}

static void on_done(void *arg, int exit_code, const struct rg_error *err)
{
    struct attach *attach = arg;

    rg_status_stop(&attach->status);
    attach->exit_code = err && err->exit_code ? err->exit_code
                        : exit_code >= 0      ? exit_code : RG_EXIT_UNAVAILABLE;
    if (err)
        rg_say("%s", err->text);
    attach->job.exit_code = attach->exit_code;
    if (exit_code >= 0)
        rg_submitted_end(&attach->job);
    rg_loop_stop(attach->loop);
}

static void on_signal(void *arg, int signo)
{
    struct attach *attach = arg;

    rg_status_stop(&attach->status);
    rg_say("left; job %s goes on, and reigen stop %s ends it", attach->job.id, attach->job.id);
    attach->exit_code = RG_EXIT_SIGNAL + signo;
    rg_loop_stop(attach->loop);
}

/* --- where the platform has it ---------------------------------------------------------------- */

static int name_hosts(struct attach *attach, const struct rg_strv *hosts)
{
    attach->plan.hosts = calloc(hosts->count + 1, sizeof(*attach->plan.hosts));
    for (size_t i = 0; attach->plan.hosts && i < hosts->count; i++) {
        char *name = strdup(hosts->v[i]);
        if (!name)
            return -ENOMEM;
        attach->plan.hosts[attach->plan.nhosts++].name = name;
    }
    return attach->plan.hosts ? 0 : -ENOMEM;
}

static int start(struct attach *attach, int nlast, struct rg_error *err)
{
    const struct rg_follow_options options = {
        .loop = attach->loop, .submitted = &attach->job, .nhosts = attach->plan.nhosts,
        .nlast = nlast, .on_phase = on_phase, .on_running = on_running, .on_output = on_output,
        .on_say = on_say, .on_done = on_done, .arg = attach,
    };

    if (rg_status_start(&attach->status, attach->loop, &attach->plan, isatty(2), say, attach) < 0)
        return rg_error_memory(err);
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < rg_array_len(leaving); i++)
        rg_signal_start(&attach->signals[i], attach->loop, leaving[i], on_signal, attach);
    return attach->driver->away->follow(&options, &attach->followed, err);
}

static void release(struct attach *attach)
{
    if (attach->followed)
        attach->driver->away->unfollow(attach->followed);
    for (size_t i = 0; i < rg_array_len(leaving); i++)
        rg_signal_stop(&attach->signals[i]);
    rg_status_stop(&attach->status);
    rg_status_fini(&attach->status);
    rg_loop_destroy(attach->loop);
    rg_plan_fini(&attach->plan);
}

static int follow(struct attach *attach, int nlast, const struct rg_jobs_place *place)
{
    rg_autostrv struct rg_strv hosts = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    int known = attach->job.exit_code;
    int r = rg_jobs_ask_place(attach->driver, place, &attach->job, &hosts, &err);

    if (r == -ENOENT && known >= 0) {
        rg_say("job %s has ended with exit code %d, and was removed", attach->job.id, known);
        return known;
    }
    if (r == 0 && (rg_loop_create(&attach->loop) < 0 || name_hosts(attach, &hosts) < 0))
        r = rg_error_memory(&err);
    r = r < 0 ? r : start(attach, nlast, &err);
    if (r == 0)
        rg_loop_run(attach->loop);
    else
        attach->exit_code = rg_fail(&err, "attach");
    release(attach);
    return attach->exit_code;
}

/* --- where there is nothing but its output ---------------------------------------------------- */

/* What a handler says; it gets no argument of ours. */
static char leave_words[256];

static void on_leave(int signo)
{
    size_t nbytes = strlen(leave_words);

    if (write(2, leave_words, nbytes) < 0)
        nbytes = 0; /* there is no better place to say it */
    _exit(RG_EXIT_SIGNAL + signo);
}

/* Nothing has to be cleaned up, whatever is done just now. */
static void leave_on_signals(const char *id)
{
    snprintf(leave_words, sizeof(leave_words),
             "\nreigen: left; job %.64s goes on, and reigen stop %.64s ends it\n", id, id);
    for (size_t i = 0; i < rg_array_len(leaving); i++) {
        if (signal(leaving[i], on_leave) == SIG_IGN) /* nohup */
            signal(leaving[i], SIG_IGN);
    }
}

/* Its output to the end, then how it has ended. */
static int show(const struct attach *attach, const char *id)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job now = { .exit_code = -1 };
    rg_cleanup(rg_registry_job_fini) struct rg_registry_job job = { 0 };
    char *argv[] = { (char *) "logs", (char *) "-f", (char *) id, NULL };
    int code = attach->driver ? 0 : rg_jobs_find("attach", id, &job), ended = -1;

    if (code == 0 && !job.ended)
        leave_on_signals(job.id ? job.id : id);
    rg_registry_job_fini(&job); /* it is as it was before its end */
    job = (struct rg_registry_job){ 0 };
    code = code ? code : rg_cmd_logs(3, argv);
    if (code)
        return code;
    if (attach->driver && rg_submitted_read(&attach->driver->platform, id, &now) == 0)
        ended = now.exit_code;
    else if (!attach->driver && rg_jobs_find("attach", id, &job) == 0)
        ended = job.exit_code;
    if (ended < 0)
        rg_say("job %s has ended, and could not say how%s", id,
               attach->driver ? "" : ": its launcher was killed");
    return ended < 0 ? RG_EXIT_UNAVAILABLE : ended;
}

int rg_cmd_attach(int argc, char **argv)
{
    struct attach attach = { .job = { .exit_code = -1 } };
    struct rg_jobs_place place = { { NULL } };
    const char *tail = NULL;
    struct rg_error err = RG_ERROR_INIT;
    int64_t nlast = 0;
    const struct rg_arg args[] = { { .name = "tail", .what = "LINES", .value = &tail },
                                   RG_JOBS_PLACE_ARGS(place), { NULL } };
    int n = rg_args_parse(argc, argv, args, 1);

    if (n < 0)
        return -1 - n;
    if (tail && rg_parse_int("--tail", tail, 1, LINES_MAX, &nlast, &err) < 0)
        return rg_fail_usage("attach", "attach %s", err.text);
    rg_autofree char *only = NULL;
    int code = n ? 0 : rg_jobs_find_only("attach", &place, &only);
    const char *id = n ? argv[1] : only;
    code = code ? code : rg_jobs_choose_finder("attach", &place, &attach.driver);
    if (code)
        return code;
    if (!attach.driver)
        attach.driver = rg_jobs_find_submitted(id, &attach.job);
    if (attach.driver && attach.driver->away) {
        attach.job.platform = &attach.driver->platform;
        snprintf(attach.job.id, sizeof(attach.job.id), "%s", id);
        n = follow(&attach, (int) nlast, &place);
    } else if (tail) {
        n = rg_fail_usage("attach", "attach --tail: of job %.80s all is shown; leave it out",
                          id);
    } else {
        n = show(&attach, id);
    }
    rg_submitted_fini(&attach.job);
    return n;
}
