/* SPDX-License-Identifier: Apache-2.0 */
/* `reigen run`: from its command line to a job that the head runs, shows or writes down. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process/self.h"
#include "base/say.h"
#include "base/time.h"
#include "head/console/command.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"
#include "head/head.h"
#include "cmd/run/away.h"
#include "cmd/run/detach.h"
#include "cmd/run/dryrun.h"
#include "cmd/run/run.h"
#include "head/show/events.h"
#include "base/exitcode.h"
#include "platform/drivers.h"
#include "job/horovodrun/horovodrun.h"
#include "platform/openpai/jobfile/pai.h"

static int print_dry_run(void *arg, const struct rg_planned *planned, bool here,
                         struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int r = 0;

    (void) arg;
    if (planned->job.json)
        rg_event_plan(&text, "plan", &planned->job, &planned->plan);
    else
        r = rg_dryrun_print(&planned->plan, &planned->job, here, &text, err);
    return r < 0 ? r : rg_print_exact(rg_buf_text(&text));
}

static int write_plan(void *path, const struct rg_planned *planned, bool here,
                      struct rg_error *err)
{
    (void) here;
    return rg_planned_write(planned, path, err);
}

static bool say_remark(const struct rg_driver_ops *driver, const struct rg_job *job)
{
    char text[RG_DRIVER_REMARK_MAX];
    bool has = driver->remark && driver->remark(job, text, sizeof(text));

    if (has)
        rg_say("%s", text);
    return has;
}

static bool say_remarks(const struct rg_job *job, bool here)
{
    bool said = false;

    for (size_t i = 0; rg_drivers[i]; i++)
        if (rg_drivers[i]->platform.here == here)
            said |= say_remark(rg_drivers[i], job);
    return said;
}

/* Who hears that the job belongs elsewhere need not hear what it lacks here. */
void rg_run_say_remarks(const struct rg_request *request)
{
    if (!request->quiet && !say_remarks(&request->job, false))
        say_remarks(&request->job, true);
}

void rg_run_tell(const char *sentence)
{
    rg_say("%s", sentence);
}

void rg_run_take(struct rg_request *request, struct rg_planned *ret_planned)
{
    *ret_planned = (struct rg_planned){
        .job = request->job, .notes = request->notes, .display_map = request->display_map,
        .report_bindings = request->report_bindings, .quiet = request->quiet,
    };
    if (ret_planned->job.timestamps)
        ret_planned->job.zone_min = RG_JOB_DAY_MIN + rg_zone_min(time(NULL));
    request->job = (struct rg_job){ 0 };
    request->notes = (struct rg_strv) RG_STRV_INIT;
}

/* Signals that end us wait until release_signals, so that nothing is left of which nobody knows. */
static void hold_signals(sigset_t *ret_held, sigset_t *ret_before)
{
    static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction old;

    sigemptyset(ret_held);
    for (size_t i = 0; i < rg_array_len(ending); i++) {
        if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaddset(ret_held, ending[i]);
    }
    sigprocmask(SIG_BLOCK, ret_held, ret_before);
}

static void release_signals(const sigset_t *held, const sigset_t *before, const char *id)
{
    sigset_t came;

    sigpending(&came);
    sigandset(&came, &came, held);
    if (!sigisemptyset(&came))
        rg_say("job %s was submitted all the same; reigen stop %s ends it", id, id);
    sigprocmask(SIG_SETMASK, before, NULL);
}

/* --submit: hand the job over and print its id. */
static int submit(struct rg_request *request)
{
    sigset_t held, before;
    const struct rg_driver_ops *driver = rg_driver_choose(&request->job);
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job job = { .platform = &driver->platform,
                                                                  .exit_code = -1 };
    RG_AUTO_PLANNED struct rg_planned planned;
    struct rg_error err = RG_ERROR_INIT;

    rg_run_take(request, &planned);
    int r = rg_away_plan(driver, request, &planned, &err);
    if (r == 0 && driver->platform.away) /* else the head says them */
        rg_away_say_notes(&planned);
    hold_signals(&held, &before);
    r = r < 0 ? r : rg_away_submit(driver, &planned, &job, &err);
    if (r < 0)
        return rg_fail(&err, "run");
    rg_away_say_remarks(&planned, &job);
    if (!request->quiet)
        rg_say("submitted as job %s; reigen logs -f %s shows its output", job.id, job.id);
    rg_autofree char *line = rg_strf("%s\n", job.id);
    int code = rg_print(line ? line : "");
    release_signals(&held, &before, job.id);
    return code;
}

int rg_run_request(struct rg_request *take_request, const char *command, bool horovod,
                   bool stdin_open)
{
    rg_cleanup(rg_request_fini) struct rg_request request = *take_request;
    const struct rg_driver_ops *driver = rg_driver_choose(&request.job);
    RG_AUTO_PLANNED struct rg_planned planned;
    struct rg_head_as head = { .command = command, .horovod = horovod, .stdin_open = stdin_open };
    struct rg_error err = RG_ERROR_INIT;

    *take_request = (struct rg_request){ 0 };
    if (request.job.dry_run)
        head.instead = print_dry_run;
    else if ((head.arg = request.write_plan))
        head.instead = write_plan;
    rg_run_take(&request, &planned);
    if (driver->platform.away && head.instead == print_dry_run)
        return rg_away_describe(driver, &request, &planned, command);
    if (driver->platform.away && !head.instead)
        return rg_away_run(driver, &request, &planned, command);
    /* What is not known before there are hosts is found out where it runs. */
    if (head.instead == write_plan && driver->acquire)
        return rg_planned_write(&planned, request.write_plan, &err) < 0
                   ? rg_fail(&err, command) : 0;
    if (planned.job.detach && !head.instead)
        return rg_detach_run(&planned, &head);
    return rg_head_run(&planned, &head);
}

int rg_run_parse(struct rg_request *request, int argc, char *const *argv, struct rg_error *err)
{
    request->read_other = rg_pai_request;
    int rc = rg_request_parse(request, argc, argv, err);
    const char *name = request->unknown ? request->unknown + strspn(request->unknown, "-") : "";
    rg_autofree char *flag = strndup(name, strcspn(name, "="));

    if (rc < 0 && flag && strlen(flag) > 2 && rg_hvd_option_find(flag))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "%.80s: a flag of horovodrun's; write reigen horovodrun instead "
                                 "of reigen run; it takes the options of both", request->unknown);
    return rc;
}

/* The ranks are in containers. */
static bool has_containers(const struct rg_job *job)
{
    const char *image = job->container.image;

    return (image && strcmp(image, "none") != 0) ||
           rg_driver_choose(job)->platform.own_containers;
}

/* The first word of the command is this program's file. */
static int name_self(struct rg_job *job, struct rg_error *err)
{
    char self[PATH_MAX];

    if (rg_self_path(self) < 0)
        return 0;
    char *copy = strdup(self);
    if (!copy)
        return rg_error_memory(err);
    free(job->command.v[0]);
    job->command.v[0] = copy;
    return 0;
}

static int run(int argc, char **argv, bool self)
{
    rg_cleanup(rg_request_fini) struct rg_request request;
    struct rg_error err = RG_ERROR_INIT;
    bool open[3];

    rg_stdio_ensure(open);
    rg_request_init(&request);
    request.configured = true;
    request.tell = rg_run_tell;
    if (rg_run_parse(&request, argc, argv, &err) < 0)
        return rg_fail(&err, "run");
    if (request.help)
        return RG_COMMAND_HELP;
    if (request.version)
        return rg_print("reigen " RG_VERSION "\n");
    if (self && rg_strv_has(&request.usual, "detach")) /* somebody waits for its figures */
        request.job.detach = false;
    if (self && !has_containers(&request.job) && name_self(&request.job, &err) < 0)
        return rg_fail(&err, "run");
    if (request.job.submit && !request.job.dry_run && !request.write_plan)
        return submit(&request);
    rg_run_say_remarks(&request);
    return rg_run_request(&request, "run", false, open[0]);
}

int rg_cmd_run(int argc, char **argv)
{
    return run(argc, argv, false);
}

int rg_run_self(int argc, char **argv)
{
    return run(argc, argv, true);
}
