/* SPDX-License-Identifier: Apache-2.0 */
/* `reigen run`: from its command line to a job that the head runs, shows or writes down. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/common/command.h"
#include "cmd/common/exit.h"
#include "cmd/common/terminal.h"
#include "cmd/head/head.h"
#include "cmd/run/dryrun.h"
#include "cmd/run/run.h"
#include "cmd/show/events.h"
#include "base/exitcode.h"
#include "launch/drivers/drivers.h"
#include "launch/jobs/submitted.h"
#include "launch/plan/sizes.h"
#include "spec/horovodrun/horovodrun.h"

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
    return r < 0 ? r : rg_print(rg_buf_text(&text));
}

static int write_plan(void *path, const struct rg_planned *planned, bool here,
                      struct rg_error *err)
{
    (void) here;
    return rg_planned_write(planned, path, err);
}

bool rg_run_find_beside(const char *name, char ret_path[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
    const char *slash = n > 0 ? memrchr(self, '/', (size_t) n) : NULL;

    return slash && snprintf(ret_path, PATH_MAX, "%.*s/%s", (int) (slash - self), self, name) <
                        PATH_MAX && access(ret_path, X_OK) == 0;
}

void rg_run_say_remarks(const struct rg_request *request)
{
    char text[RG_DRIVER_REMARK_MAX];

    for (size_t i = 0; rg_drivers[i] && !request->quiet; i++) {
        if (rg_drivers[i]->remark && rg_drivers[i]->remark(&request->job, text, sizeof(text)))
            fprintf(stderr, "reigen: %s\n", text);
    }
}

/* Move from the request what a plan has. */
static void take(struct rg_request *request, struct rg_planned *ret_planned)
{
    *ret_planned = (struct rg_planned){
        .job = request->job, .notes = request->notes, .display_map = request->display_map,
        .report_bindings = request->report_bindings, .quiet = request->quiet,
    };
    request->job = (struct rg_job){ 0 };
    request->notes = (struct rg_strv) RG_STRV_INIT;
}

/* The job's head will read the plan, and find out the hosts. */
static int hand_over(const struct rg_driver_ops *driver, const struct rg_planned *planned,
                     struct rg_submitted_job *job, struct rg_error *err)
{
    rg_autofree char *path = rg_submitted_plan(&driver->platform, err);
    char *argv[] = { (char *) "head", (char *) "--plan", path, NULL };
    int r = path ? rg_planned_write(planned, path, err) : -err->errnum;

    if (r == 0)
        r = driver->submit(&planned->job, argv, job, err);
    if (r < 0 && path)
        unlink(path);
    if (r < 0)
        err->exit_code = err->exit_code ? err->exit_code : RG_EXIT_UNAVAILABLE;
    return r;
}

/* --submit: hand the job over and print its id. */
static int submit(struct rg_request *request)
{
    const struct rg_driver_ops *driver = rg_driver_choose(&request->job);
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job job = { .platform = &driver->platform,
                                                                  .exit_code = -1 };
    RG_AUTO_PLANNED struct rg_planned planned;
    struct rg_error err = RG_ERROR_INIT;

    take(request, &planned);
    if (hand_over(driver, &planned, &job, &err) < 0)
        return rg_fail(&err, "run");
    int r = rg_submitted_add(&job, &planned.job);
    if (r < 0) {
        rg_error_set(&err, -r, "job %s was submitted, but no note of it can be written: %s", job.id,
                     strerror(-r));
        return rg_fail(&err, "run");
    }
    if (!request->quiet)
        fprintf(stderr, "reigen: submitted as job %s; reigen logs -f %s shows its output\n",
                job.id, job.id);
    rg_autofree char *line = rg_strf("%s\n", job.id);
    return rg_print(line ? line : "");
}

int rg_run_request(struct rg_request *take_request, const char *command, bool horovod,
                   bool stdin_open)
{
    rg_cleanup(rg_request_fini) struct rg_request request = *take_request;
    const struct rg_driver_ops *driver = rg_driver_choose(&request.job);
    RG_AUTO_PLANNED struct rg_planned planned;
    struct rg_head_as head = { command, horovod, stdin_open, NULL, NULL };
    struct rg_error err = RG_ERROR_INIT;

    *take_request = (struct rg_request){ 0 };
    if (request.job.dry_run)
        head.instead = print_dry_run;
    else if ((head.arg = request.write_plan))
        head.instead = write_plan;
    take(&request, &planned);
    /* What is not known before there are hosts is found out where it runs. */
    if (head.instead == write_plan && driver->acquire)
        return rg_planned_write(&planned, request.write_plan, &err) < 0
                   ? rg_fail(&err, command) : 0;
    return rg_head_run(&planned, &head);
}

int rg_run_parse(struct rg_request *request, int argc, char *const *argv, struct rg_error *err)
{
    int rc = rg_request_parse(request, argc, argv, err);
    const char *name = request->unknown ? request->unknown + strspn(request->unknown, "-") : "";
    rg_autofree char *flag = strndup(name, strcspn(name, "="));

    if (rc < 0 && flag && strlen(flag) > 2 && rg_hvd_option_find(flag))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "%.80s: a flag of horovodrun's; write reigen horovodrun instead "
                                 "of reigen run; it takes the options of both", request->unknown);
    return rc;
}

int rg_cmd_run(int argc, char **argv)
{
    rg_cleanup(rg_request_fini) struct rg_request request;
    struct rg_error err = RG_ERROR_INIT;
    bool open[3];

    rg_stdio_ensure(open);
    rg_request_init(&request);
    if (rg_run_parse(&request, argc, argv, &err) < 0)
        return rg_fail(&err, "run");
    if (request.help)
        return RG_COMMAND_HELP;
    if (request.version)
        return rg_print("reigen " RG_VERSION "\n");
    if (request.job.submit && !request.job.dry_run && !request.write_plan)
        return rg_sizes_check(&request.job, &err) < 0 ? rg_fail(&err, "run") : submit(&request);
    rg_run_say_remarks(&request);
    return rg_run_request(&request, "run", false, open[0]);
}
