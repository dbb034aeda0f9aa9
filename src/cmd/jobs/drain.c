/* SPDX-License-Identifier: Apache-2.0 */
/* reigen drain: a host of an elastic job is to be free, and the job goes on without it. The
 * launcher does it; here it is waited for. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/say.h"
#include "base/time.h"
#include "cmd/jobs/jobs.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "launch/control/control.h"

#define LOOK_MS 100 /* from one look at it to the next */

/* --- what the launcher says ------------------------------------------------------------------- */

static int refuse_fixed(const struct rg_registry_job *job)
{
    return rg_fail_usage("drain", "drain: job %s is not elastic, and keeps the hosts that it "
                         "began with; reigen run --min-np N starts one that is", job->id);
}

static int refuse(const struct rg_registry_job *job, const char *host, const json_t *answer)
{
    const char *error = json_string_value(json_object_get(answer, "error"));
    const char *why = error ? error : "";
    const json_t *hosts = json_object_get(answer, "hosts"), *one;
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;
    int has = (int) json_integer_value(json_object_get(answer, "has"));
    size_t i;

    if (strcmp(why, "fixed") == 0)
        return refuse_fixed(job);
    json_array_foreach(hosts, i, one)
        rg_buf_printf(&names, "%s%s", i ? ", " : "", json_string_value(one));
    if (strcmp(why, "no-host") == 0)
        return rg_fail_usage("drain", "drain %s: job %s has no such host; it has %s", host, job->id,
                             rg_buf_text(&names));
    if (strcmp(why, "too-few") == 0)
        rg_error_set_exit(&err, EBUSY, RG_EXIT_UNAVAILABLE,
                          "drain %s: without it there is room for %d rank%s, and job %s needs %lld "
                          "(--min-np); let it have another host first, or use --force", host, has,
                          has == 1 ? "" : "s", job->id,
                          (long long) json_integer_value(json_object_get(answer, "needs")));
    else
        rg_error_set_exit(&err, EPROTO, RG_EXIT_UNAVAILABLE,
                          "drain %s: the launcher of job %s is of another version of Reigen", host,
                          job->id);
    return rg_fail(&err, "drain");
}

static int fail_to_ask(const struct rg_registry_job *job, int r)
{
    struct rg_error err = RG_ERROR_INIT;

    if (r == -ECONNREFUSED)
        return refuse_fixed(job);
    rg_error_set_exit(&err, -r, RG_EXIT_UNAVAILABLE, "drain: the launcher of job %s: %s", job->id,
                      r == -ETIMEDOUT ? "it does not answer" : strerror(-r));
    return rg_fail(&err, "drain");
}

/* --- until the host is free ------------------------------------------------------------------- */

/* The job may end meanwhile; then it is free, too. */
static int wait_until_free(const struct rg_registry_job *job, const char *host)
{
    bool there = true;

    while (there) {
        json_t *elastic = rg_jobs_ask_elastic(job, host);
        there = elastic ? json_array_size(json_object_get(elastic, "hosts")) > 0
                        : !rg_registry_is_over(job);
        json_decref(elastic);
        if (there)
            rg_sleep_ms(LOOK_MS);
    }
    rg_autofree char *line = rg_strf("drained %s\n", host);

    return rg_print(line ? line : "drained\n");
}

static int drain(const struct rg_registry_job *job, const struct rg_control_request *request)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int r = rg_control_ask(rg_registry_id_now(job), request, RG_JOBS_ASK_MS, &text);

    if (r < 0)
        return fail_to_ask(job, r);
    json_t *answer = json_loadb((const char *) rg_buf_bytes(&text), rg_buf_nbytes(&text), 0, NULL);
    int code = json_is_object(answer) && !json_object_get(answer, "error")
                   ? 0 : refuse(job, request->host, answer);

    json_decref(answer);
    return code ? code : wait_until_free(job, request->host);
}

static int drain_job(const char *id, const struct rg_control_request *request)
{
    rg_cleanup(rg_submitted_fini) struct rg_submitted_job submitted = { .exit_code = -1 };
    rg_cleanup(rg_registry_job_fini) struct rg_registry_job job = { 0 };
    struct rg_error err = RG_ERROR_INIT;

    if (rg_jobs_find_submitted(id, &submitted))
        return rg_fail_usage("drain", "drain: on %s a job keeps the hosts that it begins with",
                             submitted.platform->title);
    int code = rg_jobs_find("drain", id, &job);
    if (code)
        return code;
    enum rg_registry_state state = rg_registry_state(&job);
    if (state == RG_JOB_RUNS)
        return drain(&job, request);
    if (state == RG_JOB_ELSEWHERE)
        rg_error_set_exit(&err, EXDEV, RG_EXIT_UNAVAILABLE,
                          "job %s was started on %.*s: drain its host there", job.id,
                          (int) strcspn(job.launcher, ":"), job.launcher);
    else
        rg_error_set_exit(&err, ESRCH, RG_EXIT_USAGE, "drain: job %s has ended, and uses no host",
                          job.id);
    return rg_fail(&err, "drain");
}

int rg_cmd_drain(int argc, char **argv)
{
    struct rg_control_request request = { .question = RG_CONTROL_DRAIN };
    struct rg_error err = RG_ERROR_INIT;
    const char *deadline = NULL;
    const struct rg_arg args[] = { { .name = "deadline", .what = "TIME", .value = &deadline },
                                   { .name = "force", .flag = &request.force },
                                   { NULL } };
    int n = rg_args_parse(argc, argv, args, 2);

    if (n < 0)
        return -1 - n;
    if (n < 2)
        return rg_fail_usage("drain", "drain: give a job's id, or its beginning, and one of its "
                                      "hosts; reigen status shows them");
    if (deadline &&
        (rg_parse_duration_ms("--deadline", deadline, &request.deadline_ms, &err) < 0 ||
         request.deadline_ms == 0))
        return rg_fail_usage("drain", "drain --deadline %s: give a time above 0, such as 30 or 2m",
                             deadline);
    if (snprintf(request.host, sizeof(request.host), "%s", argv[2]) >= (int) sizeof(request.host))
        return rg_fail_usage("drain", "drain %.80s...: no host has such a long name", argv[2]);
    return drain_job(argv[1], &request);
}
