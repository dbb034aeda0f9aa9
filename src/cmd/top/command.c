/* SPDX-License-Identifier: Apache-2.0 */
/* reigen top: numbers of a job come from its launcher, which runs here, or where a platform has put
 * it and leads us there; of each other job it is said where they are. */
#include "cmd/top/top.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/say.h"
#include "base/time.h"
#include "cmd/jobs/jobs.h"
#include "cmd/top/batch.h"
#include "cmd/top/screen.h"
#include "cmd/top/several.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"

#define READINGS_MAX 1000000000

struct asked {
    const char *id; /* NULL: all jobs */
    struct rg_jobs_place place;
    bool json;
    int64_t readings; /* 0: not said */
};

/* --- which jobs ------------------------------------------------------------------------------- */

static int fail_away(const char *id, const struct rg_platform *platform)
{
    struct rg_error err = RG_ERROR_INIT;

    rg_error_set_exit(&err, EHOSTUNREACH, RG_EXIT_UNAVAILABLE,
                      "job %s: %s tells a job's state and shows its log, but leads nobody to its "
                      "launcher, which has the numbers; reigen status %s tells the state, and "
                      "reigen logs -f %s shows stall reports and, at the end, who was waited for",
                      id, platform->title, id, id);
    return rg_fail(&err, "top");
}

/* It does not run, or not from here. */
static int fail_state(const struct rg_registry_job *job)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;

    rg_jobs_describe(job, NULL, &text);
    const char *line = rg_buf_text(&text);
    rg_error_set_exit(&err, ESRCH, RG_EXIT_UNAVAILABLE, "%.*s; reigen top shows jobs that run, "
                      "where their launchers do", (int) strcspn(line, "\n"), line);
    return rg_fail(&err, "top");
}

/* "1-02:03:04" or "2:03" as seconds. */
static uint64_t seconds_of(const char *elapsed)
{
    uint64_t seconds = 0, part = 0;

    for (; elapsed && *elapsed; elapsed++) {
        if (*elapsed >= '0' && *elapsed <= '9') {
            part = part * 10 + (uint64_t) (*elapsed - '0');
            continue;
        }
        seconds = (seconds + part) * (*elapsed == '-' ? 24 : 60);
        part = 0;
    }
    return seconds + part;
}

/* What is known of it, for a title. */
static int describe(const struct rg_submitted_job *submitted, struct rg_registry_job *ret_job)
{
    *ret_job = (struct rg_registry_job){
        .id = strdup(submitted->id),
        .command = strdup(submitted->command ? submitted->command : ""),
        .output = submitted->log && *submitted->log == '/' ? rg_strf("file %s", submitted->log)
                                                           : NULL,
        .began_s = rg_wall_ns() / RG_NS_PER_S - seconds_of(submitted->elapsed), .exit_code = -1,
    };
    if (ret_job->id && ret_job->command)
        return 0;
    rg_registry_job_fini(ret_job);
    return -ENOMEM;
}

static int fail_not_running(const struct rg_submitted_job *job)
{
    struct rg_error err = RG_ERROR_INIT;

    rg_error_set_exit(&err, ESRCH, RG_EXIT_UNAVAILABLE, "job %s: %s says %s; reigen top shows jobs "
                      "that run", job->id, job->platform->title,
                      job->word && *job->word ? job->word : "nothing of it");
    return rg_fail(&err, "top");
}

/* The platform's programs are asked before there is a loop. */
static int add_submitted(struct rg_top_jobs *jobs, const struct rg_driver_ops *driver,
                         struct rg_submitted_job *submitted)
{
    char *argv[] = { (char *) "ask", submitted->id, NULL };
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_registry_job job;
    struct rg_jobs_beside *beside;

    if (!driver->queue || !driver->queue->beside)
        return fail_away(submitted->id, &driver->platform);
    if (driver->queue->status(submitted, 1, &err) < 0)
        return rg_jobs_fail_submitted("top", submitted, &err);
    if (submitted->state != RG_SUBMITTED_RUNS)
        return fail_not_running(submitted);
    if (driver->queue->beside(submitted, argv, &words, &err) < 0)
        return rg_jobs_fail_submitted("top", submitted, &err);
    jobs->fixed = true;
    if (rg_loop_create(&jobs->loop) < 0 || describe(submitted, &job) < 0 ||
        rg_top_jobs_add(jobs, &job) < 0)
        return rg_jobs_fail_memory("top");
    if (rg_jobs_beside_create(jobs->loop, &words, RG_JOBS_BESIDE_END_MS, &beside, &err) < 0)
        return rg_jobs_fail_submitted("top", submitted, &err);
    rg_top_watch_by(jobs->watches[0], beside);
    return 0;
}

static int add_named(struct rg_top_jobs *jobs, const struct asked *asked)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job submitted = { .exit_code = -1 };
    rg_cleanup(rg_registry_job_fini) struct rg_registry_job job = { 0 };
    const struct rg_driver_ops *driver;
    int code = rg_jobs_find_at("top", asked->id, &asked->place, &submitted, &driver);

    if (code || driver)
        return code ? code : add_submitted(jobs, driver, &submitted);
    code = rg_jobs_find("top", asked->id, &job);
    if (code)
        return code;
    if (rg_registry_state(&job) != RG_JOB_RUNS)
        return fail_state(&job);
    jobs->fixed = true;
    if (rg_loop_create(&jobs->loop) < 0 || rg_top_jobs_add(jobs, &job) < 0)
        return rg_jobs_fail_memory("top");
    return 0;
}

/* The only job is one that was submitted, and there was a loop already. */
static int add_only(struct rg_top_jobs *jobs, struct rg_submitted_job *submitted)
{
    size_t i = 0;

    rg_loop_destroy(rg_steal_ptr(&jobs->loop));
    while (rg_drivers[i] && &rg_drivers[i]->platform != submitted->platform)
        i++;
    return rg_drivers[i] ? add_submitted(jobs, rg_drivers[i], submitted)
                         : fail_away(submitted->id, submitted->platform);
}

/* There is none here; where a platform runs the only one, that is shown. */
static int look_away(struct rg_top_jobs *jobs)
{
    for (size_t i = 0; i < jobs->submitted.count; i++) {
        struct rg_submitted_job *job = &jobs->submitted.jobs[i];
        if (job->state != RG_SUBMITTED_ENDED && job->exit_code < 0)
            return add_only(jobs, job);
    }
    if (jobs->elsewhere.count)
        return fail_state(&jobs->elsewhere.jobs[0]);
    return rg_fail_usage("top", "top: no job of yours runs; reigen jobs --all lists those that "
                                "ended last");
}

static int add_all(struct rg_top_jobs *jobs)
{
    /* Platforms are asked by programs, whose ends a loop of ours would take for its own. */
    if (rg_jobs_list_submitted(&jobs->submitted) < 0 || rg_loop_create(&jobs->loop) < 0 ||
        rg_top_jobs_find(jobs) < 0)
        return rg_jobs_fail_memory("top");
    if (jobs->count == 0 && rg_top_jobs_others(jobs) < 2)
        return look_away(jobs);
    jobs->fixed = jobs->count == 1 && rg_top_jobs_others(jobs) == 0;
    return 0;
}

/* --- the command ------------------------------------------------------------------------------ */

static int show(struct rg_top_jobs *jobs, const struct asked *asked)
{
    int code = asked->id ? add_named(jobs, asked) : add_all(jobs);
    bool screen = isatty(0) && isatty(1) && rg_terminal_smart() && !asked->json;

    if (code)
        return code;
    if (screen)
        return rg_top_screen(jobs, jobs->fixed, asked->readings);
    return rg_top_batch(jobs, jobs->fixed, asked->readings ? asked->readings : 1, asked->json);
}

int rg_cmd_top(int argc, char **argv)
{
    struct asked asked = { 0 };
    struct rg_top_jobs jobs = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    const char *readings = NULL;
    const struct rg_arg args[] = { { .name = "json", .flag = &asked.json },
                                   { .name = "readings", .letter = 'n', .what = "COUNT",
                                     .value = &readings },
                                   RG_JOBS_PLACE_ARGS(asked.place), { NULL } };
    int n = rg_args_parse(argc, argv, args, 1);

    if (n < 0)
        return -1 - n;
    asked.id = n ? argv[1] : NULL;
    if (readings && rg_parse_int("-n", readings, 1, READINGS_MAX, &asked.readings, &err) < 0)
        return rg_fail_usage("top", "top %s", err.text);
    if (!asked.id && rg_jobs_names_place(&asked.place))
        return rg_fail_usage("top", "top: which job is meant there? give its name");
    int code = show(&jobs, &asked);
    struct rg_loop *loop = jobs.loop;
    rg_top_jobs_fini(&jobs);
    rg_loop_destroy(loop);
    return code;
}
